/* The hash and the first difference of plans: shared/plan/plan_fields.c. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/plan/plan.h"
#include "shared/lower/lower.h"
#include "shared/plan/strategy.h"
#include "tests/lib/tiny_workload.h"

static struct lw_plan build(const struct tiny *t, int64_t cap)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p = {0};
    struct lw_err err = {0};

    s.dp = 2;
    s.bucket_cap_bytes = cap;
    assert_ok(lw_plan_build(&t->w, &s, NULL, &p, &err), err);
    return p;
}

static void assert_diff(const struct lw_plan *a, const struct lw_plan *b, const char *expected)
{
    char text[512];

    assert_int_equal(lw_plan_diff(a, b, text, sizeof text), *expected != 0);
    assert_string_equal(text, expected);
}

TEST(equal_plans_have_no_difference)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 1200);
    assert_diff(&a, &b, "");
    lw_plan_free(&b);
    lw_plan_free(&a);
}

TEST(the_first_decision_that_differs_is_named)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 800);
    assert_diff(&a, &b, "strategy: --bucket-cap is '1200' in the first plan, '800' in the second");
    b.strategy->bucket_cap_bytes = 1200;
    /* 800: c.weight 1200 | b.bias 8 + b.weight 800 | a.weight 400 */
    assert_diff(&a, &b,
                "bucket set 1 'rebuilt': number of buckets is 2 in the first plan, 3 in the "
                "second");
    lw_plan_free(&b);

    t.params[B_WEIGHT].numel = 201;
    b = build(&t, 1200);
    assert_diff(&a, &b,
                "role 0 'data': parameter bytes is 2408 in the first plan, 2412 in the second");
    lw_plan_free(&b);

    tiny_init(&t);
    t.modules[1].forward_ps++;
    b = build(&t, 1200);
    assert_diff(&a, &b,
                "work of op 1 (forward, module 1) of 'first' for role 'data': time in ps is "
                "2000000 in the first plan, 2000001 in the second");
    lw_plan_free(&b);

    tiny_init(&t);
    t.order[1] = B_WEIGHT;
    t.order[2] = B_BIAS;
    t.params[B_WEIGHT].ready_ps = t.params[B_BIAS].ready_ps;
    b = build(&t, 1200);
    assert_diff(&a, &b,
                "bucket 2: gradient 0 is 'b.bias' in the first plan, 'b.weight' in the second");
    lw_plan_free(&b);
    lw_plan_free(&a);
}

TEST(a_work_that_no_op_uses_is_named_by_its_number)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 1200);
    for (int32_t i = 0; i < a.n_ops; i++)
        a.ops[i].work = b.ops[i].work = -1;
    a.works[1].ps = 5;
    b.works[1].ps = 6;
    assert_diff(&a, &b, "work 1: time in ps is 5 in the first plan, 6 in the second");
    a.n_ops = b.n_ops = 0;
    assert_diff(&a, &b, "work 1: time in ps is 5 in the first plan, 6 in the second");
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* Every single word of an op that the hash covers is a difference in words too. */
TEST(what_changes_the_hash_is_found)
{
    struct tiny t;
    char text[512];
    struct lw_err err = {0};

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 1200);
    for (int32_t i = 0; i < a.n_ops; i += 7) {
        for (size_t at = 0; at < offsetof(struct lw_op, name); at += sizeof(int32_t)) {
            int32_t *word = (int32_t *)(void *)((char *)&b.ops[i] + at), old = *word;
            if (at == offsetof(struct lw_op, kind)) /* shares its word with dtype and stage */
                continue;
            *word = old == 0;
            if (b.ops[i].n_deps <= b.n_deps && b.ops[i].work < b.n_works &&
                b.ops[i].first_dep + b.ops[i].n_deps <= b.n_deps &&
                b.ops[i].first_ready + b.ops[i].n_ready <= b.n_ready) {
                char before[33];
                memcpy(before, b.hash, sizeof before);
                assert_int_equal(lw_plan_hash(&b, &err), LW_OK);
                assert_int_equal(lw_plan_diff(&a, &b, text, sizeof text),
                                 strcmp(a.hash, b.hash) != 0);
                memcpy(b.hash, before, sizeof before);
            }
            *word = old;
        }
    }
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* c.weight is complete after 5 us, the other bucket after the last gradient at 12 us. */
TEST(a_launch_point_is_the_backward_before_it)
{
    struct tiny t;
    struct lw_launch_point at[3];

    tiny_init(&t);
    struct lw_plan p = build(&t, 1200);
    lw_plan_launch_points(&p, lw_plan_find_variant(&p, "steady"), 0, 3, at);
    assert_int_equal(at[0].op, -1); /* of the first step's set */
    assert_int_equal(at[1].at, 5 * LW_PS_PER_US);
    assert_int_equal(at[1].n_ready, 1);
    assert_int_equal(at[2].at, 12 * LW_PS_PER_US);
    assert_int_equal(at[2].n_ready, 4);
    lw_plan_free(&p);
}
