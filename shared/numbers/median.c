/* The median of whole numbers. */
#include "shared/numbers/median.h"

#include "shared/base/sort.h"

int lw_compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int lw_compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int64_t lw_median(int64_t *v, int64_t n)
{
    if (n <= 0)
        return 0;
    lw_sort(v, n, lw_compare_int64);
    return v[(n - 1) / 2] + (v[n / 2] - v[(n - 1) / 2]) / 2;
}
