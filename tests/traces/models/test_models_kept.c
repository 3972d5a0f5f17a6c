/* What frameworks keep of a block for its backward: closed forms of bytes by element. */
#include "tests/lib/unit.h"

#include "shared/files/files.h"
#include "shared/strategy/strategy.h"
#include "traces/models/model_framework.h"
#include "traces/models/models.h"

enum { HIDDEN = 512, HEADS = 8, KV = 2, FFN = 1024, SEQ = 256, BLOCK = 1 };
enum { KV_WIDTH = HIDDEN / HEADS * KV, SUMS = 4 * HEADS };

static struct lw_cluster cluster;

/* Bytes of a token that a block keeps. */
static int64_t kept(struct traces_model_shape s, enum lw_recompute mode)
{
    struct lw_workload w;
    struct lw_err err;

    s.batch = 1;
    s.layers = 2;
    s.hidden = HIDDEN;
    s.heads = HEADS;
    s.kv_heads = KV;
    s.ffn = FFN;
    s.seq = SEQ;
    s.vocab = 4096;
    assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
    int64_t bytes = w.modules[BLOCK].kept_bytes[mode];
    lw_workload_free(&w);
    assert_int_equal(bytes % SEQ, 0);
    return bytes / SEQ;
}

/* Two norms' inputs and outputs, queries, keys, values, attention's result and row sums; the pair,
 * SiLU's result and the last product's operand. */
TEST(a_block_keeps_its_operands)
{
    struct traces_model_shape s = {0};
    int64_t all = 2 * (6 * HIDDEN + 2 * KV_WIDTH + 4 * FFN) + SUMS;

    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all);
    s.kept = TRACES_KEPT_FUSED_GATE;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all - 2 * FFN);
    s.kept = TRACES_KEPT_GATE_8BIT;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all - 2 * FFN);
}

/* Keys and values as wide as the queries. */
TEST(repeated_keys_and_values_are_as_wide_as_queries)
{
    struct traces_model_shape s = {.kept = TRACES_KEPT_REPEATED};

    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), 2 * (8 * HIDDEN + 4 * FFN) + SUMS);
}

/* Parts that are named: what each keeps but for its input. A norm's result is the operand of the
 * products after it; in one kernel with them it stays, but is a part of the second pair. */
TEST(named_parts_keep_their_inputs_alone)
{
    const int64_t all = 2 * (6 * HIDDEN + 2 * KV_WIDTH + 4 * FFN) + SUMS, two = 2 * FFN;
    const struct {
        int64_t parts;
        bool fused;
        int64_t bytes;
    } cases[] = {
        {LW_AGAIN_BIT(LW_AGAIN_LAYERNORM), false, all - 2 * 2 * HIDDEN},
        {LW_AGAIN_BIT(LW_AGAIN_LAYERNORM), true, all},
        {LW_AGAIN_BIT(LW_AGAIN_MLP), false, all - 4 * two},
        {LW_AGAIN_BIT(LW_AGAIN_MLP), true, all - 4 * two - 2 * HIDDEN},
        {LW_AGAIN_BIT(LW_AGAIN_MLP_ACT), false, all - 2 * two},
        {LW_AGAIN_BIT(LW_AGAIN_MLP_ACT), true, all - 2 * two},
        {LW_AGAIN_BIT(LW_AGAIN_MLP) | LW_AGAIN_BIT(LW_AGAIN_MLP_ACT), false, all - 4 * two},
        {LW_AGAIN_BIT(LW_AGAIN_CORE_ATTN), false, all - SUMS},
        {LW_AGAIN_BIT(LW_AGAIN_MLP) | LW_AGAIN_BIT(LW_AGAIN_LAYERNORM), false,
         all - 4 * two - 2 * 2 * HIDDEN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape s = {.again_parts = cases[i].parts,
                                       .fused_norms = cases[i].fused};
        assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), cases[i].bytes);
        assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all);
    }
}

/* Stored scores stay where other parts are named: of each 2 for the softmax's result. */
TEST(scores_stay_where_other_parts_are_named)
{
    struct traces_model_shape s = {.attention = "full",
                                   .again_parts = LW_AGAIN_BIT(LW_AGAIN_LAYERNORM)};
    int64_t all = kept(s, LW_RECOMPUTE_NONE);

    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), all - 2 * 2 * HIDDEN);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_CORE_ATTN);
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), all - 2 * HEADS * SEQ);
}

