#pragma once

#include "shared/framework/framework_choice.h"
#include "shared/text/records.h"
#include "shared/workload/workload.h"

/* A row for each kernel of a workload that was made of a model, to standard output: the shape of
 * the whole model, and what one rank takes by phase. Modules that are alike are shown once. In
 * text device, groups and framework (NULL: none) stand above. */
enum lw_status traces_model_print_kernels(const struct lw_workload *w,
                                          const struct lw_framework_choice *framework,
                                          enum lw_format format, struct lw_err *err);
