/* Errors of predicted published runs. `make run-errors` writes the rows;
 * docs/design/gpu_accuracy.md has the tables after them. */
#include "analysis/study/run_errors.h"

#include <stddef.h>
#include <string.h>

static const struct lw_run_errors rows[] = {
    {"A100", false, 277, 6.8, 13.8},
    {"A100", true, 742, 8.3, 18.9},
    {"B200", false, 32, 23.4, 65.5},
    {"B200", true, 28, 18.2, 34.9},
    {"B300", false, 7, 16.0, 44.5},
    {"B300", true, 3, 29.1, 57.1},
    {"GB200", false, 22, 15.6, 36.2},
    {"GB200", true, 41, 8.4, 18.2},
    {"GB300", false, 16, 18.8, 33.5},
    {"GB300", true, 20, 25.0, 42.3},
    {"H100", false, 107, 10.4, 25.2},
    {"H100", true, 161, 10.6, 23.1},
    {"H200", false, 3, 12.5, 15.8},
    {"H200", true, 6, 5.0, 8.6},
    {"V100", false, 8, 11.6, 26.0},
    {"V100", true, 10, 15.0, 35.0},
};

const struct lw_run_errors *lw_run_errors_of(const char *device_kind, bool split)
{
    for (size_t k = 0; device_kind && k < sizeof rows / sizeof *rows; k++)
        if (rows[k].split == split &&
            strncmp(device_kind, rows[k].device, strlen(rows[k].device)) == 0)
            return &rows[k];
    return NULL;
}
