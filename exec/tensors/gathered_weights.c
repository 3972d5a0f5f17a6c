/* Weights that a member does not keep (ZeRO-3), or that are stale from the optimizer to the next
 * step's gather (--overlap-param-gather). Giving them up, or the optimizer, overwrites what others
 * own with a pattern that no weight has; an op that uses weights looks for it first, where runs are
 * verified. So a gather that is lost, late or cut off fails by name instead of going unseen,
 * although gradients here do not depend on weights.
 *
 * Weights that take turns in one slot of memory (exec/tensors/weight_turns.h) have their own share
 * copied there when their turn begins, from where it lies apart; the gather brings the others'.
 * Verified, a turn also ends the other turns of the slot: their marks are overwritten with the
 * pattern, and an op that uses weights looks for it in their mark too. */
#include "exec/backend/element.h"
#include "exec/tensors/tensors.h"
#include "exec/tensors/weight_turns.h"
#include "shared/plan/op.h"

enum { EDGE = 64 }; /* elements at either end of a piece that are overwritten and looked at */

struct unit { /* on one rank */
    const struct lw_bucket *bucket;
    const struct lw_group *group;
    int32_t member; /* the rank's place in the group */
    char *weights;  /* of the bucket */
    enum exec_part_kind kind;
    struct exec_parts *parts;
};

static enum lw_status add_range(const struct unit *u, int64_t first, int64_t end,
                                struct lw_err *err)
{
    char *at = u->weights + first * lw_dtype_size(u->bucket->dtype);
    struct exec_part part = {.kind = u->kind, .to = at, .from = at, .to_dtype = u->bucket->dtype,
                             .from_dtype = u->bucket->dtype, .count = end - first};

    return exec_parts_add(u->parts, part, err);
}

/* Elements [first, end) of the bucket: of a parameter, what others own. Shares arrive whole or
 * cut off, so the ends of each piece tell; all of it would take a gather's time again. */
static enum lw_status add_pieces(const struct unit *u, int64_t first, int64_t end,
                                 struct lw_err *err)
{
    int64_t count = u->bucket->bytes / lw_dtype_size(u->bucket->dtype);

    for (int32_t k = 0; k < u->group->n_members; k++) {
        int64_t from, n;
        exec_range(count, u->group->n_members, k, &from, &n);
        int64_t a = from > first ? from : first, b = from + n < end ? from + n : end;
        if (k == u->member || a >= b)
            continue;
        if (b - a <= 2 * EDGE) {
            LW_TRY(add_range(u, a, b, err));
            continue;
        }
        LW_TRY(add_range(u, a, a + EDGE, err));
        LW_TRY(add_range(u, b - EDGE, b, err));
    }
    return LW_OK;
}

static char *mark_of(const struct exec_tensors *m, int32_t bucket, int32_t rank)
{
    const struct exec_turn *t = &m->weights.turns[bucket];

    return (char *)m->ranks[rank].weights + t->marks_at + t->turn * EXEC_TURN_MARK;
}

/* module -1: of all parameters in the flat buffer. */
static enum lw_status unit_parts(const struct exec_tensors *m, int32_t bucket, int32_t comm,
                                 int32_t module, enum exec_part_kind kind, int32_t rank,
                                 struct exec_parts *parts, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct unit u = {.bucket = &p->buckets[bucket], .group = lw_plan_group(p, comm, rank),
                     .weights = (char *)m->ranks[rank].weights + m->weights.bucket_at[bucket],
                     .kind = kind, .parts = parts};
    bool used = false;

    u.member = u.group ? lw_plan_member(p, u.group, rank) : -1;
    if (u.member < 0)
        return LW_OK;
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, u.bucket, &w);) {
        const struct lw_plan_param *a = &p->params[w.slot.param];
        bool uses = module < 0;
        for (int32_t i = w.slot.param; !uses && i >= 0; i = m->next_tied[i])
            uses = p->params[i].module == module;
        used = used || uses;
        if (uses)
            LW_TRY(add_pieces(&u, w.slot.offset, w.slot.offset + a->numel, err));
    }
    if (!used || kind != EXEC_PART_CHECK || m->weights.turns[bucket].slot < 0)
        return LW_OK;
    struct exec_part mark = {.kind = kind, .from = mark_of(m, bucket, rank), .count = 1,
                             .from_dtype = p->buckets[bucket].dtype};
    return exec_parts_add(parts, mark, err);
}

