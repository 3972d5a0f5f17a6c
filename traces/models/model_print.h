#pragma once

#include "shared/framework/framework_choice.h"
#include "shared/text/records.h"
#include "shared/workload/workload.h"

/* What a workload made of a model's shape holds, to standard output: text, JSON, or CSV with a row
 * for each module. framework: NULL = it has sizes alone. output: the file that it was written to,
 * NULL = none. */
enum lw_status traces_model_print(const struct lw_workload *w,
                                  const struct lw_framework_choice *framework, const char *output,
                                  enum lw_format format, struct lw_err *err);
/* Every model with its size and source. */
enum lw_status traces_models_list(enum lw_format format, struct lw_err *err);
