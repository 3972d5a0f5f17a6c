#pragma once

#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "traces/graph/graph.h"
#include "traces/replay/to_replay.h"

/* Graphs of the ranks of one run as a plan: a role for each rank, nodes in an order that respects
 * their dependencies. Nodes of known duration take it; a collective that several ranks recorded
 * takes the shortest of theirs, as the last to arrive waited least. */

/* g[n], checked. rule: what is timed anew; NULL = nothing.
 * LW_EFORMAT: a rank missing (which), ranks given twice, collectives that differ between ranks, a
 * send without its receive. Free with lw_plan_free. */
enum lw_status traces_graphs_plan(const struct traces_graph *g, int n,
                                  const struct traces_replay_rule *rule, struct lw_plan *out,
                                  struct lw_err *err);

/* The number that names a rank in a file name ("rank3", "trace.3.et"); -1 = none. */
int32_t traces_rank_of_name(const char *file);
