/* Decoders of config.json that differ from Llama's in parameters, norms or windows: published
 * counts and what their blocks keep; types that are refused with the part that is not modelled. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/traces/model_help.h"

static enum lw_status read(const char *text, const char **name, struct traces_model_shape *shape,
                           struct lw_err *err)
{
    *shape = (struct traces_model_shape){.layers = 0};
    return model_read_config(text, name, shape, err);
}

static struct lw_workload built(const char *text, struct traces_model_shape *shape)
{
    const char *name;
    struct lw_err err = {0};

    assert_ok(read(text, &name, shape, &err), err);
    return model_build(name, *shape);
}

#define CONFIG(type, layers, hidden, heads, kv, ffn, vocab)                                        \
    "{\"model_type\": \"" type "\", \"num_hidden_layers\": " #layers                               \
    ", \"hidden_size\": " #hidden ", \"num_attention_heads\": " #heads                             \
    ", \"num_key_value_heads\": " #kv ", \"intermediate_size\": " #ffn                             \
    ", \"vocab_size\": " #vocab ", \"max_position_embeddings\": 4096"

/* Counts of the released weights (huggingface.co, model cards): Gemma 2B and 7B, Gemma 3
 * 1B, Granite 3.0 8B, OLMo 2 7B and 13B, OLMoE, Qwen1.5-MoE-A2.7B, Phi-3-mini, Phi-4, Phi-4-mini,
 * StarCoder2 3B, 7B, 15B. */
TEST(published_counts_of_decoders_are_met)
{
    static const struct {
        const char *text;
        int64_t count;
    } cases[] = {
        {CONFIG("gemma", 18, 2048, 8, 1, 16384, 256000) ", \"head_dim\": 256}",
         INT64_C(2506172416)},
        {CONFIG("gemma", 28, 3072, 16, 16, 24576, 256000) "}", INT64_C(8537680896)},
        {CONFIG("gemma3_text", 26, 1152, 4, 1, 6912, 262144) ", \"head_dim\": 256,"
         "\"sliding_window\": 512, \"final_logit_softcapping\": null}", INT64_C(999885952)},
        {CONFIG("granite", 40, 4096, 32, 8, 12800, 49155) ", \"tie_word_embeddings\": true}",
         INT64_C(8170848256)},
        {CONFIG("olmo2", 32, 4096, 32, 32, 11008, 100352) "}", INT64_C(7298617344)},
        {CONFIG("olmo2", 40, 5120, 40, 40, 13824, 100352) "}", INT64_C(13716198400)},
        {CONFIG("olmoe", 16, 2048, 16, 16, 1024, 50304) ", \"num_experts\": 64,"
         "\"num_experts_per_tok\": 8, \"clip_qkv\": null}", INT64_C(6919161856)},
        {CONFIG("qwen2_moe", 24, 2048, 16, 16, 5632, 151936) ", \"num_experts\": 60,"
         "\"num_experts_per_tok\": 4, \"moe_intermediate_size\": 1408,"
         "\"shared_expert_intermediate_size\": 5632, \"use_sliding_window\": false}",
         INT64_C(14315784192)},
        {CONFIG("phi3", 32, 3072, 32, 32, 8192, 32064) ", \"sliding_window\": 2047}",
         INT64_C(3821079552)},
        {CONFIG("phi3", 40, 5120, 40, 10, 17920, 100352) ", \"sliding_window\": null}",
         INT64_C(14659507200)},
        {CONFIG("phi3", 32, 3072, 24, 8, 8192, 200064) ", \"partial_rotary_factor\": 0.75,"
         "\"tie_word_embeddings\": true}", INT64_C(3836021760)},
        {CONFIG("starcoder2", 30, 3072, 24, 2, 12288, 49152) ", \"use_bias\": true}",
         INT64_C(3030371328)},
        {CONFIG("starcoder2", 32, 4608, 36, 4, 18432, 49152) "}", INT64_C(7173923840)},
        {CONFIG("starcoder2", 40, 6144, 48, 4, 24576, 49152) ", \"tie_word_embeddings\": false}",
         INT64_C(15957889024)},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_workload w = built(cases[i].text, &shape);
        assert_int_equal(lw_workload_numel(&w, false), cases[i].count);
        lw_workload_free(&w);
    }
}

/* Names of the first block's parameters, in the order of registration. */
TEST(blocks_register_what_transformers_registers)
{
    static const struct {
        const char *type, *names[16];
    } cases[] = {
        {CONFIG("phi3", 1, 64, 4, 2, 128, 64) "}",
         {"self_attn.o_proj", "self_attn.qkv_proj", "mlp.gate_up_proj", "mlp.down_proj",
          "input_layernorm", "post_attention_layernorm"}},
        {CONFIG("gemma3_text", 1, 64, 4, 2, 128, 64) "}",
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
          "self_attn.k_norm", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
          "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
          "post_feedforward_layernorm"}},
        {CONFIG("olmo2", 1, 64, 4, 2, 128, 64) "}",
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
          "self_attn.k_norm", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
          "post_attention_layernorm", "post_feedforward_layernorm"}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_workload w = built(cases[i].type, &shape);
        int32_t k = 0;
        for (; cases[i].names[k]; k++) {
            char name[120];
            snprintf(name, sizeof name, "model.layers.0.%s.weight", cases[i].names[k]);
            assert_string_equal(w.params[1 + k].name, name);
        }
        assert_string_equal(w.params[1 + k].name, "model.norm.weight");
        lw_workload_free(&w);
    }
}

