/* What a framework does not fuse, and its host's time: closed forms of bytes and launches. */
#include "tests/lib/unit.h"

#include "shared/device/device_time.h"
#include "shared/files/files.h"
#include "tests/lib/traces/model_help.h"

enum { LAYERS = 2, HIDDEN = 512, HEADS = 8, KV = 2, FFN = 1024, SEQ = 256, VOCAB = 4096 };
enum { BATCH = 2 };
enum { TOKENS = BATCH * SEQ, KV_WIDTH = HIDDEN / HEADS * KV, BLOCK = 1, HEAD = LAYERS + 1 };

static struct lw_cluster cluster;

static struct traces_model_shape shape_of(unsigned unfused)
{
    return (struct traces_model_shape){
        .batch = BATCH, .layers = LAYERS, .hidden = HIDDEN, .heads = HEADS, .kv_heads = KV,
        .ffn = FFN, .seq = SEQ, .vocab = VOCAB, .unfused = unfused};
}

static struct lw_workload built_as(struct traces_model_shape s)
{
    return model_kept("llama-2-7b", &cluster.device, s);
}

static struct lw_workload built(unsigned unfused, lw_ps host_op)
{
    struct traces_model_shape s = shape_of(unfused);

    s.rates.host_op_ps = host_op;
    return built_as(s);
}

static int64_t more_bytes(unsigned unfused, int32_t module)
{
    struct lw_workload a = built(0, 0), b = built(unfused, 0);
    int64_t more = b.modules[module].forward_bytes - a.modules[module].forward_bytes;

    return more;
}

/* Fused: 4 bytes an element of a norm and of what is rotated; the loss 6 a score. */
MODEL_TEST(forward_bytes_are_those_of_the_kernels)
{
    assert_int_equal(more_bytes(TRACES_UNFUSED_NORMS, BLOCK),
                     2 * (36 - 4) * TOKENS * HIDDEN + (20 - 4) * TOKENS * (HIDDEN + KV_WIDTH));
    assert_int_equal(more_bytes(TRACES_NORM_CASTS, BLOCK), 2 * (12 - 4) * TOKENS * HIDDEN);
    assert_int_equal(more_bytes(TRACES_UNFUSED_ROTATION, BLOCK),
                     (20 - 4) * TOKENS * (HIDDEN + KV_WIDTH));
    assert_int_equal(more_bytes(TRACES_UNFUSED_BLOCK, BLOCK),
                     4 * 2 * TOKENS * (HIDDEN + KV_WIDTH));
    assert_int_equal(more_bytes(TRACES_UNFUSED_LOSS, HEAD), (38 - 6) * TOKENS * VOCAB);
    assert_int_equal(more_bytes(TRACES_UNFUSED_SUMS, BLOCK), 0);
}

/* Stored scores: read and written; in backward five copies of the gradient. Fused
 * attention has none. */
MODEL_TEST(a_mask_of_its_own_moves_the_scores)
{
    enum { SCORES = BATCH * HEADS * SEQ * SEQ };
    struct traces_model_shape s = shape_of(TRACES_UNFUSED_MASK);
    int32_t n = 0;

    assert_int_equal(more_bytes(TRACES_UNFUSED_MASK, BLOCK), 0);
    s.attention = "full";
    struct lw_workload b = built_as(s);
    s.unfused = 0;
    struct lw_workload a = built_as(s);
    assert_int_equal(b.modules[BLOCK].forward_bytes - a.modules[BLOCK].forward_bytes,
                     2 * 2 * SCORES);
    for (int32_t i = 0; i < b.n_kernels; i++)
        n += b.kernels[i].bytes[LW_PRODUCTS_FORWARD] == 2 * 2 * SCORES &&
             b.kernels[i].bytes[LW_PRODUCTS_INPUT] == 5 * 2 * 2 * SCORES &&
             b.kernels[i].n_backward == 5;
    assert_int_equal(n, 1);
    assert_int_equal(b.modules[BLOCK].kept_bytes[0], a.modules[BLOCK].kept_bytes[0]);
}

