/* What `lapwing bench plan-3d` promises: gpt-175b on 16,384 ranks in less than 500 MB, because
 * ranks of a role share their program. */
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

TEST(thousands_of_ranks_fit_into_500_mb)
{
    const char *text = lapwing("bench plan-3d --format json", NULL);

    assert_int_equal((int)number_after(text, "\"ranks\": "), 16384);
    assert_true(number_after(text, "\"peak_rss_bytes\": ") > 1e6);
    assert_true(number_after(text, "\"peak_rss_bytes\": ") < 500e6);
}

/* 16 stages are 16 programs, with 2 data-parallel ranks or with 128. */
TEST(ops_grow_with_the_roles_not_with_the_ranks)
{
    double few =
        number_after(lapwing("bench plan-3d --ranks 256 --format json", NULL), "\"n_events\": ");
    double many =
        number_after(lapwing("bench plan-3d --ranks 16384 --format json", NULL), "\"n_events\": ");

    assert_true(few > 16 * 1000);
    assert_true(many >= few && many < 1.1 * few);
}

TEST(ranks_that_make_no_grid_are_refused)
{
    int rc;

    has(lapwing("bench plan-3d --ranks 100", &rc), "found --ranks 100, allowed: a multiple of 128");
    assert_int_equal(rc, 1);
    has(lapwing("bench strategies --ranks 384", &rc),
        "found --ranks 384, allowed: a multiple of 256");
    assert_int_not_equal(rc, 0);
}
