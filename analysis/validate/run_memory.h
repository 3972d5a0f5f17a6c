#ifndef LW_ANALYSIS_VALIDATE_RUN_MEMORY_H
#define LW_ANALYSIS_VALIDATE_RUN_MEMORY_H

#include "analysis/validate/run_table.h"
#include "shared/plan/cluster.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* Beside its sums each rank holds gradients of its parameters' type, where the framework does. */
void lw_run_own_gradients(const struct lw_run *r, struct lw_plan *plan);

/* Bytes that the row's kind of figure shows (run->memory): the tensors of the fullest rank, unless
 * it names another rank or kind. */
double lw_run_shown_bytes(const struct lw_run *r, const struct lw_device *d,
                          const struct lw_summary *s);
/* Bytes that the allocator of the fullest rank needs, beside the framework's own. */
double lw_run_needed_bytes(const struct lw_run *r, const struct lw_summary *s);

#endif
