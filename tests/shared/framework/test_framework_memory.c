/* What a framework holds beside the plan's bytes, and what it prints of it. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/files/files.h"
#include "shared/framework/framework_memory.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"

static const struct lw_device device = {.framework_bytes = {.value = 1e9, .source = "a test"},
                                        .memory_bytes = {.value = 81e9, .source = "a test"}};
static const double RESERVE = 1.056, STAGES = 1.151; /* of BLOOM's program */
static const struct lw_model_dims dims = {.layers = 10, .hidden = 1000, .seq = 100, .batch = 2};

/* A rank that holds its role's bytes throughout, and `peak` at most. */
struct fixture {
    struct lw_strategy strategy;
    struct lw_role role;
    int32_t role_of[1];
    struct lw_plan plan;
    struct lw_measure rank;
    struct lw_model_dims dims;
};

static void set_up(struct fixture *x, int64_t params, int64_t grads, int64_t optimizer,
                   int64_t peak)
{
    *x = (struct fixture){
        .strategy = lw_strategy_default(),
        .role.static_bytes = {[LW_MEM_PARAMS] = params, [LW_MEM_GRADS] = grads,
                              [LW_MEM_OPTIMIZER] = optimizer},
        .rank = {.rank = 0, .peak_memory_bytes = peak},
        .dims = dims,
    };
    x->strategy.micro_batches = 8;
    x->plan = (struct lw_plan){.strategy = &x->strategy, .n_ranks = 1, .n_roles = 1,
                               .roles = &x->role, .role_of = x->role_of};
}

/* A parameter of a million elements, which the plan keeps. */
static void train(struct fixture *x, struct lw_plan_param *param, enum lw_dtype dtype,
                  const char *optimizer)
{
    *param = (struct lw_plan_param){.numel = 1000000, .trainable = true, .dtype = (uint8_t)dtype};
    x->plan.n_params = 1;
    x->plan.params = param;
    x->plan.optimizer = optimizer;
}

static void hold(const char *framework, const struct lw_model_dims *d, struct lw_plan *plan)
{
    struct lw_framework f;
    struct lw_err err;

    assert_ok(lw_framework_find(framework, &f, &err), err);
    plan->dims = *d;
    lw_framework_hold(&f, plan);
    lw_framework_free(&f);
}

static struct lw_framework_bytes bytes_of(const struct fixture *x, const char *framework)
{
    struct lw_framework_bytes b;
    struct lw_plan plan = x->plan;
    struct lw_framework f;
    struct lw_err err;

    plan.dims = x->dims;
    assert_ok(lw_framework_find(framework, &f, &err), err);
    lw_framework_bytes_of(&f, &plan, &device, &x->rank, &b);
    lw_framework_free(&f);
    return b;
}

static void same(double found, double expected)
{
    if (fabs(found - expected) > 1)
        fail_msg("found %.0f, expected %.0f", found, expected);
}

/* Of a cluster that says nothing: the default of a GPU; the framework's own figure, with tensor
 * groups another, of GH200 a third. The cluster's figure comes before all. */
TEST(what_lies_outside_the_allocator)
{
    const struct lw_figure set = {3e9, "a test"};
    static const struct {
        const char *kind;
        int64_t tp;
        bool facts, stated;
        int64_t own;
    } cases[] = {
        {"H100-SXM5-80GB", 1, false, false, (int64_t)LW_FRAMEWORK_MIB << 20},
        {"H100-SXM5-80GB", 1, true, false, 11},
        {"H100-SXM5-80GB", 4, true, false, 22},
        {"GH200-96GB", 1, true, false, 33},
        {"NVIDIA GH200 480GB", 4, true, false, 33},
        {"GH200-96GB", 4, false, false, (int64_t)LW_FRAMEWORK_MIB << 20},
        {"GH200-96GB", 4, true, true, 3000000000},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_device d = {.kind = cases[k].kind, .n_sms = {132, "a test"}};
        struct lw_strategy s = lw_strategy_default();
        struct lw_framework f = {0};
        s.tp = cases[k].tp;
        if (cases[k].stated)
            d.framework_bytes = set;
        if (cases[k].facts) {
            f.own_bytes = (struct lw_figure){11, "a test"};
            f.own_bytes_split = (struct lw_figure){22, "a test"};
            f.own_bytes_grace = (struct lw_figure){33, "a test"};
        }
        assert_int_equal(lw_framework_own_bytes(&f, &s, &d), cases[k].own);
    }
}

