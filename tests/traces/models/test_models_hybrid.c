/* Hybrids of attention and state spaces: published counts, registration, products and scans by
 * hand, what layers keep, what ranks share, and what is refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/device/kernel_time.h"
#include "tests/lib/traces/model_help.h"

/* Safetensors indexes at huggingface.co/nvidia: Nemotron-H-8B-Base-8K, NVIDIA-Nemotron-Nano-9B-v2,
 * NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, and NVIDIA-Nemotron-3-Super-120B-A12B-BF16, which holds one
 * pair of layers for further tokens. */
MODEL_TEST(parameter_counts_are_the_published_ones)
{
    static const struct {
        const char *name;
        int64_t mtp, count;
    } cases[] = {
        {"nemotron-h-8b", 0, INT64_C(8100852736)},
        {"nemotron-nano-9b-v2", 0, INT64_C(8888227328)},
        {"nemotron-3-nano", 0, INT64_C(31577937344)},
        {"nemotron-3-super", 1, INT64_C(123611012096)},
        {"nemotron-3-super", 2, INT64_C(123611012096)}, /* passes over the same parameters */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL(cases[k].name, .mtp_layers = cases[k].mtp);
        assert_int_equal(lw_workload_numel(&w, false), cases[k].count);
    }
}

/* As the cards round them: 56 and 47 G (arXiv 2504.03624), 12.3 G, 120.6 and 12.7 G active,
 * 550 and 55 G active; the embedding counts as active. */
MODEL_TEST(sizes_without_an_index_are_those_of_the_cards)
{
    static const struct {
        const char *name;
        double total_g, active_g;
    } cases[] = {
        {"nemotron-h-56b", 56.3, 56.3},    {"nemotron-h-47b", 46.8, 46.8},
        {"nemotron-nano-12b-v2", 12.3, 12.3}, {"nemotron-3-nano", 31.6, 3.6},
        {"nemotron-3-super", 120.6, 12.7}, {"nemotron-3-ultra", 550, 55},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL(cases[k].name, 0);
        double total = (double)lw_workload_numel(&w, false) * 1e-9;
        double active = total - (double)w.idle_numel * 1e-9;
        if (total < 0.995 * cases[k].total_g || total > 1.005 * cases[k].total_g ||
            active < 0.98 * cases[k].active_g || active > 1.02 * cases[k].active_g)
            fail_msg("%s: %.5g G, %.4g active", cases[k].name, total, active);
    }
}

/* No two sizes that a rule could take for each other are equal. */
enum { T = 64, H = 40, HEADS = 8, P = 4, D = HEADS * P, G = 2, N = 24, L = 16, B = 2 };
enum { IN = 2 * D + 2 * G * N + HEADS, CONV = D + 2 * G * N };

static struct traces_model_shape small(const char *pattern)
{
    struct traces_model_shape s = {.batch = B, .hidden = H, .heads = 4, .kv_heads = 2,
                                   .head_width = 8, .seq = T, .vocab = 128};

    s.ffn = strchr(pattern, '-') ? 96 : 0;
    if (strchr(pattern, 'M')) {
        s.ssm_heads = HEADS;
        s.ssm_head_width = P;
        s.ssm_groups = G;
        s.ssm_state = N;
        s.ssm_chunk = L;
    }
    snprintf(s.layer_pattern, sizeof s.layer_pattern, "%s", pattern);
    return s;
}

static struct traces_model_shape with_experts(const char *pattern)
{
    struct traces_model_shape s = small(pattern);

    s.experts = 8;
    s.topk = 2;
    s.expert_ffn = 48;
    return s;
}

