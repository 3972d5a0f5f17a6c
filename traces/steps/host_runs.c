#include "traces/steps/host_runs.h"

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
