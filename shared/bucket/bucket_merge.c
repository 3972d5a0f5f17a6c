/* Buckets chosen by time: MG-WFBP's rule and the exact optimum.
 *
 * Invariants: a bucket is a run of gradients in ready order; with prefix sums S of the bytes,
 * bucket (j, i] costs c(S[i] - S[j]); f[i], the least end of the first i gradients, obeys f[i] =
 * min over j < i of max(f[j], ready[i-1]) + c(S[i] - S[j]) because an earlier end is never worse.
 * Of many gradients shared/bucket/bucket_search.c finds it without looking at every j.
 *
 * With the next forward (DeAR, Zhang et al., ICDCS 2023) there are two ends to keep small: of the
 * reduce-scatters, f, and of what follows them, h: buckets are all-gathered in the opposite order
 * and modules run after their gather, so the forward ends at f + between + max over buckets k of
 * (gathers of k and all later ones + forward of k and all earlier ones), in ready order, and h
 * obeys the same recurrence as f with forward prefix sums for ready times. All pairs (f, h) that
 * are not worse in both are kept for each prefix.
 *
 * Sources: S. Shi et al., "MG-WFBP", INFOCOM 2019, and its repository@507f409d; research of the
 * recurrence: docs/design/bucket_merge.md. Not modelled: several channels, interference. */
#include "shared/bucket/bucket_merge.h"
#include "shared/bucket/bucket_search.h"
#include "shared/base/sort.h"
#include "shared/numbers/larger.h"
#include "shared/numbers/order.h"

#include <inttypes.h>
#include <stdlib.h>

#define TIME_MAX LW_MERGE_TIME_MAX

struct cost_at {
    const struct lw_merge *m;
    enum lw_op_kind op;
};

static enum lw_status ask(const struct cost_at *c, int64_t bytes, lw_ps *time, struct lw_err *err)
{
    return lw_bucket_ask(c->m, c->op, bytes, time, err);
}

/* The collective of the backward, and of the next forward. */
static struct cost_at backward_cost(const struct lw_merge *m)
{
    return (struct cost_at){m, m->forward ? LW_OP_REDUCE_SCATTER : m->query.op};
}

static struct cost_at forward_cost(const struct lw_merge *m)
{
    return (struct cost_at){m, LW_OP_ALL_GATHER};
}

static enum lw_status check_input(const struct lw_merge *m, struct lw_err *err)
{
    int64_t bytes = 0, forward = 0;

    if (!m->cost || !m->cost->time)
        return lw_fail(err, LW_EINVAL, "buckets chosen by time need a cost: give a cluster");
    if (m->n < 1)
        return lw_fail(err, LW_EINVAL, "no gradients to put into buckets");
    if (m->between < 0)
        return lw_fail(err, LW_EINVAL, "optimizer time %" PRId64 ", allowed: 0 or more",
                       m->between);
    for (int32_t i = 0; i < m->n; i++) {
        if (m->bytes[i] < 0 || __builtin_add_overflow(bytes, m->bytes[i], &bytes))
            return lw_fail(err, LW_EINVAL,
                           "gradient %d has %" PRId64 " bytes, allowed: 0 or more, together below "
                           "2^63",
                           i, m->bytes[i]);
        lw_ps before = i ? m->ready[i - 1] : 0;
        if (m->ready[i] < before || m->ready[i] > TIME_MAX)
            return lw_fail(err, LW_EINVAL,
                           "gradient %d is ready at %" PRId64 ", allowed: %" PRId64
                           " (the one before it) to 2^60",
                           i, m->ready[i], before);
        if (m->forward && (m->forward[i] < 0 || m->forward[i] > TIME_MAX - forward))
            return lw_fail(err, LW_EINVAL,
                           "forward time of gradient %d is %" PRId64
                           ", allowed: 0 or more, together below 2^60",
                           i, m->forward[i]);
        forward += m->forward ? m->forward[i] : 0;
    }
    return LW_OK;
}

/* When a bucket of these bytes ends that can start at the later of two times. */
static enum lw_status run(const struct cost_at *c, lw_ps channel, lw_ps ready, int64_t bytes,
                          lw_ps *end, struct lw_err *err)
{
    lw_ps time;

    LW_TRY(ask(c, bytes, &time, err));
    *end = lw_larger(channel, ready) + time;
    if (*end > TIME_MAX)
        return lw_fail(err, LW_EINVAL, "the buckets end after 2^60, time is counted below that");
    return LW_OK;
}

