/* Modules with kernels: shared/lower_part/kernel_steps.c. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/plan/op.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"

enum { ROOM = 4096 };

/* Two blocks for a rank of the groups; 64 bytes a token. */
static const struct traces_model_shape small = {
    .batch = 1, .layers = 2, .hidden = 16, .heads = 4, .ffn = 32, .seq = 32, .vocab = 32,
    .dtype = "f32", .optimizer = "adam", .attention = "flash"};

/* Ops of a module of the last pass: letter, of collectives '/' and bytes, of works ':' and the
 * number of the list where they end: `ends` (NULL: none). */
static const char *ops_of(const struct lw_plan *p, int32_t module, const lw_ps *ends, int32_t n,
                          char *text)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    size_t at = 0;
    lw_ps now = 0;

    text[0] = '\0';
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        int32_t k = 0;
        if (o->module != module || (o->comm < 0 && o->kind != LW_OP_FORWARD && ends))
            continue;
        at += (size_t)snprintf(text + at, ROOM - at, "%s%s", at > 0 ? " " : "",
                               lw_op_letter(o->kind));
        now += o->comm < 0 ? lw_plan_work_ps(p, o) : 0;
        while (k < n && ends && ends[k] != now)
            k++;
        if (o->comm >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "/%lld", (long long)o->bytes);
        else if (ends)
            at += (size_t)snprintf(text + at, ROOM - at, ":%d", k);
    }
    return text;
}

static void expect(const struct lw_workload *w, const char *words, const char *ops)
{
    char text[ROOM];
    struct lw_plan p = plan_of_words(w, words);

    assert_string_equal(ops_of(&p, 1, NULL, 0, text), ops);
    lw_plan_free(&p);
}

static struct traces_model_shape of_groups(int64_t tp, int64_t cp, int64_t ep, bool sequence)
{
    struct traces_model_shape s = small;

    s.tensor = tp;
    s.context = cp;
    s.expert_ranks = ep;
    s.sequence_parallel = sequence;
    return s;
}

/* norm | queries, keys, values, rotation, attention, projection | residual, norm | gate and up,
 * SiLU and product, down | residual. In backward the residual takes no time. */
MODEL_TEST(collectives_stand_at_the_kernels_that_need_them)
{
    struct lw_workload plain = model_kept("llama-7b", NULL, of_groups(2, 0, 0, false));
    struct lw_workload w = model_kept("llama-7b", NULL, of_groups(2, 0, 0, true));

    expect(&plain, "tp 2", "F AR/2048 F AR/2048 F B B B AR/2048 B B B B B AR/2048 B");
    expect(&w, "tp 2 sequence-parallel on",
           "F AG/2048 F RS/2048 F AG/2048 F RS/2048 F "
           "AG/2048 B B AG/2048 B B RS/2048 B AG/2048 B B AG/2048 B B B RS/2048 B");
}

/* 32 tokens of 16 elements of 2 bytes: 1,024 of a gather or a sum. Of operands a gather of an input
 * is of 512 bytes in 8 bits, and of 288 in 4 with their scales, and so is that of a saved input;
 * sums are not, nor is what a row product's gradient gathers. With adapters all are of 16 bits. */
MODEL_TEST(inputs_of_narrow_products_are_gathered_as_operands)
{
    struct lw_device d = model_device();
    struct traces_model_shape s = of_groups(2, 0, 0, true);
    const char *const all = "F AG/%d F RS/1024 F AG/%d F RS/1024 F "
                            "AG/1024 B B AG/%d B B RS/1024 B AG/1024 B B AG/%d B B B RS/1024 B";
    const struct { bool operands, fp4; int64_t lora; int bytes; } cases[] = {
        {false, false, 0, 1024}, {true, false, 0, 512}, {true, true, 0, 288},
        {true, false, 2, 1024}};
    char ops[256];

    d.n_sms = d.gemm_sustained = d.gemm_fill = (struct lw_figure){1, "test"};
    d.fp8_speedup = d.fp4_speedup = (struct lw_figure){2, "test"};
    s.dtype = "bf16";
    s.fp8 = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.gathers_operands = cases[i].operands;
        s.fp4 = cases[i].fp4;
        s.lora = cases[i].lora;
        struct lw_workload w = model_kept("llama-7b", &d, s);
        int b = cases[i].bytes;
        snprintf(ops, sizeof ops, all, b, b, b, b);
        if (cases[i].lora == 0)
            expect(&w, "tp 2 sequence-parallel on", ops);
        for (int32_t k = 0; k < w.n_kernels; k++)
            assert_int_equal(w.kernels[k].gathered_operand,
                             b < 1024 && w.kernels[k].gathered > 0 && w.kernels[k].fp8 ? b : 0);
    }
}

