#ifndef LW_TRACES_IMPORT_PRINT_H
#define LW_TRACES_IMPORT_PRINT_H

#include <stdio.h>

#include "shared/workload.h"
#include "traces/to_workload.h"

/* What `lapwing import` says about the workload it wrote. */
void traces_import_text(const struct lw_workload *w, const struct traces_coverage *c,
                        const char *output, FILE *f);
void traces_import_json(const struct lw_workload *w, const struct traces_coverage *c,
                        const char *output, FILE *f);

#endif