/* Of a block with 4 experts, 2 for a token: router's f32 scores twice, copies of tokens, the pair
 * and its results; and a shared expert. */
TEST(parts_of_experts_keep_their_inputs_alone)
{
    struct traces_model_shape s = {.experts = 4, .topk = 2, .expert_ffn = 64, .shared_ffn = 128};
    const int64_t act = 2 * 2 * 64 * 2, shared = 2 * 4 * 128;

    int64_t all = kept(s, LW_RECOMPUTE_NONE);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_MOE_ACT);
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), all - act);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_SHARED_EXPERTS);
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), all - shared);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_MOE);
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE),
                     all - shared - 2 * act - 2 * 4 * 4 - 2 * 2 * HIDDEN);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_MOE_ACT) | LW_AGAIN_BIT(LW_AGAIN_MOE);
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE),
                     all - shared - 2 * act - 2 * 4 * 4 - 2 * 2 * HIDDEN);
}

/* The operands of the four products are of 8 bits, attention's result stays beside its copy. */
TEST(products_of_8_bits_keep_operands_of_8_bits)
{
    struct traces_model_shape s = {.fp8 = true};

    assert_int_equal(kept(s, LW_RECOMPUTE_NONE),
                     2 * (4 * HIDDEN + 2 * KV_WIDTH + 3 * FFN) + 3 * HIDDEN + FFN + SUMS);
    s.kept = TRACES_KEPT_16BIT; /* and no copy */
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), 2 * (6 * HIDDEN + 2 * KV_WIDTH + 4 * FFN) + SUMS);
}

/* A router keeps 16 bits of what it reads; shared experts in 8 bits keep their cast beside it. */
TEST(a_router_keeps_what_it_reads_in_16_bits)
{
    struct traces_model_shape s = {.experts = 4, .topk = 2, .expert_ffn = 64};
    /* the first norm's result, attention's beside its copy, and experts' second operand */
    const int64_t less = HIDDEN - HIDDEN + 2 * 64;

    int64_t wide = kept(s, LW_RECOMPUTE_NONE);
    s.fp8 = true;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), wide - less);
    s.shared_ffn = 128; /* of it the pair's two halves in 16 bits, its product in 8, and the cast */
    wide = kept(s, LW_RECOMPUTE_NONE) - (wide - less);
    assert_int_equal(wide, 2 * 2 * 128 + 2 * 128 + 128 + HIDDEN);
}

/* Nine bytes for sixteen elements. */
TEST(products_of_4_bits_keep_operands_of_4_bits)
{
    struct traces_model_shape s = {.fp8 = true};
    int64_t eight = kept(s, LW_RECOMPUTE_NONE), operands = 3 * HIDDEN + FFN;

    s.fp4 = true;
    cluster.device.fp4_speedup = (struct lw_figure){3, "test"};
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), eight - operands * 7 / 16);
    cluster.device.fp4_speedup = (struct lw_figure){0, NULL};
}

/* torch's cross_entropy in eager mode holds three f32 tensors of scores, four over a tensor group;
 * the head's input is kept twice. */
TEST(a_loss_holds_what_its_framework_says)
{
    struct traces_model_shape s = {.batch = 1, .layers = 1, .hidden = HIDDEN, .heads = HEADS,
                                   .seq = SEQ, .vocab = 4096};
    struct lw_workload w;
    struct lw_err err;

    for (s.loss_scores = 0; s.loss_scores <= 16; s.loss_scores += 4) {
        int64_t score = s.loss_scores > 0 ? s.loss_scores : 4;
        assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
        assert_int_equal(w.modules[w.n_modules - 1].kept_bytes[LW_RECOMPUTE_NONE],
                         SEQ * (score * 4096 + 2 * 2 * HIDDEN));
        assert_int_equal(w.dims.score_bytes, SEQ * score * 4096);
        lw_workload_free(&w);
    }
}

/* Adapters on attention's products: the first norm's output is theirs, the second's and the last
 * operand go. */
TEST(frozen_products_keep_no_operands)
{
    struct traces_model_shape s = {.lora = 16};

    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), 2 * (5 * HIDDEN + 2 * KV_WIDTH + 3 * FFN) + SUMS);
}

/* Of a token of a GPT block: 34 bytes of its width, 2 of them masks of dropout, and row sums; of
 * its embedding a mask, and the number of its word. */
