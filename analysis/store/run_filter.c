/* Which runs of a database are meant: by number, workload, age and kind. */
#include "analysis/store/run_filter.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* "2026-11-22", "2026-11-22 14:30" (UTC), or how long ago: "30m", "12h", "7d". */
static enum lw_status parse_since(const char *text, int64_t *since_s, struct lw_err *err)
{
    struct tm at = {0};
    char unit, rest;
    long long n;

    if (sscanf(text, "%lld%c%c", &n, &unit, &rest) == 2 && n >= 0 && n < 100000 &&
        strchr("mhd", unit)) {
        *since_s = (int64_t)time(NULL) - n * (unit == 'm' ? 60 : unit == 'h' ? 3600 : 86400);
        return LW_OK;
    }
    const char *end = strptime(text, "%Y-%m-%d", &at);
    if (end && (*end == ' ' || *end == 'T'))
        end = strptime(end + 1, "%H:%M", &at);
    if (!end || *end)
        return lw_fail(err, LW_EINVAL,
                       "--since '%s': expected a date (2026-11-22, 2026-11-22 14:30, in UTC) or an "
                       "age (30m, 12h, 7d)", text);
    *since_s = (int64_t)timegm(&at);
    return LW_OK;
}

enum lw_status lw_run_since_check(const char *since, struct lw_err *err)
{
    int64_t s;

    return parse_since(since, &s, err);
}

static bool is_wanted(const struct lw_run_filter *w, const struct lw_run *r)
{
    return (!w->workload || strcasestr(r->workload_name, w->workload)) &&
           (!w->kind || strcmp(lw_run_kind_name(r->kind), w->kind) == 0) &&
           r->started_at >= w->since_s;
}

enum lw_status lw_run_filter_check(struct lw_run_filter *w, struct lw_err *err)
{
    return w->since ? parse_since(w->since, &w->since_s, err) : LW_OK;
}

enum lw_status lw_run_filter_select(struct lw_store *s, char **names, int n_names,
                                    const struct lw_run_filter *w, struct lw_arena *a,
                                    struct lw_run **runs, int32_t *n, struct lw_err *err)
{
    int32_t kept = 0;

    if (n_names > 0)
        LW_TRY(lw_store_select_runs(s, names, n_names, a, runs, n, err));
    else
        LW_TRY(lw_store_runs(s, a, runs, n, err));
    for (int32_t i = 0; i < *n; i++)
        if (is_wanted(w, &(*runs)[i]))
            (*runs)[kept++] = (*runs)[i];
    *n = kept;
    return LW_OK;
}
