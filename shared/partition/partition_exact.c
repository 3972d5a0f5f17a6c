/* The exact partition: the smallest possible time of the slowest stage.
 *
 * The time of a stage that holds items [a, b) is prefix[b] - prefix[a] + x(a) + x(b), where x is
 * the transfer of the boundary (0 at both ends of the model). A bound B is feasible when n_stages
 * non-empty ranges of time <= B tile the items, respect the pins and fit in memory. Feasibility is
 * monotone in B, all values are whole numbers, so bisection finds the optimum exactly.
 *
 * Two probes:
 *   - without transfer and memory limit, each stage takes as many items as fit (binary search on
 *     the prefix sums): O(k log n) a probe. An exchange argument shows that a later cut is never
 *     worse (A. Pinar, C. Aykanat, "Fast optimal load balancing algorithms for 1D partitioning",
 *     JPDC 2004, section 3);
 *   - with a transfer a later cut can cost more, and with a limit that differs by stage an item can
 *     fit one stage and not the one before it. So the probe computes, from the last stage back, the
 *     set of places from where the remaining stages can cover the rest: place a works for stage s
 *     when some b in the next set has prefix[b] + x(b) <= B + prefix[a] - x(a) and fits in memory.
 *     The least left side among the b that fit is a sliding window's minimum: O(k n) a probe.
 * Both give the same partition where both apply; a test says so.
 *
 * Not modelled: recomputation choices, schedules whose in-flight count depends on the cuts. */
#include "shared/partition/partition.h"

#include <inttypes.h>
#include <string.h>

struct search {
    const struct lw_stage_problem *p;
    int32_t n, k, pin_first, pin_last; /* pins are at least 1: no stage is empty */
    bool simple;                       /* the fast probe applies */
    int64_t limit;                     /* of memory; INT64_MAX = none */
    int64_t *prefix, *fixed, *kept;    /* [n + 1] prefix sums of work, static and kept bytes */
    int32_t *window;                   /* [n + 1] */
    unsigned char *covers;             /* [(k + 1) * (n + 1)]: stages s.. can cover items a.. */
    int32_t *cuts;                     /* [k + 1]: the partition of the last successful probe */
};

static int64_t transfer_at(const struct lw_stage_problem *p, int32_t boundary)
{
    return p->transfer && boundary > 0 && boundary < p->n_items ? p->transfer[boundary - 1] : 0;
}

static int32_t in_flight(const struct lw_stage_problem *p, int32_t stage)
{
    return p->in_flight ? p->in_flight[stage] : 1;
}

static int64_t bytes_of(const struct search *s, int32_t stage, int32_t a, int32_t b)
{
    return s->p->beside_bytes + s->fixed[b] - s->fixed[a] +
           in_flight(s->p, stage) * (s->kept[b] - s->kept[a]);
}

