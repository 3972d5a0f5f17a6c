/* Kernels of the whole model: what one rank does of them, and what they add up to. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/device/kernel_time.h"
#include "shared/device/newton_schulz.h"
#include "shared/files/files.h"
#include "tests/lib/traces/model_help.h"

enum { MAX_WORKS = 16 };

struct works {
    struct lw_kernel_work of[MAX_WORKS];
    int n;
};

static void keep_work(void *ctx, const struct lw_kernel_work *work)
{
    struct works *w = ctx;

    assert_true(w->n < MAX_WORKS);
    w->of[w->n++] = *work;
}

static struct works works_of(struct lw_kernel k, struct lw_kernel_groups g)
{
    struct works w = {.n = 0};

    lw_kernel_share(&k, &g, keep_work, &w);
    return w;
}

static void assert_product(const struct lw_product *p, int64_t batch, int64_t m, int64_t n,
                           int64_t k)
{
    assert_int_equal(p->batch, batch);
    assert_int_equal(p->m, m);
    assert_int_equal(p->n, n);
    assert_int_equal(p->k, k);
}

/* 4096 tokens, 1000 -> 602 columns: two ranks of a context group have 2048 tokens, four of a tensor
 * group 151 columns. FLOPs and bytes are of the four: 2 x 2048 x 1000 x 602, and each operand once,
 * of 2 bytes. */
TEST(groups_divide_a_column_product_and_its_gradients)
{
    const struct lw_kernel k = {.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_COLUMN, .batch = 1,
                                .m = 4096, .n = 602, .k = 1000, .dtype = LW_BF16, .trained = true,
                                .out_size = 4};
    struct works w = works_of(k, (struct lw_kernel_groups){.tp = 4, .cp = 2});

    assert_int_equal(w.n, 3);
    assert_product(&w.of[LW_PRODUCTS_FORWARD].product, 1, 2048, 151, 1000);
    assert_product(&w.of[LW_PRODUCTS_INPUT].product, 1, 2048, 1000, 151);
    assert_product(&w.of[LW_PRODUCTS_WEIGHT].product, 1, 1000, 151, 2048);
    assert_true(w.of[LW_PRODUCTS_WEIGHT].product.accumulate);
    assert_int_equal(w.of[LW_PRODUCTS_WEIGHT].product.out_size, 4);
    for (int i = 0; i < w.n; i++) {
        assert_int_equal(w.of[i].flops, INT64_C(2) * 2048 * 1000 * 602);
        assert_int_equal(w.of[i].bytes, 2 * (2048 * 1000 + 1000 * 602 + 2048 * 602));
        assert_false(w.of[i].whole);
        assert_int_equal(w.of[i].completes, i == 0);
    }
}

/* 8-bit operands, and gradients that a kernel of its own adds to f32 sums, 2 + 2 x 4 bytes: the
 * sums complete the gradients, and backward, which runs the other way, ends with them. */
TEST(sums_and_casts_are_kernels_of_their_own)
{
    const struct lw_kernel k = {.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_ROW, .batch = 1, .m = 64,
                                .n = 32, .k = 16, .dtype = LW_BF16, .trained = true,
                                .sum_bytes = 10, .fp8 = true};
    struct works w = works_of(k, (struct lw_kernel_groups){.tp = 2});

    assert_int_equal(w.n, 5);
    assert_int_equal(w.of[0].phase, LW_PRODUCTS_WEIGHT);
    assert_int_equal(w.of[0].bytes, 10 * 8 * 32 * 2);
    assert_true(w.of[0].completes);
    assert_int_equal(w.of[1].phase, LW_PRODUCTS_INPUT);
    assert_int_equal(w.of[1].bytes, 4 * 64 * 32 * 2); /* each rank has all of the output */
    assert_product(&w.of[2].product, 1, 64, 32, 8);
    for (int i = 1; i < w.n; i++)
        assert_false(w.of[i].completes);
}

/* What a tensor group does not divide, sequence parallelism divides by tokens. */
TEST(sequence_parallelism_divides_what_is_whole)
{
    const struct lw_kernel k = {.kind = LW_KERNEL_GEMM, .batch = 1, .m = 64, .n = 32, .k = 16,
                                .dtype = LW_BF16};
    struct works whole = works_of(k, (struct lw_kernel_groups){.tp = 4});
    struct works split = works_of(
        k, (struct lw_kernel_groups){.tp = 4, .sequence_parallel = true});

    assert_int_equal(whole.n, 2); /* frozen */
    assert_product(&whole.of[0].product, 1, 64, 32, 16);
    assert_true(whole.of[0].whole);
    assert_product(&split.of[0].product, 1, 16, 32, 16);
    assert_false(split.of[0].whole);
}

/* 8 experts of which 2 ranks have 4 each: 100 tokens of each rank go to 2 experts, 400 copies of
 * both ranks are 50 rows of each expert; with a capacity of 1.5 they are 75. */
TEST(an_expert_group_divides_experts_and_brings_tokens)
{
    struct lw_kernel k = {.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_COLUMN, .m = 200, .n = 64,
                          .k = 32, .dtype = LW_BF16, .experts = 8, .halves = true};
    const struct lw_kernel_groups two = {.ep = 2, .tp = 2};
    struct works w = works_of(k, two);

    assert_product(&w.of[0].product, 4, 50, 32, 32);
    assert_true(w.of[0].product.grouped);
    k.capacity = 1.5;
    assert_product(&works_of(k, two).of[0].product, 4, 75, 32, 32);
    struct works shared =
        works_of(k, (struct lw_kernel_groups){.ep = 2, .tp = 2, .whole_experts = true});
    assert_product(&shared.of[0].product, 2, 75, 64, 32);
}