/* bf16 scores and their f32 copy, beside the f32 probabilities. */
MODEL_TEST(an_unfused_loss_holds_scores_three_times)
{
    struct lw_workload a = built(0, 0), b = built(TRACES_UNFUSED_LOSS, 0);

    for (int mode = 0; mode < LW_N_RECOMPUTE; mode++)
        assert_int_equal(b.modules[HEAD].kept_bytes[mode] - a.modules[HEAD].kept_bytes[mode],
                         (2 + 4) * TOKENS * VOCAB);
}

/* A weight gradient, rows x columns of a block's matrix, with and without sums in f32. */
static lw_ps more_for_sums(int64_t rows, int64_t columns)
{
    struct lw_product p = {.batch = 1, .m = rows, .n = columns, .k = TOKENS, .dtype = LW_BF16,
                           .accumulate = true};
    lw_ps plain = lw_product_time(&cluster.device, &p);

    p.out_size = 4;
    return lw_product_time(&cluster.device, &p) - plain;
}

MODEL_TEST(fused_sums_are_part_of_the_weights_products)
{
    struct traces_model_shape s = shape_of(0);
    struct lw_workload a = built(0, 0), b;

    s.fused_sums = true;
    b = built_as(s);
    lw_ps more = b.modules[BLOCK].backward_weight_ps - a.modules[BLOCK].backward_weight_ps;
    lw_ps sums = 2 * more_for_sums(HIDDEN, HIDDEN) + 2 * more_for_sums(HIDDEN, KV_WIDTH) +
                 2 * more_for_sums(HIDDEN, FFN) + more_for_sums(FFN, HIDDEN);
    assert_true(sums > 0);
    assert_int_equal(more, sums);
    assert_int_equal(b.modules[BLOCK].forward_ps, a.modules[BLOCK].forward_ps);
}

/* Of a loss in 8 pieces: the gradient of the head's weight that one piece gives, beside the sum of
 * those before it, where it is more than a piece's scores, which have gone. */
static int64_t of_piece(void)
{
    int64_t more = 2 * VOCAB * HIDDEN - 2 * TOKENS * VOCAB / 8;

    return more > 0 ? more : 0;
}

/* A norm's input in f32 beside what it gives: 4 bytes an element more, of two norms. A loss in
 * pieces keeps bf16 scores and no f32 probabilities. */
MODEL_TEST(norms_and_losses_keep_what_their_kernels_read)
{
    struct traces_model_shape s = shape_of(0);
    struct lw_workload a = built(0, 0), b = built(TRACES_UNFUSED_NORMS, 0), c;
    struct lw_workload rotation = built(TRACES_UNFUSED_ROTATION, 0);

    assert_int_equal(b.modules[BLOCK].kept_bytes[0] - a.modules[BLOCK].kept_bytes[0],
                     2 * 4 * TOKENS * HIDDEN);
    assert_int_equal(rotation.modules[BLOCK].kept_bytes[0], a.modules[BLOCK].kept_bytes[0]);
    s.kept = TRACES_KEPT_CHUNKED_LOSS;
    c = built_as(s);
    assert_int_equal(a.modules[HEAD].kept_bytes[0] - c.modules[HEAD].kept_bytes[0],
                     (4 - 2) * TOKENS * VOCAB - of_piece());
}

/* Of many tokens the first piece's scores are more than the result: the peak is before they go. So
 * it is without a gradient of the head's weight. */
MODEL_TEST(a_loss_in_pieces_holds_a_second_gradient_of_the_head)
{
    struct traces_model_shape s = shape_of(0);

    for (int k = 0; k < 3; k++) {
        s.seq = k == 1 ? 8 * HIDDEN : SEQ;
        s.lora = k == 2 ? 4 : 0;
        s.kept = TRACES_KEPT_CHUNKED_LOSS;
        struct lw_workload pieces = built_as(s), whole;
        s.kept = 0;
        whole = built_as(s);
        assert_int_equal(whole.modules[HEAD].kept_bytes[0] - pieces.modules[HEAD].kept_bytes[0],
                         (4 - 2) * BATCH * s.seq * VOCAB - (k == 0 ? of_piece() : 0));
    }
    assert_true(of_piece() > 0);
}

