#pragma once

#include <stdint.h>

#include "shared/numbers/units.h"

/* Times measured over sizes that ascend; borrowed. */
struct lw_curve {
    int32_t n; /* >= 1 */
    const int64_t *size;
    const lw_ps *time;
};

/* The time at a size >= 0. At a measured size its time as it is; between two, the curve that is
 * straight on logarithmic axes; below the smallest the smallest's time; beyond the largest the
 * slope between it and the nearest row of at most half its size, at most in proportion to the
 * bytes, and in proportion if no such row or slope exists. *detail: which of them. */
lw_ps lw_curve_at(struct lw_curve c, int64_t size, const char **detail);
