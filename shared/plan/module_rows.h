#pragma once

#include "shared/base/err.h"
#include "shared/plan/workload.h"

/* Modules that are alike but for their names become one row, where that makes the table a quarter
 * or less of what it was; else nothing changes. The whole modules are freed. Of a workload that is
 * planned and then freed: only lowering reads rows. */
enum lw_status lw_workload_share_modules(struct lw_workload *w, struct lw_err *err);
