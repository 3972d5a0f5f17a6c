/* Experts and latent attention: published counts, products by hand, what ranks share. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/traces/model_help.h"
#include "traces/models/model_workload.h"

/* Total and active elements in units of 10^9, as the model cards print them: mistral.ai/news
 * (46.7 and 12.9, 141 and 39 G), arXiv 2405.04434 (236 and 21), 2412.19437 (671 and 37), 2507.20534
 * (1.04 T and 32.6), 2505.09388 (30.5 and 3.3, 235 and 22), 2508.10925 (116.8 and 5.1, 20.9 and
 * 3.6), huggingface.co/meta-llama (400 and 17: text alone). Cards differ in whether the embedding
 * is active; the values here count it: total +-1 %, active +-2 %. */
MODEL_TEST(active_parameters_are_the_published_ones)
{
    static const struct {
        const char *name;
        double total_g, active_g;
    } cases[] = {
        {"mixtral-8x7b", 46.7, 12.9},  {"mixtral-8x22b", 141, 39},
        {"deepseek-v2", 236, 21.4},    {"deepseek-v3", 671, 37.6},
        {"kimi-k2", 1026, 32.9},       {"qwen3-30b-a3b", 30.5, 3.35},
        {"qwen3-235b-a22b", 235, 22.2}, {"gpt-oss-120b", 116.8, 5.7},
        {"gpt-oss-20b", 20.915, 4.19},
        {"llama-4-maverick", 400, 17.2}, {"grok-1", 314, 84},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_workload w = MODEL(cases[i].name, 0);
        double total = (double)lw_workload_numel(&w, false) * 1e-9;
        double active = total - (double)w.idle_numel * 1e-9;
        if (total < 0.99 * cases[i].total_g || total > 1.01 * cases[i].total_g ||
            active < 0.98 * cases[i].active_g || active > 1.02 * cases[i].active_g)
            fail_msg("%s: %.4g G, %.4g active", cases[i].name, total, active);
    }
}

static const struct traces_model_shape small = {
    .batch = 1, .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .seq = 32,
    .vocab = 128, .experts = 8, .topk = 2, .expert_ffn = 48,
};

static struct lw_workload build(struct traces_model_shape s)
{
    return model_kept("decoder", NULL, s);
}

/* Block of 32 tokens, h 64, 4 heads of 16, 2 of keys and values:
 *   queries 2*32*64*64 = 262,144, keys and values 2 * 2*32*64*32 = 262,144, out 262,144;
 *   attention 4*32*32*64 = 262,144; router 2*32*64*8 = 32,768;
 *   experts 2*32*2 rows of 3 products 64 x 48: 3 * 2*64*64*48 = 1,179,648.
 * Dispatch: 32 tokens x 2 experts x 64 x 2 bytes = 8,192. */
MODEL_TEST(a_block_has_its_products_by_hand)
{
    struct lw_workload w = build(small);
    assert_int_equal(w.modules[1].forward_flops, 4 * 262144 + 32768 + 1179648);
    assert_int_equal(w.modules[1].dispatch_bytes, 8192);
    assert_int_equal(w.modules[0].dispatch_bytes, 0);
    /* 2 of 8 experts of 3 * 64 * 48 in 2 blocks */
    assert_int_equal(w.idle_numel, INT64_C(2) * 6 * 3 * 64 * 48);
    struct traces_model_shape s = small;
    s.expert_bias = true; /* each expert has biases of 2 * 48 and of 64 elements */
    w = build(s);
    assert_int_equal(w.idle_numel, INT64_C(2) * 6 * (3 * 64 * 48 + 2 * 48 + 64));
}

static struct traces_model_shape with_all_options(void)
{
    struct traces_model_shape s = small;

    s.layers = 3;
    s.lora = 8;
    s.biases = s.layer_norm = s.qk_norm = s.qkv_bias = s.expert_bias = s.dropout = true;
    s.positions = s.seq;
    s.mtp_layers = 3;
    return s;
}

/* Attention 4 products, 2 pairs of adapters, 4 biases, 8 sinks counted as one, 2 norms of heads;
 * router and 2 products of experts with a bias each, or 3 of the dense pair with theirs; 2 norms
 * with biases; of a further block 2 more. */
