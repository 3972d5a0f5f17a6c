#pragma once

#include "shared/schedule/schedule.h"

/* A micro-batch in a V of p ranks with two stages each: down the ranks and up again, then its
 * gradient down and up again. Leg k > 0 of a micro-batch follows leg k-1 on the same rank; legs
 * going down follow the rank before, legs going up the rank after. */
enum lw_leg { LW_F_DOWN, LW_F_UP, LW_I_DOWN, LW_I_UP, LW_W_DOWN, LW_W_UP, LW_N_LEGS };

/* The stage passed on the way down is `rank`, on the way up 2p-1-rank; gradients meet them in the
 * other order. */
static inline struct lw_action lw_leg_action(int32_t p, int32_t rank, enum lw_leg leg, int32_t mb)
{
    bool far = leg == LW_F_UP || leg == LW_I_DOWN || leg == LW_W_DOWN;
    enum lw_op_kind kind = leg < LW_I_DOWN   ? LW_OP_FORWARD
                           : leg < LW_W_DOWN ? LW_OP_BACKWARD_INPUT
                                             : LW_OP_BACKWARD_WEIGHT;

    return (struct lw_action){kind, far ? 2 * p - 1 - rank : rank, mb, false};
}

/* The rank whose same leg comes before this one's, -1 at the turns. */
static inline int32_t lw_leg_source(int32_t p, int32_t rank, enum lw_leg leg)
{
    if (leg >= LW_W_DOWN)
        return -1;
    if (leg == LW_F_DOWN || leg == LW_I_DOWN)
        return rank - 1;
    return rank + 1 < p ? rank + 1 : -1;
}
