/* Throughput and arithmetic use against closed forms and published figures. */
#include <math.h>
#include "tests/lib/unit.h"

#include "shared/strategy/strategy.h"
#include "shared/timeline/throughput.h"
#include "tests/lib/plans/tiny_build.h"

static void expect_close(double got, double expected, double within)
{
    if (!(fabs(got - expected) <= within))
        fail_msg("%.9g, expected %.9g", got, expected);
}

static struct lw_throughput yields(struct lw_plan *p, const struct lw_workload *w,
                                   const struct lw_cluster *c, lw_ps step)
{
    struct lw_err err = {0};

    p->yield = (struct lw_step_yield){0};
    if (w)
        assert_ok(lw_plan_count_yield(p, w, &err), err);
    return lw_throughput_of(p, c, step);
}

/* Korthikanti et al., arXiv 2205.05198, table 5: iteration time and MFU of four models on A100 with
 * a peak of 312 TFLOP/s, batch as many samples as devices but for 22B. All scores count there. */
TEST(published_models_have_their_published_use)
{
    static const struct {
        int64_t layers, hidden, batch;
        int32_t devices;
        double seconds, mfu;
    } models[] = {
        {48, 6144, 4, 8, 1.10, 0.415},
        {96, 12288, 64, 64, 13.75, 0.514},
        {105, 20480, 280, 280, 37.83, 0.560},
        {128, 25600, 512, 512, 71.49, 0.563},
    };
    const int64_t seq = 2048, vocab = 51200;

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        int64_t l = models[i].layers, h = models[i].hidden;
        struct lw_module module = {.forward_flops = -1, .kept_bytes[LW_RECOMPUTE_FULL] = -1};
        struct lw_param param = {.numel = 12 * l * h * h + vocab * h, .dtype = LW_BF16, .tied = -1,
                                 .trainable = true};
        struct lw_workload w = {.n_modules = 1, .n_params = 1, .modules = &module, .params = &param,
                                .batch = models[i].batch, .sample_tokens = seq,
                                .attention_flops = 4 * l * seq * seq * h};
        struct lw_cluster c = {.device.peak_flops[LW_BF16] = {312e12, "datasheet"}};
        int32_t variant = 0, role = 0;
        struct lw_variant steady = {.name = "steady", .ends_step = true};
        struct lw_program program = {0, 0};
        struct lw_strategy strategy = {.dp = 1};
        struct lw_plan p = {.n_ranks = models[i].devices, .n_passes = 1, .pass_variant = &variant,
                            .n_variants = 1, .n_roles = 1, .role_of = &role, .variants = &steady,
                            .programs = &program, .strategy = &strategy};
        struct lw_throughput t = yields(&p, &w, &c, (lw_ps)(models[i].seconds * 1e12));
        expect_close(t.mfu, models[i].mfu, 0.002); /* times have 2 decimals */
        expect_close(t.hfu, t.mfu, 1e-12);
        assert_int_equal(t.samples, models[i].batch);
        strategy.recompute = LW_RECOMPUTE_FULL;
        t = yields(&p, &w, &c, (lw_ps)(models[i].seconds * 1e12));
        expect_close(t.hfu, t.mfu * 4 / 3, 1e-12);
        /* frozen: 4 P T and not 6, and a forward of 2 P T again */
        double products = 2 * (double)(param.numel * t.tokens), hardware = t.hardware_flops;
        param.trainable = false;
        t = yields(&p, &w, &c, (lw_ps)(models[i].seconds * 1e12));
        expect_close(hardware - t.hardware_flops, products, 1e-6 * products);
        expect_close(t.hardware_flops - t.model_flops,
                     products + (double)(w.attention_flops * t.samples), 1e-6 * products);
    }
}

