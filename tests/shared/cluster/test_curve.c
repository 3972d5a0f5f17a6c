/* Between and beyond measured sizes (shared/cluster/curve.h), and the logarithms that it needs. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/numbers/loglog.h"
#include "shared/cluster/curve.h"

static void curve_is(struct lw_curve c, int64_t size, lw_ps time, const char *how)
{
    const char *detail = "";

    assert_int_equal(lw_curve_at(c, size, &detail), time);
    assert_string_equal(detail, how);
}

/* 1000 -> 4000: 10 -> 40, slope 1: at 2000 20. 4000 -> 64000: 40 -> 160, slope log 4 / log 16 =
 * 1/2: at 16000 80. Beyond: 120 for 60000 more, 1 for each 500. */
TEST(it_is_straight_on_log_axes_and_goes_on_with_its_last_slope)
{
    const int64_t sizes[] = {1000, 4000, 64000};
    const lw_ps times[] = {10, 40, 160};
    struct lw_curve c = {3, sizes, times};

    curve_is(c, 0, 10, "below the smallest measured size");
    curve_is(c, 999, 10, "below the smallest measured size");
    curve_is(c, 1000, 10, "measured");
    curve_is(c, 2000, 20, "between measured sizes");
    curve_is(c, 4000, 40, "measured");
    curve_is(c, 16000, 80, "between measured sizes");
    curve_is(c, 64000, 160, "measured");
    curve_is(c, 64500, 161, "beyond the largest measured size");
    curve_is(c, 124000, 280, "beyond the largest measured size");
}

TEST(without_a_slope_it_goes_on_in_proportion)
{
    const int64_t sizes[] = {10, 20, 30};
    const lw_ps times[] = {5, 9, 9};

    curve_is((struct lw_curve){1, sizes, times}, 40, 20, "beyond the largest measured size");
    curve_is((struct lw_curve){3, sizes, times}, 60, 18, "beyond the largest measured size");
}

/* Zero has no logarithm: from 0 at 1 to 100 at 5, at 3 half of it. */
TEST(next_to_zero_it_is_straight_on_plain_axes)
{
    const int64_t from_one[] = {1, 5}, from_zero[] = {0, 4};
    const lw_ps none[] = {0, 100}, some[] = {20, 100};

    curve_is((struct lw_curve){2, from_one, none}, 3, 50, "between measured sizes");
    curve_is((struct lw_curve){2, from_zero, some}, 2, 60, "between measured sizes");
    curve_is((struct lw_curve){1, from_zero, some}, 7, 20, "beyond the largest measured size");
}

TEST(logarithms_agree_with_the_c_library)
{
    for (double x = 1e-9; x < 1e18; x *= 1.37) {
        assert_true(fabs(lw_log(x) - log(x)) <= 4e-15 * (1 + fabs(log(x))));
        assert_true(fabs(lw_exp(log(x)) / exp(log(x)) - 1) < 1e-14);
    }
}
