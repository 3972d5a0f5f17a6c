#pragma once

/* Every communication of a backend on small whole numbers, element by element against what it must
 * be. Counts that the members do not share evenly are among them. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "exec/backend/backend.h"
#include "exec/backend/element.h"
#include "exec/backend/scalar.h"
#include "shared/plan/op.h"

enum { EXEC_OPS_MAX = 8 };

struct exec_ops {
    const struct exec_backend *b;
    struct exec_world *w;
    struct exec_facts facts;
    struct exec_comm *comm;
    struct exec_stream *stream[EXEC_OPS_MAX];
    char *mem[EXEC_OPS_MAX];
    enum lw_dtype type;
    int64_t n_checked;
};

/* What rank r brings at element i: sums of up to 4 ranks (at most 208) are exact in every type. */
static inline float exec_ops_value(int32_t r, int64_t i)
{
    return (float)((r + 1) * 16 + i % 13);
}

static inline float exec_ops_sum(int32_t n, int64_t i)
{
    float s = 0;
    for (int32_t r = 0; r < n; r++)
        s += exec_ops_value(r, i);
    return s;
}

/* After the op, element i of rank r; false: undefined there. */
static inline bool exec_ops_expected(enum lw_op_kind op, int32_t n, int32_t r, int32_t root,
                                     int64_t count, int64_t i, float *v)
{
    int64_t first, some;
    int32_t owner = 0;

    while (exec_range(count, n, owner, &first, &some), i >= first + some)
        owner++;
    switch (op) {
    case LW_OP_ALL_REDUCE: *v = exec_ops_sum(n, i); return true;
    case LW_OP_REDUCE: *v = exec_ops_sum(n, i); return r == root;
    case LW_OP_REDUCE_SCATTER: *v = exec_ops_sum(n, i); return owner == r;
    case LW_OP_ALL_GATHER: *v = exec_ops_value(owner, i); return true;
    case LW_OP_BROADCAST: *v = exec_ops_value(root, i); return true;
    case LW_OP_ALL_TO_ALL: /* block j of rank i becomes block i of rank j */
        *v = exec_ops_value((int32_t)(i / (count / n)), r * (count / n) + i % (count / n));
        return true;
    default: *v = exec_ops_value(r, i); return true;
    }
}

static inline enum lw_status exec_ops_fill(struct exec_ops *k, int64_t count, struct lw_err *err)
{
    double host[512]; /* the widest type */
    int64_t bytes = count * lw_dtype_size(k->type);

    for (int32_t l = 0; l < k->facts.n_local; l++) {
        for (int64_t i = 0; i < count; i++)
            exec_put(k->type, host, i, (double)exec_ops_value(k->facts.first_local + l, i));
        LW_TRY(k->b->mem_write(k->w, k->facts.first_local + l, k->mem[l], host, bytes, err));
    }
    return LW_OK;
}

static inline enum lw_status exec_ops_finish(struct exec_ops *k, struct lw_err *err)
{
    LW_TRY(k->b->release(k->w, err));
    switch (k->b->poll(k->w, k->b->now_ns(k->w) + INT64_C(10000000000), err)) {
    case EXEC_DONE: return LW_OK;
    case EXEC_FAILED: return err->code;
    default: return lw_fail(err, LW_ETIMEOUT, "not done");
    }
}

static inline enum lw_status exec_ops_compare(struct exec_ops *k, enum lw_op_kind op, int32_t root,
                                              int64_t count, struct lw_err *err)
{
    double host[512];
    int64_t size = lw_dtype_size(k->type);
    float v = 0;

    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        LW_TRY(k->b->mem_read(k->w, r, host, k->mem[l], count * size, err));
        for (int64_t i = 0; i < count; i++) {
            if (!exec_ops_expected(op, k->facts.n_ranks, r, root, count, i, &v))
                continue;
            k->n_checked += size;
            double got = exec_get(k->type, host, i);
            if (got < (double)v || got > (double)v)
                return lw_fail(err, LW_ENO,
                               "%s of %lld %s, root %d: element %lld of rank %d is %g, not %g",
                               lw_op_name(op), (long long)count, lw_dtype_name(k->type), root,
                               (long long)i, r, got, (double)v);
        }
    }
    return LW_OK;
}