/* A ring of 2: two kernels, on half of the keys each, and one join of two kernels. */
TEST(a_context_group_runs_attention_as_a_ring)
{
    const struct lw_kernel k = {.kind = LW_KERNEL_ATTENTION, .split = LW_SPLIT_HEADS, .batch = 2,
                                .m = 64, .heads = 8, .kv_heads = 2, .qk_width = 16, .v_width = 16,
                                .dtype = LW_BF16, .causal = true};
    static struct works w;
    int n_kernels = 0, n_joins = 0;

    w = works_of(k, (struct lw_kernel_groups){.tp = 2, .cp = 2});
    for (int i = 0; i < w.n; i++) {
        const struct lw_kernel_work *x = &w.of[i];
        n_kernels += x->attention.batch > 0 && x->phase == LW_PRODUCTS_FORWARD;
        n_joins += x->attention.batch == 0 && x->phase == LW_PRODUCTS_FORWARD;
    }
    assert_int_equal(n_kernels, 2);
    assert_int_equal(n_joins, 2);
    assert_int_equal(w.of[0].attention.heads, 4);
    assert_int_equal(w.of[0].attention.kv_heads, 1);
    assert_int_equal(w.of[0].attention.seq_q, 32);
    assert_int_equal(w.of[0].attention.seq_k, 32);
    assert_true(w.of[1].attention.backward);
}

/* A large product is bound by its FLOPs, one of 16 rows by its weights, a small one by its launch;
 * so is traffic of few bytes. */
TEST(the_largest_term_bounds_a_kernel)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    struct lw_product large = {.batch = 1, .m = 8192, .n = 8192, .k = 8192, .dtype = LW_BF16};
    struct lw_product narrow = large, small = large;

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    narrow.m = 16;
    small.m = small.n = small.k = 64;
    assert_int_equal(lw_product_bounded(&c.device, &large).bound, LW_BOUND_COMPUTE);
    assert_int_equal(lw_product_bounded(&c.device, &narrow).bound, LW_BOUND_MEMORY);
    assert_int_equal(lw_product_bounded(&c.device, &small).bound, LW_BOUND_LAUNCH);
    assert_int_equal(lw_traffic_bounded(&c.device, 1 << 30, 0).bound, LW_BOUND_MEMORY);
    assert_int_equal(lw_traffic_bounded(&c.device, 1 << 10, 0).bound, LW_BOUND_LAUNCH);
    assert_int_equal(lw_traffic_bounded(&c.device, 1 << 30, LW_PS_PER_S).bound, LW_BOUND_LAUNCH);
    lw_cluster_free(&c);
}

/* --- the evaluator ---------------------------------------------------------------------------- */

/* One module of two kernels of traffic on the device of the tests, where a byte takes a nanosecond:
 * 30 + 10 forward, and backward 40 of the second kernel, then 20 of the first. */
struct small {
    struct lw_module module;
    struct lw_param params[2];
    struct lw_kernel kernels[2];
    int32_t grad_kernel[2], ready_order[2];
    struct lw_workload w;
    struct lw_device device;
};

static void small_init(struct small *s)
{
    const struct lw_param p = {.name = "", .numel = 1, .dtype = LW_F32, .tied = -1,
                               .trainable = true, .used = true};

    *s = (struct small){
        .module = {.n_kernels = 2},
        .params = {p, p},
        .kernels = {{.bytes = {30, 15, 5}, .dtype = LW_F32},
                    {.bytes = {10, 40, 0}, .dtype = LW_F32, .split = LW_SPLIT_GROUP}},
        .grad_kernel = {0, 1},
        .device = model_device(),
    };
    s->w = (struct lw_workload){.n_modules = 1, .n_params = 2, .n_kernels = 2,
                                .modules = &s->module, .params = s->params,
                                .kernels = s->kernels, .grad_kernel = s->grad_kernel,
                                .ready_order = s->ready_order, .step_traffic = {7, 3}};
}

/* The first kernel alone, which makes the gradient of the one parameter that is trained. */
static void small_init_one(struct small *s)
{
    small_init(s);
    s->module.n_kernels = 1;
    s->params[1].trainable = false;
    s->grad_kernel[1] = 0;
}

static void evaluate(struct small *s, const struct lw_kernel_rates *rates,
                     const struct lw_kernel_groups *groups)
{
    struct lw_err err = {0};

    assert_ok(lw_kernels_time(&s->w, &s->device, rates, groups, &err), err);
}

TEST(a_module_takes_the_sum_of_its_kernels)
{
    struct small s;
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_groups one = {0};

    small_init(&s);
    evaluate(&s, &none, &one);
    assert_int_equal(s.module.forward_ps, 40 * LW_PS_PER_NS);
    assert_int_equal(s.module.backward_input_ps, 55 * LW_PS_PER_NS);
    assert_int_equal(s.module.backward_weight_ps, 5 * LW_PS_PER_NS);
    assert_int_equal(s.module.whole_forward_ps, 30 * LW_PS_PER_NS);
    assert_int_equal(s.params[1].ready_ps, 40 * LW_PS_PER_NS);
    assert_int_equal(s.params[0].ready_ps, 60 * LW_PS_PER_NS);
    assert_int_equal(s.ready_order[0], 1);
    assert_int_equal(s.w.optimizer_ps, 2 * 7 * LW_PS_PER_NS);
    assert_int_equal(s.w.gradients_ps, 2 * 3 * LW_PS_PER_NS);
}

/* 1,600 bytes at 10^9 B/s. A device with figures for shapes has the bandwidth that its kernels
 * reach, 0.85 of it where nothing is measured; one of rooflines alone has all of it. */
TEST(a_counted_kernel_takes_the_bandwidth_that_kernels_reach)
{
    const struct { bool shapes; double reached; lw_ps time; } cases[] = {
        {false, 0.5, 1600 * LW_PS_PER_NS}, {true, 0.5, 3200 * LW_PS_PER_NS},
        {true, 0, 1882353}, {true, 0.8, 2000 * LW_PS_PER_NS},
    };
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_groups one = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct small s;
        small_init_one(&s);
        s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_COUNTED, .flops = {1}, .bytes = {1600},
                                          .dtype = LW_F32};
        if (cases[i].shapes)
            s.device.n_sms = s.device.gemm_sustained = s.device.gemm_fill =
                (struct lw_figure){.value = 1, .source = "test"};
        if (cases[i].reached > 0)
            s.device.memory_sustained =
                (struct lw_figure){.value = cases[i].reached, .source = "test"};
        evaluate(&s, &none, &one);
        assert_int_equal(s.module.forward_ps, cases[i].time);
    }
}

