#pragma once

#include <stdio.h>

#include "analysis/explain/explain_memory.h"
#include "analysis/explain/memory_changes.h"
#include "shared/text/records.h"

struct lw_prediction;

/* What there is to print of `explain --memory`. */
struct lw_memory_report {
    const struct lw_prediction *s;
    const struct lw_memory_story *story;
    const struct lw_memory_changes_tried *changes;
    const char *why; /* nothing was tried: the reason; NULL = it was */
    bool all;        /* every change that saves, not three */
};

enum lw_status lw_memory_report_print(const struct lw_memory_report *r, enum lw_format format,
                                      FILE *f, struct lw_err *err);