/* One whole input or output: 2 samples of 100 tokens, 1000 elements of 2 bytes. */
TEST(figures_of_each_kind)
{
    static const struct {
        const char *framework;
        int64_t tp, pp;
        double allocated;
    } cases[] = {
        {"ideal", 4, 1, 2e9},
        {"megatron-lm", 1, 1, 2e9},
        {"megatron-lm", 4, 1, 2e9 + 3 * 4e5},
        {"megatron-deepspeed", 1, 4, 2e9 + 4 * 4e5},
        {"megatron-deepspeed", 1, 16, 2e9 + 8 * 4e5},
        {"nanotron", 4, 4, 2e9 + 3 * 4e5 + 4 * 4e5 / 4},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture x;
        set_up(&x, 0, 0, 0, 2000000000);
        x.strategy.tp = cases[k].tp;
        x.strategy.pp = cases[k].pp;
        x.strategy.sequence_parallel = cases[k].tp > 1;
        x.strategy.grad_dtype = LW_GRAD_F32;
        struct lw_framework_bytes b = bytes_of(&x, cases[k].framework);
        double least = k == 0 ? 1 : RESERVE;
        bool stages = strcmp(cases[k].framework, "megatron-deepspeed") == 0 && cases[k].pp > 1;
        double factor = stages ? STAGES : least;
        same(b.allocated, cases[k].allocated);
        same(b.reserved, factor * cases[k].allocated);
        same(b.device, factor * cases[k].allocated + 1e9);
        same(b.needed, least * cases[k].allocated);
    }
}

/* Four outputs in flight of 4e5 bytes. Of each a tensor rank keeps the part that it sent, and one
 * is whole in a backward; without parts all are whole. */
TEST(outputs_that_were_sent_in_parts_are_kept_in_parts)
{
    for (int parts = 0; parts < 2; parts++) {
        struct fixture x;
        set_up(&x, 0, 0, 0, 2000000000);
        x.strategy.tp = 8;
        x.strategy.pp = 4;
        x.strategy.scatter_gather = parts;
        x.strategy.grad_dtype = LW_GRAD_F32;
        same(bytes_of(&x, "megatron-deepspeed").allocated, 2e9 + (parts ? 4 / 8.0 + 1 : 4) * 4e5);
    }
}

/* Stage 0: of two blocks the larger one's products, 2 bytes an element; no norm, no frozen weight,
 * no expert. Not with ZeRO-3, and not of a program whose library makes none. */
TEST(gradients_in_name_alone_share_a_tensor_of_each_shape)
{
    struct lw_plan_param params[] = {
        {.module = 0, .numel = 900000, .trainable = true}, /* the embedding */
        {.module = 1, .numel = 300000, .trainable = true},
        {.module = 1, .numel = 400000, .trainable = true},
        {.module = 1, .numel = 1000, .trainable = true},
        {.module = 2, .numel = 800000, .trainable = true},
        {.module = 2, .numel = 70000, .trainable = true},
        {.module = 2, .numel = 500000, .trainable = true, .expert = true},
        {.module = 2, .numel = 600000},
        {.module = 3, .numel = 990000, .trainable = true}, /* the head */
        {.module = 2, .numel = 700000, .trainable = true, .stage = 1}};
    struct lw_role role = {0};
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan plan = {.n_roles = 1, .roles = &role, .n_params = 10, .params = params,
                           .n_modules = 4, .strategy = &strategy};

    hold("megatron-lm", &dims, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_WORKSPACES], 2 * (800000 + 70000));
    role = (struct lw_role){.stage = 1};
    hold("megatron-bridge", &dims, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_WORKSPACES], 2 * 700000);
    role = (struct lw_role){0};
    hold("nemo", &dims, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_WORKSPACES], 0);
    strategy.zero = 3;
    role = (struct lw_role){0};
    hold("megatron-lm", &dims, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_WORKSPACES], 0);
}

