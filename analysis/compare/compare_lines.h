#pragma once

#include <stdio.h>

#include "analysis/compare/compare.h"
#include "shared/json/jsonout.h"
#include "shared/text/records.h"

/* What a comparison's text, CSV and JSON have in common: a quantity of both sides as a row of one
 * table of columns, whose keys and titles say what the sides are. */
struct lw_compared {
    const char *what; /* borrowed */
    struct lw_both v;
    lw_ps difference;
    double pct; /* NAN: not known */
};

enum { LW_COMPARED_SHORT = 4, LW_COMPARED_PCT = 4, LW_COMPARED_COLUMNS = 5 };

/* Predicted and measured, the columns of every pair of runs. */
extern const struct lw_column lw_predicted_columns[LW_COMPARED_COLUMNS];
extern const char *const lw_bucket_times[LW_N_BUCKET_TIMES];

/* Predicted minus measured, or B minus A. */
lw_ps lw_compared_difference(const struct lw_comparison *c, struct lw_both v);
const struct lw_column *lw_compared_columns(const struct lw_comparison *c);
struct lw_compared lw_compared_of(const struct lw_comparison *c, const char *what,
                                  struct lw_both v);
struct lw_records lw_compared_records(const struct lw_comparison *c, const char *key,
                                      const struct lw_compared *lines, int n, int n_columns);
/* lines[] has room for as many ops as a comparison lists (LW_OPS_SHOWN). How many there are. */
int lw_compared_ops(const struct lw_comparison *c, struct lw_compared *lines);

/* Both sides and how far they are apart in percent, as member `key`. */
void lw_compared_json(struct lw_jsonout *o, const struct lw_column *columns, const char *key,
                      struct lw_both v, double pct);
void lw_machine_speed_json(struct lw_jsonout *o, const struct lw_run *r);
/* An empty text is null. */
const char *lw_text_or_null(const char *text);
