#pragma once

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/workload/workload.h"

/* The workload on another device: each module's times by the ratio of its roofline there and
 * here, the larger of FLOPs over the peak and bytes over the memory bandwidth; ready times move
 * with the backward windows, the optimizer by memory bandwidth alone; gaps of the host stay.
 * LW_ENOTSUP names the module without FLOPs and bytes, or the device without a figure; the
 * workload is then as it was. */
enum lw_status lw_workload_retime(struct lw_workload *w, const struct lw_device *from,
                                  const struct lw_device *to, struct lw_err *err);
/* A plan on another device, as the plan of the workload made for that device has it, apart from
 * rounding and from decisions that depend on times: each work by the ratio of its roofline, the
 * optimizer by memory bandwidth, a recomputation without FLOPs and bytes as its module. The hash
 * becomes that of the new times. LW_ENOTSUP names the op, or the device without a figure; the plan
 * is then as it was. */
enum lw_status lw_plan_retime(struct lw_plan *p, const struct lw_device *from,
                              const struct lw_device *to, struct lw_err *err);

/* Whether each module, or each op of a plan, that takes time holds FLOPs or bytes: what the
 * functions above need of the file. False too when memory runs out. */
bool lw_workload_can_retime(const struct lw_workload *w);
bool lw_plan_can_retime(const struct lw_plan *p);
