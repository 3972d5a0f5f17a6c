/* Branch and bound over where the last bucket begins. The j before i lie under a tree of ranges
 * that each know the least best[j] in them; a range is looked at only if a bound on what its
 * buckets end at is below the best end found. Ranges are taken from the right, and an end counts if
 * it is less than the best, so of equally good j the largest is found.
 *
 * Two bounds hold for j in [a, b], whose buckets are of lo = sums[i] - sums[b] to hi = sums[i] -
 * sums[a] bytes:
 *   max(least best[j], ready) + least cost of lo to hi
 *   least (best[j] - slope sums[j]) + slope sums[i] + least (cost(x) - slope x) of lo to hi
 * The first cuts off what is far beyond the time at which the channel is free, the second compares
 * ways to cut a busy channel: with the slope of a linear cost it tells them apart by start-ups.
 *
 * The least cost of a range comes from samples: sizes whose cost was asked before the search. A
 * size between two samples is taken to cost no less than the lesser of them. Every cost that the
 * search asks is held against that; sizes that cost less become samples, and the search begins
 * again. So a cost may fall. Where this does not come to an end, every j is tried.
 *
 * Each size is asked once. Not modelled: falls of a cost between samples that no bucket which was
 * looked at meets. */
#include "shared/bucket/bucket_search.h"

#include <inttypes.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/larger.h"
#include "shared/numbers/order.h"

enum { FIRST_SAMPLES = 61440, MOST_SAMPLES = 65536, MOST_MISSED = 2048, MOST_LEVELS = 17 };
enum { SLOPE_BITS = 20, ROUNDING = 2 };

struct known { /* cost of a size */
    int64_t bytes; /* -1: empty place of the hash table */
    lw_ps time;
};

/* What all sizes of a range take at least. */
struct least {
    lw_ps time, beyond; /* beyond: time - slope * bytes */
};

struct bounds {
    const struct lw_merge *m;
    const int64_t *sums;
    lw_ps *best;
    int32_t *from;

    struct known *known;
    int64_t n_known, n_places; /* n_places: a power of two */

    struct known *samples; /* ascending */
    int32_t n_samples;
    int64_t slope;          /* ps for 2^SLOPE_BITS bytes, >= 0 */
    struct least *least[MOST_LEVELS]; /* [k][i]: from sample i to sample i + 2^k */
    int64_t *missed;        /* [MOST_MISSED]: sizes that cost less than their neighbours say */
    int32_t n_missed;

    int32_t n_leaves;              /* a power of two */
    lw_ps *least_best, *least_rest; /* [2 * n_leaves], a heap; rest: best - slope * sums */
};

enum lw_status lw_bucket_ask(const struct lw_merge *m, enum lw_op_kind op, int64_t bytes,
                             lw_ps *time, struct lw_err *err)
{
    struct lw_cost_query q = m->query;

    q.op = op;
    q.bytes = bytes;
    *time = m->cost->time(m->cost->ctx, &q);
    if (*time < 0 || *time > LW_MERGE_TIME_MAX)
        return lw_fail(err, LW_EINVAL,
                       "the cost of %" PRId64 " bytes is %" PRId64 ", allowed: 0 to 2^60", bytes,
                       *time);
    return LW_OK;
}

/* --- sizes that were asked --- */

static struct known *place_of(struct known *table, int64_t n_places, int64_t bytes)
{
    uint64_t mask = (uint64_t)n_places - 1;
    uint64_t at = ((uint64_t)bytes * UINT64_C(0x9e3779b97f4a7c15) >> 20) & mask;

    while (table[at].bytes >= 0 && table[at].bytes != bytes)
        at = (at + 1) & mask;
    return &table[at];
}

static enum lw_status grow_known(struct bounds *b, struct lw_err *err)
{
    int64_t n = b->n_places > 0 ? 2 * b->n_places : 1 << 16;
    struct known *table = lw_alloc((size_t)n * sizeof *table);

