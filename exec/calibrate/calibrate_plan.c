/* Plans made by hand for measuring: data parallelism with one parameter and one bucket per size,
 * so that memory is touched by the same thread, in the same order and as recently as in a real
 * step. */
#include "exec/calibrate/calibrate_plan.h"

#include <stdio.h>

#include "shared/plan/plan_builder.h"
#include "shared/strategy/reducer_kind.h"

struct maker {
    struct lw_builder *b;
    int32_t compute, comm_stream, comm, first_bucket, n_modules, n_ranks, group, stride;
    enum lw_dtype grad, wire; /* of gradients, and of what is reduced */
};

/* An op's module says which size it measures: one module for each. */
static void tag(struct maker *k, struct lw_op *op, int32_t size)
{
    for (; k->n_modules <= size; k->n_modules++)
        lw_builder_module(k->b, 0);
    op->module = size;
}

/* Groups of k->group ranks that are k->stride apart; 0: one of all. */
static void everybody(struct maker *k, int32_t n_ranks)
{
    int32_t members[1024], n = n_ranks < 1024 ? n_ranks : 1024, group = k->group ? k->group : n;
    int32_t stride = k->stride ? k->stride : 1;

    for (int32_t first = 0; first + (group - 1) * stride < n; first++) {
        if (first / stride % group != 0)
            continue; /* a later member */
        for (int32_t i = 0; i < group; i++)
            members[i] = first + i * stride;
        lw_builder_group(k->b, k->comm, members, group);
    }
}

static enum lw_status begin(struct maker *k, const char *name, int32_t n_ranks, struct lw_err *err)
{
    struct lw_role role = {.name = "all"};

    k->b = lw_builder_new(name, n_ranks);
    if (!k->b)
        return lw_fail_nomem(err);
    lw_builder_role(k->b, &role);
    for (int32_t r = 0; r < n_ranks; r++)
        lw_builder_rank(k->b, r, 0, r, 0, 0);
    k->compute = lw_builder_stream(k->b, "compute", LW_STREAM_COMPUTE, 0);
    k->comm_stream = lw_builder_stream(k->b, "comm", LW_STREAM_COMM, 1);
    k->comm = lw_builder_comm(k->b, "data", LW_COMM_DATA, LW_REDUCER_AUTO, k->comm_stream);
    everybody(k, n_ranks);
    return LW_OK;
}

static void name_size(char name[16], int32_t i)
{
    snprintf(name, 16, "size%d", i);
}

static void add_params(struct maker *k, const int64_t *bytes, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        char name[16];
        name_size(name, i);
        struct lw_plan_param a = {.name = name, .numel = bytes[i] / lw_dtype_size(k->grad),
                                  .dtype = (uint8_t)k->grad, .module = i, .tied = -1,
                                  .trainable = true, .used = true};
        lw_builder_param(k->b, &a);
        lw_builder_module(k->b, 0);
        k->n_modules++;
    }
}

static int64_t wire_bytes(const struct maker *k, int64_t bytes)
{
    return bytes / lw_dtype_size(k->grad) * lw_dtype_size(k->wire);
}

static void add_buckets(struct maker *k, const int64_t *bytes, int32_t n)
{
    add_params(k, bytes, n);
    lw_builder_set(k->b, LW_BUCKET_GRADIENTS, "rebuilt", 0);
    for (int32_t i = 0; i < n; i++) {
        struct lw_slot slot = {i, 0};
        struct lw_bucket bucket = {.dtype = k->wire, .bytes = wire_bytes(k, bytes[i])};
        int32_t b = lw_builder_bucket(k->b, &bucket, &slot, 1);
        k->first_bucket = i == 0 ? b : k->first_bucket;
    }
}

static void start_program(struct maker *k, const char *set)
{
    lw_builder_program(k->b, lw_builder_variant(k->b, "steady", set, true), 0);
}

static enum lw_status finish(struct maker *k, struct lw_plan *plan, struct lw_err *err)
{
    lw_builder_pass(k->b, 0);
    lw_builder_repeat_from(k->b, 0);
    return lw_builder_finish(k->b, plan, err);
}

/* The root of each rank's group: its first member. */
static int32_t add_roots(struct maker *k, int64_t bytes)
{
    struct lw_operand to = {.bytes = bytes, .peer = 0};
    int32_t row = lw_builder_operand_row(k->b, &to, 1);

    for (int32_t rank = 1; rank < k->n_ranks; rank++) {
        to.peer = rank - rank / k->stride % k->group * k->stride;
        lw_builder_operand_more(k->b, &to);
    }
    return row;
}

