#ifndef LW_TRACES_WORKLOAD_TO_CLUSTER_H
#define LW_TRACES_WORKLOAD_TO_CLUSTER_H

#include "shared/plan/cluster.h"
#include "shared/base/err.h"
#include "traces/workload/to_workload.h"

/* What traces of data-parallel ranks tell of the links: a measured table per collective, element
 * type, group size and number in flight. Times of one rank contain waiting for the others (upper
 * bounds); with all ranks of the run the k-th collectives are matched and the shortest counts.
 * LW_EFORMAT: no collective of known size. */
enum lw_status lw_cluster_from_traces(const struct traces_source *source, int n,
                                      struct lw_cluster *out, struct lw_err *err);

#endif
