#pragma once

#include "shared/base/err.h"
#include "shared/workload/model_request.h"

/* Whether an option that takes the name of a model, cluster, framework or device, or a file, is
 * given one that exists (the file is read, but for a workload's, a plan's and "-"). Other options,
 * by their long names, are not looked at. The error names the option and, where one is near, the
 * name that may be meant. make_model: as in struct lw_plan_source. */
enum lw_status lw_source_name_check(const char *option, const char *value,
                                    lw_model_maker *make_model, struct lw_err *err);
