/* Fields of config.json without which a model would have other experts, or none, are needed. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/traces/model_help.h"

#define SIZES                                                                                      \
    "\"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 4,"                   \
    "\"intermediate_size\": 96, \"vocab_size\": 10, \"max_position_embeddings\": 64"

static enum lw_status read(const char *type, const char *fields, struct traces_model_shape *shape,
                           struct lw_err *err)
{
    char text[1024];
    const char *name;

    snprintf(text, sizeof text, "{\"model_type\": \"%s\", " SIZES "%s}", type, fields);
    return model_read_config(text, &name, shape, err);
}

#define DEEPSEEK                                                                                   \
    {{"n_routed_experts", "8"}, {"n_shared_experts", "1"}, {"first_k_dense_replace", "1"}}
/* A type's file with all it needs, and which option stands in for each field. */
static const struct {
    const char *type, *fields[3][2], *options[3];
} types[] = {
    {"mixtral", {{"num_local_experts", "8"}}, {"experts"}},
    {"gpt_oss", {{"num_local_experts", "8"}}, {"experts"}},
    {"llama4_text", {{"num_local_experts", "8"}}, {"experts"}},
    {"olmoe", {{"num_experts", "8"}}, {"experts"}},
    {"qwen3_moe", {{"num_experts", "8"}}, {"experts"}},
    {"qwen2_moe", {{"num_experts", "8"}, {"shared_expert_intermediate_size", "40"}},
     {"experts", "shared-ffn"}},
    {"deepseek_v2", DEEPSEEK, {"experts", "shared-ffn", "dense-layers"}},
    {"deepseek_v3", DEEPSEEK, {"experts", "shared-ffn", "dense-layers"}},
    {"kimi_k2", DEEPSEEK, {"experts", "shared-ffn", "dense-layers"}},
    {"glm4_moe", DEEPSEEK, {"experts", "shared-ffn", "dense-layers"}},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* Field `at` has another value, or is left out where `value` is NULL. */
static const char *fields_of(size_t type, int at, const char *value)
{
    static char text[400];
    size_t n = (size_t)snprintf(text, sizeof text, ", \"num_experts_per_tok\": 2,"
                                                   " \"moe_intermediate_size\": 32");

    for (int k = 0; k < 3 && types[type].fields[k][0]; k++)
        if (k != at || value)
            n += (size_t)snprintf(text + n, sizeof text - n, ", \"%s\": %s",
                                  types[type].fields[k][0],
                                  k == at ? value : types[type].fields[k][1]);
    return text;
}

TEST(each_needed_field_is_missed_by_name)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        struct traces_model_shape whole = {.layers = 0};
        struct lw_err err = {0};
        assert_ok(read(types[i].type, fields_of(i, -1, NULL), &whole, &err), err);
        assert_int_equal(whole.experts, 8);
        for (int k = 0; k < 3 && types[i].fields[k][0]; k++)
            for (int null = 0; null < 2; null++) {
                struct traces_model_shape s = {.layers = 0};
                char why[200];
                snprintf(why, sizeof why, "config.json: no '%s', which model_type %s needs: add "
                         "it, or give --%s", types[i].fields[k][0], types[i].type,
                         types[i].options[k]);
                assert_int_equal(read(types[i].type, fields_of(i, k, null ? "null" : NULL), &s,
                                      &err), LW_EFORMAT);
                assert_string_equal(err.msg, why);
            }
    }
}

/* 0 experts are a model of others, but of Qwen's, whose code then makes dense blocks; no shared
 * expert and no dense block are numbers like others. */
TEST(zero_experts_are_none_where_the_model_has_that_form)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        struct traces_model_shape s = {.layers = 0};
        struct lw_err err = {0};
        bool qwen = strncmp(types[i].type, "qwen", 4) == 0;
        char why[200];
        snprintf(why, sizeof why, "config.json: %s: found 0, expected 1 or more (model_type %s); "
                 "or give --experts", types[i].fields[0][0], types[i].type);
        enum lw_status got = read(types[i].type, fields_of(i, 0, "0"), &s, &err);
        assert_int_equal(got, qwen ? LW_OK : LW_EFORMAT);
        if (!qwen)
            assert_string_equal(err.msg, why);
        for (int k = 1; k < 3 && types[i].fields[k][0] && !qwen; k++) {
            s = (struct traces_model_shape){.layers = 0};
            assert_ok(read(types[i].type, fields_of(i, k, "0"), &s, &err), err);
        }
    }
}

TEST(an_option_stands_in_for_the_field)
{
    struct lw_err err = {0};

    for (size_t i = 0; i < N_TYPES; i++)
        for (int k = 0; k < 3 && types[i].fields[k][0]; k++) {
            struct traces_model_shape s = {.experts = k == 0 ? 4 : 0, .shared_ffn = k == 1 ? 24 : 0,
                                           .dense_layers = k == 2 ? 2 : 0};
            assert_ok(read(types[i].type, fields_of(i, k, NULL), &s, &err), err);
            assert_int_equal(k == 0 ? s.experts : k == 1 ? s.shared_ffn : s.dense_layers,
                             k == 0 ? 4 : k == 1 ? 24 : 2);
        }
}

/* Of Llama 4, blocks without experts have a width of their own. */
TEST(dense_blocks_in_turn_need_their_width)
{
    static const char experts[] = ", \"num_local_experts\": 8, \"num_experts_per_tok\": 1";
    struct traces_model_shape s = {.layers = 0}, option = {.ffn = 56};
    struct lw_err err = {0};
    char fields[200];

    snprintf(fields, sizeof fields, "%s, \"interleave_moe_layer_step\": 2", experts);
    assert_int_equal(read("llama4_text", fields, &s, &err), LW_EFORMAT);
    assert_string_equal(err.msg, "config.json: no 'intermediate_size_mlp', which model_type "
                                 "llama4_text needs: add it, or give --ffn");
    assert_ok(read("llama4_text", fields, &option, &err), err);
    s = (struct traces_model_shape){.layers = 0};
    assert_ok(read("llama4_text", experts, &s, &err), err);
}