/* 16 tokens of 64 elements in 2 bytes, heads of 16, 2 of them of keys and values. OLMo 2 keeps what
 * Llama does, its norms' inputs being results of the halves, and the inputs of the norms of queries
 * and keys; Gemma 3 with as wide heads two norms' inputs more, and those; Phi-3 what Llama does. */
TEST(blocks_keep_the_inputs_of_their_norms)
{
    enum { BLOCK = 1, NORM = 2 * 16 * 64, QUERIES_AND_KEYS = 2 * 16 * (64 + 32) };
    static const struct {
        const char *text;
        int64_t more;
    } cases[] = {
        {CONFIG("olmo2", 1, 64, 4, 2, 128, 64) "}", QUERIES_AND_KEYS},
        {CONFIG("gemma3_text", 1, 64, 4, 2, 128, 64) ", \"head_dim\": 16}",
         2 * NORM + QUERIES_AND_KEYS},
        {CONFIG("phi3", 1, 64, 4, 2, 128, 64) "}", 0},
        {CONFIG("granite", 1, 64, 4, 2, 128, 64) "}", 0},
    };
    struct traces_model_shape shape;
    const char *name;
    struct lw_err err = {0};

    assert_ok(read(CONFIG("llama", 1, 64, 4, 2, 128, 64) "}", &name, &shape, &err), err);
    shape.seq = 16;
    shape.dtype = "bf16";
    struct lw_workload llama = model_build(name, shape);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(read(cases[i].text, &name, &shape, &err), err);
        shape.seq = 16;
        shape.dtype = "bf16";
        struct lw_workload w = model_build(name, shape);
        assert_int_equal(w.modules[BLOCK].kept_bytes[LW_RECOMPUTE_NONE],
                         llama.modules[BLOCK].kept_bytes[LW_RECOMPUTE_NONE] + cases[i].more);
        lw_workload_free(&w);
    }
    lw_workload_free(&llama);
}

/* 16 tokens of 64 elements in bf16: the shared expert's result is kept, and a row of weights. */
TEST(a_gate_keeps_what_the_shared_expert_gives)
{
    struct traces_model_shape s = {.layers = 1, .hidden = 64, .heads = 4, .ffn = 128, .seq = 16,
                                   .vocab = 64, .dtype = "bf16", .experts = 4, .topk = 2,
                                   .expert_ffn = 32, .shared_ffn = 96};
    struct lw_workload plain = model_build("decoder", s);

    s.shared_gate = true;
    struct lw_workload gated = model_build("decoder", s);
    assert_int_equal(gated.modules[1].kept_bytes[LW_RECOMPUTE_NONE],
                     plain.modules[1].kept_bytes[LW_RECOMPUTE_NONE] + 2 * 16 * 64);
    assert_int_equal(lw_workload_numel(&gated, false), lw_workload_numel(&plain, false) + 64);
    lw_workload_free(&plain);
    lw_workload_free(&gated);
}

/* Gemma 3: every sixth block attends to all tokens where the file does not say which; Phi-3 and
 * StarCoder2 with a window: none does. A window of the sequence is none. */
