/* Steps of a replay: where they end, which rows are theirs (replay_steps.h). */
#include "traces/replay/replay_steps.h"

enum traces_replay_basis traces_replay_basis(const struct traces_replay *r)
{
    if (!r->has_device)
        return TRACES_HOST_PERIOD;
    return r->n_steps > 1 ? TRACES_DEVICE_PERIOD : TRACES_DEVICE_SPAN;
}

const char *traces_replay_basis_name(enum traces_replay_basis b)
{
    static const char *const names[] = {"device_period", "device_span", "host_period"};

    return names[b];
}

int32_t traces_replay_first(const struct traces_replay *r)
{
    return traces_replay_basis(r) == TRACES_DEVICE_PERIOD;
}

static bool is_device(enum lw_op_kind kind)
{
    return lw_op_class(kind) != LW_CLASS_HOST && lw_op_class(kind) != LW_CLASS_MEMORY;
}

/* The row ends its step: 0, k + 1, or -1 where it ends none. */
static int32_t ends_which(const struct traces_replay *r, const struct lw_timeline *t, int64_t row)
{
    int32_t op = t->op[row], step = r->step_of[op], rank = t->rank[row];

    if (r->n_steps > 0 && op == r->steps[0].first[rank])
        return 0;
    if (r->has_device)
        return is_device((enum lw_op_kind)t->kind[row]) && step > 0 ? step : -1;
    return step > 0 && op == r->steps[step - 1].last[rank] ? step : -1;
}

/* ends[rank * (n_steps + 1) + k]: of what rank launched before step k. */
static lw_ps *find_ends(const struct traces_replay *r, const struct lw_timeline *t)
{
    int32_t n = r->n_steps + 1;
    lw_ps *ends = lw_alloc((size_t)n * (size_t)r->n_ranks * sizeof *ends);

    if (!ends)
        return NULL;
    for (int32_t i = 0; i < n * r->n_ranks; i++)
        ends[i] = INT64_MIN;
    for (int64_t i = 0; i < t->n; i++) {
        int32_t k = ends_which(r, t, i);
        lw_ps *end = k >= 0 ? &ends[t->rank[i] * n + k] : NULL;
        if (end && t->end[i] > *end)
            *end = t->end[i];
    }
    for (int32_t rank = 0; rank < r->n_ranks; rank++)
        for (int32_t k = 1; k < n; k++) {
            lw_ps *end = &ends[rank * n + k];
            *end = *end > end[-1] ? *end : end[-1];
        }
    return ends;
}

static lw_ps end_of(const struct traces_replay *r, const lw_ps *ends, int32_t rank, int32_t k)
{
    lw_ps latest = INT64_MIN;

    for (int32_t i = 0; i < r->n_ranks; i++)
        if ((rank < 0 || rank == i) && ends[i * (r->n_steps + 1) + k] > latest)
            latest = ends[i * (r->n_steps + 1) + k];
    return latest;
}

enum lw_status traces_replay_periods(const struct traces_replay *r, const struct lw_timeline *t,
                                     int32_t rank, lw_ps *periods, struct lw_err *err)
{
    lw_ps *ends = find_ends(r, t);

    if (!ends)
        return lw_fail_nomem(err);
    for (int32_t k = 0; k < r->n_steps; k++)
        periods[k] = end_of(r, ends, rank, k + 1) - end_of(r, ends, rank, k);
    lw_free(ends);
    return LW_OK;
}

enum lw_status traces_replay_divide(const struct traces_replay *r, struct lw_timeline *t,
                                    struct lw_err *err)
{
    int32_t n = r->n_steps + 1;
    int64_t kept = 0;
    lw_ps *ends = find_ends(r, t);

    if (!ends)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < t->n; i++) {
        const lw_ps *own = &ends[t->rank[i] * n];
        bool device = r->has_device && is_device((enum lw_op_kind)t->kind[i]);
        int32_t k = device ? r->step_of[t->op[i]] : 0;
        if (k == 0)
            while (k < n && t->end[i] > own[k])
                k++;
        if (k == n)
            continue;
        struct lw_span span = lw_timeline_get(t, i);
        span.step = k;
        lw_timeline_put(t, kept++, &span);
    }
    t->n = kept;
    lw_free(ends);
    return lw_timeline_sort(t, err);
}

lw_ps traces_replay_host(const struct traces_replay *r, const struct lw_timeline *t, int32_t step,
                         int32_t rank)
{
    const struct traces_replay_step *s = &r->steps[step];
    lw_ps longest = 0;

    for (int32_t k = 0; k < r->n_ranks; k++) {
        lw_ps length = t->start[s->last[k]] - t->start[s->first[k]];
        if ((rank < 0 || rank == k) && length > longest)
            longest = length;
    }
    return longest;
}
