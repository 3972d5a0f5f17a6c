#pragma once

#include "shared/base/err.h"
#include "shared/workload/workload.h"

/* Modules that are alike but for their names become one row, and parameters that are alike but for
 * their names and modules, where that leaves a quarter of the rows or fewer; else nothing changes.
 * The whole tables are freed. Of a workload that is planned and then freed: only lowering reads
 * rows. */
enum lw_status lw_workload_share_rows(struct lw_workload *w, struct lw_err *err);
