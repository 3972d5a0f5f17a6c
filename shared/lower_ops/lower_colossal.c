/* What ColossalAI's pipelines do differently (hpcaitech/ColossalAI @ 96780e6): combined calls of
 * sends and receives; under compat also the exchange of shapes before the first activation of a
 * part (communication/utils.py: the number of dimensions, then the dimensions, as blocking int64
 * messages; three dimensions are assumed, the workload knows none), transfers that are waited for,
 * and after the reductions the number of mixed precision and the chain of clipping: found-inf as a
 * maximum over the model group for f16 gradients (amp/); a pass that takes the squares, their sum
 * over the tensor group and then over the pipeline as f32, a pass that scales (utils/common.py,
 * clip_grad_norm_fp32).
 *
 * A combined call is one group call after the compute before it; the compute after it waits for all
 * of it under compat, else for what it takes. */
#include "shared/lower_ops/writer.h"

enum { DIMENSIONS = 3, BYTES_PER_NUMBER = 8 };

/* --- combined calls -------------------------------------------------------------------------- */

/* Values leave and arrive in the order of the rank's own forwards and backwards. */
struct queues {
    const struct lw_colossal_order *o;
    int32_t rank;
    int32_t at[4]; /* event that the next transfer of each kind belongs to */
};

static bool takes_part(const struct queues *q, const struct lw_grid *g, int bit,
                       const struct lw_colossal_event *e)
{
    bool forward = bit == 1 || bit == 3; /* LW_CALL_RECV_PREV, LW_CALL_SEND_NEXT */
    bool to_prev = bit == 0 || bit == 1;
    int32_t stage = e->chunk * g->n_ranks + q->rank;

    if (e->kind != (forward ? LW_OP_FORWARD : LW_OP_BACKWARD))
        return false;
    return to_prev ? stage > 0 : stage + 1 < g->n_stages;
}

/* The rank's next forward or backward whose value goes through transfers of this kind. */
static struct lw_action next_of(struct queues *q, const struct lw_grid *g, int bit)
{
    const struct lw_colossal_event *e = &q->o->events[q->at[bit]];

    while (!takes_part(q, g, bit, e))
        e++;
    q->at[bit] = (int32_t)(e - q->o->events) + 1;
    return (struct lw_action){e->kind, e->chunk * g->n_ranks + q->rank, e->micro_batch, false};
}

/* One of the messages that tell a shape, waited for. */
static void tell(struct lw_writer *k, bool sends, int32_t peer, int32_t module, int64_t bytes)
{
    struct lw_lowering *l = k->l;
    struct lw_op op =
        lw_write_moved(k, sends ? LW_OP_SEND : LW_OP_RECV, l->forward, bytes, LW_I64, "shape");
    int32_t dep = k->after >= 0 ? k->after : k->last_compute;

    op.module = module;
    op.micro_batch = -1;
    op.operand = lw_lower_row(l, LW_ROW_PEER, k->role, peer, bytes);
    k->after = lw_builder_op(l->b, &op, &dep, dep >= 0);
}

static void tell_shape(struct lw_writer *k, bool sends, int32_t peer, int32_t stage)
{
    const struct lw_part *d = &k->l->parts[stage];
    int32_t module = d->first_module + d->w->n_modules - 1;

    tell(k, sends, peer, module, BYTES_PER_NUMBER);
    tell(k, sends, peer, module, DIMENSIONS * BYTES_PER_NUMBER);
}

/* Shapes go ahead of the first activation of each part; sent before received. */
static void exchange_shapes(struct lw_writer *k, const struct queues *q, unsigned moves)
{
    const struct lw_grid *g = &k->l->grid;
    struct queues ahead = *q;

    for (int bit = 3; bit > 0; bit -= 2) { /* LW_CALL_SEND_NEXT, LW_CALL_RECV_PREV */
        if (!(moves & 1u << bit))
            continue;
        struct lw_action own = next_of(&ahead, g, bit);
        bool sends = bit == 3;
        int32_t peer = ((sends ? q->rank + 1 : q->rank - 1) + g->n_ranks) % g->n_ranks;
        if (own.micro_batch == 0)
            tell_shape(k, sends, peer, sends ? own.stage : own.stage - 1);
    }
}

