/* The memory layout of the parameters of a rank: weights, gradients, masters and what the optimizer
 * keeps. Flat buffers of weights come first, laid out as the plan says; then whatever lies in none
 * of them. A rank holds one stage: all begin at 0, and there is room for the largest. */
#include "exec/tensors/tensors.h"
#include "exec/tensors/weight_turns.h"

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct ends { /* of what a stage's parameters take so far */
    int64_t weight_bytes, n_state, grad_bytes;
};

/* A flat buffer of weights at `at`. */
static enum lw_status place_flat(struct exec_tensors *m, int32_t b, int64_t at, bool *placed,
                                 struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    enum lw_dtype own = exec_bucket_filled_in(p, b);

    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &p->buckets[b], &w);) {
        const struct lw_plan_param *a = &p->params[w.slot.param];
        if (placed[w.slot.param])
            return lw_fail(err, LW_EPLAN, "flat buffer %d: the weights of '%s' lie in another "
                                          "one too", b, a->name);
        if (a->dtype != own)
            return lw_fail(err, LW_EPLAN, "flat buffer %d holds '%s' of %s beside weights of %s", b,
                           a->name, lw_dtype_name(a->dtype), lw_dtype_name(own));
        placed[w.slot.param] = true;
        m->weights.at[w.slot.param] = at + w.slot.offset * lw_dtype_size(own);
        m->weights.travels_as[w.slot.param] = (uint8_t)p->buckets[b].dtype;
    }
    return LW_OK;
}

/* A buffer that takes turns is at the place of its slot. The marks of the slot and its own share
 * follow. */
static int64_t place_turn(struct exec_tensors *m, struct ends *e, int32_t b, int64_t *slot_at)
{
    struct exec_turn *t = &m->weights.turns[b];

    if (slot_at[t->slot] < 0) {
        slot_at[t->slot] = e->weight_bytes;
        e->weight_bytes += t->slot_bytes + exec_turn_marks_bytes(t->n_turns);
    }
    t->marks_at = slot_at[t->slot] + t->slot_bytes;
    t->share_at = e->weight_bytes;
    e->weight_bytes += exec_aligned(exec_share_bytes(m, b));
    return slot_at[t->slot];
}

/* Flat buffers of weights have the plan's layout, so they are sent without a copy. After a buffer
 * that is cast before it is sent comes the memory of the cast. */
static enum lw_status place_flat_weights(struct exec_tensors *m, struct ends *ends, bool *placed,
                                         struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    int64_t *slot_at;

    LW_TRY(exec_turns_find(m, err));
    LW_TAKE(&m->arena, slot_at, m->weights.n_slots, err);
    for (int32_t i = 0; i < m->weights.n_slots; i++)
        slot_at[i] = -1;
    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket *k = &p->buckets[b];
        m->weights.bucket_at[b] = -1;
        if (!lw_plan_is_weights(p, b) || k->n_slots == 0)
            continue;
        struct ends *e = &ends[p->params[p->slots[k->first_slot]].stage];
        enum lw_dtype own = exec_bucket_filled_in(p, b);
        if (m->weights.turns[b].slot >= 0) {
            int64_t at = place_turn(m, e, b, slot_at);
            m->weights.wire_at[b] = m->weights.bucket_at[b] = at;
            LW_TRY(place_flat(m, b, at, placed, err));
            continue;
        }
        LW_TRY(place_flat(m, b, e->weight_bytes, placed, err));
        m->weights.wire_at[b] = m->weights.bucket_at[b] = e->weight_bytes;
        e->weight_bytes += exec_aligned(k->bytes / lw_dtype_size(k->dtype) * lw_dtype_size(own));
        if (own == k->dtype)
            continue;
        m->weights.wire_at[b] = e->weight_bytes;
        e->weight_bytes += exec_aligned(k->bytes);
    }
    return LW_OK;
}

enum lw_status exec_params_place(struct exec_tensors *m, struct lw_err *err)
{
    const struct lw_plan *p = m->plan;
    struct lw_arena *arena = &m->arena;
    bool *placed;
    struct ends *ends;

    LW_TAKE(arena, placed, p->n_params, err);
    LW_TAKE(arena, ends, p->n_stages, err);
    LW_TAKE(arena, m->weights.bucket_at, p->n_buckets, err);
    LW_TAKE(arena, m->weights.wire_at, p->n_buckets, err);
    LW_TAKE(arena, m->weights.travels_as, p->n_params, err);
    LW_TAKE(arena, m->weights.at, p->n_params, err);
    LW_TAKE(arena, m->grad_at, p->n_params, err);
    LW_TAKE(arena, m->state_at, p->n_params, err);
    for (int32_t i = 0; i < p->n_params; i++)
        m->weights.travels_as[i] = p->params[i].dtype;
    LW_TRY(place_flat_weights(m, ends, placed, err));
    for (int32_t i = 0; i < p->n_params; i++) {
        const struct lw_plan_param *a = &p->params[i];
        if ((a->trainable || placed[i]) && a->dtype > LW_BF16)
            return lw_fail(err, LW_ENOTSUP, "parameter '%s' is of %s; exec trains and shards f32, "
                                            "f64, f16, bf16", a->name, lw_dtype_name(a->dtype));
        if (!a->trainable || !lw_plan_holds(p, i))
            continue;
        struct ends *e = &ends[a->stage];
        m->grad_at[i] = e->grad_bytes;
        if (!placed[i]) {
            m->weights.at[i] = e->weight_bytes;
            e->weight_bytes += exec_aligned(a->numel * lw_dtype_size(a->dtype));
        }
        m->state_at[i] = e->n_state;
        e->n_state += exec_aligned(a->numel * 4) / 4;
        m->has_masters = m->has_masters || a->dtype != LW_F32;
        e->grad_bytes += exec_aligned(a->numel * lw_dtype_size(exec_gradient_dtype(p, i)));
    }
    for (int32_t s = 0; s < p->n_stages; s++) {
        m->weight_bytes = most_of(m->weight_bytes, ends[s].weight_bytes);
        m->n_state = most_of(m->n_state, ends[s].n_state);
        m->grad_bytes = most_of(m->grad_bytes, ends[s].grad_bytes);
    }
    return LW_OK;
}
