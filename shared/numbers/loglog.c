/* Interpolation on logarithmic axes, reproducible to the bit. libm's log and exp differ between
 * libraries in the last place; frexp and ldexp are exact everywhere, and the series below use only
 * the four operations (the build forbids contraction into fused ones). */
#include "shared/numbers/loglog.h"

#include <math.h>

#define LN2 0.69314718055994530942

double lw_log(double x)
{
    int e;
    double m = frexp(x, &e); /* x = m * 2^e, m in [0.5, 1) */

    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0; /* ln m = 2 artanh s, |s| < 0.172 */
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return 2 * s * sum + e * LN2;
}

double lw_exp(double x)
{
    double k = floor(x / LN2 + 0.5), r = x - k * LN2, sum = 1; /* |r| <= 0.35 */

    for (int i = 16; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)k);
}

double lw_loglog(double x, double x0, double y0, double x1, double y1)
{
    double share = lw_log(x / x0) / lw_log(x1 / x0);

    return y0 * lw_exp(share * lw_log(y1 / y0));
}
