#pragma once

#include <stdio.h>

#include "analysis/store/store.h"

/* Runs as one HTML page without outside references: what was found, predicted against measured,
 * timelines as SVG with hover texts, buckets and strategy of each plan, where everything came from.
 * Everything is read from the database; the same database gives the same bytes.
 *   runs[n]  ascending by id */
enum lw_status lw_report_write(struct lw_store *s, const struct lw_run *runs, int32_t n, FILE *f,
                               struct lw_err *err);
