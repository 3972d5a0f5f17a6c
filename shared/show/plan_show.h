#pragma once

#include "shared/cli/cli.h"
#include "shared/plan/plan.h"

/* Print a plan to standard output. */
enum lw_status lw_plan_show(const struct lw_plan *p, enum lw_format format, struct lw_err *err);
