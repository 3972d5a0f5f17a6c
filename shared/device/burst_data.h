#pragma once

#include "shared/device/burst_time.h"

/* Written by traces/clusters/fit_burst.py; each list ends with a row without a kind. The second:
 * fitted without the shapes of a fold. */
extern const struct lw_burst lw_bursts[];
extern const struct lw_burst *const lw_bursts_without[LW_BURST_FOLDS];
