/* The forward of a part: its buffers' broadcasts before a synchronised one, then an op per
 * module, with the tensor group's sums; and what recomputation does again of it. */
#include "shared/lower_ops/writer.h"
#include "shared/workload/buffer.h"

enum { BROADCASTS_IN_FLIGHT = 2 };

static void finish_broadcast(struct lw_writer *k, int32_t op, int64_t bytes,
                             enum lw_dtype dtype)
{
    lw_write_copy(k, LW_OP_COPY, bytes, dtype, -1, op);
}

/* Flatten, broadcast from the group's first rank, spread: at most two in flight, the oldest
 * finished first. */
void lw_write_buffers(struct lw_writer *k, const struct lw_writer_part *x)
{
    const struct lw_part *d = x->d;
    int32_t flying[BROADCASTS_IN_FLIGHT];
    int64_t bytes_of[BROADCASTS_IN_FLIGHT];
    enum lw_dtype dtype_of[BROADCASTS_IN_FLIGHT];
    int32_t n = d->buffers.n_buckets;

    for (int32_t i = 0; i < n + BROADCASTS_IN_FLIGHT; i++) {
        int32_t at = i % BROADCASTS_IN_FLIGHT;
        if (i >= BROADCASTS_IN_FLIGHT && i - BROADCASTS_IN_FLIGHT < n)
            finish_broadcast(k, flying[at], bytes_of[at], dtype_of[at]);
        if (i >= n)
            continue;
        int64_t bytes = 0;
        enum lw_dtype dtype = LW_F32;
        for (int32_t j = d->buffers.first[i]; j < d->buffers.first[i + 1]; j++) {
            const struct lw_buffer *f = &d->w->buffers[d->buffer_of[d->buffers.items[j]]];
            dtype = f->dtype;
            bytes += f->numel * lw_dtype_size(dtype);
        }
        int32_t flat = lw_write_copy(k, LW_OP_COPY, bytes, dtype, -1, -1);
        struct lw_op op = lw_write_moved(k, LW_OP_BROADCAST, k->l->data, bytes, dtype, "buffers");
        lw_write_root(k, &op, 0, false);
        flying[at] = lw_builder_op(k->l->b, &op, &flat, 1);
        bytes_of[at] = bytes;
        dtype_of[at] = dtype;
    }
}

int32_t lw_write_forward(struct lw_writer *k, struct lw_writer_part *x, int32_t input)
{
    int32_t output = -1;

    for (int32_t m = 0; m < x->d->w->n_modules; m++) {
        lw_write_units(k, x, m, 1);
        bool cut = lw_write_is_cut(x, m);
        int32_t came = m == 0 ? input : -1;
        lw_write_gather_ahead(k, x, m, cut ? 0 : INT64_MAX, came);
        if (cut)
            lw_write_cut_module(k, x, m, x->d->work.forward_steps[m], x->d->work.cut[m], came);
        else
            lw_write_module(k, x->d, m, LW_OP_FORWARD, x->d->work.forward_steps[m],
                            x->d->work.forward[m], came);
        output = k->after >= 0 ? k->after : k->last_compute;
        lw_write_store_activations(k, x->d, m);
        lw_write_reshard(k, x, m);
    }
    return output;
}

void lw_write_again(struct lw_writer *k, const struct lw_part *d, int32_t m)
{
    int32_t first = lw_part_again_first(d, m);

    if (d->work.again[m] < 0 || first < 0)
        return;
    if (d->s->recompute != LW_RECOMPUTE_FULL)
        lw_write_work(k, d, LW_OP_KERNEL, m, d->work.again[m], -1);
    for (int32_t i = first; i <= m && d->s->recompute == LW_RECOMPUTE_FULL; i++)
        lw_write_module(k, d, i, LW_OP_KERNEL, d->work.again_steps[i], d->work.again[i], -1);
}