MODEL_TEST(a_layer_registers_its_norm_and_its_mixer)
{
    static const struct {
        const char *name;
        int64_t numel;
        enum lw_tp_split split;
    } all[] = {
        {"backbone.embeddings.weight", 128 * H, LW_TP_VOCAB},
        {"backbone.layers.0.norm.weight", H, LW_TP_REPLICATED},
        {"backbone.layers.0.mixer.dt_bias", HEADS, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.A_log", HEADS, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.D", HEADS, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.conv1d.weight", CONV * 4, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.conv1d.bias", CONV, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.in_proj.weight", IN * H, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.norm.weight", D, LW_TP_COLUMN},
        {"backbone.layers.0.mixer.out_proj.weight", H * D, LW_TP_ROW},
        {"backbone.layers.1.norm.weight", H, LW_TP_REPLICATED},
        {"backbone.layers.1.mixer.q_proj.weight", 32 * H, LW_TP_COLUMN},
        {"backbone.layers.1.mixer.k_proj.weight", 16 * H, LW_TP_COLUMN},
        {"backbone.layers.1.mixer.v_proj.weight", 16 * H, LW_TP_COLUMN},
        {"backbone.layers.1.mixer.o_proj.weight", H * 32, LW_TP_ROW},
        {"backbone.layers.2.norm.weight", H, LW_TP_REPLICATED},
        {"backbone.layers.2.mixer.up_proj.weight", 96 * H, LW_TP_COLUMN},
        {"backbone.layers.2.mixer.down_proj.weight", H * 96, LW_TP_ROW},
        {"backbone.norm_f.weight", H, LW_TP_REPLICATED},
        {"lm_head.weight", 128 * H, LW_TP_VOCAB},
    };
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("M*-"));

    assert_int_equal(w.n_params, sizeof all / sizeof *all);
    for (int32_t k = 0; k < w.n_params; k++) {
        assert_string_equal(w.params[k].name, all[k].name);
        assert_int_equal(w.params[k].numel, all[k].numel);
        assert_int_equal(w.params[k].tp_split, all[k].split);
    }
}

/* Two copies of bf16 put samples before tokens and back: of the first product's result and of the
 * scan's, forward and backward. None where samples come first, nor of one sample. */
MODEL_TEST(samples_that_come_first_are_not_copied)
{
    for (int64_t batch = 1; batch <= 3; batch++) {
        int64_t bytes[2][2] = {{0}};
        int32_t kernels[2];
        for (int first = 0; first < 2; first++) {
            struct traces_model_shape s = small("M");
            s.batch = batch;
            s.unfused = first ? TRACES_SAMPLES_FIRST : 0;
            struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);
            const struct lw_module *m = &w.modules[1];
            for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++) {
                bytes[first][0] += w.kernels[k].bytes[LW_PRODUCTS_FORWARD];
                bytes[first][1] += w.kernels[k].bytes[LW_PRODUCTS_INPUT];
            }
            kernels[first] = m->n_kernels;
        }
        int64_t copied = batch > 1 ? batch * T * 2 * 2 * (IN + D) : 0;
        assert_int_equal(bytes[0][0] - bytes[1][0], copied);
        assert_int_equal(bytes[0][1] - bytes[1][1], copied);
        assert_int_equal(kernels[0] - kernels[1], batch > 1 ? 2 : 0);
    }
}

/* Of a token: 2 h (2 d + 2 g + H) + 2 d h of the products, g = G N. The scan: C B is 2 L N for each
 * group, states and what earlier chunks give are 2 N d each, within a chunk 2 L d. */
enum { PRODUCTS = 2 * H * IN + 2 * D * H, SCAN = 2 * L * N * G + 4 * N * D + 2 * L * D };

MODEL_TEST(a_mixer_has_its_products_and_its_scan_by_hand)
{
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("M"));

    assert_int_equal(w.modules[1].forward_flops, B * T * (PRODUCTS + SCAN));
    /* of the pairs of a chunk a token sees (L + 1) / 2: of one sample */
    assert_int_equal(w.attention_flops, T * ((L + 1) * (G * N + D) + 4 * N * D));
    assert_int_equal(w.score_flops, T * SCAN);
    assert_int_equal(w.modules[1].kv_bytes, 0);
}

/* Tokens of h to 2 d + 2 g + H, and of d to h; weights have as many rows as their result. */
MODEL_TEST(products_of_a_mixer_lead_in_and_out)
{
    static const int64_t in[2] = {H, D}, out[2] = {IN, H};
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("M"));
    const struct lw_module *m = &w.modules[1];
    int n = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        if (w.kernels[k].kind == LW_KERNEL_GEMM) {
            assert_in_range(n, 0, 1);
            assert_int_equal(w.kernels[k].m, B * T);
            assert_int_equal(w.kernels[k].k, in[n]);
            assert_int_equal(w.kernels[k].n, out[n++]);
        }
    assert_int_equal(n, 2);
    for (int32_t k = 0; k < w.n_params; k++)
        if (strstr(w.params[k].name, "_proj"))
            assert_int_equal(w.params[k].rows, strstr(w.params[k].name, "in_proj") ? IN : H);
}

