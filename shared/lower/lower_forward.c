/* The forward of a part: its buffers' broadcasts before a synchronised one, then an op per
 * module, with the tensor group's sums; and what recomputation does again of it. */
#include "shared/lower/lower_steps.h"

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

/* One module's ops with the sums between and after them. With sequence parallelism the sum in
 * the backward of a part is a reduce-scatter there and an all-gather here, and the sum here a
 * reduce-scatter. Keys and values are gathered before the first op, which attends; tokens go to
 * the experts before the last and come back after it. */
static void write_module(struct lw_writer *k, const struct lw_part *d, int32_t m,
                         enum lw_op_kind kind, int32_t work, int32_t input)
{
    const struct lw_module *module = &d->w->modules[m];
    int32_t n_sums = lw_tensor_calls(d, m, false), n = n_sums > 1 ? n_sums : 1;
    bool sequence = d->s->sequence_parallel;
    int32_t n_gathers = sequence ? lw_tensor_calls(d, m, true) : 0;

    for (int32_t i = 0; i < n; i++) {
        int32_t wait = i == 0 ? input : -1;
        for (int32_t g = i; g < n_gathers; g += i + 1 == n ? 1 : n_gathers)
            lw_write_sum(k, LW_OP_ALL_GATHER, module->tp_backward_bytes / n_gathers,
                         lw_part_module(d, m), wait);
        if (i == 0 && k->l->cp > 1 && module->kv_bytes > 0)
            lw_write_keys(k, LW_OP_ALL_GATHER, module->kv_bytes, lw_part_module(d, m), wait);
        if (i + 1 == n)
            lw_write_tokens(k, d, m, "dispatch", wait);
        struct lw_op op = lw_builder_blank(kind, k->l->compute);
        op.work = work + i;
        op.module = lw_part_module(d, m);
        op.stage = k->stage;
        op.micro_batch = k->micro_batch;
        op.name = kind == LW_OP_FORWARD ? module->name : "recompute";
        lw_write_compute(k, &op, &input, i == 0 && input >= 0);
        if (i + 1 == n)
            lw_write_tokens(k, d, m, "combine", -1);
        if (n_sums > 0)
            lw_write_sum(k, sequence ? LW_OP_REDUCE_SCATTER : LW_OP_ALL_REDUCE,
                         module->tp_forward_bytes / n_sums, op.module, -1);
    }
}

int32_t lw_write_forward(struct lw_writer *k, struct lw_writer_part *x, int32_t input)
{
    int32_t output = -1;

    for (int32_t m = 0; m < x->d->w->n_modules; m++) {
        lw_write_units(k, x, m, 1);
        write_module(k, x->d, m, LW_OP_FORWARD, x->d->work.forward[m], m == 0 ? input : -1);
        output = k->after >= 0 ? k->after : k->last_compute;
        lw_write_reshard(k, x, m);
    }
    return output;
}

void lw_write_again(struct lw_writer *k, const struct lw_part *d, int32_t m)
{
    struct lw_op op = lw_builder_blank(LW_OP_KERNEL, k->l->compute);

    if (d->work.again[m] < 0)
        return;
    if (d->s->recompute == LW_RECOMPUTE_FULL) {
        write_module(k, d, m, LW_OP_KERNEL, d->work.again[m], -1);
        return;
    }
    op.work = d->work.again[m];
    op.module = lw_part_module(d, m);
    op.stage = k->stage;
    op.micro_batch = k->micro_batch;
    op.name = "recompute";
    lw_write_compute(k, &op, NULL, 0);
}
