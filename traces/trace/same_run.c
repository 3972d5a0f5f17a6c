/* What two traces say that only one of them can be, if they are of one run. */
#include "traces/trace/same_run.h"

#include <stdio.h>

enum { MOST_APART_NS = 1000000000 };

struct window { /* of a trace, absolute ns */
    double from, to;
};

static struct window window_of(const struct lw_trace *t)
{
    struct window w = {0, 0};

    for (int64_t i = 0; i < t->n; i++) {
        double start = (double)t->base_ns + (double)t->start_ns[i];
        double end = start + (double)t->dur_ns[i];
        if (i == 0)
            w = (struct window){start, end};
        w.from = start < w.from ? start : w.from;
        w.to = end > w.to ? end : w.to;
    }
    return w;
}

bool lw_traces_same_run(const struct lw_trace *a, const struct lw_trace *b, char *why, size_t size)
{
    struct window x = window_of(a), y = window_of(b);
    double apart = x.from > y.to ? x.from - y.to : y.from - x.to;

    if (a->rank >= 0 && a->rank == b->rank)
        snprintf(why, size, "both say they are rank %d", a->rank);
    else if (a->world_size > 0 && b->world_size > 0 && a->world_size != b->world_size)
        snprintf(why, size, "one is of a run of %d ranks, the other of %d", a->world_size,
                 b->world_size);
    else if (a->n > 0 && b->n > 0 && apart > MOST_APART_NS)
        snprintf(why, size, "they were recorded %.1f s apart", apart / 1e9);
    else
        return true;
    return false;
}
