/* The largest of some numbers in their own order: the least of them is found by a sort, and equal
 * ones are counted down. */
#include "shared/numbers/largest.h"

#include "shared/base/sort.h"
#include "shared/numbers/median.h"

struct lw_largest lw_largest_of(int64_t *v, int64_t n, int64_t n_largest)
{
    struct lw_largest l = {0};

    lw_sort(v, n, lw_compare_int64);
    l.least = v[n - n_largest];
    for (int64_t i = n - n_largest; i < n && v[i] == l.least; i++)
        l.n_least++;
    return l;
}

bool lw_largest_takes(struct lw_largest *l, int64_t value)
{
    return value > l->least || (value == l->least && l->n_least-- > 0);
}