/* 2 bytes of a score, 2 samples of 100 tokens and 50,000 words, a part of each rank of both groups.
 * Tensors and what is needed have none of them. Of a pipeline the stage with the last module. */
TEST(scores_that_the_loss_freed_stay_reserved)
{
    int32_t stages[] = {0, 1};
    struct fixture x;

    set_up(&x, 0, 0, 0, 2000000000);
    x.dims.vocab = 50000;
    struct lw_framework_bytes b = bytes_of(&x, "torchtitan");
    same(b.allocated, 2e9);
    same(b.needed, RESERVE * 2e9);
    same(b.reserved, RESERVE * 2e9 + 2 * 2 * 100 * 50000);
    same(bytes_of(&x, "torchtitan-compile").reserved, RESERVE * 2e9);
    x.strategy.cp = x.strategy.tp = 2;
    same(bytes_of(&x, "torchtitan").reserved, RESERVE * 2e9 + 2 * 2 * 100 * 50000 / 4);
    x.strategy.cp = x.strategy.tp = 1;
    x.strategy.pp = 2;
    x.plan.n_modules = 2;
    x.plan.stage_of = stages;
    same(bytes_of(&x, "torchtitan").reserved, RESERVE * (2e9 + 2 * 4e5));
    x.role.stage = 1;
    same(bytes_of(&x, "torchtitan").reserved, RESERVE * (2e9 + 2 * 4e5) + 2 * 2 * 100 * 50000);
}

/* Of 1 GB at most 200 MB are weights and 400 MB sums: 400 MB of activations are more than the
 * 200 MB of gradients, which take their blocks. Of two micro-batches' 300 MB one frees 150 MB. */
TEST(gradients_beside_sums_take_the_blocks_of_activations)
{
    struct fixture x;

    set_up(&x, 200000000, 400000000, 0, 1000000000);
    x.strategy.grad_dtype = LW_GRAD_F32;
    same(bytes_of(&x, "nanotron").reserved, 6e8 + RESERVE * 4e8);
    set_up(&x, 200000000, 400000000, 100000000, 1000000000);
    x.strategy.grad_dtype = LW_GRAD_F32;
    x.strategy.pp = 2;
    same(bytes_of(&x, "nanotron").allocated, 1e9 + 5e7 + 2 * 4e5);
    same(bytes_of(&x, "megatron-lm").reserved, RESERVE * 1e9);
}

/* All weights once more as the parts of 4 ranks, with the rank's own, and once as one tensor; a
 * part that a freed block of the gated pair can hold takes that. */
TEST(a_step_that_gathers_makes_flat_tensors)
{
    struct fixture x;

    set_up(&x, 200000000, 400000000, 0, 1000000000);
    x.strategy.grad_dtype = LW_GRAD_F32;
    x.strategy.zero = 1;
    x.strategy.dp = 4;
    same(bytes_of(&x, "nanotron").reserved, 6e8 + 4.5e8 + RESERVE * 4e8);
    x.dims.ffn = 100000; /* 200 tokens of 2 x 100,000 x 2 bytes: 80 MB, more than 50 MB of a part */
    same(bytes_of(&x, "nanotron").reserved, 6e8 + 2e8 + RESERVE * 4e8);
    x.dims.vocab = 300000; /* f32 scores: 240 MB, more than all weights */
    same(bytes_of(&x, "nanotron").reserved, 6e8 + RESERVE * 4e8);
}

