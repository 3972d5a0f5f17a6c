#pragma once

#include "analysis/published/run_table.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* What a plan does not say of what its ranks hold throughout: buckets, weights of blocks' products
 * that are 8-bit numbers, an optimizer's state of another size, where the framework has them. */
void lw_run_hold(const struct lw_run *r, struct lw_plan *plan);

/* Bytes that the row's kind of figure shows (run->memory): the tensors of the fullest rank, unless
 * it names another rank or kind. device_share: of the blocks' time with their host's, the
 * device's alone. */
double lw_run_shown_bytes(const struct lw_run *r, const struct lw_plan *plan,
                          const struct lw_device *d, const struct lw_summary *s,
                          double device_share);
/* Bytes that the allocator of the fullest rank needs, beside the framework's own. */
double lw_run_needed_bytes(const struct lw_run *r, const struct lw_plan *plan,
                           const struct lw_summary *s);