TEST(windows_are_those_of_the_type)
{
    static const struct {
        const char *text;
        int64_t window, every;
    } cases[] = {
        {CONFIG("gemma3_text", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 512}", 512, 6},
        {CONFIG("gemma3_text", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 512,"
         "\"sliding_window_pattern\": 4}", 512, 4},
        {CONFIG("gemma3_text", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 512,"
         "\"_sliding_window_pattern\": 3}", 512, 3},
        {CONFIG("gemma3_text", 2, 64, 4, 2, 128, 64) ", \"sliding_window\": 512, \"layer_types\":"
         "[\"sliding_attention\", \"full_attention\"]}", 512, 2},
        {CONFIG("gemma3_text", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 4096}", 0, 0},
        {CONFIG("phi3", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 2047}", 2047, 13},
        {CONFIG("starcoder2", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 1024}", 1024, 13},
        {CONFIG("gemma", 12, 64, 4, 2, 128, 64) ", \"sliding_window\": 512}", 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        const char *name;
        struct lw_err err = {0};
        assert_ok(read(cases[i].text, &name, &shape, &err), err);
        assert_int_equal(shape.window, cases[i].window);
        assert_int_equal(shape.window_every, cases[i].every);
    }
}

/* 26 blocks: words for fewer or more, or for none, are refused of each type that has windows, also
 * where its window is not used, or --layers takes fewer. */
TEST(layer_types_name_each_block_once)
{
    static const char *const fields[] = {
        CONFIG("gemma3_text", 26, 64, 4, 2, 128, 64) ", \"sliding_window\": 512",
        CONFIG("gemma3_text", 26, 64, 4, 2, 128, 64) ", \"sliding_window\": null",
        CONFIG("qwen3", 26, 64, 4, 2, 128, 64), CONFIG("mistral", 26, 64, 4, 2, 128, 64),
        CONFIG("gpt_oss", 26, 64, 4, 2, 128, 64) ", \"num_local_experts\": 4",
    };
    static const int lengths[] = {0, 3, 25, 26, 27, 40};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            char text[2048], why[120];
            struct traces_model_shape shape;
            const char *name;
            struct lw_err err = {0};
            int n = snprintf(text, sizeof text, "%s, \"layer_types\": [", fields[i]);
            for (int b = 0; b < lengths[k]; b++)
                n += snprintf(text + n, sizeof text - (size_t)n, "%s\"sliding_attention\"",
                              b ? ", " : "");
            snprintf(text + n, sizeof text - (size_t)n, "]}");
            snprintf(why, sizeof why, "config.json: layer_types: found %d, allowed: 26, the blocks "
                     "(num_hidden_layers)", lengths[k]);
            enum lw_status got = read(text, &name, &shape, &err);
            assert_int_equal(got, lengths[k] == 26 ? LW_OK : LW_EFORMAT);
            if (lengths[k] != 26)
                assert_string_equal(err.msg, why);
        }
}

/* A sequence of 8192 tokens, and no sliding_window in the file; null is none. */
TEST(a_window_that_the_file_leaves_out_is_that_of_the_class)
{
#define SIZES                                                                                      \
    ", \"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4,"                 \
    " \"vocab_size\": 10, \"max_position_embeddings\": 8192, \"intermediate_size\": 96"
    static const char ASKED[] = ", \"use_sliding_window\": true, \"max_window_layers\": 0";
    static const char EXPERTS[] = ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2";
    static const struct {
        const char *type, *more;
        int64_t window;
    } cases[] = {
        {"gemma3_text", "", 4096}, {"mistral", "", 4096}, {"gpt_oss", EXPERTS, 128},
        {"qwen2", ASKED, 4096},    {"qwen3", ASKED, 4096}, {"qwen2", "", 0},
        {"mixtral", EXPERTS, 0},   {"phi3", "", 0},       {"starcoder2", "", 0},
        {"llama", "", 0},          {"gemma", "", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int null = 0; null < 2; null++) {
            char text[512];
            struct traces_model_shape shape;
            const char *name;
            struct lw_err err = {0};
            snprintf(text, sizeof text, "{\"model_type\": \"%s\"" SIZES "%s%s}", cases[i].type,
                     cases[i].more, null ? ", \"sliding_window\": null" : "");
            assert_ok(read(text, &name, &shape, &err), err);
            assert_int_equal(shape.window, null ? 0 : cases[i].window);
        }
#undef SIZES
}

TEST(what_a_type_lacks_here_is_named)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"model_type\": \"mamba\"}",
         "config.json: model_type 'mamba' is not modelled: blocks of state spaces; import a "
         "recording of it (lapwing import)"},
        {"{\"model_type\": \"gemma2\"}",
         "config.json: model_type 'gemma2' is not modelled: capped scores of attention and of the "
         "vocabulary; import a recording of it (lapwing import)"},
        {CONFIG("gemma3_text", 2, 64, 4, 2, 128, 64) ", \"final_logit_softcapping\": 30.0}",
         "config.json: final_logit_softcapping: found 30.0, allowed: null (capped scores are not "
         "modelled)"},
        {CONFIG("olmoe", 2, 64, 4, 4, 128, 64) ", \"clip_qkv\": 8.0}",
         "config.json: clip_qkv: found 8.0, allowed: null (clipped queries are not modelled)"},
        {CONFIG("qwen2_moe", 2, 64, 4, 4, 128, 64) ", \"use_sliding_window\": true}",
         "config.json: use_sliding_window: found true, allowed: false (model_type qwen2_moe has no "
         "other form here); import a recording of it (lapwing import)"},
        {CONFIG("starcoder2", 2, 64, 4, 2, 128, 64) ", \"use_bias\": false}",
         "config.json: use_bias: found false, allowed: true (model_type starcoder2 has no other "
         "form here); import a recording of it (lapwing import)"},
        {CONFIG("phi3", 2, 64, 4, 2, 128, 64) ", \"partial_rotary_factor\": 2}",
         "config.json: partial_rotary_factor: expected a number above 0, at most 1"},
        {CONFIG("gemma3_text", 2, 64, 4, 2, 128, 64) ", \"sliding_window\": 512,"
         "\"sliding_window_pattern\": 0}",
         "config.json: sliding_window_pattern: found 0, expected a whole number from 1 to "
         "16777216"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        const char *name;
        struct lw_err err = {0};
        assert_int_not_equal(read(cases[i].text, &name, &shape, &err), LW_OK);
        assert_string_equal(err.msg, cases[i].message);
    }
}