MODEL_TEST(blocks_have_room_for_the_parameters_of_all_options)
{
    struct traces_model_shape s = with_all_options();
    struct lw_workload w = build(s);
    int32_t attention = 4 + 4 + 4 + 1 + 2, block = attention + 6 + 4, outside = 1 + 1 + 3;
    assert_int_equal(w.n_params, outside + 6 * block + 3 * 2);
    s.experts = s.topk = s.expert_ffn = 0;
    w = build(s);
    assert_int_equal(w.n_params, outside + 6 * block + 3 * 2);
    s = small;
    s.layers = 3;
    s.lora = 8;
    s.shared_ffn = 32;
    s.layer_norm = s.qk_norm = s.expert_bias = true;
    w = build(s);
    assert_int_equal(w.n_params, 1 + 3 + 3 * (block + 3));
}

/* Megatron-LM's shared experts take no biases. */
TEST(biases_of_shared_experts_are_refused)
{
    struct traces_model_shape s = small;
    const struct lw_device d = traces_no_device();
    struct lw_workload w;
    struct lw_err err = {0};

    s.shared_ffn = 32;
    s.biases = true;
    assert_int_equal(traces_model_build("decoder", &s, &d, &w, &err), LW_EINVAL);
    assert_string_equal(err.msg, "--biases: shared experts have none in Megatron-LM "
                                 "(shared_experts.py); leave out --biases or --shared-ffn");
}

MODEL_TEST(the_first_blocks_and_every_second_one_may_be_dense)
{
    struct traces_model_shape s = small;
    s.layers = 4;
    s.dense_layers = 1;
    s.expert_every = 2; /* of blocks 0 to 3: 1 and 3 */
    struct lw_workload w = build(s);
    for (int32_t m = 1; m <= 4; m++)
        assert_int_equal(w.modules[m].dispatch_bytes, m % 2 == 0 ? 8192 : 0);
}

/* Latent attention and no experts. */
static struct traces_model_shape latent_shape(void)
{
    struct traces_model_shape s = small;

    s.experts = s.topk = s.expert_ffn = 0;
    s.kv_heads = 4;
    s.head_width = 16;
    s.rope_width = 8;
    s.v_width = 12;
    s.q_lora = 40;
    s.kv_lora = 24;
    return s;
}

/* Latent attention, by DeepSeek-V2's equations: h 64, 4 heads of 16 + 8, values of 12, q 40, kv 24.
 *   64*40 + 40*4*24 + 64*(24+8) + 24*4*(16+12) + 4*12*64
 * = 2560 + 3840 + 2048 + 2688 + 3072 = 14,208 elements, and
 * as many products a token; scores and sums 2 * (24 + 12) * 4 a pair of tokens. */
MODEL_TEST(latent_attention_has_its_products_by_hand)
{
    struct traces_model_shape s = latent_shape();
    int64_t numel = 0;
    struct lw_workload w = build(s);
    for (int32_t i = 0; i < w.n_params; i++)
        if (w.params[i].module == 1 && strstr(w.params[i].name, "self_attn") &&
            !strstr(w.params[i].name, "norm"))
            numel += w.params[i].numel;
    assert_int_equal(numel, 14208);
    int64_t pair = 3 * 2 * 32 * 64 * 96, scores = INT64_C(2) * 32 * 32 * 4 * (24 + 12);
    assert_int_equal(w.modules[1].forward_flops, 2 * 32 * 14208 + scores + pair);
}

/* 32 tokens of 2 bytes, 4 heads of 16 + 8, values of 12. One after the other: 4 * 8 + 8 rotated,
 * 2 * 96 copied, read and written, 3 times in backward. Fused: queries' 32 read and written, and
 * 4 * (16 + 12) + 8 read, 4 * (24 + 12) written, as much in backward. */
MODEL_TEST(a_fused_rotation_makes_keys_and_values)
{
    struct traces_model_shape s = latent_shape();
    int64_t forward[2] = {0}, backward[2] = {0};

    for (int fused = 0; fused < 2; fused++) {
        s.fused_latent = fused;
        struct lw_workload w = build(s);
        const struct lw_module *m = &w.modules[1];
        for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++) {
            const struct lw_kernel *x = &w.kernels[k];
            forward[fused] += x->kind == LW_KERNEL_TRAFFIC ? x->bytes[LW_PRODUCTS_FORWARD] : 0;
            backward[fused] += x->kind == LW_KERNEL_TRAFFIC ? x->bytes[LW_PRODUCTS_INPUT] : 0;
        }
    }
    assert_int_equal(forward[0] - forward[1],
                     64 * (2 * (40 + 192) - 2 * 32 - (112 + 8) - 144));
    assert_int_equal(backward[0] - backward[1],
                     64 * (3 * (40 + 192) - 2 * 32 - (112 + 8) - 144));
}

