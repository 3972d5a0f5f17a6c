/* Sums of gradients, step by step. A rank's slots are used in the order in which parts are
 * listed, and again from the first one in the next batch. */
#include "exec/tensors/grad_sums.h"

#include "shared/base/arena.h"
#include "shared/plan/op.h"

/* Optimizer ops that a rank runs in a step, at most. */
static int64_t optimizer_ops(const struct lw_plan *p)
{
    int64_t most = 1;

    for (int32_t g = 0; g < p->n_variants * p->n_roles; g++) {
        int64_t n = 0;
        for (int32_t i = 0; i < p->programs[g].n_ops; i++)
            n += p->ops[p->programs[g].first_op + i].kind == LW_OP_OPTIMIZER;
        most = n > most ? n : most;
    }
    return most;
}

enum lw_status exec_sums_init(struct exec_sums *s, struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    const struct exec_facts *f = &m->facts;

    s->mem = lw_arena_alloc(&m->arena, p->n_ranks, sizeof *s->mem);
    s->used = lw_arena_alloc(&m->arena, p->n_ranks, sizeof *s->used);
    if (!s->mem || !s->used)
        return lw_fail_nomem(err);
    s->room = ((int64_t)p->n_params + p->n_shards) * optimizer_ops(p) * m->batch_steps;
    for (int32_t k = 0; k < f->n_local && s->room > 0; k++) {
        void *mem;
        LW_TRY(m->backend->mem_alloc(m->world, f->first_local + k,
                                     s->room * (int64_t)sizeof(uint64_t), &mem, err));
        s->mem[f->first_local + k] = mem;
    }
    return LW_OK;
}

void exec_sums_free(struct exec_sums *s)
{
    lw_free(s->items);
    *s = (struct exec_sums){0};
}

enum lw_status exec_sums_add(struct exec_sums *s, const struct exec_place *at,
                             const struct exec_part *update, int32_t param, int64_t first,
                             struct exec_parts *parts, struct lw_err *err)
{
    struct exec_sum sum = {.step = at->step, .rank = at->rank, .param = param,
                           .divisor = update->divisor > 0 ? update->divisor : 1, .first = first,
                           .n = update->count, .slot = s->used[at->rank]};

    if (sum.slot >= s->room)
        return lw_fail(err, LW_ENOTSUP, "rank %d updates more than its parameters and shards in a "
                                        "step: its gradients cannot be verified", at->rank);
    if (lw_reserve(&s->items, &s->capacity, s->n + 1, sizeof *s->items))
        return lw_fail_nomem(err);
    s->used[at->rank]++;
    s->items[s->n++] = sum;
    return exec_parts_add(parts,
                          (struct exec_part){.kind = EXEC_PART_SUM, .to = s->mem[at->rank] + sum.slot,
                                             .from = update->from, .from_dtype = update->from_dtype,
                                             .count = update->count},
                          err);
}

enum lw_status exec_sums_read(struct exec_sums *s, const struct exec_tensors *m, struct lw_err *err)
{
    for (; s->n_read < s->n; s->n_read++) {
        struct exec_sum *x = &s->items[s->n_read];
        LW_TRY(m->backend->mem_read(m->world, x->rank, &x->got, s->mem[x->rank] + x->slot,
                                    sizeof x->got, err));
    }
    for (int32_t r = 0; s->used && r < m->plan->n_ranks; r++)
        s->used[r] = 0;
    return LW_OK;
}
