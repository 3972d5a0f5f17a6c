#pragma once

#include <stdio.h>

#include "shared/cli/cli.h"
#include "traces/import/convert.h"

/* What `lapwing import` says about the files it wrote; names NULL = not written. */
struct traces_import_summary {
    const struct traces_converted *converted;
    const char *workload_file, *plan_file, *cluster_file;
    int64_t run; /* stored as this one; 0 = not stored */
};
enum lw_status traces_import_print(const struct traces_import_summary *s, enum lw_format format,
                                   FILE *f, struct lw_err *err);
