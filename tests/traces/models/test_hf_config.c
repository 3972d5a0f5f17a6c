/* Hugging Face configurations: published parameter counts, and what is refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/model_help.h"

static enum lw_status read(const char *text, const char **name, struct traces_model_shape *shape,
                           struct lw_err *err)
{
    *shape = (struct traces_model_shape){.layers = 0};
    return model_read_config(text, name, shape, err);
}

/* Of GLM-4.5-Air, the block for a further token, with its own embedding and head: 129 experts,
 * router, attention with biases, five norms, two vectors made one. */
#define GLM_NEXT                                                                                  \
    (INT64_C(129) * 3 * 4096 * 1408 + 128 * 4096 + 4096 * (2 * 96 + 2 * 8) * 128 +                 \
     (96 + 2 * 8) * 128 + 5 * 4096 + 2 * 4096 * 4096 + INT64_C(2) * 151552 * 4096)

/* Counts of the released weights (huggingface.co model cards and safetensors headers): Llama 2 7B,
 * Llama 3 8B, Llama 3.2 1B (tied), Mistral 7B, GPT-2, Mixtral 8x7B, Qwen3 0.6B (tied) and 30B-A3B,
 * Qwen2.5 7B, DeepSeek-V2-Lite and V3 (without the 58 x 256 biases of its router, which are no
 * parameters), GPT-OSS 20B, GLM-4.5-Air (without such biases and the block for a further token),
 * BLOOM 176B and 560M, MPT 7B and 30B, ViT-B/16 and L/16. */