/* Images need no gradient: backward launches are then of the gradient of weights. */
TEST(backward_launches_are_of_the_first_gradient)
{
    const struct lw_kernel both = {
        .kind = LW_KERNEL_TRAFFIC, .bytes = {1, 2, 3}, .n_forward = 4, .n_backward = 5};
    const struct lw_kernel weight = {
        .kind = LW_KERNEL_TRAFFIC, .bytes = {1, 0, 3}, .n_forward = 4, .n_backward = 5};
    struct works w = works_of(both, (struct lw_kernel_groups){0});

    assert_int_equal(w.n, 3);
    assert_int_equal(w.of[LW_PRODUCTS_FORWARD].n_launches, 4);
    assert_int_equal(w.of[LW_PRODUCTS_INPUT].n_launches, 5);
    assert_int_equal(w.of[LW_PRODUCTS_WEIGHT].n_launches, 0); /* one */
    w = works_of(weight, (struct lw_kernel_groups){0});
    assert_int_equal(w.n, 2);
    assert_int_equal(w.of[0].n_launches, 4);
    assert_int_equal(w.of[1].n_launches, 5);
}

/* The parameters are f32, a convolution's operands bf16 (autocast), whose peak is 4 x 10^12 at 0.5
 * of it, or f32 ones in TF32, 8 x 10^12: 10^6 FLOPs. */
TEST(what_is_counted_takes_the_peak_of_its_type)
{
    const struct {
        enum lw_dtype dtype;
        bool tf32;
        lw_ps time;
    } cases[] = {{LW_F32, false, 2000000}, {LW_BF16, false, 500000}, {LW_F32, true, 250000}};
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_groups one = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct small s;
        small_init_one(&s);
        s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_COUNTED,
                                          .flops = {1000000},
                                          .dtype = (uint8_t)cases[i].dtype,
                                          .tf32 = cases[i].tf32};
        s.device.peak_flops[LW_BF16] = (struct lw_figure){.value = 4e12, .source = "test"};
        s.device.tf32_peak_flops = (struct lw_figure){.value = 8e12, .source = "test"};
        evaluate(&s, &none, &one);
        assert_int_equal(s.module.forward_ps, cases[i].time);
    }
}

/* 1,600 bytes at 10^9 B/s of 4 SMs: 2 blocks reach half of it; the rest is a launch. More blocks
 * than SMs have all of it. */
TEST(blocks_reach_the_bandwidth_of_as_many_sms)
{
    const struct { int64_t blocks; double sms; lw_ps more; } cases[] = {
        {0, 4, 0}, {4, 4, 0}, {9, 4, 0}, {2, 4, 1600000}, {1, 4, 3 * INT64_C(1600000)}};
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_groups one = {0};
    lw_ps whole = 0;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct small s;
        small_init_one(&s);
        s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_TRAFFIC, .bytes = {1600},
                                          .blocks = cases[i].blocks, .dtype = LW_F32};
        s.device.n_sms = (struct lw_figure){.value = cases[i].sms, .source = "test"};
        s.device.gemm_sustained = s.device.gemm_fill = s.device.memory_sustained =
            (struct lw_figure){.value = 1, .source = "test"};
        evaluate(&s, &none, &one);
        whole = i == 0 ? s.module.forward_ps : whole;
        assert_int_equal(s.module.forward_ps - whole, cases[i].more);
    }
}

/* 0 = not known. */
static struct lw_figure figure_of(double value)
{
    return value > 0 ? (struct lw_figure){.value = value, .source = "test"} : (struct lw_figure){0};
}

/* 1,600 bytes at 10^9 B/s and, of a scan, beside them 299 FLOPs: with a peak of 10^12 of 16 bits
 * and SMs of 1,000 FLOPs a clock one ns, of 4,096 or of unknown ones 4.096 ns; without a peak of 16
 * bits at the rate of products of its own type, 5 10^11. */
TEST(a_scan_takes_its_bytes_and_clocks_of_the_sms)
{
    const struct { double peak, clock; lw_ps time; } cases[] = {
        {1e12, 1000, 1601000}, {1e12, 4096, 1604096}, {1e12, 0, 1604096}, {0, 1000, 1600598}};
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_groups one = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct small s;
        small_init_one(&s);
        s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_COUNTED, .scan = true, .flops = {299},
                                          .bytes = {1600}, .dtype = LW_F32};
        s.device.peak_flops[LW_BF16] = figure_of(cases[i].peak);
        s.device.sm_flops_per_clock = figure_of(cases[i].clock);
        evaluate(&s, &none, &one);
        assert_int_equal(s.module.forward_ps, cases[i].time);
    }
}

/* Products of two activations, both gradients in one work, on a device with figures for shapes:
 * factors of forward and backward, of these alone. */
TEST(products_of_stored_scores_take_their_own_time)
{
    const struct lw_kernel_rates rates[] = {
        {0}, {.scores_forward = 2}, {.scores_backward = 3},
        {.scores_forward = 2, .scores_backward = 3}};
    const struct lw_kernel_groups one = {0};
    lw_ps times[2][4][2];

    for (int both = 0; both < 2; both++)
        for (int i = 0; i < 4; i++) {
            struct small s;
            small_init(&s);
            s.module.n_kernels = 1;
            s.params[0].trainable = s.params[1].trainable = false;
            s.device.n_sms = s.device.gemm_sustained = s.device.gemm_fill =
                (struct lw_figure){.value = 1, .source = "test"};
            s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_HEADS,
                                              .batch = 4, .m = 512, .n = 512, .k = 64,
                                              .dtype = LW_F32, .both = both};
            evaluate(&s, &rates[i], &one);
            times[both][i][0] = s.module.forward_ps;
            times[both][i][1] = lw_module_backward(&s.module);
        }
    for (int both = 0; both < 2; both++)
        for (int i = 1; i < 4; i++) {
            bool forward = both && rates[i].scores_forward > 0;
            bool backward = both && rates[i].scores_backward > 0;
            assert_int_equal(times[both][i][0], (forward ? 2 : 1) * times[both][0][0]);
            assert_int_equal(times[both][i][1], (backward ? 3 : 1) * times[both][0][1]);
        }
}

/* Three launches of the backward take 90 ns, more than the device's 60: the sum is held, not each
 * kernel, and gradients keep their share of the window. */
