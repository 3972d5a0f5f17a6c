/* Which rows of a trace are collectives that the host runs, which call handed each over, and which
 * ops enclose ranges of fully_shard. Names and the order of starts tell, as no id does. */
#include "traces/steps/host_runs.h"

#include "traces/steps/step_phases.h"

bool traces_is_host_run(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && lw_trace_name_begins(t, row, "gloo:");
}

static bool is_issue(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && lw_trace_name_begins(t, row, "c10d::");
}

enum lw_status traces_host_launches(const struct lw_trace *t, struct lw_arena *arena,
                                    int64_t **launch, struct lw_err *err)
{
    int64_t issue = 0, *v;

    LW_TAKE(arena, v, t->n, err);
    for (int64_t i = 0; i < t->n; i++) {
        v[i] = -1;
        if (!traces_is_host_run(t, i))
            continue;
        while (issue < t->n && !is_issue(t, issue))
            issue++;
        if (issue < t->n && t->start_ns[issue] <= t->start_ns[i])
            v[i] = issue++;
    }
    *launch = v;
    return LW_OK;
}

bool traces_is_fsdp(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && lw_row_is_range(t, row) &&
           lw_trace_name_begins(t, row, "FSDP::");
}

/* Rows are in the order of their starts: what encloses a range comes before it. */
enum lw_status traces_holds_fsdp(const struct lw_trace *t, struct lw_arena *arena, bool **holds,
                                 struct lw_err *err)
{
    int64_t *open, n = 0; /* ops of any thread that have not ended when row i begins */
    bool *v;

    LW_TAKE(arena, v, t->n, err);
    LW_TAKE(arena, open, t->n, err);
    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i))
            continue;
        bool range = traces_is_fsdp(t, i);
        int64_t kept = 0;
        for (int64_t k = 0; range && k < n; k++) {
            int64_t end = lw_trace_end_ns(t, open[k]);
            if (t->track[open[k]] == t->track[i] && end >= lw_trace_end_ns(t, i))
                v[open[k]] = true;
            if (end > t->start_ns[i])
                open[kept++] = open[k];
        }
        n = range ? kept : n;
        if (!lw_row_is_range(t, i)) {
            while (n > 0 && lw_trace_end_ns(t, open[n - 1]) <= t->start_ns[i])
                n--;
            open[n++] = i;
        }
    }
    *holds = v;
    return LW_OK;
}
