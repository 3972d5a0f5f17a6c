/* config.json of Qwen3-Next's and Qwen3.5's types: counts, both ways of naming blocks, what a file
 * leaves out, and what is refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/traces/model_help.h"

#define NEXT(more)                                                                                 \
    "{\"model_type\": \"qwen3_next\", \"hidden_size\": 2048, \"num_hidden_layers\": 48, "          \
    "\"num_attention_heads\": 16, \"num_key_value_heads\": 2, \"head_dim\": 256, "                 \
    "\"intermediate_size\": 5120, \"vocab_size\": 151936, \"max_position_embeddings\": 4096, "     \
    "\"num_experts\": 512, \"num_experts_per_tok\": 10, \"moe_intermediate_size\": 512, "          \
    "\"shared_expert_intermediate_size\": 512, \"decoder_sparse_step\": 1, "                       \
    "\"torch_dtype\": \"bfloat16\"" more "}"
#define DENSE(more)                                                                                \
    "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 64, \"num_hidden_layers\": 4, "           \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 96, "          \
    "\"vocab_size\": 128, \"max_position_embeddings\": 64, \"head_dim\": 16, "                     \
    "\"linear_num_value_heads\": 4, \"linear_num_key_heads\": 2, \"linear_key_head_dim\": 8, "     \
    "\"linear_value_head_dim\": 12" more "}"

static struct traces_model_shape shape_of(const char *text)
{
    struct traces_model_shape s = {.layers = 0};
    struct lw_err err = {0};
    const char *name;

    assert_ok(model_read_config(text, &name, &s, &err), err);
    assert_string_equal(name, "decoder");
    return s;
}

/* What the file leaves out is as in its configuration: the file of the model of that name. */
MODEL_TEST(a_file_has_the_model_of_its_name)
{
    struct lw_workload file = model_kept("decoder", NULL, shape_of(NEXT(
        ", \"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4, "
        "\"partial_rotary_factor\": 0.25, \"mlp_only_layers\": []")));
    struct lw_workload bare = model_kept("decoder", NULL, shape_of(NEXT("")));
    struct lw_workload named = MODEL("qwen3-next-80b-a3b", .dtype = "bf16", .ffn = 5120);

    assert_int_equal(file.n_params, named.n_params);
    for (int32_t k = 0; k < file.n_params; k++) {
        assert_string_equal(file.params[k].name, named.params[k].name);
        assert_int_equal(file.params[k].numel, named.params[k].numel);
        assert_int_equal(bare.params[k].numel, named.params[k].numel);
    }
    assert_int_equal(file.n_kernels, named.n_kernels);
    for (int32_t k = 0; k < file.n_kernels; k++)
        assert_memory_equal(file.kernels[k].bytes, named.kernels[k].bytes,
                            sizeof file.kernels[k].bytes);
}

/* A list has the same blocks as an interval; Qwen3.5 has four first products. */
MODEL_TEST(blocks_are_listed_or_in_turn)
{
    static const char *const texts[] = {
        DENSE(", \"full_attention_interval\": 2"),
        DENSE(", \"layer_types\": [\"linear_attention\", \"full_attention\", "
              "\"linear_attention\", \"full_attention\"]")};

    for (int i = 0; i < 2; i++) {
        struct lw_workload w = model_kept("decoder", NULL, shape_of(texts[i]));
        static const char *const names[] = {"conv1d.weight", "dt_bias", "A_log", "norm.weight",
                                            "out_proj.weight", "in_proj_qkv.weight",
                                            "in_proj_z.weight", "in_proj_b.weight",
                                            "in_proj_a.weight"};
        const int64_t numel[] = {4 * (2 * 16 + 48), 4, 4, 12, 64 * 48, 64 * (2 * 16 + 48),
                                 64 * 48, 64 * 4, 64 * 4};
        char name[64];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            snprintf(name, sizeof name, "model.layers.2.linear_attn.%s", names[k]);
            const struct lw_param *found = NULL;
            for (int32_t p = 0; p < w.n_params; p++)
                found = strcmp(w.params[p].name, name) == 0 ? &w.params[p] : found;
            assert_non_null(found);
            assert_int_equal(found->numel, numel[k]);
        }
        assert_true(w.modules[2].kv_bytes > 0 && w.modules[4].kv_bytes > 0);
        assert_int_equal(w.modules[1].kv_bytes + w.modules[3].kv_bytes, 0);
    }
}

TEST(sizes_of_a_head_and_its_rotation_are_the_files)
{
    struct traces_model_shape s = shape_of(
        DENSE(", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}, "
              "\"mtp_num_hidden_layers\": 1, \"attn_output_gate\": true"));

    assert_int_equal(s.rope_width, 8);
    assert_int_equal(s.mtp_stated, 1);
    assert_true(s.attention_gate && s.linear_split && s.qk_norm);
    assert_int_equal(s.linear_every, 4);
    assert_int_equal(shape_of(DENSE("")).rope_width, 4);
    assert_int_equal(shape_of(DENSE("")).mtp_stated, 0);
    assert_int_equal(shape_of(NEXT(", \"num_nextn_predict_layers\": 1")).mtp_stated, 1);
    assert_int_equal(s.experts + s.shared_ffn, 0);
}

/* By the name of its field, which Qwen3.5's files have of their own. */
MODEL_TEST(blocks_that_are_stated_and_not_trained_are_named)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {DENSE(", \"mtp_num_hidden_layers\": 1"), "config.json's mtp_num_hidden_layers is 1; "},
        {NEXT(", \"num_nextn_predict_layers\": 1"),
         "config.json's num_nextn_predict_layers is 1; "},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = model_kept("decoder", NULL, shape_of(cases[k].text));
        int n = 0;
        for (int32_t i = 0; i < w.n_notes; i++)
            n += strstr(w.notes[i], cases[k].says) != NULL;
        assert_int_equal(n, 1);
    }
}

TEST(what_no_block_here_has_is_refused)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {DENSE(", \"layer_types\": [\"linear_attention\"]"),
         "config.json: layer_types: found 1, allowed: 4, the blocks (num_hidden_layers)"},
        {DENSE(", \"layer_types\": [\"linear_attention\", \"full_attention\", "
               "\"full_attention\", \"linear_attention\"]"),
         "config.json: layer_types: block 2 breaks the turn: linear attention is modelled where "
         "each n-th block attends to all tokens"},
        {DENSE(", \"layer_types\": [\"linear_attention\", \"sliding_attention\", "
               "\"full_attention\", \"linear_attention\"]"),
         "config.json: layer_types: block 1 is \"sliding_attention\", allowed: "
         "\"full_attention\", \"linear_attention\""},
        {DENSE(", \"linear_conv_kernel_dim\": 3"),
         "config.json: linear_conv_kernel_dim: found 3, allowed: 4"},
        {DENSE(", \"attn_output_gate\": false"),
         "config.json: attn_output_gate: found false, allowed: true"},
        {NEXT(", \"linear_num_key_heads\": 12"),
         "config.json: linear_num_key_heads: found 12, allowed: divisors of "
         "linear_num_value_heads, 32"},
        {NEXT(", \"mlp_only_layers\": [0]"), "config.json: mlp_only_layers: "},
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