TEST(published_counts_are_met)
{
    static const struct {
        const char *text;
        int64_t count;
    } cases[] = {
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 32, \"intermediate_size\": 11008,"
         "\"vocab_size\": 32000, \"max_position_embeddings\": 4096, \"rope_scaling\": null}",
         INT64_C(6738415616)},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336,"
         "\"vocab_size\": 128256, \"max_position_embeddings\": 8192, \"attention_bias\": false}",
         INT64_C(8030261248)},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 16, \"hidden_size\": 2048,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 8192,"
         "\"vocab_size\": 128256, \"max_position_embeddings\": 131072, \"head_dim\": 64,"
         "\"tie_word_embeddings\": true}",
         INT64_C(1235814400)},
        {"{\"model_type\": \"mistral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336,"
         "\"vocab_size\": 32000, \"max_position_embeddings\": 32768}",
         INT64_C(7241732096)},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12,"
         "\"n_inner\": null, \"vocab_size\": 50257, \"n_positions\": 1024}",
         INT64_C(124439808)},
        {"{\"model_type\": \"mixtral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336,"
         "\"vocab_size\": 32000, \"max_position_embeddings\": 32768, \"num_local_experts\": 8,"
         "\"num_experts_per_tok\": 2, \"sliding_window\": null}",
         INT64_C(46702792704)},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 28, \"hidden_size\": 1024,"
         "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"intermediate_size\": 3072,"
         "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"head_dim\": 128,"
         "\"tie_word_embeddings\": true}",
         INT64_C(596049920)},
        {"{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 48, \"hidden_size\": 2048,"
         "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"intermediate_size\": 6144,"
         "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"head_dim\": 128,"
         "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768,"
         "\"decoder_sparse_step\": 1, \"mlp_only_layers\": []}",
         INT64_C(30532122624)},
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 28, \"hidden_size\": 3584,"
         "\"num_attention_heads\": 28, \"num_key_value_heads\": 4, \"intermediate_size\": 18944,"
         "\"vocab_size\": 152064, \"max_position_embeddings\": 32768}",
         INT64_C(7615616512)},
        {"{\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 27, \"hidden_size\": 2048,"
         "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"q_lora_rank\": null,"
         "\"intermediate_size\": 10944, \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64,"
         "\"qk_nope_head_dim\": 128, \"v_head_dim\": 128, \"n_routed_experts\": 64,"
         "\"num_experts_per_tok\": 6, \"n_shared_experts\": 2, \"moe_intermediate_size\": 1408,"
         "\"first_k_dense_replace\": 1, \"vocab_size\": 102400,"
         "\"max_position_embeddings\": 163840}",
         INT64_C(15706484224)},
        {"{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 61, \"hidden_size\": 7168,"
         "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, \"q_lora_rank\": 1536,"
         "\"intermediate_size\": 18432, \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64,"
         "\"qk_nope_head_dim\": 128, \"v_head_dim\": 128, \"n_routed_experts\": 256,"
         "\"num_experts_per_tok\": 8, \"n_shared_experts\": 1, \"moe_intermediate_size\": 2048,"
         "\"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, \"num_nextn_predict_layers\": 1,"
         "\"vocab_size\": 129280, \"max_position_embeddings\": 163840}",
         INT64_C(671026419200) - 58 * 256},
        {"{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 24, \"hidden_size\": 2880,"
         "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 2880,"
         "\"vocab_size\": 201088, \"max_position_embeddings\": 131072, \"head_dim\": 64,"
         "\"num_local_experts\": 32, \"experts_per_token\": 4, \"sliding_window\": 128,"
         "\"attention_bias\": true}",
         INT64_C(20914757184)},
        {"{\"model_type\": \"glm4_moe\", \"num_hidden_layers\": 46, \"hidden_size\": 4096,"
         "\"num_attention_heads\": 96, \"num_key_value_heads\": 8, \"head_dim\": 128,"
         "\"intermediate_size\": 10944, \"moe_intermediate_size\": 1408, \"n_group\": 1,"
         "\"topk_group\": 1, \"n_routed_experts\": 128, \"n_shared_experts\": 1,"
         "\"num_experts_per_tok\": 8, \"first_k_dense_replace\": 1, \"attention_bias\": true,"
         "\"use_qk_norm\": false, \"partial_rotary_factor\": 0.5, \"vocab_size\": 151552,"
         "\"num_nextn_predict_layers\": 1, \"max_position_embeddings\": 131072}",
         INT64_C(110468824832) - GLM_NEXT - 46 * 128},
        {"{\"model_type\": \"bloom\", \"n_layer\": 70, \"n_embed\": 14336,"
         "\"num_attention_heads\": 112, \"vocab_size\": 250880, \"seq_length\": 2048,"
         "\"hidden_dropout\": 0.0}",
         INT64_C(176247271424)},
        {"{\"model_type\": \"bloom\", \"n_layer\": 24, \"hidden_size\": 1024, \"n_head\": 16,"
         "\"vocab_size\": 250880}",
         INT64_C(559214592)},
        {"{\"model_type\": \"mpt\", \"d_model\": 4096, \"n_heads\": 32, \"n_layers\": 32,"
         "\"expansion_ratio\": 4, \"max_seq_len\": 2048, \"no_bias\": true, \"vocab_size\": 50432,"
         "\"attn_config\": {\"alibi\": true, \"qk_ln\": false}}",
         INT64_C(6649286656)},
        {"{\"model_type\": \"mpt\", \"d_model\": 7168, \"n_heads\": 64, \"n_layers\": 48,"
         "\"max_seq_len\": 8192, \"vocab_size\": 50432}",
         INT64_C(29957200896)},
        {"{\"model_type\": \"vit\", \"hidden_size\": 768, \"num_hidden_layers\": 12,"
         "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"image_size\": 224,"
         "\"patch_size\": 16, \"qkv_bias\": true}",
         INT64_C(86567656)},
        {"{\"model_type\": \"vit\", \"hidden_size\": 1024, \"num_hidden_layers\": 24,"
         "\"num_attention_heads\": 16, \"intermediate_size\": 4096, \"image_size\": 224,"
         "\"patch_size\": 16}",
         INT64_C(304326632)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        assert_ok(read(cases[i].text, &name, &shape, &err), err);
        struct lw_workload w = model_build(name, shape);
        assert_int_equal(lw_workload_numel(&w, false), cases[i].count);
        lw_workload_free(&w);
    }
}

