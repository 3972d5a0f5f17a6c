/* Weights that a member does not keep (ZeRO-3). Giving them up overwrites what others own with a
 * pattern that no weight has; whoever uses weights looks for it first, where runs are verified. So a
 * gather that is lost, late or of other weights fails by name instead of going unseen, although
 * gradients here do not depend on weights. */
#include "exec/tensors.h"
#include "shared/op.h"

static enum lw_status poison(const struct exec_tensors *m, int32_t bucket, int32_t comm,
                             int32_t rank, struct exec_parts *parts, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    const struct lw_group *g = lw_plan_group(p, comm, rank);
    enum lw_dtype t = p->buckets[bucket].dtype;
    int64_t size = lw_dtype_size(t), count = p->buckets[bucket].bytes / size, first, own;
    char *at = (char *)m->ranks[rank].weights + m->weights_bucket_at[bucket];

    int32_t member = g ? lw_plan_member(p, g, rank) : -1;
    if (member < 0)
        return LW_OK;
    exec_range(count, g->n_members, member, &first, &own);
    struct exec_part before = {.kind = EXEC_PART_POISON, .to = at, .to_dtype = t, .count = first};
    struct exec_part behind = {.kind = EXEC_PART_POISON, .to = at + (first + own) * size,
                               .to_dtype = t, .count = count - first - own};
    LW_TRY(exec_parts_add(parts, before, err));
    return exec_parts_add(parts, behind, err);
}

/* The weights of the op's module in a flat buffer. */
static enum lw_status check(const struct exec_tensors *m, int32_t bucket, int32_t module,
                            int32_t rank, struct exec_parts *parts, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;

    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &p->buckets[bucket], &w);) {
        int32_t a = w.slot.param;
        struct exec_part part = {.kind = EXEC_PART_CHECK, .count = p->params[a].numel,
                                 .from = (char *)m->ranks[rank].weights + m->weight_at[a],
                                 .from_dtype = (enum lw_dtype)p->params[a].dtype};
        if (p->params[a].module == module)
            LW_TRY(exec_parts_add(parts, part, err));
    }
    return LW_OK;
}

enum lw_status exec_unit_parts(const struct exec_tensors *m, const struct lw_op *op,
                               const struct exec_layout *own, int32_t rank,
                               struct exec_parts *parts, struct lw_err *err)
{
    if (op->kind == LW_OP_FREE && op->bucket >= 0 && own->units_comm[op->bucket] >= 0)
        return poison(m, op->bucket, own->units_comm[op->bucket], rank, parts, err);
    if (!m->keep_scratch_apart || !lw_op_uses_weights(op))
        return LW_OK;
    for (int32_t b = 0; b < m->plan->n_buckets; b++)
        if (own->units_comm[b] >= 0)
            LW_TRY(check(m, b, op->module, rank, parts, err));
    return LW_OK;
}
