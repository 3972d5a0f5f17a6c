/* The forward of a part: its buffers' broadcasts before a synchronised one, then an op per
 * module, with the tensor group's sums; and what recomputation does again of it. */
#include "shared/lower_ops/writer.h"
#include "shared/plan/buffer.h"

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
        lw_write_root(k, &op, 0);
        flying[at] = lw_builder_op(k->l->b, &op, &flat, 1);
        bytes_of[at] = bytes;
        dtype_of[at] = dtype;
    }
}

/* A module's ops, forward or again, as they are written: the next of its works. */
struct module_ops {
    const struct lw_part *d;
    int32_t m, work, input;
    enum lw_op_kind kind;
    struct lw_writer_part *cut; /* NULL; or its buffers are gathered ahead, and waited for within */
    int32_t n;                  /* ops so far, a cut one counted once */
};

/* The op, piece by piece: each waits for what it is the first to use. */
static void add_cut(struct lw_writer *k, struct module_ops *o)
{
    lw_ps at = lw_part_op_start(o->d, o->m, o->n), stop = lw_part_op_start(o->d, o->m, o->n + 1);

    do {
        int32_t bucket = lw_write_gather_ahead(k, o->cut, o->m, at);
        lw_write_cut_work(k, o->d, o->m, o->work++, o->input, bucket);
        o->input = -1;
        at = lw_part_piece_end(o->d, o->m, at, stop);
    } while (at < stop);
    o->n++;
}

static void add_next(struct lw_writer *k, struct module_ops *o)
{
    if (o->cut) {
        add_cut(k, o);
        return;
    }
    lw_write_work(k, o->d, o->kind, o->m, o->work++, o->input);
    o->input = -1;
}

/* What the tensor group gathers before part i of n, and the products that read it in pieces. */
static void begin_part_of(struct lw_writer *k, struct module_ops *o, struct lw_tensor_part x,
                          int32_t i)
{
    int32_t all = lw_tensor_gathers(o->d, o->m, false), at = lw_part_module(o->d, o->m);
    int64_t bytes = all > 0 ? o->d->w->modules[o->m].tp_backward_bytes / all : 0;

    for (int32_t g = i; g < all && x.n_column == 0; g += i + 1 == x.n ? 1 : all)
        lw_write_sum(k, LW_OP_ALL_GATHER, bytes, at, o->input);
    if (x.n_column > 0)
        lw_write_gathers(k, bytes, at, o->input);
    for (int32_t p = 0; p < x.n_column; p++) {
        if (p > 0)
            lw_write_gathered(k);
        add_next(k, o);
    }
}

/* The sum at the end of a part, beside the products that make what it sums where it is in pieces:
 * what follows waits for the last piece. */
static void end_part_of(struct lw_writer *k, struct module_ops *o, struct lw_tensor_part x)
{
    int32_t calls = lw_tensor_calls(o->d, o->m, false), n = x.n_row > 0 ? x.n_row : 1;
    int64_t bytes = calls > 0 ? o->d->w->modules[o->m].tp_forward_bytes / calls : 0;

    for (int32_t p = 0; p < n && calls > 0; p++) {
        if (x.n_row > 0) {
            k->after = p > 0 ? -1 : k->after;
            add_next(k, o);
        }
        lw_write_sum(k,
                     o->d->s->sequence_parallel ? LW_OP_REDUCE_SCATTER : LW_OP_ALL_REDUCE,
                     bytes * (p + 1) / n - bytes * p / n, lw_part_module(o->d, o->m), -1);
    }
}

/* The op of the first part of a module, or the whole of it: keys and values are gathered before, or
 * they go round while it attends, step by step. */
static void attend(struct lw_writer *k, struct module_ops *o)
{
    const struct lw_module *module = &o->d->w->modules[o->m];
    struct lw_ring ring = lw_ring_of(o->d->s, module);

    if (k->l->cp > 1 && module->kv_bytes > 0 && ring.n_steps == 0)
        lw_write_keys(k, LW_OP_ALL_GATHER, module->kv_bytes, lw_part_module(o->d, o->m),
                      o->input);
    if (ring.n_steps > 0)
        add_next(k, o);
    for (int32_t step = 0; step < ring.n_steps; step++) {
        int32_t received = lw_write_ring(k, o->d, o->m, false, step, -1);
        add_next(k, o);
        k->after = received;
    }
}

/* One module's ops with the sums between and after them. With sequence parallelism the sum in
 * the backward of a part is a reduce-scatter there and an all-gather here, and the sum here a
 * reduce-scatter. Each part has one whole op, after the column pieces and before the row pieces.
 * Keys and values are exchanged with that of the first part, which computes the attention; tokens
 * go to the experts before that of the last part and come back after it. */
static void write_module(struct lw_writer *k, struct module_ops o)
{
    struct lw_tensor_part x = lw_tensor_part_of(o.d, o.m);

    for (int32_t i = 0; i < x.n; i++) {
        begin_part_of(k, &o, x, i);
        if (i == 0)
            attend(k, &o);
        if (i + 1 == x.n)
            lw_write_tokens(k, o.d, o.m, "dispatch", o.input);
        add_next(k, &o);
        if (i + 1 == x.n)
            lw_write_tokens(k, o.d, o.m, "combine", -1);
        end_part_of(k, &o, x);
    }
}

int32_t lw_write_forward(struct lw_writer *k, struct lw_writer_part *x, int32_t input)
{
    int32_t output = -1;

    for (int32_t m = 0; m < x->d->w->n_modules; m++) {
        lw_write_units(k, x, m, 1);
        bool cut = lw_write_is_cut(x, m);
        lw_write_gather_ahead(k, x, m, cut ? 0 : INT64_MAX);
        write_module(k, (struct module_ops){x->d, m,
                                            cut ? x->d->work.cut[m] : x->d->work.forward[m],
                                            m == 0 ? input : -1, LW_OP_FORWARD,
                                            cut ? x : NULL, 0});
        output = k->after >= 0 ? k->after : k->last_compute;
        lw_write_reshard(k, x, m);
    }
    return output;
}

void lw_write_again(struct lw_writer *k, const struct lw_part *d, int32_t m)
{
    if (d->work.again[m] < 0)
        return;
    if (d->s->recompute == LW_RECOMPUTE_FULL)
        write_module(k, (struct module_ops){d, m, d->work.again[m], -1, LW_OP_KERNEL, NULL, 0});
    else
        lw_write_work(k, d, LW_OP_KERNEL, m, d->work.again[m], -1);
}