/* Queries of latent attention are wider than its results: 2*32*4*24 bytes against 2*32*4*12. At
 * 10^9 B/s and hardly any FLOPs a byte is a nanosecond. Each further rank of a sequence, of 32
 * tokens a rank, adds a backward of attention, 2 * (queries + keys and values + results) + rows,
 * and the sums of the gradients of queries and of keys and values, 3 bytes for each of theirs. */
MODEL_TEST(a_ring_sums_the_gradients_of_wide_queries)
{
    enum { Q = 2 * 32 * 4 * 24, KV = 2 * 32 * 4 * (24 + 12), OUT = 2 * 32 * 4 * 12,
           ROWS = 4 * 32 * 4 };
    struct traces_model_shape s = latent_shape();
    lw_ps backward[2];
    for (int k = 0; k < 2; k++) {
        s.context = k + 2;
        s.seq = 32 * s.context;
        struct lw_workload w = build(s);
        backward[k] = w.modules[1].backward_input_ps / s.context; /* a rank's */
    }
    assert_int_equal(backward[1] - backward[0],
                     lw_ns_to_ps(2 * (Q + KV + OUT) + ROWS + 3 * Q + 3 * KV));
}

/* Ranks that share the experts: each has as many products as one rank alone and fewer weights. */
MODEL_TEST(sharing_experts_keeps_flops_and_reads_fewer_weights)
{
    struct traces_model_shape s = small;
    struct lw_workload alone = build(s);
    s.expert_ranks = 4;
    struct lw_workload shared = build(s);
    assert_int_equal(alone.modules[1].forward_flops, shared.modules[1].forward_flops);
    assert_int_equal(lw_workload_numel(&alone, false), lw_workload_numel(&shared, false));
    /* weights of 6 of 8 experts of 3 * 64 * 48 bf16 are not read; what came from 4 ranks is sorted
     * for 2 experts: 64 rows of 64, read and written, before and after */
    assert_int_equal(alone.modules[1].forward_bytes - shared.modules[1].forward_bytes,
                     2 * 6 * 3 * 64 * 48 - 2 * 2 * 2 * 64 * 64);
}

/* A tensor group that splits each expert exchanges all copies; one that shares them, none. */
MODEL_TEST(a_tensor_group_splits_or_shares_experts)
{
    struct traces_model_shape s = small;
    int64_t x = 2 * 32 * 64;
    s.tensor = 2;
    s.sequence_parallel = true;
    struct lw_workload split = build(s);
    s.expert_whole = true;
    struct lw_workload whole = build(s);
    assert_int_equal(split.modules[1].tp_calls, 2);
    assert_int_equal(split.modules[1].tp_forward_bytes, x + 2 * x);
    assert_int_equal(whole.modules[1].tp_calls, 0); /* one */
    assert_int_equal(whole.modules[1].tp_forward_bytes, x);
    assert_int_equal(split.modules[1].forward_flops, whole.modules[1].forward_flops);
}

/* The kernel of the module's n-th exchange, from 1 on; NULL beyond the last. */
static const struct lw_kernel *exchange(const struct lw_workload *w, int32_t module, bool sum,
                                        int32_t n)
{
    const struct lw_module *m = &w->modules[module];

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        if ((sum ? w->kernels[k].summed : w->kernels[k].gathered) > 0 && --n == 0)
            return &w->kernels[k];
    return NULL;
}

MODEL_TEST(exchanges_are_at_their_kernels)
{
    struct traces_model_shape s = small;
    int64_t x = 2 * 32 * 64;
    s.tensor = 2;
    s.sequence_parallel = true;
    s.shared_ffn = 48;
    struct lw_workload w = build(s);
    /* attention, the copies that experts got, shared experts */
    const struct lw_kernel *gather[] = {exchange(&w, 1, false, 1), exchange(&w, 1, false, 2),
                                        exchange(&w, 1, false, 3)};
    const struct lw_kernel *sum[] = {exchange(&w, 1, true, 1), exchange(&w, 1, true, 2),
                                     exchange(&w, 1, true, 3)};
    const int64_t bytes[] = {x, 2 * x, x};
    assert_int_equal(w.modules[1].tp_calls, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gather[i]->gathered, bytes[i]);
        assert_int_equal(gather[i]->split, LW_SPLIT_COLUMN);
        assert_int_equal(sum[i]->summed, bytes[i]);
        assert_int_equal(sum[i]->split, LW_SPLIT_ROW);
        assert_int_equal(gather[i]->experts, i == 1 ? s.experts : 0);
    }
    assert_int_equal(gather[1][-1].tokens, LW_TOKENS_SENT_BEFORE);
    assert_int_equal(sum[1][1].tokens, LW_TOKENS_BACK_AFTER);
    /* all tokens on each rank: one sum of routed and shared experts */
    s.sequence_parallel = false;
    w = build(s);
    assert_int_equal(w.modules[1].tp_calls, 2);
    assert_int_equal(exchange(&w, 1, false, 2)->n, s.experts); /* the router */
    assert_int_equal(exchange(&w, 1, true, 2)->kind, LW_KERNEL_TRAFFIC); /* after all of them */
}

