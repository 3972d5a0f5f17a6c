#pragma once

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"

/* Remarks of NCCL's model on a plan as a whole, each passed to `say`. LW_ENOTSUP: a reducer of NCCL
 * that no operation of the plan can use on the cluster. LW_EINVAL: a version without constants. */
typedef void sim_nccl_say(void *ctx, const char *remark);
enum lw_status sim_nccl_check_plan(const struct lw_cluster *cluster, const struct lw_plan *plan,
                                   sim_nccl_say *say, void *ctx, struct lw_err *err);
