/* The gathers of --overlap-param-gather: at the head of a step, what the optimizer of the step
 * before changed. The first module that uses a bucket waits for it, within the module where the
 * first of its layers does whose weights lie there; the next bucket's gather begins when this wait
 * is over, beside the layers that use this bucket. In chunks of a pipeline all other buckets of the
 * part and of the next part on the rank follow the first wait. Without --align-param-gather, and in
 * a pipeline without chunks, a part's gathers begin when its first micro-batch has come: each
 * bucket's when it is needed or, if the part has another of its kind (experts' or not) before it,
 * after the wait for that one. Later micro-batches find all there.
 *
 * Sources: NVIDIA/Megatron-LM@00119989 megatron/core/distributed/param_and_grad_buffer.py,
 * finish_param_sync: it issues the bucket's own gather unless it was issued before, waits, and
 * issues that of the next one; distributed_data_parallel.py: one bucket in parts after the first;
 * NVIDIA/Megatron-LM@00611e6e megatron/core/pipeline_parallel/schedules.py, param_sync_func: an
 * interleaved schedule begins with the gathers of two model chunks, and each later one is issued a
 * chunk ahead; forward_backward_pipelining_without_interleaving calls none;
 * megatron/training/training.py sets it with align_param_gather alone. Which buckets, in which
 * order: shared/lower_part/lower_param_gather.c. */
#include "shared/lower_ops/writer.h"

enum lw_status lw_write_begin_gathers_ahead(const struct lw_pass *pass, struct lw_writer_part *x,
                                            struct lw_arena *room, struct lw_err *err)
{
    int32_t n = x->d->shards.n_buffers;

    if (!lw_part_gathers_ahead(x->d))
        return LW_OK;
    LW_TAKE(room, x->gathered_by, n, err);
    for (int32_t i = 0; i < n; i++)
        x->gathered_by[i] = -1;
    x->n_waited = pass->held ? n : 0;
    return LW_OK;
}

/* The part's i-th bucket, unless it was issued before; after the op `input`, unless it is -1. */
static void gather(struct lw_writer *k, struct lw_writer_part *x, int32_t i, int32_t input)
{
    const struct lw_part_shards *h = &x->d->shards;
    int32_t deps[2], n = 0;

    if (x->gathered_by[i] >= 0)
        return;
    const struct lw_part_buffer *f = &h->buffers[h->forward[i]];
    struct lw_op op = lw_write_weights(k, x->d, h->forward[i], LW_OP_ALL_GATHER, f->dtype);
    op.module = lw_part_module(x->d, f->first_user);
    if (k->last_compute >= 0)
        deps[n++] = k->last_compute;
    if (input >= 0 && input != k->last_compute)
        deps[n++] = input;
    x->gathered_by[i] = lw_builder_op(k->l->b, &op, deps, n);
}

/* The first n buckets of the part. */
static void gather_first(struct lw_writer *k, struct lw_writer_part *x, int64_t n, int32_t input)
{
    for (int32_t i = 0; i < x->d->shards.n_buffers && i < n; i++)
        gather(k, x, i, input);
}

/* The next bucket after the i-th of the part that is of experts, or is not, as that one is. */
static void gather_next(struct lw_writer *k, struct lw_writer_part *x, int32_t i)
{
    const struct lw_part_shards *h = &x->d->shards;
    bool expert = h->buffers[h->forward[i]].expert;

    while (++i < h->n_buffers)
        if (h->buffers[h->forward[i]].expert == expert) {
            gather(k, x, i, -1);
            return;
        }
}

/* How many buckets are issued beyond the part's bucket `last`: in chunks of a pipeline all others
 * of the part and those of the next part on the rank. */
static int64_t ahead_of(const struct lw_writer *k, const struct lw_writer_part *x, int32_t last)
{
    const struct lw_strategy *s = x->d->s;
    bool is_last = x + 1 == k->parts + k->n_parts;

    if (s->prefetch >= 0 || s->pp == 1)
        return s->prefetch >= 0 ? s->prefetch : LW_PREFETCH_DEFAULT;
    return x->d->shards.n_buffers - 1 - last + (is_last ? 0 : (x + 1)->d->shards.n_buffers);
}

/* The turn of the last bucket that the module's forward uses until `at`; -1 = none. */
static int32_t last_turn(const struct lw_writer_part *x, int32_t module, lw_ps at)
{
    const struct lw_part_shards *h = &x->d->shards;
    int32_t last = -1;

    for (int32_t i = h->first_unit[module]; i < h->first_unit[module + 1]; i++)
        if (h->used_at[i] <= at && h->buffers[h->used_units[i]].turn > last)
            last = h->buffers[h->used_units[i]].turn;
    return last;
}

bool lw_write_is_cut(const struct lw_writer_part *x, int32_t module)
{
    return x->gathered_by && x->d->work.cut[module] >= 0 &&
           last_turn(x, module, INT64_MAX) >= x->n_waited;
}

static void wait_for(struct lw_writer *k, struct lw_writer_part *x, int32_t last, int32_t input)
{
    bool on_demand = lw_part_gathers_on_demand(x->d->s);
    int32_t first = x->n_waited;

    gather_first(k, x, last + 1, on_demand ? input : -1);
    lw_write_wait(k, "weights", x->gathered_by + first, last + 1 - first);
    x->n_waited = last + 1;
    for (int32_t i = first; on_demand && i <= last; i++)
        gather_next(k, x, i);
    if (on_demand)
        return;
    for (int64_t n = last + 1 + ahead_of(k, x, last); x < k->parts + k->n_parts && n > 0;
         n -= x++->d->shards.n_buffers)
        gather_first(k, x, n, -1); /* also of the parts after it, whose forwards come next */
}

int32_t lw_write_gather_ahead(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                              lw_ps at, int32_t input)
{
    if (!x->gathered_by)
        return -1;
    int32_t last = last_turn(x, module, at);
    if (last >= x->n_waited)
        wait_for(k, x, last, input);
    if (last < 0 || last_turn(x, module, INT64_MAX) < x->n_waited)
        return -1;
    return x->d->shards.first_bucket + x->d->shards.forward[last];
}