TEST(gpt_without_dropout_keeps_no_masks)
{
    for (int none = 0; none < 2; none++) {
        struct traces_model_shape s = {.batch = 1, .layers = 2, .hidden = HIDDEN, .heads = HEADS,
                                       .seq = SEQ, .vocab = 4096, .dtype = "bf16",
                                       .attention = "flash", .no_dropout = none};
        struct lw_workload w;
        struct lw_err err;
        assert_ok(traces_model_build("gpt-13b", &s, &cluster.device, &w, &err), err);
        int64_t block = w.modules[BLOCK].kept_bytes[LW_RECOMPUTE_NONE];
        int64_t table = w.modules[0].kept_bytes[LW_RECOMPUTE_NONE];
        lw_workload_free(&w);
        assert_int_equal(block, SEQ * (34 * HIDDEN + SUMS - none * 2 * HIDDEN));
        assert_int_equal(table, SEQ * (8 + (1 - none) * HIDDEN));
    }
}

/* A norm after the embedding keeps its input, 2 bytes of a token and width: of a token of BLOOM's
 * program 3 bytes of its width with dropout's mask. */
TEST(a_norm_after_the_embedding_keeps_its_input)
{
    struct lw_framework f;
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_workload w;
    struct lw_err err;

    for (int norm = 0; norm < 2; norm++) {
        struct traces_model_shape s = {.batch = 1, .layers = 2, .hidden = HIDDEN, .heads = HEADS,
                                       .seq = SEQ, .vocab = 4096, .dtype = "bf16",
                                       .attention = "flash"};
        assert_ok(lw_framework_find(norm ? "megatron-deepspeed" : "ideal", &f, &err), err);
        traces_model_take_framework(&f, &strategy, &cluster.device, &s);
        lw_framework_free(&f);
        assert_ok(traces_model_build("gpt-13b", &s, &cluster.device, &w, &err), err);
        int64_t table = w.modules[0].kept_bytes[LW_RECOMPUTE_NONE];
        lw_workload_free(&w);
        assert_int_equal(table, SEQ * (8 + HIDDEN + norm * 2 * HIDDEN));
    }
}

/* A norm that keeps its result and not its input, and ReLU, of a block in f32 on one rank: what
 * eth-easl/sailor@cf2c8e3 measured of OPT-350M (sailor/Planner/llm_info.json, act_mem_bytes), less
 * the block's result and the norms' factors, 4 bytes of a token each. Of GPT-Neo 2.7B, whose norms
 * keep their input, and which drops out both halves' results, with the block's input in place of
 * its result. */
TEST(blocks_keep_what_sailor_measured)
{
    const struct {
        int64_t hidden, heads, measured;
        unsigned kept;
        int64_t less; /* of a token */
        bool no_dropout;
    } cases[] = {
        {1024, 16, 360726528, TRACES_KEPT_NORM_RESULT | TRACES_KEPT_RELU, 4 * 1024 + 2 * 4, true},
        {2560, 20, 681607168, 0, 4 * 4, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape s = {.batch = 1, .layers = 2, .hidden = cases[i].hidden,
                                       .heads = cases[i].heads, .ffn = 4 * cases[i].hidden,
                                       .seq = 2048, .vocab = 50304, .dtype = "f32",
                                       .attention = "full", .kept = cases[i].kept,
                                       .no_dropout = cases[i].no_dropout,
                                       .no_score_dropout = true};
        struct lw_workload w;
        struct lw_err err;
        assert_ok(traces_model_build("gpt-13b", &s, &cluster.device, &w, &err), err);
        assert_int_equal(w.modules[BLOCK].kept_bytes[LW_RECOMPUTE_NONE],
                         cases[i].measured - 2048 * cases[i].less);
        lw_workload_free(&w);
    }
}

/* Of both adapters' inputs, each as wide as the block: dropout's mask of a byte, and its result,
 * which of the first adapter is the operand that is kept anyway. */
TEST(dropout_before_adapters_is_kept)
{
    struct traces_model_shape s = {.lora = 16};
    int64_t all = kept(s, LW_RECOMPUTE_NONE);

    s.kept = TRACES_KEPT_ADAPTER_DROPOUT;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all + HIDDEN + (2 + 1) * HIDDEN);
    s.lora = 0;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), kept((struct traces_model_shape){0}, 0));
}

/* A plan divides by the ranks of a tensor group what each of them has whole: the gathered input of
 * the first adapter, and its mask. */