/* The slot is the flat buffer's from here on. A weight is the mark: none is the pattern. */
static enum lw_status mark_turn(const struct exec_tensors *m, int32_t bucket, int32_t rank,
                                const char *weight, struct exec_parts *parts, struct lw_err *err)
{
    const struct exec_turn *t = &m->weights.turns[bucket];
    enum lw_dtype dtype = m->plan->buckets[bucket].dtype;
    struct exec_part others = {.kind = EXEC_PART_POISON, .to_dtype = LW_U8,
                               .to = (char *)m->ranks[rank].weights + t->marks_at,
                               .count = (int64_t)t->n_turns * EXEC_TURN_MARK};
    struct exec_part own = {.kind = EXEC_PART_COPY, .to = mark_of(m, bucket, rank), .from = weight,
                            .to_dtype = dtype, .from_dtype = dtype, .count = 1, .divisor = 1};

    LW_TRY(exec_parts_add(parts, others, err));
    return exec_parts_add(parts, own, err);
}

static enum lw_status turn_parts(const struct exec_tensors *m, int32_t bucket, int32_t rank,
                                 struct exec_parts *parts, struct lw_err *err)
{
    const struct exec_turn *t = &m->weights.turns[bucket];
    enum lw_dtype dtype = m->plan->buckets[bucket].dtype;
    char *weights = m->ranks[rank].weights, *share = weights + t->share_at;
    int64_t bytes = exec_share_bytes(m, bucket);
    struct exec_part copy = {.kind = EXEC_PART_COPY, .from = share,
                             .to = weights + m->weights.bucket_at[bucket] +
                                   exec_turn_member(m, bucket, rank) * bytes,
                             .to_dtype = dtype, .from_dtype = dtype, .divisor = 1,
                             .count = bytes / lw_dtype_size(dtype)};

    if (m->compares) {
        LW_TRY(unit_parts(m, bucket, t->comm, -1, EXEC_PART_POISON, rank, parts, err));
        LW_TRY(mark_turn(m, bucket, rank, share, parts, err));
    }
    return exec_parts_add(parts, copy, err);
}

static bool is_ahead(const struct exec_tensors *m, int32_t bucket)
{
    const struct lw_bucket *b = &m->plan->buckets[bucket];

    return b->n_slots > 0 && m->ahead[m->plan->slots[b->first_slot]];
}

enum lw_status exec_unit_parts(const struct exec_tensors *m, const struct lw_op *op,
                               const struct exec_layout *own, int32_t rank,
                               struct exec_parts *parts, struct lw_err *err)
{
    if (op->kind == LW_OP_ALLOC && op->bucket >= 0 && m->weights.turns[op->bucket].slot >= 0)
        return turn_parts(m, op->bucket, rank, parts, err);
    if (!m->compares)
        return LW_OK;
    if (op->kind == LW_OP_FREE && op->bucket >= 0 && own->units_comm[op->bucket] >= 0)
        return unit_parts(m, op->bucket, own->units_comm[op->bucket], -1, EXEC_PART_POISON, rank,
                          parts, err);
    for (int32_t b = 0; op->kind == LW_OP_OPTIMIZER && b < m->plan->n_buckets; b++)
        if (own->units_comm[b] >= 0 && is_ahead(m, b))
            LW_TRY(unit_parts(m, b, own->units_comm[b], -1, EXEC_PART_POISON, rank, parts, err));
    for (int32_t b = 0; lw_op_uses_weights(op) && b < m->plan->n_buckets; b++)
        if (own->units_comm[b] >= 0 && lw_plan_op_reads(m->plan, (int32_t)(op - m->plan->ops), b))
            LW_TRY(unit_parts(m, b, own->units_comm[b], op->module, EXEC_PART_CHECK, rank, parts,
                              err));
    return LW_OK;
}
