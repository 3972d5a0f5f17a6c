/* config.json of model_type nemotron_h: published counts, both spellings of layers, older names of
 * fields, and what is refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/traces/model_help.h"

static struct traces_model_shape shape_of(const char *text)
{
    struct traces_model_shape s = {.layers = 0};
    struct lw_err err = {0};
    const char *name;

    assert_ok(model_read_config(text, &name, &s, &err), err);
    assert_string_equal(name, "nemotron-h-8b");
    return s;
}

#define HEAD(hidden, heads, kv)                                                                    \
    "{\"model_type\": \"nemotron_h\", \"hidden_size\": " hidden ", \"num_attention_heads\": "      \
    heads ", \"num_key_value_heads\": " kv ", \"vocab_size\": 131072, "                            \
    "\"max_position_embeddings\": 8192, "
#define PATTERN_8B "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
#define PATTERN_30B "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
#define EXPERTS_30B                                                                                \
    "\"n_routed_experts\": 128, \"num_experts_per_tok\": 6, \"moe_intermediate_size\": 1856, "     \
    "\"n_shared_experts\": 1, \"moe_shared_expert_intermediate_size\": 3712"

/* Nemotron-H-8B-Base-8K, with the names that it has, and NVIDIA-Nemotron-3-Nano-30B-A3B. */
TEST(published_counts_are_met)
{
    static const struct {
        const char *text;
        int64_t count;
    } cases[] = {
        {HEAD("4096", "32", "8") "\"num_hidden_layers\": 52, \"intermediate_size\": 21504, "
         "\"hybrid_override_pattern\": \"" PATTERN_8B "\", \"attention_head_dim\": 128, "
         "\"mamba_num_heads\": 128, \"mamba_head_dim\": 64, \"ssm_state_size\": 128, "
         "\"n_groups\": 8, \"conv_kernel\": 4, \"chunk_size\": 128, \"use_conv_bias\": true}",
         INT64_C(8100852736)},
        {HEAD("2688", "32", "2") "\"num_hidden_layers\": 52, \"head_dim\": 128, "
         "\"hybrid_override_pattern\": \"" PATTERN_30B "\", \"mamba_num_heads\": 64, "
         EXPERTS_30B ", \"mlp_hidden_act\": \"relu2\"}",
         INT64_C(31577937344)},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = model_build("nemotron-h-8b", shape_of(cases[k].text));
        assert_int_equal(lw_workload_numel(&w, false), cases[k].count);
        lw_workload_free(&w);
    }
}

#define SMALL HEAD("64", "4", "2") "\"intermediate_size\": 96, "

TEST(layers_are_letters_or_words)
{
    static const char *const texts[] = {
        SMALL "\"hybrid_override_pattern\": \"M*-E\", " EXPERTS_30B "}",
        SMALL "\"layers_block_type\": [\"mamba\", \"attention\", \"mlp\", \"moe\"], "
        EXPERTS_30B "}",
        SMALL "\"layer_types\": [\"linear_attention\", \"full_attention\", \"mlp\", \"moe\"], "
        EXPERTS_30B ", \"num_hidden_layers\": 4}",
    };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        struct traces_model_shape s = shape_of(texts[k]);
        assert_string_equal(s.layer_pattern, "M*-E");
        assert_int_equal(s.layers, 4);
        assert_int_equal(s.experts, 128);
        assert_int_equal(s.shared_ffn, 3712);
    }
}

/* What NemotronHConfig has where a file says nothing, and its older names. */
TEST(sizes_may_be_left_out_or_have_older_names)
{
    struct traces_model_shape s = shape_of(SMALL "\"hybrid_override_pattern\": \"M\"}");

    assert_int_equal(s.ssm_heads, 128);
    assert_int_equal(s.ssm_head_width, 64);
    assert_int_equal(s.ssm_state, 128);
    assert_int_equal(s.ssm_groups, 8);
    assert_int_equal(s.ssm_chunk, 128);
    assert_int_equal(s.head_width, 128);
    s = shape_of(SMALL "\"hybrid_override_pattern\": \"M\", \"mamba_n_groups\": 4, "
                       "\"mamba_chunk_size\": 256, \"mamba_d_conv\": 4}");
    assert_int_equal(s.ssm_groups, 4);
    assert_int_equal(s.ssm_chunk, 256);
}

/* Sizes of experts stay in the file of a model without them. */
TEST(layers_without_experts_leave_their_sizes_out)
{
    struct traces_model_shape s =
        shape_of(SMALL "\"hybrid_override_pattern\": \"M-\", \"moe_latent_size\": 16, "
                 EXPERTS_30B "}");

    assert_int_equal(s.experts, 0);
    assert_int_equal(s.shared_ffn, 0);
    assert_int_equal(s.expert_latent, 0);
}

