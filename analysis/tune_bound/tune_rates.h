#pragma once

#include <stdint.h>

#include "shared/plan/cost.h"

/* What a number of bytes takes at least, however a plan cuts them into collectives of one kind that
 * run one after the other. */
enum { LW_TUNE_SIZES = 400 };

struct lw_tune_rates {
    double size[LW_TUNE_SIZES];        /* ascending */
    double ps_per_byte[LW_TUNE_SIZES]; /* the least of pieces up to the size; 0 = not known */
};

/* query: all but the bytes. */
void lw_tune_rates_of(const struct lw_cost *cost, const struct lw_cost_query *query,
                      struct lw_tune_rates *out);
lw_ps lw_tune_least_time(const struct lw_tune_rates *r, int64_t bytes);
/* Where no piece has more than `largest` bytes. */
lw_ps lw_tune_least_time_of(const struct lw_tune_rates *r, int64_t bytes, int64_t largest);
