#pragma once

#include "shared/device/burst_time.h"

/* Written by traces/clusters/fit_burst.py; ends with a row without a kind. */
extern const struct lw_burst lw_bursts[];
