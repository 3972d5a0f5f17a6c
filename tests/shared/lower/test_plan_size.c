/* The size of a plan is known before it is made: an upper bound, and not far from it. That of
 * random plans is checked in test_lower_random. */
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/lower/plan_size.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/prng.h"

/* Of each micro-batch and stage a forward, a backward and four messages, or two at the ends. */
TEST(long_pipelines_have_nearly_the_ops_estimated)
{
    static struct random_model k;
    struct prng r = prng_start(__func__);
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p;
    struct lw_err err = {0};

    do
        random_model(&r, &k);
    while (k.w.n_modules < 8);
    s.pp = 4;
    s.micro_batches = 500;
    assert_int_equal(lw_plan_build(&k.w, &s, NULL, &p, &err), LW_OK);
    int64_t there = p.n_ops, said = lw_plan_size_estimate(&k.w, p.strategy).ops;
    assert_true(there <= said && said <= 4 * there);
    lw_plan_free(&p);
}

/* One module whose 40 gradients become ready one after the other: 40 pieces of each backward. */
TEST(pieces_of_a_backward_count)
{
    enum { N = 40 };
    struct lw_module module = {.name = "m", .forward_ps = LW_PS_PER_MS,
                               .backward_input_ps = LW_PS_PER_MS,
                               .backward_weight_ps = LW_PS_PER_MS, .forward_flops = -1,
                               .forward_bytes = -1, .output_bytes = -1, .kept_bytes = {-1, -1, -1}};
    struct lw_param params[N];
    struct lw_workload w = {.name = "pieces", .n_params = N, .n_modules = 1, .params = params,
                            .modules = &module, .optimizer_ps = LW_PS_PER_MS};
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p;
    struct lw_err err = {0};

    w.from.rank = w.from.step = -1;
    w.recorded.step_ps = w.recorded.step_spread_ps = -1;
    for (int32_t i = 0; i < N; i++)
        params[i] = (struct lw_param){.name = "p", .numel = 64, .dtype = LW_F32, .tied = -1,
                                      .trainable = true, .used = true,
                                      .ready_ps = (N - i) * LW_PS_PER_US};
    s.micro_batches = 100;
    assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
    int64_t there = p.n_ops, said = lw_plan_size_estimate(&w, p.strategy).ops;
    if (there < N * s.micro_batches || there > said || said > 4 * there)
        fail_msg("%" PRId64 " ops, estimated %" PRId64, there, said);
    lw_plan_free(&p);
}

/* Nothing is made: millions of micro-batches are refused as two are, with the size and what shrinks
 * it. */
TEST(what_is_larger_than_the_limit_is_refused_before_planning)
{
    static struct random_model k;
    struct prng r = prng_start(__func__);
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p;
    struct lw_err err = {0};

    random_model(&r, &k);
    s.micro_batches = 2;
    int64_t ops = lw_plan_size_estimate(&k.w, &s).ops;
    s.max_ops = ops - 1;
    assert_int_equal(lw_plan_build(&k.w, &s, NULL, &p, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "raise --max-ops"));
    s.max_ops = ops;
    assert_int_equal(lw_plan_build(&k.w, &s, NULL, &p, &err), LW_OK);
    lw_plan_free(&p);
    s.max_ops = 0;
    s.micro_batches = 8000000;
    assert_int_equal(lw_plan_build(&k.w, &s, NULL, &p, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "--max-ops is 40000000"));
    assert_non_null(strstr(err.msg, "fewer --micro-batches"));
}

/* Small sizes are said as they are; one micro-batch cannot be fewer. */
TEST(a_small_size_is_not_said_to_be_a_million)
{
    static struct random_model k;
    struct prng r = prng_start(__func__);
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};
    char there[64];

    random_model(&r, &k);
    s.max_ops = 1;
    snprintf(there, sizeof there, "up to %" PRId64 " ops, which take about 1 MB of memory",
             lw_plan_size_estimate(&k.w, &s).ops);
    assert_int_equal(lw_plan_size_check(&k.w, &s, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, there));
    assert_non_null(strstr(err.msg, "--max-ops is 1: raise --max-ops"));
}

/* Beyond what 64 bits count: neither a negative number nor an exact one. */
TEST(a_size_that_cannot_be_counted_is_said_to_be_larger)
{
    static struct random_model k;
    struct prng r = prng_start(__func__);
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    random_model(&r, &k);
    s.micro_batches = INT64_MAX;
    assert_int_equal(lw_plan_size_check(&k.w, &s, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "more than 9223372036854 million ops, which take more than "
                                    "9223372036 GB"));
}
