#ifndef LW_TRACES_INSPECT_PRINT_H
#define LW_TRACES_INSPECT_PRINT_H

#include <stdint.h>
#include <stdio.h>

#include "shared/err.h"

/* What `lapwing inspect` says about a list of traces, held until all are read. Zeroed = empty. */
struct traces_report {
    int64_t n, cap;
    struct traces_report_file *files;
};

enum lw_status traces_report_add(struct traces_report *r, const char *file, struct lw_err *err);
enum lw_status traces_report_json(const struct traces_report *r, FILE *f, struct lw_err *err);
enum lw_status traces_report_text(const struct traces_report *r, FILE *f, struct lw_err *err);
void traces_report_free(struct traces_report *r);

#endif
