#pragma once

#include <stdio.h>

#include "analysis/alike/alike.h"
#include "shared/text/records.h"

/* Whether intervals hold: each run of a table against the interval that the runs of all other
 * tables give it. */
struct lw_alike_coverage {
    const char *table;
    int64_t n, n_known, n_inside; /* runs; those with an interval; those inside it */
    double inside_pct;            /* of those with an interval; NAN: none */
    double width;                 /* median p90 / p10 of the intervals; NAN: none */
};
enum lw_status lw_alike_cover(const struct lw_alike_runs *r, const char *table,
                              struct lw_alike_coverage *out, struct lw_err *err);

/* A row for each table, in the order of names, and one of all. */
enum lw_status lw_alike_print_coverage(const struct lw_alike_runs *r, enum lw_format format,
                                       FILE *f, struct lw_err *err);