static int64_t sum(const int64_t *v, int32_t begin, int32_t end)
{
    int64_t s = 0;

    for (int32_t i = begin; i < end; i++)
        s += v[i];
    return s;
}

/* The next forward: gathers in the opposite order, modules after them. */
static enum lw_status gather_end(const struct lw_merge *m, const int32_t *first, int32_t n_buckets,
                                 lw_ps begin, lw_ps *end, struct lw_err *err)
{
    struct cost_at gather = forward_cost(m);
    lw_ps channel = begin, compute = begin;

    for (int32_t b = n_buckets - 1; b >= 0; b--) {
        LW_TRY(run(&gather, channel, 0, sum(m->bytes, first[b], first[b + 1]), &channel, err));
        compute = lw_larger(compute, channel) + sum(m->forward, first[b], first[b + 1]);
    }
    *end = compute;
    return LW_OK;
}

enum lw_status lw_merge_end(const struct lw_merge *m, const int32_t *first, int32_t n_buckets,
                            lw_ps *end, struct lw_err *err)
{
    struct cost_at reduce = backward_cost(m);
    lw_ps at = 0;

    LW_TRY(check_input(m, err));
    if (n_buckets < 1 || first[0] != 0 || first[n_buckets] != m->n)
        return lw_fail(err, LW_EINVAL, "the buckets do not hold the %d gradients", m->n);
    for (int32_t b = 0; b < n_buckets; b++) {
        if (first[b + 1] <= first[b] || first[b + 1] > m->n)
            return lw_fail(err, LW_EINVAL, "bucket %d holds gradients %d to %d of %d", b, first[b],
                           first[b + 1] - 1, m->n);
        LW_TRY(run(&reduce, at, m->ready[first[b + 1] - 1], sum(m->bytes, first[b], first[b + 1]),
                   &at, err));
    }
    if (m->forward)
        return gather_end(m, first, n_buckets, at + m->between, end, err);
    *end = at;
    return LW_OK;
}

/* Runs that end after cuts_backward[0] = n > cuts_backward[1] > ... > 0 become buckets. */
static enum lw_status emit(const struct lw_merge *m, const int32_t *cuts_backward,
                           int32_t n_buckets, struct lw_bucketing *out, lw_ps *end,
                           struct lw_err *err)
{
    struct lw_bucketing b = {.n_buckets = n_buckets, .n_items = m->n};
    lw_ps t;

    enum lw_status status = lw_bucketing_room(&b, n_buckets, m->n, err);

    if (status == LW_OK) {
        for (int32_t i = 0; i < n_buckets; i++)
            b.first[n_buckets - i] = cuts_backward[i];
        for (int32_t i = 0; i < m->n; i++)
            b.items[i] = i;
        status = lw_merge_end(m, b.first, n_buckets, &t, err);
    }
    if (status != LW_OK) {
        lw_bucketing_free(&b);
        return status;
    }
    if (end)
        *end = t;
    *out = b;
    return LW_OK;
}

/* Fills ends[] with the last gradient + 1 of each bucket; returns how many. */
static enum lw_status merge_greedily(const struct lw_merge *m, int32_t *ends, int32_t *n_buckets,
                                     struct lw_err *err)
{
    struct cost_at reduce = backward_cost(m);
    lw_ps start = m->ready[0], time, next_time, merged_time;
    int64_t bytes = m->bytes[0];

    *n_buckets = 0;
    LW_TRY(ask(&reduce, bytes, &time, err));
    for (int32_t i = 0; i + 1 < m->n; i++) {
        lw_ps next_ready = m->ready[i + 1];
        LW_TRY(ask(&reduce, m->bytes[i + 1], &next_time, err));
        LW_TRY(ask(&reduce, bytes + m->bytes[i + 1], &merged_time, err));
        bool waits = start > next_ready || next_ready - start < time + next_time - merged_time;
        if (next_ready < start + time && waits) {
            bytes += m->bytes[i + 1];
            start = lw_larger(start, next_ready);
            time = merged_time;
        } else {
            ends[(*n_buckets)++] = i + 1;
            bytes = m->bytes[i + 1];
            start = lw_larger(start + time, next_ready);
            time = next_time;
        }
        if (start > TIME_MAX)
            return lw_fail(err, LW_EINVAL,
                           "the buckets end after 2^60, time is counted below that");
    }
    ends[(*n_buckets)++] = m->n;
    return LW_OK;
}