TEST(the_host_holds_a_module_not_a_kernel)
{
    struct small s;
    const struct lw_kernel_rates rates = {.host_op_ps = 30 * LW_PS_PER_NS};
    const struct lw_kernel_groups one = {0};

    small_init(&s);
    evaluate(&s, &rates, &one);
    assert_int_equal(s.module.forward_ps, 60 * LW_PS_PER_NS);
    assert_int_equal(lw_module_backward(&s.module), 90 * LW_PS_PER_NS);
    assert_int_equal(s.module.bound_ps[0][LW_BOUND_MEMORY], 40 * LW_PS_PER_NS);
    assert_int_equal(s.module.bound_ps[0][LW_BOUND_HOST], 20 * LW_PS_PER_NS);
    assert_int_equal(s.module.bound_ps[1][LW_BOUND_MEMORY], 60 * LW_PS_PER_NS);
    assert_int_equal(s.module.bound_ps[1][LW_BOUND_HOST], 30 * LW_PS_PER_NS);
    assert_int_equal(s.params[1].ready_ps, 60 * LW_PS_PER_NS);
    assert_int_equal(s.params[0].ready_ps, 90 * LW_PS_PER_NS);
}

/* One product of 8 experts, which 2 ranks share: 4 each. Grouped, forward is 1 launch and backward
 * 2; with a launch for each expert 4 and 4 + 4. In 8 bits each expert's input and the gradient of
 * its result are cast before: 4 + 4, and 4 + 4 + 4 with the one of the traffic of those casts. A
 * router has 3 and 5 more. The device takes less than any of these: times are the host's. */
TEST(the_host_launches_each_experts_product)
{
    const struct lw_kernel_groups two = {.ep = 2};
    const struct { bool fp8, each, router; int64_t forward, backward; } cases[] = {
        {false, false, false, 1, 2}, {false, true, false, 4, 8},  {true, false, false, 1, 3},
        {true, true, false, 8, 13},  {false, true, true, 4 + 3, 8 + 5},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lw_ps op = LW_PS_PER_S;
        struct lw_kernel_rates rates = {.host_op_ps = op, .expert_products = cases[i].each};
        struct small s;

        small_init(&s);
        rates.router_forward = cases[i].router ? 3 : 0;
        rates.router_backward = cases[i].router ? 5 : 0;
        s.module.n_kernels = 1;
        s.params[1].trainable = false;
        s.kernels[0] = (struct lw_kernel){
            .kind = LW_KERNEL_GEMM, .split = LW_SPLIT_COLUMN, .m = 16, .n = 8, .k = 4, .experts = 8,
            .dtype = LW_BF16, .trained = true, .fp8 = cases[i].fp8,
            .tokens = cases[i].router ? LW_TOKENS_SENT_BEFORE : LW_TOKENS_STAY};
        s.grad_kernel[1] = 0;
        evaluate(&s, &rates, &two);
        assert_int_equal(s.module.forward_ps, cases[i].forward * op);
        assert_int_equal(lw_module_backward(&s.module), cases[i].backward * op);
    }
}

/* A module of one product, 16 x 4 by 4 x 8, with the gradient of its weights. */
static void one_product(struct small *s, uint8_t split, uint8_t layer)
{
    small_init(s);
    s->module.n_kernels = 1;
    s->params[1].trainable = false;
    s->kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_GEMM, .split = split, .layer = layer,
                                       .batch = 1, .m = 16, .n = 8, .k = 4, .dtype = LW_BF16,
                                       .trained = true};
    s->grad_kernel[1] = 0;
}

/* A layer's own time, F forward and B backward, is in place of its launches: of 16-bit operands 3
 * and 5 s, of narrower ones 7 and 11. Of 4 experts a rank it is the first one's; each other one's
 * product is a launch, in 8 bits with one for its cast, of forward and of both products of
 * backward: F + 3 (1 or 2), B + 3 (2 or 3). Frozen weights have no figure for their backward: a
 * launch for each product of the input's gradient, in 8 bits with its cast, and of experts one more
 * for the kernel that casts. Where a model has experts and parts of it are captured only theirs
 * have it. What every rank does has it where it is a layer; an operator has 1 and 2 launches, in 8
 * bits 1 and 3. */
TEST(a_layer_has_its_own_time_of_the_host)
{
    enum { NONE = LW_SPLIT_NONE, COLUMN = LW_SPLIT_COLUMN, ROW = LW_SPLIT_ROW };
    const struct lw_kernel_groups two = {.ep = 2};
    const struct {
        uint8_t split, layer;
        bool fp8, experts, captured, frozen;
        int64_t forward, backward;
    } cases[] = {
        {.split = COLUMN, .forward = 3, .backward = 5},
        {.split = ROW, .forward = 3, .backward = 5},
        {.split = COLUMN, .fp8 = true, .forward = 7, .backward = 11},
        {.split = NONE, .forward = 1, .backward = 2},
        {.split = NONE, .layer = LW_LAYER_WHOLE, .forward = 3, .backward = 5},
        {.split = COLUMN, .layer = LW_LAYER_JOINED, .forward = 3, .backward = 5},
        {.split = COLUMN, .layer = LW_LAYER_NONE, .forward = 1, .backward = 2},
        {.split = COLUMN, .experts = true, .forward = 3 + 3, .backward = 5 + 6},
        {.split = ROW, .fp8 = true, .experts = true, .forward = 7 + 6, .backward = 11 + 9},
        {.split = COLUMN, .experts = true, .captured = true, .forward = 3 + 3, .backward = 5 + 6},
        {.split = COLUMN, .captured = true, .forward = 1, .backward = 2},
        {.split = COLUMN, .fp8 = true, .captured = true, .forward = 1, .backward = 3},
        {.split = NONE, .layer = LW_LAYER_WHOLE, .captured = true, .forward = 1, .backward = 2},
        {.split = COLUMN, .frozen = true, .forward = 3, .backward = 1},
        {.split = ROW, .fp8 = true, .frozen = true, .forward = 7, .backward = 2},
        {.split = COLUMN, .experts = true, .frozen = true, .forward = 3 + 3, .backward = 4},
        {.split = ROW, .fp8 = true, .experts = true, .frozen = true, .forward = 7 + 6,
         .backward = 1 + 8},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lw_ps s1 = LW_PS_PER_S;
        const struct lw_kernel_rates rates = {
            .host_op_ps = s1, .expert_products = true, .captured = cases[i].captured,
            .host_layer_ps = {{3 * s1, 5 * s1}, {7 * s1, 11 * s1}}};
        struct small s;

        one_product(&s, cases[i].split, cases[i].layer);
        s.kernels[0].experts = cases[i].experts ? 8 : 0;
        s.kernels[0].fp8 = cases[i].fp8;
        s.kernels[0].trained = !cases[i].frozen;
        s.kernels[1].experts = 8; /* of another module */
        evaluate(&s, &rates, &two);
        assert_int_equal(s.module.forward_ps, cases[i].forward * s1);
        assert_int_equal(lw_module_backward(&s.module), cases[i].backward * s1);
    }
}