static inline enum lw_status exec_ops_collective(struct exec_ops *k, enum lw_op_kind op,
                                                 int32_t root, int64_t count, struct lw_err *err)
{
    struct exec_stamp stamps[EXEC_OPS_MAX] = {{0}};

    LW_TRY(exec_ops_fill(k, count, err));
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        struct exec_transfer x = {op, {k->mem[l], count, k->type, root}, &stamps[l]};
        LW_TRY(k->b->communicate(k->stream[l], k->comm, &x, 1, err));
    }
    LW_TRY(exec_ops_finish(k, err));
    for (int32_t l = 0; l < k->facts.n_local; l++)
        if (stamps[l].end_ns < stamps[l].start_ns || stamps[l].start_ns <= 0)
            return lw_fail(err, LW_ENO, "%s: ends at %lld, starts at %lld", lw_op_name(op),
                           (long long)stamps[l].end_ns, (long long)stamps[l].start_ns);
    return exec_ops_compare(k, op, root, count, err);
}

/* Every rank sends its first half to the next and receives the previous one's into its second half;
 * in a group, so that the ring does not lock. */
static inline enum lw_status exec_ops_ring(struct exec_ops *k, struct lw_err *err)
{
    enum { N = 100 };
    int32_t n = k->facts.n_ranks;
    int64_t size = lw_dtype_size(k->type);
    double host[2 * N]; /* the widest type */

    LW_TRY(exec_ops_fill(k, 2 * N, err));
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        struct exec_transfer both[] = {
            {LW_OP_SEND, {k->mem[l], N, k->type, (r + 1) % n}, NULL},
            {LW_OP_RECV, {k->mem[l] + N * size, N, k->type, (r + n - 1) % n}, NULL}};
        LW_TRY(k->b->communicate(k->stream[l], k->comm, both, 2, err));
    }
    LW_TRY(exec_ops_finish(k, err));
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        LW_TRY(k->b->mem_read(k->w, r, host, k->mem[l], 2 * N * size, err));
        for (int64_t i = 0; i < 2 * N; i++, k->n_checked += size) {
            double got = exec_get(k->type, host, i);
            double want = (double)exec_ops_value(i < N ? r : (r + n - 1) % n, i % N);
            if (got < want || got > want)
                return lw_fail(err, LW_ENO, "ring of %s: element %lld of rank %d is %g, not %g",
                               lw_dtype_name(k->type), (long long)i, r, got, want);
        }
    }
    return LW_OK;
}

/* A communicator of the last two ranks: everybody takes part in making it, two use it. */
static inline enum lw_status exec_ops_pair(struct exec_ops *k, struct lw_err *err)
{
    int32_t n = k->facts.n_ranks, members[2] = {n - 1, n - 2};
    struct exec_comm *pair;
    float host;

    LW_TRY(k->b->comm_create(k->w, members, 2, &pair, err));
    LW_TRY(exec_ops_fill(k, 10, err));
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        struct exec_transfer x = {LW_OP_ALL_REDUCE, {k->mem[l], 10, LW_F32, -1}, NULL};
        if (k->facts.first_local + l >= n - 2)
            LW_TRY(k->b->communicate(k->stream[l], pair, &x, 1, err));
    }
    LW_TRY(exec_ops_finish(k, err));
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        float v = r < n - 2 ? exec_ops_value(r, 3)
                            : exec_ops_value(n - 1, 3) + exec_ops_value(n - 2, 3);
        LW_TRY(k->b->mem_read(k->w, r, &host, k->mem[l] + 3 * 4, sizeof host, err));
        if (host < v || host > v)
            return lw_fail(err, LW_ENO, "pair: rank %d has %g, not %g", r, (double)host, (double)v);
    }
    k->b->comm_destroy(k->w, pair);
    return LW_OK;
}

/* Clipping by hand (docs/design/grad_norm.md): sums of two terms 4, 6 | 12, averages 2, 3 | 6.
 * Rank 0 updates the first two, the last rank the third: squares 13 + 36 = 49, norm 7. Clipped
 * at 3.5: 3.5 / 7.000001 is 1/2 - 2^-24 in f32, and the averages become 1 - 2^-23, 1.5 - 2^-22,
 * 3 - 2^-21 (the last two are ties, rounded to even). With `more`, the last rank has 300 of +-8
 * too: 49 + 300 * 16 = 4849. */
enum { EXEC_OPS_CLIP_AT = 64 }; /* after the number */

