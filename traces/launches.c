/* Joins device rows to launch calls by correlation: calls are sorted by (correlation, start), each
 * device row looks its own up; of several calls with one correlation the first counts. */
#include "traces/launches.h"

#include <stdlib.h>

#include "shared/arena.h"

struct call {
    int64_t correlation, row; /* rows are in start order */
};

static int by_correlation(const void *a, const void *b)
{
    const struct call *x = a, *y = b;

    if (x->correlation != y->correlation)
        return x->correlation < y->correlation ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int64_t find(const struct call *calls, int64_t n, int64_t correlation)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (calls[mid].correlation < correlation)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && calls[low].correlation == correlation ? calls[low].row : -1;
}

static int64_t collect_calls(const struct lw_trace *t, struct call *calls)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == LW_ROW_LAUNCH && t->link[i] >= 0)
            calls[n++] = (struct call){t->link[i], i};
    qsort(calls, (size_t)n, sizeof *calls, by_correlation);
    return n;
}

enum lw_status traces_launches_build(const struct lw_trace *t, struct traces_launches *out,
                                     struct lw_err *err)
{
    struct traces_launches l = {0};
    int64_t n_calls = 0, n_device = 0;

    for (int64_t i = 0; i < t->n; i++) {
        n_calls += t->class[i] == LW_ROW_LAUNCH;
        n_device += lw_trace_on_device(t, i);
    }
    struct call *calls = lw_alloc((size_t)n_calls * sizeof *calls);
    l.row = lw_alloc((size_t)n_device * sizeof *l.row);
    l.launch = lw_alloc((size_t)n_device * sizeof *l.launch);
    if (!calls || !l.row || !l.launch) {
        lw_free(calls);
        traces_launches_free(&l);
        return lw_fail_nomem(err);
    }
    n_calls = collect_calls(t, calls);
    for (int64_t i = 0; i < t->n; i++)
        if (lw_trace_on_device(t, i)) {
            l.row[l.n] = i;
            l.launch[l.n++] = t->link[i] >= 0 ? find(calls, n_calls, t->link[i]) : -1;
        }
    lw_free(calls);
    *out = l;
    return LW_OK;
}

void traces_launches_free(struct traces_launches *l)
{
    lw_free(l->row);
    lw_free(l->launch);
    *l = (struct traces_launches){0};
}