/* 64 copies of 64 elements to experts on 4 ranks. Every copy goes: 1.7 times 32 and 64 rows at each
 * end, and two sorts of 64. A token goes once: no copy is made before, and of 13/14 of them
 * (2 of 8 experts: 4 (1 - C(6,2) / C(8,2)) / 2) each rank makes its own, 1.7 times both. */
MODEL_TEST(a_token_that_goes_once_is_copied_where_it_comes)
{
    struct traces_model_shape s = small;

    s.expert_ranks = 4;
    struct lw_workload each = build(s);
    s.dispatch_once = 2;
    struct lw_workload once = build(s);
    assert_int_equal(once.modules[1].forward_bytes - each.modules[1].forward_bytes,
                     2 * (26858 - 20889 - 16384));
    assert_int_equal(once.modules[1].dispatch_bytes, each.modules[1].dispatch_bytes);
    s.expert_ranks = 1; /* nothing is sent */
    struct lw_workload alone = build(s);
    s.dispatch_once = 0;
    struct lw_workload plain = build(s);
    assert_int_equal(alone.modules[1].forward_bytes, plain.modules[1].forward_bytes);
}

/* HybridEP: each of 64 copies has 8 f32 weights with it, on two nodes those of 4 experts; 32 tokens
 * have a byte for each of 8 experts, on both ranks of a tensor group that has experts beside it.
 * Nothing where every copy travels. */
MODEL_TEST(weights_of_all_experts_go_with_a_token_that_goes_once)
{
    struct traces_model_shape s = small;

    s.unfused = TRACES_HYBRID_EP;
    s.expert_ranks = 4;
    struct lw_workload each = build(s);
    assert_int_equal(each.modules[1].dispatch_weight_bytes, 0);
    assert_int_equal(each.modules[1].routing_map_bytes, 0);
    s.dispatch_once = 2;
    struct lw_workload once = build(s);
    assert_int_equal(once.modules[1].dispatch_bytes, 64 * 64 * 2);
    assert_int_equal(once.modules[1].dispatch_weight_bytes, 64 * 8 * 4);
    assert_int_equal(once.modules[1].routing_map_bytes, 32 * 8);
    assert_int_equal(once.modules[0].dispatch_weight_bytes, 0);
    s.expert_nodes = 2;
    s.tensor = 2;
    s.expert_whole = true;
    struct lw_workload nodes = build(s);
    assert_int_equal(nodes.modules[1].dispatch_weight_bytes, 64 * 4 * 4);
    assert_int_equal(nodes.modules[1].routing_map_bytes, 2 * 32 * 8);
    s.unfused = 0;
    struct lw_workload deep = build(s);
    assert_int_equal(deep.modules[1].dispatch_weight_bytes, 0);
}

/* 64 copies of bf16, 8 experts, two of a token, whatever the framework's own dispatcher is:
 *   all-to-all: a weight of 2 bytes each; 8 counts of 8 bytes, times the context and tensor ranks
 *   among which a plan divides them, or none with a capacity (80 copies);
 *   DeepEP: 2 weights of 4 bytes; in a node 4 bytes and 2 indexes of 8; between nodes 8 bytes, 2
 *   indexes of 4 and the weights, 24 bytes, are 32; with 3 experts of 96 copies 8 + 24 are 32 too;
 *   HybridEP: 8 weights of 4 bytes, 8 bytes of each of 32 tokens. */
