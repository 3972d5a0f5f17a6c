/* Measures of a timeline: the one place where busy, exposed, idle and step times come from, for
 * predictions and measurements alike: exact interval arithmetic (intervals.c) on picoseconds.
 *
 * A step lasts from the earliest start to the latest end over all ranks. Steps before first_step are
 * warm-up. The measures of ranks are those of the measured step in the middle (the lower one of two).
 * Zero-length intervals have no effect. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/timeline/param_memory.h"
#include "shared/timeline/timeline.h"

static int compare_ps(lw_ps a, lw_ps b)
{
    return (a > b) - (a < b);
}

/* --- summary --- */

/* Rows of one timeline by step: step s holds rows first[s] .. first[s + 1] - 1. */
struct steps {
    int32_t n;
    int64_t *first;
    lw_ps *length;
};

static enum lw_status find_steps(const struct lw_timeline *t, struct lw_arena *a, struct steps *s,
                                 struct lw_err *err)
{
    int32_t n = t->n > 0 ? t->step[t->n - 1] + 1 : 0;

    for (int64_t i = 1; i < t->n; i++)
        if (t->step[i] < t->step[i - 1])
            return lw_fail(err, LW_EINVAL, "timeline: row %lld is not sorted by step",
                           (long long)i);
    s->n = n;
    s->first = lw_arena_alloc(a, (int64_t)n + 1, sizeof *s->first);
    s->length = lw_arena_alloc(a, n > 0 ? n : 1, sizeof *s->length);
    if (!s->first || !s->length)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < t->n; i++)
        s->first[t->step[i] + 1] = i + 1;
    for (int32_t k = 0; k < n; k++) {
        if (s->first[k + 1] == 0)
            return lw_fail(err, LW_EINVAL, "timeline: step %d has no op", k);
        lw_ps start = INT64_MAX, end = INT64_MIN;
        for (int64_t i = s->first[k]; i < s->first[k + 1]; i++) {
            start = t->start[i] < start ? t->start[i] : start;
            end = t->end[i] > end ? t->end[i] : end;
        }
        s->length[k] = end - start;
    }
    return LW_OK;
}

struct ranked_step {
    lw_ps length;
    int32_t step;
};

static int compare_steps(const void *pa, const void *pb)
{
    const struct ranked_step *a = pa, *b = pb;
    int c = compare_ps(a->length, b->length);

    return c ? c : (a->step > b->step) - (a->step < b->step);
}

/* Median of the measured steps, and the step in the middle. */
static enum lw_status find_median(const struct steps *s, int32_t first_step, struct lw_arena *a,
                                  lw_ps *median, int32_t *middle, struct lw_err *err)
{
    int32_t n = s->n - first_step;
    struct ranked_step *v = lw_arena_alloc(a, n, sizeof *v);

    if (!v)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < n; i++)
        v[i] = (struct ranked_step){s->length[first_step + i], first_step + i};
    qsort(v, (size_t)n, sizeof *v, compare_steps);
    *middle = v[(n - 1) / 2].step;
    *median = v[(n - 1) / 2].length + (v[n / 2].length - v[(n - 1) / 2].length) / 2;
    return LW_OK;
}

/* Intervals of one rank by class, in scratch that holds the rows of the rank. */
static int64_t collect(const struct lw_timeline *t, const int64_t *rows, int64_t n,
                       unsigned classes, struct lw_interval *v)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        if (classes >> lw_op_class((enum lw_op_kind)t->kind[rows[i]]) & 1)
            v[kept++] = (struct lw_interval){t->start[rows[i]], t->end[rows[i]]};
    return kept;
}

enum {
    COMPUTE = 1u << LW_CLASS_COMPUTE,
    COPY = 1u << LW_CLASS_COPY,
    COMM = 1u << LW_CLASS_COLLECTIVE | 1u << LW_CLASS_P2P,
};

static void measure_rank(const struct lw_timeline *t, const int64_t *rows, int64_t n,
                         struct lw_interval *a, struct lw_interval *b, struct lw_measure *m)
{
    for (int64_t i = 0; i < n; i++) {
        lw_ps start = t->start[rows[i]], end = t->end[rows[i]];
        m->start = i == 0 || start < m->start ? start : m->start;
        m->end = i == 0 || end > m->end ? end : m->end;
    }
    int64_t k = collect(t, rows, n, COMPUTE, a);
    m->compute_busy = lw_intervals_union(a, k, m->start, m->end);
    k = collect(t, rows, n, COPY, a);
    m->copy_busy = lw_intervals_union(a, k, m->start, m->end);
    k = collect(t, rows, n, COMM, a);
    m->comm_busy = lw_intervals_union(a, k, m->start, m->end);
    k = collect(t, rows, n, COMM, a);
    m->exposed_comm = lw_intervals_minus(a, k, b, collect(t, rows, n, COMPUTE | COPY, b), m->start,
                                         m->end);
    k = collect(t, rows, n, COMPUTE | COPY | COMM, a);
    m->idle = m->end - m->start - lw_intervals_union(a, k, m->start, m->end);
}