/* Graphs of parts of a block are those of blocks with experts. */
TEST(a_dense_model_has_its_layers_where_parts_of_experts_blocks_are_captured)
{
    const struct lw_kernel_groups one = {0};
    const struct lw_kernel_rates rates = {
        .host_op_ps = LW_PS_PER_S, .captured = true,
        .host_layer_ps = {{3 * LW_PS_PER_S, 5 * LW_PS_PER_S}}};
    struct small s;

    one_product(&s, LW_SPLIT_COLUMN, LW_LAYER_SPLIT);
    evaluate(&s, &rates, &one);
    assert_int_equal(s.module.forward_ps, 3 * LW_PS_PER_S);
    assert_int_equal(lw_module_backward(&s.module), 5 * LW_PS_PER_S);
}

/* Without the figure of a pass its launches count; without any the device's time stays. */
TEST(each_figure_of_the_host_counts_alone)
{
    const struct lw_kernel_groups one = {0};
    const struct {
        lw_ps op, layer[2];
        int64_t forward, backward; /* s; 0 = the device's */
    } cases[] = {
        {0, {3, 5}, 3, 5}, {0, {3, 0}, 3, 0}, {0, {0, 5}, 0, 5}, {1, {3, 0}, 3, 2},
        {1, {0, 5}, 1, 5}, {1, {0, 0}, 1, 2}, {0, {0, 0}, 0, 0},
    };
    const struct lw_kernel_rates none = {0};
    struct small bare;

    one_product(&bare, LW_SPLIT_COLUMN, LW_LAYER_SPLIT);
    evaluate(&bare, &none, &one);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lw_ps s1 = LW_PS_PER_S;
        const struct lw_kernel_rates rates = {
            .host_op_ps = cases[i].op * s1,
            .host_layer_ps = {{cases[i].layer[0] * s1, cases[i].layer[1] * s1}}};
        struct small s;

        one_product(&s, LW_SPLIT_COLUMN, LW_LAYER_SPLIT);
        evaluate(&s, &rates, &one);
        assert_int_equal(s.module.forward_ps, cases[i].forward > 0 ? cases[i].forward * s1
                                                                   : bare.module.forward_ps);
        assert_int_equal(lw_module_backward(&s.module),
                         cases[i].backward > 0 ? cases[i].backward * s1
                                               : lw_module_backward(&bare.module));
    }
}

/* A product that the framework computes with the one before it has no launch and no layer. */
TEST(a_joined_product_takes_nothing_of_the_host)
{
    const struct lw_kernel_groups one = {0};
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_rates rates = {
        .host_op_ps = LW_PS_PER_S, .joined_layers = true,
        .host_layer_ps = {{3 * LW_PS_PER_S, 5 * LW_PS_PER_S},
                          {7 * LW_PS_PER_S, 11 * LW_PS_PER_S}}};

    for (int variant = 0; variant < 4; variant++) {
        struct small bare, s;

        one_product(&bare, LW_SPLIT_COLUMN, LW_LAYER_JOINED);
        bare.kernels[0].fp8 = variant & 1;
        bare.kernels[0].sum_bytes = variant & 2 ? 10 : 0;
        one_product(&s, LW_SPLIT_COLUMN, LW_LAYER_JOINED);
        s.kernels[0] = bare.kernels[0];
        evaluate(&bare, &none, &one);
        evaluate(&s, &rates, &one);
        assert_int_equal(s.module.forward_ps, bare.module.forward_ps);
        assert_int_equal(lw_module_backward(&s.module), lw_module_backward(&bare.module));
    }
}

/* A kernel of `before` ns, then the products of 4 experts, 4 launches, of d ns together. The host
 * has read the experts' numbers of tokens when they begin, so it is not ahead: they take at least 4
 * launches, whatever ran before. A grouped product is a launch that the first kernel hides. In
 * backward the host is ahead. */
TEST(experts_products_wait_for_their_launches)
{
    enum { OP = 1000000 };
    const struct lw_kernel_groups two = {.ep = 2};
    lw_ps times[2][2][2];

    for (int each = 0; each < 2; each++)
        for (int op = 0; op < 2; op++) {
            const struct lw_kernel_rates rates = {.host_op_ps = op * OP * LW_PS_PER_NS,
                                                  .expert_products = each};
            struct small s;
            small_init(&s);
            s.module.n_kernels = 2;
            s.params[0].trainable = s.params[1].trainable = false;
            s.kernels[0] = (struct lw_kernel){.bytes = {50 * OP, 50 * OP}, .dtype = LW_F32};
            s.kernels[1] = (struct lw_kernel){.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_COLUMN,
                                              .m = 16, .n = 8, .k = 4, .experts = 8,
                                              .dtype = LW_BF16};
            evaluate(&s, &rates, &two);
            times[each][op][0] = s.module.forward_ps;
            times[each][op][1] = lw_module_backward(&s.module);
        }
    lw_ps all = times[0][0][0], before = 50 * OP * LW_PS_PER_NS, d = all - before;
    assert_true(d > 0 && d < OP * LW_PS_PER_NS);
    assert_int_equal(times[0][1][0], all);
    assert_int_equal(times[1][0][0], all);
    assert_int_equal(times[1][1][0], before + 4 * OP * LW_PS_PER_NS);
    for (int each = 0; each < 2; each++)
        assert_int_equal(times[each][1][1], times[0][0][1]);
}

/* 16 x 4 inputs of 4 bytes are 256 ns, 16 x 8 results 512: what a column product reads a norm wrote
 * in 8 bits; of two products with the activation between them in one, the second's input and the
 * gradient of the first's result are 8 bits already. */
