#pragma once

#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* One step of a plan whose ops all have times of their own, on devices that share nothing; a send
 * costs its sender nothing. The engine that shared/golden/golden.h needs; ctx is not used.
 * *timeline is zeroed before and the caller's to free. LW_ENOTSUP: an op that a cluster would have
 * to time. */
enum lw_status lw_sim_alone(const void *ctx, const struct lw_plan *plan,
                            struct lw_timeline *timeline, struct lw_err *err);
