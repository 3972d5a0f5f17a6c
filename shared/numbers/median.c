/* The median of whole numbers, and one value of a sorted array (Hoare, Algorithm 65: Find,
 * Communications of the ACM 4(7), 1961). */
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

double lw_kth_smallest(double *v, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;

    while (low < high) {
        double pivot = v[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                double x = v[i];
                v[i++] = v[j];
                v[j--] = x;
            }
        }
        if (k > j && k < i) /* between them all are the pivot */
            break;
        if (k <= j)
            high = j;
        else
            low = i;
    }
    return v[k];
}