MODEL_TEST(each_dispatcher_sends_what_its_program_does)
{
    static const struct {
        enum lw_dispatcher dispatcher;
        int64_t once, nodes, topk, context, tensor;
        double capacity;
        int64_t weights, indexes, map;
    } cases[] = {
        {LW_DISPATCHER_ALL_TO_ALL, 0, 1, 2, 1, 1, 0, 64 * 2, 0, 8 * 8},
        {LW_DISPATCHER_ALL_TO_ALL, 0, 2, 2, 1, 2, 0, 64 * 2, 0, 8 * 8 * 2},
        {LW_DISPATCHER_ALL_TO_ALL, 0, 1, 2, 4, 2, 0, 64 * 2, 0, 8 * 8 * 4 * 2},
        {LW_DISPATCHER_ALL_TO_ALL, 0, 1, 2, 1, 1, 1.25, 80 * 2, 0, 0},
        {LW_DISPATCHER_DEEPEP, 2, 1, 2, 1, 1, 0, 64 * 2 * 4, 64 * (4 + 2 * 8), 0},
        {LW_DISPATCHER_DEEPEP, 2, 2, 2, 1, 1, 0, 64 * 2 * 4, 64 * (32 - 8), 0},
        {LW_DISPATCHER_DEEPEP, 3, 2, 3, 1, 1, 0, 96 * 3 * 4, 96 * (32 - 12), 0},
        {LW_DISPATCHER_HYBRIDEP, 2, 1, 2, 1, 1, 0, 64 * 8 * 4, 0, 32 * 8},
        {LW_DISPATCHER_AUTO, 0, 1, 2, 1, 1, 0, 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int fact = 0; fact < 2; fact++) {
            struct traces_model_shape s = small;
            s.dispatcher = cases[i].dispatcher;
            s.dispatch_once = cases[i].once;
            s.expert_ranks = 4;
            s.expert_nodes = cases[i].nodes;
            s.topk = cases[i].topk;
            s.context = cases[i].context;
            s.tensor = cases[i].tensor;
            s.sequence_parallel = s.tensor > 1;
            s.expert_capacity = cases[i].capacity;
            s.unfused = fact ? TRACES_HYBRID_EP : 0;
            struct lw_workload w = build(s);
            assert_int_equal(w.modules[1].dispatch_weight_bytes, cases[i].weights);
            assert_int_equal(w.modules[1].dispatch_index_bytes, cases[i].indexes);
            assert_int_equal(w.modules[1].routing_map_bytes, cases[i].map);
        }
}

/* Of a request, the nodes are those of its cluster: 128 experts of Qwen3-30B, 4,096 tokens that go
 * to 8. Eight ranks fill a node of DGX H100, which is one NVLink domain, sixteen two, but not one
 * rack of GB200. Of AutoModel, which has DeepEP, no dispatcher is a fact. */
MODEL_TEST(a_copy_has_the_weights_of_its_node)
{
    static const struct {
        const char *cluster, *framework;
        int ep, weights;
    } cases[] = {{"dgx-h100", "megatron-bridge", 8, 128}, {"dgx-h100", "megatron-bridge", 16, 64},
                 {"gb200", "megatron-bridge", 16, 128}, {"gb200", "megatron-mlperf", 16, 128},
                 {"dgx-h100", "nemo-automodel-te", 8, 0}};
    const struct lw_model_request r = {.name = "qwen3-30b-a3b", .batch = 1, .seq = 4096,
                                       .layers = 1, .dtype = "bf16"};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_framework f;
        struct lw_cluster c;
        struct lw_workload w;
        struct lw_err err;
        struct lw_strategy s = lw_strategy_default();
        s.ep = s.dp = cases[i].ep;
        s.dispatch_once = 8;
        assert_ok(lw_framework_find(cases[i].framework, &f, &err), err);
        assert_ok(lw_cluster_find(cases[i].cluster, &c, &err), err);
        struct lw_model_target target = {.strategy = &s, .cluster = &c, .framework = &f};
        assert_ok(traces_model_workload(&r, &target, &w, &err), err);
        assert_int_equal(w.modules[1].dispatch_weight_bytes,
                         INT64_C(4) * 4096 * 8 * cases[i].weights);
        assert_int_equal(w.modules[1].routing_map_bytes, cases[i].weights > 0 ? 4096 * 128 : 0);
        lw_workload_free(&w);
        lw_cluster_free(&c);
        lw_framework_free(&f);
    }
}