/* A recipe of 8-bit products says more: 512 elements of a gathered input are 512 bytes with one
 * scale a tensor and 528 with scales of MXFP8 or blocks; a row product's gradient is gathered in
 * one layout (512 bytes), and in both (1,056) where each has scales of its own. With adapters, and
 * where the framework gathers 16 bits, all are 1,024. */
MODEL_TEST(recipes_gather_layouts_with_their_scales)
{
    struct lw_device d = model_device();
    struct traces_model_shape s = of_groups(2, 0, 0, true);
    const char *const all = "F AG/%d F RS/1024 F AG/%d F RS/1024 F "
                            "AG/%d B B AG/%d B B RS/1024 B AG/%d B B AG/%d B B B RS/1024 B";
    const struct { const char *recipe; int input, gradient; } cases[] = {
        {NULL, 512, 1024}, {"delayed", 512, 512}, {"tensorwise", 512, 512},
        {"blockwise", 528, 1056}, {"mxfp8", 528, 1056}};
    char ops[256];

    d.n_sms = d.gemm_sustained = d.gemm_fill = (struct lw_figure){1, "test"};
    d.fp8_speedup = (struct lw_figure){2, "test"};
    d.kind = "B200";
    s.dtype = "bf16";
    s.fp8 = true;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool gathers = i % 2 == 0;
        s.gathers_operands = gathers;
        s.fp8_recipe = cases[i / 2].recipe;
        struct lw_workload w = model_kept("llama-7b", &d, s);
        int in = gathers ? cases[i / 2].input : 1024, out = gathers ? cases[i / 2].gradient : 1024;
        snprintf(ops, sizeof ops, all, in, in, out, in, out, in);
        expect(&w, "tp 2 sequence-parallel on", ops);
    }
    s.gathers_operands = true;
    s.lora = 2;
    struct lw_workload w = model_kept("llama-7b", &d, s);
    for (int32_t k = 0; k < w.n_kernels; k++)
        assert_int_equal(w.kernels[k].gathered_operand + w.kernels[k].summed_operand, 0);
}

/* The end of each op of the forward is that of a kernel: none divides a kernel's time. */
MODEL_TEST(ops_end_where_kernels_end)
{
    struct lw_workload w = model_kept("llama-7b", NULL, of_groups(2, 0, 0, true));
    const struct lw_module *m = &w.modules[1];
    char text[ROOM], want[ROOM] = "";
    lw_ps ends[64], now = 0;
    int32_t n = 0;
    size_t at = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++) {
        ends[n++] = now += w.kernel_times[k].ps[LW_PRODUCTS_FORWARD];
        const struct lw_kernel *next = &w.kernels[k + 1];
        bool last = n == m->n_kernels;
        if (w.kernels[k].summed > 0 || last || next->gathered > 0)
            at += (size_t)snprintf(want + at, ROOM - at, "%sF:%d", at > 0 ? " " : "", n - 1);
        if (w.kernels[k].summed > 0)
            at += (size_t)snprintf(want + at, ROOM - at, " RS/2048");
        else if (!last && next->gathered > 0)
            at += (size_t)snprintf(want + at, ROOM - at, " AG/2048");
    }
    struct lw_plan p = plan_of_words(&w, "tp 2 sequence-parallel on");
    ops_of(&p, 1, ends, n, text);
    text[strlen(want)] = '\0'; /* collectives of the backward follow */
    assert_string_equal(text, want);
    lw_plan_free(&p);
}

