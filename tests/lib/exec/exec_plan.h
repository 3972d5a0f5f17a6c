#pragma once

/* A data-parallel step by hand, for tests of exec: n_params parameters of `numel` elements, one
 * module each, completed last to first; `per_bucket` of them to a bucket. Ops of a rank:
 * F0 .. Fn-1, then for p = n-1 .. 0: B(p), COPY_IN(p), and after the last of a bucket ALL_REDUCE
 * on
 * the comm stream; COPY_OUT of each bucket; with clip COPY_IN and COPY_OUT of the norm;
 * OPTIMIZER. */
#include <string.h>

#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"

struct exec_test_plan {
    int32_t n_ranks, n_params, per_bucket;
    enum lw_reducer_kind reducer;
    int64_t numel;             /* of parameter p: numel + p */
    enum lw_dtype dtype, wire; /* differ: a cast on both ways */
    int32_t accumulate;        /* passes without reduction before each reducing one */
    int32_t micro_batches;
    bool view;                 /* no copies: gradients lie in their bucket */
    lw_ps work_ps;             /* of each F and B */
    double clip;               /* > 0: gradients are clipped at this norm */
    int64_t shift_slot;        /* add to the offset of the last parameter's slot (broken plans) */
    bool lose_last;            /* leave parameter 0 out of its bucket's copy-in (broken plans) */
};

static inline struct exec_test_plan exec_test_plan_default(void)
{
    return (struct exec_test_plan){.n_ranks = 2, .n_params = 5, .per_bucket = 2, .numel = 1000,
                                   .dtype = LW_F32, .wire = LW_F32, .micro_batches = 1,
                                   .work_ps = 20 * LW_PS_PER_US};
}

struct exec_test_builder {
    const struct exec_test_plan *t;
    struct lw_builder *b;
    int32_t compute, comm_stream, comm, first_bucket, n_buckets, norm;
    int32_t reduced[64];
};

static inline void exec_test_tables(struct exec_test_builder *k)
{
    const struct exec_test_plan *t = k->t;
    int32_t members[64];

    struct lw_role role = {.name = "all"};
    lw_builder_role(k->b, &role);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        members[r] = r;
        lw_builder_rank(k->b, r, 0, r, 0, 0);
    }
    k->compute = lw_builder_stream(k->b, "compute", LW_STREAM_COMPUTE, 0);
    k->comm_stream = lw_builder_stream(k->b, "comm", LW_STREAM_COMM, 1);
    k->comm = lw_builder_comm(k->b, "data", LW_COMM_DATA, t->reducer, k->comm_stream);
    lw_builder_group(k->b, k->comm, members, t->n_ranks);
    for (int32_t p = 0; p < t->n_params; p++) {
        char name[16] = {'w', (char)('0' + p / 10), (char)('0' + p % 10), 0};
        struct lw_plan_param a = {.name = name, .numel = t->numel + p, .dtype = t->dtype,
                                  .module = p, .tied = -1, .trainable = true, .used = true};
        lw_builder_param(k->b, &a);
        lw_builder_module(k->b, 0);
        struct lw_shard all = {.param = p, .owner = -1, .first = 0, .numel = t->numel + p};
        lw_builder_shard(k->b, &all);
    }
    lw_builder_set(k->b, LW_BUCKET_GRADIENTS, "rebuilt", 0);
    for (int32_t p = t->n_params - 1; p >= 0; p -= t->per_bucket) {
        struct lw_slot slots[64];
        int32_t n = 0;
        int64_t at = 0;
        for (int32_t q = p; q >= 0 && q > p - t->per_bucket; q--) {
            slots[n++] = (struct lw_slot){q, at + (q == 0 ? t->shift_slot : 0)};
            at += t->numel + q;
        }
        struct lw_bucket bucket = {.dtype = t->wire, .bytes = at * lw_dtype_size(t->wire)};
        int32_t b = lw_builder_bucket(k->b, &bucket, slots, n);
        if (k->n_buckets++ == 0)
            k->first_bucket = b;
    }
}

/* The norm's set, and the option that asks for it. */
static inline void exec_test_clip(struct exec_test_builder *k)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_bucket number = {.dtype = LW_F64, .bytes = 8};

    s.dp = k->t->n_ranks;
    s.clip = k->t->clip;
    lw_builder_strategy(k->b, &s);
    lw_builder_set(k->b, LW_BUCKET_NORM, NULL, 0);
    k->norm = lw_builder_bucket(k->b, &number, NULL, 0);
}

static inline int32_t exec_test_op(struct exec_test_builder *k, enum lw_op_kind kind,
                                   int32_t bucket, int32_t param, int32_t micro, int32_t dep)
{
    const struct exec_test_plan *t = k->t;
    bool comm = kind == LW_OP_ALL_REDUCE;
    struct lw_op op = lw_builder_blank(kind, comm ? k->comm_stream : k->compute);

    op.dtype = comm ? t->wire : t->dtype;
    op.work_ps = kind == LW_OP_FORWARD || kind == LW_OP_BACKWARD ? t->work_ps : -1;
    if (kind == LW_OP_OPTIMIZER)
        op.work_ps = 0;
    op.comm = comm ? k->comm : -1;
    op.bucket = bucket;
    op.stage = 0;
    op.micro_batch = micro;
    op.module = param;
    op.name = "";
    return lw_builder_op(k->b, &op, &dep, dep >= 0);
}

