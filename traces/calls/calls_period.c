/* The period of a recording: the calls of one training step.
 *
 * Read from its end, the sequence of calls (op, type, count, peer, communicator) is a string.
 * Its prefix function (Knuth, Morris, Pratt, SIAM J. Comput. 6(2), 1977) gives for each prefix
 * the longest border; prefix length minus border is the prefix's shortest period. The longest
 * prefix that holds its period at least three times is taken: warm-up at the beginning of the
 * recording has other calls. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/median.h"
#include "traces/calls/import_calls.h"

enum { LEAST_REPEATS = 3 };

static bool alike(const struct traces_recorded_call *a, const struct traces_recorded_call *b)
{
    return a->op == b->op && a->count == b->count && a->peer == b->peer && a->comm == b->comm &&
           a->dtype_known == b->dtype_known && (!a->dtype_known || a->dtype == b->dtype);
}

/* From the end: 0 is the last call. */
static const struct traces_recorded_call *back(const struct traces_recorded *c, int64_t i)
{
    return &c->calls[c->n - 1 - i];
}

static int64_t shortest_period(const struct traces_recorded *c, int64_t *border, int64_t *covered)
{
    int64_t period = 0;

    border[0] = 0;
    *covered = 0;
    for (int64_t i = 1, k = 0; i < c->n; i++) {
        while (k > 0 && !alike(back(c, i), back(c, k)))
            k = border[k - 1];
        if (alike(back(c, i), back(c, k)))
            k++;
        border[i] = k;
        if ((i + 1 - k) * LEAST_REPEATS <= i + 1) {
            period = i + 1 - k;
            *covered = i + 1;
        }
    }
    return period;
}

enum lw_status traces_recorded_period(const struct traces_recorded *c, int64_t *n_calls,
                                   int64_t *n_periods, int64_t *period_ns, struct lw_err *err)
{
    int64_t covered = 0, *border;

    *n_calls = *n_periods = *period_ns = 0;
    if (c->n < LEAST_REPEATS)
        return LW_OK;
    border = lw_alloc((size_t)c->n * sizeof *border);
    if (!border)
        return lw_fail_nomem(err);
    *n_calls = shortest_period(c, border, &covered);
    if (*n_calls > 0) {
        int64_t n = covered / *n_calls, first = c->n - n * *n_calls;
        *n_periods = n;
        for (int64_t i = 0; i + 1 < n; i++) /* the borders are not needed any more */
            border[i] = c->calls[first + (i + 1) * *n_calls].entered_ns -
                        c->calls[first + i * *n_calls].entered_ns;
        lw_sort(border, n - 1, lw_compare_int64);
        *period_ns = border[(n - 2) / 2];
    }
    lw_free(border);
    return LW_OK;
}
