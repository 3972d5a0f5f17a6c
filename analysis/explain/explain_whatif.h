#pragma once

#include "analysis/explain/explain_print.h"
#include "shared/cluster/cluster.h"

enum { LW_N_WHAT_IFS = 7 };

/* The plan as it is and with one thing changed each, simulated on the cluster at collective detail
 * without noise. The plan's works are changed and put back. out holds LW_N_WHAT_IFS. *stats: of the
 * plan as it is, which borrows the cluster. */
enum lw_status lw_explain_what_ifs(struct lw_plan *plan, const struct lw_cluster *cluster,
                                   struct lw_what_if *out, int *n, struct lw_sim_stats *stats,
                                   struct lw_err *err);
