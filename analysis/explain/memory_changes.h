#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"

struct lw_prediction;

/* A prediction with one thing changed, planned and simulated again with the options that say so. */
struct lw_memory_change_tried {
    const char *options;   /* "--tp 2 --dp 4 --micro-batches 16" */
    const char *shown;     /* the options, and another framework where they lead to one */
    const char *why;       /* it cannot be planned or predicted: the reason; NULL = it can */
    const char *framework; /* another one than before, which the strategy is usually run with; NULL:
                            * the same */
    int64_t device, saved; /* bytes of a device; fewer than before */
    int32_t fits;          /* 1, 0, -1 = not known */
    int32_t order;         /* in which they were tried */
    lw_ps step, change;
    double change_pct;
};

/* Makes the request again, as of the command line: *s is zeroed but for whether it is silent. -1,
 * or an exit status. */
typedef int lw_memory_request(void *ctx, struct lw_prediction *s);

struct lw_memory_changes_tried {
    struct lw_arena arena;
    struct lw_memory_change_tried *v; /* that save, most first; then those that cannot be */
    int32_t n_saving, n;
};

/* Every change of the table in memory_changes.c that applies to `base`, a prediction of a model.
 * What cannot be planned is kept with the reason. */
enum lw_status lw_memory_changes_try(const struct lw_prediction *base, lw_memory_request *request,
                                     void *ctx, struct lw_memory_changes_tried *out,
                                     struct lw_err *err);
void lw_memory_changes_tried_free(struct lw_memory_changes_tried *x);