static inline void exec_test_cast(struct exec_test_builder *k, int32_t bucket, int64_t elements,
                                  enum lw_dtype to, int32_t dep)
{
    struct lw_op op = lw_builder_blank(LW_OP_CAST, k->compute);

    op.dtype = to;
    op.work_ps = -1;
    op.bucket = bucket;
    op.bytes = elements * lw_dtype_size(k->t->dtype);
    lw_builder_op(k->b, &op, &dep, dep >= 0);
}

static inline int64_t exec_test_elements(const struct exec_test_plan *t, int32_t bucket)
{
    int64_t n = 0;
    int32_t p = t->n_params - 1 - bucket * t->per_bucket;

    for (int32_t q = p; q >= 0 && q > p - t->per_bucket; q--)
        n += t->numel + q;
    return n;
}

static inline void exec_test_reduce(struct exec_test_builder *k, int32_t bucket, int32_t dep)
{
    const struct exec_test_plan *t = k->t;
    int64_t n = exec_test_elements(t, bucket);

    if (t->wire != t->dtype)
        exec_test_cast(k, k->first_bucket + bucket, n, t->wire, -1);
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, k->comm_stream);
    op.dtype = t->wire;
    op.work_ps = -1;
    op.comm = k->comm;
    op.bucket = k->first_bucket + bucket;
    op.bytes = n * lw_dtype_size(t->wire);
    /* the cast, when there is one, is the op before this one on the compute stream */
    int32_t before = t->wire != t->dtype ? dep + 1 : dep;
    k->reduced[bucket] = lw_builder_op(k->b, &op, &before, 1);
}

static inline void exec_test_pass(struct exec_test_builder *k, bool reduces)
{
    const struct exec_test_plan *t = k->t;

    for (int32_t m = 0; m < t->micro_batches; m++) {
        bool last = reduces && m + 1 == t->micro_batches;
        for (int32_t p = 0; p < t->n_params; p++)
            exec_test_op(k, LW_OP_FORWARD, -1, p, m, -1);
        for (int32_t p = t->n_params - 1; p >= 0; p--) {
            int32_t bucket = (t->n_params - 1 - p) / t->per_bucket;
            int32_t op = exec_test_op(k, LW_OP_BACKWARD, -1, p, m, -1);
            lw_builder_ready(k->b, p);
            if (last && !t->view && !(t->lose_last && p == 0)) {
                op = exec_test_op(k, LW_OP_COPY_IN, -1, p, m, -1);
                lw_builder_ready(k->b, p);
            }
            if (last && (p == 0 || (t->n_params - 1 - (p - 1)) / t->per_bucket != bucket))
                exec_test_reduce(k, bucket, op);
        }
    }
    if (!reduces)
        return;
    int32_t done[65];
    for (int32_t b = 0; b < k->n_buckets; b++) {
        done[b] = k->reduced[b];
        if (t->wire != t->dtype)
            exec_test_cast(k, k->first_bucket + b, exec_test_elements(t, b), t->dtype, done[b]);
        if (!t->view)
            done[b] = exec_test_op(k, LW_OP_COPY_OUT, k->first_bucket + b, -1, -1, done[b]);
    }
    if (t->clip > 0) {
        struct lw_op squares = lw_builder_blank(LW_OP_COPY_IN, k->compute);
        squares.work_ps = -1;
        squares.bucket = k->norm;
        lw_builder_op(k->b, &squares, done, k->n_buckets);
        exec_test_op(k, LW_OP_COPY_OUT, k->norm, -1, -1, -1);
    }
    struct lw_op op = lw_builder_blank(LW_OP_OPTIMIZER, k->compute);
    op.work_ps = 0;
    lw_builder_op(k->b, &op, done, k->n_buckets);
}

static inline enum lw_status exec_test_plan_build(const struct exec_test_plan *t,
                                                  struct lw_plan *plan, struct lw_err *err)
{
    struct exec_test_builder k = {.t = t, .b = lw_builder_new("test", t->n_ranks)};

    if (!k.b)
        return lw_fail_nomem(err);
    exec_test_tables(&k);
    if (t->clip > 0)
        exec_test_clip(&k);
    int32_t quiet = -1;
    if (t->accumulate > 0) {
        quiet = lw_builder_variant(k.b, "accumulate", "", false);
        lw_builder_program(k.b, quiet, 0);
        exec_test_pass(&k, false);
    }
    int32_t steady = lw_builder_variant(k.b, "steady", "rebuilt", true);
    lw_builder_program(k.b, steady, 0);
    exec_test_pass(&k, true);
    for (int32_t i = 0; i < t->accumulate; i++)
        lw_builder_pass(k.b, quiet);
    lw_builder_pass(k.b, steady);
    lw_builder_repeat_from(k.b, 0);
    return lw_builder_finish(k.b, plan, err);
}
