/* Clipping by the norm of all gradients (--clip): a pass that sums the squares of what this rank
 * updates, the sum over whoever holds other elements (the data group where optimizers are sharded,
 * the ranks of a replica where the model is cut), a pass that scales.
 *
 * The sum travels as one f64, so that it is the same in any order where squares are whole numbers.
 * Each pass is a copy of the gradients that the fullest member updates; both wait, as torch's
 * clip_grad_norm_ does, for everything that was reduced. Parameters that a tensor group holds whole
 * count once: that costs no time. Not modelled: norms other than the second, skipping the pass that
 * scales by 1. Sources: torch/nn/utils/clip_grad.py; fairscale optim/oss.py@146f1602
 * (clip_grad_norm: owned gradients, then the sum over the world). */
#include "shared/program_lower.h"

/* Elements that the fullest member of a part updates, and their bytes as gradients. */
static int64_t updated_bytes(const struct lw_part *d)
{
    int64_t whole = 0, elements = 0;

    for (int32_t i = 0; i < d->w->n_params; i++) {
        const struct lw_param *p = &d->w->params[i];
        if (!p->trainable || p->tied >= 0)
            continue;
        elements += p->numel;
        whole += p->numel *
                 lw_dtype_size(lw_strategy_grad_dtype(d->s, (enum lw_dtype)p->dtype));
    }
    if (d->shards.n == 0 || elements == 0)
        return whole;
    return (int64_t)((__int128)whole * d->shards.most_owned / elements);
}

static struct lw_op pass_over(const struct lw_writer *k, const char *name)
{
    struct lw_op op = lw_builder_blank(LW_OP_COPY, k->l->compute);

    for (int32_t i = 0; i < k->n_parts; i++)
        op.bytes += updated_bytes(k->parts[i].d);
    op.work_ps = -1;
    op.dtype = LW_F32;
    op.stage = (int16_t)k->stage;
    op.name = name;
    return op;
}

static int32_t sum_over(struct lw_writer *k, int32_t comm, int32_t stream, int32_t after)
{
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, stream);

    op.comm = comm;
    op.work_ps = -1;
    op.bytes = lw_dtype_size(LW_F64);
    op.dtype = LW_F64;
    op.stage = (int16_t)k->stage;
    op.name = "gradient norm";
    return lw_builder_op(k->l->b, &op, &after, 1);
}

void lw_write_clip(struct lw_writer *k)
{
    const struct lw_lowering *l = k->l;
    bool sharded = false;

    if (l->s->clip <= 0 || l->s->compat == LW_COMPAT_COLOSSALAI)
        return; /* ColossalAI's numbers are program_colossal.c's */
    for (int32_t i = 0; i < k->n_parts; i++)
        sharded = sharded || k->parts[i].d->shards.n > 0;
    struct lw_op op = pass_over(k, "gradient norm");
    int32_t last = lw_write_compute(k, &op, k->deps, k->n_deps);
    if (sharded && l->data >= 0)
        last = sum_over(k, l->data, l->comm, last);
    if (l->model >= 0)
        last = sum_over(k, l->model, l->model_stream, last);
    op = pass_over(k, "clip");
    k->deps[0] = lw_write_compute(k, &op, &last, 1);
    k->n_deps = 1;
}