static int32_t add_op(struct maker *k, enum lw_op_kind kind, int32_t size, int64_t bytes,
                      lw_ps work_ps, int32_t dep)
{
    bool comm = lw_op_class(kind) == LW_CLASS_COLLECTIVE;
    struct lw_op op = lw_builder_blank(kind, comm ? k->comm_stream : k->compute);

    op.dtype = (uint8_t)(comm ? k->wire : k->grad);
    op.work_ps = work_ps;
    op.bytes = bytes;
    tag(k, &op, size);
    if (comm) {
        op.comm = k->comm;
        if (kind == LW_OP_BROADCAST || kind == LW_OP_REDUCE)
            op.operand = add_roots(k, bytes);
    }
    if (k->first_bucket >= 0 && (comm || kind == LW_OP_COPY_OUT))
        op.bucket = k->first_bucket + size;
    int32_t number = lw_builder_op(k->b, &op, &dep, dep >= 0);
    if (kind == LW_OP_BACKWARD || kind == LW_OP_COPY_IN)
        lw_builder_ready(k->b, size);
    return number;
}

enum lw_status exec_plan_reduce(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps gap_ps,
                                const lw_ps *beside_ps, struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};

    LW_TRY(begin(&k, beside_ps ? "beside" : "alone", n_ranks, err));
    add_buckets(&k, bytes, n);
    start_program(&k, "rebuilt");
    for (int32_t i = 0; i < n; i++) {
        add_op(&k, LW_OP_BACKWARD, i, 0, gap_ps, -1);
        int32_t in = add_op(&k, LW_OP_COPY_IN, i, bytes[i], -1, -1);
        int32_t reduced = add_op(&k, LW_OP_ALL_REDUCE, i, bytes[i] / 4 * 4, -1, in);
        if (beside_ps) {
            add_op(&k, LW_OP_KERNEL, i, 0, beside_ps[i], -1);
            add_op(&k, LW_OP_KERNEL, i, 0, beside_ps[i], reduced);
        }
        add_op(&k, LW_OP_COPY_OUT, i, bytes[i], -1, beside_ps ? -1 : reduced);
    }
    return finish(&k, plan, err);
}

static int64_t largest(const int64_t *bytes, int32_t n)
{
    int64_t most = 0;

    for (int32_t i = 0; i < n; i++)
        most = bytes[i] > most ? bytes[i] : most;
    return most;
}

/* --- passes over memory and products ---------------------------------------------------------- */

/* Of a bucket, on the stream given. */
static int32_t add_cast(struct maker *k, enum lw_dtype to, int32_t stream, int32_t size,
                        int64_t bytes, int32_t dep)
{
    struct lw_op op = lw_builder_blank(LW_OP_CAST, stream);

    op.dtype = (uint8_t)to;
    op.work_ps = -1;
    op.bytes = bytes;
    tag(k, &op, size);
    op.bucket = k->first_bucket + size;
    return lw_builder_op(k->b, &op, &dep, dep >= 0);
}

enum lw_status exec_plan_passes(int32_t n_ranks, enum lw_dtype grad, enum lw_dtype wire,
                                const int64_t *bytes, int32_t n, struct lw_plan *plan,
                                struct lw_err *err)
{
    struct maker k = {.first_bucket = -1, .grad = grad, .wire = wire};
    bool casts = wire != grad;
    int32_t last = -1;

    LW_TRY(begin(&k, "passes", n_ranks, err));
    int32_t copy_stream = casts ? lw_builder_stream(k.b, "copy", LW_STREAM_COPY, 1) : -1;
    add_buckets(&k, bytes, n);
    start_program(&k, "rebuilt");
    for (int32_t i = 0; i < n; i++) {
        add_op(&k, LW_OP_BACKWARD, i, 0, 0, -1);
        add_op(&k, LW_OP_KERNEL, i, 0, LW_PS_PER_MS, -1);
        last = add_op(&k, LW_OP_COPY_IN, i, bytes[i], -1, -1);
        if (casts)
            last = add_cast(&k, wire, k.compute, i, bytes[i], -1);
    }
    for (int32_t i = 0, copied = last; i < n; i++) {
        last = add_op(&k, LW_OP_ALL_REDUCE, i, wire_bytes(&k, bytes[i]), -1, copied);
        if (casts)
            last = add_cast(&k, grad, copy_stream, i, bytes[i], last);
    }
    for (int32_t i = 0; i < n; i++) /* the last one is done, and so are all */
        add_op(&k, LW_OP_COPY_OUT, i, bytes[i], -1, last);
    return finish(&k, plan, err);
}

