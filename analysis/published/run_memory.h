#pragma once

#include "analysis/published/run_table.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* What a plan does not say of its ranks' memory: gradients of the parameters' type beside their
 * sums, and weights of blocks' products that are 8-bit numbers, where the framework has them. */
void lw_run_hold(const struct lw_run *r, struct lw_plan *plan);

/* Bytes that the row's kind of figure shows (run->memory): the tensors of the fullest rank, unless
 * it names another rank or kind. */
double lw_run_shown_bytes(const struct lw_run *r, const struct lw_device *d,
                          const struct lw_summary *s);
/* Bytes that the allocator of the fullest rank needs, beside the framework's own. */
double lw_run_needed_bytes(const struct lw_run *r, const struct lw_summary *s);
