/* config.json of types of 2025: counts of parameters in closed form, part by part, windows in turn,
 * and what is refused. The parts are those of huggingface/transformers 5.24.0's modeling files. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/traces/model_help.h"

/* Sizes of a decoder; 0: it has no such part. */
struct parts {
    int64_t layers, h, heads, kv, width, ffn, vocab; /* ffn: of blocks without experts */
    bool tied, plain, biased_norms, qkv_bias;
    int64_t qk_norm; /* elements of the norms of queries and keys of a block */
    int64_t norms;   /* of a block */
    int64_t experts, expert_ffn, shared_ffn, dense;
    int64_t latent; /* elements of latent attention in place of the products of attention */
};

static int64_t count(const struct parts *p)
{
    int64_t q = p->heads * p->width, kv = p->kv * p->width, pair = p->plain ? 2 : 3;
    int64_t norm = p->biased_norms ? 2 * p->h : p->h;
    int64_t attention = p->latent > 0 ? p->latent : 2 * p->h * (q + kv) + p->qk_norm +
                                                    (p->qkv_bias ? q + 2 * kv : 0);
    int64_t dense = p->experts > 0 ? p->dense : p->layers;
    int64_t experts = p->experts * (3 * p->h * p->expert_ffn + p->h) + 3 * p->h * p->shared_ffn;

    return p->layers * (attention + p->norms * norm) + dense * pair * p->h * p->ffn +
           (p->layers - dense) * experts + (p->tied ? 1 : 2) * p->vocab * p->h + norm;
}

#define SIZES(layers, h, heads, kv, width, ffn, vocab)                                             \
    "\"num_hidden_layers\": " #layers ", \"hidden_size\": " #h ", \"num_attention_heads\": "       \
    #heads ", \"num_key_value_heads\": " #kv ", \"head_dim\": " #width                             \
    ", \"intermediate_size\": " #ffn ", \"vocab_size\": " #vocab                                   \
    ", \"max_position_embeddings\": 4096"
#define TYPE(type, ...) "{\"model_type\": \"" type "\", " __VA_ARGS__ "}"
#define PARTS(layers, h, heads, kv, width, ffn, vocab) layers, h, heads, kv, width, ffn, vocab

/* MiniMax-M2, GLM-4.7-Flash, OLMo 3 7B, Seed-OSS 36B, Hunyuan 7B, Ministral 3 8B, ERNIE 4.5 0.3B
 * and 21B, Arcee 4.5B, Nemotron-4 15B, and the text of Qwen3-VL 30B and Qwen2.5-VL 7B. */
MODEL_TEST(counts_are_the_sums_of_the_parts)
{
    static const struct {
        const char *text;
        struct parts p;
    } cases[] = {
        {TYPE("minimax_m2", SIZES(62, 3072, 48, 8, 128, 1536, 200064)
              ", \"num_local_experts\": 256, \"num_experts_per_tok\": 8, \"rotary_dim\": 64"),
         {PARTS(62, 3072, 48, 8, 128, 0, 200064), .norms = 2, .qk_norm = 56 * 128, .experts = 256,
          .expert_ffn = 1536}},
        {TYPE("glm4_moe_lite", SIZES(47, 2048, 20, 20, 64, 10240, 154880)
              ", \"moe_intermediate_size\": 1536, \"n_routed_experts\": 64, "
              "\"n_shared_experts\": 1, \"num_experts_per_tok\": 4, \"q_lora_rank\": 768, "
              "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"qk_nope_head_dim\": 192, "
              "\"v_head_dim\": 256"),
         {PARTS(47, 2048, 20, 20, 0, 10240, 154880), .norms = 2, .experts = 64,
          .expert_ffn = 1536, .shared_ffn = 1536, .dense = 1,
          .latent = 2048 * 768 + 768 + 768 * 20 * 256 + 2048 * 576 + 512 + 512 * 20 * 448 +
                    20 * 256 * 2048}},
        {TYPE("olmo3", SIZES(32, 4096, 32, 32, 128, 11008, 100278)),
         {PARTS(32, 4096, 32, 32, 128, 11008, 100278), .norms = 2, .qk_norm = 2 * 4096}},
        {TYPE("seed_oss", SIZES(64, 5120, 80, 8, 128, 27648, 155136) ", \"attention_bias\": true, "
              "\"attention_out_bias\": false"),
         {PARTS(64, 5120, 80, 8, 128, 27648, 155136), .norms = 2, .qkv_bias = true}},
        {TYPE("hunyuan_v1_dense", SIZES(32, 4096, 32, 8, 128, 14336, 128167)
              ", \"tie_word_embeddings\": true"),
         {PARTS(32, 4096, 32, 8, 128, 14336, 128167), .norms = 2, .qk_norm = 256, .tied = true}},
        {TYPE("ministral3", SIZES(34, 4096, 32, 8, 128, 14336, 131072)),
         {PARTS(34, 4096, 32, 8, 128, 14336, 131072), .norms = 2}},
        {TYPE("ernie4_5", SIZES(18, 1024, 16, 2, 128, 3072, 103424)),
         {PARTS(18, 1024, 16, 2, 128, 3072, 103424), .norms = 2, .tied = true}},
        {TYPE("ernie4_5_moe", SIZES(28, 2560, 20, 4, 128, 12288, 103424)
              ", \"moe_num_experts\": 64, \"moe_k\": 6, \"moe_num_shared_experts\": 2, "
              "\"moe_intermediate_size\": 1536, \"moe_layer_start_index\": 1, "
              "\"moe_layer_end_index\": -1, \"moe_layer_interval\": 1"),
         {PARTS(28, 2560, 20, 4, 128, 12288, 103424), .norms = 2, .tied = true, .experts = 64,
          .expert_ffn = 1536, .shared_ffn = 3072, .dense = 1}},
        {TYPE("arcee", SIZES(36, 2560, 20, 4, 128, 18432, 128004)),
         {PARTS(36, 2560, 20, 4, 128, 18432, 128004), .norms = 2, .plain = true}},
        {TYPE("nemotron", SIZES(32, 6144, 48, 8, 128, 24576, 256000)),
         {PARTS(32, 6144, 48, 8, 128, 24576, 256000), .norms = 2, .plain = true,
          .biased_norms = true}},
        {TYPE("qwen3_vl_moe", "\"vision_config\": {}, \"text_config\": " TYPE(
              "qwen3_vl_moe_text", SIZES(48, 2048, 32, 4, 128, 6144, 151936)
              ", \"num_experts\": 128, \"num_experts_per_tok\": 8, "
              "\"moe_intermediate_size\": 768")),
         {PARTS(48, 2048, 32, 4, 128, 0, 151936), .norms = 2, .qk_norm = 256, .experts = 128,
          .expert_ffn = 768}},
        {TYPE("qwen2_5_vl_text", SIZES(28, 3584, 28, 4, 128, 18944, 152064)),
         {PARTS(28, 3584, 28, 4, 128, 18944, 152064), .norms = 2, .qkv_bias = true}},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct traces_model_shape s = {.layers = 0};
        struct lw_err err = {0};
        const char *name;
        assert_ok(model_read_config(cases[k].text, &name, &s, &err), err);
        struct lw_workload w = model_kept(name, NULL, s);
        if (lw_workload_numel(&w, false) != count(&cases[k].p))
            fail_msg("%.60s: %lld, expected %lld", cases[k].text,
                     (long long)lw_workload_numel(&w, false), (long long)count(&cases[k].p));
    }
}

