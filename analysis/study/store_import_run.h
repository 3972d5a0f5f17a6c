#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "traces/import/convert.h"

/* `lapwing import --store`: the recording as a run of kind import, under the plan of its replay. */
enum lw_status lw_store_import_run(const char *db, const char *command, const char *name,
                                   const struct traces_file *f, int n, const struct lw_workload *w,
                                   int64_t *run, struct lw_err *err);
