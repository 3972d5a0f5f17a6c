#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/workload/workload.h"

/* The backward of one micro-batch, cut into stretches: each belongs to one module and ends when
 * that module's backward ends or when gradients become ready. Stretches tile the backward in time;
 * each module has at least one, in reverse forward order. */
struct lw_stretch {
    int32_t module;
    lw_ps start, end;              /* from the start of the backward */
    int32_t first_ready, n_ready;  /* into ready[]: gradients complete at its end */
};

struct lw_backward {
    struct lw_arena arena;
    struct lw_stretch *stretches;
    int32_t n_stretches, n_ready;
    int32_t *ready;                /* parameters in ready order: trainable, used, not tied */
    bool order_known;              /* false: reverse registration order is assumed */
    int32_t n_untimed;             /* gradients without a ready time: at their module's end */
};

/* The workload has passed lw_workload_check. A gradient is never ready before one that precedes it
 * in the ready order, whatever the times say. O(n log n). */
enum lw_status lw_backward_cut(const struct lw_workload *w, struct lw_backward *out,
                               struct lw_err *err);
void lw_backward_free(struct lw_backward *b);
