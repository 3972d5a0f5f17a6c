#pragma once

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "traces/workload/to_workload.h"

/* What traces of data-parallel ranks tell of the links: a measured table per collective, element
 * type, group size and number in flight. Times of one rank contain waiting for the others (upper
 * bounds); with all ranks of the run the k-th collectives are matched and the shortest counts.
 * What a plan needs beyond them is filled and says so in its source: the device's memory bandwidth
 * from `memory`, the link's bandwidth and latency from the all-reduces, the world size from the
 * number of traces where none of them tells it.
 * LW_EFORMAT: no collective of known size. */
enum lw_status lw_cluster_from_traces(const struct traces_source *source, int n,
                                      const struct traces_memory *memory, struct lw_cluster *out, struct lw_err *err);
