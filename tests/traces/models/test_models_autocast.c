/* --autocast: weights, norms and residuals in f32, products in 16 bits: what is kept, moved and
 * reduced, by closed forms; and what is refused. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/traces/model_help.h"

MODEL_TEST(parameters_are_f32_and_have_no_masters)
{
    struct lw_workload w = MODEL("llama-2-7b", .layers = 1, .autocast = true);

    for (int32_t i = 0; i < w.n_params; i++)
        assert_int_equal(w.params[i].dtype, LW_F32);
    assert_int_equal(w.step_traffic.update, 4 + 2 * 4 * 3); /* gradient; weight and two states */
    for (int64_t i = 0; i < w.n_kernels; i++)
        assert_int_equal(w.kernels[i].dtype, LW_BF16);
}

/* Elements of a block's products: four of attention, three of the gated pair. */
static int64_t weights(const struct traces_model_shape *s)
{
    return 4 * s->hidden * s->hidden + 3 * s->hidden * s->ffn;
}

/* Of a token: queries, keys, values and attention's result; both inputs of the gate, the
 * activation's result and the next operand; one f32 for each row of scores. The two inputs of norms
 * are f32, and `casts` copies of their results are not. */
static int64_t kept(const struct traces_model_shape *s, int64_t casts)
{
    int64_t token = 2 * (4 * s->hidden + 4 * s->ffn) + 4 * s->heads;

    return s->batch * s->seq * (token + 2 * 4 * s->hidden + casts * 2 * s->hidden) +
           2 * weights(s);
}

MODEL_TEST(a_block_keeps_f32_inputs_of_norms_casts_and_copies_of_weights)
{
    unsigned seed = 31;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 40; round++) {
        struct traces_model_shape s = {.layers = 1, .heads = 1 + rand() % 6, .autocast = true,
                                       .ffn = 1 + rand() % 300, .seq = 1 + rand() % 40,
                                       .batch = 1 + rand() % 4, .vocab = 1 + rand() % 99};
        s.hidden = s.heads * 2 * (1 + rand() % 16);
        struct lw_workload shared = model_kept("llama-2-7b", NULL, s);
        s.unfused = TRACES_UNFUSED_BLOCK; /* queries, keys, values; gate and the other product */
        struct lw_workload eager = model_kept("llama-2-7b", NULL, s);
        assert_int_equal(shared.modules[1].kept_bytes[LW_RECOMPUTE_NONE], kept(&s, 2));
        assert_int_equal(eager.modules[1].kept_bytes[LW_RECOMPUTE_NONE], kept(&s, 5));
        assert_int_equal(shared.modules[1].kept_bytes[LW_RECOMPUTE_FULL],
                         4 * s.batch * s.seq * s.hidden + 2 * weights(&s));
        assert_int_equal(shared.modules[1].output_bytes, 4 * s.batch * s.seq * s.hidden);
    }
}

/* One norm for both halves: a shared cast is one, casts of each product are two (queries, keys and
 * values are one product or three). */
MODEL_TEST(parallel_blocks_cast_their_norm_for_each_product)
{
    struct traces_model_shape s = {.layers = 1, .heads = 4, .hidden = 32, .ffn = 64, .seq = 16,
                                   .batch = 2, .autocast = true};
    int64_t h = 2 * s.batch * s.seq * s.hidden;
    struct lw_workload shared = model_kept("gpt-j-6b", NULL, s);
    s.unfused = TRACES_UNFUSED_BLOCK;
    struct lw_workload eager = model_kept("gpt-j-6b", NULL, s);

    assert_int_equal(eager.modules[1].kept_bytes[LW_RECOMPUTE_NONE],
                     shared.modules[1].kept_bytes[LW_RECOMPUTE_NONE] + 3 * h);
}

/* Traffic of a block's kernels that are no products. */
static int64_t traffic(const struct lw_workload *w, int direction)
{
    const struct lw_module *m = &w->modules[1];
    int64_t bytes = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        bytes += w->kernels[k].kind == LW_KERNEL_GEMM ? 0 : w->kernels[k].bytes[direction];
    return bytes;
}

/* Beside the casts of weights an f32 norm moves twice as much, and a residual reads one operand of
 * 16 bits. */
MODEL_TEST(casts_are_traffic)
{
    struct traces_model_shape s = {.layers = 1, .heads = 4, .hidden = 32, .ffn = 64, .seq = 16,
                                   .batch = 2};
    int64_t n = s.batch * s.seq * s.hidden;
    struct lw_workload plain = model_kept("llama-2-7b", NULL, s);
    s.autocast = true;
    struct lw_workload cast = model_kept("llama-2-7b", NULL, s);

    assert_int_equal(traffic(&cast, 0) - traffic(&plain, 0),
                     6 * weights(&s) + 2 * (2 * 2 * n) + 2 * (10 - 6) * n);
    for (int32_t k = 0; k < cast.n_kernels; k++) /* the gradient of a weight is cast back */
        if (cast.kernels[k].kind == LW_KERNEL_GEMM && cast.kernels[k].trained)
            assert_int_equal(cast.kernels[k].sum_bytes, 6);
}

/* Stored scores: the softmax's result is f32. */
MODEL_TEST(a_softmax_runs_in_f32)
{
    struct traces_model_shape s = {.layers = 1, .attention = "full", .autocast = true};
    struct lw_workload cast = model_kept("gpt2", NULL, s);
    s.f32_softmax = true;
    struct lw_workload asked = model_kept("gpt2", NULL, s);

    assert_int_equal(cast.modules[1].kept_bytes[LW_RECOMPUTE_NONE],
                     asked.modules[1].kept_bytes[LW_RECOMPUTE_NONE]);
}

/* Use is of the peak of the products, which are not in the type of the weights. */
MODEL_TEST(the_peak_is_that_of_the_products)
{
    static const struct {
        struct traces_model_shape shape;
        enum lw_dtype peak;
    } cases[] = {{{.autocast = true}, LW_BF16}, {{.autocast = true, .dtype = "f16"}, LW_F16},
                 {{.dtype = "f32"}, LW_F32}, {{.dtype = "bf16"}, LW_BF16}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = model_kept("gpt2", NULL, cases[k].shape);
        const struct lw_strategy s = lw_strategy_default();
        struct lw_plan p = {0};
        struct lw_err err = {0};
        assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
        assert_int_equal(p.yield.dtype, cases[k].peak);
        lw_plan_free(&p);
    }
}

TEST(what_has_no_rule_is_refused)
{
    static const struct {
        const char *model;
        struct traces_model_shape shape;
        const char *why;
    } cases[] = {
        {"mixtral-8x7b", {.autocast = true}, "--autocast: with experts casts are not modelled"},
        {"llama-2-7b", {.autocast = true, .lora = 8}, "--autocast: with --lora casts"},
        {"llama-2-7b", {.autocast = true, .fp8 = true}, "--autocast: with --fp8 casts"},
        {"gpt2", {.autocast = true, .dtype = "f32"},
         "--autocast: products in f32 are not narrower than the weights"},
        {"vit-b-16", {.autocast = true}, "--autocast does not apply to model vit-b-16"},
    };
    struct lw_device d = model_device();

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w;
        struct lw_err err = {0};
        assert_int_equal(traces_model_build(cases[k].model, &cases[k].shape, &d, &w, &err),
                         LW_EINVAL);
        assert_memory_equal(err.msg, cases[k].why, strlen(cases[k].why));
    }
}
