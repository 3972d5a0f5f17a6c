#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Which of some numbers are the largest; of equal ones the first. */
struct lw_largest {
    int64_t least, n_least; /* the smallest of them, and how many are as small */
};

/* The n_largest of v[n], which it sorts; 1 <= n_largest <= n. */
struct lw_largest lw_largest_of(int64_t *v, int64_t n, int64_t n_largest);
/* The next of the numbers, in their order, is one of them. */
bool lw_largest_takes(struct lw_largest *l, int64_t value);
