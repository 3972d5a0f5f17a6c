/* Saturating arithmetic against 128 bits. */
#include <math.h>
#include "tests/lib/unit.h"

#include "shared/numbers/checked.h"

static int64_t clamp(__int128 x)
{
    return x > INT64_MAX ? INT64_MAX : x < INT64_MIN ? INT64_MIN : (int64_t)x;
}

TEST(results_are_those_of_wide_arithmetic_at_the_limits)
{
    static const int64_t v[] = {0, 1, -1, 2, -2, 3037000499, 3037000500, -3037000500, INT64_MAX,
                                INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2,
                                INT64_MIN / 2, 1000, 1000000000000};
    enum { N = sizeof v / sizeof v[0] };

    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            assert_int_equal(lw_add_sat(v[i], v[k]), clamp((__int128)v[i] + v[k]));
            assert_int_equal(lw_mul_sat(v[i], v[k]), clamp((__int128)v[i] * v[k]));
        }
}

TEST(doubles_round_or_saturate)
{
    assert_int_equal(lw_round_sat(0.5), 1);
    assert_int_equal(lw_round_sat(-0.5), -1);
    assert_int_equal(lw_round_sat(2.4999), 2);
    assert_int_equal(lw_round_sat(9223372036854774784.0), 9223372036854774784);
    assert_int_equal(lw_round_sat(9223372036854775808.0), INT64_MAX);
    assert_int_equal(lw_round_sat(1e300), INT64_MAX);
    assert_int_equal(lw_round_sat(-1e300), INT64_MIN);
    assert_int_equal(lw_round_sat(INFINITY), INT64_MAX);
    assert_int_equal(lw_round_sat(NAN), 0);
}
