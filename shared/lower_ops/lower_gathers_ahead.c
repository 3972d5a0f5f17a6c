/* The gathers of --overlap-param-gather: at the head of a step, what the optimizer of the step
 * before changed. The first module that uses a bucket waits for it; the next bucket's gather begins
 * when this wait is over, beside the modules that use this bucket. Later micro-batches find all
 * there.
 *
 * Source: NVIDIA/Megatron-LM@00119989 megatron/core/distributed/param_and_grad_buffer.py,
 * finish_param_sync: it issues the bucket's own gather unless it was issued before, waits, and
 * issues that of the next one. Which buckets, in which order:
 * shared/lower_part/lower_param_gather.c. */
#include "shared/lower_ops/writer.h"

enum lw_status lw_write_begin_gathers_ahead(const struct lw_pass *pass, struct lw_writer_part *x,
                                            struct lw_arena *room, struct lw_err *err)
{
    int32_t n = x->d->shards.n_buffers;

    if (!lw_part_gathers_ahead(x->d))
        return LW_OK;
    LW_TAKE(room, x->gathered_by, n, err);
    x->n_gathered = x->n_waited = pass->held ? n : 0;
    return LW_OK;
}

/* Buckets whose turn is up to `last`. */
static void gather_to(struct lw_writer *k, struct lw_writer_part *x, int64_t last)
{
    const struct lw_part_shards *h = &x->d->shards;

    for (; x->n_gathered < h->n_buffers && x->n_gathered <= last; x->n_gathered++) {
        const struct lw_part_buffer *f = &h->buffers[h->forward[x->n_gathered]];
        struct lw_op op = lw_write_collective(
            k, LW_OP_ALL_GATHER, f->elements * lw_dtype_size(f->dtype), f->dtype);
        op.comm = lw_data_comm(k->l, f->expert);
        op.bucket = h->first_bucket + h->forward[x->n_gathered];
        op.module = lw_part_module(x->d, f->first_user);
        op.name = "weights";
        x->gathered_by[x->n_gathered] =
            lw_builder_op(k->l->b, &op, &k->last_compute, k->last_compute >= 0);
    }
}

void lw_write_gather_ahead(struct lw_writer *k, struct lw_writer_part *x, int32_t module)
{
    const struct lw_part_shards *h = &x->d->shards;
    int64_t ahead = x->d->s->prefetch >= 0 ? x->d->s->prefetch : LW_PREFETCH_DEFAULT;
    int32_t last = -1;

    if (!x->gathered_by)
        return;
    for (int32_t i = h->first_unit[module]; i < h->first_unit[module + 1]; i++)
        last = h->buffers[h->unit_of[i]].turn > last ? h->buffers[h->unit_of[i]].turn : last;
    if (last < x->n_waited)
        return;
    gather_to(k, x, last);
    lw_write_wait(k, "weights", x->gathered_by + x->n_waited, last + 1 - x->n_waited);
    x->n_waited = last + 1;
    gather_to(k, x, last + ahead);
}
