#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* How large a plan will be, said before any of it is made. See docs/design/lower.md. */
struct lw_plan_size {
    int64_t ops;   /* of all roles and variants: no fewer than there are */
    int64_t bytes; /* of memory that planning and predicting a step takes, about */
    bool repeats;  /* ops of a module are written for four micro-batches and more */
};

/* LW_PLAN_OPS_LIMIT is the default of --max-ops, and the second what a plan can hold. */
enum { LW_PLAN_OPS_LIMIT = 40000000, LW_PLAN_OPS_MOST = INT32_MAX / 4 };

/* Of a strategy that fits the workload. */
struct lw_plan_size lw_plan_size_estimate(const struct lw_workload *w,
                                          const struct lw_strategy *s);

/* LW_EINVAL: more ops than s->max_ops, with what shrinks them. */
enum lw_status lw_plan_size_check(const struct lw_workload *w, const struct lw_strategy *s,
                                  struct lw_err *err);
