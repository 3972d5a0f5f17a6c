/* The tests of one program: tests/lib/unit.h. Those whose names match the pattern
 * LAPWING_TEST_FILTER run. */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "shared/base/arena.h"

enum { MOST_TESTS = 128 };

static struct CMUnitTest tests[MOST_TESTS];
static size_t n_tests;
static CMFixtureFunction before_all, after_all;
static int (*other_main)(int argc, char **argv);

void unit_add(struct CMUnitTest test)
{
    if (n_tests == MOST_TESTS)
        abort();
    tests[n_tests++] = test;
}

void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    before_all = setup;
    after_all = teardown;
}

void unit_main(int (*other)(int argc, char **argv))
{
    other_main = other;
}

int unit_cases(int few, int many)
{
    return getenv("LAPWING_MANY") ? many : few;
}

int main(int argc, char **argv)
{
    const char *filter = getenv("LAPWING_TEST_FILTER");

    lw_alloc_setup(); /* as lapwing itself */
    int status = other_main ? other_main(argc, argv) : -1;

    if (status >= 0)
        return status;
    if (filter && *filter)
        cmocka_set_test_filter(filter);
    return _cmocka_run_group_tests("tests", tests, n_tests, before_all, after_all);
}