    if (!table)
        return lw_fail_nomem(err);
    memset(table, 0xff, (size_t)n * sizeof *table);
    for (int64_t i = 0; i < b->n_places; i++)
        if (b->known[i].bytes >= 0)
            *place_of(table, n, b->known[i].bytes) = b->known[i];
    lw_free(b->known);
    b->known = table;
    b->n_places = n;
    return LW_OK;
}

static lw_ps by_slope(const struct bounds *b, int64_t bytes)
{
    return (lw_ps)((__int128)b->slope * bytes >> SLOPE_BITS);
}

/* The last sample from low to high - 1 of at most so many bytes; low if there is none. */
static int32_t sample_before(const struct bounds *b, int64_t bytes, int32_t low, int32_t high)
{
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (b->samples[middle].bytes <= bytes)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A cost that the samples beside it do not bound. */
static void hold_against_samples(struct bounds *b, int64_t bytes, lw_ps time)
{
    int32_t i = sample_before(b, bytes, 0, b->n_samples), k = i + 1 < b->n_samples ? i + 1 : i;
    const struct known *x = &b->samples[i], *y = &b->samples[k];

    if (time < x->time && time < y->time && b->n_missed < MOST_MISSED)
        b->missed[b->n_missed++] = bytes;
}

static enum lw_status cost_of(struct bounds *b, int64_t bytes, lw_ps *time, struct lw_err *err)
{
    if (2 * (b->n_known + 1) > b->n_places)
        LW_TRY(grow_known(b, err));
    struct known *x = place_of(b->known, b->n_places, bytes);
    if (x->bytes < 0) {
        LW_TRY(lw_bucket_ask(b->m, b->m->query.op, bytes, &x->time, err));
        x->bytes = bytes;
        b->n_known++;
        if (b->n_samples > 0)
            hold_against_samples(b, bytes, x->time);
    }
    *time = x->time;
    return LW_OK;
}

/* --- samples --- */

LW_COMPARATOR(compare_sizes, int64_t, *a, *b)

static int32_t sort_sizes(int64_t *sizes, int32_t n)
{
    int32_t kept = 0;

    lw_sort(sizes, n, compare_sizes);
    for (int32_t i = 0; i < n; i++)
        if (kept == 0 || sizes[i] != sizes[kept - 1])
            sizes[kept++] = sizes[i];
    return kept;
}

/* 0 where it is not known, or so steep that products with bytes may not be times. */
static int64_t slope_of(const struct known *half, const struct known *last)
{
    if (last->bytes <= half->bytes || last->time <= half->time)
        return 0;
    __int128 slope = ((__int128)(last->time - half->time) << SLOPE_BITS) /
                     (last->bytes - half->bytes);
    if (slope > INT64_MAX || slope * last->bytes >> SLOPE_BITS > LW_MERGE_TIME_MAX)
        return 0;
    return (int64_t)slope;
}

/* The samples of these sizes, and the least from each to the next, and of 2^k such ranges. Between
 * two samples a size takes no less than the lesser of both, and is below the larger. */
static enum lw_status take_samples(struct bounds *b, const int64_t *sizes, int32_t n,
                                   struct lw_err *err)
{
    b->n_samples = 0; /* nothing is held against them */
    for (int32_t i = 0; i < n; i++) {
        lw_ps time;
        LW_TRY(cost_of(b, sizes[i], &time, err));
        b->samples[i] = (struct known){sizes[i], time};
    }
    const struct known *last = &b->samples[n - 1], *half = &b->samples[n / 2];
    b->slope = slope_of(half, last);
    for (int32_t i = 0; i < n; i++) {
        const struct known *next = &b->samples[i + 1 < n ? i + 1 : i];
        lw_ps time = b->samples[i].time < next->time ? b->samples[i].time : next->time;
        b->least[0][i] = (struct least){time, time - by_slope(b, next->bytes)};
    }
    b->n_samples = n;
    for (int k = 1; k < MOST_LEVELS && 1 << k <= n; k++) {
        for (int32_t i = 0; i + (1 << k) <= n; i++) {
            struct least *x = &b->least[k][i];
            const struct least *p = &b->least[k - 1][i], *q = p + (1 << (k - 1));
            x->time = p->time < q->time ? p->time : q->time;
            x->beyond = p->beyond < q->beyond ? p->beyond : q->beyond;
        }
    }
    return LW_OK;
}

/* Of whole prefixes and of single gradients, thinned. */
static enum lw_status first_samples(struct bounds *b, struct lw_arena *room, struct lw_err *err)
{
    int32_t n = b->m->n, n_sizes, kept = 0;
    int64_t *sizes;

    LW_TAKE(room, sizes, 2 * (int64_t)n, err);
    memcpy(sizes, b->sums + 1, (size_t)n * sizeof *sizes);
    memcpy(sizes + n, b->m->bytes, (size_t)n * sizeof *sizes);
    n_sizes = sort_sizes(sizes, 2 * n);
    for (int32_t i = 0; i < n_sizes; i++) {
        int64_t of = (int64_t)i * FIRST_SAMPLES / n_sizes;
        bool first = i == 0 || (int64_t)(i - 1) * FIRST_SAMPLES / n_sizes != of;
        if (first || i == n_sizes - 1)
            sizes[kept++] = sizes[i];
    }
    return take_samples(b, sizes, kept, err);
}

static enum lw_status more_samples(struct bounds *b, struct lw_arena *room, struct lw_err *err)
{
    int64_t *sizes;

    LW_TAKE(room, sizes, b->n_samples + b->n_missed, err);
    for (int32_t i = 0; i < b->n_samples; i++)
        sizes[i] = b->samples[i].bytes;
    memcpy(sizes + b->n_samples, b->missed, (size_t)b->n_missed * sizeof *sizes);
    return take_samples(b, sizes, sort_sizes(sizes, b->n_samples + b->n_missed), err);
}

/* What all sizes from sample `first` to the one after `last` take at least. */
static struct least least_of(const struct bounds *b, int32_t first, int32_t last)
{
    int level = 31 - __builtin_clz((unsigned)(last - first + 1));
    const struct least *p = &b->least[level][first], *q = &b->least[level][last + 1 - (1 << level)];

    return (struct least){p->time < q->time ? p->time : q->time,
                          (p->beyond < q->beyond ? p->beyond : q->beyond) - ROUNDING};
}

/* --- the search --- */

static void set_best(struct bounds *b, int32_t j)
{
    int32_t k = b->n_leaves + j;

    b->least_best[k] = b->best[j];
    b->least_rest[k] = b->best[j] - by_slope(b, b->sums[j]);
    for (k /= 2; k > 0; k /= 2) {
        lw_ps *x = &b->least_best[2 * k], *y = &b->least_rest[2 * k];
        b->least_best[k] = x[0] < x[1] ? x[0] : x[1];
        b->least_rest[k] = y[0] < y[1] ? y[0] : y[1];
    }
}

/* A range of the tree: a node and its width; the samples that are before its sizes. */
struct range {
    int32_t node, first, width, sample_first, sample_last;
};

static lw_ps bound_of(const struct bounds *b, int32_t i, struct range *x)
{
    int32_t last = x->first + x->width - 1 < i ? x->first + x->width - 1 : i - 1;
    int64_t lo = b->sums[i] - b->sums[last], hi = b->sums[i] - b->sums[x->first];

    x->sample_first = sample_before(b, lo, x->sample_first, x->sample_last + 1);
    x->sample_last = sample_before(b, hi, x->sample_first, x->sample_last + 1);
    struct least least = least_of(b, x->sample_first, x->sample_last);
    lw_ps free = lw_larger(b->least_best[x->node], b->m->ready[i - 1]) + least.time;
    lw_ps busy = b->least_rest[x->node] + by_slope(b, b->sums[i]) + least.beyond - 1;
    return lw_larger(free, busy);
}

static enum lw_status end_from(struct bounds *b, int32_t i, int32_t j, lw_ps *end,
                               struct lw_err *err)
{
    lw_ps time;

    LW_TRY(cost_of(b, b->sums[i] - b->sums[j], &time, err));
    *end = lw_larger(b->best[j], b->m->ready[i - 1]) + time;
    return LW_OK;
}

static enum lw_status try_one(struct bounds *b, int32_t i, int32_t j, lw_ps *least,
                              struct lw_err *err)
{
    lw_ps end;

    LW_TRY(end_from(b, i, j, &end, err));
    if (end < *least) {
        *least = end;
        b->from[i] = j;
    }
    return LW_OK;
}

/* Below *least, from the right. */
static enum lw_status descend(struct bounds *b, int32_t i, lw_ps *least, struct lw_err *err)
{
    struct range stack[64];
    int n = 0;

    stack[n++] = (struct range){1, 0, b->n_leaves, 0, b->n_samples - 1};
    while (n > 0) {
        struct range x = stack[--n];
        if (x.first >= i || bound_of(b, i, &x) >= *least)
            continue;
        if (x.width == 1) {
            LW_TRY(try_one(b, i, x.first, least, err));
            continue;
        }
        int32_t half = x.width / 2;
        stack[n++] = (struct range){2 * x.node, x.first, half, x.sample_first, x.sample_last};
        stack[n++] = (struct range){2 * x.node + 1, x.first + half, half, x.sample_first,
                                    x.sample_last};
    }
    return LW_OK;
}

/* One more than what some bucket ends at: the end that the bucket before would have, longer or
 * not. */
static enum lw_status guess(struct bounds *b, int32_t i, lw_ps *least, struct lw_err *err)
{
    lw_ps short_one, long_one;

    LW_TRY(end_from(b, i, i - 1, &short_one, err));
    LW_TRY(end_from(b, i, i > 1 ? b->from[i - 1] : 0, &long_one, err));
    *least = (short_one < long_one ? short_one : long_one) + 1;
    return LW_OK;
}

static enum lw_status search(struct bounds *b, bool every, struct lw_err *err)
{
    for (int32_t k = 0; k < 2 * b->n_leaves; k++)
        b->least_best[k] = b->least_rest[k] = INT64_MAX / 2;
    b->best[0] = 0;
    set_best(b, 0);
    for (int32_t i = 1; i <= b->m->n && (every || b->n_missed < MOST_MISSED); i++) {
        lw_ps least;
        LW_TRY(guess(b, i, &least, err));
        if (!every)
            LW_TRY(descend(b, i, &least, err));
        for (int32_t j = i - 1; every && j >= 0; j--)
            LW_TRY(try_one(b, i, j, &least, err));
        if (least > LW_MERGE_TIME_MAX)
            return lw_fail(err, LW_EINVAL,
                           "the buckets end after 2^60, time is counted below that");
        b->best[i] = least;
        set_best(b, i);
    }
    return LW_OK;
}

static enum lw_status run(struct bounds *b, struct lw_arena *room, struct lw_err *err)
{
    LW_TAKE(room, b->samples, MOST_SAMPLES, err);
    LW_TAKE(room, b->missed, MOST_MISSED, err);
    for (int k = 0; k < MOST_LEVELS; k++)
        LW_TAKE(room, b->least[k], MOST_SAMPLES, err);
    for (b->n_leaves = 1; b->n_leaves <= b->m->n;)
        b->n_leaves *= 2;
    LW_TAKE(room, b->least_best, 2 * (int64_t)b->n_leaves, err);
    LW_TAKE(room, b->least_rest, 2 * (int64_t)b->n_leaves, err);
    LW_TRY(first_samples(b, room, err));
    LW_TRY(search(b, false, err));
    while (b->n_missed > 0 && b->n_samples + b->n_missed <= MOST_SAMPLES) {
        LW_TRY(more_samples(b, room, err));
        b->n_missed = 0;
        LW_TRY(search(b, false, err));
    }
    return b->n_missed > 0 ? search(b, true, err) : LW_OK;
}

enum lw_status lw_bucket_search(const struct lw_merge *m, const int64_t *sums, lw_ps *best,
                                int32_t *from, struct lw_err *err)
{
    struct bounds b = {.m = m, .sums = sums, .best = best, .from = from};
    struct lw_arena room = {0};

    enum lw_status status = run(&b, &room, err);
    lw_arena_free(&room);
    lw_free(b.known);
    return status;
}
