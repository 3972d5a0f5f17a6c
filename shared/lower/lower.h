#pragma once

#include <stdbool.h>

#include "shared/plan/cost.h"
#include "shared/plan/plan.h"
#include "shared/strategy/policies.h"
#include "shared/workload/workload.h"

/* Lower a workload under a strategy into a plan: groups, buckets, reducer, shards, programs; hashed
 * and checked. `cost` is asked only by policies that need one and may be NULL (they then refuse).
 * LW_EINVAL: the strategy contradicts itself or the workload; LW_ENOTSUP: this build cannot lower
 * it, with the reason. The plan owns its memory. See docs/design/lower.md. */
enum lw_status lw_plan_build(const struct lw_workload *w, const struct lw_strategy *s,
                             const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err);
/* The same plan of a workload that nothing else needs: it is freed, also on failure, before the
 * plan is proven, and its modules and parameters share rows while it is planned. */
enum lw_status lw_plan_build_freeing(struct lw_workload *w, const struct lw_strategy *s,
                                     const struct lw_cost *cost, struct lw_plan *plan,
                                     struct lw_err *err);
/* The same plan for a search, which checks those that it shows: not checked by lw_plan_check,
 * without a hash, and with the shards of the first owner alone, since others are not simulated. */
enum lw_status lw_plan_draft(const struct lw_workload *w, const struct lw_strategy *s,
                             const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err);

/* The gradient buckets of the last pass of that plan, decided without writing it. */
struct lw_settled_buckets {
    int32_t n;
    enum lw_bucket_policy_id policy; /* that made them */
    int64_t next_cap_bytes; /* smaller caps from the strategy's on make the same ones; INT64_MAX:
                             * all do. Undefined where the policy takes no cap. */
};
enum lw_status lw_plan_settled_buckets(const struct lw_workload *w, const struct lw_strategy *s,
                                       const struct lw_cost *cost, struct lw_settled_buckets *out,
                                       struct lw_err *err);