/* Largest b with prefix[b] <= value, at least `low`. */
static int32_t furthest(const struct search *s, int32_t low, int32_t high, int64_t value)
{
    while (low < high) {
        int32_t mid = high - (high - low) / 2;
        if (s->prefix[mid] <= value)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static bool probe_simple(struct search *s, int64_t bound)
{
    int32_t at = 0;

    s->cuts[0] = 0;
    for (int32_t stage = 0; stage < s->k; stage++) {
        int32_t least = stage == 0 ? s->pin_first : at + 1;
        int32_t most = stage == s->k - 1 ? s->n : s->n - s->pin_last - (s->k - 2 - stage);
        if (stage == s->k - 1)
            least = s->n;
        if (s->prefix[least] - s->prefix[at] > bound)
            return false;
        at = s->cuts[stage + 1] = furthest(s, least, most, s->prefix[at] + bound);
    }
    return true;
}

/* One row of `covers`: the places from where `stage` can begin, given where the next may. */
static void cover_row(struct search *s, int32_t stage, int64_t bound)
{
    const unsigned char *next = s->covers + (int64_t)(stage + 1) * (s->n + 1);
    unsigned char *row = s->covers + (int64_t)stage * (s->n + 1);
    int32_t head = 0, tail = 0;

    memset(row, 0, (size_t)s->n + 1);
    for (int32_t a = s->n - 1; a >= 0; a--) {
        int64_t in = transfer_at(s->p, a), b = a + 1;
        if (next[b] && (stage > 0 || b >= s->pin_first)) {
            int64_t left = s->prefix[b] + transfer_at(s->p, (int32_t)b);
            while (tail > head &&
                   s->prefix[s->window[tail - 1]] + transfer_at(s->p, s->window[tail - 1]) >= left)
                tail--;
            s->window[tail++] = (int32_t)b;
        }
        while (tail > head && bytes_of(s, stage, a, s->window[head]) > s->limit)
            head++;
        if (stage == s->k - 1 && a > s->n - s->pin_last)
            continue;
        if (tail > head && s->prefix[s->window[head]] + transfer_at(s->p, s->window[head]) <=
                               bound + s->prefix[a] - in)
            row[a] = 1;
    }
}

/* The latest place where `stage`, which begins at a, can end. */
static int32_t latest_end(const struct search *s, int32_t stage, int32_t a, int64_t bound)
{
    const unsigned char *next = s->covers + (int64_t)(stage + 1) * (s->n + 1);
    int32_t b = s->n;

    while (!next[b] ||
           s->prefix[b] - s->prefix[a] + transfer_at(s->p, a) + transfer_at(s->p, b) > bound ||
           bytes_of(s, stage, a, b) > s->limit)
        b--;
    return b;
}

static bool probe_general(struct search *s, int64_t bound)
{
    unsigned char *last = s->covers + (int64_t)s->k * (s->n + 1);

    memset(last, 0, (size_t)s->n + 1);
    last[s->n] = 1;
    for (int32_t stage = s->k - 1; stage >= 0; stage--)
        cover_row(s, stage, bound);
    if (!s->covers[0])
        return false;
    s->cuts[0] = 0;
    for (int32_t stage = 0; stage < s->k; stage++)
        s->cuts[stage + 1] = latest_end(s, stage, s->cuts[stage], bound);
    return true;
}

static bool probe(struct search *s, int64_t bound)
{
    return s->simple ? probe_simple(s, bound) : probe_general(s, bound);
}

static enum lw_status check_problem(const struct lw_stage_problem *p, struct lw_err *err)
{
    int64_t first = p->pinned_first > 1 ? p->pinned_first : 1;
    int64_t last = p->pinned_last > 1 ? p->pinned_last : 1;

    if (p->n_stages < 1 || p->n_stages > p->n_items)
        return lw_fail(err, LW_EINVAL,
                       "%d stages for %d items, allowed: 1 to %d (no stage may be empty)",
                       p->n_stages, p->n_items, p->n_items);
    if (p->pinned_first < 0 || p->pinned_last < 0)
        return lw_fail(err, LW_EINVAL, "pinned items %d and %d, allowed: 0 or more",
                       p->pinned_first, p->pinned_last);
    if (p->n_stages > 1 ? first + last + p->n_stages - 2 > p->n_items
                        : first > p->n_items || last > p->n_items)
        return lw_fail(err, LW_EINVAL,
                       "%d items pinned to the first and %d to the last of %d stages leave no item "
                       "for a stage between them (%d items)",
                       p->pinned_first, p->pinned_last, p->n_stages, p->n_items);
    if (p->limit_bytes < 0)
        return lw_fail(err, LW_EINVAL, "memory limit %" PRId64 " bytes, allowed: 0 (none) or more",
                       p->limit_bytes);
    if (p->beside_bytes < 0 || p->beside_bytes > INT64_MAX / 4)
        return lw_fail(err, LW_EINVAL, "a stage holds %" PRId64 " bytes beside its items, allowed: "
                                       "0 to 2^61", p->beside_bytes);
    return LW_OK;
}

static enum lw_status sum_column(const int64_t *v, int32_t n, int64_t *prefix, const char *what,
                                 struct lw_err *err)
{
    for (int32_t i = 0; i < n && v; i++) {
        if (v[i] < 0)
            return lw_fail(err, LW_EINVAL, "%s of item %d is %" PRId64 ", allowed: 0 or more", what,
                           i, v[i]);
        if (__builtin_add_overflow(prefix[i], v[i], &prefix[i + 1]) ||
            prefix[i + 1] > INT64_MAX / 4)
            return lw_fail(err, LW_EINVAL, "%s of items 0 to %d sums to more than 2^61", what, i);
    }
    return LW_OK;
}

/* Prefix sums, and the largest bound that can matter. */
static enum lw_status sum_up(struct search *s, int64_t *highest, struct lw_err *err)
{
    const struct lw_stage_problem *p = s->p;
    int64_t transfer_max = 0, most;

    LW_TRY(sum_column(p->work, s->n, s->prefix, "work", err));
    for (int32_t i = 0; i + 1 < s->n && p->transfer; i++) {
        if (p->transfer[i] < 0 || p->transfer[i] > INT64_MAX / 8)
            return lw_fail(err, LW_EINVAL,
                           "transfer after item %d is %" PRId64 ", allowed: 0 to 2^60", i,
                           p->transfer[i]);
        transfer_max = p->transfer[i] > transfer_max ? p->transfer[i] : transfer_max;
    }
    *highest = s->prefix[s->n] + 2 * transfer_max;
    if (p->limit_bytes == 0)
        return LW_OK;
    LW_TRY(sum_column(p->static_bytes, s->n, s->fixed, "static bytes", err));
    LW_TRY(sum_column(p->kept_bytes, s->n, s->kept, "kept bytes", err));
    for (int32_t stage = 0; stage < s->k; stage++)
        if (in_flight(p, stage) < 0 ||
            __builtin_mul_overflow(s->kept[s->n], in_flight(p, stage), &most) ||
            most > INT64_MAX / 4)
            return lw_fail(err, LW_EINVAL,
                           "stage %d keeps %d micro-batches, allowed: 0 or more, within 2^61 bytes",
                           stage, in_flight(p, stage));
    return LW_OK;
}

static int64_t bisect(struct search *s, int64_t low, int64_t high)
{
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (probe(s, mid))
            high = mid;
        else
            low = mid + 1;
    }
    return high;
}

/* The least memory limit with which a partition exists at all. */
static int64_t least_limit(struct search *s, int64_t highest)
{
    int64_t low = s->limit + 1, high = INT64_MAX / 2;

    while (low < high) {
        s->limit = low + (high - low) / 2;
        if (probe(s, highest))
            high = s->limit;
        else
            low = s->limit + 1;
    }
    return high;
}

static enum lw_status solve(struct search *s, struct lw_partitioning *out, int64_t *bottleneck,
                            struct lw_err *err)
{
    int64_t highest = 0, low = 0;

    LW_TRY(sum_up(s, &highest, err));
    if (!probe(s, highest)) {
        int64_t given = s->limit;
        return lw_fail(err, LW_EINVAL,
                       "no partition of %d items into %d stages fits in %" PRId64
                       " bytes per stage; the least that does is %" PRId64 " bytes",
                       s->n, s->k, given, least_limit(s, highest));
    }
    for (int32_t i = 0; i < s->n; i++)
        low = s->p->work[i] > low ? s->p->work[i] : low;
    int64_t mean = s->prefix[s->n] / s->k + (s->prefix[s->n] % s->k != 0);
    int64_t best = bisect(s, low > mean ? low : mean, highest);

    probe(s, best);
    for (int32_t stage = 0; stage < s->k; stage++)
        out->parts[stage] = (struct lw_range){s->cuts[stage], s->cuts[stage + 1]};
    if (bottleneck)
        *bottleneck = best;
    return LW_OK;
}

static enum lw_status prepare(struct search *s, struct lw_arena *work, struct lw_err *err)
{
    int64_t n = s->n, k = s->k;

    s->prefix = lw_arena_alloc(work, n + 1, sizeof *s->prefix);
    s->fixed = lw_arena_alloc(work, n + 1, sizeof *s->fixed);
    s->kept = lw_arena_alloc(work, n + 1, sizeof *s->kept);
    s->window = lw_arena_alloc(work, n + 1, sizeof *s->window);
    s->cuts = lw_arena_alloc(work, k + 1, sizeof *s->cuts);
    s->covers = lw_arena_alloc(work, s->simple ? 1 : (k + 1) * (n + 1), 1);
    if (!s->prefix || !s->fixed || !s->kept || !s->window || !s->cuts || !s->covers)
        return lw_fail_nomem(err);
    return LW_OK;
}

enum lw_status lw_partition_exact(const struct lw_stage_problem *p, struct lw_partitioning *out,
                                  int64_t *bottleneck, struct lw_err *err)
{
    struct search s = {.p = p, .n = p->n_items, .k = p->n_stages};
    struct lw_arena work = {0};
    struct lw_partitioning result = {0};

    LW_TRY(check_problem(p, err));
    s.pin_first = p->pinned_first > 1 ? p->pinned_first : 1;
    s.pin_last = p->pinned_last > 1 ? p->pinned_last : 1;
    s.simple = !p->transfer && p->limit_bytes == 0;
    s.limit = p->limit_bytes > 0 ? p->limit_bytes : INT64_MAX;
    LW_TRY(lw_partition_alloc(s.n, s.k, 1, &result, err));
    enum lw_status status = prepare(&s, &work, err);

    if (status == LW_OK)
        status = solve(&s, &result, bottleneck, err);
    lw_arena_free(&work);
    LW_GIVE(status, out, result, lw_partition_free(&result));
}
