/* A checkpoint that stops early (docs/design/frameworks.md): full recomputation lacks the end of
 * each block's forward. */
#include "tests/lib/unit.h"

#include "shared/plan/op.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"

enum { N_BLOCKS = 2, BLOCK = 1 };

static const struct traces_model_shape small = {
    .batch = 1, .layers = N_BLOCKS, .hidden = 16, .heads = 4, .ffn = 32, .seq = 32, .vocab = 32,
    .dtype = "f32", .optimizer = "adam", .attention = "flash", .no_dropout = true};

static struct traces_model_shape shape_of(bool stops, int64_t tp, int64_t cp)
{
    struct traces_model_shape s = small;

    s.kept = stops ? TRACES_STOPS_EARLY : 0;
    s.tensor = tp;
    s.context = cp;
    s.sequence_parallel = tp > 1;
    return s;
}

/* What is done again of a module, or of all (-1), in the last pass: time and sums of the group. */
struct again {
    lw_ps ps;
    int64_t n_sums, n_products;
};

static struct again again_of(const struct lw_plan *p, int32_t module)
{
    const struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    struct again x = {0};
    bool inside = false;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        if (o->comm < 0 && o->work >= 0)
            inside = o->kind == LW_OP_KERNEL;
        if (!inside || (module >= 0 && o->module != module))
            continue;
        x.n_sums += o->kind == LW_OP_REDUCE_SCATTER || o->kind == LW_OP_ALL_REDUCE;
        if (o->comm >= 0 || o->work < 0)
            continue;
        x.ps += lw_plan_work_ps(p, o);
        x.n_products += p->works[o->work].n_products;
    }
    return x;
}

static struct again planned(const struct lw_workload *w, const char *words, int32_t module)
{
    struct lw_plan p = plan_of_words(w, words);
    struct again x = again_of(&p, module);

    lw_plan_free(&p);
    return x;
}

/* One rank takes so long for the last product of a block and what comes after it. */
static lw_ps end_of_block(const struct lw_workload *w)
{
    const struct lw_module *m = &w->modules[BLOCK];
    int32_t last = m->first_kernel + m->n_kernels - 1;
    lw_ps sum = w->kernel_times[last].ps[LW_PRODUCTS_FORWARD];

    assert_int_equal(w->kernels[last].kind, LW_KERNEL_TRAFFIC); /* the residual */
    assert_int_equal(w->kernels[last - 1].kind, LW_KERNEL_GEMM);
    return sum + w->kernel_times[last - 1].ps[LW_PRODUCTS_FORWARD];
}

/* Recomputation = forward - (last product, sum with the residual), and its product is not there. */
static void lacks_the_end(const char *model, int64_t kv_heads)
{
    struct traces_model_shape runs_all = shape_of(false, 0, 0), stops = shape_of(true, 0, 0);

    runs_all.kv_heads = stops.kv_heads = kv_heads;
    struct lw_workload all = model_kept(model, NULL, runs_all);
    struct lw_workload w = model_kept(model, NULL, stops);
    struct again x = planned(&w, "recompute full", BLOCK);
    struct again whole = planned(&all, "recompute full", BLOCK);

    assert_int_equal(all.modules[BLOCK].unrepeated_ps, 0);
    assert_int_equal(whole.ps, all.modules[BLOCK].forward_ps);
    assert_int_equal(w.modules[BLOCK].forward_ps, all.modules[BLOCK].forward_ps);
    assert_int_equal(w.modules[BLOCK].unrepeated_ps, end_of_block(&w));
    assert_int_equal(x.ps, whole.ps - end_of_block(&w));
    assert_int_equal(x.n_products, whole.n_products - 1);
    for (int r = 0; r < LW_N_RECOMPUTE; r++)
        assert_int_equal(w.modules[BLOCK].kept_bytes[r], all.modules[BLOCK].kept_bytes[r]);
}

MODEL_TEST(recomputation_is_the_forward_without_its_last_product)
{
    struct lw_workload w = model_kept("llama-7b", NULL, shape_of(true, 0, 0));

    /* 4 (32 x 32 + 32 x 16 + 32 x 16) and 3 x 4 x 32 x 16 bytes, a nanosecond each */
    assert_int_equal(end_of_block(&w), 14336 * LW_PS_PER_NS);
    lacks_the_end("llama-7b", 4);
    lacks_the_end("qwen-2.5-32b", 2);
    lacks_the_end("mpt-7b", 0);
    lacks_the_end("gpt2", 0); /* without dropout */
}

/* The sum over the tensor group after the last product is not done again either. */
MODEL_TEST(the_sum_of_the_last_product_is_left_out)
{
    struct lw_workload all = model_kept("llama-7b", NULL, shape_of(false, 2, 0));
    struct lw_workload w = model_kept("llama-7b", NULL, shape_of(true, 2, 0));
    const char *const words[] = {"tp 2 sequence-parallel on recompute full",
                                 "tp 2 sequence-parallel on recompute full tp-overlap backward"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct again whole = planned(&all, words[i], BLOCK), x = planned(&w, words[i], BLOCK);
        assert_int_equal(whole.n_sums, 2);
        assert_int_equal(x.n_sums, 1);
        assert_int_equal(x.n_products, whole.n_products - 1);
        assert_int_equal(x.ps, whole.ps - end_of_block(&w));
    }
}