/* The backward of the scan alone: C B and its two gradients, 3 times; states again and the
 * gradients of states, x, B and C, 5 times 2 N d; 3 times 2 L d. */
MODEL_TEST(the_backward_of_a_scan_does_part_of_the_forward_again)
{
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("M"));
    const struct lw_module *m = &w.modules[1];
    int64_t forward = 0, backward = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++) {
        forward += w.kernels[k].flops[LW_PRODUCTS_FORWARD];
        backward += w.kernels[k].flops[LW_PRODUCTS_INPUT];
    }
    assert_int_equal(forward, B * T * SCAN);
    assert_int_equal(backward, B * T * (3 * 2 * L * N * G + 5 * 2 * N * D + 3 * 2 * L * D));
}

/* Adds bytes of the kernels of the first layer's scan, forward and backward; returns how many. */
static int64_t scan_bytes(const struct lw_workload *w, int64_t bytes[2])
{
    const struct lw_module *m = &w->modules[1];
    int64_t n = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        if (w->kernels[k].kind == LW_KERNEL_COUNTED) {
            bytes[0] += w->kernels[k].bytes[LW_PRODUCTS_FORWARD];
            bytes[1] += w->kernels[k].bytes[LW_PRODUCTS_INPUT];
            n++;
        }
    return n;
}

/* The shape of the measurement: 148,320 bytes of a token's operands forward and 475,424 backward
 * (docs/design/models_hybrid.md), of d = 7168; a gate reads z and writes its result in forward,
 * 4 d, and in backward reads four tensors and writes two, 12 d. All 1.187 times. Five kernels are
 * rounded. */
MODEL_TEST(a_scan_moves_more_than_its_operands)
{
    struct traces_model_shape s = small("M");
    s.batch = 4;
    s.seq = 4096;
    s.ssm_heads = 112;
    s.ssm_head_width = 64;
    s.ssm_groups = 8;
    s.ssm_state = s.ssm_chunk = 128;
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);
    int64_t tokens = 4 * 4096, bytes[2] = {0}, n = scan_bytes(&w, bytes);

    assert_int_equal(n, 5);
    assert_in_range(tokens * (148320 + 4 * 7168) * 1187 / 1000 - bytes[0], 0, n);
    assert_in_range(tokens * (475424 + 12 * 7168) * 1187 / 1000 - bytes[1], 0, n);
}

/* The measurement itself: of three sizes of chunks on a GB10, whose 273 GB/s kernels reach to 0.85
 * and whose 48 SMs run at 2.14 GHz. No kernel there reads or writes what the gate does. */
MODEL_TEST(a_scan_takes_what_was_measured)
{
    static const struct { int64_t chunk; double ms; } cases[] = {{64, 87.61}, {128, 63.57},
                                                                 {256, 57.00}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape s = small("M");
        s.batch = 4;
        s.seq = 4096;
        s.ssm_heads = 112;
        s.ssm_head_width = 64;
        s.ssm_groups = 8;
        s.ssm_state = 128;
        s.ssm_chunk = cases[i].chunk;
        struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);
        const struct lw_module *m = &w.modules[1];
        double bytes = -16.0 * 7168 * 4 * 4096 * 1.187, flops = 0;

        for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
            for (int phase = 0; phase < LW_N_PRODUCT_PHASES && w.kernels[k].scan; phase++) {
                bytes += (double)w.kernels[k].bytes[phase];
                flops += (double)w.kernels[k].flops[phase];
            }
        double seconds = bytes / (0.85 * 273e9) + flops / (299 * 48 * 2.14e9);
        assert_float_equal(seconds * 1e3, cases[i].ms, 0.002 * cases[i].ms);
    }
}

/* Of a token in bf16, operands added up kernel by kernel (docs/design/models_hybrid.md): step sizes
 * 2 H, and in f32 as sums 8 H; x and B or C 2 (d + g); C B in f32 4 L G; an f32 or bf16 of the
 * states of a chunk, N d elements for L tokens. With the shape of the measurement the two sums are
 * those of the test above. */
