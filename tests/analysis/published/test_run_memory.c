/* What a table's kind of memory figure shows beside the plan's bytes. */
#include "tests/lib/unit.h"

#include <math.h>

#include "analysis/published/run_framework.h"
#include "analysis/published/run_memory.h"

static const struct lw_device device = {.framework_bytes = {.value = 1e9, .source = "a test"}};

static struct lw_run run_of(const char *framework, const char *memory, int64_t tp, int64_t pp)
{
    return (struct lw_run){.framework = framework, .memory = memory, .options = "",
                           .seq_parallel = "yes",
                           .precision = "bf16, fp32 gradient accumulation", .grad_dtype = "",
                           .mbs = 2, .hidden = 1000, .seq = 100, .cp = 1, .layers = 10,
                           .micro_batches = 8, .tp = tp, .pp = pp};
}

static double shown(struct lw_run r)
{
    struct lw_measure ranks[] = {{.rank = 0, .peak_memory_bytes = 1000000000},
                                 {.rank = 1, .peak_memory_bytes = 2000000000}};
    struct lw_summary s = {.n_ranks = 2, .ranks = ranks, .peak_memory_bytes = 2000000000};

    return lw_run_shown_bytes(&r, &device, &s);
}

/* One whole input or output: 2 samples of 100 tokens, 1000 elements of 2 bytes. */
TEST(figures_of_each_kind)
{
    static const struct {
        const char *framework, *memory;
        int64_t tp, pp;
        double bytes;
    } cases[] = {
        {"Megatron-LM", "", 1, 1, 2e9},
        {"Megatron-LM", "reserved", 1, 1, 1.056 * 2e9},
        {"Megatron-LM", "reserved of rank 0", 1, 1, 1.056 * 1e9},
        {"Megatron-LM", "nvidia-smi", 1, 1, 1.056 * 2e9 + 1e9},
        {"Megatron-LM", "", 4, 1, 2e9 + 3 * 4e5},
        {"nanotron", "", 4, 1, 2e9 + 40 * 4e5},
        {"nanotron", "", 4, 2, 2e9 + 3 * 4e5},
        {"Megatron-DeepSpeed", "", 1, 4, 2e9 + 4 * 4e5},
        {"Megatron-DeepSpeed", "", 1, 16, 2e9 + 8 * 4e5},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double bytes = shown(run_of(cases[k].framework, cases[k].memory, cases[k].tp, cases[k].pp));
        if (fabs(bytes - cases[k].bytes) > 1)
            fail_msg("case %zu: found %.0f, expected %.0f", k, bytes, cases[k].bytes);
    }
}

/* The fullest rank, with the allocator's reserve; what the host is ahead of is not needed. */
TEST(needed_is_of_the_fullest_rank)
{
    struct lw_summary s = {.peak_memory_bytes = 2000000000};
    struct lw_run r = run_of("nanotron", "reserved of rank 0", 4, 1);

    assert_true(fabs(lw_run_needed_bytes(&r, &s) - 1.056 * (2e9 + 3 * 4e5)) < 1);
}

TEST(gradients_of_the_parameters_type_lie_beside_their_sums)
{
    static const char *const frameworks[] = {"nanotron", "Megatron-LM"};

    for (int k = 0; k < 2; k++) {
        struct lw_role role = {.static_bytes = {[LW_MEM_PARAMS] = 20, [LW_MEM_GRADS] = 40}};
        struct lw_plan plan = {.n_roles = 1, .roles = &role};
        struct lw_run r = run_of(frameworks[k], "", 1, 1);
        lw_run_hold(&r, &plan);
        assert_int_equal(role.static_bytes[LW_MEM_GRADS], k == 0 ? 60 : 40);
    }
}

/* A flat gradient of 2 bytes and one of 4 beside a master and two states; two states of the type
 * of the weights alone. Sums in f32 need no copy. */
TEST(a_step_takes_copies_of_gradients)
{
    static const struct {
        const char *framework, *precision;
        int64_t bytes;
    } cases[] = {{"Megatron-DeepSpeed", "fp16", 18}, {"InternEvo", "bf16", 22},
                 {"torchtune", "bf16", 4}, {"Megatron-LM", "bf16", 12},
                 {"Megatron-DeepSpeed", "bf16 (fp32 grad accumulation)", 12}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_role role = {.static_bytes = {[LW_MEM_OPTIMIZER] = 12000}};
        struct lw_plan plan = {.n_roles = 1, .roles = &role};
        struct lw_run r = run_of(cases[k].framework, "", 1, 1);
        r.precision = cases[k].precision;
        lw_run_hold(&r, &plan);
        assert_int_equal(role.static_bytes[LW_MEM_OPTIMIZER], 1000 * cases[k].bytes);
    }
}

/* A bucket of 5e8 16-bit gradients where ranks reduce; beside sums the weights twice. */
TEST(deepspeed_flattens_weights_and_buckets_gradients)
{
    for (int k = 0; k < 3; k++) {
        struct lw_role role = {.static_bytes = {[LW_MEM_PARAMS] = 20}};
        struct lw_plan plan = {.n_roles = 1, .roles = &role};
        struct lw_run r = run_of("Megatron-DeepSpeed", "", 1, 1);
        r.precision = k < 2 ? "fp16" : "bf16 (fp32 grad accumulation)";
        r.dp = k == 0 ? 1 : 2;
        lw_run_hold(&r, &plan);
        assert_int_equal(role.static_bytes[LW_MEM_BUCKETS], k == 1 ? 1000000000 : 0);
        assert_int_equal(role.static_bytes[LW_MEM_PARAMS], k == 2 ? 40 : 20);
    }
}

/* Options of a cumulative row are those up to the last one. */
TEST(cumulative_options_contain_those_before)
{
    struct lw_role role = {.static_bytes = {[LW_MEM_GRADS] = 20}};
    struct lw_plan plan = {.n_roles = 1, .roles = &role};
    struct lw_run r = run_of("torchtune", "", 1, 1);

    r.precision = "bf16";
    r.options = "cumulative: + chunked cross entropy";
    assert_true(lw_run_takes(&r, "compile") && lw_run_takes(&r, "chunked"));
    assert_false(lw_run_takes(&r, "checkpointing"));
    lw_run_hold(&r, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_GRADS], 20);
    r.options = "cumulative: + optimizer in backward";
    lw_run_hold(&r, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_GRADS], 0);
    r.options = "8-bit";
    assert_false(lw_run_takes(&r, "8-bit"));
}

/* Of an embedding, a norm, two matrices of blocks on two stages, and a head. */
TEST(weights_of_8_bits_are_those_of_products)
{
    struct lw_plan_param params[] = {{.module = 0, .numel = 1000000}, {.module = 1, .numel = 1000},
                                     {.module = 1, .numel = 500000},
                                     {.module = 2, .stage = 1, .numel = 100000},
                                     {.module = 3, .stage = 1, .numel = 1000000}};
    struct lw_role roles[] = {{.static_bytes = {3002000}}, {.stage = 1, .static_bytes = {2200000}}};
    struct lw_plan plan = {.n_roles = 2, .roles = roles, .n_params = 5, .params = params,
                           .n_modules = 4};
    struct lw_run r = run_of("NeMo", "", 1, 2);

    lw_run_hold(&r, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 3002000);
    r.precision = "FP8";
    lw_run_hold(&r, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 2502000);
    assert_int_equal(roles[1].static_bytes[LW_MEM_PARAMS], 2100000);
}
