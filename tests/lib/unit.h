#pragma once

/* cmocka, and tests that need no list: TEST(name) { ... } defines a test and adds it to those of
 * the program, which run in the order of the file. tests/lib/unit.c has main. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* setup and teardown are called before and after the test and set *state. */
#define TEST_WITH(name, setup, teardown)                                                           \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        unit_add((struct CMUnitTest){#name, name, setup, teardown, NULL});                         \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* setup and teardown are called before the first test of the program and after the last one. */
#define TEST_GROUP(setup, teardown)                                                                \
    __attribute__((constructor)) static void set_group(void)                                       \
    {                                                                                              \
        unit_group(setup, teardown);                                                               \
    }

/* How many random cases: `many` where LAPWING_MANY is set, as make test does, else `few`. */
int unit_cases(int few, int many);

/* The call succeeds; else the test fails with the message of the struct lw_err. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            fail_msg("%s", (err).msg);                                                             \
    } while (0)

/* A program that is also started otherwise: other(argc, argv) returns the status of the process, or
 * -1 where the tests are to run. */
#define TEST_MAIN(other)                                                                           \
    __attribute__((constructor)) static void set_main(void)                                        \
    {                                                                                              \
        unit_main(other);                                                                          \
    }

void unit_add(struct CMUnitTest test);
void unit_main(int (*other)(int argc, char **argv));
void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown);
