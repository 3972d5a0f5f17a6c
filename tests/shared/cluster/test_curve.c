/* Between and beyond measured sizes (shared/cluster/curve.h), and the logarithms that it needs. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/numbers/loglog.h"
#include "shared/cluster/curve.h"
#include "tests/lib/prng.h"

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
    const lw_ps times[] = {5, 9, 5};

    curve_is((struct lw_curve){1, sizes, times}, 40, 20, "beyond the largest measured size");
    curve_is((struct lw_curve){2, sizes, times}, 40, 17, "beyond the largest measured size");
    curve_is((struct lw_curve){3, sizes, times}, 60, 10, "beyond the largest measured size");
}

/* Two rows 2 KiB apart differ by noise, not by what 2 KiB cost: twice the bytes take twice the
 * time. A row of at most half the size gives the slope: (200 - 120) / 1000, so 2000 more bytes take
 * 160 more. */
TEST(rows_of_nearly_one_size_give_no_slope)
{
    const int64_t near[] = {5263360, 5265408}, sizes[] = {1000, 1900, 2000};
    const lw_ps noisy[] = {11942, 12198}, times[] = {120, 130, 200};

    curve_is((struct lw_curve){2, near, noisy}, 2 * 5265408, 2 * 12198,
             "beyond the largest measured size");
    curve_is((struct lw_curve){3, sizes, times}, 4000, 360, "beyond the largest measured size");
}

/* 10 at 1000, 50 at 2000: a slope of 40 in 1000 would need a latency of -30. In proportion: 25 in
 * 1000. */
TEST(a_slope_is_at_most_the_mean_rate)
{
    const int64_t sizes[] = {1000, 2000};
    const lw_ps times[] = {10, 50};

    curve_is((struct lw_curve){2, sizes, times}, 4000, 100, "beyond the largest measured size");
}

TEST(beyond_the_rows_time_grows_no_faster_than_bytes)
{
    struct prng r = prng_start("curve");
    const char *unused;

    for (int round = 0; round < 500; round++) {
        int64_t sizes[6];
        lw_ps times[6];
        int32_t n = (int32_t)prng_in(&r, 1, 6);
        for (int32_t i = 0; i < n; i++) {
            sizes[i] = (i ? sizes[i - 1] : 0) + prng_in(&r, 1, 5000);
            times[i] = prng_in(&r, 1, 1000000);
        }
        struct lw_curve c = {n, sizes, times};
        lw_ps before = times[n - 1];
        for (int64_t k = 2; k < 100; k++) {
            lw_ps t = lw_curve_at(c, k * sizes[n - 1], &unused);
            assert_true(t >= before && t <= k * times[n - 1]);
            before = t;
        }
    }
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