/* In pieces of 2^n tokens, as many scores as the head's input has elements or more: one piece's
 * scores, the gradients of the head's input and weight, and what a piece adds to the latter in bf16
 * and f32, in place of bf16 scores of all. */
MODEL_TEST(a_fused_head_keeps_two_gradients_and_one_piece)
{
    struct traces_model_shape s = shape_of(0);
    int64_t pieces = (VOCAB + HIDDEN - 1) / HIDDEN, piece = 1;

    while (piece * pieces < TOKENS)
        piece *= 2;
    s.kept = TRACES_KEPT_CHUNKED_LOSS;
    struct lw_workload a = built_as(s), b;
    s.kept = TRACES_KEPT_FUSED_HEAD;
    b = built_as(s);
    assert_int_equal(b.modules[HEAD].kept_bytes[0] - a.modules[HEAD].kept_bytes[0],
                     2 * (piece * VOCAB + TOKENS * HIDDEN - TOKENS * VOCAB) +
                         (2 + 2 + 4) * VOCAB * HIDDEN - of_piece());
}

/* Each matrix of a block: its gradient is read, its sum read and written, in f32 or in bf16. */
MODEL_TEST(sums_take_ten_bytes_a_parameter_or_six)
{
    static const int64_t matrices[] = {HIDDEN * HIDDEN, HIDDEN * KV_WIDTH, HIDDEN * KV_WIDTH,
                                       HIDDEN * HIDDEN, HIDDEN * FFN, HIDDEN * FFN, FFN * HIDDEN};
    static const struct {
        unsigned unfused;
        int64_t bytes;
    } cases[] = {{TRACES_UNFUSED_SUMS, 10}, {TRACES_UNFUSED_GRADS, 6}};
    struct lw_workload a = built(0, 0);

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct lw_workload b = built(cases[c].unfused, 0);
        lw_ps more = b.modules[BLOCK].backward_weight_ps - a.modules[BLOCK].backward_weight_ps;
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++)
            more -= lw_traffic_time(&cluster.device, cases[c].bytes * matrices[k]);
        assert_int_equal(more, 0);
    }
}

/* Of a block, each kernel without a product takes 1 ms longer: two norms (in the backward of input
 * and of weights), rotation, the gate's two, and in forward two residuals. */
MODEL_TEST(kernels_without_products_may_take_longer)
{
    const lw_ps ms = 1000 * LW_PS_PER_US;
    struct traces_model_shape s = shape_of(0);
    struct lw_workload a = built(0, 0), b;

    s.rates.memory_op_ps = ms;
    b = built_as(s);
    const struct lw_module *x = &a.modules[BLOCK], *y = &b.modules[BLOCK];
    assert_int_equal(y->forward_ps - x->forward_ps, 7 * ms);
    assert_int_equal(y->backward_weight_ps - x->backward_weight_ps, 2 * ms);
    assert_int_equal(y->backward_input_ps - x->backward_input_ps, 5 * ms);
}

/* One of four ranks of a sequence against one of a sequence of a quarter: as many tokens, three
 * more kernels of attention, and three times two that join their results. */
MODEL_TEST(ranks_of_a_sequence_run_a_ring)
{
    enum { RANKS = 4, LOCAL = TOKENS / RANKS, Q = 2 * LOCAL * HIDDEN, ROWS = 4 * LOCAL * HEADS };
    const int64_t kv = 2 * LOCAL * KV_WIDTH;
    struct traces_model_shape s = {.batch = BATCH, .layers = LAYERS, .hidden = HIDDEN,
                                   .heads = HEADS, .kv_heads = KV, .ffn = FFN, .vocab = VOCAB};
    struct lw_workload w[2];

    for (int k = 0; k < 2; k++) {
        s.seq = k ? SEQ : SEQ / RANKS;
        s.context = k ? RANKS : 0;
        w[k] = built_as(s);
    }
    const struct lw_module *a = &w[0].modules[BLOCK], *b = &w[1].modules[BLOCK];
    assert_int_equal(b->forward_bytes / RANKS - a->forward_bytes,
                     (RANKS - 1) * (2 * Q + 2 * kv + ROWS + 3 * Q + 3 * ROWS));
    assert_int_equal(b->forward_flops / RANKS - a->forward_flops,
                     4 * (int64_t)LOCAL * HIDDEN * (SEQ - SEQ / RANKS));
}