/* Without a division: a rank's works are its kernels. */
MODEL_TEST(a_rank_takes_what_its_kernels_take)
{
    struct lw_workload w = model_kept("llama-7b", NULL, of_groups(4, 2, 0, true));
    struct lw_plan p = plan_of_words(&w, "tp 4 cp 2 sequence-parallel on");
    lw_ps ps = 0, want = 0;

    for (int32_t m = 0; m < w.n_modules; m++)
        for (int32_t k = 0; k < w.modules[m].n_kernels; k++)
            for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
                want += w.kernel_times[w.modules[m].first_kernel + k].ps[f];
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        ps += p.ops[i].work >= 0 && p.ops[i].module >= 0 ? lw_plan_work_ps(&p, &p.ops[i]) : 0;
    assert_int_equal(ps, want);
    lw_plan_free(&p);
}

/* Keys and values beside attention, tokens beside the experts. */
MODEL_TEST(other_groups_find_their_kernels)
{
    struct traces_model_shape s = of_groups(0, 2, 2, false);
    struct lw_workload w;

    w = model_kept("llama-7b", NULL, of_groups(0, 2, 0, false));
    expect(&w, "cp 2", "F AG/4096 F B B B B B AG/4096 B RS/4096 B B B B");
    s.experts = 4;
    s.topk = 2;
    s.expert_ffn = 8;
    s.context = 0;
    w = model_kept("llama-7b", NULL, s);
    expect(&w, "dp 2 ep 2", "F AA/4096 F AA/4096 F B AA/4096 B B B AA/4096 B B B B B B B");
}

static void add_up(struct lw_kernel_times *t, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
            t[k].before[f] = k > 0 ? t[k - 1].before[f] + t[k - 1].ps[f] : 0;
}

static int32_t products_of(const struct lw_plan *p, int32_t module)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    int32_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].work >= 0 && p->ops[i].module == module)
            n += p->works[p->ops[i].work].n_products;
    return n;
}

/* Those too that take no time at the end of a window: the last product of the forward, the first
 * one's gradients in the backward. */
MODEL_TEST(all_products_are_of_a_work)
{
    static const char *const words[] = {
        "tp 2", "tp 2 sequence-parallel on tp-overlap backward",
        "tp 2 sequence-parallel on pp 2 micro-batches 4 schedule zb-h1 partition uniform"};
    enum { MOST = 256 };
    static struct lw_kernel_times times[MOST];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_workload w = model_kept("llama-7b", NULL, of_groups(2, 0, 0, i > 0));
        const struct lw_module *m = &w.modules[1];
        int32_t first = m->first_kernel, n = m->n_kernels, from = n - 1, to = 0, all = 0;
        assert_true(w.n_kernels <= MOST);
        memcpy(times, w.kernel_times, (size_t)w.n_kernels * sizeof *times);
        while (times[first + from].n_products[LW_PRODUCTS_FORWARD] == 0)
            from--;
        while (times[first + to].n_products[LW_PRODUCTS_WEIGHT] == 0)
            to++;
        for (int32_t k = from; k < n; k++)
            times[first + k].ps[LW_PRODUCTS_FORWARD] = 0;
        for (int32_t k = 0; k <= to; k++)
            times[first + k].ps[LW_PRODUCTS_INPUT] = times[first + k].ps[LW_PRODUCTS_WEIGHT] = 0;
        add_up(times + first, n);
        w.kernel_times = times;
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
            all += m->n_products[f];
        struct lw_plan p = plan_of_words(&w, words[i]);
        int32_t micro_batches = (int32_t)p.strategy->micro_batches;
        assert_true(all > 0);
        assert_int_equal(products_of(&p, 1), all * micro_batches);
        lw_plan_free(&p);
    }
}

/* Times of experts that a tensor group shares are not those of experts that it splits: a plan that
 * splits them is that of a workload without kernels. */
MODEL_TEST(kernels_of_folded_experts_are_of_plans_that_fold_them)
{
    static const char *const words[] = {"dp 2 tp 2 ep 2", "dp 2 tp 2 ep 2 etp 1"};
    struct traces_model_shape s = of_groups(2, 0, 2, false);

    s.experts = 4;
    s.topk = 2;
    s.expert_ffn = 8;
    s.expert_whole = s.expert_folded = true;
    for (int i = 0; i < 2; i++) {
        struct lw_workload w = model_kept("llama-7b", NULL, s), without = w;
        char text[ROOM], other[ROOM];
        struct lw_plan p = plan_of_words(&w, words[i]);
        struct lw_module modules[8];
        assert_true(w.n_modules <= 8);
        for (int32_t m = 0; m < w.n_modules; m++) {
            modules[m] = w.modules[m];
            modules[m].n_kernels = 0;
        }
        without.n_kernels = without.n_grad_kernels = 0;
        without.modules = modules;
        struct lw_plan q = plan_of_words(&without, words[i]);
        bool same = strcmp(ops_of(&p, 1, NULL, 0, text), ops_of(&q, 1, NULL, 0, other)) == 0;
        assert_int_equal(same, i == 0);
        lw_plan_free(&p);
        lw_plan_free(&q);
    }
}