enum lw_status exec_plan_copies(int32_t n_ranks, const int64_t *bytes, int32_t n,
                                struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};
    int64_t between = 4 * largest(bytes, n);

    LW_TRY(begin(&k, "copies", n_ranks, err));
    add_params(&k, &between, 1);
    start_program(&k, "");
    for (int32_t i = 0; i < n; i++) {
        add_op(&k, LW_OP_BACKWARD, 0, 0, 0, -1);
        add_op(&k, LW_OP_COPY, i, bytes[i], -1, -1);
    }
    return finish(&k, plan, err);
}

enum lw_status exec_plan_updates(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps work_ps,
                                 struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};

    LW_TRY(begin(&k, "updates", n_ranks, err));
    add_params(&k, bytes, n);
    for (int32_t i = 0; i < n; i++) {
        char name[16];
        name_size(name, i);
        lw_builder_program(k.b, lw_builder_variant(k.b, name, "", true), 0);
        add_op(&k, LW_OP_BACKWARD, i, 0, 0, -1);
        add_op(&k, LW_OP_KERNEL, i, 0, work_ps, -1);
        add_op(&k, LW_OP_OPTIMIZER, i, bytes[i], 0, -1);
    }
    for (int32_t i = 0; i < n; i++)
        lw_builder_pass(k.b, i);
    lw_builder_repeat_from(k.b, 0);
    return lw_builder_finish(k.b, plan, err);
}

enum lw_status exec_plan_products(int32_t n_ranks, const int64_t *flops, int32_t n,
                                  struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};

    LW_TRY(begin(&k, "products", n_ranks, err));
    start_program(&k, "");
    for (int32_t i = 0; i < n; i++) {
        struct lw_work work = {.ps = -1, .flops = flops[i], .bytes = -1};
        struct lw_op op = lw_builder_blank(LW_OP_KERNEL, k.compute);
        tag(&k, &op, i);
        op.work = lw_builder_work(k.b, &work);
        lw_builder_op(k.b, &op, NULL, 0);
    }
    return finish(&k, plan, err);
}

/* --- communication without buckets ------------------------------------------------------------ */

/* A program of the variant that comes first: an all-reduce on each stream writes what it will
 * move. */
static void touch(struct maker *k, int32_t role, const int32_t *streams, int32_t n_streams,
                  int64_t bytes)
{
    lw_builder_program(k->b, 0, role);
    for (int32_t i = 0; i < n_streams; i++) {
        struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, streams[i]);
        op.comm = k->comm;
        op.work_ps = -1;
        op.bytes = bytes / 4 * 4;
        lw_builder_op(k->b, &op, NULL, 0);
    }
}

/* Once the first variant, then the other for ever. */
static enum lw_status finish_touched(struct maker *k, struct lw_plan *plan, struct lw_err *err)
{
    lw_builder_pass(k->b, 0);
    lw_builder_pass(k->b, 1);
    lw_builder_repeat_from(k->b, 1);
    return lw_builder_finish(k->b, plan, err);
}

static void add_touched_variants(struct maker *k)
{
    lw_builder_variant(k->b, "first", "", true);
    lw_builder_variant(k->b, "steady", "", true);
}