static inline int64_t exec_ops_clip_terms(const struct exec_ops *k, int32_t r, bool more,
                                          double terms[512])
{
    int64_t n = 0;

    if (r == 0)
        terms[n++] = 4, terms[n++] = 6;
    if (r == k->facts.n_ranks - 1)
        terms[n++] = 12;
    for (int i = 0; more && r == k->facts.n_ranks - 1 && i < 300; i++)
        terms[n++] = i % 2 ? 8 : -8;
    return n;
}

static inline float exec_ops_clipped(double term, bool more)
{
    if (more)
        return (float)(term / 2) * exec_clip_coefficient(4849, 3.5);
    return term < 5    ? 1 - 0x1p-23f
           : term < 10 ? 1.5f - 0x1p-22f
                       : 3 - 0x1p-21f;
}

static inline enum lw_status exec_ops_compare_clip(struct exec_ops *k, bool more,
                                                   struct lw_err *err)
{
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        double terms[512], host[512], want, squares;
        int64_t n = exec_ops_clip_terms(k, r, more, terms), size = lw_dtype_size(k->type);
        LW_TRY(k->b->mem_read(k->w, r, &squares, k->mem[l], sizeof squares, err));
        if (squares < (more ? 4849 : 49) || squares > (more ? 4849 : 49))
            return lw_fail(err, LW_ENO, "clip: rank %d has squares of %g", r, squares);
        LW_TRY(k->b->mem_read(k->w, r, host, k->mem[l] + EXEC_OPS_CLIP_AT, n * size, err));
        for (int64_t i = 0; i < n; i++, k->n_checked += size) {
            exec_put(k->type, &want, 0, (double)exec_ops_clipped(terms[i], more));
            if (memcmp((const char *)host + i * size, &want, (size_t)size) != 0)
                return lw_fail(err, LW_ENO, "clip: element %lld of rank %d, %s, is %.9g, not %.9g",
                               (long long)i, r, lw_dtype_name(k->type), exec_get(k->type, host, i),
                               exec_get(k->type, &want, 0));
        }
    }
    return LW_OK;
}

static inline enum lw_status exec_ops_clip(struct exec_ops *k, bool more, struct lw_err *err)
{
    struct exec_part parts[EXEC_OPS_MAX][2];

    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        double terms[512], host[512], zero = 0;
        int64_t n = exec_ops_clip_terms(k, r, more, terms);
        for (int64_t i = 0; i < n; i++)
            exec_put(k->type, host, i, terms[i]);
        LW_TRY(k->b->mem_write(k->w, r, k->mem[l], &zero, sizeof zero, err));
        LW_TRY(k->b->mem_write(k->w, r, k->mem[l] + EXEC_OPS_CLIP_AT, host,
                               n * lw_dtype_size(k->type), err));
        parts[l][0] = (struct exec_part){.kind = EXEC_PART_SQUARES, .to = k->mem[l],
                                         .to_dtype = LW_F64, .from = k->mem[l] + EXEC_OPS_CLIP_AT,
                                         .from_dtype = k->type, .divisor = 2, .count = n};
        parts[l][1] = (struct exec_part){.kind = EXEC_PART_SCALE,
                                         .to = k->mem[l] + EXEC_OPS_CLIP_AT,
                                         .to_dtype = k->type, .divisor = 2, .count = n,
                                         .clip = {k->mem[l], LW_F64, 3.5}};
    }
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        struct exec_task squares = {.n_parts = parts[l][0].count > 0, .parts = &parts[l][0]};
        struct exec_task scale = {.n_parts = parts[l][1].count > 0, .parts = &parts[l][1]};
        struct exec_transfer x = {LW_OP_ALL_REDUCE, {k->mem[l], 1, LW_F64, -1}, NULL};
        LW_TRY(k->b->compute(k->stream[l], &squares, NULL, err));
        LW_TRY(k->b->communicate(k->stream[l], k->comm, &x, 1, err));
        LW_TRY(k->b->compute(k->stream[l], &scale, NULL, err));
    }
    LW_TRY(exec_ops_finish(k, err));
    return exec_ops_compare_clip(k, more, err);
}