MODEL_TEST(operands_of_a_scan_are_those_of_its_state_and_its_chunk)
{
    enum { STEPS = 8 * HEADS, STATES = N * D / L, XB = 2 * (D + G * N), CB = 4 * L * G };
    enum {
        FORWARD = 2 * HEADS + 3 * STEPS + 2 * XB + 4 * G * N + 6 * D + 2 * CB + 12 * STATES,
        BACKWARD = 6 * HEADS + 11 * STEPS + 5 * XB + 28 * G * N + 24 * D + 6 * CB + 34 * STATES
    };
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("M"));
    int64_t bytes[2] = {0}, n = scan_bytes(&w, bytes);

    assert_in_range(B * T * FORWARD * 1187 / 1000 - bytes[0], 0, n);
    assert_in_range(B * T * BACKWARD * 1187 / 1000 - bytes[1], 0, n);
}

/* Bytes of a layer's kernels that move some. */
static int64_t moved_by(const struct lw_workload *w, int32_t module, enum lw_product_phase phase)
{
    const struct lw_module *m = &w->modules[module];
    int64_t bytes = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        bytes += w->kernels[k].bytes[phase];
    return bytes;
}

/* Each letter's layer is a graph of its own: one input, and one result but of experts, which give
 * the tokens, the residual and weights. Without experts there is no such graph. */
MODEL_TEST(layers_beside_experts_are_captured_one_by_one)
{
    struct traces_model_shape s = with_experts("M*-E"), none = small("M*-");
    int64_t x = 2 * 2 * B * T * H, weights = 2 * 4 * B * T * 8;
    const int64_t forward[] = {x, x, 0, x}, input[] = {x, x, 0, 2 * x + weights};
    struct lw_workload a = model_kept("nemotron-h-8b", NULL, s);
    struct lw_workload c = model_kept("nemotron-h-8b", NULL, none);

    s.unfused = none.unfused = TRACES_GRAPH_COPIES;
    struct lw_workload b = model_kept("nemotron-h-8b", NULL, s);
    struct lw_workload d = model_kept("nemotron-h-8b", NULL, none);
    for (int32_t i = 1; i <= 4; i++) {
        assert_int_equal(moved_by(&b, i, LW_PRODUCTS_FORWARD) -
                         moved_by(&a, i, LW_PRODUCTS_FORWARD), forward[i - 1]);
        assert_int_equal(moved_by(&b, i, LW_PRODUCTS_INPUT) - moved_by(&a, i, LW_PRODUCTS_INPUT),
                         input[i - 1]);
    }
    for (int32_t i = 1; i <= 3; i++)
        assert_int_equal(moved_by(&c, i, LW_PRODUCTS_INPUT), moved_by(&d, i, LW_PRODUCTS_INPUT));
}

/* Input and the norm's result, 2 h; the first product's result; the scan's before and after its
 * gate, and the norm's, 3 d; an f32 for each group. All but 2 h are split. */
MODEL_TEST(a_mixer_keeps_what_the_fused_scan_does_not_repeat)
{
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("M"));
    const struct lw_module *m = &w.modules[1];
    int64_t split = B * T * (2 * (IN + 3 * D) + 4 * G);

    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_NONE], split + B * T * 2 * 2 * H);
    assert_int_equal(m->whole_kept_bytes[LW_RECOMPUTE_NONE], B * T * 2 * 2 * H);
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_SELECTIVE], m->kept_bytes[LW_RECOMPUTE_NONE]);
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_FULL], 2 * B * T * H);
}

/* A ReLU's input and its result beside the input and the norm's. */
MODEL_TEST(two_products_keep_both_sides_of_the_activation)
{
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, small("-"));

    assert_int_equal(w.modules[1].forward_flops, B * T * 2 * 2 * H * 96);
    assert_int_equal(w.modules[1].kept_bytes[LW_RECOMPUTE_NONE], 2 * B * T * (2 * H + 2 * 96));
}

/* Tokens of 16 elements: the products in and out, 2 * 2 * 40 * 16; router 2 * 40 * 8; 2 copies of
 * 2 products of 16 x 48; shared 2 * 2 * 40 * 24. */