TEST(a_gathered_input_of_an_adapter_is_whole_on_each_rank)
{
    enum { RANKS = 2 };
    struct traces_model_shape s = {.lora = 16, .tensor = RANKS};
    int64_t all = kept(s, LW_RECOMPUTE_NONE);

    s.kept = TRACES_KEPT_ADAPTER_WHOLE;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all);
    s.sequence_parallel = true;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all + (RANKS - 1) * 2 * HIDDEN);
    s.kept |= TRACES_KEPT_ADAPTER_DROPOUT;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE),
                     all + (RANKS - 1) * 2 * HIDDEN + RANKS * HIDDEN + (2 + 1) * HIDDEN);
}

/* Queries, keys, values and the result: a byte each and not two, where products are of 8 bits. */
TEST(attention_of_8_bits_keeps_half)
{
    struct traces_model_shape s = {.lora = 16};
    int64_t all = kept(s, LW_RECOMPUTE_NONE);

    s.kept = TRACES_KEPT_ATTENTION_8BIT;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all);
    s.fp8 = true;
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), all - 2 * HIDDEN - 2 * KV_WIDTH);
}

/* Of weights' gradients there are products of adapters alone: frozen norms, tables and products
 * have none. */
TEST(frozen_weights_take_no_gradient_time)
{
    for (int lora = 0; lora <= 16; lora += 16) {
        struct traces_model_shape s = {.lora = lora};
        struct lw_workload w;
        struct lw_err err;
        int64_t bytes = 0;
        int n_trained = 0;
        assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
        for (int32_t i = 0; i < w.n_kernels; i++) {
            if (w.kernels[i].kind == LW_KERNEL_TRAFFIC)
                bytes += w.kernels[i].bytes[LW_PRODUCTS_WEIGHT];
            n_trained += w.kernels[i].kind == LW_KERNEL_GEMM && w.kernels[i].trained;
        }
        assert_int_equal(bytes == 0, lora > 0);
        assert_true(n_trained > 0);
        assert_int_equal(w.modules[0].backward_weight_ps == 0, lora > 0); /* the embedding */
        lw_workload_free(&w);
        s.positions = 4096; /* and its table of positions, with dropout */
        s.dropout = true;
        assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
        assert_int_equal(w.modules[0].backward_weight_ps == 0, lora > 0);
        lw_workload_free(&w);
    }
}

/* The block's input and result, queries, values, attention's result and the gate's product. Three
 * of seven products are computed again, which are less than half of the work. */
TEST(every_second_product_is_kept)
{
    struct traces_model_shape s = {.kept = TRACES_KEPT_ALTERNATE};
    struct lw_workload w;
    struct lw_err err;

    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), 2 * (4 * HIDDEN + KV_WIDTH + FFN) + SUMS);
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), kept((struct traces_model_shape){0}, 0));
    assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
    double again = (double)w.modules[BLOCK].selective_ps / (double)w.modules[BLOCK].forward_ps;
    assert_in_range((int)(100 * again), 30, 60);
    lw_workload_free(&w);
}

/* Of six products without a gate the last is computed again; of four with joined parameters the
 * results of the first, queries with keys and values, and of the third, gate with up, are kept. */
TEST(every_second_product_of_six_and_of_four_is_kept)
{
    struct traces_model_shape s = {.kept = TRACES_KEPT_ALTERNATE, .plain_ffn = true};

    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), 2 * (3 * HIDDEN + KV_WIDTH + FFN) + SUMS);
    s.plain_ffn = false;
    s.joined = true;
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE),
                     2 * (3 * HIDDEN + 2 * KV_WIDTH + 2 * FFN) + SUMS);
}

/* A compiled block keeps no result of its last product, which no backward reads. */
TEST(a_compiled_block_keeps_what_its_backward_reads)
{
    struct traces_model_shape s = {.kept = TRACES_KEPT_ALTERNATE | TRACES_KEPT_NEEDED};

    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), 2 * (3 * HIDDEN + KV_WIDTH + FFN) + SUMS);
    s.kept = TRACES_KEPT_NEEDED;
    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE),
                     kept((struct traces_model_shape){0}, LW_RECOMPUTE_SELECTIVE));
}

