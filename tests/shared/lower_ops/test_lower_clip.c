/* Clipping and narrowed weights in a plan: shared/lower_ops/lower_clip.c,
 * shared/lower_ops/lower_update.c, docs/design/lower.md. The workload is
 * tests/lib/plans/tiny_workload.h's: 602 f32 elements, 2408 bytes; the optimizer takes 7 us for
 * all. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/tiny_workload.h"

static struct lw_plan build(const char *const (*options)[2])
{
    struct tiny t;
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p = {0};
    struct lw_err err = {0};

    tiny_init(&t);
    for (int i = 0; i < 3; i++)
        t.modules[i].output_bytes = 1000;
    s.dp = 2;
    s.bucket_policy = LW_BUCKET_SINGLE;
    for (; (*options)[0]; options++)
        assert_ok(lw_strategy_set(&s, (*options)[0], (*options)[1], &err), err);
    assert_ok(lw_plan_build(&t.w, &s, NULL, &p, &err), err);
    return p;
}

/* What stands after the last bucket's reduction in the last variant of rank 0. */
static void expect_end(const struct lw_plan *p, const char *end)
{
    char text[4096];
    size_t n = strlen(tiny_ops(p, p->variants[p->n_variants - 1].name, text, sizeof text));

    if (n < strlen(end) || strcmp(text + n - strlen(end), end) != 0)
        fail_msg("'%s' does not end with '%s'", text, end);
}

TEST(every_rank_takes_the_whole_norm)
{
    struct lw_plan p = build((const char *const[][2]){{"clip", "1"}, {0}});
    int32_t op = p.n_ops - 1;

    expect_end(&p, "Co0/2408 Ci1/2408 Co1/2408 O:7");
    assert_int_equal(p.ops[op].kind, LW_OP_OPTIMIZER);
    assert_string_equal(p.ops[op - 1].name, "clip");
    assert_string_equal(p.ops[op - 2].name, "gradient norm");
    lw_plan_free(&p);
}

/* Shares of 301 elements: passes of 1204 bytes around the sum of one f64 over the data group. */
TEST(shards_sum_their_norms_over_the_data_group)
{
    struct lw_plan p = build((const char *const[][2]){
        {"clip", "1"}, {"zero", "1"}, {"shard-policy", "flat-contiguous"}, {0}});

    expect_end(&p, "RS0/2408 Ew Ci2/1204 AR2/8 Co2/1204 O:3 AG1/2408 Ew");
    lw_plan_free(&p);
}

/* The sum waits for the pass that makes it, the pass that scales for the last sum. */
TEST(gradients_are_scaled_after_the_sum)
{
    struct lw_plan p = build((const char *const[][2]){
        {"clip", "1"}, {"zero", "1"}, {"shard-policy", "flat-contiguous"}, {0}});
    int sums = 0;

    for (int32_t i = 1; i < p.n_ops; i++) {
        if (p.ops[i].kind != LW_OP_ALL_REDUCE || p.ops[i].bytes != 8)
            continue;
        assert_int_equal(p.ops[i].n_deps, 1);
        assert_int_equal(p.deps[p.ops[i].first_dep], i - 1);
        assert_string_equal(p.ops[i - 1].name, "gradient norm");
        assert_string_equal(p.ops[i + 1].name, "clip");
        assert_int_equal(p.ops[i + 1].n_deps, 1);
        assert_int_equal(p.deps[p.ops[i + 1].first_dep], i);
        sums++;
    }
    assert_true(sums >= 1);
    lw_plan_free(&p);
}

/* Stage 0 of two holds a and b, 302 elements of 4 bytes; the replica's two ranks sum theirs. */
TEST(stages_sum_their_norms_over_the_replica)
{
    struct lw_plan p = build((const char *const[][2]){
        {"clip", "1"}, {"pp", "2"}, {"micro-batches", "2"}, {0}});
    const struct lw_op *sum = NULL;

    expect_end(&p, "Ci2/1208 AR2/8 Co2/1208 O:3");
    for (int32_t i = 0; i < p.n_ops; i++)
        if (p.ops[i].kind == LW_OP_ALL_REDUCE && p.ops[i].bytes == 8)
            sum = &p.ops[i];
    assert_int_equal(p.comms[sum->comm].purpose, LW_COMM_MODEL);
    assert_int_equal(lw_plan_group(&p, sum->comm, 0)->n_members, 2);
    lw_plan_free(&p);
}

/* Owners 0 and 1 have 402 and 200 elements: 1608 and 800 bytes as f32, half of it on the wire, cast
 * before and after. */
TEST(weights_may_travel_narrowed)
{
    struct lw_plan p = build((const char *const[][2]){
        {"zero", "1"}, {"shard-policy", "oss-greedy"}, {"broadcast-dtype", "f16"}, {0}});

    expect_end(&p, "O:4 Ca1/1608 Bc1/804 Ca2/800 Bc2/400 Ew Ca1/1608 Ca2/800");
    lw_plan_free(&p);
}
