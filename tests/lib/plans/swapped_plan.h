#pragma once

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/tiny_workload.h"

/* Op `from` of the plan moves after op `to` of the same program; those between move up, and
 * dependencies follow. */
static inline void plan_move_op(struct lw_plan *p, const struct lw_program *g, int32_t from,
                                int32_t to)
{
    struct lw_op moved = p->ops[from];

    memmove(p->ops + from, p->ops + from + 1, (size_t)(to - from) * sizeof moved);
    p->ops[to] = moved;
    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
        for (int32_t d = 0; d < p->ops[i].n_deps; d++) {
            int32_t *dep = &p->deps[p->ops[i].first_dep + d];
            *dep = *dep == from ? to : *dep - (*dep > from && *dep <= to);
        }
}

/* The tiny workload on two stages, two micro-batches, messages of 1000 f32. Rank 0 runs
 * F0 S0 F1 S1 ...; here F0 F1 S1 S0: the activations go in the other order. */
static inline enum lw_status swapped_plan(struct lw_plan *plan, struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();
    struct tiny t;
    int32_t sends[2], n = 0;

    tiny_init(&t);
    for (int m = 0; m < 3; m++)
        t.modules[m].output_bytes = 4000;
    s.pp = 2;
    s.micro_batches = 2;
    s.schedule = LW_SCHEDULE_GPIPE;
    LW_TRY(lw_plan_build(&t.w, &s, NULL, plan, err));
    struct lw_program g = lw_plan_program(plan, 0, 0);
    for (int32_t i = g.first_op; n < 2; i++)
        if (plan->ops[i].kind == LW_OP_SEND)
            sends[n++] = i;
    plan_move_op(plan, &g, sends[0], sends[1]);
    return LW_OK;
}
