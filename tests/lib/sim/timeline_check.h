#pragma once

#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* Times in order (ready <= start <= all_in <= end), no two device ops of one stream overlap (but
 * collectives of one communicator may where the library has several workers), every receive ends
 * after its send began, op indexes belong to the plan (plan may be NULL: skipped). LW_EPLAN names
 * the first row that is not so. */
enum lw_status timeline_check(const struct lw_timeline *t, const struct lw_plan *plan,
                              struct lw_err *err);