/* Sends to and receives from the stage before, then those with the stage after: the order in which
 * ColossalAI posts them. */
static void write_call(struct lw_writer *k, struct queues *q, unsigned moves, bool blocking)
{
    const struct lw_grid *g = &k->l->grid;
    int32_t after = k->last_compute, ops[4], n = 0, call = k->n_calls++;

    for (int bit = 0; bit < 4; bit++) {
        if (!(moves & 1u << bit))
            continue;
        bool sends = bit == 0 || bit == 3, forward = bit == 1 || bit == 3;
        struct lw_action own = next_of(q, g, bit), made = own;
        int32_t peer = ((bit < 2 ? q->rank - 1 : q->rank + 1) + g->n_ranks) % g->n_ranks;
        if (!sends) /* what it takes was made one stage away */
            made.stage += forward ? -1 : 1;
        ops[n] = lw_write_message(k, sends, &made, peer, call, after);
        if (!sends)
            k->got[lw_value_at(k, !forward, own.stage, own.micro_batch)] = ops[n];
        n++;
    }
    if (blocking && n > 0)
        lw_write_wait(k, "transfers", ops, n);
}

enum lw_status lw_write_calls(struct lw_writer *k, struct lw_err *err)
{
    const struct lw_colossal_order *o = &k->l->calls;
    int32_t first = o->first[k->role];
    struct queues q = {o, k->role, {first, first, first, first}};
    bool blocking = k->l->s->compat == LW_COMPAT_COLOSSALAI;

    for (int32_t i = first; i < o->first[k->role + 1]; i++) {
        const struct lw_colossal_event *e = &o->events[i];
        if (e->kind == LW_OP_BARRIER) {
            if (blocking)
                exchange_shapes(k, &q, e->call);
            write_call(k, &q, e->call, blocking);
            continue;
        }
        const struct lw_action a = {e->kind, e->chunk * k->l->grid.n_ranks + k->role,
                                    e->micro_batch, false};
        LW_TRY(lw_write_action(k, &a, err));
    }
    return LW_OK;
}

/* --- after the reductions -------------------------------------------------------------------- */

/* A number that all members of a group agree on; whatever follows waits for it. */
static void agree(struct lw_writer *k, struct lw_line line, const char *what)
{
    struct lw_op op =
        lw_write_moved(k, LW_OP_ALL_REDUCE, line, lw_dtype_size(LW_F32), LW_F32, what);
    int32_t dep = k->after >= 0 ? k->after : k->last_compute;

    k->after = lw_builder_op(k->l->b, &op, &dep, 1);
}

static bool has_f16(const struct lw_lowering *l)
{
    for (int32_t i = 0; i < l->w->n_params; i++)
        if (lw_param_at(l->w, i).trainable &&
            lw_strategy_grad_dtype(l->s, (enum lw_dtype)lw_param_at(l->w, i).dtype) == LW_F16)
            return true;
    return false;
}

static void clip(struct lw_writer *k)
{
    const struct lw_lowering *l = k->l;
    int32_t last = lw_write_squares(k);

    if (l->tensor.comm >= 0)
        last = lw_write_norm_sum(k, (struct lw_line){l->tensor.comm, l->model.stream}, last);
    if (l->pipeline.comm >= 0)
        last = lw_write_norm_sum(k, l->pipeline, last);
    lw_write_scale(k, last);
}

void lw_write_model_numbers(struct lw_writer *k)
{
    const struct lw_lowering *l = k->l;

    if (l->s->compat != LW_COMPAT_COLOSSALAI)
        return;
    if (l->model.comm >= 0 && has_f16(l))
        agree(k, l->model, "found inf");
    if (l->s->clip > 0)
        clip(k);
}
