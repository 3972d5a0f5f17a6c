/* Measures of a timeline: the one place where busy, exposed, idle and step times come from, for
 * predictions and measurements alike, exact on picoseconds.
 *
 * A step is the period between the latest ends of two steps (timeline.h), because ranks of a
 * pipeline enter the next step while others are still in this one: spans count that time twice.
 * Steps before first_step are warm-up. The measures of ranks are those of the measured step in the
 * middle (the lower one of two); what a rank does in its period: rank_period.c. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/timeline/param_memory.h"
#include "shared/timeline/rank_period.h"
#include "shared/timeline/timeline.h"

/* --- summary --- */

/* Rows of one timeline by step: step s holds rows first[s] .. first[s + 1] - 1. */
struct steps {
    int32_t n;
    int64_t *first;
    lw_ps begin;           /* of the run */
    lw_ps *length, *span;
};

static void measure_steps(const struct lw_timeline *t, struct steps *s)
{
    lw_ps before = INT64_MAX, *end = s->length;

    for (int32_t k = 0; k < s->n; k++) {
        lw_ps start = INT64_MAX;
        end[k] = INT64_MIN;
        for (int64_t i = s->first[k]; i < s->first[k + 1]; i++) {
            const struct lw_times at = lw_timeline_times(t, i);
            start = at.start < start ? at.start : start;
            end[k] = at.end > end[k] ? at.end : end[k];
        }
        s->span[k] = end[k] - start;
        before = start < before ? start : before;
    }
    s->begin = before;
    for (int32_t k = 0; k < s->n; k++) {
        lw_ps latest = end[k] > before ? end[k] : before;
        s->length[k] = latest - before;
        before = latest;
    }
}

static enum lw_status find_steps(const struct lw_timeline *t, struct lw_arena *a, struct steps *s,
                                 struct lw_err *err)
{
    int32_t last = -1;

    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        if (i > 0 && run.step < last)
            return lw_fail(err, LW_EINVAL, "timeline: row %lld is not sorted by step",
                           (long long)i);
        last = run.step;
        i = run.to;
    }
    if (last >= t->n)
        return lw_fail(err, LW_EINVAL, "timeline: step %d, with %lld ops in all: a step has no op",
                       last, (long long)t->n);
    int32_t n = s->n = last + 1;
    LW_TAKE(a, s->first, (int64_t)n + 1, err);
    LW_TAKE(a, s->length, n > 0 ? n : 1, err);
    LW_TAKE(a, s->span, n > 0 ? n : 1, err);
    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        i = s->first[run.step + 1] = run.to;
    }
    for (int32_t k = 0; k < n; k++)
        if (s->first[k + 1] == 0)
            return lw_fail(err, LW_EINVAL, "timeline: step %d has no op", k);
    measure_steps(t, s);
    return LW_OK;
}

struct ranked_step {
    lw_ps length;
    int32_t step;
};

LW_COMPARATOR(compare_steps, struct ranked_step, a->length, b->length, a->step, b->step)

/* Median of the measured steps, and the step in the middle. */
static enum lw_status find_median(const struct steps *s, int32_t first_step, struct lw_arena *a,
                                  lw_ps *median, int32_t *middle, struct lw_err *err)
{
    int32_t n = s->n - first_step;
    struct ranked_step *v;

    LW_TAKE(a, v, n, err);
    for (int32_t i = 0; i < n; i++)
        v[i] = (struct ranked_step){s->length[first_step + i], first_step + i};
    lw_sort(v, n, compare_steps);
    *middle = v[(n - 1) / 2].step;
    *median = v[(n - 1) / 2].length + (v[n / 2].length - v[(n - 1) / 2].length) / 2;
    return LW_OK;
}

/* Each rank's period: from the latest end of its earlier steps to that of this one. */
static void find_periods(const struct lw_timeline *t, const struct steps *s, int32_t step,
                         struct lw_summary *out)
{
    for (int32_t r = 0; r < out->n_ranks; r++)
        out->ranks[r] = (struct lw_measure){.step = step, .rank = r, .start = s->begin,
                                            .end = s->begin, .peak_memory_bytes = -1};
    for (int64_t i = 0; i < s->first[step + 1];) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        struct lw_measure *m = &out->ranks[run.rank];
        for (; i < run.to; i++) {
            lw_ps end = lw_timeline_times(t, i).end;
            m->end = end > m->end ? end : m->end;
        }
        if (run.step < step)
            m->start = m->end;
    }
}

/* The rows that run in the periods of their ranks, whichever step they belong to: their number is
 * added to n[rank], or they are listed from rows[n[rank]] on. */
static void list_touching(const struct lw_timeline *t, const struct lw_summary *s, int64_t *n,
                          int64_t *rows)
{
    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        const struct lw_measure *m = &s->ranks[run.rank];
        for (; i < run.to; i++) {
            const struct lw_times at = lw_timeline_times(t, i);
            if (at.end <= m->start || at.start >= m->end)
                continue;
            if (rows)
                rows[n[run.rank]] = i;
            n[run.rank]++;
        }
    }
}

static enum lw_status measure_ranks(const struct lw_timeline *t, const struct lw_plan *plan,
                                    const struct steps *s, int32_t step, struct lw_arena *a,
                                    struct lw_summary *out, struct lw_err *err)
{
    int64_t largest = 0, *first;