/* Bytes of an element that a rank updates. Sums in f32 need no copy. */
TEST(a_step_takes_copies_of_gradients)
{
    static const struct {
        const char *framework;
        enum lw_grad_dtype grads;
        int64_t zero, held, shown;
    } cases[] = {{"megatron-deepspeed", LW_GRAD_AS_PARAM, 1, 12, 18},
                 {"internevo", LW_GRAD_AS_PARAM, 1, 12, 26},
                 {"internevo", LW_GRAD_AS_PARAM, 3, 12, 24},
                 {"torchtune", LW_GRAD_AS_PARAM, 0, 4, 4},
                 {"megatron-lm", LW_GRAD_AS_PARAM, 1, 12, 12},
                 {"megatron-deepspeed", LW_GRAD_F32, 1, 12, 12}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture x;
        set_up(&x, 0, 0, 12000000, 1000000000);
        x.strategy.zero = cases[k].zero;
        x.strategy.grad_dtype = cases[k].grads;
        x.plan.optimizer = "adam";
        hold(cases[k].framework, &dims, &x.plan);
        assert_int_equal(x.role.static_bytes[LW_MEM_OPTIMIZER], 1000000 * cases[k].held);
        double step = 1e6 * (double)(cases[k].shown - cases[k].held);
        same(bytes_of(&x, cases[k].framework).reserved, RESERVE * (1e9 + step));
    }
}

/* A plan has states of its framework's size. An older plan file, which does not say so, has f32
 * ones: those of 16-bit parameters are changed, no others. */
TEST(states_of_another_size_are_counted_once)
{
    static const struct {
        const char *framework, *optimizer;
        enum lw_dtype param;
        int64_t own, item, held;
    } cases[] = {{"torchtune", "adam", LW_BF16, 4, 4, 4},
                 {"torchtune", "adam", LW_BF16, 0, 12, 4},
                 {"torchtune", "adam", LW_F32, 0, 8, 8},
                 {"torchtune", "momentum", LW_BF16, 2, 2, 2},
                 {"torchtune", "momentum", LW_BF16, 0, 8, 2},
                 {"torchtune", "sgd", LW_BF16, 0, 4, 0},
                 {"torchtune", "sgd", LW_BF16, 4, 0, 0},
                 {"megatron-lm", "adam", LW_BF16, 0, 12, 12}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_plan_param param;
        struct fixture x;
        set_up(&x, 0, 0, 1000000 * cases[k].item, 1000000000);
        train(&x, &param, cases[k].param, cases[k].optimizer);
        x.plan.own_states = cases[k].own;
        hold(cases[k].framework, &dims, &x.plan);
        assert_int_equal(x.role.static_bytes[LW_MEM_OPTIMIZER], 1000000 * cases[k].held);
    }
}

/* DeepSpeed's flat copies, 2 + 4 bytes of each element that is updated, whatever its states take;
 * where SGD has none, nothing says how many there are. */
TEST(copies_follow_the_elements_and_not_their_states)
{
    static const struct {
        const char *optimizer;
        enum lw_dtype param;
        int64_t item, copies;
    } cases[] = {{"adam", LW_BF16, 12, 6}, {"momentum", LW_BF16, 8, 6}, {"sgd", LW_BF16, 4, 6},
                 {"adam", LW_F32, 8, 6},   {"momentum", LW_F32, 4, 6},  {"sgd", LW_F32, 0, 0}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_plan_param param;
        struct fixture x;
        set_up(&x, 0, 0, 1000000 * cases[k].item, 1000000000);
        train(&x, &param, cases[k].param, cases[k].optimizer);
        double step = 1e6 * (double)cases[k].copies;
        same(bytes_of(&x, "megatron-deepspeed").reserved, RESERVE * (1e9 + step));
    }
}

/* 26 GB of state and copies beside 50 of activations do not show as more than the device has; a
 * step of 60 GB, in which activations are freed, fits. */
TEST(blocks_that_are_free_give_way_on_a_full_device)
{
    struct fixture x;

    set_up(&x, 0, 0, 24000000000, 70000000000);
    same(bytes_of(&x, "internevo").device, 81e9);
    same(bytes_of(&x, "internevo").needed, RESERVE * 70e9);
    x.rank.peak_memory_bytes = 24000000000;
    same(bytes_of(&x, "internevo").needed, RESERVE * 48e9);
    x.rank.peak_memory_bytes = 80000000000;
    same(bytes_of(&x, "internevo").device, RESERVE * 108e9 + 1e9);
}

