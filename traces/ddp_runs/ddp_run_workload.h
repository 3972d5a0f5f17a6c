#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/workload/workload.h"

/* Data-parallel training over gloo on CPUs, from what can be measured before the run: the step
 * and the gradients' ready times of a process without synchronisation, and the network's
 * microbenchmark. The result goes through the same plan and the same engine as everything else.
 * docs/design/ddp_runs.md. */
struct lw_groundtruth;

/* LW_EFORMAT names what is missing or contradicts itself. */
enum lw_status lw_gloo_workload(const struct lw_groundtruth *g, struct lw_workload *w,
                                struct lw_err *err);
enum lw_status lw_gloo_cluster(const struct lw_groundtruth *g, struct lw_cluster *c,
                               struct lw_err *err);