/* Folded over the tensor group, ranks of experts are counted with it: 2 of data times 2 of it. */
MODEL_TEST(folded_experts_are_those_of_a_group_that_shares_them)
{
    struct traces_model_shape s = small;
    s.tensor = 2;
    s.sequence_parallel = true;
    s.expert_whole = true;
    s.expert_ranks = 2;
    struct lw_workload beside = build(s);
    s.expert_folded = true;
    s.expert_ranks = 4;
    struct lw_workload folded = build(s);
    assert_int_equal(beside.modules[1].forward_ps, folded.modules[1].forward_ps);
    assert_int_equal(beside.modules[1].backward_weight_ps, folded.modules[1].backward_weight_ps);
    assert_int_equal(beside.modules[1].dispatch_bytes, folded.modules[1].dispatch_bytes);
    assert_int_equal(beside.modules[1].forward_flops, folded.modules[1].forward_flops);
}

MODEL_TEST(experts_that_do_not_divide_are_refused)
{
    static const struct {
        int64_t experts, topk, ranks;
        const char *message;
    } cases[] = {
        {8, 2, 3, "--ep: found 3 ranks, allowed: divisors of the experts, 8"},
        {8, 9, 1,
         "experts of a token: found 9, allowed: 1 to 8; width of an expert: found 48, allowed: 1 "
         "or more"},
        {0, 0, 2, "--ep: found 2, but the model has no experts to share (1)"},
    };
    struct lw_device d = model_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape s = small;
        struct lw_err err = {0};
        struct lw_workload w;
        s.experts = cases[i].experts;
        s.topk = cases[i].topk;
        s.expert_ffn = s.experts ? s.expert_ffn : 0;
        s.expert_ranks = cases[i].ranks;
        assert_int_equal(traces_model_build("decoder", &s, &d, &w, &err), LW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

/* The product of the head. */
MODEL_TEST(a_narrow_head_is_narrow_beside_the_blocks)
{
    struct traces_model_shape s = small;
    struct lw_cluster b200;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-b200", &b200, &err), err);
    s.fp8 = true;
    for (int head = 0; head < 2; head++) {
        s.narrow_of = head ? "head" : "all";
        struct lw_workload w = model_kept("decoder", &b200.device, s);
        int narrow = 0, wide = 0;
        for (int32_t k = 0; k < w.n_kernels; k++) {
            bool of_head = w.kernels[k].split == LW_SPLIT_VOCAB &&
                           w.kernels[k].kind == LW_KERNEL_GEMM;
            narrow += of_head && w.kernels[k].fp8;
            wide += of_head && !w.kernels[k].fp8;
        }
        assert_int_equal(narrow, head);
        assert_int_equal(wide, !head);
    }
    lw_cluster_free(&b200);
}

TEST(failing_allocations_leave_nothing)
{
    model_without_memory("decoder", small);
    model_without_memory("decoder", with_all_options());
}

/* Elements that are narrower than bf16 in the products of one block: attention's queries and out
 * (64 x 64), keys and values (64 x 32 each), the experts' pair (64 x 96) and down (48 x 64), and
 * what is kept of them. */
MODEL_TEST(narrow_products_are_of_linears_or_of_experts)
{
    static const struct {
        const char *of;
        int linears, grouped;
    } cases[] = {{NULL, 4, 2}, {"all", 4, 2}, {"linears", 4, 0}, {"experts", 0, 2}};
    struct traces_model_shape s = small;
    struct lw_cluster b200;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-b200", &b200, &err), err);
    struct lw_workload wide = model_kept("decoder", &b200.device, s);
    const struct lw_module *bf16 = &wide.modules[1];
    /* bytes less: the first norm's result, attention's (a copy beside that of 16 bits, which it
     * keeps), and the gate's; what the router reads stays as it is */
    const int64_t of_linears = 32 * 64 - 32 * 64, of_grouped = 32 * 2 * 48;

    s.fp8 = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.narrow_of = cases[i].of;
        struct lw_workload w = model_kept("decoder", &b200.device, s);
        const struct lw_module *m = &w.modules[1];
        int linears = 0, grouped = 0;
        for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++) {
            bool product = w.kernels[k].kind == LW_KERNEL_GEMM && w.kernels[k].fp8;
            linears += product && w.kernels[k].experts == 0;
            grouped += product && w.kernels[k].experts > 0;
        }
        assert_int_equal(linears, cases[i].linears);
        assert_int_equal(grouped, cases[i].grouped);
        assert_int_equal(bf16->kept_bytes[LW_RECOMPUTE_NONE] - m->kept_bytes[LW_RECOMPUTE_NONE],
                         (linears > 0) * of_linears + (grouped > 0) * of_grouped);
        assert_int_equal(m->forward_flops, bf16->forward_flops);
    }
    lw_cluster_free(&b200);
}
