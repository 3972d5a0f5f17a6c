/* Model FLOPs count a parameter as often as a token's products use it (docs/glossary.md): of passes
 * for further tokens, against closed forms. */
#include "tests/lib/unit.h"

#include <math.h>

#include "shared/files/files.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"

TEST_GROUP(fixture_open, fixture_close)

enum { TOKENS = 32, H = 64, V = 128, F = 48, TOP = 2, EXPERTS = 8, RANKS = 4 };

static struct lw_step_yield yield_of(const struct lw_workload *w, const char *words)
{
    struct lw_plan p = plan_of_words(w, words);
    struct lw_step_yield y = p.yield;

    lw_plan_free(&p);
    return y;
}

static const struct traces_model_shape decoder = {
    .batch = 1, .layers = 2, .hidden = H, .heads = 4, .kv_heads = 2, .ffn = 96, .seq = TOKENS,
    .vocab = V, .experts = EXPERTS, .topk = TOP, .expert_ffn = F, .attention = "flash",
};

static struct lw_step_yield decoder_yield(int64_t passes, const char *words)
{
    struct traces_model_shape s = decoder;

    s.mtp_layers = passes;
    struct lw_workload w = model_build("decoder", s);
    struct lw_step_yield y = yield_of(&w, words);
    lw_workload_free(&w);
    return y;
}

/* Queries and the result 2 H H, keys and values 2 H H / 2, two norms 2 H; router H E, two experts
 * of 3 H F; three norms of the two inputs and the result 3 H, 2 H -> H, and the head V H. */
enum {
    BLOCK = 3 * H * H + 2 * H + H * EXPERTS + TOP * 3 * H * F,
    FURTHER = BLOCK + 3 * H + 2 * H * H + V * H,
    CAUSAL = 2 * TOKENS * TOKENS * H, /* half of 4 s^2 h */
    FORWARD = 2 * FURTHER * TOKENS + CAUSAL,
};

TEST(a_further_block_counts_its_pass_of_the_head)
{
    const struct lw_step_yield none = decoder_yield(0, "dp 4"), one = decoder_yield(1, "dp 4"),
                               two = decoder_yield(2, "dp 4");

    assert_true(one.model_flops - none.model_flops == RANKS * 3.0 * FORWARD);
    assert_true(two.model_flops - one.model_flops == RANKS * 3.0 * FORWARD);
    assert_true(one.hardware_flops == one.model_flops);
}

TEST(full_recomputation_repeats_the_whole_pass)
{
    static const char words[] = "dp 4 recompute full";
    const struct lw_step_yield none = decoder_yield(0, words), one = decoder_yield(1, words);

    assert_true(fabs((one.hardware_flops - none.hardware_flops) / (RANKS * 4.0 * FORWARD) - 1) <
                1e-12);
}

/* The head is frozen: its second pass has a forward and one backward, as the first has. */
TEST(reused_parameters_of_adapters_are_frozen)
{
    struct traces_model_shape s = decoder;

    s.experts = s.topk = s.expert_ffn = 0;
    s.lora = 8;
    struct lw_workload none = model_build("decoder", s);
    s.mtp_layers = 1;
    struct lw_workload one = model_build("decoder", s);
    double all = (double)(lw_workload_numel(&one, false) - lw_workload_numel(&none, false) + V * H);
    double trained = (double)(lw_workload_numel(&one, true) - lw_workload_numel(&none, true));
    double more = yield_of(&one, "dp 4").model_flops - yield_of(&none, "dp 4").model_flops;

    assert_true(more == RANKS * ((4 * all + 2 * trained) * TOKENS + 3.0 * CAUSAL));
    lw_workload_free(&none);
    lw_workload_free(&one);
}

static struct lw_workload hybrid(int64_t passes)
{
    return model_build("nemotron-h-8b", (struct traces_model_shape){
                           .batch = 1, .hidden = H, .heads = 4, .kv_heads = 2, .head_width = 16,
                           .seq = TOKENS, .vocab = V, .experts = EXPERTS, .topk = TOP,
                           .expert_ffn = F, .shared_ffn = 96, .expert_latent = 32,
                           .mtp_layers = passes, .attention = "flash", .layer_pattern = "*E"});
}

/* As above with two products of an expert of 32 elements a token, to and from which are 2 H 32, and
 * of the shared one, 2 H 96; 5 norms in all. Every pass has the same. */
TEST(a_repeated_pass_counts_what_the_first_counts)
{
    enum {
        PASS = 3 * H * H + H * EXPERTS + TOP * 2 * 32 * F + 2 * H * 32 + 2 * H * 96 + 5 * H +
               2 * H * H + V * H,
    };
    double before = 0;

    for (int64_t passes = 0; passes < 4; passes++) {
        struct lw_workload w = hybrid(passes);
        double flops = yield_of(&w, "dp 4").model_flops;
        if (passes > 0)
            assert_true(flops - before == RANKS * 3.0 * (2.0 * PASS * TOKENS + CAUSAL));
        before = flops;
        lw_workload_free(&w);
    }
}

TEST(a_file_keeps_what_is_reused)
{
    struct lw_workload w = hybrid(2), read;
    struct lw_err err = {0};

    assert_ok(lw_workload_write(&w, fixture_path("w.json"), &err), err);
    assert_ok(lw_workload_read(fixture_path("w.json"), &read, &err), err);
    for (int32_t i = 0; i < w.n_modules; i++)
        assert_int_equal(read.modules[i].reused_numel, w.modules[i].reused_numel);
    assert_true(w.modules[w.n_modules - 2].reused_numel > V * H);
    lw_workload_free(&read);
    lw_workload_free(&w);
}
