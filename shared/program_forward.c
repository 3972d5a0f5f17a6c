/* The forward of a part: its buffers' broadcasts before a synchronised one, then an op per module. */
#include "shared/program_lower.h"

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
        struct lw_op op = lw_write_collective(k, LW_OP_BROADCAST, bytes, dtype);
        lw_write_root(k, &op, 0);
        op.name = "buffers";
        flying[at] = lw_builder_op(k->l->b, &op, &flat, 1);
        bytes_of[at] = bytes;
        dtype_of[at] = dtype;
    }
}

int32_t lw_write_forward(struct lw_writer *k, const struct lw_writer_part *x, int32_t input)
{
    const struct lw_part *d = x->d;

    for (int32_t m = 0; m < d->w->n_modules; m++) {
        struct lw_op op = lw_builder_blank(LW_OP_FORWARD, k->l->compute);
        op.work = d->forward_work[m];
        op.module = lw_part_module(d, m);
        op.stage = k->stage;
        op.micro_batch = k->micro_batch;
        op.name = d->w->modules[m].name;
        lw_write_compute(k, &op, &input, m == 0 && input >= 0);
    }
    return k->last_compute;
}