    LW_TAKE(a, first, (int64_t)out->n_ranks + 2, err);
    find_periods(t, s, step, out);
    list_touching(t, out, first + 2, NULL);
    for (int32_t r = 0; r < out->n_ranks; r++) {
        largest = first[r + 2] > largest ? first[r + 2] : largest;
        first[r + 2] += first[r + 1];
    }
    int64_t *rows = lw_arena_alloc(a, first[out->n_ranks + 1], sizeof *rows);
    struct lw_period_edge *edges = lw_arena_alloc(a, 4 * largest, lw_period_edge_size());
    if (!rows || !edges)
        return lw_fail_nomem(err);
    list_touching(t, out, first + 1, rows); /* the ends of ranks before are the cursors */
    for (int32_t r = 0; r < out->n_ranks; r++) {
        struct lw_measure *m = &out->ranks[r], *worst = &out->ranks[out->worst];
        lw_period_measure(t, plan, rows + first[r], first[r + 1] - first[r], edges, m);
        if (m->end - m->start > worst->end - worst->start)
            out->worst = r;
    }
    return LW_OK;
}

void lw_summary_shares(struct lw_summary *s)
{
    double all = 0, waiting = 0, computing = 0;

    for (int32_t r = 0, end; r < s->n_ranks; r = end) {
        const struct lw_measure *m = &s->ranks[lw_alike_class(&s->alike, r)];
        end = lw_alike_end(&s->alike, r, s->n_ranks);
        all += (double)(end - r) * (double)(m->end - m->start);
        waiting += (double)(end - r) * (double)m->wait[LW_WAIT_PIPELINE];
        computing += (double)(end - r) * (double)m->compute_busy;
    }
    s->bubble_ratio = all > 0 ? waiting / all : 0;
    s->compute_share = all > 0 ? computing / all : 0;
}

/* --- memory --- */

void lw_summary_forget_memory(struct lw_summary *s)
{
    s->peak_memory_bytes = -1;
    s->memory = (struct lw_memory_peak){.rank = -1};
    for (int32_t r = 0; r < s->n_ranks; r++)
        s->ranks[lw_alike_class(&s->alike, r)].peak_memory_bytes = -1;
}

/* A plan in which nothing is held beside messages is of no model: a drawn schedule, a recording. */
static bool says_nothing(const struct lw_memory_peak *m)
{
    return m->total == m->bytes[LW_MEMORY_MESSAGES];
}

/* Of every rank of the timeline, and the largest of the plan. */
static enum lw_status peak_memory(const struct lw_timeline *t, const struct lw_plan *plan,
                                  struct lw_arena *a, struct lw_summary *out, struct lw_err *err)
{
    int64_t *peak;

    LW_TAKE(a, peak, plan->n_ranks, err);
    LW_TRY(lw_memory_peaks(t, plan, peak, &out->memory, err));
    out->peak_memory_bytes = out->memory.total;
    for (int32_t r = 0; r < plan->n_ranks && r < out->n_ranks; r++)
        out->ranks[r].peak_memory_bytes = peak[r];
    if (says_nothing(&out->memory))
        lw_summary_forget_memory(out);
    return LW_OK;
}

static enum lw_status summarize(const struct lw_timeline *t, const struct lw_plan *plan,
                                int32_t first_step, struct lw_arena *a,
                                struct lw_summary *out, struct lw_err *err)
{
    struct steps s = {0};
    int32_t middle = 0;

    LW_TRY(find_steps(t, a, &s, err));
    if (first_step < 0 || first_step >= s.n)
        return lw_fail(err, LW_EINVAL,
                       "timeline: %d steps, of which the first %d are warm-up: nothing to measure",
                       s.n, first_step);
    LW_TRY(find_median(&s, first_step, a, &out->step, &middle, err));
    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        out->n_ranks = run.rank >= out->n_ranks ? run.rank + 1 : out->n_ranks;
        i = run.to;
    }
    out->n_steps = s.n - first_step;
    out->n_ops = t->n;
    out->peak_memory_bytes = -1;
    out->memory.rank = -1;
    out->steps = lw_alloc((size_t)out->n_steps * sizeof *out->steps);
    out->ranks = lw_calloc((size_t)out->n_ranks, sizeof *out->ranks);
    if (!out->steps || !out->ranks)
        return lw_fail_nomem(err);
    memcpy(out->steps, s.length + first_step, (size_t)out->n_steps * sizeof *out->steps);
    out->shown = s.length[middle];
    out->span = s.span[middle];
    LW_TRY(measure_ranks(t, plan, &s, middle, a, out, err));
    lw_summary_shares(out);
    return LW_OK;
}

static enum lw_status make_summary(const struct lw_timeline *t, const struct lw_plan *plan,
                                   bool memory, int32_t first_step, struct lw_summary *out,
                                   struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct lw_summary s = {0};
    enum lw_status status = summarize(t, plan, first_step, &scratch, &s, err);

    lw_arena_free(&scratch); /* before memory is measured, which takes as much again */
    if (status == LW_OK && plan && memory)
        status = peak_memory(t, plan, &scratch, &s, err);
    lw_arena_free(&scratch);
    if (status == LW_OK)
        *out = s;
    else
        lw_summary_free(&s);
    return status;
}

enum lw_status lw_timeline_summarize(const struct lw_timeline *t, const struct lw_plan *plan,
                                     int32_t first_step, struct lw_summary *out,
                                     struct lw_err *err)
{
    return make_summary(t, plan, true, first_step, out, err);
}

enum lw_status lw_timeline_measure(const struct lw_timeline *t, const struct lw_plan *plan,
                                   int32_t first_step, struct lw_summary *out, struct lw_err *err)
{
    return make_summary(t, plan, false, first_step, out, err);
}

void lw_summary_free(struct lw_summary *s)
{
    lw_free(s->steps);
    lw_free(s->ranks);
    lw_free(s->alike.of);
    *s = (struct lw_summary){0};
}
