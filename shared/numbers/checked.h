#pragma once

#include <stdint.h>

/* Whole numbers (picoseconds, bytes, FLOPs, counts) that come from files or grow over a run. The
 * sum or product that does not fit is INT64_MAX or INT64_MIN: further sums stay there and
 * comparisons stay right, so one check at the end finds it. INT64_MAX picoseconds are 106.75
 * days. */
static inline int64_t lw_add_sat(int64_t a, int64_t b)
{
    int64_t sum;

    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t lw_mul_sat(int64_t a, int64_t b)
{
    int64_t product;

    if (!__builtin_mul_overflow(a, b, &product))
        return product;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* The nearest whole number; NaN is 0. */
static inline int64_t lw_round_sat(double x)
{
    if (x != x)
        return 0;
    if (x >= 9223372036854775296.0) /* the largest double below 2^63 is 1024 less; half a step */
        return INT64_MAX;
    if (x <= -9223372036854775296.0)
        return INT64_MIN;
    return (int64_t)(x < 0 ? x - 0.5 : x + 0.5);
}
