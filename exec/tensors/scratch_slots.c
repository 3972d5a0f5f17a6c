/* Messages reuse each other's slots. An op that makes a message, or the receive that brings it,
 * takes the smallest free slot that is large enough, or a new one. A slot is free when every op
 * that reads its message has ended before the op begins (shared/check/message_order.h). So a slot
 * never changes while it is read, however the ranks run; where nothing is known, as when receives
 * are posted first, each message has its own. */
#include "exec/tensors/scratch_slots.h"

struct slot {
    int64_t at, bytes;
    int32_t message; /* that had it last */
};

struct finder {
    const struct exec_tensors *m;
    struct exec_layout *l;
    struct lw_program g;
    int32_t role;
    const struct lw_message_order *order;
    int32_t *first_use, *next_use; /* [n_ops] sends that go on from what a receive brought */
    struct slot *slots;
    int64_t n, capacity;
};

int64_t exec_most_bytes(const struct lw_plan *p, const struct lw_op *op, int32_t role)
{
    int64_t most = op->bytes;

    for (int32_t r = 0; op->operand >= 0 && r < p->n_ranks; r++)
        if (lw_plan_role_of(p, r) == role && lw_plan_operand(p, op, r).bytes > most)
            most = lw_plan_operand(p, op, r).bytes;
    return most > 0 || lw_op_class(op->kind) != LW_CLASS_P2P ? most : lw_dtype_size(op->dtype);
}

static const struct lw_op *op_of(const struct finder *f, int32_t i)
{
    return &f->m->plan->ops[f->g.first_op + i];
}

static int64_t bytes_of(const struct finder *f, int32_t i)
{
    return exec_aligned(exec_most_bytes(f->m->plan, op_of(f, i), f->role));
}

static bool is_scratch(const struct finder *f, int32_t i)
{
    return op_of(f, i)->comm >= 0 && op_of(f, i)->bucket < 0;
}

/* --- uses --- */

/* The last op that reads it, except those that depend on it. */
static int32_t taker_of(const struct finder *f, int32_t k)
{
    if (op_of(f, k)->kind == LW_OP_SEND)
        return k;
    return f->l->flow.end_of[k] >= 0 ? f->l->flow.end_of[k] : f->l->payloads.taker[k];
}

static bool comes_and_goes(const struct finder *f, int32_t k)
{
    return f->l->flow.end_of[k] >= 0 || f->l->payloads.maker[k] >= 0 ||
           f->l->flow.passed[k] >= 0;
}

static void note_uses(struct finder *f)
{
    for (int32_t k = 0; k < f->g.n_ops; k++)
        f->first_use[k] = f->next_use[k] = -1;
    for (int32_t k = 0; k < f->g.n_ops; k++) {
        int32_t from = f->l->flow.passed[k] >= 0 ? f->l->flow.passed[k] : f->l->flow.source[k];
        if (from < 0)
            continue;
        f->next_use[k] = f->first_use[from];
        f->first_use[from] = k;
    }
}

/* Op a of the program has ended when its op b begins. */
static bool ended_before(const struct finder *f, int32_t a, int32_t b)
{
    return lw_ended_before(f->order, f->g.first_op + a, f->g.first_op + b);
}

/* No op reads message k when op i begins or later. */
static bool is_over(const struct finder *f, int32_t k, int32_t i)
{
    if (!ended_before(f, taker_of(f, k), i))
        return false;
    for (int32_t s = f->first_use[k]; s >= 0; s = f->next_use[s])
        if (!ended_before(f, f->l->flow.passed[s] >= 0 ? s : f->l->flow.end_of[s], i))
            return false;
    return true;
}

/* --- slots --- */

static enum lw_status find(struct finder *f, int32_t k, int32_t begin, struct lw_err *err)
{
    int64_t bytes = bytes_of(f, k);
    struct slot *best = NULL;

