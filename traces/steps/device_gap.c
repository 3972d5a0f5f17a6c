/* Ops of one stream in start order. A gap longer than MOST_NS is a wait for another stream and is
 * not counted. */
#include "traces/steps/device_gap.h"

#include "shared/base/sort.h"
#include "shared/numbers/median.h"
#include "shared/numbers/order.h"

enum { MOST_NS = 20000 };

struct on_stream {
    int32_t stream;
    int64_t at; /* place among the launches: start order */
};

LW_COMPARATOR(by_stream, struct on_stream, a->stream, b->stream, a->at, b->at)

enum lw_status traces_device_gap(const struct lw_trace *t, const struct traces_launches *l,
                                 struct lw_arena *scratch, struct traces_device_gap *out,
                                 struct lw_err *err)
{
    struct traces_device_gap gap = {0, 0, 0};
    struct on_stream *v;
    int64_t *gaps;

    LW_TAKE(scratch, v, l->n, err);
    LW_TAKE(scratch, gaps, l->n, err);
    for (int64_t i = 0; i < l->n; i++)
        v[i] = (struct on_stream){t->track[l->row[i]], i};
    lw_sort(v, l->n, by_stream);
    for (int64_t i = 1; i < l->n; i++) {
        int64_t row = l->row[v[i].at], before = l->row[v[i - 1].at], launch = l->launch[v[i].at];
        int64_t end = lw_trace_end_ns(t, before), ns = t->start_ns[row] - end;
        if (v[i].stream != v[i - 1].stream || launch < 0 || lw_trace_end_ns(t, launch) > end ||
            ns < 0 || ns > MOST_NS)
            continue;
        gap.sum_ns += ns;
        gaps[gap.n++] = ns;
    }
    gap.median_ns = gap.n > 0 ? lw_median(gaps, gap.n) : 0;
    *out = gap;
    return LW_OK;
}
