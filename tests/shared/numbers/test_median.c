/* The median of whole numbers. */
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
