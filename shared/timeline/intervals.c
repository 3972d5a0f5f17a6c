/* Unions and differences of time intervals: the one place where busy and exposed times come from
 * (declared in shared/timeline/timeline.h). Intervals are half open; empty and negative ones count
 * nothing. Both functions sort by start and merge in place, then walk once: O(n log n). */

#include "shared/base/sort.h"
#include "shared/timeline/timeline.h"
#include "shared/numbers/order.h"

LW_COMPARATOR(by_start, struct lw_interval, a->start, b->start)

/* Disjoint intervals in order, inside [from, to), at the front of v; returns how many. */
static int64_t merge(struct lw_interval *v, int64_t n, lw_ps from, lw_ps to)
{
    int64_t m = 0;

    lw_sort(v, n, by_start);
    for (int64_t i = 0; i < n; i++) {
        struct lw_interval w = {v[i].start > from ? v[i].start : from,
                                v[i].end < to ? v[i].end : to};
        if (w.end <= w.start)
            continue;
        if (m == 0 || w.start > v[m - 1].end)
            v[m++] = w;
        else if (w.end > v[m - 1].end)
            v[m - 1].end = w.end;
    }
    return m;
}

static lw_ps length(const struct lw_interval *v, int64_t n)
{
    lw_ps sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += v[i].end - v[i].start;
    return sum;
}

lw_ps lw_intervals_union(struct lw_interval *v, int64_t n, lw_ps from, lw_ps to)
{
    return n > 0 ? length(v, merge(v, n, from, to)) : 0;
}

lw_ps lw_intervals_minus(struct lw_interval *a, int64_t n_a, struct lw_interval *b, int64_t n_b,
                         lw_ps from, lw_ps to)
{
    lw_ps common = 0;
    int64_t i = 0, k = 0;

    n_a = n_a > 0 ? merge(a, n_a, from, to) : 0;
    n_b = n_b > 0 ? merge(b, n_b, from, to) : 0;
    while (i < n_a && k < n_b) {
        lw_ps start = a[i].start > b[k].start ? a[i].start : b[k].start;
        lw_ps end = a[i].end < b[k].end ? a[i].end : b[k].end;
        common += end > start ? end - start : 0;
        if (a[i].end < b[k].end)
            i++;
        else
            k++;
    }
    return length(a, n_a) - common;
}
