/* Ctrl-C in `lapwing bench`: the rows measured so far are printed, and what is not kept is said. */
#include "tests/lib/unit.h"

#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

/* 'plan' of 100 million parameters lasts beyond any wait; the rows before it are in the table. */
TEST_WITH(an_interrupted_table_has_its_first_rows, fixture_open, fixture_close)
{
    int rc;
    const char *out = shell("timeout --foreground -k 60 -s INT 0.8 $L bench --params 100000000",
                            &rc);

    assert_int_equal(rc, 124); /* timeout's own */
    assert_non_null(strstr(out, "interrupted in benchmark "));
    assert_true(strstr(out, "\nw-ar ") != NULL || strstr(out, "nothing is measured") != NULL);
}

TEST_WITH(an_interrupted_comparison_keeps_nothing_and_says_so, fixture_open, fixture_close)
{
    int rc;
    const char *out = shell("timeout --foreground -k 60 -s INT 0.5 $L bench by-hand", &rc);

    assert_int_equal(rc, 124);
    assert_non_null(strstr(out, " of 30 pairs: nothing is kept"));
}

TEST_GROUP(NULL, NULL)