MODEL_TEST(experts_see_a_latent_vector)
{
    struct traces_model_shape s = with_experts("E");
    s.expert_latent = 16;
    s.shared_ffn = 24;
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);

    assert_int_equal(w.modules[1].forward_flops,
                     B * T * (2 * 2 * H * 16 + 2 * H * 8 + 2 * 2 * 2 * 16 * 48 + 2 * 2 * H * 24));
    assert_int_equal(w.modules[1].dispatch_bytes, B * T * 2 * 16 * 2);
    assert_int_equal(w.idle_numel, 6 * 2 * 16 * 48);
    int64_t all = lw_workload_numel(&w, false);
    assert_int_equal(all, 2 * 128 * H + 2 * H + 8 * H + 8 * 2 * 16 * 48 + 2 * H * 16 + 2 * H * 24);
}

/* One kernel makes the squared ReLU and multiplies it by the copy's weight. */
MODEL_TEST(experts_keep_no_activation_without_its_weight)
{
    struct traces_model_shape s = with_experts("E");
    struct lw_workload one = model_kept("nemotron-h-8b", NULL, s);
    s.kept = TRACES_KEPT_UNWEIGHTED;
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);

    assert_int_equal(w.modules[1].kept_bytes[0], one.modules[1].kept_bytes[0]);
}

/* The one buffer of a tensor group's gathers, of 40 elements a token, and of an expert group's of 4
 * ranks: of 4 x 16 elements, or of 4 x 4, where the first is larger. */
MODEL_TEST(gathered_tokens_of_experts_are_latent_too)
{
    struct traces_model_shape s = with_experts("E");
    s.gather_buffer = s.expert_gathered = s.expert_serial = s.sequence_parallel = true;
    s.tensor = 2;
    s.expert_ranks = 4;
    s.expert_latent = 16;
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);
    assert_int_equal(w.dims.workspace, B * T * 2 * 4 * 16);
    s.expert_latent = 4;
    w = model_kept("nemotron-h-8b", NULL, s);
    assert_int_equal(w.dims.workspace, B * T * 2 * H);
}

/* The second pass does the work of the first, and has no parameters. */
MODEL_TEST(passes_for_further_tokens_share_their_parameters)
{
    struct traces_model_shape s = with_experts("ME");
    struct lw_workload none = model_kept("nemotron-h-8b", NULL, s);
    s.mtp_layers = 2;
    struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);

    assert_int_equal(w.n_modules, none.n_modules + 2);
    assert_int_equal(w.modules[3].forward_flops, w.modules[4].forward_flops);
    assert_int_equal(w.modules[3].kept_bytes[0], w.modules[4].kept_bytes[0]);
    int64_t attention = 2 * 32 * H + 2 * 16 * H + H, experts = 8 * H + 8 * 2 * H * 48 + H;
    assert_int_equal(lw_workload_numel(&w, false) - lw_workload_numel(&none, false),
                     2 * H * H + 3 * H + attention + experts);
    for (int32_t k = 0; k < w.n_params; k++)
        assert_int_not_equal(w.params[k].module, 4);
}

/* Elements of a layer of h, by the table of docs/design/models_hybrid.md. */
static int64_t elements(const struct traces_model_shape *s, char letter)
{
    int64_t h = s->hidden, d = s->ssm_heads * s->ssm_head_width, g = s->ssm_groups * s->ssm_state;
    int64_t wide = s->expert_latent ? s->expert_latent : h;
    int64_t latent = s->expert_latent ? 2 * h * s->expert_latent : 0;

    switch (letter) {
    case 'M':
        return h + h * (2 * d + 2 * g + s->ssm_heads) + 5 * (d + 2 * g) + 3 * s->ssm_heads + d +
               d * h;
    case '*':
        return h + 2 * h * s->head_width * (s->heads + s->kv_heads);
    case '-':
        return h + 2 * h * s->ffn;
    default:
        return h + s->experts * h + s->experts * 2 * wide * s->expert_ffn + latent +
               2 * h * s->shared_ffn;
    }
}

static struct traces_model_shape random_shape(void)
{
    struct traces_model_shape s = {.batch = 1 + rand() % 3, .hidden = 16 * (1 + rand() % 8),
                                   .head_width = 8 * (1 + rand() % 4), .seq = 64, .vocab = 100,
                                   .tied = rand() % 2};
    int n = 4 + rand() % 20;