TEST(options_take_precedence)
{
    struct traces_model_shape s = {.layers = 2, .ssm_state = 64};
    struct lw_err err = {0};
    const char *name;

    assert_ok(model_read_config(SMALL "\"hybrid_override_pattern\": \"M*-M\", "
                                      "\"ssm_state_size\": 128}",
                                &name, &s, &err), err);
    assert_string_equal(s.layer_pattern, "M*");
    assert_int_equal(s.layers, 2);
    assert_int_equal(s.ssm_state, 64);
    s = (struct traces_model_shape){.layer_pattern = "--"};
    assert_ok(model_read_config(SMALL "\"hybrid_override_pattern\": \"M*-M\"}", &name, &s, &err),
              err);
    assert_string_equal(s.layer_pattern, "--");
    assert_int_equal(s.layers, 0); /* as many as letters */
}

TEST(passes_for_further_tokens_are_left_out_and_named)
{
    struct traces_model_shape s = shape_of(SMALL "\"hybrid_override_pattern\": \"ME\", "
                                           EXPERTS_30B ", \"num_nextn_predict_layers\": 1, "
                                           "\"mtp_hybrid_override_pattern\": \"*E\"}");
    bool said = false;

    s.batch = 1;
    assert_int_equal(s.mtp_stated, 1);
    assert_int_equal(s.mtp_layers, 0);
    struct lw_workload w = model_build("nemotron-h-8b", s);
    for (int32_t i = 0; i < w.n_notes; i++)
        said |= strstr(w.notes[i], "num_nextn_predict_layers is 1") != NULL;
    assert_true(said);
    lw_workload_free(&w);
}

TEST(other_forms_are_refused_by_field)
{
    static const struct {
        const char *fields, *message;
    } cases[] = {
        {"\"x\": 1", "config.json: no 'hybrid_override_pattern' and no 'layers_block_type': which "
                     "mixer each layer has is not known; give --layer-pattern"},
        {"\"hybrid_override_pattern\": \"MX\"",
         "config.json: hybrid_override_pattern: letter 2: found 'X', expected M (state space), * "
         "(attention), - (two products), E (experts)"},
        {"\"hybrid_override_pattern\": 3",
         "config.json: hybrid_override_pattern: expected a string of M, *, - and E"},
        {"\"layers_block_type\": [\"mamba\", \"conv\"]",
         "config.json: layers_block_type: layer 1 is \"conv\", allowed: \"mamba\" or "
         "\"linear_attention\", \"attention\" or \"full_attention\", \"mlp\", \"moe\""},
        {"\"hybrid_override_pattern\": \"MM\", \"num_hidden_layers\": 3",
         "config.json: num_hidden_layers: found 3, allowed: 2, the layers that the file names"},
        {"\"hybrid_override_pattern\": \"M\", \"conv_kernel\": 3",
         "config.json: conv_kernel: found 3, allowed: 4"},
        {"\"hybrid_override_pattern\": \"M\", \"use_conv_bias\": false",
         "config.json: use_conv_bias: found false, allowed: true (model_type nemotron_h has no "
         "other form here); import a recording of it (lapwing import)"},
        {"\"hybrid_override_pattern\": \"M\", \"mlp_hidden_act\": \"silu\"",
         "config.json: mlp_hidden_act: found \"silu\", allowed: \"relu2\""},
        {"\"hybrid_override_pattern\": \"M\", \"attention_bias\": true",
         "config.json: attention_bias, mlp_bias: biases of this family are not modelled"},
        {"\"hybrid_override_pattern\": \"M\", \"n_groups\": \"8\"",
         "config.json: n_groups: found \"8\", expected a whole number from 1 to 16777216"},
    };
    char text[600];

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct traces_model_shape s = {.layers = 0};
        struct lw_err err = {0};
        const char *name;
        snprintf(text, sizeof text, SMALL "%s}", cases[k].fields);
        assert_int_not_equal(model_read_config(text, &name, &s, &err), LW_OK);
        assert_string_equal(err.msg, cases[k].message);
    }
    struct traces_model_shape s = {.mtp_layers = 1};
    struct lw_err err = {0};
    const char *name;
    snprintf(text, sizeof text, SMALL "%s}", "\"hybrid_override_pattern\": \"ME\", "
                                             "\"mtp_hybrid_override_pattern\": \"ME\"");
    assert_int_equal(model_read_config(text, &name, &s, &err), LW_ENOTSUP);
    assert_string_equal(err.msg, "config.json: layers for further tokens are ME, allowed: *E; "
                                 "leave --mtp-layers out");
}