static enum lw_status measure_ranks(const struct lw_timeline *t, const struct steps *s,
                                    int32_t step, struct lw_arena *a, struct lw_summary *out,
                                    struct lw_err *err)
{
    int64_t from = s->first[step], n = s->first[step + 1] - from;
    int64_t *first = lw_arena_alloc(a, (int64_t)out->n_ranks + 1, sizeof *first);
    int64_t *rows = lw_arena_alloc(a, n, sizeof *rows);
    struct lw_interval *x = lw_arena_alloc(a, n, sizeof *x), *y = lw_arena_alloc(a, n, sizeof *y);

    if (!first || !rows || !x || !y)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < n; i++)
        first[t->rank[from + i] + 1]++;
    for (int32_t r = 0; r < out->n_ranks; r++)
        first[r + 1] += first[r];
    for (int64_t i = n - 1; i >= 0; i--) /* backwards, with the ends as cursors */
        rows[--first[t->rank[from + i] + 1]] = from + i;
    for (int32_t r = 0; r < out->n_ranks; r++) {
        int64_t begin = first[r + 1], end = r + 1 < out->n_ranks ? first[r + 2] : n;
        struct lw_measure *m = &out->ranks[r];
        *m = (struct lw_measure){.step = step, .rank = r, .peak_memory_bytes = -1};
        measure_rank(t, rows + begin, end - begin, x, y, m);
        if (m->end - m->start > out->ranks[out->worst].end - out->ranks[out->worst].start)
            out->worst = r;
    }
    return LW_OK;
}

/* --- memory --- */

/* Of every rank of the timeline, and the largest of the plan. */
static enum lw_status peak_memory(const struct lw_timeline *t, const struct lw_plan *plan,
                                  struct lw_arena *a, struct lw_summary *out, struct lw_err *err)
{
    int64_t *peak = lw_arena_alloc(a, plan->n_ranks, sizeof *peak);

    if (!peak)
        return lw_fail_nomem(err);
    LW_TRY(lw_memory_peaks(t, plan, peak, err));
    out->peak_memory_bytes = 0;
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        if (r < out->n_ranks)
            out->ranks[r].peak_memory_bytes = peak[r];
        if (peak[r] > out->peak_memory_bytes)
            out->peak_memory_bytes = peak[r];
    }
    return LW_OK;
}

static enum lw_status summarize(const struct lw_timeline *t, const struct lw_plan *plan,
                                int32_t first_step, struct lw_arena *a, struct lw_summary *out,
                                struct lw_err *err)
{
    struct steps s = {0};
    int32_t middle = 0;
    lw_ps compute = 0;

    LW_TRY(find_steps(t, a, &s, err));
    if (first_step < 0 || first_step >= s.n)
        return lw_fail(err, LW_EINVAL,
                       "timeline: %d steps, of which the first %d are warm-up: nothing to measure",
                       s.n, first_step);
    LW_TRY(find_median(&s, first_step, a, &out->step, &middle, err));
    for (int64_t i = 0; i < t->n; i++)
        out->n_ranks = t->rank[i] >= out->n_ranks ? t->rank[i] + 1 : out->n_ranks;
    out->n_steps = s.n - first_step;
    out->n_ops = t->n;
    out->peak_memory_bytes = -1;
    out->steps = lw_alloc((size_t)out->n_steps * sizeof *out->steps);
    out->ranks = lw_calloc((size_t)out->n_ranks, sizeof *out->ranks);
    if (!out->steps || !out->ranks)
        return lw_fail_nomem(err);
    memcpy(out->steps, s.length + first_step, (size_t)out->n_steps * sizeof *out->steps);
    LW_TRY(measure_ranks(t, &s, middle, a, out, err));
    for (int32_t r = 0; r < out->n_ranks; r++)
        compute += out->ranks[r].compute_busy;
    if (s.length[middle] > 0)
        out->bubble_ratio =
            1 - (double)compute / ((double)out->n_ranks * (double)s.length[middle]);
    return plan ? peak_memory(t, plan, a, out, err) : LW_OK;
}

enum lw_status lw_timeline_summarize(const struct lw_timeline *t, const struct lw_plan *plan,
                                     int32_t first_step, struct lw_summary *out,
                                     struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct lw_summary s = {0};
    enum lw_status status = summarize(t, plan, first_step, &scratch, &s, err);

    lw_arena_free(&scratch);
    if (status == LW_OK)
        *out = s;
    else
        lw_summary_free(&s);
    return status;
}

void lw_summary_free(struct lw_summary *s)
{
    lw_free(s->steps);
    lw_free(s->ranks);
    *s = (struct lw_summary){0};
}
