/* What a table's kind of memory figure shows beside the plan's bytes. */
#include "tests/lib/unit.h"

#include <math.h>

#include "analysis/published/run_framework.h"
#include "analysis/published/run_memory.h"
#include "shared/plan/strategy.h"

static const struct lw_device device = {.framework_bytes = {.value = 1e9, .source = "a test"},
                                        .memory_bytes = {.value = 81e9, .source = "a test"}};
static const double RESERVE = 1.056;

static struct lw_run run_of(const char *framework, const char *memory, int64_t tp, int64_t pp)
{
    return (struct lw_run){.framework = framework, .memory = memory, .options = "",
                           .seq_parallel = "yes", .partition = "", .vpp = 1,
                           .precision = "bf16, fp32 gradient accumulation", .grad_dtype = "",
                           .mbs = 2, .hidden = 1000, .seq = 100, .cp = 1, .layers = 10, .dp = 1,
                           .gpus_per_node = 8, .micro_batches = 8, .tp = tp, .pp = pp};
}

/* Two ranks that hold `held` throughout, and 1 and 2 GB at most. */
struct fixture {
    struct lw_strategy strategy;
    struct lw_role role;
    int32_t role_of[2];
    struct lw_plan plan;
    struct lw_measure ranks[2];
    struct lw_summary summary;
};

static void set_up(struct fixture *x, int64_t params, int64_t grads, int64_t optimizer)
{
    *x = (struct fixture){
        .strategy = lw_strategy_default(),
        .role.static_bytes = {[LW_MEM_PARAMS] = params, [LW_MEM_GRADS] = grads,
                              [LW_MEM_OPTIMIZER] = optimizer},
        .ranks = {{.rank = 0, .peak_memory_bytes = 1000000000},
                  {.rank = 1, .peak_memory_bytes = 2000000000}},
    };
    x->plan = (struct lw_plan){.strategy = &x->strategy, .n_ranks = 2, .n_roles = 1,
                               .roles = &x->role, .role_of = x->role_of};
    x->summary = (struct lw_summary){.n_ranks = 2, .ranks = x->ranks,
                                     .peak_memory_bytes = 2000000000};
}

static double shown(const struct fixture *x, struct lw_run r, double device_share)
{
    return lw_run_shown_bytes(&r, &x->plan, &device, &x->summary, device_share);
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
        {"Megatron-DeepSpeed", "", 1, 4, 2e9 + 4 * 4e5},
        {"Megatron-DeepSpeed", "", 1, 16, 2e9 + 8 * 4e5},
        {"nanotron", "", 4, 4, 2e9 + 3 * 4e5 + 4 * 4e5 / 4},
    };
    struct fixture x;

    set_up(&x, 0, 0, 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double bytes =
            shown(&x, run_of(cases[k].framework, cases[k].memory, cases[k].tp, cases[k].pp), 1);
        if (fabs(bytes - cases[k].bytes) > 1)
            fail_msg("case %zu: found %.0f, expected %.0f", k, bytes, cases[k].bytes);
    }
}

/* Whole inputs that wait for a collective where the host is ahead: without stages, where the
 * device is slower, and in a first stage that has no more blocks than another; ten blocks on two
 * and four stages are 5, 5 and 3, 3, 2, 2, eleven on two 6, 5. On 512 devices hosts sleep between
 * stages. */
TEST(a_host_that_is_ahead_holds_whole_inputs)
{
    static const struct {
        int64_t tp, pp, micro_batches;
        double device_share, held;
        int64_t gpus, layers;
    } cases[] = {
        {4, 1, 8, 0.5, 50, 8, 10},   {4, 1, 1, 0.5, 25, 8, 10},   {4, 2, 8, 0.9, 50, 8, 11},
        {4, 2, 8, 0.5, 3, 8, 11},    {4, 2, 8, 0.5, 50, 8, 10},   {4, 2, 1, 0.9, 25, 8, 11},
        {4, 2, 1, 0.5, 25, 8, 10},   {4, 4, 8, 0.5, 50, 8, 10},   {16, 4, 8, 0.5, 50, 64, 10},
        {16, 4, 8, 0.5, 3, 512, 10}, {16, 4, 8, 0.9, 50, 512, 10}, {4, 4, 8, 0.5, 25, 512, 10},
        {4, 2, 8, 0.5, 3, 512, 10},
    };
    struct fixture x;

    set_up(&x, 0, 0, 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_run r = run_of("nanotron", "reserved", cases[k].tp, cases[k].pp);
        r.micro_batches = cases[k].micro_batches;
        r.gpus = cases[k].gpus;
        r.layers = cases[k].layers;
        double outputs = r.pp == 1 ? 0 : fmin((double)r.pp, (double)r.micro_batches);
        double bytes = RESERVE * (2e9 + (cases[k].held + outputs / (double)r.tp) * 4e5);
        if (fabs(shown(&x, r, cases[k].device_share) - bytes) > 1)
            fail_msg("case %zu: found %.0f, expected %.0f", k, shown(&x, r, cases[k].device_share),
                     bytes);
    }
}

