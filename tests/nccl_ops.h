#ifndef LW_TESTS_NCCL_OPS_H
#define LW_TESTS_NCCL_OPS_H

/* Every communication of a backend on small whole numbers, element by element against what it must
 * be. Counts that the members do not share evenly are among them. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "exec/backend.h"
#include "shared/op.h"

enum { NCCL_OPS_MAX = 8 };

struct nccl_ops {
    const struct exec_backend *b;
    struct exec_world *w;
    struct exec_facts facts;
    struct exec_comm *comm;
    struct exec_stream *stream[NCCL_OPS_MAX];
    float *mem[NCCL_OPS_MAX];
    int64_t n_checked;
};

/* What rank r brings at element i. */
static inline float nccl_ops_value(int32_t r, int64_t i)
{
    return (float)((r + 1) * 100 + i % 37);
}

static inline float nccl_ops_sum(int32_t n, int64_t i)
{
    float s = 0;
    for (int32_t r = 0; r < n; r++)
        s += nccl_ops_value(r, i);
    return s;
}

/* After the op, element i of rank r; false: undefined there. */
static inline bool nccl_ops_expected(enum lw_op_kind op, int32_t n, int32_t r, int32_t root,
                                     int64_t count, int64_t i, float *v)
{
    int64_t first, some;
    int32_t owner = 0;

    while (exec_range(count, n, owner, &first, &some), i >= first + some)
        owner++;
    switch (op) {
    case LW_OP_ALL_REDUCE: *v = nccl_ops_sum(n, i); return true;
    case LW_OP_REDUCE: *v = nccl_ops_sum(n, i); return r == root;
    case LW_OP_REDUCE_SCATTER: *v = nccl_ops_sum(n, i); return owner == r;
    case LW_OP_ALL_GATHER: *v = nccl_ops_value(owner, i); return true;
    case LW_OP_BROADCAST: *v = nccl_ops_value(root, i); return true;
    default: *v = nccl_ops_value(r, i); return true;
    }
}

static inline exec_comm_fn *nccl_ops_function(const struct exec_backend *b, enum lw_op_kind op)
{
    switch (op) {
    case LW_OP_ALL_REDUCE: return b->all_reduce;
    case LW_OP_REDUCE: return b->reduce;
    case LW_OP_REDUCE_SCATTER: return b->reduce_scatter;
    case LW_OP_ALL_GATHER: return b->all_gather;
    case LW_OP_BROADCAST: return b->broadcast;
    default: return b->barrier;
    }
}

static inline enum lw_status nccl_ops_fill(struct nccl_ops *k, int64_t count, struct lw_err *err)
{
    float host[512];

    for (int32_t l = 0; l < k->facts.n_local; l++) {
        for (int64_t i = 0; i < count; i++)
            host[i] = nccl_ops_value(k->facts.first_local + l, i);
        LW_TRY(k->b->mem_write(k->w, k->facts.first_local + l, k->mem[l], host, count * 4, err));
    }
    return LW_OK;
}

static inline enum lw_status nccl_ops_finish(struct nccl_ops *k, struct lw_err *err)
{
    LW_TRY(k->b->release(k->w, err));
    switch (k->b->poll(k->w, k->b->now_ns(k->w) + INT64_C(10000000000), err)) {
    case EXEC_DONE: return LW_OK;
    case EXEC_FAILED: return err->code;
    default: return lw_fail(err, LW_ETIMEOUT, "not done");
    }
}

static inline enum lw_status nccl_ops_compare(struct nccl_ops *k, enum lw_op_kind op, int32_t root,
                                              int64_t count, struct lw_err *err)
{
    float host[512], v = 0;

    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        LW_TRY(k->b->mem_read(k->w, r, host, k->mem[l], count * 4, err));
        for (int64_t i = 0; i < count; i++) {
            if (!nccl_ops_expected(op, k->facts.n_ranks, r, root, count, i, &v))
                continue;
            k->n_checked += 4;
            if (host[i] < v || host[i] > v)
                return lw_fail(err, LW_ENO, "%s of %lld, root %d: element %lld of rank %d is %g, not %g",
                               lw_op_name(op), (long long)count, root, (long long)i, r,
                               (double)host[i], (double)v);
        }
    }
    return LW_OK;
}

static inline enum lw_status nccl_ops_collective(struct nccl_ops *k, enum lw_op_kind op,
                                                 int32_t root, int64_t count, struct lw_err *err)
{
    struct exec_stamp stamps[NCCL_OPS_MAX] = {{0}};

    LW_TRY(nccl_ops_fill(k, count, err));
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        struct exec_message m = {k->mem[l], count, LW_F32, root};
        LW_TRY(nccl_ops_function(k->b, op)(k->stream[l], k->comm, &m, &stamps[l], err));
    }
    LW_TRY(nccl_ops_finish(k, err));
    for (int32_t l = 0; l < k->facts.n_local; l++)
        if (stamps[l].end_ns < stamps[l].start_ns || stamps[l].start_ns <= 0)
            return lw_fail(err, LW_ENO, "%s: ends at %lld, starts at %lld", lw_op_name(op),
                           (long long)stamps[l].end_ns, (long long)stamps[l].start_ns);
    return nccl_ops_compare(k, op, root, count, err);
}

