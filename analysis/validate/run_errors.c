/* Errors of predicted published runs. The rows are what tests/analysis/validate/run_errors.py
 * prints from the output of `make validate-tables`; docs/design/gpu_accuracy.md has the tables
 * after them. */
#include "analysis/validate/run_errors.h"

#include <stddef.h>
#include <string.h>

static const struct lw_run_errors rows[] = {
    {"A100", false, 279, 9.2, 16.4},
    {"A100", true, 737, 13.7, 25.4},
    {"B200", false, 32, 12.6, 22.8},
    {"B200", true, 50, 11.0, 26.1},
    {"H100", false, 97, 13.5, 29.3},
    {"H100", true, 140, 13.5, 32.7},
    {"H200", false, 3, 14.2, 17.4},
    {"H200", true, 6, 5.2, 8.3},
    {"V100", false, 8, 10.6, 22.4},
    {"V100", true, 10, 16.7, 35.0},
};

const struct lw_run_errors *lw_run_errors_of(const char *device_kind, bool split)
{
    for (size_t k = 0; device_kind && k < sizeof rows / sizeof *rows; k++)
        if (rows[k].split == split && strstr(device_kind, rows[k].device))
            return &rows[k];
    return NULL;
}