/* Attention's result and row sums go, and attention is computed again. */
TEST(every_second_product_stays_without_attention)
{
    struct traces_model_shape s = {.kept = TRACES_KEPT_ALTERNATE | TRACES_KEPT_NO_ATTENTION};
    struct lw_workload w, kept_all;
    struct lw_err err;

    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), 2 * (3 * HIDDEN + KV_WIDTH + FFN));
    assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
    s.kept = TRACES_KEPT_ALTERNATE;
    assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &kept_all, &err), err);
    assert_true(w.modules[BLOCK].selective_ps > kept_all.modules[BLOCK].selective_ps);
    lw_workload_free(&w);
    lw_workload_free(&kept_all);
}

/* A block's input, queries, keys and values are kept; all but the first three products and the last
 * one is done again: more than attention alone, less than the forward. */
TEST(projections_alone_are_kept)
{
    struct traces_model_shape s = {.kept = TRACES_KEPT_PROJECTIONS};
    struct lw_workload w;
    struct lw_err err;

    assert_int_equal(kept(s, LW_RECOMPUTE_SELECTIVE), 2 * (2 * HIDDEN + 2 * KV_WIDTH));
    assert_int_equal(kept(s, LW_RECOMPUTE_NONE), kept((struct traces_model_shape){0}, 0));
    assert_int_equal(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), LW_OK);
    double again = (double)w.modules[BLOCK].selective_ps / (double)w.modules[BLOCK].forward_ps;
    assert_in_range((int)(100 * again), 45, 70);
    lw_workload_free(&w);
}

