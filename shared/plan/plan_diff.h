#ifndef LW_SHARED_PLAN_PLAN_DIFF_H
#define LW_SHARED_PLAN_PLAN_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/plan/plan.h"

/* The first decision in which two plans differ, in words ("--bucket-cap: 1048576 in the first,
 * 26214400 in the second"); false and "" when they decide the same. Decisions are taken in the
 * order in which one follows from another: strategy, ranks, parameters, buckets, shards, passes,
 * ops. */
bool lw_plan_diff(const struct lw_plan *a, const struct lw_plan *b, char *text, size_t room);

/* Where the buckets [first, first + n) leave in a variant: backward time of the synchronised
 * micro-batch before that, and gradients complete by then. op -1: the variant does not reduce
 * it. One walk over the ops for all of them. */
struct lw_launch_point {
    lw_ps at;
    int32_t n_ready, op;
};
void lw_plan_launch_points(const struct lw_plan *p, int32_t variant, int32_t first, int32_t n,
                           struct lw_launch_point *out);

#endif
