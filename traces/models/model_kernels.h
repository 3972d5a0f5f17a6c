#pragma once

#include "shared/plan/workload.h"
#include "shared/text/records.h"

/* A row for each kernel of a workload that was made of a model, to standard output: the shape of
 * the whole model, and what one rank takes by phase. Modules that are alike are shown once. */
enum lw_status traces_model_print_kernels(const struct lw_workload *w, enum lw_format format,
                                          struct lw_err *err);