static struct traces_model_shape shape_of(const char *text)
{
    struct traces_model_shape s = {.layers = 0};
    struct lw_err err = {0};
    const char *name;

    assert_ok(model_read_config(text, &name, &s, &err), err);
    return s;
}

#define SMALL SIZES(4, 64, 4, 2, 16, 96, 128)
#define LITE                                                                                       \
    SMALL ", \"moe_intermediate_size\": 32, \"n_routed_experts\": 4, \"n_shared_experts\": 1, "    \
    "\"num_experts_per_tok\": 2, \"kv_lora_rank\": 8, \"qk_rope_head_dim\": 4, "                   \
    "\"qk_nope_head_dim\": 12, \"v_head_dim\": 16"

/* OLMo 3's fourth block attends to all tokens, Gemma 3's sixth; parts of a head are rotated. */
TEST(what_a_file_leaves_out_is_its_types)
{
    assert_int_equal(shape_of(TYPE("olmo3", SMALL ", \"sliding_window\": 64")).window_every, 4);
    assert_int_equal(shape_of(TYPE("gemma3_text", SMALL ", \"sliding_window\": 64")).window_every,
                     6);
    assert_int_equal(shape_of(TYPE("olmo3", SMALL ", \"sliding_window\": null")).window, 0);
    assert_int_equal(shape_of(TYPE("nemotron", SMALL)).rope_width, 8);
    assert_int_equal(shape_of(TYPE("glm4_moe_lite", LITE)).dense_layers, 1);
    assert_int_equal(shape_of(TYPE("glm4_moe_lite", LITE ", \"first_k_dense_replace\": 2"))
                         .dense_layers, 2);
    assert_int_equal(shape_of(TYPE("glm4_moe_lite", LITE ", \"mlp_layer_types\": [\"dense\", "
                                   "\"dense\", \"dense\", \"sparse\"]")).dense_layers, 3);
}

TEST(what_no_decoder_here_has_is_refused)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {TYPE("seed_oss", SMALL ", \"attention_out_bias\": true"),
         "config.json: attention_out_bias: found true, allowed: false (model_type seed_oss"},
        {TYPE("ernie4_5", SMALL ", \"use_bias\": true"),
         "config.json: use_bias: found true, allowed: false (model_type ernie4_5"},
        {TYPE("ernie4_5_moe", SMALL ", \"moe_num_experts\": 4, \"moe_k\": 2, "
              "\"moe_num_shared_experts\": 0, \"moe_intermediate_size\": 32, "
              "\"moe_layer_start_index\": 1, \"moe_layer_end_index\": 2"),
         "config.json: moe_layer_end_index: found 2, allowed: the last block, 3"},
        {TYPE("minimax_m2", SMALL ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "
              "\"use_qk_norm\": false"),
         "config.json: use_qk_norm: found false, allowed: true (model_type minimax_m2"},
        {TYPE("minimax_m2", SMALL),
         "config.json: no 'num_local_experts', which model_type minimax_m2 needs: add it, or give "
         "--experts"},
        {TYPE("glm4_moe_lite", LITE ", \"mlp_layer_types\": [\"sparse\", \"dense\"]"),
         "config.json: mlp_layer_types: block 1: allowed are \"dense\" at the beginning, then "
         "\"sparse\""},
        {TYPE("exaone4", SMALL), "config.json: model_type 'exaone4' is not modelled: blocks "
                                 "without positions among others; import a recording of it"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct traces_model_shape s = {.layers = 0};
        struct lw_err err = {0};
        const char *name;
        assert_int_not_equal(model_read_config(cases[k].text, &name, &s, &err), LW_OK);
        if (!strstr(err.msg, cases[k].says))
            fail_msg("%s", err.msg);
    }
}
