/* Plans made by hand for measuring: data parallelism with one parameter and one bucket per size, so
 * that memory is touched by the same thread, in the same order and as recently as in a real step. */
#include "exec/calibrate_plan.h"

#include <stdio.h>

#include "shared/plan_builder.h"

struct maker {
    struct lw_builder *b;
    int32_t compute, comm_stream, comm, first_bucket;
};

static void everybody(struct maker *k, int32_t n_ranks)
{
    int32_t members[1024], n = n_ranks < 1024 ? n_ranks : 1024;

    for (int32_t r = 0; r < n; r++)
        members[r] = r;
    lw_builder_group(k->b, k->comm, members, n);
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

static void add_buckets(struct maker *k, const int64_t *bytes, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "size%d", i);
        struct lw_plan_param a = {.name = name, .numel = bytes[i] / 4, .dtype = LW_F32,
                                  .module = i, .tied = -1, .trainable = true, .used = true};
        lw_builder_param(k->b, &a);
        lw_builder_module(k->b, 0);
    }
    lw_builder_set(k->b, "rebuilt", 0);
    for (int32_t i = 0; i < n; i++) {
        struct lw_slot slot = {i, 0};
        struct lw_bucket bucket = {.dtype = LW_F32, .bytes = bytes[i] / 4 * 4};
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

static int32_t add_op(struct maker *k, enum lw_op_kind kind, int32_t size, int64_t bytes,
                      lw_ps work_ps, int32_t dep)
{
    bool comm = lw_op_class(kind) == LW_CLASS_COLLECTIVE;
    struct lw_op op = lw_builder_blank(kind, comm ? k->comm_stream : k->compute);

    op.dtype = LW_F32;
    op.work_ps = work_ps;
    op.bytes = bytes;
    op.module = size;
    if (comm) {
        op.comm = k->comm;
        op.peer = kind == LW_OP_BROADCAST || kind == LW_OP_REDUCE ? 0 : -1;
    }
    if (k->first_bucket >= 0 && (comm || kind == LW_OP_COPY_OUT))
        op.bucket = k->first_bucket + size;
    int32_t number = lw_builder_op(k->b, &op, &dep, dep >= 0);
    if (kind == LW_OP_BACKWARD || kind == LW_OP_COPY_IN)
        lw_builder_ready(k->b, size);
    return number;
}

enum lw_status exec_plan_alone(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps work_ps,
                               struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};

    LW_TRY(begin(&k, "alone", n_ranks, err));
    add_buckets(&k, bytes, n);
    start_program(&k, "rebuilt");
    for (int32_t i = 0; i < n; i++) {
        add_op(&k, LW_OP_BACKWARD, i, 0, work_ps, -1);
        int32_t in = add_op(&k, LW_OP_COPY_IN, i, bytes[i], -1, -1);
        int32_t reduced = add_op(&k, LW_OP_ALL_REDUCE, i, bytes[i] / 4 * 4, -1, in);
        add_op(&k, LW_OP_COPY_OUT, i, bytes[i], -1, reduced);
    }
    return finish(&k, plan, err);
}

enum lw_status exec_plan_beside(int32_t n_ranks, const int64_t *bytes, int32_t n,
                                const lw_ps *work_ps, struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};

    LW_TRY(begin(&k, "beside", n_ranks, err));
    add_buckets(&k, bytes, n);
    start_program(&k, "rebuilt");
    for (int32_t i = 0; i < n; i++) {
        add_op(&k, LW_OP_BACKWARD, i, 0, LW_PS_PER_MS / 5, -1);
        int32_t in = add_op(&k, LW_OP_COPY_IN, i, bytes[i], -1, -1);
        int32_t reduced = add_op(&k, LW_OP_ALL_REDUCE, i, bytes[i] / 4 * 4, -1, in);
        add_op(&k, LW_OP_KERNEL, i, 0, work_ps[i], -1);
        add_op(&k, LW_OP_KERNEL, i, 0, work_ps[i], reduced);
        add_op(&k, LW_OP_COPY_OUT, i, bytes[i], -1, -1);
    }
    return finish(&k, plan, err);
}

enum lw_status exec_plan_copies(int32_t n_ranks, const int64_t *bytes, int32_t n,
                                struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};
    int32_t reduced = -1;

    LW_TRY(begin(&k, "copies", n_ranks, err));
    add_buckets(&k, bytes, n);
    start_program(&k, "rebuilt");
    for (int32_t i = 0; i < n; i++) {
        add_op(&k, LW_OP_BACKWARD, i, 0, LW_PS_PER_MS, -1);
        int32_t in = add_op(&k, LW_OP_COPY_IN, i, bytes[i], -1, -1);
        reduced = add_op(&k, LW_OP_ALL_REDUCE, i, bytes[i] / 4 * 4, -1, in);
    }
    for (int32_t i = 0; i < n; i++) /* the last one is done, and so are all */
        add_op(&k, LW_OP_COPY_OUT, i, bytes[i], -1, reduced);
    return finish(&k, plan, err);
}

enum lw_status exec_plan_collectives(int32_t n_ranks, enum lw_op_kind kind, const int64_t *bytes,
                                     int32_t n, lw_ps work_ps, struct lw_plan *plan,
                                     struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};
    int64_t whole = kind == LW_OP_ALL_TO_ALL ? 4 * n_ranks : 4; /* elements, or equal blocks of them */
    int32_t before = -1;

    LW_TRY(begin(&k, "collectives", n_ranks, err));
    start_program(&k, "");
    for (int32_t i = 0; i < n; i++) {
        int32_t kernel = add_op(&k, LW_OP_KERNEL, i, 0, work_ps, before);
        before = add_op(&k, kind, i, bytes[i] / whole * whole, -1, kernel);
    }
    return finish(&k, plan, err);
}

enum lw_status exec_plan_pairs(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps work_ps,
                               struct lw_plan *plan, struct lw_err *err)
{
    struct maker k = {.first_bucket = -1};
    int32_t before[2] = {-1, -1};

    LW_TRY(begin(&k, "pairs", n_ranks, err));
    struct maker other = k;
    other.comm_stream = lw_builder_stream(k.b, "comm2", LW_STREAM_COMM, 1);
    other.comm = lw_builder_comm(k.b, "other", LW_COMM_DATA, LW_REDUCER_AUTO, other.comm_stream);
    everybody(&other, n_ranks);
    start_program(&k, "");
    for (int32_t i = 0; i < n; i++) {
        int32_t kernel = add_op(&k, LW_OP_KERNEL, i, 0, work_ps, before[0]);
        kernel = add_op(&k, LW_OP_KERNEL, i, 0, 0, before[1] >= 0 ? before[1] : kernel);
        before[0] = add_op(&k, LW_OP_ALL_REDUCE, i, bytes[i] / 4 * 4, -1, kernel);
        before[1] = add_op(&other, LW_OP_ALL_REDUCE, i, bytes[i] / 4 * 4, -1, kernel);
    }
    return finish(&k, plan, err);
}

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
