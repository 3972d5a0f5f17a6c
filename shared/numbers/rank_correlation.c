/* Spearman's rank correlation (Spearman, American Journal of Psychology 15, 1904). */
#include "shared/numbers/rank_correlation.h"

#include <math.h>

/* Twice the rank of v[i] less the mean of all ranks: whole numbers, so the sums are exact. */
static double centred(const double *v, int i, int n)
{
    int below = 0, equal = 0;

    for (int k = 0; k < n; k++) {
        below += v[k] < v[i];
        equal += v[k] == v[i];
    }
    return 2 * below + equal - n;
}

double lw_rank_correlation(const double *a, const double *b, int n)
{
    double ab = 0, aa = 0, bb = 0;

    for (int i = 0; i < n; i++) {
        double x = centred(a, i, n), y = centred(b, i, n);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}