/* 3 modules of 600 FLOPs forward, batch 1; 2 ranks, 4 micro-batches, 1 ms a step. */
TEST(other_models_count_their_modules)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_cluster c = {.price_per_device_hour = {3.6, "list"}};
    struct tiny tiny;

    tiny_init(&tiny);
    tiny.modules[0].output_bytes = tiny.modules[1].output_bytes = 8;
    s.pp = 2;
    s.micro_batches = 4;
    struct lw_plan p = build(&tiny, &s);
    struct lw_throughput t = yields(&p, &tiny.w, &c, LW_PS_PER_MS);
    assert_int_equal(t.samples, 4);
    assert_int_equal(t.tokens, 0);
    expect_close(t.samples_per_s, 4000, 1e-6);
    expect_close(t.model_flops, 4 * 3 * 1800, 1e-6);
    expect_close(t.model_flops_per_s, 4 * 3 * 1800 * 1000 / 2.0, 1e-3);
    assert_true(isnan(t.mfu) && isnan(t.tokens_per_s) && isnan(t.price_per_million_tokens));
    /* 10 tokens a sample: 40,000 a second; 2 devices at 3.6 an hour are 0.002 a second */
    tiny.w.sample_tokens = 10;
    t = yields(&p, &tiny.w, &c, LW_PS_PER_MS);
    expect_close(t.tokens_per_s, 40000, 1e-6);
    expect_close(t.price_per_million_tokens, 0.002 / 40000 * 1e6, 1e-12);
    /* 6 x 602 parameters x 40 tokens */
    expect_close(t.model_flops, 6.0 * 602 * 40, 1e-6);
    lw_plan_free(&p);
}

/* Two stages of two blocks each, with a head that keeps the same in every mode: with
 * --recompute-layers 1 the first block of each stage is computed again, 2 x 100 of 440 FLOPs. */
TEST(only_recomputed_flops_count_twice)
{
    int32_t variant = 0, role = 0, stage_of[] = {0, 0, 1, 1, 1};
    struct lw_module modules[5];
    struct lw_param param = {.numel = 10, .dtype = LW_BF16, .tied = -1};
    struct lw_workload w = {.n_modules = 5, .n_params = 1, .modules = modules, .params = &param,
                            .batch = 1};
    struct lw_variant steady = {.name = "steady", .ends_step = true};
    struct lw_program program = {0, 0};
    struct lw_strategy strategy = {.dp = 1, .pp = 2, .recompute = LW_RECOMPUTE_FULL};
    struct lw_plan p = {.n_ranks = 2, .n_passes = 1, .pass_variant = &variant, .n_variants = 1,
                        .n_roles = 1, .role_of = &role, .variants = &steady, .programs = &program,
                        .strategy = &strategy, .stage_of = stage_of};

    for (int k = 0; k < 5; k++)
        modules[k] = (struct lw_module){.forward_flops = k < 4 ? 100 : 40,
                                        .kept_bytes[LW_RECOMPUTE_NONE] = k < 4 ? 50 : 8,
                                        .kept_bytes[LW_RECOMPUTE_FULL] = 8};
    struct lw_throughput t = yields(&p, &w, NULL, LW_PS_PER_MS);
    expect_close(t.model_flops, 3 * 440, 1e-9);
    expect_close(t.hardware_flops, 3 * 440 + 400, 1e-9);
    strategy.recompute_layers = 1;
    t = yields(&p, &w, NULL, LW_PS_PER_MS);
    expect_close(t.hardware_flops, 3 * 440 + 200, 1e-9);
}

/* no-sync 2: two accumulating passes before each that ends the step; dp 2. */
TEST(accumulated_passes_count)
{
    struct lw_strategy s = lw_strategy_default();
    struct tiny tiny;

    tiny_init(&tiny);
    s.dp = 2;
    s.no_sync = 2;
    struct lw_plan p = build(&tiny, &s);
    assert_int_equal(lw_plan_samples(&p, 5), 5 * 3 * 2);
    assert_int_equal(lw_plan_samples(&p, INT64_MAX / 2), INT64_MAX);
    lw_plan_free(&p);
}

TEST(unknown_figures_are_nan)
{
    struct lw_strategy s = lw_strategy_default();
    struct tiny tiny;

    tiny_init(&tiny);
    struct lw_plan p = build(&tiny, &s);
    struct lw_throughput t = yields(&p, NULL, NULL, LW_PS_PER_MS);
    assert_true(t.samples == 0 && isnan(t.samples_per_s) && isnan(t.model_flops) && isnan(t.mfu));
    t = yields(&p, &tiny.w, NULL, 0);
    assert_true(isnan(t.samples_per_s) && !isnan(t.model_flops));
    tiny.modules[1].forward_flops = -1;
    t = yields(&p, &tiny.w, NULL, LW_PS_PER_MS);
    assert_true(isnan(t.model_flops) && !isnan(t.samples_per_s));
    lw_plan_free(&p);
}