/* A bucket of 5e8 16-bit gradients where ranks reduce, of InternEvo two of 2^29 wherever ZeRO-3
 * does not; beside sums the weights twice, and DDP's buckets are of the gradients' own type. */
TEST(buckets_and_flat_weights_of_each_framework)
{
    static const struct {
        const char *framework;
        enum lw_grad_dtype grads;
        int64_t dp, zero, bucket, params;
    } cases[] = {
        {"megatron-deepspeed", LW_GRAD_AS_PARAM, 1, 1, 100, 20},
        {"megatron-deepspeed", LW_GRAD_AS_PARAM, 2, 1, 1000000100, 20},
        {"megatron-deepspeed", LW_GRAD_F32, 2, 1, 50, 40},
        {"internevo", LW_GRAD_AS_PARAM, 1, 1, (INT64_C(2) << 30) + 100, 20},
        {"internevo", LW_GRAD_AS_PARAM, 2, 3, 100, 20},
        {"nanotron", LW_GRAD_F32, 2, 0, 50, 20},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture x;
        set_up(&x, 20, 0, 0, 1000);
        x.role.static_bytes[LW_MEM_BUCKETS] = 100;
        x.strategy.zero = cases[k].zero;
        x.strategy.dp = cases[k].dp;
        x.strategy.grad_dtype = cases[k].grads;
        hold(cases[k].framework, &dims, &x.plan);
        assert_int_equal(x.role.static_bytes[LW_MEM_BUCKETS], cases[k].bucket);
        assert_int_equal(x.role.static_bytes[LW_MEM_PARAMS], cases[k].params);
    }
}

/* A micro-batch's gradients in 16 bits beside f32 sums are as large as the weights once, also where
 * a flat copy holds these twice: 1 GB, of which the 0.4 GB of activations that the backward frees
 * are not counted again. */
TEST(gradients_beside_sums_are_one_copy_of_the_weights)
{
    static const struct {
        const char *framework;
        double fixed;
    } cases[] = {{"megatron-deepspeed", 2 * 1e9 + 2e9}, {"nanotron", 1e9 + 2e9}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture x;
        set_up(&x, 1000000000, 2000000000, 0, 0);
        x.strategy.grad_dtype = LW_GRAD_F32;
        hold(cases[k].framework, &dims, &x.plan);
        x.rank.peak_memory_bytes = (int64_t)cases[k].fixed + 400000000;
        same(bytes_of(&x, cases[k].framework).allocated, cases[k].fixed + 4e8 + (1e9 - 4e8));
    }
}

/* DeepSpeed's buffers: of reduce_bucket_size elements of the parameters' type whatever the model,
 * two of them where reductions overlap the backward, one under ZeRO-3. */
TEST(reduce_buffers_of_deepspeed_have_their_own_size)
{
    static const struct {
        int64_t zero, elements, cap, bucket, each;
        bool overlap;
        enum lw_dtype dtype;
    } cases[] = {
        {2, 0, -1, 2000000000, 500000000, true, LW_BF16},
        {2, 0, -1, 1000000000, 500000000, false, LW_BF16},
        {1, 0, -1, 2000000000, 500000000, true, LW_F16},
        {1, 0, -1, 4000000000, 500000000, true, LW_F32},
        {2, 200000000, -1, 800000000, 200000000, true, LW_BF16},
        {2, 0, 400000000, 800000000, 200000000, true, LW_BF16},
        {2, 0, 400000000, 800000000, 100000000, true, LW_F32},
        {3, 0, -1, 1000000000, 500000000, true, LW_BF16},
        {3, 0, -1, 2000000000, 500000000, true, LW_F32},
        {3, 7, -1, 14, 7, false, LW_BF16},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture x;
        struct lw_plan_param param = {.numel = 10, .dtype = cases[k].dtype};
        set_up(&x, 20, 0, 0, 1000);
        x.plan.n_params = 1;
        x.plan.params = &param;
        x.strategy.zero = cases[k].zero;
        x.strategy.dp = 2;
        x.strategy.overlap = cases[k].overlap;
        x.strategy.bucket_policy = LW_BUCKET_DEEPSPEED;
        x.strategy.reduce_elements = cases[k].elements;
        x.strategy.bucket_cap_bytes = cases[k].cap;
        hold("deepspeed", &dims, &x.plan);
        assert_int_equal(x.role.static_bytes[LW_MEM_BUCKETS], cases[k].bucket);
        assert_int_equal(x.role.reduce_elements, cases[k].each);
    }
}

