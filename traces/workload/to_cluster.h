#pragma once

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "traces/workload/to_workload.h"

/* Links as traces of data-parallel ranks show them: a measured table per collective, element type,
 * group size and number in flight. Times of one rank contain waiting for the others (upper bounds);
 * with all ranks of the run the k-th collectives are matched and the shortest counts. What a plan
 * needs beyond them is filled and says so in its source: the device's memory bandwidth from
 * `memory`, the link's bandwidth and latency from the all-reduces, the world size from the number
 * of traces where none of them gives it.
 * LW_EFORMAT: no collective of known size. */
enum lw_status lw_cluster_from_traces(const struct traces_source *source, int n,
                                      const struct traces_memory *memory, struct lw_cluster *out,
                                      struct lw_err *err);

/* The link that a table of all-reduces shows (rows and ranks as cluster files demand). A ring of n
 * ranks moves 2(n-1)/n of its bytes over each link in 2(n-1) steps. Where the smallest row has at
 * most half the largest row's bytes, the line through both gives rate and latency. Else, and where
 * the line has no latency above 0, false: latency 0, the rate is the largest row's bytes / time. */
bool traces_link_of_rows(const struct lw_cost_table *t, double *bytes_per_s, double *latency_ps);
