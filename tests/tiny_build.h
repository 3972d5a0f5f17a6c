#ifndef LW_TESTS_TINY_BUILD_H
#define LW_TESTS_TINY_BUILD_H

#include "shared/program.h"
#include "tests/tiny_workload.h"

/* The plan of the tiny workload under a strategy, no cost handed in; the test fails where there is
 * none. For tests of lowering, behind cmocka.h. */
static inline struct lw_plan build(const struct tiny *t, const struct lw_strategy *s)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};

    if (lw_plan_build(&t->w, s, NULL, &p, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return p;
}

#endif