    s.kv_heads = 1 + rand() % 3;
    s.heads = s.kv_heads * (1 + rand() % 3);
    s.ffn = 1 + rand() % 99;
    s.ssm_groups = 1 + rand() % 3;
    s.ssm_heads = s.ssm_groups * (1 + rand() % 4);
    s.ssm_head_width = 1 + rand() % 32;
    s.ssm_state = 1 + rand() % 64;
    s.ssm_chunk = 16 << rand() % 3;
    s.experts = 2 + rand() % 6;
    s.topk = 1 + rand() % 2;
    s.expert_ffn = 1 + rand() % 40;
    s.shared_ffn = 1 + rand() % 40;
    s.expert_latent = rand() % 2 ? 1 + rand() % 24 : 0;
    for (int i = 0; i < n; i++)
        s.layer_pattern[i] = "M*-E"[i < 4 ? i : rand() % 4];
    return s;
}

MODEL_TEST(layers_of_any_pattern_add_up)
{
    unsigned seed = 71;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 60; round++) {
        struct traces_model_shape s = random_shape();
        struct lw_workload w = model_kept("nemotron-h-8b", NULL, s);
        int64_t n = (s.tied ? 1 : 2) * s.vocab * s.hidden + s.hidden, kept[4] = {0}, flops[4] = {0};
        for (int i = 0; s.layer_pattern[i]; i++) {
            int kind = (int)(strchr("M*-E", s.layer_pattern[i]) - "M*-E");
            const struct lw_module *m = &w.modules[1 + i];
            n += elements(&s, s.layer_pattern[i]);
            if (i < 4) {
                kept[kind] = m->kept_bytes[0];
                flops[kind] = m->forward_flops;
            }
            assert_int_equal(m->kept_bytes[0], kept[kind]); /* layers of a letter are alike */
            assert_int_equal(m->forward_flops, flops[kind]);
            assert_int_equal(m->kept_bytes[LW_RECOMPUTE_FULL], 2 * s.batch * s.seq * s.hidden);
        }
        assert_int_equal(lw_workload_numel(&w, false), n);
    }
}

/* A tensor group divides all of a mixer but its norm, the addition of the residual and, of
 * parameters, the norm's. */
MODEL_TEST(a_tensor_group_divides_the_mixer)
{
    struct traces_model_shape s = small("M");
    struct lw_workload one = model_kept("nemotron-h-8b", NULL, s);
    const struct lw_module *m = &one.modules[1];

    assert_int_equal(m->tp_forward_bytes, 2 * B * T * H);
    assert_int_equal(m->tp_backward_bytes, 2 * B * T * H);
    for (int32_t k = m->first_kernel + 1; k < m->first_kernel + m->n_kernels - 1; k++)
        assert_int_not_equal(one.kernels[k].split, LW_SPLIT_NONE);
}

/* The pattern of 52 letters is the model's own; a part of it is said. */
MODEL_TEST(layers_take_the_first_letters)
{
    struct lw_workload w = MODEL("nemotron-3-nano", .layers = 3);
    bool said = false;

    assert_int_equal(w.n_modules, 5);
    for (int32_t i = 0; i < w.n_notes; i++)
        said |= strstr(w.notes[i], "--layers: the first 3 of the 52 layers") != NULL;
    assert_true(said);
}

static bool credits(const char *name, struct traces_model_shape s, const char *source)
{
    struct lw_workload w = model_kept(name, NULL, s);
    const char *shapes = NULL;

    for (int32_t i = 0; i < w.n_notes; i++)
        if (strncmp(w.notes[i], "shapes: ", 8) == 0)
            shapes = w.notes[i] + 8;
    return shapes && strcmp(shapes, source) == 0;
}

/* A source is that of a model's own layers, also of the first of them; a pattern or sizes of others
 * are their giver's. */
MODEL_TEST(a_source_is_credited_with_its_own_layers_alone)
{
    static const char own[] = "options or config.json; what they leave out as nemotron-h-8b";
    static const char nano[] = "options or config.json; what they leave out as nemotron-3-nano";
    struct traces_model_shape s = {.layers = 0};

    assert_false(credits("nemotron-h-8b", s, own));
    assert_false(credits("nemotron-3-nano", s, nano));
    s.layers = 2;
    s.seq = 128;
    s.vocab = 100;
    assert_false(credits("nemotron-h-8b", s, own));
    assert_false(credits("nemotron-3-nano", s, nano));
    assert_true(credits("nemotron-h-8b", small("M-M*"), own));
    assert_true(credits("nemotron-3-nano", (struct traces_model_shape){.experts = 16}, nano));
    assert_true(credits("nemotron-h-8b", (struct traces_model_shape){.ssm_state = 64}, own));
    assert_true(credits("nemotron-h-8b", (struct traces_model_shape){.layer_pattern = "M*"}, own));
}

