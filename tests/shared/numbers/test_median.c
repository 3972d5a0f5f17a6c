/* The median of whole numbers. */
#include "shared/base/sort.h"
#include "tests/lib/prng.h"
#include "tests/lib/unit.h"

#include "shared/numbers/median.h"

TEST(it_is_the_middle_or_the_mean_of_the_middle_two)
{
    assert_int_equal(lw_median((int64_t[]){7}, 1), 7);
    assert_int_equal(lw_median((int64_t[]){9, -5, 2}, 3), 2);
    assert_int_equal(lw_median((int64_t[]){8, 1, 4, 5}, 4), 4); /* 4.5 */
    assert_int_equal(lw_median((int64_t[]){-1, -4, -9, 0}, 4), -3); /* -2.5 */
    assert_int_equal(lw_median((int64_t[]){INT64_MAX, INT64_MAX - 2}, 2), INT64_MAX - 1);
    assert_int_equal(lw_median(NULL, 0), 0);
}

TEST(it_sorts)
{
    int64_t v[] = {3, INT64_MAX, 0, INT64_MIN, 3};
    const int64_t sorted[] = {INT64_MIN, 0, 3, 3, INT64_MAX};

    assert_int_equal(lw_median(v, 5), 3);
    assert_memory_equal(v, sorted, sizeof v);
}

/* Of few different values and of many, against the sorted array. */
TEST(the_kth_smallest_is_what_sorting_puts_there)
{
    struct prng r = prng_start("the_kth_smallest_is_what_sorting_puts_there");
    double v[300], sorted[300];

    for (int round = 0; round < 2000; round++) {
        int n = 1 + prng_below(&r, round < 1000 ? 12 : 300), values = 1 + prng_below(&r, 2 * n);
        for (int i = 0; i < n; i++)
            v[i] = sorted[i] = (prng_below(&r, values) - values / 2) * 0.25;
        lw_sort(sorted, n, lw_compare_double);
        for (int tries = 0; tries < 4; tries++) { /* also of an array that it has reordered */
            int k = prng_below(&r, n);
            double found = lw_kth_smallest(v, n, k);
            if (found != sorted[k])
                fail_msg("round %d: %g at %d of %d, expected %g", round, found, k, n, sorted[k]);
        }
    }
}