static inline enum lw_status exec_ops_all(struct exec_ops *k, bool all_types, struct lw_err *err)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_REDUCE, LW_OP_REDUCE_SCATTER,
                                          LW_OP_ALL_GATHER, LW_OP_BROADCAST, LW_OP_BARRIER};
    static const int64_t counts[] = {1, 7, 300, 301, 302};
    int32_t members[EXEC_OPS_MAX];

    for (int32_t r = 0; r < k->facts.n_ranks; r++)
        members[r] = r;
    LW_TRY(k->b->comm_create(k->w, members, k->facts.n_ranks, &k->comm, err));
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        void *mem = NULL;
        LW_TRY(k->b->stream_create(k->w, r, "comm", 1, &k->stream[l], err));
        LW_TRY(k->b->mem_alloc(k->w, r, 512 * 8, &mem, err));
        k->mem[l] = mem;
    }
    for (int t = 0; t < LW_N_DTYPES; t++) {
        k->type = (enum lw_dtype)t;
        for (size_t o = 0; (t == LW_F32 || all_types) && o < sizeof ops / sizeof *ops; o++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                LW_TRY(exec_ops_collective(k, ops[o], (int32_t)(c % (size_t)k->facts.n_ranks),
                                           counts[c], err));
        if (exec_backend_can(k->b, LW_OP_ALL_TO_ALL) && (t == LW_F32 || all_types))
            LW_TRY(exec_ops_collective(k, LW_OP_ALL_TO_ALL, -1, 36 * k->facts.n_ranks, err));
    }
    for (k->type = LW_F32; k->type <= LW_BF16; k->type++) {
        LW_TRY(exec_ops_clip(k, false, err));
        LW_TRY(exec_ops_clip(k, true, err));
    }
    if (k->facts.n_ranks < 2)
        return LW_OK;
    for (int t = 0; t < LW_N_DTYPES; t++) {
        k->type = (enum lw_dtype)t;
        if (t == LW_F32 || all_types)
            LW_TRY(exec_ops_ring(k, err));
    }
    k->type = LW_F32;
    return exec_ops_pair(k, err);
}

/* | 1 2 |   | 5 6 |   | 19 22 |
 * | 3 4 | * | 7 8 | = | 43 50 |, in a world of one that computes by products. */
static inline enum lw_status exec_ops_product(const struct exec_backend *b, struct lw_err *err)
{
    static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8}, expected[] = {19, 22, 43, 50};
    struct exec_open how = {.n_ranks = 1, .compute = EXEC_COMPUTE_GEMM,
                            .loop = (b->capabilities & EXEC_CAN_LOOP) != 0,
                            .timeout_ns = INT64_C(10000000000)};
    struct exec_ops k = {.b = b};
    struct exec_stamp stamp = {0};
    float got[4];
    void *mem = NULL;

    LW_TRY(b->open(&how, &k.w, err));
    enum lw_status s = b->stream_create(k.w, 0, "compute", 0, &k.stream[0], err);
    if (s == LW_OK)
        s = b->mem_alloc(k.w, 0, 12 * 4, &mem, err);
    if (s == LW_OK)
        s = b->mem_write(k.w, 0, mem, numbers, sizeof numbers, err);
    float *m = mem;
    struct exec_part part = {.kind = EXEC_PART_GEMM, .count = 2, .from = m, .state = {m + 4},
                             .to = m + 8};
    struct exec_task task = {.n_parts = 1, .parts = &part};
    b->hold(k.w);
    if (s == LW_OK)
        s = b->compute(k.stream[0], &task, &stamp, err);
    if (s == LW_OK)
        s = exec_ops_finish(&k, err);
    if (s == LW_OK)
        s = b->mem_read(k.w, 0, got, m + 8, sizeof got, err);
    b->close(k.w);
    for (int i = 0; s == LW_OK && i < 4; i++)
        if (got[i] < expected[i] || got[i] > expected[i])
            return lw_fail(err, LW_ENO, "product: element %d is %g, not %g", i, (double)got[i],
                           (double)expected[i]);
    return s == LW_OK && stamp.end_ns <= 0 ? lw_fail(err, LW_ENO, "product: not stamped") : s;
}

static inline enum lw_status exec_ops_run(const struct exec_backend *b,
                                          const struct exec_process *process, int32_t n_ranks,
                                          bool all_types, int64_t *n_checked,
                                          struct lw_err *err)
{
    const char *ms = getenv("T_TIMEOUT_MS");
    struct exec_open how = {.n_ranks = n_ranks, .compute = EXEC_COMPUTE_SLEEP,
                            .timeout_ns = strtoll(ms ? ms : "10000", NULL, 10) * 1000000,
                            .loop = process == NULL, .process = process};
    struct exec_ops k = {.b = b};

    LW_TRY(b->open(&how, &k.w, err));
    b->facts(k.w, &k.facts);
    enum lw_status s = exec_ops_all(&k, all_types, err);
    b->close(k.w);
    *n_checked = k.n_checked;
    return s;
}
