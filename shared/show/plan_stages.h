#pragma once

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* A line per role of a plan with several: what its ranks hold, and what they do in a pass of the
 * last variant. To standard output. */
enum lw_status lw_plan_show_stages(const struct lw_plan *p, struct lw_err *err);
