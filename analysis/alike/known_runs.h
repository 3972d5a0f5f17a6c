#pragma once

#include <stdint.h>

#include "analysis/alike/alike_key.h"

/* The published results, which the build turns into C (analysis/alike/known_runs.awk). */
struct known_run {
    int16_t table, kind; /* into known_tables, known_kinds */
    int32_t number;      /* in the order of files and rows */
    double ratio, judged;
};

extern const int32_t known_n_runs, known_n_tables;
extern const char *const known_tables[];                 /* in the order of files */
extern const char *const known_kinds[][LW_ALIKE_PARTS];
extern const struct known_run known_runs[];              /* the smallest ratio first */
extern const struct known_run known_runs_judged[];       /* the same, the smallest `judged` first */
