#pragma once

#include "shared/cli/cli.h"
#include "shared/cluster/cluster.h"
#include "shared/strategy/reducer_kind.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* `lapwing cost --measured`: every row of a measured table beside what the cluster's model gives
 * for it. The cluster's own tables are not asked. */
enum lw_status lw_measured_costs_print(const struct lw_cluster *cluster, const char *file,
                                       const struct traces_bench_hint *hint,
                                       enum lw_reducer_kind algorithm, enum lw_format format,
                                       struct lw_err *err);
