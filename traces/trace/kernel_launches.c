/* Joins device rows to launch calls by correlation: calls are sorted by (correlation, start), each
 * device row looks its own up; of several calls with one correlation the first counts. */
#include "traces/trace/kernel_launches.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

#include <stdlib.h>
#include <string.h>

LW_COMPARATOR(by_correlation, struct traces_correlated, a->correlation, b->correlation, a->at,
              b->at)

void traces_correlated_sort(struct traces_correlated *v, int64_t n)
{
    lw_sort(v, n, by_correlation);
}

/* The first with that correlation; -1 = none. */
static int64_t index_of(const struct traces_correlated *v, int64_t n, int64_t correlation)
{
    int64_t i = correlation >= 0 ? lw_items_upto(v, n, sizeof *v, correlation - 1) : n;

    return i < n && v[i].correlation == correlation ? i : -1;
}

int64_t traces_correlated_find(const struct traces_correlated *v, int64_t n, int64_t correlation)
{
    int64_t i = index_of(v, n, correlation);

    return i >= 0 ? v[i].at : -1;
}

static int64_t collect_calls(const struct lw_trace *t, struct traces_correlated *calls)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == LW_ROW_LAUNCH && t->link[i] >= 0)
            calls[n++] = (struct traces_correlated){t->link[i], i};
    traces_correlated_sort(calls, n);
    return n;
}

/* Of the names, those of calls that launch a kernel each time: not copies, which may be done by the
 * call itself. */
static void keep_launches(const struct lw_trace *t, bool *named)
{
    for (int32_t i = 0; i < t->strings.n; i++)
        named[i] = named[i] && strstr(lw_trace_text(t, i), "Launch") != NULL;
}

enum lw_status traces_lost_launches(const struct lw_trace *t, const struct traces_launches *l,
                                    int64_t *n, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    bool *used = lw_arena_alloc(&scratch, t->n, sizeof *used);
    bool *named = lw_arena_alloc(&scratch, t->strings.n, sizeof *named);
    int64_t last = INT64_MIN;

    *n = 0;
    for (int64_t i = 0; used && named && i < l->n; i++) {
        int64_t row = l->launch[i];
        if (row < 0)
            continue;
        used[row] = true;
        named[t->name[row]] = true;
        last = row > last ? row : last;
    }
    bool made = used && named;
    if (made)
        keep_launches(t, named);
    for (int64_t i = 0; made && i < t->n && i <= last; i++)
        *n += t->class[i] == LW_ROW_LAUNCH && t->link[i] >= 0 && named[t->name[i]] && !used[i];
    lw_arena_free(&scratch);
    return made ? LW_OK : lw_fail_nomem(err);
}

/* Whether a row before i is the same op. */
static bool is_repeated(const struct lw_trace *t, int64_t i)
{
    enum { MOST_BACK = 64 }; /* rows that begin and end together are few */

    for (int64_t k = i - 1; k >= 0 && k > i - MOST_BACK && t->start_ns[k] == t->start_ns[i] &&
                            t->dur_ns[k] == t->dur_ns[i]; k--)
        if (t->link[i] == t->link[k] && t->name[i] == t->name[k] && t->track[i] == t->track[k] &&
            t->class[i] == t->class[k])
            return true;
    return false;
}

int64_t traces_repeated_rows(const struct lw_trace *t)
{
    int64_t n = 0;

    for (int64_t i = 1; i < t->n; i++)
        n += lw_trace_on_device(t, i) && t->link[i] >= 0 && t->dur_ns[i] != 0 && is_repeated(t, i);
    return n;
}

enum lw_status traces_launches_build(const struct lw_trace *t, struct lw_arena *arena,
                                     struct traces_launches *out, struct lw_err *err)
{
    struct traces_launches l = {0};
    struct traces_correlated *calls;
    int64_t n_calls = 0;

    LW_TRY(lw_trace_pick(t, 0, t->n, lw_trace_on_device, arena, &l.row, &l.n, err));
    LW_TAKE(arena, l.launch, l.n, err);
    for (int64_t i = 0; i < t->n; i++)
        n_calls += t->class[i] == LW_ROW_LAUNCH;
    LW_NEW(calls, n_calls, err);
    n_calls = collect_calls(t, calls);
    for (int64_t i = 0, next = 0; i < l.n; i++) { /* most rows follow in the order of their calls */
        int64_t correlation = t->link[l.row[i]];
        bool follows = next > 0 && next < n_calls && calls[next].correlation == correlation &&
                       calls[next - 1].correlation != correlation;
        int64_t at = follows ? next : index_of(calls, n_calls, correlation);
        l.launch[i] = at >= 0 ? calls[at].at : -1;
        next = at + 1;
    }
    lw_free(calls);
    *out = l;
    return LW_OK;
}
