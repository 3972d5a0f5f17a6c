/* Steps of a replay: where they end, which rows are theirs (replay_steps.h). */
#include "traces/replay/replay_steps.h"
#include "shared/plan/op.h"

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
    if (r->has_device && step > 0 && is_device((enum lw_op_kind)t->kind[row]))
        return step;
    if (r->has_device && r->marked)
        return -1;
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

/* --- who sets the period --- */

/* Every op of the host ends when it does in the other pass. A pass has a row for each op. */
static bool same_host(const struct lw_timeline *a, const struct lw_timeline *b, lw_ps *end_of_op)
{
    bool same = true;

    for (int64_t i = 0; i < a->n; i++)
        end_of_op[a->op[i]] = a->end[i];
    for (int64_t i = 0; i < b->n; i++)
        same = same && (is_device((enum lw_op_kind)b->kind[i]) || end_of_op[b->op[i]] == b->end[i]);
    return same;
}

/* In each measured step the device of the rank has a moment without work; v has room for all
 * rows. */
static bool has_pauses(const struct traces_replay *r, const struct lw_timeline *t, int32_t rank,
                       const lw_ps *ends, struct lw_interval *v)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++)
        if (t->rank[i] == rank && is_device((enum lw_op_kind)t->kind[i]))
            v[n++] = (struct lw_interval){t->start[i], t->end[i]};
    for (int32_t k = traces_replay_first(r); k < r->n_steps; k++)
        if (lw_intervals_union(v, n, ends[k], ends[k + 1]) == ends[k + 1] - ends[k])
            return false;
    return true;
}

static enum lw_status pauses(const struct traces_replay *r, const struct lw_timeline *t, bool *out,
                             struct lw_err *err)
{
    lw_ps *ends = find_ends(r, t);
    struct lw_interval *v = lw_alloc((size_t)t->n * sizeof *v);

    *out = true;
    for (int32_t rank = 0; ends && v && *out && rank < r->n_ranks; rank++)
        *out = has_pauses(r, t, rank, ends + (int64_t)rank * (r->n_steps + 1), v);
    bool made = ends && v;
    lw_free(v);
    lw_free(ends);
    return made ? LW_OK : lw_fail_nomem(err);
}

enum lw_status traces_replay_host_bound(const struct traces_replay *r, const struct lw_timeline *a,
                                        const struct lw_timeline *b, bool *out, struct lw_err *err)
{
    int64_t n_ops = 0;

    *out = traces_replay_basis(r) == TRACES_DEVICE_PERIOD && a->n == b->n;
    if (!*out)
        return LW_OK;
    for (int64_t i = 0; i < a->n; i++)
        n_ops = a->op[i] >= n_ops ? a->op[i] + 1 : n_ops;
    lw_ps *end_of_op = lw_calloc((size_t)n_ops + 1, sizeof *end_of_op);
    if (!end_of_op)
        return lw_fail_nomem(err);
    *out = same_host(a, b, end_of_op);
    lw_free(end_of_op);
    if (*out)
        LW_TRY(pauses(r, a, out, err));
    return *out ? pauses(r, b, out, err) : LW_OK;
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
