#pragma once

#include <stdint.h>

#include "sim/engine/engine.h"

/* Numbers of ops: two of one number are of one kind, stream and communicator, and each rank takes
 * as long for one as for the other. Layers and micro-batches repeat, so a plan of a million ops has
 * about a hundred numbers. Ops that are alike may have different numbers: a number is looked for
 * among those of late. */
struct sim_like_ops {
    int32_t *of;    /* [n_ops]; of a plan whose ops share rows, [n_op_rows] */
    int32_t *first; /* [n]: the first op of each number */
    int32_t n;
};

/* Of a prepared plan: e->work is known. Memory is the arena's. */
enum lw_status sim_like_make(const struct sim_engine *e, struct lw_arena *arena,
                             struct sim_like_ops *out);

static inline int32_t sim_like_of(const struct sim_like_ops *l, const struct lw_plan *p, int64_t op)
{
    bool by_row = !p->ops && !p->op_own;

    return l->of[by_row ? lw_op_row(p, op) : op];
}
