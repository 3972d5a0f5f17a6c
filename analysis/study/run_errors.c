/* Errors of predicted published runs. `make run-errors` writes the rows;
 * docs/design/gpu_accuracy.md has the tables after them. */
#include "analysis/study/run_errors.h"

#include <stddef.h>
#include <string.h>

static const struct lw_run_errors rows[] = {
    {"A100", false, 276, 6.8, 13.7},
    {"A100", true, 742, 8.5, 18.9},
    {"B200", false, 32, 21.8, 61.0},
    {"B200", true, 28, 16.7, 28.6},
    {"B300", false, 7, 14.4, 43.6},
    {"B300", true, 3, 30.6, 55.2},
    {"GB200", false, 22, 15.6, 36.8},
    {"GB200", true, 41, 12.6, 23.5},
    {"GB300", false, 16, 16.5, 36.8},
    {"GB300", true, 20, 15.0, 37.3},
    {"H100", false, 107, 11.2, 23.0},
    {"H100", true, 163, 10.4, 24.2},
    {"H200", false, 3, 5.0, 6.4},
    {"H200", true, 6, 4.6, 11.0},
    {"V100", false, 8, 9.9, 26.0},
    {"V100", true, 10, 17.4, 47.3},
};

const struct lw_run_errors *lw_run_errors_of(const char *device_kind, bool split)
{
    for (size_t k = 0; device_kind && k < sizeof rows / sizeof *rows; k++)
        if (rows[k].split == split &&
            strncmp(device_kind, rows[k].device, strlen(rows[k].device)) == 0)
            return &rows[k];
    return NULL;
}