    for (int64_t i = 0; i < f->n; i++) {
        struct slot *x = &f->slots[i];
        if (x->bytes >= bytes && (!best || x->bytes < best->bytes) && is_over(f, x->message, begin))
            best = x;
    }
    f->l->before_of[k] = best ? best->message : -1;
    if (!best) {
        LW_ROOM(f->slots, f->capacity, f->n + 1, err);
        best = &f->slots[f->n++];
        *best = (struct slot){.at = f->l->shared_bytes, .bytes = bytes};
        f->l->shared_bytes += bytes;
    }
    best->message = k;
    f->l->scratch_at[k] = best->at;
    return LW_OK;
}

/* What begins with op i: what it receives, or the messages that it makes. */
static enum lw_status begin(struct finder *f, int32_t i, struct lw_err *err)
{
    if (is_scratch(f, i) && comes_and_goes(f, i) && op_of(f, i)->kind == LW_OP_RECV)
        LW_TRY(find(f, i, i, err));
    if (f->l->flow.passed[i] >= 0 && f->l->flow.end_of[i] < 0) /* sent from where it came */
        f->l->scratch_at[i] = f->l->scratch_at[f->l->flow.passed[i]];
    for (int32_t k = f->l->flow.first[i]; k >= 0; k = f->l->flow.next[k])
        if (op_of(f, k)->kind == LW_OP_SEND && is_scratch(f, k))
            LW_TRY(find(f, k, i, err));
    for (int32_t k = f->l->payloads.made[i]; k >= 0; k = f->l->payloads.next_made[k])
        LW_TRY(find(f, k, i, err));
    return LW_OK;
}

static enum lw_status place_all(struct finder *f, int64_t first_apart, struct lw_err *err)
{
    f->l->apart_bytes = first_apart;
    note_uses(f);
    for (int32_t i = 0; i < f->g.n_ops; i++) {
        LW_TRY(begin(f, i, err));
        f->l->apart[i] = is_scratch(f, i) && !comes_and_goes(f, i);
        if (!f->l->apart[i])
            continue;
        f->l->scratch_at[i] = f->l->apart_bytes;
        f->l->apart_bytes += bytes_of(f, i);
    }
    return LW_OK;
}

static bool comes_in(const struct finder *f, int32_t i)
{
    return op_of(f, i)->kind == LW_OP_RECV;
}

/* Two slots, as large as the largest message that comes in and as the largest of the others. A
 * group call receives while a neighbour still reads what it sends. */
static void place_as_one(struct finder *f)
{
    int64_t in = 0, others = 0;

    for (int32_t i = 0; i < f->g.n_ops; i++) {
        int64_t *most = comes_in(f, i) ? &in : &others;
        if (is_scratch(f, i) && bytes_of(f, i) > *most)
            *most = bytes_of(f, i);
    }
    others = exec_aligned(others);
    for (int32_t i = 0; i < f->g.n_ops; i++)
        if (is_scratch(f, i) && comes_in(f, i))
            f->l->scratch_at[i] = others;
    if (others + in > f->l->shared_bytes)
        f->l->shared_bytes = others + in;
}

enum lw_status exec_slots_find(const struct exec_tensors *m, int32_t variant, int32_t role,
                               struct lw_message_order *order, int64_t first_apart,
                               struct exec_layout *l, struct lw_err *err)
{
    struct finder f = {.m = m, .l = l, .role = role, .order = order,
                       .g = m->plan->programs[(int64_t)variant * m->plan->n_roles + role]};
    struct lw_arena arena = {0};

    if (!order) {
        place_as_one(&f);
        return LW_OK;
    }
    lw_message_order_set(order, role);
    f.first_use = lw_arena_alloc(&arena, f.g.n_ops, sizeof *f.first_use);
    f.next_use = lw_arena_alloc(&arena, f.g.n_ops, sizeof *f.next_use);
    enum lw_status s =
        f.first_use && f.next_use ? place_all(&f, first_apart, err) : lw_fail_nomem(err);
    lw_free(f.slots);
    lw_arena_free(&arena);
    return s;
}