static int load(void **unused)
{
    (void)unused;
    return lw_cluster_find("dgx-h100", &cluster, NULL) == LW_OK ? 0 : -1;
}

/* A host of 1 ms a kernel takes all the time of a block that runs beside it. */
MODEL_TEST(a_host_that_waits_is_added_to_the_device)
{
    const lw_ps ms = 1000 * LW_PS_PER_US;
    struct lw_workload device = built(0, 0), host = built(0, ms), both;
    struct traces_model_shape s = shape_of(0);

    s.rates.host_op_ps = ms;
    s.rates.host_waits = true;
    both = built_as(s);
    const struct lw_module *d = &device.modules[BLOCK], *h = &host.modules[BLOCK];
    const struct lw_module *b = &both.modules[BLOCK];
    assert_true(b->forward_ps == d->forward_ps + h->forward_ps);
    assert_true(lw_module_backward(b) == lw_module_backward(d) + lw_module_backward(h));
}

/* GPT-OSS: 8 experts of width 48, 2 a token, with biases; 32 tokens of 64. */
static struct lw_workload built_experts(unsigned unfused, int64_t ranks, lw_ps host_op)
{
    struct traces_model_shape s = {
        .batch = 1, .layers = 1, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .seq = 32,
        .vocab = 128, .experts = 8, .topk = 2, .expert_ffn = 48, .expert_bias = true,
        .expert_ranks = ranks, .unfused = unfused};

    s.rates.host_op_ps = host_op;
    return model_kept("decoder", &cluster.device, s);
}

/* 64 copies: limits of both halves 8 times an element of 2 bytes, biases 6 times; the rotation 12
 * times and not 2. */
MODEL_TEST(biases_of_experts_move_bytes_of_their_own)
{
    struct lw_workload a = built_experts(0, 1, 0);
    struct lw_workload b = built_experts(TRACES_UNFUSED_EXPERT_BIAS, 1, 0);
    struct lw_workload y = built_experts(TRACES_UNFUSED_YARN, 1, 0);
    int64_t bytes = a.modules[1].forward_bytes, kept = a.modules[1].kept_bytes[LW_RECOMPUTE_NONE];

    assert_int_equal(b.modules[1].forward_bytes - bytes, 8 * 2 * 64 * 48 + 6 * 2 * 64 * 64);
    assert_int_equal(b.modules[1].kept_bytes[LW_RECOMPUTE_NONE] - kept, 2 * 2 * 64 * 48);
    assert_int_equal(y.modules[1].forward_bytes - bytes, 10 * 2 * 32 * (64 + 32));
}

/* Bytes that a block's kernels move: phase 0 forward, 1 backward. */
static int64_t moved(const struct lw_workload *w, int phase)
{
    const struct lw_module *m = &w->modules[1];
    int64_t bytes = 0;

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        bytes += w->kernels[k].bytes[phase];
    return bytes;
}

/* The same 64 copies where the clamp is part of the gate's kernel, which keeps its own input, and
 * where kernels add the biases before it: 4 times an element forward, 3 times backward. */