enum lw_status lw_bucket_mg_wfbp(const struct lw_merge *m, struct lw_bucketing *out, lw_ps *end,
                                 struct lw_err *err)
{
    int32_t n_buckets;

    LW_TRY(check_input(m, err));
    int32_t *ends;

    LW_NEW(ends, m->n, err);
    enum lw_status status = merge_greedily(m, ends, &n_buckets, err);
    if (status == LW_OK) {
        for (int32_t a = 0, b = n_buckets - 1; a < b; a++, b--) {
            int32_t swap = ends[a];
            ends[a] = ends[b];
            ends[b] = swap;
        }
        status = emit(m, ends, n_buckets, out, end, err);
    }
    lw_free(ends);
    return status;
}

struct search {
    const struct lw_merge *m;
    int64_t *bytes; /* [n + 1] prefix sums */
    lw_ps *forward; /* [n + 1] prefix sums; with forward only */
    lw_ps *best;    /* [n + 1]: f */
    int32_t *from;  /* [n + 1]: where the last bucket begins */
    int32_t *cuts;  /* [n] */
};

/* f[i], from the latest j down. */
static enum lw_status best_end(struct search *s, int32_t i, struct lw_err *err)
{
    struct cost_at reduce = backward_cost(s->m);
    lw_ps time;

    s->best[i] = INT64_MAX;
    for (int32_t j = i - 1; j >= 0; j--) {
        LW_TRY(ask(&reduce, s->bytes[i] - s->bytes[j], &time, err));
        lw_ps end = lw_larger(s->best[j], s->m->ready[i - 1]) + time;
        if (end < s->best[i]) {
            s->best[i] = end;
            s->from[i] = j;
        }
    }
    if (s->best[i] > TIME_MAX)
        return lw_fail(err, LW_EINVAL, "the buckets end after 2^60, time is counted below that");
    return LW_OK;
}

static enum lw_status search_backward(struct search *s, struct lw_bucketing *out, lw_ps *end,
                                      struct lw_err *err)
{
    int32_t n_buckets = 0;

    for (int32_t i = 1; s->m->n <= LW_MERGE_EVERY && i <= s->m->n; i++)
        LW_TRY(best_end(s, i, err));
    if (s->m->n > LW_MERGE_EVERY)
        LW_TRY(lw_bucket_search(s->m, s->bytes, s->best, s->from, err));
    for (int32_t i = s->m->n; i > 0; i = s->from[i])
        s->cuts[n_buckets++] = i;
    return emit(s->m, s->cuts, n_buckets, out, end, err);
}

/* A way to end a prefix: both ends, and the way that its last bucket follows. */
struct label {
    lw_ps reduce_end, gather_end;
    int32_t begin, before; /* of the last bucket; index of the label it extends, -1 = none */
};

struct labels {
    struct label *at;
    int64_t n, cap;
    int64_t *first;      /* [n + 2]: labels of prefix i are first[i] .. first[i+1]-1 */
    struct label *found; /* of the prefix being worked on */
    int64_t n_found, cap_found;
};

LW_COMPARATOR(by_ends, struct label, a->reduce_end, b->reduce_end, a->gather_end, b->gather_end,
              b->begin, a->begin, a->before, b->before)

/* All labels of prefix j with one bucket (j, i] after them. */
static enum lw_status extend(struct search *s, struct labels *l, int32_t i, int32_t j,
                             struct lw_err *err)
{
    struct cost_at reduce = backward_cost(s->m), gather = forward_cost(s->m);
    int64_t bytes = s->bytes[i] - s->bytes[j];
    lw_ps reduce_time, gather_time;

    LW_TRY(ask(&reduce, bytes, &reduce_time, err));
    LW_TRY(ask(&gather, bytes, &gather_time, err));
    int64_t n = l->first[j + 1] - l->first[j];
    if (lw_reserve(&l->found, &l->cap_found, l->n_found + n, sizeof *l->found))
        return lw_fail_nomem(err);
    for (int64_t k = l->first[j]; k < l->first[j + 1]; k++) {
        struct label *x = &l->found[l->n_found++];
        x->reduce_end = lw_larger(l->at[k].reduce_end, s->m->ready[i - 1]) + reduce_time;
        x->gather_end = lw_larger(l->at[k].gather_end, s->forward[i]) + gather_time;
        x->begin = j;
        x->before = (int32_t)k;
        if (x->reduce_end > TIME_MAX || x->gather_end > TIME_MAX)
            return lw_fail(err, LW_EINVAL,
                           "the buckets end after 2^60, time is counted below that");
    }
    return LW_OK;
}