enum lw_status exec_plan_collectives(int32_t n_ranks, int32_t group, int32_t stride,
                                     const enum lw_op_kind *kinds, int32_t n_at_once,
                                     const int64_t *bytes, int32_t n, lw_ps work_ps,
                                     struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1, .n_ranks = n_ranks, .group = group, .stride = stride};
    bool blocks = kinds[0] == LW_OP_ALL_TO_ALL || kinds[n_at_once - 1] == LW_OP_ALL_TO_ALL;
    int64_t whole = blocks ? 4 * group : 4; /* elements, or equal blocks */
    int32_t before[2] = {-1, -1}, streams[2], comms[2];

    LW_TRY(begin(&k, "collectives", n_ranks, err));
    for (int32_t i = 0; i < n_at_once; i++) {
        if (i > 0) {
            k.comm_stream = lw_builder_stream(k.b, "comm2", LW_STREAM_COMM, 1);
            k.comm = lw_builder_comm(k.b, "other", LW_COMM_DATA, LW_REDUCER_AUTO, k.comm_stream);
            everybody(&k, n_ranks);
        }
        streams[i] = k.comm_stream;
        comms[i] = k.comm;
    }
    add_touched_variants(&k);
    touch(&k, 0, streams, n_at_once, largest(bytes, n));
    lw_builder_program(k.b, 1, 0);
    for (int32_t i = 0; i < n; i++) {
        int32_t kernel = add_op(&k, LW_OP_KERNEL, i, 0, work_ps, before[0]);
        if (before[1] >= 0)
            kernel = add_op(&k, LW_OP_KERNEL, i, 0, 0, before[1]);
        for (int32_t c = 0; c < n_at_once; c++) {
            k.comm_stream = streams[c];
            k.comm = comms[c];
            before[c] = add_op(&k, kinds[c], i, bytes[i] / whole * whole, -1, kernel);
        }
    }
    return finish_touched(&k, plan, err);
}

enum lw_status exec_plan_with_compute(int32_t n_ranks, enum lw_op_kind kind, const int64_t *bytes,
                                      int32_t n, lw_ps gap_ps, const lw_ps *work_ps,
                                      struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1, .n_ranks = n_ranks, .group = n_ranks, .stride = 1};
    int64_t whole = 4 * (int64_t)n_ranks;
    int32_t stream;

    LW_TRY(begin(&k, "with compute", n_ranks, err));
    stream = k.comm_stream;
    add_touched_variants(&k);
    touch(&k, 0, &stream, 1, largest(bytes, n));
    lw_builder_program(k.b, 1, 0);
    for (int32_t i = 0; i < n; i++) {
        int32_t gap = add_op(&k, LW_OP_KERNEL, i, 0, gap_ps, -1);
        int32_t comm = add_op(&k, kind, i, bytes[i] / whole * whole, -1, gap);
        add_op(&k, LW_OP_KERNEL, i, 0, work_ps[i], -1);
        add_op(&k, LW_OP_KERNEL, i, 0, work_ps[i], comm);
    }
    return finish_touched(&k, plan, err);
}

/* --- messages --------------------------------------------------------------------------------- */

enum { LEFT, RIGHT, ALONE, N_SIDES }; /* of a pair: roles */

struct messenger {
    struct maker k;
    int32_t n_ranks, n_ways, stride; /* between the ranks of a pair */
    int32_t way[2], stream[2]; /* communicators, and their streams */
};

/* Ranks r and r + stride of each 2 * stride: LEFT, RIGHT; ALONE where they are not complete. */
static int32_t side_of(const struct messenger *m, int32_t rank)
{
    int32_t in_pairs = m->n_ranks / (2 * m->stride) * 2 * m->stride;

    return rank >= in_pairs ? ALONE : rank / m->stride % 2;
}

static int32_t n_sides(const struct messenger *m)
{
    return side_of(m, m->n_ranks - 1) == ALONE ? N_SIDES : ALONE;
}

static enum lw_status begin_messages(struct messenger *m, struct lw_err *err)
{
    static const char *const names[N_SIDES] = {"left", "right", "alone"};
    struct maker *k = &m->k;
    int32_t n = m->n_ranks;

    k->b = lw_builder_new("messages", n);
    if (!k->b)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < n_sides(m); i++)
        lw_builder_role(k->b, &(struct lw_role){.name = names[i]});
    for (int32_t r = 0; r < n; r++)
        lw_builder_rank(k->b, r, side_of(m, r), r, 0, 0);
    k->compute = lw_builder_stream(k->b, "compute", LW_STREAM_COMPUTE, 0);
    for (int32_t w = 0; w < m->n_ways; w++)
        m->stream[w] = lw_builder_stream(k->b, w ? "back" : "there", LW_STREAM_COMM, 1);
    k->comm = lw_builder_comm(k->b, "data", LW_COMM_DATA, LW_REDUCER_AUTO, m->stream[0]);
    everybody(k, n);
    for (int32_t w = 0; w < m->n_ways; w++) {
        m->way[w] = lw_builder_comm(k->b, w ? "backward" : "forward",
                                    w ? LW_COMM_BACKWARD : LW_COMM_FORWARD, LW_REDUCER_AUTO,
                                    m->stream[w]);
        for (int32_t r = 0; r < n; r++)
            if (side_of(m, r) == LEFT)
                lw_builder_group(k->b, m->way[w], (int32_t[]){r, r + m->stride}, 2);
    }
    return LW_OK;
}

