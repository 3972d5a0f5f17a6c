/* Joins device rows to launch calls by correlation: calls are sorted by (correlation, start), each
 * device row looks its own up; of several calls with one correlation the first counts. */
#include "traces/trace/kernel_launches.h"
#include "shared/numbers/order.h"

#include <stdlib.h>

LW_COMPARATOR(by_correlation, struct traces_correlated, a->correlation, b->correlation, a->at,
              b->at)

void traces_correlated_sort(struct traces_correlated *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_correlation);
}

int64_t traces_correlated_find(const struct traces_correlated *v, int64_t n, int64_t correlation)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (v[mid].correlation < correlation)
            low = mid + 1;
        else
            high = mid;
    }
    return correlation >= 0 && low < n && v[low].correlation == correlation ? v[low].at : -1;
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

enum lw_status traces_launches_build(const struct lw_trace *t, struct traces_launches *out,
                                     struct lw_err *err)
{
    struct traces_launches l = {0};
    int64_t n_calls = 0, n_device = 0;

    for (int64_t i = 0; i < t->n; i++) {
        n_calls += t->class[i] == LW_ROW_LAUNCH;
        n_device += lw_trace_on_device(t, i);
    }
    struct traces_correlated *calls = lw_alloc((size_t)n_calls * sizeof *calls);
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
            l.launch[l.n++] = traces_correlated_find(calls, n_calls, t->link[i]);
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