/* Hopper's products of 8 bits take one layout, Blackwell's any. */
TEST(transposes_are_held_where_products_take_one_layout)
{
    const struct {
        const char *cluster;
        bool held;
    } cases[] = {{"dgx-h100", true}, {"jupiter", true}, {"dgx-b200", false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct traces_model_shape shape = {.fp8 = true};
        struct lw_cluster c;
        struct lw_framework f;
        struct lw_err err;

        assert_ok(lw_framework_find("megatron-bridge", &f, &err), err);
        assert_ok(lw_cluster_find(cases[i].cluster, &c, &err), err);
        traces_model_take_framework(&f, &s, &c.device, &shape);
        assert_int_equal(shape.fp8_transposes, cases[i].held);
        lw_cluster_free(&c);
        lw_framework_free(&f);
    }
}

/* DeepSpeed's host multiplies f32 gradients, 8 bytes; with ZeRO-3 it casts masters to 16 bits too,
 * 4 read, 2 written to fresh pages, 2 cleared. Weights of f32 need no cast; that their gradients
 * are multiplied is not counted. */
TEST(deepspeeds_host_passes_over_what_it_updates)
{
    static const struct {
        const char *framework, *dtype;
        int zero;
        int64_t bytes;
    } cases[] = {{"deepspeed", "bf16", 2, 8}, {"deepspeed", "bf16", 3, 16},
                 {"deepspeed-liger", "bf16", 3, 16}, {"deepspeed", "f32", 3, 0},
                 {"torch-fsdp2", "bf16", 3, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct traces_model_shape shape = {.batch = 1, .layers = 2, .hidden = HIDDEN,
                                           .heads = HEADS, .seq = SEQ, .vocab = 4096,
                                           .dtype = cases[i].dtype, .attention = "flash"};
        struct lw_framework f;
        struct lw_workload w;
        struct lw_err err;

        s.zero = cases[i].zero;
        assert_ok(lw_framework_find(cases[i].framework, &f, &err), err);
        traces_model_take_framework(&f, &s, &cluster.device, &shape);
        lw_framework_free(&f);
        assert_ok(traces_model_build("gpt-13b", &shape, &cluster.device, &w, &err), err);
        assert_int_equal(w.step_traffic.host, cases[i].bytes);
        lw_workload_free(&w);
    }
}

/* The table's rows by a product: T x V one-hot rows are written, 2 T V H FLOPs forward, as many for
 * the table's gradient, none for that of the rows; nothing of blocks or head changes. */
TEST(a_lookup_by_product_multiplies_one_hot_rows)
{
    enum { TOKENS = SEQ, ROWS = 4096 };
    struct lw_workload w[2];
    struct lw_err err;
    int32_t forward = 0, backward = 0;

    for (int by_product = 0; by_product < 2; by_product++) {
        const struct traces_model_shape s = {.batch = 1, .layers = 2, .hidden = HIDDEN,
                                             .heads = HEADS, .seq = SEQ, .vocab = ROWS,
                                             .dtype = "bf16", .attention = "flash",
                                             .product_lookup = by_product};
        assert_ok(traces_model_build("gpt-13b", &s, &cluster.device, &w[by_product], &err), err);
    }
    for (int32_t i = 0; i < w[1].n_kernels; i++) {
        const struct lw_kernel *k = &w[1].kernels[i];
        forward += k->only == LW_ONLY_FORWARD && k->m == TOKENS && k->k == ROWS && k->n == HIDDEN;
        backward += k->only == LW_ONLY_BACKWARD && k->m * k->n * k->k == TOKENS * ROWS * HIDDEN;
    }
    assert_int_equal(forward, 1);
    assert_int_equal(backward, 1);
    assert_int_equal(w[0].modules[0].forward_flops, 0);
    assert_int_equal(w[1].modules[0].forward_flops, 2LL * TOKENS * ROWS * HIDDEN);
    assert_int_equal(w[1].kernels[0].bytes[LW_PRODUCTS_FORWARD], 2 * TOKENS * ROWS + 8 * TOKENS);
    for (int32_t m = 1; m < w[1].n_modules; m++)
        assert_int_equal(w[1].modules[m].forward_ps, w[0].modules[m].forward_ps);
    lw_workload_free(&w[0]);
    lw_workload_free(&w[1]);
}

/* Between the products of a pair of x bytes each. Fused, one kernel reads both and writes one: 3 x;
 * both gradients come from them and the result's: 5 x. Unfused, the activation is a kernel before:
 * 2 x and 3 x more. */
TEST(a_fused_gate_is_one_kernel)
{
    const int64_t x = 2 * FFN * SEQ;
    int64_t n[2] = {0}, forward[2] = {0}, backward[2] = {0};

    for (int fused = 0; fused < 2; fused++) {
        struct traces_model_shape s = {.kept = fused ? TRACES_KEPT_FUSED_GATE : 0, .batch = 1,
                                       .ffn = FFN, .seq = SEQ};
        struct lw_workload w;
        struct lw_err err;

        assert_ok(traces_model_build("llama-2-7b", &s, &cluster.device, &w, &err), err);
        const struct lw_kernel *k = &w.kernels[w.modules[BLOCK].first_kernel];
        for (n[fused] = 0; n[fused] < w.modules[BLOCK].n_kernels; n[fused]++, k++) {
            forward[fused] += k->bytes[LW_PRODUCTS_FORWARD];
            backward[fused] += k->bytes[LW_PRODUCTS_INPUT];
        }
        lw_workload_free(&w);
    }
    assert_int_equal(n[0] - n[1], 1);
    assert_int_equal(forward[0] - forward[1], 2 * x);
    assert_int_equal(backward[0] - backward[1], 3 * x);
}

/* The product before writes its result's activation in 8 bits, by rows and by columns, where the
 * framework has such products, the device is a Blackwell, and operands are 8 bits. */
TEST(the_gate_of_experts_is_part_of_8_bit_products)
{
    const struct {
        const char *framework, *cluster;
        bool fp8, fused;
    } cases[] = {{"megatron-bridge-graph", "gb300", true, true},
                 {"megatron-bridge-graph", "gb300", false, false},
                 {"megatron-bridge-graph", "dgx-h100", true, false},
                 {"megatron-bridge", "gb300", true, false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct traces_model_shape shape = {.fp8 = cases[i].fp8};
        struct lw_cluster c;
        struct lw_framework f;
        struct lw_workload w;
        struct lw_err err;
        int64_t n = 0;

        assert_ok(lw_framework_find(cases[i].framework, &f, &err), err);
        assert_ok(lw_cluster_find(cases[i].cluster, &c, &err), err);
        traces_model_take_framework(&f, &s, &c.device, &shape);
        assert_int_equal(shape.fused_experts, cases[i].fused);
        assert_ok(traces_model_build("qwen3-30b-a3b", &shape, &c.device, &w, &err), err);
        for (int32_t k = 0; k < w.n_kernels; k++)
            n += w.kernels[k].epilogue;
        assert_int_equal(n > 0, cases[i].fused);
        lw_workload_free(&w);
        lw_cluster_free(&c);
        lw_framework_free(&f);
    }
}

static int find_cluster(void **state)
{
    struct lw_err err;
    (void)state;
    return lw_cluster_find("dgx-h100", &cluster, &err);
}

static int free_cluster(void **state)
{
    (void)state;
    lw_cluster_free(&cluster);
    return 0;
}

TEST_GROUP(find_cluster, free_cluster)
