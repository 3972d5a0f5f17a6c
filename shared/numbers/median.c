/* The median of whole numbers. */
#include "shared/numbers/median.h"

#include <stdlib.h>

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
    qsort(v, (size_t)n, sizeof *v, lw_compare_int64);
    return v[(n - 1) / 2] + (v[n / 2] - v[(n - 1) / 2]) / 2;
}
