/* Readings and their statistics. Of an even number the median is the lower of the middle two. */
#include "exec/calibrate/calibrate_samples.h"

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/median.h"

enum lw_status exec_samples_add(struct exec_samples *s, double v, struct lw_err *err)
{
    LW_ROOM(s->v, s->capacity, s->n + 1, err);
    s->v[s->n++] = v;
    return LW_OK;
}

static double quantile(struct exec_samples *s, int64_t numerator, int64_t denominator)
{
    if (s->n == 0)
        return 0;
    lw_sort(s->v, s->n, lw_compare_double);
    return s->v[(s->n - 1) * numerator / denominator];
}

double exec_samples_median(struct exec_samples *s)
{
    return quantile(s, 1, 2);
}

double exec_samples_quarter(struct exec_samples *s)
{
    return quantile(s, 1, 4);
}

double exec_samples_spread(struct exec_samples *s)
{
    return quantile(s, 3, 4) - quantile(s, 1, 4);
}

void exec_samples_free(struct exec_samples *s)
{
    lw_free(s->v);
    *s = (struct exec_samples){0};
}
