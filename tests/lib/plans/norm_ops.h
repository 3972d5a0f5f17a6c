#pragma once

/* Ops about the norm of the gradients, in plans that are to be broken. After cmocka.h. */
#include "shared/plan/op.h"
#include "shared/plan/plan.h"

/* The n-th op of a kind about the norm, or the n-th optimizer, in a role's program of a variant. */
static inline struct lw_op *find_norm_op(const struct lw_plan *p, int32_t variant, int32_t role,
                                         enum lw_op_kind kind, int n)
{
    const struct lw_program g = p->programs[(int64_t)variant * p->n_roles + role];

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        bool norm = p->ops[i].bucket >= 0 && lw_plan_is_norm(p, p->ops[i].bucket);
        if (p->ops[i].kind == kind && (norm || kind == LW_OP_OPTIMIZER) && n-- == 0)
            return &p->ops[i];
    }
    fail_msg("no such op");
    return NULL;
}

/* The op does nothing any more. */
static inline void drop(struct lw_op *op)
{
    op->kind = LW_OP_EVENT_WAIT;
    op->comm = op->bucket = -1;
    op->bytes = 0;
}
