/* Spearman's rank correlation, by hand. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/numbers/rank_correlation.h"

static void near(double is, double expected, double by)
{
    if (!(fabs(is - expected) <= by))
        fail_msg("%.17g, expected %.17g", is, expected);
}

/* 1 - 6 sum d^2 / (n (n^2 - 1)) where no values are equal: d = 1, -1, 0, 0 of four. */
TEST(without_equal_values)
{
    const double a[] = {10, 20, 30, 40}, up[] = {1, 2, 3, 9}, down[] = {9, 3, 2, 1};
    const double one[] = {2, 1, 3, 4};

    near(lw_rank_correlation(a, up, 4), 1, 0);
    near(lw_rank_correlation(a, down, 4), -1, 0);
    near(lw_rank_correlation(a, one, 4), 1 - 6 * 2. / (4 * 15), 1e-15);
}

/* Ranks 1.5, 1.5, 3 against 1, 2, 3: sums of products 1.5, squares 1.5 and 2. */
TEST(equal_values_share_the_mean_of_their_ranks)
{
    const double a[] = {5, 5, 7}, b[] = {1, 2, 3};

    near(lw_rank_correlation(a, b, 3), 1.5 / sqrt(1.5 * 2), 1e-15);
}

TEST(there_is_none_where_all_are_equal)
{
    const double a[] = {5, 5, 5}, b[] = {1, 2, 3};

    assert_true(isnan(lw_rank_correlation(a, b, 3)));
    assert_true(isnan(lw_rank_correlation(a, b, 0)));
}