/* Memory, products and launches cost other shares: order alone decides. */
MODEL_TEST(a_strategy_has_one_hash_on_all_devices)
{
    static const char *const words[] = {
        "tp 2", "tp 2 sequence-parallel on", "tp 2 sequence-parallel on tp-overlap backward",
        "tp 2 sequence-parallel on tp-overlap pieces", "tp 2 dp 2 zero 1 recompute full",
        "tp 2 dp 2 zero 1 bucket-cap 1000 overlap-param-gather on",
        "tp 2 sequence-parallel on pp 2 micro-batches 4 schedule zb-h1 partition uniform"};
    struct lw_device d = model_device();

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        bool sequence = strstr(words[i], "sequence-parallel") != NULL;
        char hash[33] = "";
        for (int k = 0; k < 6; k++) {
            d.peak_flops[LW_F32].value = k % 2 ? 1e9 : 1e13;
            d.memory_bytes_per_s.value = k % 3 == 0 ? 1e8 : k % 3 == 1 ? 3e9 : 7e10;
            struct lw_workload w = model_kept("llama-7b", &d, of_groups(2, 0, 0, sequence));
            struct lw_plan p = plan_of_words(&w, words[i]);
            if (k > 0)
                assert_string_equal(p.hash, hash);
            assert_int_equal(p.n_from_times, 0);
            memcpy(hash, p.hash, sizeof hash);
            lw_plan_free(&p);
        }
    }
}

/* For other groups than the strategy's nothing is known of a rank's kernels: the module's times are
 * divided, and collectives are at equal distances. */
MODEL_TEST(kernels_of_other_groups_are_not_used)
{
    struct lw_workload w = model_kept("llama-7b", NULL, small);

    expect(&w, "tp 2", "F AR/2048 F AR/2048 B B B B AR/2048 B B B B B B AR/2048");
}

/* On threads, every message compared, weights equal to one rank's bit by bit. */
static void expect_verified(struct traces_model_shape s, const char *words)
{
    const char *const list[] = {words};
    struct lw_workload w = model_kept("llama-7b", NULL, s);

    exec_expect_verified(&w, list, 1);
}

MODEL_TEST(all_of_it_runs_and_is_verified)
{
    struct traces_model_shape experts = of_groups(2, 0, 2, true), again = of_groups(1, 2, 0, false);

    again.again_parts = LW_AGAIN_BIT(LW_AGAIN_MLP);
    expect_verified(again, "cp 2 cp-comm-type p2p recompute selective");
    expect_verified(of_groups(2, 0, 0, false), "tp 2 tp-overlap pieces");
    expect_verified(of_groups(2, 0, 0, true),
                    "dp 2 tp 2 zero 3 sequence-parallel on tp-overlap pieces");
    expect_verified(of_groups(2, 0, 0, true),
                    "tp 2 pp 2 micro-batches 3 sequence-parallel on tp-overlap backward "
                    "recompute full");
    expect_verified(of_groups(2, 2, 0, true),
                    "cp 2 tp 2 sequence-parallel on pp 2 micro-batches 4 schedule zb-h1");
    expect_verified(of_groups(2, 4, 0, false), "cp 4 tp 2 cp-comm-type p2p recompute full");
    expect_verified(of_groups(2, 4, 0, true),
                    "cp 4 tp 2 sequence-parallel on tp-overlap pieces cp-comm-type p2p");
    expect_verified(of_groups(2, 2, 0, true),
                    "dp 2 cp 2 tp 2 zero 1 pp 2 micro-batches 3 sequence-parallel on tp-overlap "
                    "backward cp-comm-type p2p recompute full");
    experts.experts = 4;
    experts.topk = 2;
    experts.expert_ffn = 8;
    expect_verified(experts, "dp 2 ep 2 tp 2 sequence-parallel on tp-overlap pieces");
}