TEST(operands_of_8_bits_are_cast_where_no_kernel_before_wrote_them_so)
{
    const struct {
        int64_t experts;
        enum lw_kernel_split split;
        bool epilogue;
        int64_t forward, saved; /* ns: casts of inputs; casts of gradients that are not */
    } cases[] = {{0, LW_SPLIT_COLUMN, false, 0, 0},   {0, LW_SPLIT_ROW, false, 256, 0},
                 {8, LW_SPLIT_COLUMN, false, 256, 0}, {8, LW_SPLIT_COLUMN, true, 256, 512},
                 {8, LW_SPLIT_ROW, false, 256, 0},    {8, LW_SPLIT_ROW, true, 0, 0},
                 {0, LW_SPLIT_VOCAB, false, 256, 0}};
    const struct lw_kernel_groups one = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lw_ps forward[2], backward[2];

        for (int with = 0; with < 2; with++) {
            const struct lw_kernel_rates rates = {.input_casts = with};
            struct small s;

            small_init(&s);
            s.module.n_kernels = 1;
            s.params[1].trainable = false;
            s.kernels[0] = (struct lw_kernel){
                .kind = LW_KERNEL_GEMM, .split = (uint8_t)cases[i].split, .batch = 1, .m = 16,
                .n = 8, .k = 4, .experts = cases[i].experts, .dtype = LW_BF16, .trained = true,
                .fp8 = true, .epilogue = with && cases[i].epilogue};
            s.grad_kernel[1] = 0;
            evaluate(&s, &rates, &one);
            forward[with] = s.module.forward_ps;
            backward[with] = lw_module_backward(&s.module);
        }
        assert_int_equal(forward[1] - forward[0], cases[i].forward * LW_PS_PER_NS);
        assert_int_equal(backward[0] - backward[1], cases[i].saved * LW_PS_PER_NS);
    }
}

/* No product reads columns of a frozen product's operands: 2 + 1 bytes of each of 64 x 32, and of
 * each of 64 x 16 that a kernel casts. */
TEST(operands_of_frozen_products_are_written_once)
{
    struct lw_kernel k = {.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_ROW, .batch = 1, .m = 64,
                          .n = 32, .k = 16, .dtype = LW_BF16, .fp8 = true};
    struct works w = works_of(k, (struct lw_kernel_groups){0});

    assert_int_equal(w.n, 3);
    assert_int_equal(w.of[0].bytes, (2 + 1) * 64 * 32);
    lw_ps cast[2];
    for (int trained = 0; trained < 2; trained++) {
        lw_ps forward[2];
        for (int with = 0; with < 2; with++) {
            struct small s;
            small_init(&s);
            s.module.n_kernels = 1;
            k.trained = trained;
            s.kernels[0] = k;
            s.grad_kernel[1] = 0;
            evaluate(&s, &(struct lw_kernel_rates){.input_casts = with},
                     &(struct lw_kernel_groups){0});
            forward[with] = s.module.forward_ps;
        }
        cast[trained] = forward[1] - forward[0];
    }
    assert_int_equal(4 * cast[0], 3 * cast[1]);
    assert_true(cast[0] > 0);
}

/* Of 4 bits: 16 x 4 of the input of a product after no norm and 16 x 8 of every gradient are cast,
 * 64 and 128 elements; what a norm wrote by a kernel of the model, where the framework casts. */
TEST(casts_of_4_bits_read_twice_and_write_scales)
{
    for (int row = 0; row < 2; row++) {
        lw_ps forward[2], backward[2];
        for (int four = 0; four < 2; four++) {
            const struct lw_kernel_rates rates = {.input_casts = true};
            struct small s;
            small_init(&s);
            s.module.n_kernels = 1;
            s.params[1].trainable = false;
            s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_GEMM,
                                              .split = row ? LW_SPLIT_ROW : LW_SPLIT_COLUMN,
                                              .batch = 1,
                                              .m = 16,
                                              .n = 8,
                                              .k = 4,
                                              .dtype = LW_BF16,
                                              .trained = true,
                                              .fp8 = true,
                                              .fp4 = four};
            s.grad_kernel[1] = 0;
            evaluate(&s, &rates, &(struct lw_kernel_groups){0});
            forward[four] = s.module.forward_ps;
            backward[four] = lw_module_backward(&s.module);
        }
        assert_int_equal(forward[1] - forward[0], (row ? 2 * 64 * 9 / 16 : 0) * LW_PS_PER_NS);
        assert_int_equal(backward[1] - backward[0], 2 * 128 * 9 / 16 * LW_PS_PER_NS);
    }
}

/* By roofline 2 * 16 * 8 * 4 flops at the rate of TF32, here half of f32's. */
TEST(a_roofline_of_tf32_has_its_peak)
{
    lw_ps forward[2];

    for (int tf32 = 0; tf32 < 2; tf32++) {
        struct small s;
        small_init(&s);
        s.module.n_kernels = 1;
        s.device.memory_bytes_per_s.value = 1e15;
        s.device.tf32_peak_flops = s.device.peak_flops[LW_F32];
        s.device.tf32_peak_flops.value /= 2;
        s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_GEMM, .batch = 1, .m = 16, .n = 8,
                                          .k = 4, .dtype = LW_F32, .trained = true, .tf32 = tf32};
        s.grad_kernel[1] = 0;
        evaluate(&s, &(struct lw_kernel_rates){0}, &(struct lw_kernel_groups){0});
        forward[tf32] = s.module.forward_ps;
    }
    assert_true(forward[0] > 0);
    assert_int_equal(forward[1], 2 * forward[0]);
}

TEST(what_a_norm_wrote_is_cast_to_4_bits_where_inputs_are)
{
    lw_ps forward[2];

    for (int casts = 0; casts < 2; casts++) {
        const struct lw_kernel_rates rates = {.input_casts = casts};
        struct small s;
        small_init(&s);
        s.module.n_kernels = 1;
        s.params[1].trainable = false;
        s.kernels[0] = (struct lw_kernel){.bytes = {320}, .fp8 = true, .fp4 = true};
        s.grad_kernel[1] = -1;
        evaluate(&s, &rates, &(struct lw_kernel_groups){0});
        forward[casts] = s.module.forward_ps;
    }
    assert_int_equal(forward[0], 0);
    assert_int_equal(forward[1], 320 * LW_PS_PER_NS);
}

/* Current scaling reads what is cast once more: 2 of 16 x 4 of the input, where a kernel casts it,
 * and of 16 x 8 of the gradient, in the same number of launches. */
