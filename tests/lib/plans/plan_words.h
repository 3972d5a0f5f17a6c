#pragma once

#include "shared/lower/lower.h"
#include "tests/lib/plans/strategy_words.h"

/* The plan of a workload under strategy words, the caller's to free. After cmocka.h. */
static inline struct lw_plan plan_of_words(const struct lw_workload *w, const char *words)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_strategy s = strategy(words);

    if (lw_plan_build(w, &s, NULL, &p, &err) != LW_OK)
        fail_msg("%s: %s", words, err.msg);
    return p;
}

/* There is no such plan, and the message says so. */
static inline void plan_refused(const struct lw_workload *w, const char *words, const char *part)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_strategy s = strategy(words);

    if (lw_plan_build(w, &s, NULL, &p, &err) == LW_OK || !strstr(err.msg, part))
        fail_msg("%s: '%s' lacks '%s'", words, err.msg, part);
}

/* The check refuses the plan, and the message says so. Frees it. */
static inline void plan_faulty(struct lw_plan *p, const char *part)
{
    struct lw_err err = {0};

    assert_int_equal(lw_plan_check(p, &err), LW_EPLAN);
    if (!strstr(err.msg, part))
        fail_msg("'%s' lacks '%s'", err.msg, part);
    lw_plan_free(p);
}
