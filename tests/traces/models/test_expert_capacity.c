/* Capacity of experts against closed forms (docs/design/models_experts.md). */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"
#include "traces/models/hf_config.h"

TEST_GROUP(fixture_open, fixture_close)

enum { TOKENS = 32, H = 64, F = 48, TOP = 2, EXPERTS = 8 };

static struct lw_workload build(double capacity, int64_t ranks)
{
    return model_build("decoder", (struct traces_model_shape){
                                      .batch = 1, .layers = 2, .hidden = H, .heads = 4,
                                      .kv_heads = 2, .ffn = 96, .seq = TOKENS, .vocab = 128,
                                      .experts = EXPERTS, .topk = TOP, .expert_ffn = F,
                                      .expert_capacity = capacity, .expert_ranks = ranks});
}

/* The file that the workload is written to. */
static char *text_of(double capacity, const char *name)
{
    struct lw_workload w = build(capacity, 2);
    struct lw_err err = {0};

    assert_ok(lw_workload_write(&w, fixture_path(name), &err), err);
    lw_workload_free(&w);
    return fixture_get(fixture_path(name));
}

TEST(a_capacity_of_one_is_dropless)
{
    char *dropless = text_of(0, "dropless.json"), *one = text_of(1, "one.json");
    char *half = text_of(0.5, "half.json");

    assert_string_equal(one, dropless);
    assert_string_not_equal(half, dropless);
    free(dropless);
    free(one);
    free(half);
}

/* What depends on the C copies of a rank's tokens, of bf16:
 *   products     3 * 2 * H * F * C FLOPs
 *   exchange     2 * H * C bytes
 *   kept         the operand of gate and up, H; results of gate and up, SiLU, the operand of down,
 *                2 F + F + F: 2 * (H + 4 F) bytes a copy
 *   traffic      two permutations of T + C rows at 1.7; two sorts, read and written; operands and
 *                results of both products; SiLU 2 and product 3 of width F */
TEST(work_exchange_and_memory_grow_with_the_capacity)
{
    static const double factors[] = {0.5, 1, 1.25, 2, 4};
    struct lw_workload all = build(0, 2);
    const struct lw_module *a = &all.modules[1];

    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        struct lw_workload w = build(factors[i], 2);
        const struct lw_module *m = &w.modules[1];
        int64_t c = (int64_t)(factors[i] * TOKENS * TOP), more = c - TOKENS * TOP;
        int64_t permute = 2 * H * (TOKENS + c) * 17 / 10;
        int64_t before = 2 * H * (TOKENS + TOKENS * TOP) * 17 / 10;
        int64_t row = 2 * 2 * 2 * H + 2 * (H + 2 * F) + 2 * (F + H) + 2 * 5 * F;

        assert_int_equal(m->forward_flops - a->forward_flops, more * 3 * 2 * H * F);
        assert_int_equal(m->dispatch_bytes, c * 2 * H);
        assert_int_equal(m->kept_bytes[LW_RECOMPUTE_NONE] - a->kept_bytes[LW_RECOMPUTE_NONE],
                         more * 2 * (H + 4 * F));
        assert_int_equal(m->forward_bytes - a->forward_bytes, 2 * (permute - before) + more * row);
        assert_int_equal(w.modules[0].forward_ps, all.modules[0].forward_ps);
        assert_int_equal(w.idle_numel, all.idle_numel);
        assert_int_equal(w.attention_flops, all.attention_flops);
        lw_workload_free(&w);
    }
    lw_workload_free(&all);
}

/* With sequence parallelism a group that splits each expert gathers all copies. */
TEST(a_tensor_group_gathers_the_copies)
{
    struct traces_model_shape s = {
        .batch = 1, .layers = 2, .hidden = H, .heads = 4, .kv_heads = 2, .ffn = 96, .seq = TOKENS,
        .vocab = 128, .experts = EXPERTS, .topk = TOP, .expert_ffn = F, .expert_capacity = 1.25,
        .tensor = 2, .sequence_parallel = true};
    struct lw_workload w = model_build("decoder", s);

    assert_int_equal(w.modules[1].tp_forward_bytes, 2 * H * (TOKENS + TOKENS * TOP * 5 / 4));
    lw_workload_free(&w);
}

TEST(a_plan_sends_the_copies_and_runs)
{
    static const double factors[] = {0.5, 1.25};
    static const char *const words[] = {"dp 4 ep 2 zero 1"};

    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        struct lw_workload w = build(factors[i], 2);
        struct lw_plan p = plan_of_words(&w, words[0]);
        int n = 0;
        for (int64_t k = 0; k < p.n_ops; k++)
            if (p.ops[k].kind == LW_OP_ALL_TO_ALL) {
                n++;
                assert_int_equal(p.ops[k].bytes, (int64_t)(factors[i] * TOKENS * TOP) * 2 * H);
            }
        assert_true(n > 0);
        lw_plan_free(&p);
        exec_expect_verified(&w, words, 1);
        lw_workload_free(&w);
    }
}

