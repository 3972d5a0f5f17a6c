#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/tune_bound/tune_order.h"
#include "analysis/tune_bound/tune_pieces.h"
#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/lower/outline.h"
#include "shared/plan/cost.h"

/* Bounds of one strategy from what it shares with others: see docs/design/tune.md. */

struct lw_tune_division { /* of an outline's modules over an order's stages */
    int32_t *first; /* [stages + 1] modules */
    struct lw_err why; /* there is none */
};

/* All borrowed. */
struct lw_tune_shared {
    const struct lw_tune_order *order;
    const struct lw_outline *outline;
    const struct lw_tune_group *reach;       /* NULL: its collectives count as nothing */
    const struct lw_tune_division *division; /* NULL: its own */
    const struct lw_cost *cost;
    const struct lw_cluster *cluster;
    const struct lw_framework *framework;
};

/* Of a resolved strategy a lower bound of its step and, with `memory`, a better one, and of what
 * its fullest rank's allocator needs; *needed is -1 without. */
enum lw_status lw_tune_bounds(const struct lw_tune_shared *of, const struct lw_strategy *s,
                              bool memory, lw_ps *bound, int64_t *needed, struct lw_err *err);
