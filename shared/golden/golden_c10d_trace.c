/* Recorded runs of DistributedDataParallel (kind "ddp_trace"): every iteration's ready gradients
 * and launched buckets are repeated by the bucket rules of torch 1.13 and the reducer.
 *
 * Where the rebuilt list leaves several buckets open the reference system's order is that of a hash
 * table. The order of those is then read off the case's own launches; their contents, and
 * everything else, are still compared. */
#include <stdlib.h>
#include <string.h>

#include "shared/bucket/bucket.h"
#include "shared/golden/golden_case.h"
#include "shared/bucket/reducer.h"

struct run {
    struct lw_golden_case *c;
    struct lw_grad *grads;
    int32_t n;
    struct lw_bucket_rules rules;
    struct lw_bucketing buckets;
    struct lw_reducer *reducer;
    bool marks_unused; /* unused gradients are known: find_unused or a static graph */
    bool rebuilt;
    int32_t n_synchronised;
    int32_t *order, n_order;                       /* [n] collected for the rebuild */
    int32_t *bucket_of, *launches, *late, *unused; /* [n] scratch */
};

static enum lw_status read_run(struct lw_golden_case *c, struct run *r, struct lw_err *err)
{
    struct lw_bucket_request q = {.policy = LW_BUCKET_C10D_1_13};
    int64_t *numel;
    enum lw_dtype *dtype;
    bool view;

    LW_TRY(lw_golden_list(c, "numel", 0, INT64_MAX, &numel, &r->n, err));
    LW_TRY(lw_golden_dtypes(c, r->n, &dtype, err));
    LW_TRY(lw_golden_int(c, "cap_bytes", 0, INT64_MAX, &q.cap_bytes, err));
    LW_TRY(lw_golden_int(c, "first_bucket_bytes", 0, INT64_MAX, &q.first_bytes, err));
    LW_TRY(lw_golden_bool(c, "find_unused", &q.find_unused, err));
    LW_TRY(lw_golden_bool(c, "static_graph", &q.static_graph, err));
    LW_TRY(lw_golden_bool(c, "bucket_view", &view, err)); /* copies, not decisions */
    LW_TRY(lw_bucket_rules(&q, &r->rules, err));
    r->marks_unused = q.find_unused || q.static_graph;
    LW_TAKE(c->arena, r->grads, r->n, err);
    LW_TAKE(c->arena, r->order, r->n, err);
    LW_TAKE(c->arena, r->bucket_of, r->n, err);
    LW_TAKE(c->arena, r->launches, r->n, err);
    LW_TAKE(c->arena, r->late, r->n, err);
    LW_TAKE(c->arena, r->unused, r->n, err);
    for (int32_t i = 0; i < r->n; i++)
        r->grads[i] = (struct lw_grad){.numel = numel[i], .dtype = dtype[i]};
    return LW_OK;
}

static enum lw_status use_buckets(struct run *r, struct lw_err *err)
{
    const struct lw_bucketing *b = &r->buckets;

    for (int32_t k = 0; k < b->n_buckets; k++)
        for (int32_t i = b->first[k]; i < b->first[k + 1]; i++)
            r->bucket_of[b->items[i]] = k;
    lw_reducer_free(r->reducer);
    r->reducer = NULL;
    return lw_reducer_new(r->n, r->bucket_of, b->n_buckets, LW_LAUNCH_IN_ORDER, &r->reducer, err);
}

/* The buckets of the launches ["L", k, [...]] in an iteration of the case, by k. */
static enum lw_status order_open(struct run *r, const struct lw_value *iteration,
                                 struct lw_err *err)
{
    const struct lw_value *events = lw_value_get(iteration, "events"), **wanted;

    LW_TAKE(r->c->arena, wanted, r->buckets.n_buckets, err);
    for (int32_t i = 0; events && i < events->n; i++) {
        const struct lw_value *e = &events->items[i];
        if (e->type != LW_JSON_ARRAY || e->n != 3 || e->items[0].type != LW_JSON_STRING ||
            strcmp(e->items[0].text, "L") != 0 || e->items[1].type != LW_JSON_NUMBER)
            continue;
        long k = strtol(e->items[1].text, NULL, 10);
        if (k >= 0 && k < r->buckets.n_buckets && !wanted[k])
            wanted[k] = &e->items[2];
    }
    return lw_golden_order_open(r->c, wanted, &r->buckets, err);
}

static enum lw_status rebuild(struct run *r, const struct lw_value *iteration, struct lw_err *err)
{
    for (int32_t i = 0; i < r->n; i++)
        r->bucket_of[i] = -1; /* marks what is in the order */
    for (int32_t i = 0; i < r->n_order; i++)
        r->bucket_of[r->order[i]] = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->bucket_of[i] < 0)
            r->order[r->n_order++] = i;
    lw_bucketing_free(&r->buckets);
    LW_TRY(lw_bucket_rebuilt(&r->rules, r->grads, r->n, r->order, &r->buckets, err));
    if (r->buckets.n_open > 1)
        LW_TRY(order_open(r, iteration, err));
    r->rebuilt = true;
    return use_buckets(r, err);
}

/* "R": a gradient is ready; "L": a bucket is launched, with its gradients. Left open. */
static void open_event(struct lw_text *t, const char *what, int32_t number)
{
    lw_text_open(t);
    lw_text_item(t, "\"%s\",%d", what, number);
}

static void add_launches(const struct run *r, const int32_t *launches, int32_t n, bool as_zero,
                         struct lw_text *t)
{
    const struct lw_bucketing *b = &r->buckets;

