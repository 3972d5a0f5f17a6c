#pragma once

#include <stdint.h>

#include "analysis/alike/alike_key.h"

/* The published results, which the build turns into C (analysis/alike/known_runs.awk). */
struct alike_known_run {
    int16_t table, kind; /* into alike_known_tables, alike_known_kinds */
    int32_t number;      /* in the order of files and rows */
    double ratio, judged;
};

extern const int32_t alike_known_n_runs, alike_known_n_tables;
extern const char *const alike_known_tables[]; /* in the order of files */
extern const char *const alike_known_kinds[][LW_ALIKE_PARTS];
extern const struct alike_known_run alike_known_runs[];        /* the smallest ratio first */
extern const struct alike_known_run alike_known_runs_judged[]; /* the smallest `judged` first */
