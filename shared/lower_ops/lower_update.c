/* The end of a step on one rank: the sums over tied copies, clipping, Muon's gathers and the
 * optimizer after everything that was reduced, then the flat buffers that bring sharded weights to
 * all members. */
#include "shared/lower_ops/writer.h"

/* ColossalAI flattens, sums, spreads, and waits. */
static void sum_tied(struct lw_writer *k, const struct lw_tied_set *x, const struct lw_tied_copy *c)
{
    const struct lw_lowering *l = k->l;
    const struct lw_param *p = LW_PARAM(l->w, c->param);
    enum lw_dtype dtype = lw_strategy_grad_dtype(l->s, p->dtype);
    int64_t bytes = p->numel * lw_dtype_size(dtype);
    struct lw_op op = lw_write_moved(k, LW_OP_ALL_REDUCE, x->line, bytes, dtype, p->name);
    bool flat = l->s->compat == LW_COMPAT_COLOSSALAI;

    op.bucket = c->bucket;
    op.module = p->module;
    if (flat)
        lw_write_copy(k, LW_OP_COPY, bytes, dtype, -1, -1);
    int32_t at = lw_builder_op(l->b, &op, &k->last_compute, 1);
    k->deps[k->n_deps++] = at;
    if (flat)
        lw_write_copy(k, LW_OP_COPY, bytes, dtype, -1, at);
}

static void sum_copies(struct lw_writer *k)
{
    for (int32_t s = 0; s < k->l->n_tied; s++)
        for (int32_t i = 0; i < k->l->tied[s].n_copies; i++)
            if (k->l->tied[s].copies[i].stage == k->stage)
                sum_tied(k, &k->l->tied[s], &k->l->tied[s].copies[i]);
}

/* A flat buffer goes out, narrowed where --broadcast-dtype says so: after the optimizer. */
static int32_t send_buffer(struct lw_writer *k, const struct lw_part *d, int32_t b,
                           int32_t optimizer)
{
    const struct lw_part_buffer *f = &d->shards.buffers[b];
    enum lw_dtype wire = lw_part_weights_dtype(d->s, f->dtype);
    int32_t number = d->shards.first_bucket + b, after = optimizer;

    if (wire != f->dtype)
        after = lw_write_copy(k, LW_OP_CAST, f->elements * lw_dtype_size(f->dtype), wire, number,
                              -1);
    struct lw_op op =
        lw_write_weights(k, d, b, f->owner < 0 ? LW_OP_ALL_GATHER : LW_OP_BROADCAST, wire);
    if (f->owner >= 0)
        lw_write_root(k, &op, f->owner, f->expert);
    return lw_builder_op(k->l->b, &op, &after, 1);
}

/* What came back narrowed is widened again. */
static void widen_buffers(struct lw_writer *k)
{
    for (int32_t i = 0; i < k->n_parts; i++) {
        const struct lw_part *d = k->parts[i].d;
        for (int32_t b = 0; b < d->shards.n_buffers; b++) {
            const struct lw_part_buffer *f = &d->shards.buffers[b];
            if (f->module < 0 && lw_part_weights_dtype(d->s, f->dtype) != f->dtype)
                lw_write_copy(k, LW_OP_CAST, f->elements * lw_dtype_size(f->dtype), f->dtype,
                              d->shards.first_bucket + b, -1);
        }
    }
}

/* The new weights reach every member: flat buffer by flat buffer, in order. Those of units are
 * gathered where they are used, or ahead of the next step's forwards. */
static void spread_weights(struct lw_writer *k, int32_t optimizer)
{
    k->n_deps = 0;
    for (int32_t i = 0; i < k->n_parts; i++) {
        const struct lw_part *d = k->parts[i].d;
        for (int32_t b = 0; !lw_part_gathers_ahead(d) && b < d->shards.n_buffers; b++)
            if (d->shards.buffers[b].module < 0)
                k->deps[k->n_deps++] = send_buffer(k, d, b, optimizer);
    }
    if (k->n_deps == 0)
        return;
    lw_write_wait(k, "weights", k->deps, k->n_deps);
    widen_buffers(k);
}

/* The state comes from the host when the last backward has ended, beside what is left of the
 * reductions, and goes back after the update, beside what brings weights to others. */
static struct lw_op state_op(const struct lw_writer *k, enum lw_op_kind kind)
{
    struct lw_op op = lw_write_op(k, kind, k->l->host_link, "optimizer state");

    op.dtype = LW_F32;
    op.bytes = k->l->offloaded[k->role];
    op.work_ps = lw_op_class(kind) == LW_CLASS_COPY ? -1 : 0;
    return op;
}

void lw_write_load_state(struct lw_writer *k)
{
    if (!k->l->offloaded || k->l->offloaded[k->role] == 0)
        return;
    struct lw_op room = state_op(k, LW_OP_ALLOC), load = state_op(k, LW_OP_LOAD);
    int32_t there = lw_builder_op(k->l->b, &room, &k->last_compute, k->last_compute >= 0);
    k->loaded = lw_builder_op(k->l->b, &load, &there, 1);
}

static void store_state(struct lw_writer *k, int32_t optimizer)
{
    if (k->loaded < 0)
        return;
    struct lw_op store = state_op(k, LW_OP_STORE), room = state_op(k, LW_OP_FREE);
    int32_t gone = lw_builder_op(k->l->b, &store, &optimizer, 1);
    lw_builder_op(k->l->b, &room, &gone, 1);
}

/* Muon's matrices become whole, one after the other: lower_muon.c. */
static void gather_matrices(struct lw_writer *k)
{
    for (int32_t i = 0; i < k->n_parts; i++) {
        const struct lw_part *d = k->parts[i].d;
        for (int32_t g = 0; g < d->n_gathered; g++) {
            const struct lw_param *p = LW_PARAM(d->w, d->gathered[g]);
            struct lw_op op = lw_write_moved(k, LW_OP_ALL_GATHER, k->l->tensor,
                                             p->numel * k->l->tp * lw_dtype_size(LW_F32), LW_F32,
                                             "momentum");
            op.module = lw_part_module(d, p->module);
            k->deps[0] = lw_builder_op(k->l->b, &op, k->deps, k->n_deps);
            k->n_deps = 1;
        }
    }
}

/* After k->deps; the op that new weights follow. */
static int32_t update(struct lw_writer *k)
{
    struct lw_op op = lw_write_op(k, LW_OP_OPTIMIZER, k->l->compute, "");

    if (k->l->s->offload == LW_OFFLOAD_UPDATE && k->l->host_updates[k->role] > 0)
        return lw_write_host_update(k);
    op.work = k->l->optimizer_work[k->role];
    int32_t optimizer = lw_write_compute(k, &op, k->deps, k->n_deps);
    if (k->loaded >= 0)
        lw_builder_dep(k->l->b, k->loaded);
    store_state(k, optimizer);
    return optimizer;
}

void lw_write_update(struct lw_writer *k)
{
    k->micro_batch = -1;
    sum_copies(k);
    lw_write_model_numbers(k);
    lw_write_gap(k, LW_GAP_BEFORE_OPTIMIZER);
    if (k->n_deps == 0)
        k->deps[k->n_deps++] = k->last_compute;
    lw_write_clip(k);
    gather_matrices(k);
    spread_weights(k, update(k));
    lw_write_gap(k, LW_GAP_AFTER_OPTIMIZER);
}
