#pragma once

#include "shared/cli/cli.h"
#include "shared/framework/framework_choice.h"
#include "shared/framework/memory_figures.h"
#include "shared/plan/plan.h"

/* A plan to print. */
struct lw_plan_shown {
    const struct lw_plan *plan;
    const struct lw_framework_choice *framework;
    const struct lw_memory_figures *memory; /* NULL: not predicted, */
    const char *no_memory;                  /* because of this */
    const struct lw_device *device;         /* that memory is of */
};

/* Print it to standard output. */
enum lw_status lw_plan_show(const struct lw_plan_shown *s, enum lw_format format,
                            struct lw_err *err);
