#pragma once

#include <stdint.h>

/* Of v[n], which it sorts: the middle value; of an even number the mean of the middle two, rounded
 * towards the smaller one; 0 for n = 0. Any unit. */
int64_t lw_median(int64_t *v, int64_t n);

/* What v[k] is once v[n] is sorted, 0 <= k < n, in O(n) on average; v has another order then. No
 * value is NAN. */
double lw_kth_smallest(double *v, int64_t n, int64_t k);

/* For lw_sort, the smallest first. */
int lw_compare_int64(const void *a, const void *b);
int lw_compare_double(const void *a, const void *b);
