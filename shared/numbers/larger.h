#pragma once

#include <stdint.h>

static inline int64_t lw_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t lw_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