/* Of a plan of 4 ranks. */
static struct lw_step_yield yield_of(double capacity, int64_t top, const char *more)
{
    struct lw_workload w =
        model_build("decoder", (struct traces_model_shape){
                                   .batch = 1, .layers = 2, .hidden = H, .heads = 4, .kv_heads = 2,
                                   .ffn = 96, .seq = TOKENS, .vocab = 128, .experts = EXPERTS,
                                   .topk = top, .expert_ffn = F, .expert_capacity = capacity,
                                   .expert_ranks = 2});
    char words[80];

    snprintf(words, sizeof words, "dp 4 ep 2 zero 1%s", more);
    struct lw_plan p = plan_of_words(&w, words);
    struct lw_step_yield y = p.yield;
    lw_plan_free(&p);
    lw_workload_free(&w);
    return y;
}

/* 4 samples through 2 blocks: forward and twice as much backward of the copies that are computed,
 * and with full recomputation another forward. Model FLOPs are those of every token. */
TEST(hardware_flops_count_the_copies_that_are_computed)
{
    static const double factors[] = {0.25, 0.5, 1, 1.25, 4};

    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const struct lw_step_yield y = yield_of(factors[i], TOP, ""), all = yield_of(0, TOP, "");
        const struct lw_step_yield again = yield_of(factors[i], TOP, " recompute full"),
                                   all_again = yield_of(0, TOP, " recompute full");
        double more = (factors[i] - 1) * TOKENS * TOP, forward = 4 * 2 * more * 3 * 2 * H * F;
        assert_true(y.model_flops == all.model_flops);
        assert_true(y.hardware_flops == all.hardware_flops + 3 * forward);
        assert_true(again.hardware_flops == all_again.hardware_flops + 4 * forward);
    }
}

/* Half of two experts a token is as much work as one. */
TEST(half_of_two_experts_is_one)
{
    const struct lw_step_yield half = yield_of(0.5, 2, ""), one = yield_of(0, 1, "");

    assert_true(half.hardware_flops == one.hardware_flops);
    assert_true(one.hardware_flops == one.model_flops);
    assert_true(half.model_flops > half.hardware_flops);
}

static int n_drops(double capacity)
{
    struct lw_workload w = build(capacity, 2);
    int n = 0;

    for (int32_t i = 0; i < w.n_notes; i++)
        n += strcmp(w.notes[i],
                    "assumption: --expert-capacity 0.5 drops 50 % of the copies of tokens that go "
                    "to experts: model FLOPs and MFU count them, hardware FLOPs and HFU do not")
             == 0;
    lw_workload_free(&w);
    return n;
}

TEST(dropped_tokens_are_noted)
{
    assert_int_equal(n_drops(0.5), 1);
    assert_int_equal(n_drops(1), 0);
    assert_int_equal(n_drops(0), 0);
}

TEST(capacity_without_enough_experts_is_refused)
{
    static const struct {
        const char *model, *message;
        double capacity;
    } cases[] = {
        {"gpt2",
         "--expert-capacity does not apply to model gpt2; models of the llama family take it "
         "(decoder, llama-2-7b, mixtral-8x7b, ...)", 1.25},
        {"llama-7b", "--expert-capacity: model llama-7b has no experts; give --experts too", 1},
        {"mixtral-8x7b",
         "--expert-capacity: found 4.5, allowed: 0 (no limit) to 4, where each of 8 experts takes "
         "every token", 4.5},
        {"mixtral-8x7b",
         "--expert-capacity: found -1, allowed: 0 (no limit) to 4, where each of 8 experts takes "
         "every token", -1},
    };
    struct lw_device d = model_device();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape s = {.expert_capacity = cases[i].capacity};
        struct lw_err err = {0};
        struct lw_workload w;
        assert_int_equal(traces_model_build(cases[i].model, &s, &d, &w, &err), LW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

/* The sizes of a configuration with this more; `given`: an option. */
static enum lw_status read_config(const char *more, double given, double *found,
                                  struct lw_err *err)
{
    char text[512];
    struct traces_model_shape s = {.expert_capacity = given};
    const char *name;

    snprintf(text, sizeof text,
             "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
             "\"num_attention_heads\": 4, \"intermediate_size\": 48, \"vocab_size\": 128,"
             "\"max_position_embeddings\": 32, \"num_local_experts\": 8,"
             "\"num_experts_per_tok\": 2%s}", more);
    struct lw_input in = {.name = "config.json", .text = text, .len = strlen(text)};
    enum lw_status status = traces_hf_config(&in, &name, &s, err);
    *found = s.expert_capacity;
    return status;
}

TEST(a_configuration_may_give_it)
{
    static const struct {
        const char *more;
        double given, found;
    } cases[] = {
        {"", 0, 0},
        {", \"moe_expert_capacity_factor\": null", 0, 0},
        {", \"moe_expert_capacity_factor\": 1.25", 0, 1.25},
        {", \"capacity_factor\": 2", 0, 2},
        {", \"capacity_factor\": 2", 1, 1},
    };
    struct lw_err err = {0};
    double found;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(read_config(cases[i].more, cases[i].given, &found, &err), err);
        assert_true(found == cases[i].found);
    }
    assert_int_equal(read_config(", \"capacity_factor\": \"2\"", 0, &found, &err), LW_EFORMAT);
    assert_string_equal(err.msg,
                        "config.json: capacity_factor: expected a number above 0, or null");
}
