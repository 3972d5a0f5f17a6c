#pragma once

/* Spearman's rank correlation of a[n] and b[n]; equal values share the mean of their ranks. NAN
 * where all of one are equal. Quadratic in n. */
double lw_rank_correlation(const double *a, const double *b, int n);
