/* Errors of predicted published runs. `make run-errors` writes the rows;
 * docs/design/gpu_accuracy.md has the tables after them. */
#include "analysis/study/run_errors.h"

#include <stddef.h>
#include <string.h>

static const struct lw_run_errors rows[] = {
    {"A100", false, 276, 6.7, 12.8},
    {"A100", true, 742, 8.3, 18.8},
    {"B200", false, 32, 19.7, 61.1},
    {"B200", true, 28, 14.8, 30.6},
    {"B300", false, 7, 14.2, 43.5},
    {"B300", true, 3, 32.5, 55.3},
    {"GB200", false, 22, 15.6, 36.7},
    {"GB200", true, 41, 12.4, 23.0},
    {"GB300", false, 16, 16.3, 37.3},
    {"GB300", true, 20, 15.8, 42.0},
    {"H100", false, 107, 11.0, 23.2},
    {"H100", true, 164, 10.1, 20.1},
    {"H200", false, 3, 5.1, 6.1},
    {"H200", true, 6, 4.3, 11.1},
    {"V100", false, 8, 10.0, 26.0},
    {"V100", true, 10, 16.4, 47.2},
};

const struct lw_run_errors *lw_run_errors_of(const char *device_kind, bool split)
{
    for (size_t k = 0; device_kind && k < sizeof rows / sizeof *rows; k++)
        if (rows[k].split == split &&
            strncmp(device_kind, rows[k].device, strlen(rows[k].device)) == 0)
            return &rows[k];
    return NULL;
}
