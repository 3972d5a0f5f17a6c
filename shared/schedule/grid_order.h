#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/schedule/schedule.h"

/* A grid with its messages: what every pipeline rank does, in an order that all ranks share. A
 * message goes where its sender finishes if all stages take the same time; so a rank has its sends
 * and receives in about the order in which they come to happen, and no two ranks wait for each
 * other even where a send waits for its receive. The order depends on the grid alone. See
 * docs/design/lower_grid.md. */
enum lw_grid_step_kind { LW_GRID_RUN, LW_GRID_SEND, LW_GRID_RECV };

/* There are millions: 8 bytes. */
struct lw_grid_step {
    int32_t action;       /* of the grid that is run; of a message, the one that made what it
                           * carries */
    unsigned kind : 2;    /* enum lw_grid_step_kind */
    signed int peer : 30; /* of a message: the other rank; -1 */
};

struct lw_grid_order {
    struct lw_arena arena; /* owns everything below */
    int32_t n_ranks;
    int32_t *first; /* [n_ranks + 1]: rank r does steps first[r] .. first[r+1]-1 */
    struct lw_grid_step *steps;
    const struct lw_action *actions; /* the grid's, which outlives the order */
};
void lw_grid_order_free(struct lw_grid_order *o);

static inline const struct lw_action *lw_step_action(const struct lw_grid_order *o,
                                                     const struct lw_grid_step *s)
{
    return &o->actions[s->action];
}

/* The grid must pass lw_grid_check, and is kept. early: what the first of a unit makes leaves
 * before the second has run. Fails as lw_grid_time does. */
enum lw_status lw_grid_order(const struct lw_grid *g, bool early, struct lw_grid_order *out,
                             struct lw_err *err);

/* The stage that a message's value goes to, -1 for none: the next one's forward, or the backward of
 * the one before. */
static inline int32_t lw_action_target(const struct lw_grid *g, const struct lw_action *a)
{
    if (a->kind == LW_OP_FORWARD)
        return a->stage + 1 < g->n_stages ? a->stage + 1 : -1;
    return a->kind == LW_OP_BACKWARD_WEIGHT ? -1 : a->stage - 1;
}
