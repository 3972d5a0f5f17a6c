/* Where a host thread ran ops, as a union of intervals with prefix sums. */
#include "traces/replay/host_busy.h"

#include "traces/steps/host_runs.h"
#include "traces/steps/step_phases.h"

static bool is_op(const struct lw_trace *t, int64_t row, int32_t thread, const bool *waits)
{
    return lw_trace_on_host(t, row) && t->track[row] == thread && !lw_row_is_range(t, row) &&
           !waits[row];
}

enum lw_status traces_host_busy_build(const struct lw_trace *t, int32_t thread,
                                      struct lw_arena *arena, struct traces_host_busy *out,
                                      struct lw_err *err)
{
    struct traces_host_busy b = {0};
    int64_t n = 0;
    bool *waits;

    LW_TRY(traces_holds_fsdp(t, arena, &waits, err));
    for (int64_t i = 0; i < t->n; i++)
        n += is_op(t, i, thread, waits);
    LW_TAKE(arena, b.start, n, err);
    LW_TAKE(arena, b.end, n, err);
    LW_TAKE(arena, b.before, n, err);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t end = lw_trace_end_ns(t, i);
        if (!is_op(t, i, thread, waits))
            continue;
        if (b.n > 0 && t->start_ns[i] <= b.end[b.n - 1]) {
            b.end[b.n - 1] = end > b.end[b.n - 1] ? end : b.end[b.n - 1];
            continue;
        }
        b.before[b.n] = b.n > 0 ? b.before[b.n - 1] + b.end[b.n - 1] - b.start[b.n - 1] : 0;
        b.start[b.n] = t->start_ns[i];
        b.end[b.n++] = end;
    }
    *out = b;
    return LW_OK;
}

static int64_t busy_upto(const struct traces_host_busy *b, int64_t ns)
{
    int64_t k = lw_values_upto(b->start, b->n, ns) - 1;

    if (k < 0)
        return 0;
    return b->before[k] + (ns < b->end[k] ? ns : b->end[k]) - b->start[k];
}

int64_t traces_host_busy_ns(const struct traces_host_busy *b, int64_t from, int64_t to)
{
    return busy_upto(b, to) - busy_upto(b, from);
}

bool traces_host_busy_at(const struct traces_host_busy *b, int64_t ns, int64_t *until)
{
    int64_t k = lw_values_upto(b->start, b->n, ns);
    bool busy = k > 0 && ns < b->end[k - 1];

    *until = busy ? b->end[k - 1] : k < b->n ? b->start[k] : INT64_MAX;
    return busy;
}