/* Weights of 3, 2, 2 and 6 million elements and buffers of 5, from the last on: 6 alone, 2 + 2, 3
 * alone. One that the ranks divide is reduced where it is. */
TEST(a_bucket_is_copied_by_a_stream_of_its_own)
{
    static const struct {
        const char *framework;
        int64_t zero, dp, overlap, copied;
    } cases[] = {{"deepspeed", 3, 2, 1, 4000000}, {"deepspeed", 3, 7, 1, 6000000},
                 {"deepspeed", 3, 2, 0, 0},       {"deepspeed", 3, 1, 1, 0},
                 {"deepspeed", 2, 2, 1, 0},       {"fsdp", 3, 2, 1, 0}};
    struct lw_plan_param params[] = {
        {.numel = 3000000, .dtype = LW_BF16, .trainable = true, .tied = -1},
        {.numel = 2000000, .dtype = LW_BF16, .trainable = true, .tied = -1},
        {.numel = 9000000, .dtype = LW_BF16, .tied = -1},
        {.numel = 2000000, .dtype = LW_BF16, .trainable = true, .tied = -1},
        {.numel = 9000000, .dtype = LW_BF16, .trainable = true, .tied = -1, .stage = 1},
        {.numel = 6000000, .dtype = LW_BF16, .trainable = true, .tied = -1}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fixture x;
        set_up(&x, 0, 0, 0, 1000000000);
        x.plan.n_params = 6;
        x.plan.params = params;
        x.strategy.zero = cases[k].zero;
        x.strategy.dp = cases[k].dp;
        x.strategy.overlap = cases[k].overlap;
        x.strategy.reduce_elements = 5000000;
        struct lw_framework_bytes b = bytes_of(&x, cases[k].framework);
        same(b.allocated, 1e9);
        same(b.needed, RESERVE * 1e9);
        same(b.reserved, RESERVE * 1e9 + 2 * (double)cases[k].copied);
    }
}

/* Of 16-bit weights of 3, 5 and 2 elements, of which the last is frozen: the largest gradient. */
TEST(of_gradients_that_are_applied_at_once_one_is_held)
{
    struct lw_plan_param params[] = {{.numel = 3, .dtype = LW_BF16, .trainable = true},
                                     {.numel = 5, .dtype = LW_BF16, .trainable = true},
                                     {.numel = 9, .dtype = LW_BF16},
                                     {.numel = 7, .dtype = LW_BF16, .trainable = true, .stage = 1}};
    struct fixture x;

    set_up(&x, 0, 16, 0, 1000);
    x.plan.n_params = 4;
    x.plan.params = params;
    hold("torchtune-chunked", &dims, &x.plan);
    assert_int_equal(x.role.static_bytes[LW_MEM_GRADS], 16);
    assert_true(x.role.grads_come);
    hold("torchtune-optimizer-in-backward", &dims, &x.plan);
    assert_int_equal(x.role.static_bytes[LW_MEM_GRADS], 2 * 5);
    assert_false(x.role.grads_come); /* its room stays */
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

    strategy.pp = 2;
    strategy.micro_batches = 8;
    hold("oneflow", &dims, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_BUCKETS], 2 * 400000 + 3 * 2 * 800000);
    assert_int_equal(roles[1].static_bytes[LW_MEM_BUCKETS], 0);
    roles[0].static_bytes[LW_MEM_BUCKETS] = 0;
    hold("megatron-lm", &dims, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_BUCKETS], 0);
}

/* The gradient of a block's result is whole on a rank without sequence parallelism; those within
 * the pair are divided; both by the ranks of a context group. */