static void refused(struct traces_model_shape s, const char *name, const char *why)
{
    struct lw_device d = model_device();
    struct lw_workload w;
    struct lw_err err = {0};

    assert_int_not_equal(traces_model_build(name, &s, &d, &w, &err), LW_OK);
    assert_string_equal(err.msg, why);
}

TEST(what_does_not_fit_is_refused)
{
    struct traces_model_shape s = small("M*");

    s.layers = 3;
    refused(s, "nemotron-h-8b", "--layers: found 3, allowed: 2, the letters of the pattern; leave "
                                "it out, and give --layer-pattern for others");
    s.layers = 0;
    s.ssm_groups = 3;
    refused(s, "nemotron-h-8b",
            "--ssm-groups: found 3, allowed: divisors of the heads of a state-space layer, 8");
    s.ssm_groups = 2;
    s.tensor = 4;
    refused(s, "nemotron-h-8b",
            "--tp: found 4, allowed: divisors of the groups of a state-space layer, 2");
    s.tensor = 0;
    s.context = 2;
    refused(s, "nemotron-h-8b",
            "--cp: found 2, allowed: 1 with state-space layers: the exchanges of their heads over "
            "a context group are not modelled; leave --cp out");
    s.context = 0;
    s.seq = T + 1;
    refused(s, "nemotron-h-8b",
            "--seq: found 65, allowed: multiples of a chunk of the scan, 16 (--ssm-chunk)");
    refused(small("MxE"), "nemotron-h-8b",
            "--layer-pattern: letter 2: found 'x', expected M (state space), * (attention), - (two "
            "products), E (experts)");
    refused(small("ME"), "nemotron-h-8b", "--layer-pattern: the model has no experts; give "
                                          "--experts, --topk and --expert-ffn too");
    refused(with_experts("M-"), "nemotron-h-8b",
            "--experts: no layer of the pattern is E; give a --layer-pattern with E, or leave "
            "--experts out");
    s = small("*-");
    s.ssm_heads = 8;
    refused(s, "nemotron-h-8b", "--ssm-heads: no layer of the pattern is M; give a --layer-pattern "
                                "with M, or leave --ssm-heads out");
    s = (struct traces_model_shape){.expert_latent = 64};
    refused(s, "nemotron-h-8b", "--expert-latent: no layer of the pattern is E; give a "
                                "--layer-pattern with E, or leave --expert-latent out");
    s = (struct traces_model_shape){.ffn = 64};
    refused(s, "nemotron-3-nano", "--ffn: no layer of the pattern is -; give a --layer-pattern "
                                  "with -, or leave --ffn out");
    s = (struct traces_model_shape){.topk = 3, .layer_pattern = "M*"};
    refused(s, "nemotron-3-nano", "--experts: no layer of the pattern is E; give a "
                                  "--layer-pattern with E, or leave --experts out");
    s = (struct traces_model_shape){.ssm_state = 64};
    refused(s, "llama-2-7b", "--ssm-state does not apply to model llama-2-7b; hybrids with "
                             "state-space layers take it (nemotron-h-8b, nemotron-3-nano, ...)");
    s = (struct traces_model_shape){.lora = 8};
    refused(s, "nemotron-h-8b", "--lora does not apply to model nemotron-h-8b; models of the llama "
                                "family take it (decoder, llama-2-7b, mixtral-8x7b, ...)");
    s = (struct traces_model_shape){.autocast = true};
    refused(s, "nemotron-h-8b", "--autocast: with state-space layers casts are not modelled; leave "
                                "--autocast out, or choose a model without");
}

TEST(memory_may_run_out_anywhere)
{
    struct traces_model_shape s = with_experts("M*-E");

    s.expert_latent = 16;
    s.mtp_layers = 2;
    model_without_memory("nemotron-h-8b", s);
}
