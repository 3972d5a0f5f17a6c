/* The expected largest of normal numbers: against known values, a bound of all n, and draws. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/numbers/normal_max.h"

static uint64_t random_state;

/* xorshift64*, as a share in (0, 1). */
static double draw(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return ((double)(random_state * UINT64_C(2685821657736338717) >> 11) + 0.5) / 9007199254740992;
}

static double normal(void)
{
    return sqrt(-2 * log(draw())) * cos(2 * 3.14159265358979323846 * draw());
}

static void expect(int64_t n, double value, double within)
{
    double found = lw_normal_max(n);

    if (!(fabs(found - value) <= within))
        fail_msg("n %lld: found %.12f, expected %.12f", (long long)n, found, value);
}

/* 1 / sqrt(pi), 3 / (2 sqrt(pi)), and 4 and 5 by arc cosines (Jones, Annals of Mathematical
 * Statistics 19, 1948). */
TEST(small_numbers_have_their_closed_forms)
{
    const double pi = 3.14159265358979323846, root = sqrt(pi);

    expect(-3, 0, 0);
    expect(0, 0, 0);
    expect(1, 0, 0);
    expect(2, 1 / root, 1e-9);
    expect(3, 1.5 / root, 1e-9);
    expect(4, 6 / root * (0.25 + asin(1.0 / 3) / (2 * pi)), 1e-9);
    expect(5, 10 / root * (0.125 + 3 * asin(1.0 / 3) / (4 * pi)), 1e-9);
}

/* Harter, Expected values of normal order statistics, Biometrika 48, 1961, table 1: 5 decimals. */
TEST(larger_ones_agree_with_the_published_table)
{
    expect(8, 1.42360, 5e-6);
    expect(10, 1.53875, 5e-6);
    expect(50, 2.24907, 5e-6);
    expect(100, 2.50759, 5e-6);
    expect(400, 2.96818, 5e-6);
}

/* Of independent numbers the expected largest grows by less and less, and stays below
 * sqrt(2 ln n). */
TEST(it_grows_ever_more_slowly_and_stays_below_its_bound)
{
    double before = 0, step = 1;

    for (int64_t n = 2; n <= 3000; n++) {
        double now = lw_normal_max(n);
        if (!(now > before && now - before < step && now < sqrt(2 * log((double)n))))
            fail_msg("n %lld: %.12f after %.12f", (long long)n, now, before);
        step = now - before + 1e-12;
        before = now;
    }
    for (int k = 12; k <= 40; k++) {
        double x = sqrt(2 * log(ldexp(1, k))), now = lw_normal_max(INT64_C(1) << k);
        assert_true(now > before && now < x && now > 0.9 * x - 0.2);
        before = now;
    }
    assert_true(lw_normal_max(INT64_MAX) == lw_normal_max(INT64_C(1) << 40));
}

/* The mean of 20,000 largest: their standard deviation is below 0.83, so the error of the mean is
 * below 0.006, of which five are allowed. */
TEST(draws_have_that_mean)
{
    for (int64_t n = 2; n <= 128; n *= 4) {
        double sum = 0;
        random_state = 0x9e3779b97f4a7c15u + (uint64_t)n;
        for (int i = 0; i < 20000; i++) {
            double most = -9;
            for (int64_t k = 0; k < n; k++) {
                double x = normal();
                most = x > most ? x : most;
            }
            sum += most;
        }
        expect(n, sum / 20000, 0.03);
    }
}