MODEL_TEST(a_fused_clamp_keeps_nothing_and_biases_before_it_move_bytes)
{
    for (int fused = 0; fused < 2; fused++)
        for (int up = 0; up < 2; up++) {
            struct traces_model_shape s = {
                .batch = 1, .layers = 1, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96,
                .seq = 32, .vocab = 128, .experts = 8, .topk = 2, .expert_ffn = 48,
                .expert_bias = true, .fused_clamp = fused, .unfused_up_bias = up};
            struct lw_workload a = model_kept("decoder", &cluster.device, s);
            s.unfused = TRACES_UNFUSED_EXPERT_BIAS;
            struct lw_workload b = model_kept("decoder", &cluster.device, s);
            int64_t clamp = fused ? 0 : 64 * 48, half = up ? 2 * 64 * 48 : 0;
            assert_int_equal(b.modules[1].kept_bytes[LW_RECOMPUTE_NONE] -
                                 a.modules[1].kept_bytes[LW_RECOMPUTE_NONE],
                             2 * 2 * clamp);
            assert_int_equal(moved(&b, 0) - moved(&a, 0),
                             8 * 2 * clamp + 4 * 2 * half + 6 * 2 * 64 * 64);
            assert_int_equal(moved(&b, 1) - moved(&a, 1),
                             (11 * 2 + 8) * clamp + 3 * 2 * half + 8 * 2 * 64 * 64);
        }
}

/* With f32 weights of copies, of 2 x 2 bytes of results: 4 + 2 + 4 + 4 + 8 + 4 + 2 forward, and
 * backward 2 + 4, 4 + 2, two products of 8, two sums of 4 and 4. */
MODEL_TEST(biases_of_experts_are_f32_where_a_token_goes_once)
{
    struct lw_workload w[2][2];

    for (int once = 0; once < 2; once++)
        for (int with = 0; with < 2; with++)
            w[once][with] = model_kept(
                "decoder", &cluster.device,
                (struct traces_model_shape){
                    .batch = 1, .layers = 1, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96,
                    .seq = 32, .vocab = 128, .experts = 8, .topk = 2, .expert_ffn = 48,
                    .expert_bias = true, .dispatch_once = once ? 2 : 0,
                    .unfused = with ? TRACES_UNFUSED_EXPERT_BIAS : 0});
    for (int once = 0; once < 2; once++) {
        int64_t bytes[2] = {0};
        for (int with = 0; with < 2; with++) {
            const struct lw_module *m = &w[once][with].modules[1];
            for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
                for (int phase = 0; phase < 2; phase++)
                    bytes[phase] += (with ? 1 : -1) * w[once][with].kernels[k].bytes[phase];
        }
        assert_int_equal(bytes[0], 8 * 2 * 64 * 48 + (once ? 28 : 12) * 64 * 64);
        assert_int_equal(bytes[1], (11 * 2 + 8) * 64 * 48 + (once ? 40 : 16) * 64 * 64);
    }
}

/* A host that needs a second for each: limits 3 and 7, biases 2 and 4 for each expert of the rank;
 * forward and backward. */
MODEL_TEST(biases_are_launched_for_each_expert_of_a_rank)
{
    const lw_ps second = lw_ps_from_seconds(1);

    for (int64_t ranks = 1; ranks <= 4; ranks *= 2) {
        struct lw_workload a = built_experts(0, ranks, second);
        struct lw_workload b = built_experts(TRACES_UNFUSED_EXPERT_BIAS, ranks, second);
        const struct lw_module *x = &a.modules[1], *y = &b.modules[1];
        assert_int_equal(y->forward_ps - x->forward_ps, (3 + 2 * 8 / ranks) * second);
        assert_int_equal(lw_module_backward(y) - lw_module_backward(x),
                         (7 + 4 * 8 / ranks) * second);
    }
}

/* 8 experts of width 48, 2 a token, without biases; 32 tokens of 64. */
static struct traces_model_shape experts_shape(unsigned unfused)
{
    return (struct traces_model_shape){
        .batch = 1, .layers = 1, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .seq = 32,
        .vocab = 128, .experts = 8, .topk = 2, .expert_ffn = 48, .unfused = unfused};
}

/* Bytes that the facts add to the kernels of the block, in a phase, and their number. */
static int64_t added(struct traces_model_shape s, enum lw_product_phase phase, int *n)
{
    int64_t bytes[2] = {0};
    int32_t kernels[2] = {0};

    for (int with = 0; with < 2; with++) {
        struct traces_model_shape of = s;
        of.unfused = with ? s.unfused : 0;
        struct lw_workload w = model_kept("decoder", &cluster.device, of);
        const struct lw_module *m = &w.modules[1];
        for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
            bytes[with] += w.kernels[k].bytes[phase];
        kernels[with] = m->n_kernels;
    }
    *n = kernels[1] - kernels[0];
    return bytes[1] - bytes[0];
}

