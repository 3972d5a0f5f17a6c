/* The mean of the largest of n normals, by its integral:
 *
 *     E = integral of x n phi(x) Phi(x)^(n - 1) dx
 *
 * (David, Nagaraja, Order Statistics, 3rd edition, 2003, section 3.1). The integrand is smooth and
 * vanishes at both ends, so the trapezoidal rule converges faster than any power of its step. The
 * upper tail Q = 1 - Phi is summed from above by Simpson's rule, so that a power of many ranks,
 * which depends on Q alone, loses no digits.
 *
 * Rejected: Blom's approximation, the normal quantile of (n - 3/8) / (n + 1/4) (Statistical
 * Estimates and Transformed Beta-Variables, 1958). It is 4.5 % too large of 2, 0.7 % of 8, 0.4 %
 * too small of 1,024. */
#include "shared/numbers/normal_max.h"

#include "shared/numbers/loglog.h"

static const double TOP = 12, STEP = 1.0 / 64, ROOT_TWO_PI = 2.50662827463100050242;

enum { STEPS = 24 * 64 };

static const int64_t MOST = INT64_C(1) << 40;

static double density(double x)
{
    return lw_exp(-x * x / 2) / ROOT_TWO_PI;
}

double lw_normal_max(int64_t n)
{
    double of = (double)(n < 1 ? 1 : n > MOST ? MOST : n), tail = 0, sum = 0;
    double above = density(TOP);

    if (n <= 1)
        return 0;
    for (int i = 1; i < STEPS; i++) {
        double x = TOP - i * STEP, at = density(x);
        tail += STEP / 6 * (above + 4 * density(x + STEP / 2) + at);
        above = at;
        double power = tail < 1 ? (of - 1) * lw_log(1 - tail) : -700;
        if (power > -690) /* what is left out is below 1e-290 */
            sum += x * of * at * lw_exp(power);
    }
    return sum * STEP;
}