TEST(gradients_of_a_block_are_of_the_ranks_part)
{
    static const struct {
        int tp, cp;
        bool sequence;
        int64_t bytes;
    } cases[] = {{1, 1, false, 8000 + 24000}, {4, 1, false, 8000 + 6000}, {4, 1, true, 2000 + 6000},
                 {2, 2, false, 4000 + 6000}};
    struct lw_model_dims d = dims;

    d.whole_grad_bytes = 8000;
    d.pair_grad_bytes = 24000;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy strategy = lw_strategy_default();
        struct lw_role roles[1] = {{0}};
        struct lw_plan plan = {.n_roles = 1, .roles = roles, .n_modules = 4,
                               .strategy = &strategy};
        strategy.tp = cases[i].tp;
        strategy.cp = cases[i].cp;
        strategy.sequence_parallel = cases[i].sequence;
        hold("megatron-lm", &d, &plan);
        assert_int_equal(roles[0].block_gradients, cases[i].bytes);
    }
}

/* The larger of both moments: where the pair has most, 8,000 + 24,000, and where attention's
 * backward begins: what the pair kept whole on a rank, 5,000, has gone, and the group divides the
 * gradients of scores. With 4 ranks 8,000 - 5,000 + 10,000 and 8,000 + 6,000. */
TEST(gradients_of_scores_count_where_they_are_more_than_the_pairs)
{
    static const struct {
        int tp;
        bool sequence;
        int64_t scores, bytes;
    } cases[] = {{1, false, 40000, 43000}, {1, false, 28000, 32000}, {4, false, 40000, 14000},
                 {4, false, 48000, 15000}, {4, true, 48000, 12750}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_model_dims d = dims;
        struct lw_strategy strategy = lw_strategy_default();
        struct lw_role roles[1] = {{0}};
        struct lw_plan plan = {.n_roles = 1, .roles = roles, .n_modules = 4,
                               .strategy = &strategy};
        d.whole_grad_bytes = 8000;
        d.pair_grad_bytes = 24000;
        d.pair_kept_whole = 5000;
        d.score_grad_bytes = cases[i].scores;
        strategy.tp = cases[i].tp;
        strategy.sequence_parallel = cases[i].sequence;
        hold("megatron-lm", &d, &plan);
        assert_int_equal(roles[0].block_gradients, cases[i].bytes);
    }
}

/* DeepSpeed's pipeline holds the input of each micro-batch in flight where norms do not keep it,
 * 2 x 100 x 1,000 elements in f32, and on the last stage the f32 scores of two micro-batches, of
 * which a tensor rank has its part. Norms that keep their input keep that of the stage. */
TEST(a_pipeline_holds_inputs_and_the_last_outputs)
{
    static const struct {
        const char *framework;
        int64_t micro_batches, second, last;
    } cases[] = {{"megatron-deepspeed-sailor", 8, 2 * 800000, 800000 + 2 * 4 * 200 * 640},
                 {"megatron-deepspeed-sailor", 1, 800000, 800000 + 4 * 200 * 640},
                 {"megatron-deepspeed-sailor-neo", 8, 0, 2 * 4 * 200 * 640},
                 {"megatron-lm", 8, 0, 0}};
    struct lw_model_dims d = dims;

    d.vocab = 1280;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy strategy = lw_strategy_default();
        struct lw_plan_param params[] = {{.numel = 10, .trainable = true, .dtype = LW_F32}};
        struct lw_role roles[] = {{0}, {.stage = 1}, {.stage = 2}};
        struct lw_plan plan = {.n_roles = 3, .roles = roles, .n_params = 1, .params = params,
                               .n_modules = 5, .strategy = &strategy};
        strategy.pp = 3;
        strategy.tp = 2;
        strategy.micro_batches = cases[i].micro_batches;
        hold(cases[i].framework, &d, &plan);
        assert_int_equal(roles[0].static_bytes[LW_MEM_BUCKETS], 0);
        assert_int_equal(roles[1].static_bytes[LW_MEM_BUCKETS], cases[i].second);
        assert_int_equal(roles[2].static_bytes[LW_MEM_BUCKETS], cases[i].last);
    }
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
    struct lw_model_dims d = dims;

    hold("nemo", &d, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 3002000);
    d.fp8 = true;
    hold("nemo", &d, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 2502000);
    assert_int_equal(roles[0].narrow_above, 64 * d.hidden);
    assert_int_equal(roles[1].static_bytes[LW_MEM_PARAMS], 2100000);
    d.fp8_transposes = true; /* a byte more of each such weight */
    hold("nemo", &d, &plan);
    assert_int_equal(roles[0].static_bytes[LW_MEM_PARAMS], 3002000);
    assert_int_equal(roles[1].static_bytes[LW_MEM_PARAMS], 2200000);
}

