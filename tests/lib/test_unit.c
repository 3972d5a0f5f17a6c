/* A program of tests runs those that the filter names: tests/lib/unit.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

/* The tests of this program that run under a filter. */
static int n_run(const char *filter)
{
    char line[256];
    int n = 0;

    snprintf(line, sizeof line, "LAPWING_TEST_FILTER='%s' CMOCKA_MESSAGE_OUTPUT=STDOUT %s 2>&1",
             filter, program_invocation_name);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "[ RUN ") != NULL;
    assert_int_equal(pclose(f), 0);
    return n;
}

TEST(others_do_not_run)
{
    assert_int_equal(n_run("one*"), 1);
    assert_int_equal(n_run("*two*"), 2);
}

TEST(one_and_two)
{
}

TEST(two)
{
}