static void assert_added(struct traces_model_shape s, int kernels, int64_t forward, int64_t input)
{
    int n = 0;

    assert_int_equal(added(s, LW_PRODUCTS_FORWARD, &n), forward);
    assert_int_equal(added(s, LW_PRODUCTS_INPUT, &n), input);
    assert_int_equal(n, kernels);
}

/* The input is read in 16 bits and written in 32, its gradient the other way: 6 bytes an element
 * each; the two products read and write it in 4 bytes and not in 2. A router with a bias is
 * GPT-OSS's, whose type is that of the tokens. */
MODEL_TEST(a_router_in_f32_casts_its_input_and_its_gradient)
{
    struct traces_model_shape s = experts_shape(TRACES_ROUTER_F32);

    assert_added(s, 1, 0, (6 + 6 + 2 + 2) * 32 * 64);
    s.expert_bias = true;
    assert_added(s, 0, 0, 0);
}

/* 64 copies of 64 elements of 2 bytes, read and written before the experts and after them. */
MODEL_TEST(copies_of_tokens_are_padded_for_8_bit_experts)
{
    struct traces_model_shape s = experts_shape(TRACES_PADDED_EXPERTS);

    assert_added(s, 0, 0, 0);
    s.fp8 = true;
    assert_added(s, 2, 2 * 2 * 2 * 64 * 64, 2 * 2 * 2 * 64 * 64);
    s.expert_capacity = 1.25; /* padded to it */
    assert_added(s, 0, 0, 0);
    s.expert_capacity = 0;
    s.dispatch_once = 2; /* padded by what orders copies: HybridEP, and not DeepEP */
    assert_added(s, 0, 0, 0);
    s.dispatcher = LW_DISPATCHER_DEEPEP;
    assert_added(s, 2, 2 * 2 * 2 * 64 * 64, 2 * 2 * 2 * 64 * 64);
}

/* 64 copies and 32 tokens of 64 elements of 2 bytes. Forward: 4 + 16 of weighting, 4 and 6 of
 * copies and fills; backward 4 + 32, 6 and 4, and of the tokens 14. */
MODEL_TEST(copies_are_weighted_and_filled_by_kernels)
{
    struct traces_model_shape s = experts_shape(TRACES_UNFUSED_DISPATCH);

    assert_added(s, 1, 64 * 64 * 30, 64 * 64 * 46 + 32 * 64 * 14);
    s.expert_capacity = 1.25;
    assert_added(s, 1, 80 * 64 * 30, 80 * 64 * 46 + 32 * 64 * 14);
    s.expert_capacity = 0;
    s.experts = s.topk = s.expert_ffn = 0;
    assert_added(s, 0, 0, 0);
}

/* A layer's input is copied to its graph, 2 x 2 bytes an element, and the gradients of its results:
 * the tokens, the residual, what shared experts make, and 8 weights of 4 bytes for each token. */
MODEL_TEST(inputs_and_gradients_of_captured_layers_are_copied)
{
    struct traces_model_shape s = experts_shape(TRACES_GRAPH_COPIES);
    int64_t x = 2 * 2 * 32 * 64, weights = 2 * 4 * 32 * 8;

    assert_added(s, 1, x, 2 * x + weights);
    s.shared_ffn = 48;
    assert_added(s, 1, x, 3 * x + weights);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_MOE);
    assert_added(s, 0, 0, 0);
    s = experts_shape(TRACES_GRAPH_COPIES);
    s.experts = s.topk = s.expert_ffn = 0;
    assert_added(s, 0, 0, 0);
}

static int unload(void **unused)
{
    (void)unused;
    lw_cluster_free(&cluster);
    return 0;
}

TEST_GROUP(load, unload)
