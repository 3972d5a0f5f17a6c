#pragma once

#include <stdbool.h>

#include "analysis/store/store.h"

/* ", does not fit" of a run whose fullest rank needs more memory than its device has; else "". */
const char *lw_run_misfit(const struct lw_run *r);

/* A run's command in two parts: the values of the options that are compared ("8", or "dp 8, tp 2"
 * of several), and the rest: kind, backend, model, cluster and all other options that change a
 * figure. Runs with equal rests differ only in what is compared. */
typedef bool lw_word_compared(const void *ctx, const char *name);

struct lw_divided {
    const char *rest, *value;
};

/* named: the value names its options. Texts of the arena. */
enum lw_status lw_run_divide(const struct lw_run *r, lw_word_compared *compared, const void *ctx,
                             bool named, struct lw_arena *a, struct lw_divided *out,
                             struct lw_err *err);
/* Of rests[i] what not all n rests have; "" where they are equal. */
enum lw_status lw_rest_short(const char *const *rests, int32_t n, int32_t i, struct lw_arena *a,
                             const char **out, struct lw_err *err);
