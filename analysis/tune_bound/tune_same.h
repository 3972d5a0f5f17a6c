#pragma once

#include <stdint.h>

#include "analysis/tune_bound/tune_space.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Strategies of a search whose plans are the same: they differ in --bucket-cap alone, and both caps
 * make the same buckets. One of them is simulated. See docs/design/tune.md. */

struct lw_tune_same; /* what was simulated; zeroed pointers, all in an arena */
enum lw_status lw_tune_same_new(struct lw_arena *a, struct lw_tune_same **out, struct lw_err *err);

/* The combination that has the first value of --bucket-cap, and all else of the k-th. */
int64_t lw_tune_family(const struct lw_tune_space *x, int64_t k);

/* The row of a simulated strategy of a family, whose plan all caps from `least` to below `next`
 * make. */
enum lw_status lw_tune_same_put(struct lw_tune_same *s, int64_t family, int64_t least, int64_t next,
                                int64_t row, struct lw_err *err);
/* The row of the strategy of that family whose plan this cap makes too; -1 = none is known. */
int64_t lw_tune_same_find(const struct lw_tune_same *s, int64_t family, int64_t cap);
