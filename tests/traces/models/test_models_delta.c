/* Blocks whose attention is a gated delta net: counts in closed form, registration, products and
 * the rule by hand, what is kept, what ranks share, and what is refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/prng.h"
#include "tests/lib/traces/model_help.h"

/* No two sizes that a rule could take for each other are equal. */
enum { T = 128, H = 40, HEADS = 6, KEYS = 3, K = 20, V = 28, C = 64, B = 2 };
enum { QK = 2 * KEYS * K, D = HEADS * V, READ = HEADS * K, CONV = QK + D, A = 4, WIDTH = 12 };
enum { IN = CONV + D + 2 * HEADS };

static struct traces_model_shape small(int64_t every)
{
    return (struct traces_model_shape){
        .batch = B, .seq = T, .layers = 3, .hidden = H, .heads = A, .kv_heads = 2, .ffn = 96,
        .vocab = 128, .head_width = WIDTH, .linear_every = every, .linear_heads = HEADS,
        .linear_key_heads = KEYS, .linear_width = V, .linear_key_width = K,
        .attention_gate = true, .qk_norm = true, .dtype = "bf16",
    };
}

static int64_t flops_of(const struct lw_workload *w, int32_t module, enum lw_product_phase phase)
{
    const struct lw_module *m = &w->modules[module];
    int64_t flops = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        flops += w->kernels[k].kind == LW_KERNEL_COUNTED ? w->kernels[k].flops[phase] : 0;
    return flops;
}

/* By the configuration (huggingface/transformers 5.24.0, models/qwen3_next), part by part. */
MODEL_TEST(the_count_of_qwen3_next_is_the_sum_of_its_parts)
{
    const int64_t h = 2048, v = 32 * 128, k = 16 * 128, wide = 16 * 256;
    int64_t delta = h * (2 * k + 2 * v + 2 * 32) + 4 * (2 * k + v) + 2 * 32 + 128 + v * h;
    int64_t attention = h * (2 * wide + 2 * 2 * 256) + wide * h + 2 * 256;
    int64_t experts = 512 * h + 512 * 3 * h * 512 + 3 * h * 512 + h;
    int64_t ends = 2 * 151936 * h + h, blocks = 48 * (experts + 2 * h) + 36 * delta;
    int64_t further = experts + 2 * h + attention + 2 * h * h + 3 * h;
    struct lw_workload w = MODEL("qwen3-next-80b-a3b", 0);
    struct lw_workload one = MODEL("qwen3-next-80b-a3b", .mtp_layers = 1);

    assert_int_equal(lw_workload_numel(&w, false), blocks + 12 * attention + ends);
    assert_int_equal(lw_workload_numel(&one, false) - lw_workload_numel(&w, false), further);
}

/* Of random sizes: parameters in closed form, with two and with four first products. */
MODEL_TEST(the_count_of_random_sizes_is_the_closed_form)
{
    struct prng r = prng_of(20261130);

    for (int i = 0; i < unit_cases(8, 200); i++) {
        struct traces_model_shape s = small(2);
        s.linear_key_heads = prng_below(&r, 4) + 1;
        s.linear_heads = s.linear_key_heads * (prng_below(&r, 3) + 1);
        s.linear_width = 4 * (prng_below(&r, 9) + 1);
        s.linear_key_width = 4 * (prng_below(&r, 9) + 1);
        s.linear_split = prng_below(&r, 2);
        struct lw_workload w = model_kept("decoder", NULL, s);
        int64_t d = s.linear_heads * s.linear_width, k = s.linear_key_heads * s.linear_key_width;
        int64_t delta = H * (2 * k + 2 * d + 2 * s.linear_heads) + 4 * (2 * k + d) +
                        2 * s.linear_heads + s.linear_width + d * H;
        int64_t attention = H * (2 * A + 2 * 2) * WIDTH + A * WIDTH * H + 2 * WIDTH;
        int64_t counted = 2 * delta + attention + 3 * (3 * 96 * H + 2 * H) + 2 * 128 * H + H;
        if (lw_workload_numel(&w, false) != counted)
            fail_msg("seed 20261130, case %d: %lld, expected %lld", i,
                     (long long)lw_workload_numel(&w, false), (long long)counted);
    }
}

