/* Sizes, times and rounding: shared/numbers/units.h. */
#include "tests/lib/unit.h"

#include "shared/numbers/units.h"

TEST(picoseconds_round_half_up_once)
{
    assert_int_equal(lw_ps_to_ns(499), 0);
    assert_int_equal(lw_ps_to_ns(500), 1);
    assert_int_equal(lw_ps_to_ns(1499), 1);
    assert_int_equal(lw_ps_to_ns(-1500), -1);
    assert_int_equal(lw_ps_to_ns(-1501), -2);
}

/* 2^64 / 1000 ns wrapped to 384 ps. */
TEST(nanoseconds_beyond_the_clock_saturate_and_are_shown)
{
    char buf[32];

    assert_int_equal(lw_ns_to_ps(LW_MOST_NS), LW_MOST_NS * 1000);
    assert_int_equal(lw_ns_to_ps(LW_MOST_NS + 1), INT64_MAX);
    assert_int_equal(lw_ns_to_ps(-LW_MOST_NS - 1), INT64_MIN);
    assert_int_equal(lw_ns_to_ps(INT64_C(18446744073709552)), INT64_MAX);
    assert_string_equal(lw_format_ns(buf, INT64_C(18446744073709552)), "18446744.074 s");
    assert_string_equal(lw_format_ns(buf, 1500), "1.500 us");
    assert_string_equal(lw_format_ns(buf, 0), "0 ps");
    assert_string_equal(lw_format_ps(buf, -999), "-999 ps");
}

TEST(transfer_time_of_whole_rates_is_exact)
{
    /* 64 MiB / 8 ranks at 50 GB/s: 8,388,608 B / 50e9 B/s = 167,772,160 ps */
    assert_int_equal(lw_transfer_ps(67108864 / 8, 50e9), 167772160);
    /* 16,384 B: 327.68 ns */
    assert_int_equal(lw_transfer_ps(16384, 50e9), 327680);
    assert_int_equal(lw_transfer_ps(1, 3e12), 0);  /* 0.333 ps */
    assert_int_equal(lw_transfer_ps(1, 2e12), 1);  /* 0.5 ps rounds up */
    assert_int_equal(lw_transfer_ps(0, 0), 0);
    assert_int_equal(lw_transfer_ps(1, 0), INT64_MAX);
}

TEST(sizes_know_both_kinds_of_units)
{
    static const struct { const char *text; int64_t bytes; } good[] = {
        {"0", 0}, {"1024", 1024}, {"1KiB", 1024}, {"25MiB", 26214400}, {"25MB", 25000000},
        {"1.5GiB", 1610612736}, {"2gb", 2000000000}, {"7B", 7},
    };
    static const char *const bad[] = {"",       "MiB", "12XB", "-1",  "1e30",
                                      "9e18KB", "nan", "1 2",  "0x10", "1.5", "0.5B"};
    int64_t v;
    struct lw_err err;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(lw_parse_size(good[i].text, &v, &err), LW_OK);
        assert_int_equal(v, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lw_parse_size(bad[i], &v, &err), LW_EINVAL);
    assert_int_equal(lw_parse_size("9223372036854775807", &v, &err), LW_EINVAL); /* 2^63 - 1 */
    assert_string_equal(err.msg, "size '9223372036854775807' is 9.22e+18 bytes, allowed: less than "
                                 "9.2e+18");
    assert_int_equal(lw_parse_size("1.5", &v, &err), LW_EINVAL);
    assert_string_equal(err.msg, "size '1.5' has a part of a byte; expected whole bytes, or a "
                                 "unit: KiB MiB GiB TiB, KB MB GB TB");
}

TEST(times_need_a_unit)
{
    lw_ps t;
    struct lw_err err;

    assert_int_equal(lw_parse_time("1.5us", &t, &err), LW_OK);
    assert_int_equal(t, 1500000);
    assert_int_equal(lw_parse_time("3s", &t, &err), LW_OK);
    assert_int_equal(t, 3 * LW_PS_PER_S);
    assert_int_equal(lw_parse_time("3", &t, &err), LW_EINVAL);
    assert_string_equal(err.msg, "'3': unknown unit ''; expected a number with ps, ns, us, ms or s"
                                 );
}