/* All kinds of groups: a rank's recomputation is that of its kernels before the last product. */
MODEL_TEST(each_group_of_ranks_stops_at_the_same_kernel)
{
    static const char *const words[] = {
        "tp 2 cp 2 sequence-parallel on recompute full",
        "tp 2 cp 2 sequence-parallel on recompute full cp-comm-type p2p",
        "tp 2 cp 2 sequence-parallel on recompute full tp-overlap pieces",
        "tp 2 cp 2 sequence-parallel on recompute full pp 2 micro-batches 4 schedule zb-h1 "
        "partition uniform",
    };
    struct lw_workload w = model_kept("llama-7b", NULL, shape_of(true, 2, 2));
    const struct lw_module *m = &w.modules[BLOCK];
    lw_ps forward = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        forward += w.kernel_times[k].ps[LW_PRODUCTS_FORWARD];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_plan p = plan_of_words(&w, words[i]);
        struct again x = again_of(&p, BLOCK);
        struct lw_err err = {0};
        assert_ok(lw_plan_check(&p, &err), err);
        assert_true(x.ps > 0 && x.ps % (forward - end_of_block(&w)) == 0); /* of micro-batches */
        lw_plan_free(&p);
    }
}

/* Where something is saved after the last product has run, it runs again: a mask, operands of an
 * adapter or of an eager product in 8 bits. What experts save is not looked at. */
MODEL_TEST(what_is_saved_later_is_repeated)
{
    struct traces_model_shape s = shape_of(true, 0, 0);

    s.no_dropout = false;
    assert_int_equal(model_kept("gpt2", NULL, s).modules[BLOCK].unrepeated_ps, 0);
    s.lora = 2;
    assert_int_equal(model_kept("llama-7b", NULL, s).modules[BLOCK].unrepeated_ps, 0);
    s = shape_of(true, 0, 0);
    s.experts = 4;
    s.topk = 2;
    s.expert_ffn = 8;
    assert_int_equal(model_kept("llama-7b", NULL, s).modules[BLOCK].unrepeated_ps, 0);
    struct lw_device d = model_device();
    d.n_sms = d.gemm_sustained = d.gemm_fill = (struct lw_figure){1, "test"};
    d.fp8_speedup = (struct lw_figure){2, "test"};
    s = shape_of(true, 0, 0);
    s.dtype = "bf16";
    s.fp8 = true;
    assert_int_equal(model_kept("llama-7b", &d, s).modules[BLOCK].unrepeated_ps, 0);
    s.kept |= TRACES_KEPT_NEEDED; /* compiled */
    assert_true(model_kept("llama-7b", &d, s).modules[BLOCK].unrepeated_ps > 0);
}

/* Megatron-LM's groups of blocks run whole, and so does what has no blocks. */
MODEL_TEST(groups_of_blocks_run_whole)
{
    struct lw_workload w = model_kept("llama-7b", NULL, shape_of(true, 0, 0));
    struct again x = planned(&w, "recompute full recompute-method uniform recompute-layers 2", -1);

    assert_int_equal(x.ps, 2 * w.modules[BLOCK].forward_ps);
    assert_int_equal(w.modules[0].unrepeated_ps, 0);
    assert_int_equal(w.modules[w.n_modules - 1].unrepeated_ps, 0);
    assert_int_equal(planned(&w, "recompute full recompute-layers 1", -1).ps,
                     w.modules[BLOCK].forward_ps - end_of_block(&w));
}

static double hardware_flops(bool stops, const char *words)
{
    struct lw_workload w = model_kept("llama-7b", NULL, shape_of(stops, 0, 0));
    struct lw_plan p = plan_of_words(&w, words);
    double flops = p.yield.hardware_flops;

    lw_plan_free(&p);
    return flops;
}

/* Of each block that is repeated one product of 32 tokens, 32 and 16: 2 x 32 x 32 x 16 FLOPs. */
MODEL_TEST(hardware_flops_lack_the_product)
{
    const struct {
        const char *words;
        int products;
    } cases[] = {
        {"recompute full", N_BLOCKS},
        {"recompute full recompute-layers 1", 1},
        {"recompute full recompute-method uniform recompute-layers 2", 0},
        {"recompute full dp 2", 2 * N_BLOCKS}, /* samples */
        {"recompute none", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double all = hardware_flops(false, cases[i].words);
        assert_true(all > 0);
        assert_true(all - hardware_flops(true, cases[i].words) == cases[i].products * 32768.0);
    }
}

/* The executor runs what is left. */
MODEL_TEST(it_runs_and_is_verified)
{
    static const char *const words[] = {
        "tp 2 pp 2 micro-batches 3 sequence-parallel on tp-overlap backward recompute full",
        "dp 2 tp 2 zero 3 sequence-parallel on recompute full"};
    struct lw_workload w = model_kept("llama-7b", NULL, shape_of(true, 2, 0));

    exec_expect_verified(&w, words, 2);
}
