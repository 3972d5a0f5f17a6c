#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/partition/pipedream_graph.h"
#include "shared/workload/workload.h"

/* Profiles of PipeDream's profiler: graph.txt as it writes it, or the two CSV files of
 * shared/partition/pipedream_graph.h. See docs/design/import_pipedream.md. */
struct lw_input;

bool traces_pipedream_is(const char *text, size_t len);

/* LW_EFORMAT names file and line. */
enum lw_status traces_pipedream_read(const struct lw_input *in, struct lw_profile_graph *out,
                                     struct lw_err *err);

/* One step of one micro-batch: a module per node in an order that respects the edges, a parameter
 * (float32) per node that has some. `file` and `hash` say where it comes from. LW_EFORMAT: a cycle,
 * no node that computes. */
enum lw_status lw_workload_from_pipedream(const struct lw_profile_graph *g, const char *file,
                                          const char *hash, struct lw_workload *out,
                                          struct lw_err *err);
