#pragma once

#include <stdint.h>

#include "shared/base/hash.h"

/* Rows of numbers by a rule, fed to a hash as if they stood in a table. Row i, in mixed radix with
 * the last digit fastest, is the first row plus each digit times its step. */
enum { LW_ROW_STEPS = 4, LW_ROW_DIGITS = 12 };

/* Column c of a row grows by step[c]; those after the last step by the last step. */
struct lw_row_digit {
    int32_t count; /* at least 1 */
    int64_t step[LW_ROW_STEPS];
};

struct lw_row_rule {
    int32_t n; /* digits, at most LW_ROW_DIGITS */
    struct lw_row_digit at[LW_ROW_DIGITS];
};

/* The most columns that a row may have. */
enum { LW_ROW_WIDTH = 1024 };

/* All rows, each number as lw_hash_int. first[width]: the first row. */
void lw_hash_rows(struct lw_hash *h, const int64_t *first, int32_t width,
                  const struct lw_row_rule *rule);