/* The groups that a token's experts are of reach the workload; without experts they say nothing. */
TEST(groups_of_experts_limit_a_token)
{
#define SMALL                                                                                      \
    "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"           \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"q_lora_rank\": 32,"                 \
    "\"intermediate_size\": 128, \"kv_lora_rank\": 16, \"qk_rope_head_dim\": 8,"                   \
    "\"qk_nope_head_dim\": 16, \"v_head_dim\": 16, \"vocab_size\": 64,"                            \
    "\"max_position_embeddings\": 32, \"first_k_dense_replace\": 1, \"n_shared_experts\": 0"
    static const struct {
        const char *text;
        int32_t experts, groups, topk_groups;
    } cases[] = {
        {SMALL ", \"n_routed_experts\": 16, \"num_experts_per_tok\": 4, \"n_group\": 8,"
         "\"moe_intermediate_size\": 32, \"topk_group\": 4}", 16, 8, 4},
        {SMALL ", \"n_routed_experts\": 16, \"num_experts_per_tok\": 4,"
         "\"moe_intermediate_size\": 32, \"n_group\": null}", 16, 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        assert_ok(read(cases[i].text, &name, &shape, &err), err);
        struct lw_workload w = model_build(name, shape);
        const struct lw_routing r = lw_workload_routing(&w, 4);
        assert_int_equal(r.copies, 4);
        assert_int_equal(r.experts, cases[i].experts);
        assert_int_equal(r.groups, cases[i].groups);
        assert_int_equal(r.topk_groups, cases[i].topk_groups);
        lw_workload_free(&w);
    }
#undef SMALL
}

#define SIZES                                                                                      \
    "\"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4,"                   \
    "\"vocab_size\": 10, \"max_position_embeddings\": 64"

TEST(unsupported_field_is_refused_by_name)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "config.json: no 'model_type': is this a model's config.json?"},
        {"[1]", "config.json: expected an object"},
        {"{\"model_type\": \"xlnet\"}",
         "config.json: model_type 'xlnet' is not modelled; known: llama, mistral, qwen2, qwen3, "
         "mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, gpt_oss, glm4_moe, "
         "llama4_text, gemma, gemma3_text, granite, olmo2, olmoe, phi3, starcoder2, gpt2, bert, "
         "bloom, mpt, gpt_neox, gptj, falcon, phi, qwen3_next, qwen3_5_text, qwen3_5_moe_text, "
         "qwen2_vl_text, qwen2_5_vl_text, qwen3_vl_text, qwen3_vl_moe_text, glm4_moe_lite, "
         "minimax_m2, olmo3, seed_oss, hunyuan_v1_dense, ministral3, ernie4_5, ernie4_5_moe, "
         "arcee, nemotron, nemotron_h, vit; import a recording of another (lapwing import)"},
        {"{\"model_type\": \"qwen2\", " SIZES ", \"sliding_window\": 16,"
         "\"use_sliding_window\": true, \"max_window_layers\": 2}",
         "config.json: max_window_layers: found 2, allowed: 0, or the 4 blocks (windows of the "
         "later blocks alone are not modelled: --seq 16 or less)"},
        {"{\"model_type\": \"qwen3\", " SIZES ", \"sliding_window\": 16,"
         "\"use_sliding_window\": true, \"layer_types\": [\"sliding_attention\","
         "\"full_attention\", \"full_attention\", \"full_attention\"]}",
         "config.json: layer_types: block 2 breaks the turn: blocks that attend to a window are "
         "modelled where each n-th block attends to all tokens"},
        {"{\"model_type\": \"qwen3\", " SIZES ", \"sliding_window\": 16,"
         "\"use_sliding_window\": true, \"layer_types\": [\"linear_attention\","
         "\"full_attention\", \"full_attention\", \"full_attention\"]}",
         "config.json: layer_types: block 0 is \"linear_attention\", allowed: "
         "\"full_attention\", \"sliding_attention\""},
        {"{\"model_type\": \"llama4_text\", " SIZES ", \"attention_chunk_size\": 16}",
         "config.json: attention_chunk_size: found 16, allowed: the sequence, 64, or more "
         "(attention in chunks is not modelled: --seq 16 or less)"},
        {"{\"model_type\": \"mpt\", \"d_model\": 64, \"n_heads\": 4, \"n_layers\": 2,"
         "\"vocab_size\": 100, \"expansion_ratio\": 2}",
         "config.json: expansion_ratio: found 2, allowed: 4"},
        {"{\"model_type\": \"mpt\", \"d_model\": 64, \"n_heads\": 4, \"n_layers\": 2,"
         "\"vocab_size\": 100, \"attn_config\": {\"alibi\": false}}",
         "config.json: attn_config, no_bias: allowed are ALiBi without norms of queries, as many "
         "heads of keys as of queries, and no biases"},
        {"{\"model_type\": \"vit\", \"hidden_size\": 64, \"num_hidden_layers\": 2,"
         "\"num_attention_heads\": 4, \"id2label\": {\"0\": \"cat\", \"1\": \"dog\"}}",
         "config.json: id2label: found 2 classes, allowed: 1000"},
        {"{\"model_type\": \"llama\"}",
         "config.json: no 'num_hidden_layers': is this a model's config.json?"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1.5}",
         "config.json: num_hidden_layers: found 1.5, expected a whole number from 1 to 16777216"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"mlp_bias\": true}",
         "config.json: attention_bias, mlp_bias: biases of this family are not modelled"},
        {"{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"mlp_only_layers\": [1]}",
         "config.json: mlp_only_layers: blocks without experts are modelled at the beginning "
         "(first_k_dense_replace) and in turn (decoder_sparse_step) only"},
        {"{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"moe_layer_freq\": 0}",
         "config.json: moe_layer_freq: found 0, expected a whole number from 1 to 16777216"},
        {"{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"moe_layer_freq\": 2}",
         "config.json: moe_layer_freq: found 2, allowed: 1 (experts in every block after "
         "first_k_dense_replace)"},
        {"{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"intermediate_size\": 96, \"num_local_experts\": 4, \"num_experts_per_tok\": 1,"
         "\"interleave_moe_layer_step\": 2, \"moe_layers\": [1]}",
         "config.json: moe_layers: block 3 is not listed; interleave_moe_layer_step gives experts"},
        {"{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"intermediate_size\": 96, \"num_local_experts\": 4, \"num_experts_per_tok\": 1,"
         "\"interleave_moe_layer_step\": 2, \"moe_layers\": [0, 1, 3]}",
         "config.json: moe_layers: block 0 is listed; interleave_moe_layer_step gives a dense "
         "block"},
        {"{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"intermediate_size\": 96, \"num_local_experts\": 4, \"num_experts_per_tok\": 1,"
         "\"interleave_moe_layer_step\": 2, \"moe_layers\": [1, 4]}",
         "config.json: moe_layers: expected blocks from 0 to 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        assert_int_not_equal(read(cases[i].text, &name, &shape, &err), LW_OK);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(name);
    }
}

