/* Clipping by the norm of all gradients (--clip): a pass that sums the squares of what this rank
 * updates, the sum over whoever holds other elements (the data group where optimizers are sharded,
 * the ranks of a replica where the model is cut), a pass that scales.
 *
 * The sum is sent as one f64, so that it is the same in any order where squares are whole
 * numbers: the bucket of the rank's stage of the kind LW_BUCKET_NORM. Each pass moves the
 * gradients that the fullest member updates; the first waits, as torch's clip_grad_norm_ does,
 * for everything that was reduced. Which elements count, and the proof that each does once:
 * docs/design/grad_norm.md. Not modelled: norms other than the second, leaving out the pass that
 * scales by 1. Sources: torch/nn/utils/clip_grad.py; fairscale optim/oss.py@146f1602
 * (clip_grad_norm: owned gradients, then the sum over the world). */
#include "shared/lower_ops/writer.h"

/* Elements that the fullest member of a part updates, and their bytes as gradients. */
static int64_t updated_bytes(const struct lw_part *d)
{
    int64_t whole = 0, elements = 0;

    for (int32_t i = 0; i < d->w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(d->w, i);
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

static struct lw_op pass_over(const struct lw_writer *k, enum lw_op_kind kind, const char *name)
{
    int64_t bytes = 0;

    for (int32_t i = 0; i < k->n_parts; i++)
        bytes += updated_bytes(k->parts[i].d);
    struct lw_op op =
        lw_write_moved(k, kind, (struct lw_line){-1, k->l->compute}, bytes, LW_F32, name);
    op.bucket = k->l->norm_bucket + k->stage;
    return op;
}

int32_t lw_write_squares(struct lw_writer *k)
{
    struct lw_op op = pass_over(k, LW_OP_COPY_IN, "gradient norm");

    return lw_write_compute(k, &op, k->deps, k->n_deps);
}

int32_t lw_write_norm_sum(struct lw_writer *k, struct lw_line line, int32_t last)
{
    enum lw_dtype dtype = lw_norm_dtype(k->l);
    struct lw_op op =
        lw_write_moved(k, LW_OP_ALL_REDUCE, line, lw_dtype_size(dtype), dtype, "gradient norm");

    op.bucket = k->l->norm_bucket + k->stage;
    return lw_builder_op(k->l->b, &op, &last, 1);
}

int32_t lw_write_scale(struct lw_writer *k, int32_t last)
{
    struct lw_op op = pass_over(k, LW_OP_COPY_OUT, "clip");

    return lw_write_compute(k, &op, &last, 1);
}

void lw_write_clip(struct lw_writer *k)
{
    const struct lw_lowering *l = k->l;
    bool sharded = false;

    if (l->s->clip <= 0 || l->s->compat == LW_COMPAT_COLOSSALAI)
        return; /* ColossalAI's chain is lower_colossal.c's */
    for (int32_t i = 0; i < k->n_parts; i++)
        sharded = sharded || k->parts[i].d->shards.n > 0;
    int32_t last = lw_write_squares(k);
    if (sharded && l->data.comm >= 0)
        last = lw_write_norm_sum(k, l->data, last);
    if (l->model.comm >= 0)
        last = lw_write_norm_sum(k, l->model, last);
    k->deps[0] = lw_write_scale(k, last);
    k->n_deps = 1;
}