TEST(a_pass_finds_the_scale_of_what_is_cast)
{
    static const enum lw_kernel_split splits[] = {LW_SPLIT_COLUMN, LW_SPLIT_ROW};
    const struct lw_kernel_groups one = {0};

    for (int i = 0; i < 4; i++) {
        const bool fp8 = i < 2;
        const lw_ps host = 1000 * LW_PS_PER_NS;
        lw_ps forward[2], backward[2], launches[2];

        for (int with = 0; with < 2; with++) {
            struct lw_kernel_rates rates = {.input_casts = true, .scale_passes = with};
            struct small s;

            small_init(&s);
            s.module.n_kernels = 1;
            s.params[1].trainable = false;
            s.kernels[0] = (struct lw_kernel){
                .kind = LW_KERNEL_GEMM, .split = (uint8_t)splits[i % 2], .batch = 1, .m = 16,
                .n = 8, .k = 4, .dtype = LW_BF16, .trained = true, .fp8 = fp8};
            s.grad_kernel[1] = 0;
            evaluate(&s, &rates, &one);
            forward[with] = s.module.forward_ps;
            backward[with] = lw_module_backward(&s.module);
            rates.host_op_ps = host;
            evaluate(&s, &rates, &one);
            launches[with] = (s.module.forward_ps + lw_module_backward(&s.module)) / host;
        }
        assert_int_equal(forward[1] - forward[0],
                         (fp8 && splits[i % 2] == LW_SPLIT_ROW ? 2 * 16 * 4 : 0) * LW_PS_PER_NS);
        assert_int_equal(backward[1] - backward[0], (fp8 ? 2 * 16 * 8 : 0) * LW_PS_PER_NS);
        assert_int_equal(launches[0], launches[1]);
    }
}

/* Of 16 x 4 of the input of a row product, where a kernel casts it, and 16 x 8 of the gradient each
 * recipe moves more by lw_fp8_cast_more; the framework's own pass is of no recipe. The host of a
 * linear layer whose time is measured has the cast of what a norm wrote. */
TEST(recipes_say_what_a_cast_moves)
{
    for (int i = 0; i < 2 * LW_N_FP8_RECIPES; i++) {
        const int recipe = i / 2;
        const bool engine = i % 2;
        lw_ps forward[2], backward[2];

        for (int with = 0; with < 2; with++) {
            const struct lw_kernel_rates rates = {.input_casts = engine,
                                                  .scale_passes = with && recipe > 0};
            struct small s;
            small_init(&s);
            s.module.n_kernels = 1;
            s.params[1].trainable = false;
            s.kernels[0] = (struct lw_kernel){
                .kind = LW_KERNEL_GEMM, .split = LW_SPLIT_ROW, .batch = 1, .m = 16, .n = 8, .k = 4,
                .dtype = LW_BF16, .trained = true, .fp8 = true,
                .recipe = (uint8_t)(with ? recipe : 0)};
            s.grad_kernel[1] = 0;
            evaluate(&s, &rates, &(struct lw_kernel_groups){0});
            forward[with] = s.module.forward_ps;
            backward[with] = lw_module_backward(&s.module);
        }
        assert_int_equal(
            forward[1] - forward[0],
            (engine ? lw_fp8_cast_more(recipe, 16 * 4, true, true) : 0) * LW_PS_PER_NS);
        assert_int_equal(backward[1] - backward[0],
                         lw_fp8_cast_more(recipe, 16 * 8, engine, true) * LW_PS_PER_NS);
    }
}

TEST(the_host_of_a_layer_has_the_cast_of_what_a_norm_wrote)
{
    for (int four = 0; four < 2; four++)
        for (int measured = 0; measured < 2; measured++) {
            const struct lw_kernel_rates rates = {
                .input_casts = true, .host_op_ps = 1000 * LW_PS_PER_NS,
                .host_layer_ps = {{0, 0}, {measured ? 5 : 0, measured ? 7 : 0}}};
            struct small s;
            small_init(&s);
            s.module.n_kernels = 1;
            s.params[1].trainable = false;
            s.kernels[0] = (struct lw_kernel){.bytes = {320}, .fp8 = true, .fp4 = four};
            s.grad_kernel[1] = -1;
            evaluate(&s, &rates, &(struct lw_kernel_groups){0});
            assert_int_equal(s.module.forward_ps,
                             (measured && !four ? 320 : 1000) * LW_PS_PER_NS);
        }
}

/* Both ranks of a context group together have what one rank has alone. */
TEST(times_are_of_all_ranks_of_a_context_group)
{
    struct small s;
    const struct lw_kernel_rates none = {0};
    const struct lw_kernel_groups two = {.cp = 5};

    small_init(&s);
    s.kernels[0].fixed = true;
    evaluate(&s, &none, &two);
    assert_int_equal(s.module.forward_ps, (5 * 30 + 10) * LW_PS_PER_NS);
    assert_int_equal(s.module.forward_bytes, 5 * 30 + 10);
    assert_int_equal(s.params[0].ready_ps, (5 * 20 + 40) * LW_PS_PER_NS);
}

/* --- kernels of models ------------------------------------------------------------------------ */

static void assert_same_times(const struct lw_workload *a, const struct lw_workload *b)
{
    for (int32_t i = 0; i < a->n_modules; i++) {
        struct lw_module m = a->modules[i], n = b->modules[i];
        assert_int_equal(m.forward_ps, n.forward_ps);
        assert_int_equal(m.backward_input_ps, n.backward_input_ps);
        assert_int_equal(m.backward_weight_ps, n.backward_weight_ps);
        assert_int_equal(m.whole_forward_ps, n.whole_forward_ps);
        assert_int_equal(m.selective_ps, n.selective_ps);
        assert_int_equal(m.tp_column_ps, n.tp_column_ps);
        assert_int_equal(m.attention_backward_start_ps, n.attention_backward_start_ps);
        assert_int_equal(m.forward_bytes, n.forward_bytes);
    }
    for (int32_t i = 0; i < a->n_params; i++)
        assert_int_equal(a->params[i].ready_ps, b->params[i].ready_ps);
    assert_memory_equal(a->ready_order, b->ready_order,
                        (size_t)a->n_ready * sizeof *a->ready_order);
    assert_int_equal(a->n_products, b->n_products);
    for (int32_t i = 0; i < a->n_products; i++)
        assert_true(lw_product_equal(&a->products[i], &b->products[i]));
    assert_int_equal(a->optimizer_ps, b->optimizer_ps);
}

