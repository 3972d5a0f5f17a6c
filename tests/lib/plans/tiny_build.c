/* Plans of the tiny workload under a strategy. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "shared/base/arena.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/tiny_build.h"

void tiny_block(struct tiny *t)
{
    tiny_init(t);
    t->modules[1].tp_split = LW_TP_BLOCK;
    t->modules[1].tp_calls = 2;
    t->modules[1].tp_forward_bytes = t->modules[1].tp_backward_bytes = 2000;
    t->params[B_WEIGHT].tp_split = LW_TP_ROW;
    for (int m = 0; m < 3; m++)
        t->modules[m].output_bytes = 1000 * (m + 1);
}

struct lw_plan build_with(const struct tiny *t, const struct lw_strategy *s,
                          const struct lw_cost *cost)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};

    if (lw_plan_build(&t->w, s, cost, &p, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return p;
}

struct lw_plan build(const struct tiny *t, const struct lw_strategy *s)
{
    return build_with(t, s, NULL);
}

void expect_ops_with(const struct tiny *t, const struct lw_strategy *s, const struct lw_cost *cost,
                     const char *expected)
{
    char text[4096];
    struct lw_plan p = build_with(t, s, cost);

    assert_string_equal(tiny_ops(&p, p.variants[p.n_variants - 1].name, text, sizeof text),
                        expected);
    lw_plan_free(&p);
}

void expect_ops(const struct tiny *t, const struct lw_strategy *s, const char *expected)
{
    expect_ops_with(t, s, NULL, expected);
}

void expect_refusal_with(const struct tiny *t, const struct lw_strategy *s,
                         const struct lw_cost *cost, enum lw_status status, const char *part)
{
    struct lw_plan p = {.n_ranks = -7};
    struct lw_err err = {0};

    assert_int_equal(lw_plan_build(&t->w, s, cost, &p, &err), status);
    if (!strstr(err.msg, part))
        fail_msg("'%s' lacks '%s'", err.msg, part);
    assert_int_equal(p.n_ranks, -7); /* untouched */
}

void expect_refusal(const struct tiny *t, const struct lw_strategy *s, enum lw_status status,
                    const char *part)
{
    expect_refusal_with(t, s, NULL, status, part);
}

bool has_note(const struct lw_plan *p, const char *part)
{
    for (int32_t i = 0; i < p->n_notes; i++)
        if (strstr(p->notes[i], part))
            return true;
    return false;
}

int64_t build_without_memory(const struct lw_workload *w, const struct lw_strategy *s,
                             const struct lw_cost *cost)
{
    struct lw_plan p = {.n_ranks = -5};
    struct lw_err err;
    struct failing_alloc k = failing_alloc_begin(&p, sizeof p);

    do
        lw_alloc_fail_at(++k.n);
    while (failing_alloc_failed(&k, lw_plan_build(w, s, cost, &p, &err)));
    lw_plan_free(&p);
    failing_alloc_end(&k, 0);
    return k.n - 1;
}
