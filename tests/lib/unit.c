/* The tests of one program: tests/lib/unit.h. */
#include "tests/lib/unit.h"

#include <stdlib.h>

enum { MOST_TESTS = 128 };

static struct CMUnitTest tests[MOST_TESTS];
static size_t n_tests;
static CMFixtureFunction before_all, after_all;

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

int main(void)
{
    return _cmocka_run_group_tests("tests", tests, n_tests, before_all, after_all);
}