    for (int32_t l = 0; l < n; l++) {
        int32_t k = launches[l];
        open_event(t, "L", as_zero ? 0 : k);
        lw_text_ints(t, b->items + b->first[k], b->first[k + 1] - b->first[k]);
        lw_text_close(t);
    }
}

static enum lw_status tell_unused(struct run *r, const int32_t *ready, int32_t n_ready,
                                  struct lw_err *err)
{
    int32_t n_unused = 0;

    for (int32_t i = 0; i < r->n; i++) {
        bool used = false;
        for (int32_t k = 0; k < n_ready && !used; k++)
            used = ready[k] == i;
        if (!used)
            r->unused[n_unused++] = i;
    }
    return lw_reducer_unused(r->reducer, r->unused, n_unused, err);
}

/* One backward; its events go to t. A static graph's first one launches at its end, and numbers
 * each bucket 0. */
static enum lw_status run_backward(struct run *r, const int32_t *ready, int32_t n_ready,
                                   bool synchronised, struct lw_text *t, struct lw_err *err)
{
    bool recording = synchronised && r->rules.first_after_backward && r->n_synchronised == 0;
    int32_t n, n_late = 0;

    if (synchronised && r->marks_unused)
        LW_TRY(tell_unused(r, ready, n_ready, err));
    lw_text_open(t);
    for (int32_t i = 0; i < n_ready; i++) {
        open_event(t, "R", ready[i]);
        lw_text_close(t);
        LW_TRY(lw_reducer_mark(r->reducer, ready[i], r->launches, &n, err));
        if (recording)
            for (int32_t l = 0; l < n; l++)
                r->late[n_late++] = r->launches[l];
        else
            add_launches(r, r->launches, n, false, t);
    }
    add_launches(r, r->late, n_late, true, t);
    lw_text_close(t);
    if (synchronised && ++r->n_synchronised == r->rules.n_initial_passes) {
        memcpy(r->order, ready, (size_t)n_ready * sizeof *ready);
        r->n_order = n_ready;
    }
    return LW_OK;
}

static enum lw_status expect_unfinished(struct lw_golden_case *it, struct run *r,
                                        struct lw_err *err)
{
    struct lw_text t = {0};
    int32_t n = lw_reducer_unmarked(r->reducer, r->unused, r->n);

    LW_TRY(lw_golden_expect_error(it, "RuntimeError", "events", err));
    LW_TRY(lw_golden_expect_word(it, "reason", "prior_reduction_unfinished", err));
    lw_text_ints(&t, r->unused, n);
    return lw_golden_expect(it, "unmarked", &t, err);
}

/* *stopped: the forward raised, nothing follows. */
static enum lw_status run_iteration(struct run *r, struct lw_golden_case *it, bool *stopped,
                                    struct lw_err *err)
{
    struct lw_text t = {0};
    int32_t *ready, n_ready;
    bool no_sync;

    LW_TRY(lw_golden_known(it, "ready_order no_sync events error reason unmarked", err));
    LW_TRY(lw_golden_indices(it, "ready_order", 0, r->n - 1, &ready, &n_ready, err));
    LW_TRY(lw_golden_bool(it, "no_sync", &no_sync, err));
    if (!ready || n_ready > r->n)
        return lw_fail(err, LW_EFORMAT, "ready_order: expected at most %d gradients", r->n);
    enum lw_status begun = lw_reducer_begin(r->reducer, !no_sync, err);
    if (begun == LW_EFAILED) {
        *stopped = true;
        return expect_unfinished(it, r, err);
    }
    LW_TRY(begun);
    LW_TRY(lw_golden_expect_error(it, NULL, "", err));
    if (lw_value_get(it->root, "reason") || lw_value_get(it->root, "unmarked"))
        return lw_fail(err, LW_ENO, "reason: computed no error, the case has one");
    if (r->rules.n_rebuilt > 0 && r->n_order > 0 && !r->rebuilt) {
        LW_TRY(rebuild(r, it->root, err));
        LW_TRY(lw_reducer_begin(r->reducer, !no_sync, err));
    }
    enum lw_status status = run_backward(r, ready, n_ready, !no_sync, &t, err);
    if (status != LW_OK) {
        lw_text_free(&t);
        return status;
    }
    return lw_golden_expect(it, "events", &t, err);
}

static enum lw_status run_all(struct run *r, struct lw_err *err)
{
    const struct lw_value *iters = lw_value_get(r->c->root, "iters");
    bool stopped = false;

    if (!iters || iters->type != LW_JSON_ARRAY)
        return lw_fail(err, LW_EFORMAT, "iters: expected a list");
    LW_TRY(lw_bucket_initial(&r->rules, r->grads, r->n, NULL, &r->buckets, err));
    LW_TRY(use_buckets(r, err));
    for (int32_t i = 0; i < iters->n; i++) {
        struct lw_golden_case it = {.arena = r->c->arena, .root = &iters->items[i]};
        enum lw_status status =
            stopped ? lw_fail(err, LW_ENO, "computed an error before it, nothing can follow")
                    : run_iteration(r, &it, &stopped, err);
        LW_TRY(lw_err_context(err, status, "iteration %d", i));
    }
    return LW_OK;
}

enum lw_status lw_golden_c10d_trace(struct lw_golden_case *c, struct lw_err *err)
{
    struct run r = {.c = c};

    LW_TRY(read_run(c, &r, err));
    enum lw_status status = run_all(&r, err);
    lw_reducer_free(r.reducer);
    lw_bucketing_free(&r.buckets);
    return status;
}