/* A weight of MXFP8 is held in both layouts, and one of blocks in 16 bits; ZeRO-3 has shards of
 * both layouts of MXFP8 and gathers one, so that its gathered weights alone are narrow. */
TEST(recipes_say_how_weights_of_8_bits_are_held)
{
    const struct { int recipe, zero, halves, gathers; } cases[] = {
        {LW_FP8_DELAYED, 1, 1, 1},   {LW_FP8_TENSORWISE, 1, 1, 1}, {LW_FP8_MXFP8, 1, 0, 0},
        {LW_FP8_BLOCKWISE, 1, 0, 0}, {LW_FP8_TENSORWISE, 3, 1, 1}, {LW_FP8_MXFP8, 3, 0, 1},
        {LW_FP8_BLOCKWISE, 3, 0, 0}};
    struct lw_plan_param params[] = {{.module = 0, .numel = 1000}, {.module = 1, .numel = 500000},
                                     {.module = 2, .numel = 1000}};
    struct lw_role role = {.static_bytes = {1004000}};
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan plan = {.n_roles = 1, .roles = &role, .n_params = 3, .params = params,
                           .n_modules = 3, .strategy = &strategy};
    struct lw_model_dims d = dims;

    d.fp8 = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        d.fp8_recipe = (uint8_t)cases[i].recipe;
        strategy.zero = cases[i].zero;
        hold("nemo", &d, &plan);
        assert_int_equal(role.static_bytes[LW_MEM_PARAMS],
                         1004000 - (cases[i].halves ? 500000 : 0));
        assert_int_equal(role.narrow_above, cases[i].gathers ? 64 * d.hidden : 0);
    }
}

/* Of a matrix of 500,001 elements the first of two members has 250,001 in 8 bits, with transposes
 * or without, since a gathered copy drops them; of the embedding half in 16 bits. */
TEST(shards_of_8_bits_are_those_of_products)
{
    struct lw_plan_param params[] = {{.module = 0, .numel = 1000000},
                                     {.module = 1, .numel = 500001},
                                     {.module = 2, .numel = 1000}};
    const int64_t held = 2 * (500000 + 250001 + 500);
    struct lw_shard shards[] = {
        {.param = 0, .owner = 0, .numel = 500000}, {.param = 0, .owner = 1, .numel = 500000},
        {.param = 1, .owner = 0, .numel = 250001}, {.param = 1, .owner = 1, .numel = 250000},
        {.param = 2, .owner = 0, .numel = 500},    {.param = 2, .owner = 1, .numel = 500}};
    struct lw_role role = {.static_bytes = {held}};
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan plan = {.n_roles = 1, .roles = &role, .n_params = 3, .params = params,
                           .n_modules = 3, .strategy = &strategy, .shards = shards,
                           .n_shards = 6};
    struct lw_model_dims d = dims;

    strategy.zero = 3;
    strategy.dp = 2;
    d.fp8 = true;
    for (int transposes = 0; transposes < 2; transposes++) {
        d.fp8_transposes = transposes;
        hold("nemo", &d, &plan);
        assert_int_equal(role.static_bytes[LW_MEM_PARAMS], held - 250001);
    }
    plan.n_shards = 0; /* a sketch */
    hold("nemo", &d, &plan);
    assert_int_equal(role.static_bytes[LW_MEM_PARAMS], held - 250000);
}