/* 78 GB and three whole inputs fit 80, fifty do not: these are freed. */
TEST(what_is_held_gives_way_on_a_full_device)
{
    struct lw_run r = run_of("nanotron", "reserved", 4, 1);
    struct fixture x;

    set_up(&x, 0, 0, 0);
    r.hidden = 100000; /* 40 MB a whole input */
    x.ranks[1].peak_memory_bytes = 74000000000;
    assert_true(fabs(shown(&x, r, 1) - RESERVE * (74e9 + 3 * 4e7)) < 1);
    x.ranks[1].peak_memory_bytes = 70000000000;
    assert_true(fabs(shown(&x, r, 1) - RESERVE * (70e9 + 50 * 4e7)) < 1);
}

/* The fullest rank, with the allocator's reserve; what the host is ahead of is not needed. */
TEST(needed_is_of_the_fullest_rank)
{
    struct lw_run r = run_of("nanotron", "reserved of rank 0", 4, 1);
    struct fixture x;

    set_up(&x, 0, 0, 0);
    assert_true(fabs(lw_run_needed_bytes(&r, &x.plan, &x.summary) - RESERVE * (2e9 + 3 * 4e5)) < 1);
}

/* Of 1 GB at most 200 MB are weights and 400 MB sums: 400 MB of activations are more than the
 * 200 MB of gradients, which take their blocks. Of two micro-batches' 300 MB one frees 150 MB. */
TEST(gradients_beside_sums_take_the_blocks_of_activations)
{
    struct lw_run r = run_of("nanotron", "reserved of rank 0", 1, 1);
    struct fixture x;

    set_up(&x, 200000000, 400000000, 0);
    assert_true(fabs(shown(&x, r, 1) - (6e8 + RESERVE * 4e8)) < 1);
    set_up(&x, 200000000, 400000000, 100000000);
    r.pp = 2;
    assert_true(fabs(shown(&x, r, 1) - (7e8 + 5e7 + RESERVE * (3e8 + 2 * 4e5))) < 1);
    r.framework = "Megatron-LM";
    assert_true(fabs(shown(&x, r, 1) - RESERVE * 1e9) < 1);
}

/* All weights once more as the parts of 4 ranks, with the rank's own, and once as one tensor; a
 * part that a freed block of the gated pair can hold takes that. */
TEST(a_step_that_gathers_makes_flat_tensors)
{
    struct lw_run r = run_of("nanotron", "reserved of rank 0", 1, 1);
    struct fixture x;

    set_up(&x, 200000000, 400000000, 0);
    x.strategy.zero = 1;
    r.dp = 4;
    assert_true(fabs(shown(&x, r, 1) - (6e8 + 4.5e8 + RESERVE * 4e8)) < 1);
    r.ffn = 100000; /* 200 tokens of 2 x 100,000 x 2 bytes: 80 MB, more than 50 MB of a part */
    assert_true(fabs(shown(&x, r, 1) - (6e8 + 2e8 + RESERVE * 4e8)) < 1);
    r.vocab = 300000; /* f32 scores: 240 MB, more than all weights */
    assert_true(fabs(shown(&x, r, 1) - (6e8 + RESERVE * 4e8)) < 1);
    x.strategy.zero = 0;
    r.ffn = r.vocab = 0;
    assert_true(fabs(shown(&x, r, 1) - (6e8 + RESERVE * 4e8)) < 1);
}

/* Bytes of an element that a rank updates. Sums in f32 need no copy. */
TEST(a_step_takes_copies_of_gradients)
{
    static const struct {
        const char *framework, *precision;
        int64_t zero, held, shown;
    } cases[] = {{"Megatron-DeepSpeed", "fp16", 1, 12, 18}, {"InternEvo", "bf16", 1, 12, 26},
                 {"InternEvo", "bf16", 3, 12, 24}, {"torchtune", "bf16", 0, 4, 4},
                 {"Megatron-LM", "bf16", 1, 12, 12},
                 {"Megatron-DeepSpeed", "bf16 (fp32 grad accumulation)", 1, 12, 12}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_run r = run_of(cases[k].framework, "reserved of rank 0", 1, 1);
        struct fixture x;
        set_up(&x, 0, 0, 12000000);
        x.strategy.zero = (int)cases[k].zero;
        r.precision = cases[k].precision;
        lw_run_hold(&r, &x.plan);
        assert_int_equal(x.role.static_bytes[LW_MEM_OPTIMIZER], 1000000 * cases[k].held);
        double step = 1e6 * (double)(cases[k].shown - cases[k].held);
        assert_true(fabs(shown(&x, r, 1) - RESERVE * (1e9 + step)) < 1);
    }
}

/* 26 GB of state and copies beside 50 of activations do not show as more than the device has; a
 * step of 60 GB, in which activations are freed, fits. */