/* Of the labels found, those that no other beats in both ends. */
static enum lw_status keep_best(struct labels *l, struct lw_err *err)
{
    lw_ps least = INT64_MAX;

    lw_sort(l->found, l->n_found, by_ends);
    if (lw_reserve(&l->at, &l->cap, l->n + l->n_found, sizeof *l->at))
        return lw_fail_nomem(err);
    for (int64_t k = 0; k < l->n_found; k++)
        if (l->found[k].gather_end < least) {
            least = l->found[k].gather_end;
            l->at[l->n++] = l->found[k];
        }
    if (l->n > LW_MERGE_LABELS)
        return lw_fail(err, LW_ENOTSUP,
                       "optimal buckets with the next forward: more than %d partial answers, none "
                       "worse than another in both ends (leave the forward out, or use mg-wfbp)",
                       LW_MERGE_LABELS);
    return LW_OK;
}

static enum lw_status fill_labels(struct search *s, struct labels *l, struct lw_err *err)
{
    if (lw_reserve(&l->at, &l->cap, 1, sizeof *l->at))
        return lw_fail_nomem(err);
    l->at[l->n++] = (struct label){.before = -1};
    l->first[1] = 1;
    for (int32_t i = 1; i <= s->m->n; i++) {
        l->n_found = 0;
        for (int32_t j = i - 1; j >= 0; j--)
            LW_TRY(extend(s, l, i, j, err));
        LW_TRY(keep_best(l, err));
        l->first[i + 1] = l->n;
    }
    return LW_OK;
}

static enum lw_status search_forward(struct search *s, struct labels *l, struct lw_bucketing *out,
                                     lw_ps *end, struct lw_err *err)
{
    int32_t n = s->m->n, n_buckets = 0;

    LW_TRY(fill_labels(s, l, err));
    int64_t best = l->first[n];
    for (int64_t k = best; k < l->first[n + 1]; k++) {
        lw_ps now = l->at[k].reduce_end + l->at[k].gather_end;
        lw_ps then = l->at[best].reduce_end + l->at[best].gather_end;
        if (now < then || (now == then && l->at[k].begin > l->at[best].begin))
            best = k;
    }
    for (int32_t at = n; at > 0; best = l->at[best].before) {
        s->cuts[n_buckets++] = at;
        at = l->at[best].begin;
    }
    return emit(s->m, s->cuts, n_buckets, out, end, err);
}

static enum lw_status prepare(struct search *s, struct labels *l, struct lw_arena *work,
                              struct lw_err *err)
{
    int64_t n = s->m->n;

    LW_TAKE(work, s->bytes, n + 1, err);
    LW_TAKE(work, s->forward, n + 1, err);
    LW_TAKE(work, s->best, n + 1, err);
    LW_TAKE(work, s->from, n + 1, err);
    LW_TAKE(work, s->cuts, n, err);
    LW_TAKE(work, l->first, n + 2, err);
    for (int64_t i = 0; i < n; i++) {
        s->bytes[i + 1] = s->bytes[i] + s->m->bytes[i];
        s->forward[i + 1] = s->forward[i] + (s->m->forward ? s->m->forward[i] : 0);
    }
    return LW_OK;
}

enum lw_status lw_bucket_optimal(const struct lw_merge *m, struct lw_bucketing *out, lw_ps *end,
                                 struct lw_err *err)
{
    struct search s = {.m = m};
    struct labels l = {0};
    struct lw_arena work = {0};

    LW_TRY(check_input(m, err));
    if (m->n > LW_MERGE_MAX)
        return lw_fail(
            err, LW_ENOTSUP,
            "optimal buckets of %d gradients: the search is quadratic and taken up to %d "
            "(use mg-wfbp)",
            m->n, LW_MERGE_MAX);
    enum lw_status status = prepare(&s, &l, &work, err);

    if (status == LW_OK)
        status =
            m->forward ? search_forward(&s, &l, out, end, err) : search_backward(&s, out, end, err);
    lw_free(l.at);
    lw_free(l.found);
    lw_arena_free(&work);
    return status;
}
