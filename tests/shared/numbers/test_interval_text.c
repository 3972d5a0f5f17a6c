/* Intervals of a step as text. */
#include "tests/lib/unit.h"

#include "shared/numbers/interval_text.h"

TEST(an_interval_in_percent_is_from_the_step)
{
    char text[LW_INTERVAL_PCT];
    lw_ps ms = LW_PS_PER_MS;

    assert_string_equal(lw_interval_pct(text, 100 * ms, 88 * ms, 130 * ms), "-12/+30");
    assert_string_equal(lw_interval_pct(text, 100 * ms, -1, -1), "-");
    assert_string_equal(lw_interval_pct(text, 0, 88 * ms, 130 * ms), "-");
}
