/* The ops of a module's steps (shared/lower_part/module_steps.h), in their order. */
#include "shared/lower_ops/writer.h"

struct module_ops {
    const struct lw_part *d;
    int32_t module, work, input;
    enum lw_op_kind kind;
    int32_t received; /* what follows the next op waits for; -1 = nothing, or no message */
    struct lw_writer_part *cut; /* NULL; or its buffers are gathered ahead, and waited for within */
    int32_t n;                  /* ops so far, a cut one counted once */
};

/* The op, piece by piece: each waits for what it is the first to use. */
static void add_cut(struct lw_writer *k, struct module_ops *o)
{
    lw_ps at = lw_part_op_start(o->d, o->module, o->n);
    lw_ps stop = lw_part_op_start(o->d, o->module, o->n + 1);

    do {
        int32_t bucket = lw_write_gather_ahead(k, o->cut, o->module, at, o->input);
        lw_write_cut_work(k, o->d, o->module, o->work++, o->input, bucket);
        o->input = -1;
        at = lw_part_piece_end(o->d, o->module, at, stop);
    } while (at < stop);
    o->n++;
}

static void add_work(struct lw_writer *k, struct module_ops *o)
{
    if (o->cut)
        add_cut(k, o);
    else
        lw_write_work(k, o->d, o->kind, o->module, o->work++, o->input);
    o->input = -1;
    k->after = o->received;
    o->received = -1;
}

static void add_sum(struct lw_writer *k, const struct module_ops *o, int64_t bytes)
{
    lw_write_sum(k, o->d->s->sequence_parallel ? LW_OP_REDUCE_SCATTER : LW_OP_ALL_REDUCE, bytes,
                 lw_part_module(o->d, o->module), -1);
}

static void add_keys(struct lw_writer *k, const struct module_ops *o, enum lw_op_kind kind,
                     int32_t input)
{
    lw_write_keys(k, kind, lw_module_at(o->d->w, o->module)->kv_bytes,
                  lw_part_module(o->d, o->module), input);
}

static void add_step(struct lw_writer *k, struct module_ops *o, const struct lw_step *step)
{
    int32_t module = lw_part_module(o->d, o->module);

    switch (step->kind) {
    case LW_STEP_WORK: add_work(k, o); break;
    case LW_STEP_GATHER:
        lw_write_sum(k, LW_OP_ALL_GATHER, step->bytes, module, o->input);
        break;
    case LW_STEP_GATHERS: lw_write_gathers(k, step->bytes, module, o->input); break;
    case LW_STEP_GATHERED: lw_write_gathered(k); break;
    case LW_STEP_SAVED: lw_write_again_gathered(k, step->bytes, module); break;
    case LW_STEP_SUM: add_sum(k, o, step->bytes); break;
    case LW_STEP_BESIDE:
        k->sum = k->after;
        k->after = -1;
        break;
    case LW_STEP_SUMMED: k->after = k->sum; break;
    case LW_STEP_KEYS: add_keys(k, o, LW_OP_ALL_GATHER, o->input); break;
    case LW_STEP_KEY_GRADS: add_keys(k, o, LW_OP_REDUCE_SCATTER, -1); break;
    case LW_STEP_RING:
        o->received = lw_write_ring(k, o->d, o->module, false, step->which, -1);
        break;
    case LW_STEP_SENT: {
        bool forward = o->kind == LW_OP_FORWARD || o->kind == LW_OP_KERNEL; /* or it again */
        if (forward)
            lw_write_routing_map(k, o->d, o->module, o->input);
        lw_write_dispatch(k, o->d, o->module, forward, o->input);
        break;
    }
    case LW_STEP_BACK: lw_write_combine(k, o->d, o->module, o->input); break;
    }
}

void lw_write_module(struct lw_writer *k, const struct lw_part *d, int32_t module,
                     enum lw_op_kind kind, struct lw_steps steps, int32_t work, int32_t input)
{
    struct module_ops o = {d, module, work, input, kind, -1, NULL, 0};

    for (int32_t i = 0; i < steps.n; i++)
        add_step(k, &o, &steps.v[i]);
}

void lw_write_cut_module(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                         struct lw_steps steps, int32_t work, int32_t input)
{
    struct module_ops o = {x->d, module, work, input, LW_OP_FORWARD, -1, x, 0};

    for (int32_t i = 0; i < steps.n; i++)
        add_step(k, &o, &steps.v[i]);
}

void lw_write_exchange(struct lw_writer *k, const struct lw_part *d, int32_t module,
                       struct lw_steps steps, int32_t input)
{
    lw_write_module(k, d, module, LW_OP_BACKWARD, steps, -1, input);
}