TEST(blocks_that_are_free_give_way_on_a_full_device)
{
    struct lw_run r = run_of("InternEvo", "nvidia-smi", 1, 1);
    struct fixture x;

    set_up(&x, 0, 0, 24000000000);
    r.precision = "bf16";
    x.ranks[1].peak_memory_bytes = 70000000000;
    assert_true(fabs(shown(&x, r, 1) - 81e9) < 1);
    assert_true(fabs(lw_run_needed_bytes(&r, &x.plan, &x.summary) - RESERVE * 70e9) < 1);
    x.ranks[1].peak_memory_bytes = 24000000000;
    assert_true(fabs(lw_run_needed_bytes(&r, &x.plan, &x.summary) - RESERVE * 48e9) < 1);
    x.ranks[1].peak_memory_bytes = 80000000000;
    assert_true(fabs(shown(&x, r, 1) - (RESERVE * 108e9 + 1e9)) < 1);
}

/* A bucket of 5e8 16-bit gradients where ranks reduce, of InternEvo two of 2^29 wherever ZeRO-3
 * does not; beside sums the weights twice, and DDP's buckets are of the gradients' own type. */
TEST(buckets_and_flat_weights_of_each_framework)
{
    static const struct {
        const char *framework, *precision;
        int64_t dp, zero, bucket, params;
    } cases[] = {
        {"Megatron-DeepSpeed", "fp16", 1, 1, 100, 20},
        {"Megatron-DeepSpeed", "fp16", 2, 1, 1000000100, 20},
        {"Megatron-DeepSpeed", "bf16 (fp32 grad accumulation)", 2, 1, 50, 40},
        {"InternEvo", "bf16", 1, 1, (INT64_C(2) << 30) + 100, 20},
        {"InternEvo", "bf16", 2, 3, 100, 20},
        {"nanotron", "bf16, fp32 gradient accumulation", 2, 0, 50, 20},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_run r = run_of(cases[k].framework, "", 1, 1);
        struct fixture x;
        set_up(&x, 20, 0, 0);
        x.role.static_bytes[LW_MEM_BUCKETS] = 100;
        x.strategy.zero = (int)cases[k].zero;
        r.precision = cases[k].precision;
        r.dp = cases[k].dp;
        lw_run_hold(&r, &x.plan);
        assert_int_equal(x.role.static_bytes[LW_MEM_BUCKETS], cases[k].bucket);
        assert_int_equal(x.role.static_bytes[LW_MEM_PARAMS], cases[k].params);
    }
}

/* Two stages of OneFlow: 4 buffers of one block's input on the first, of which 2 are in flight, and
 * 3 copies of its weights beside them; none on the last. */
TEST(static_buffers_of_all_but_the_last_stage)
{
    struct lw_plan_param params[] = {{.module = 0, .numel = 1000000},
                                     {.module = 1, .numel = 500000},
                                     {.module = 1, .numel = 300000}, {.module = 1, .numel = 1000},
                                     {.module = 2, .stage = 1, .numel = 100000},
                                     {.module = 3, .stage = 1, .numel = 1000000}};
    struct lw_role roles[] = {{.static_bytes = {0}}, {.stage = 1, .static_bytes = {0}}};
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan plan = {.n_roles = 2, .roles = roles, .n_params = 6, .params = params,
                           .n_modules = 4, .strategy = &strategy};
    struct lw_run r = run_of("OneFlow", "", 1, 2);

    r.precision = "fp16";
    lw_run_hold(&r, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_BUCKETS], 2 * 400000 + 3 * 2 * 800000);
    assert_int_equal(roles[1].static_bytes[LW_MEM_BUCKETS], 0);
    r.framework = "Megatron-LM";
    roles[0].static_bytes[LW_MEM_BUCKETS] = 0;
    lw_run_hold(&r, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_BUCKETS], 0);
}

/* Options of a cumulative row are those up to the last one. */
TEST(cumulative_options_contain_those_before)
{
    struct lw_run r = run_of("torchtune", "", 1, 1);
    struct fixture x;

    set_up(&x, 0, 20, 0);

    r.precision = "bf16";
    r.options = "cumulative: + chunked cross entropy";
    assert_true(lw_run_takes(&r, "compile") && lw_run_takes(&r, "chunked"));
    assert_false(lw_run_takes(&r, "checkpointing"));
    lw_run_hold(&r, &x.plan);
    assert_int_equal(x.role.static_bytes[LW_MEM_GRADS], 20);
    r.options = "cumulative: + optimizer in backward";
    lw_run_hold(&r, &x.plan);
    assert_int_equal(x.role.static_bytes[LW_MEM_GRADS], 0);
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
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan plan = {.n_roles = 2, .roles = roles, .n_params = 5, .params = params,
                           .n_modules = 4, .strategy = &strategy};
    struct lw_run r = run_of("NeMo", "", 1, 2);

    lw_run_hold(&r, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 3002000);
    r.precision = "FP8";
    lw_run_hold(&r, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 2502000);
    assert_int_equal(roles[1].static_bytes[LW_MEM_PARAMS], 2100000);
}