/* A model made for one rank of an A10G, timed for groups of H100s, is the model made for these. */
MODEL_TEST(kernels_are_of_no_device_and_no_groups)
{
    static const struct lw_kernel_groups groups[] = {
        {.tp = 2}, {.tp = 4, .sequence_parallel = true}, {.cp = 2}, {.tp = 2, .cp = 2, .ep = 2},
        {.ep = 4},
    };
    static const char *const names[] = {"llama-3-8b", "gpt-1.3b", "bert-base", "mixtral-8x7b",
                                        "deepseek-v2", "gpt-oss-20b"};
    const struct lw_kernel_rates none = {0};
    struct lw_cluster a10g, h100;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("a10g", &a10g, &err), err);
    assert_ok(lw_cluster_find("dgx-h100", &h100, &err), err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            struct traces_model_shape shape = {.layers = 3, .dtype = "bf16"};
            struct lw_workload one; /* it grows */
            assert_ok(traces_model_build(names[i], &shape, &a10g.device, &one, &err), err);
            shape.tensor = groups[g].tp;
            shape.context = groups[g].cp;
            shape.expert_ranks = i >= 3 ? groups[g].ep : 0;
            shape.sequence_parallel = groups[g].sequence_parallel;
            struct lw_workload made = model_kept(names[i], &h100.device, shape);
            struct lw_kernel_groups of = groups[g];
            of.ep = shape.expert_ranks;
            assert_ok(lw_kernels_list_products(&one, &of, &err), err);
            assert_ok(lw_kernels_time(&one, &h100.device, &none, &of, &err), err);
            assert_same_times(&one, &made);
            lw_workload_free(&one);
        }
    lw_cluster_free(&a10g);
    lw_cluster_free(&h100);
}

/* Embedding, blocks that are alike, and the head: three lists of kernels for 82 modules. */
MODEL_TEST(modules_that_are_alike_share_their_kernels)
{
    struct lw_workload w = MODEL("llama-3-70b", .batch = 1);

    assert_int_equal(w.n_modules, 82);
    for (int32_t m = 2; m < 81; m++)
        assert_int_equal(w.modules[m].first_kernel, w.modules[1].first_kernel);
    assert_int_equal(w.n_kernels, w.modules[0].n_kernels + w.modules[1].n_kernels +
                                      w.modules[81].n_kernels);
}

/* 3072 x 1024: X has 1024 rows. X X^T: 2 x 1024^2 x 3072; A A: 2 x 1024^3, and A is added; B X as
 * the first, and X is added. */
TEST(newton_and_schulz_multiply_on_the_shorter_side)
{
    struct lw_kernel_work tall[LW_NEWTON_SCHULZ_WORKS], wide[LW_NEWTON_SCHULZ_WORKS];
    const int64_t few = 1024, many = 3072;

    lw_newton_schulz_step(many, few, tall);
    lw_newton_schulz_step(few, many, wide);
    assert_memory_equal(tall, wide, sizeof tall);
    assert_product(&tall[0].product, 1, few, few, many);
    assert_product(&tall[1].product, 1, few, few, few);
    assert_product(&tall[2].product, 1, few, many, few);
    assert_int_equal(tall[0].flops, 2 * few * few * many);
    assert_int_equal(tall[1].flops, 2 * few * few * few);
    assert_int_equal(tall[0].bytes, 2 * (2 * few * many + few * few));
    assert_int_equal(tall[1].bytes, 2 * 4 * few * few);
    assert_int_equal(tall[2].bytes, 2 * (few * few + 3 * few * many));
}

/* GPT-2: of 12 blocks four matrices each, and the table of positions; neither the embedding nor
 * vectors. Of experts the shape is one expert's. */
TEST(muons_matrices_are_those_of_two_dimensions)
{
    struct lw_workload w = model_build("gpt2", (struct traces_model_shape){.optimizer = "muon"});
    struct lw_workload x = model_build("mixtral-8x7b", (struct traces_model_shape){0});
    int64_t rows, columns, n = 0, elements = 0;

    for (int32_t i = 0; i < w.n_params; i++)
        if (lw_newton_schulz_shape(&w, i, &rows, &columns) > 0) {
            n++;
            elements += rows * columns;
        }
    assert_int_equal(n, 4 * 12 + 1);
    assert_int_equal(elements, 12 * 12 * 768 * 768 + 1024 * 768);
    for (int32_t i = 0; i < x.n_params; i++)
        if (x.params[i].expert) {
            assert_int_equal(lw_newton_schulz_shape(&x, i, &rows, &columns), 8);
            assert_int_equal(rows * columns * 8, x.params[i].numel);
            assert_true(rows == 4096 || rows == 2 * 14336);
        }
    lw_workload_free(&w);
    lw_workload_free(&x);
}

/* Products of experts in one module and a dense one in another: at half the speed experts' take
 * twice as long, and the dense one as long as before. */
TEST(a_frameworks_grouped_kernel_has_its_own_speed)
{
    const struct lw_kernel_groups one = {0};
    struct lw_err err = {0};
    struct lw_cluster b200;
    lw_ps of[2][3];

    assert_ok(lw_cluster_find("dgx-b200", &b200, &err), err);
    for (int experts = 0; experts < 2; experts++)
        for (int i = 0; i < 3; i++) { /* no fact; the device's speed; half of it */
            const struct lw_kernel_rates rates = {.grouped_speed = i == 2 ? 0.5 : i};
            struct small s;

            small_init(&s);
            s.device = b200.device;
            s.module.n_kernels = 1;
            s.kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_GEMM, .split = LW_SPLIT_COLUMN,
                                              .batch = 1, .m = 4096, .n = 4096, .k = 4096,
                                              .dtype = LW_BF16, .experts = experts ? 4 : 0};
            evaluate(&s, &rates, &one);
            of[experts][i] = s.module.forward_ps;
        }
    for (int experts = 0; experts < 2; experts++) {
        assert_int_equal(of[experts][1], of[experts][0]);
        assert_int_equal(of[experts][2], (1 + experts) * of[experts][0]);
    }
    lw_cluster_free(&b200);
}