MODEL_TEST(parameters_have_the_names_and_splits_of_the_published_ones)
{
    static const struct {
        const char *name;
        int64_t numel;
        enum lw_tp_split split;
    } all[] = {
        {"conv1d.weight", CONV * 4, LW_TP_COLUMN},
        {"in_proj_qkvz.weight", (CONV + D) * H, LW_TP_COLUMN},
        {"in_proj_ba.weight", 2 * HEADS * H, LW_TP_COLUMN},
        {"dt_bias", HEADS, LW_TP_COLUMN},
        {"A_log", HEADS, LW_TP_COLUMN},
        {"norm.weight", V, LW_TP_REPLICATED},
        {"out_proj.weight", H * D, LW_TP_ROW},
    };
    struct lw_workload w = model_kept("decoder", NULL, small(2));
    char name[64];

    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const struct lw_param *p = &w.params[1 + k];
        snprintf(name, sizeof name, "model.layers.0.linear_attn.%s", all[k].name);
        assert_string_equal(p->name, name);
        assert_int_equal(p->numel, all[k].numel);
        assert_int_equal(p->tp_split, all[k].split);
    }
}

/* Each second block attends, and a block for further tokens whatever its number: it has keys and
 * values. */
MODEL_TEST(each_nth_block_and_those_for_further_tokens_attend)
{
    for (int64_t every = 1; every <= 4; every++) {
        struct traces_model_shape s = small(every);
        s.mtp_layers = 1;
        struct lw_workload w = model_kept("decoder", NULL, s);
        for (int32_t i = 0; i < 4; i++)
            assert_int_equal(w.modules[1 + i].kv_bytes > 0, i == 3 || (i + 1) % every == 0);
    }
}

/* Of a token and head: 5/4 C K + C C / 2, 2 C (K + V), 4 K V, 2 K V + 2 C (K + V); backward. */
enum {
    FORWARD = HEADS * (5 * C * K / 4 + C * C / 2 + 4 * C * (K + V) + 6 * K * V),
    BACKWARD = HEADS * (2 * C * (K + V) + 4 * K * V + 10 * C * K + 4 * C * V + 4 * C * C +
                        6 * K * V + 2 * C * (K + V) + 6 * K * V + 2 * C * V + 4 * C * K),
};

MODEL_TEST(the_rule_has_its_flops_by_hand)
{
    struct lw_workload w = model_kept("decoder", NULL, small(2));
    int64_t products = 2 * H * IN + 2 * D * H + 3 * 2 * H * 96;

    assert_int_equal(flops_of(&w, 1, LW_PRODUCTS_FORWARD), B * T * FORWARD);
    assert_int_equal(flops_of(&w, 1, LW_PRODUCTS_INPUT), B * T * BACKWARD);
    assert_int_equal(w.modules[1].forward_flops, B * T * (products + FORWARD));
}

static bool says(const struct lw_workload *w, const char *words)
{
    bool found = false;

    for (int32_t i = 0; i < w->n_notes; i++)
        found |= strstr(w->notes[i], words) != NULL;
    return found;
}

/* What is assumed of the rule's time is what its kernels take: as a scan of the hybrids, by the
 * bytes that each moves beyond its operands and the rate of its FLOPs. */
MODEL_TEST(the_note_says_what_a_scan_takes)
{
    struct lw_workload w = model_kept("decoder", NULL, small(2));
    struct lw_workload hybrid = MODEL("nemotron-h-8b", 0);
    const struct lw_module *m = &w.modules[1];
    int64_t result = 2 * 2 * READ + 2 * 2 * D + 4 * HEADS + 2 * K * D / C; /* of the last kernel */
    const struct lw_kernel *last = NULL;
    char times[64];

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        last = w.kernels[k].scan ? &w.kernels[k] : last;
    assert_non_null(last);
    double ratio = (double)last->bytes[LW_PRODUCTS_FORWARD] / (double)(B * T * result);
    snprintf(times, sizeof times, "%.3f times the memory traffic", ratio);
    assert_true(says(&w, times));
    assert_true(says(&hybrid, times));
    assert_true(says(&w, "299 FLOPs in a clock of an SM"));
}

