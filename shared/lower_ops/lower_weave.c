/* Units of a forward and a backward of two micro-batches, written one after the other, whose ops
 * are put side by side: wherever one has sent its tokens to the experts, or back, the other goes
 * on, so that an all-to-all runs beside the other's compute. The backward begins: its first
 * all-to-all brings gradients back to the experts, and the forward's attention follows; its
 * dispatch runs beside the gradients of the experts, and so on, block by block.
 *
 * Source: NVIDIA/Megatron-LM@60e039626, megatron/core/models/common/model_chunk_schedule_plan.py,
 * TransformerLayerSchedulePlan.run: combine of the backward, attention and dispatch of the forward,
 * experts and dispatch of the backward, experts and combine of the forward, attention of the
 * backward, on a stream of compute and one of communication; DeepSeek-AI, arXiv 2412.19437, section
 * 3.2.1, figure 4.
 *
 * Every member of an expert, tensor or context group weaves the same two, so the order of
 * collectives stays the same on all of them. Messages between stages are written around a unit. */
#include "shared/lower_ops/writer.h"

static int32_t n_ops(const struct lw_writer *k)
{
    return lw_builder_plan(k->l->b)->n_ops;
}

/* --zero 3: the two take and free the same gathered weights. */
static bool weaves(const struct lw_writer *k)
{
    return k->l->ep > 1 && k->l->s->zero < 3;
}

/* The second of a unit follows what the first follows, and not the first. */
static void begin_second(struct lw_writer *k, struct lw_unit_ops *u)
{
    u->second = n_ops(k);
    u->first_after = k->after;
    k->last_compute = u->before;
    k->after = u->after;
}

/* What a unit's last all-to-alls bring leaves the rank in messages, which wait for them; what stays
 * on the rank (two stages of a V) is waited for here. */
static void end_unit(struct lw_writer *k, struct lw_unit_ops *u)
{
    int32_t ops[2], n = 0;

    u->end = n_ops(k);
    if (u->first_after >= u->first)
        ops[n++] = u->first_after;
    if (k->after >= u->second)
        ops[n++] = k->after;
    k->after = -1;
    if (n > 0 && k->l->grid.layout == LW_LAYOUT_V)
        lw_write_wait(k, "unit", ops, n);
}

static void begin_unit(struct lw_writer *k)
{
    if (lw_reserve(&k->units, &k->units_capacity, k->n_units + 1, sizeof *k->units) == 0)
        k->units[k->n_units++] =
            (struct lw_unit_ops){n_ops(k), -1, -1, k->last_compute, k->after, -1};
    else
        k->l->no_memory = true;
}

void lw_note_unit(struct lw_writer *k, const struct lw_action *a)
{
    struct lw_unit_ops *u = k->n_units > 0 ? &k->units[k->n_units - 1] : NULL;

    if (!weaves(k) || k->l->no_memory)
        return;
    if (u && u->second < 0) {
        if (a) /* a receive between the two goes with the first */
            begin_second(k, u);
        return;
    }
    if (u && u->end < 0)
        end_unit(k, u);
    if (a && a->with_next)
        begin_unit(k);
}

/* One of the two: the ops at .. end - 1 are not placed yet. */
struct side {
    int32_t at, end;
};

struct weave {
    const struct lw_plan *p;
    int32_t *order, n, base; /* ops of the program placed so far; its first op */
};

static void place(struct weave *w, struct side *x)
{
    w->order[w->n++] = x->at++ - w->base;
}

/* The op waits for one of the other side that is not placed yet: that one and what precedes it
 * go first. */
static void place_needed(struct weave *w, const struct side *x, struct side *other)
{
    const struct lw_op *op = &w->p->ops[x->at];

    for (int32_t i = 0; i < op->n_deps; i++) {
        int32_t dep = w->p->deps[op->first_dep + i];
        while (dep >= other->at && dep < other->end)
            place(w, other);
    }
}

/* Until its tokens have been sent. */
static void go_on(struct weave *w, struct side *x, struct side *other)
{
    bool sent = false;

    while (x->at < x->end && !sent) {
        sent = w->p->ops[x->at].kind == LW_OP_ALL_TO_ALL;
        place_needed(w, x, other);
        place(w, x);
    }
}

static bool is_backward(const struct lw_plan *p, int32_t from, int32_t to)
{
    for (; from < to; from++)
        if (p->ops[from].kind == LW_OP_FORWARD)
            return false;
    return true;
}

static void weave(struct weave *w, const struct lw_unit_ops *u)
{
    struct side first = {u->first, u->second}, second = {u->second, u->end};

    if (is_backward(w->p, first.at, first.end))
        go_on(w, &first, &second);
    while (first.at < first.end || second.at < second.end) {
        go_on(w, &second, &first);
        go_on(w, &first, &second);
    }
}

void lw_weave_units(struct lw_writer *k)
{
    const struct lw_plan *p = lw_builder_plan(k->l->b);
    int32_t end = p->n_ops, base = k->n_units > 0 ? k->first_op : end;
    struct side rest = {base, end};
    struct weave w = {p, lw_calloc((size_t)(end - base) + 1, sizeof *w.order), 0, base};

    k->l->no_memory = k->l->no_memory || !w.order;
    for (int64_t i = 0; !k->l->no_memory && i < k->n_units; i++) {
        while (rest.at < k->units[i].first)
            place(&w, &rest);
        weave(&w, &k->units[i]);
        rest.at = k->units[i].end;
    }
    while (!k->l->no_memory && rest.at < end)
        place(&w, &rest);
    if (!k->l->no_memory && k->n_units > 0)
        lw_builder_order(k->l->b, w.order);
    lw_free(w.order);
    lw_free(k->units);
    k->units = NULL;
    k->n_units = 0;
}
