#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How far predictions of published runs were off, by device and by whether the model was split. */
struct lw_run_errors {
    const char *device;  /* "H100": how the device's kind begins */
    bool split;          /* tensor or pipeline groups of more than one rank */
    int32_t n;
    double mean_abs_pct, p90_abs_pct; /* absolute error of the step */
};

/* NULL: no published run on such a device was predicted. */
const struct lw_run_errors *lw_run_errors_of(const char *device_kind, bool split);