#define SMALL(type)                                                                                \
    "{\"model_type\": \"" type "\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"          \
    "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8, "

/* A flag, a list or an object of another type is not the default. */
TEST(a_field_of_another_type_is_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {SMALL("llama") "\"tie_word_embeddings\": 1}",
         "tie_word_embeddings: found 1, expected true or false"},
        {SMALL("llama") "\"tie_word_embeddings\": \"true\"}",
         "tie_word_embeddings: found \"true\", expected true or false"},
        {SMALL("llama") "\"num_key_value_heads\": 0}",
         "num_key_value_heads: found 0, expected a whole number from 1 to 16777216"},
        {SMALL("qwen3") "\"head_dim\": 0}", "head_dim: found 0, expected a whole number from 1"},
        {SMALL("bert") "\"tie_word_embeddings\": 0}",
         "tie_word_embeddings: found 0, expected true or false"},
        {SMALL("bert") "\"tie_word_embeddings\": false}",
         "tie_word_embeddings: found false, allowed: true (the head of model_type bert is its "
         "embedding)"},
        {SMALL("llama") "\"attention_bias\": 1}",
         "attention_bias: found 1, expected true or false"},
        {SMALL("llama") "\"mlp_bias\": []}", "mlp_bias: found a list, expected true or false"},
        {SMALL("llama") "\"mlp_only_layers\": 1}", "mlp_only_layers: found 1, expected a list"},
        {SMALL("llama4_text") "\"moe_layers\": \"1, 3\"}",
         "moe_layers: found \"1, 3\", expected a list"},
        {SMALL("mpt") "\"attn_config\": true}", "attn_config: found true, expected an object"},
        {SMALL("mpt") "\"attn_config\": {\"alibi\": 0}}",
         "alibi: found 0, expected true or false"},
        {SMALL("mpt") "\"no_bias\": {}}", "no_bias: found an object, expected true or false"},
        {SMALL("vit") "\"id2label\": 1000}", "id2label: found 1000, expected an object"},
        {"{\"vision_config\": {\"hidden_size\": 8}, \"text_config\": {\"model_type\": \"llama\"}}",
         "text_config: no 'num_hidden_layers'"},
        {"{\"model_type\": \"llama4\", \"text_config\": [1]}",
         "text_config: found a list, expected an object"},
        {SMALL("llama") "\"torch_dtype\": 16}",
         "torch_dtype: found 16, allowed: \"float32\", \"bfloat16\", \"float16\"; --dtype TYPE "
         "takes precedence"},
        {SMALL("llama") "\"dtype\": \"float8_e4m3fn\"}",
         "dtype: found \"float8_e4m3fn\", allowed:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        assert_int_not_equal(read(cases[i].text, &name, &shape, &err), LW_OK);
        if (strncmp(err.msg, "config.json: ", 13) != 0 ||
            strncmp(err.msg + 13, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("'%s' does not begin with '%s'", err.msg + 13, cases[i].message);
    }
}

TEST(the_type_of_elements_is_read)
{
    static const struct {
        const char *text, *dtype;
    } cases[] = {
        {SMALL("llama") "\"torch_dtype\": \"float32\"}", "f32"},
        {SMALL("llama") "\"torch_dtype\": \"bfloat16\"}", "bf16"},
        {SMALL("bert") "\"dtype\": \"float16\"}", "f16"},
        {SMALL("llama") "\"torch_dtype\": null, \"tie_word_embeddings\": null}", NULL},
        {"{\"model_type\": \"x\", \"torch_dtype\": \"float16\", \"text_config\": "
         SMALL("llama") "\"mlp_bias\": false}}", "f16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        assert_ok(read(cases[i].text, &name, &shape, &err), err);
        if (!cases[i].dtype)
            assert_null(shape.dtype);
        else
            assert_string_equal(shape.dtype, cases[i].dtype);
    }
}

/* Llama 4: sizes of the text part; intermediate_size is that of experts and of the shared one. */
TEST(a_text_config_inside_is_read)
{
    struct traces_model_shape s;
    struct lw_err err = {0};
    const char *name;
    if (read("{\"model_type\": \"llama4\", \"text_config\": {\"model_type\": \"llama4_text\","
             "\"num_hidden_layers\": 48, \"hidden_size\": 5120, \"num_attention_heads\": 40,"
             "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 8192,"
             "\"intermediate_size_mlp\": 16384, \"num_local_experts\": 128,"
             "\"num_experts_per_tok\": 1, \"interleave_moe_layer_step\": 2,"
             "\"moe_layers\": [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35,"
             "37, 39, 41, 43, 45, 47],"
             "\"vocab_size\": 202048, \"max_position_embeddings\": 1048576}}",
             &name, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(s.ffn, 16384);
    assert_int_equal(s.expert_ffn, 8192);
    assert_int_equal(s.shared_ffn, 8192);
    assert_int_equal(s.expert_every, 2);
    assert_int_equal(s.experts, 128);
}

#define LITTLE                                                                                     \
    "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4,"                   \
    "\"intermediate_size\": 48, \"vocab_size\": 128, \"max_position_embeddings\": 32"

TEST(options_take_precedence)
{
    struct traces_model_shape tied = {.tied = true}, kv = {.kv_heads = 2};
    struct traces_model_shape expert = {.expert_ffn = 24}, dense = {.topk = 2};
    struct traces_model_shape widths = {.shared_ffn = 40, .ffn = 56};
    struct lw_err err = {0};
    const char *name;

    assert_ok(model_read_config("{\"model_type\": \"llama\", " SIZES ", "
                                "\"tie_word_embeddings\": false}",
                                &name, &tied, &err), err);
    assert_true(tied.tied);
    assert_ok(model_read_config("{\"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 8,"
                                "\"num_experts_per_tok\": 2}", &name, &expert, &err), err);
    assert_int_equal(expert.expert_ffn, 24);
    assert_ok(model_read_config("{\"model_type\": \"llama4_text\", " SIZES ", "
                                "\"num_local_experts\": 8,"
                                "\"num_experts_per_tok\": 1, \"intermediate_size_mlp\": 96}", &name,
                                &widths, &err), err);
    assert_int_equal(widths.shared_ffn, 40);
    assert_int_equal(widths.ffn, 56);
    /* The family refuses these; what a file says of experts without any is left out. */
    assert_ok(model_read_config("{\"model_type\": \"gpt2\", " LITTLE "}", &name, &kv, &err), err);
    assert_int_equal(kv.kv_heads, 2);
    assert_ok(model_read_config("{\"model_type\": \"qwen3_moe\", " SIZES ", \"num_experts\": 0,"
                                "\"num_experts_per_tok\": 8, \"moe_intermediate_size\": 32}", &name,
                                &dense, &err), err);
    assert_int_equal(dense.topk, 2);
    assert_int_equal(dense.expert_ffn, 0);
    static const char *const rotated[] = {
        "{\"model_type\": \"glm4_moe\", " SIZES ", \"partial_rotary_factor\": 0.5,"
        "\"n_routed_experts\": 4, \"n_shared_experts\": 0, \"first_k_dense_replace\": 0}",
        "{\"model_type\": \"gpt_neox\", " SIZES ", \"intermediate_size\": 256,"
        "\"rotary_pct\": 0.5}",
        "{\"model_type\": \"gptj\", \"n_layer\": 4, \"n_embd\": 64, \"n_head\": 4,"
        "\"vocab_size\": 10, \"n_positions\": 64, \"rotary_dim\": 8}",
    };
    for (size_t i = 0; i < sizeof rotated / sizeof *rotated; i++) {
        struct traces_model_shape own = {.rope_width = 6}, left = {0};
        assert_ok(model_read_config(rotated[i], &name, &own, &err), err);
        assert_int_equal(own.rope_width, 6);
        assert_ok(model_read_config(rotated[i], &name, &left, &err), err);
        assert_int_equal(left.rope_width, 8); /* half of 16 */
    }
}

TEST(failing_allocations_leave_nothing)
{
    struct traces_model_shape shape;
    struct lw_err err = {0};
    const char *name;

    EACH_ALLOCATION_FAILS_IN(
        1, read("{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 2,"
                "\"vocab_size\": 10, \"n_positions\": 8}", &name, &shape, &err));
}

#define NOT_MODELLED \
    ", allowed: fp8, mxfp4 (weights of fewer bits are not modelled: --dtype TYPE takes whole ones)"
#define QUANTIZED "config.json: quantization_config: found "

/* Weights of fewer bits are refused, unless an option says what they are trained in, or they are of
 * the kinds that models are published in. */
TEST(quantized_weights_are_refused_or_told)
{
    static const struct {
        const char *more, *message, *stored;
    } cases[] = {
        {", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}",
         QUANTIZED "quant_method \"gptq\"" NOT_MODELLED, NULL},
        {", \"quantization_config\": {\"load_in_4bit\": true}",
         QUANTIZED "no quant_method" NOT_MODELLED, NULL},
        {", \"text_config\": {\"model_type\": \"llama\", " SIZES "}, \"quantization_config\": "
         "{\"quant_method\": \"awq\"}", QUANTIZED "quant_method \"awq\"" NOT_MODELLED, NULL},
        {", \"text_config\": {\"model_type\": \"llama\", " SIZES ", \"quantization_config\": "
         "{\"quant_method\": \"awq\"}}", "config.json: text_config: quantization_config: found "
         "quant_method \"awq\"" NOT_MODELLED, NULL},
        {", \"quantization_config\": null", NULL, NULL},
        {", \"quantization_config\": {\"quant_method\": \"fp8\"}", NULL, "fp8"},
        {", \"quantization_config\": {\"quant_method\": \"mxfp4\"}", NULL, "mxfp4"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", " SIZES "%s}", cases[i].more);
        for (int option = 0; option < 2; option++) {
            struct traces_model_shape shape = {.dtype = option ? "bf16" : NULL};
            struct lw_err err = {0};
            const char *name;
            bool refused = cases[i].message && !option;
            enum lw_status got = model_read_config(text, &name, &shape, &err);
            if (got != (refused ? LW_ENOTSUP : LW_OK))
                fail_msg("%s: %s", text, err.msg);
            if (refused)
                assert_string_equal(err.msg, cases[i].message);
            else
                assert_string_equal(shape.stored_as ? shape.stored_as : "",
                                    !option && cases[i].stored ? cases[i].stored : "");
        }
    }
}

/* Blocks whose attention reads a window: by type, flag, list and sequence. */
TEST(windows_hold_of_the_blocks_that_the_file_names)
{
    static const struct {
        const char *type, *more;
        int64_t window, every;
    } cases[] = {
        {"mistral", ", \"sliding_window\": 16", 16, 5}, /* no block of 4 attends to all */
        {"mixtral", ", \"sliding_window\": 16, \"num_local_experts\": 4", 16, 5},
        {"mistral", ", \"sliding_window\": 64", 0, 0}, /* the sequence */
        {"mistral", ", \"sliding_window\": null", 0, 0},
        {"llama", ", \"sliding_window\": 16", 0, 0}, /* which the type ignores */
        {"qwen2", ", \"sliding_window\": 16, \"use_sliding_window\": false", 0, 0},
        {"qwen2", ", \"sliding_window\": 16", 0, 0},
        {"qwen2", ", \"sliding_window\": 16, \"use_sliding_window\": true", 0, 0}, /* after 28 */
        {"qwen2", ", \"sliding_window\": 16, \"use_sliding_window\": true, "
                  "\"max_window_layers\": null", 0, 0},
        {"qwen2", ", \"sliding_window\": 16, \"use_sliding_window\": true, "
                  "\"max_window_layers\": 0", 16, 5},
        {"qwen3_moe", ", \"sliding_window\": 16, \"use_sliding_window\": true, "
                      "\"max_window_layers\": 4, \"num_experts\": 4, \"num_experts_per_tok\": 2, "
                      "\"moe_intermediate_size\": 8", 16, 5}, /* of all blocks */
        {"qwen2", ", \"sliding_window\": 16, \"use_sliding_window\": true, "
                  "\"max_window_layers\": 4", 0, 0},
        {"qwen3", ", \"sliding_window\": 16, \"use_sliding_window\": true, \"layer_types\": "
                  "[\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
                  "\"full_attention\"]", 16, 2},
        {"gpt_oss", ", \"sliding_window\": 16, \"num_local_experts\": 4", 16, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct traces_model_shape shape;
        snprintf(text, sizeof text, "{\"model_type\": \"%s\", " SIZES "%s}", cases[i].type,
                 cases[i].more);
        const char *name;
        struct lw_err err = {0};
        assert_ok(read(text, &name, &shape, &err), err);
        assert_int_equal(shape.window, cases[i].window);
        assert_int_equal(shape.window_every, cases[i].every);
    }
}
