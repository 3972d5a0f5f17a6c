#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/tune_bound/tune_chain.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/schedule/schedule.h"

/* The order of a schedule's actions, and what bounds count of it. */

struct lw_tune_counts {
    int32_t forward, backward, input, weight;
};

struct lw_tune_order { /* of a schedule */
    struct lw_grid grid;
    struct lw_tune_chain chain;
    struct lw_err why; /* there is none */
    bool by_halves;
    bool pairs; /* has units of a forward and a backward */
    int32_t *first, *held; /* lw_tune_parts, as the next ones */
    int32_t *before, *first_back, *halves;
    struct lw_tune_counts *after; /* by the places of held: actions from the first backward on that
                                   * is the last one of its part */
    int32_t *gathers; /* by the places of held: of the part's last module, which ZeRO-3 keeps from a
                       * forward to the next action of the part */
};

/* Tables are in the arena, the grid is freed by lw_grid_free. A shape that the schedule refuses has
 * no grid, and o->why; LW_OK then too. On failure there is no grid. */
enum lw_status lw_tune_order_make(const struct lw_schedule_shape *shape, struct lw_arena *a,
                                  struct lw_tune_order *o, struct lw_err *err);