/* Model FLOPs count of the pairs of a chunk (C + 1) / 2, of three products with keys and two with
 * values; two blocks, and a sample's attention of the third with a causal mask. */
MODEL_TEST(model_flops_count_the_pairs_that_a_token_sees)
{
    struct lw_workload w = model_kept("decoder", NULL, small(4));
    int64_t pairs = HEADS * (3 * K + 2 * V);

    assert_int_equal(w.attention_flops, 3 * T * ((C + 1) * pairs + 6 * HEADS * K * V));
    assert_int_equal(w.score_flops, 3 * T * (2 * C * pairs + 6 * HEADS * K * V));
}

/* What a block keeps that has another mixer in place of attention: the difference of both. */
MODEL_TEST(what_is_kept_is_what_the_rule_and_its_norm_read)
{
    struct lw_workload w = model_kept("decoder", NULL, small(2));
    int64_t rule = 2 * IN + 2 * QK + 8 * KEYS + 2 * 2 * READ + 2 * D + HEADS * (4 + 2 + 2 * C);
    int64_t delta = rule + 3 * 2 * D + 4 * HEADS + 2 * D;
    int64_t q = A * WIDTH, kv = 2 * 2 * WIDTH;
    int64_t norm = 2 * (q + kv / 2); /* input of the norm of queries and keys */
    int64_t attention = 2 * (q + kv) + 4 * A + 2 * q + norm + 2 * 2 * q;

    assert_int_equal(w.modules[1].kept_bytes[LW_RECOMPUTE_NONE] -
                     w.modules[2].kept_bytes[LW_RECOMPUTE_NONE], B * T * (delta - attention));
    assert_int_equal(w.modules[1].whole_kept_bytes[LW_RECOMPUTE_NONE],
                     w.modules[2].whole_kept_bytes[LW_RECOMPUTE_NONE]);
}

/* As many heads of keys as of values: none is repeated, neither moved nor kept. */
MODEL_TEST(keys_are_repeated_only_for_more_heads_of_values)
{
    struct traces_model_shape s = small(2);
    struct lw_workload some = model_kept("decoder", NULL, s);

    s.linear_key_heads = s.linear_heads;
    struct lw_workload all = model_kept("decoder", NULL, s);
    assert_int_equal(some.modules[1].n_kernels - all.modules[1].n_kernels, 1);
}

TEST(what_has_no_rule_is_refused)
{
    struct {
        struct traces_model_shape s;
        const char *says;
    } cases[] = {
        {small(2), "--tp: found 2, allowed: divisors of the heads of keys of linear attention, 3"},
        {small(2), "--cp: found 2, allowed: 1 with linear attention"},
        {small(2), "--lora: adapters beside linear attention"},
        {small(2), "--framework: what a framework that keeps every second product"},
        {small(2), "linear attention: 4 heads of keys do not divide 6 of values"},
        {small(2), "--autocast: with linear attention casts are not modelled"},
    };

    cases[0].s.tensor = 2;
    cases[1].s.context = 2;
    cases[2].s.lora = 8;
    cases[3].s.kept = TRACES_KEPT_ALTERNATE;
    cases[4].s.linear_key_heads = 4;
    cases[5].s.autocast = true;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = {0};
        struct lw_device d = model_device();
        struct lw_err err = {0};
        assert_int_not_equal(traces_model_build("decoder", &cases[k].s, &d, &w, &err), LW_OK);
        if (!strstr(err.msg, cases[k].says))
            fail_msg("%s", err.msg);
    }
}