/* Every rank sends its first half to the next and receives the previous one's into its second half;
 * in a group, so that the ring does not lock. */
static inline enum lw_status nccl_ops_ring(struct nccl_ops *k, struct lw_err *err)
{
    enum { N = 100 };
    int32_t n = k->facts.n_ranks;
    float host[2 * N];

    LW_TRY(nccl_ops_fill(k, 2 * N, err));
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        struct exec_message out = {k->mem[l], N, LW_F32, (r + 1) % n};
        struct exec_message in = {k->mem[l] + N, N, LW_F32, (r + n - 1) % n};
        LW_TRY(k->b->group_begin(k->stream[l], err));
        LW_TRY(k->b->send(k->stream[l], k->comm, &out, NULL, err));
        LW_TRY(k->b->recv(k->stream[l], k->comm, &in, NULL, err));
        LW_TRY(k->b->group_end(k->stream[l], err));
    }
    LW_TRY(nccl_ops_finish(k, err));
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        LW_TRY(k->b->mem_read(k->w, r, host, k->mem[l], sizeof host, err));
        for (int64_t i = 0; i < N; i++, k->n_checked += 4)
            if (host[N + i] < nccl_ops_value((r + n - 1) % n, i) ||
                host[N + i] > nccl_ops_value((r + n - 1) % n, i))
                return lw_fail(err, LW_ENO, "ring: element %lld of rank %d is %g", (long long)i, r,
                               (double)host[N + i]);
    }
    return LW_OK;
}

/* A communicator of the last two ranks: everybody takes part in making it, two use it. */
static inline enum lw_status nccl_ops_pair(struct nccl_ops *k, struct lw_err *err)
{
    int32_t n = k->facts.n_ranks, members[2] = {n - 1, n - 2};
    struct exec_comm *pair;
    float host;

    LW_TRY(k->b->comm_split(k->w, k->comm, members, 2, &pair, err));
    LW_TRY(nccl_ops_fill(k, 10, err));
    k->b->hold(k->w);
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        struct exec_message m = {k->mem[l], 10, LW_F32, -1};
        if (k->facts.first_local + l >= n - 2)
            LW_TRY(k->b->all_reduce(k->stream[l], pair, &m, NULL, err));
    }
    LW_TRY(nccl_ops_finish(k, err));
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        float v = r < n - 2 ? nccl_ops_value(r, 3)
                            : nccl_ops_value(n - 1, 3) + nccl_ops_value(n - 2, 3);
        LW_TRY(k->b->mem_read(k->w, r, &host, k->mem[l] + 3, sizeof host, err));
        if (host < v || host > v)
            return lw_fail(err, LW_ENO, "pair: rank %d has %g, not %g", r, (double)host, (double)v);
    }
    k->b->comm_destroy(k->w, pair);
    return LW_OK;
}

static inline enum lw_status nccl_ops_all(struct nccl_ops *k, struct lw_err *err)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_REDUCE, LW_OP_REDUCE_SCATTER,
                                          LW_OP_ALL_GATHER, LW_OP_BROADCAST, LW_OP_BARRIER};
    static const int64_t counts[] = {1, 7, 300, 301, 302};
    int32_t members[NCCL_OPS_MAX];

    for (int32_t r = 0; r < k->facts.n_ranks; r++)
        members[r] = r;
    LW_TRY(k->b->comm_create(k->w, members, k->facts.n_ranks, &k->comm, err));
    for (int32_t l = 0; l < k->facts.n_local; l++) {
        int32_t r = k->facts.first_local + l;
        void *mem;
        LW_TRY(k->b->stream_create(k->w, r, "comm", 1, &k->stream[l], err));
        LW_TRY(k->b->mem_alloc(k->w, r, 512 * 4, &mem, err));
        k->mem[l] = mem;
    }
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            LW_TRY(nccl_ops_collective(k, ops[o], (int32_t)(c % (size_t)k->facts.n_ranks),
                                       counts[c], err));
    LW_TRY(nccl_ops_ring(k, err));
    return nccl_ops_pair(k, err);
}

static inline enum lw_status nccl_ops_run(const struct exec_backend *b,
                                          const struct exec_process *process, int32_t n_ranks,
                                          int64_t *n_checked, struct lw_err *err)
{
    struct exec_open how = {.n_ranks = n_ranks, .compute = EXEC_COMPUTE_SLEEP,
                            .timeout_ns = INT64_C(10000000000), .loop = process == NULL,
                            .process = process};
    struct nccl_ops k = {.b = b};

    LW_TRY(b->open(&how, &k.w, err));
    b->facts(k.w, &k.facts);
    enum lw_status s = nccl_ops_all(&k, err);
    b->close(k.w);
    *n_checked = k.n_checked;
    return s;
}

#endif