/* One end, for every rank of a side: its partner is the other rank of its pair. */
static int32_t add_end(struct messenger *m, int32_t side, bool sends, int32_t way, int32_t size,
                       int64_t bytes, int32_t dep)
{
    struct lw_op op = lw_builder_blank(sends ? LW_OP_SEND : LW_OP_RECV, m->stream[way]);
    struct lw_operand to = {.bytes = bytes / 4 * 4};

    op.comm = m->way[way];
    op.work_ps = -1;
    tag(&m->k, &op, size);
    op.bytes = to.bytes;
    for (int32_t rank = 0; rank < m->n_ranks; rank++) {
        if (side_of(m, rank) != side)
            continue;
        to.peer = rank + (side == LEFT ? m->stride : -m->stride);
        if (op.operand < 0)
            op.operand = lw_builder_operand_row(m->k.b, &to, 1);
        else
            lw_builder_operand_more(m->k.b, &to);
    }
    return lw_builder_op(m->k.b, &op, &dep, 1);
}

static void add_side(struct messenger *m, int32_t side, const int64_t *bytes, int32_t n,
                     lw_ps work_ps)
{
    int32_t before[2] = {-1, -1};

    for (int32_t i = 0; i < 2 * n; i++) { /* there and back */
        int32_t size = i / 2;
        int32_t kernel = add_op(&m->k, LW_OP_KERNEL, size, 0, work_ps, before[0]);
        if (m->n_ways == 2)
            kernel = add_op(&m->k, LW_OP_KERNEL, size, 0, 0, before[1] >= 0 ? before[1] : kernel);
        for (int32_t w = 0; w < m->n_ways; w++)
            before[w] = add_end(m, side, (side + i + w) % 2 == 0, w, size, bytes[size], kernel);
    }
}

enum lw_status exec_plan_messages(int32_t n_ranks, int32_t stride, const int64_t *bytes, int32_t n,
                                  bool both, lw_ps work_ps, struct lw_plan *plan,
                                  struct lw_err *err)
{
    struct messenger m = {.k = {.first_bucket = -1}, .n_ranks = n_ranks, .stride = stride,
                          .n_ways = both ? 2 : 1};

    LW_TRY(begin_messages(&m, err));
    add_touched_variants(&m.k);
    for (int32_t side = 0; side < n_sides(&m); side++)
        touch(&m.k, side, m.stream, m.n_ways, largest(bytes, n));
    for (int32_t side = LEFT; side <= RIGHT; side++) {
        lw_builder_program(m.k.b, 1, side);
        add_side(&m, side, bytes, n, work_ps);
    }
    if (n_sides(&m) == N_SIDES) {
        lw_builder_program(m.k.b, 1, ALONE);
        add_op(&m.k, LW_OP_KERNEL, 0, 0, 0, -1);
    }
    return finish_touched(&m.k, plan, err);
}

/* --- kernels ---------------------------------------------------------------------------------- */

enum lw_status exec_plan_overlap(int32_t n_ranks, int64_t bytes, int32_t n, lw_ps work_ps,
                                 struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};
    int32_t reduced = -1;

    LW_TRY(begin(&k, "overlap", n_ranks, err));
    start_program(&k, "");
    for (int32_t i = 0; i < n; i++) {
        int32_t kernel = add_op(&k, LW_OP_KERNEL, i, 0, work_ps, -1);
        reduced = add_op(&k, LW_OP_ALL_REDUCE, i, bytes / 4 * 4, -1, kernel);
    }
    add_op(&k, LW_OP_KERNEL, n, 0, 0, reduced);
    return finish(&k, plan, err);
}

enum lw_status exec_plan_kernels(int32_t n_ranks, int32_t n, lw_ps work_ps, struct lw_plan *plan,
                                 struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};

    LW_TRY(begin(&k, "kernels", n_ranks, err));
    start_program(&k, "");
    for (int32_t i = 0; i < n; i++)
        add_op(&k, LW_OP_KERNEL, i, 0, work_ps, -1);
    return finish(&k, plan, err);
}
