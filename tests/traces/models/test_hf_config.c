/* Hugging Face configurations: published parameter counts, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"
#include "tests/lib/model_help.h"
#include "traces/models/hf_config.h"

static enum lw_status read(const char *text, const char **name, struct traces_model_shape *shape,
                           struct lw_err *err)
{
    static char padded[4096 + LW_JSON_PADDING];
    struct lw_input in = {.name = "config.json", .text = padded, .len = strlen(text)};

    memset(padded, 0, sizeof padded);
    snprintf(padded, 4096, "%s", text);
    *shape = (struct traces_model_shape){.layers = 0};
    *name = NULL;
    return traces_hf_config(&in, name, shape, err);
}

/* Counts of the released weights: Llama 2 7B, Llama 3 8B, Llama 3.2 1B (tied), Mistral 7B,
 * GPT-2. */
static void published_counts_are_met(void **unused)
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
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        if (read(cases[i].text, &name, &shape, &err) != LW_OK)
            fail_msg("%s", err.msg);
        struct lw_workload w = model_build(name, shape);
        assert_int_equal(lw_workload_numel(&w, false), cases[i].count);
        lw_workload_free(&w);
    }
}

static void what_is_not_modelled_is_refused_by_field(void **unused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "config.json: no 'model_type': is this a model's config.json?"},
        {"[1]", "config.json: expected an object"},
        {"{\"model_type\": \"mamba\"}", "config.json: model_type 'mamba' is not modelled; known: "
                                        "llama, mistral, gpt2, bert"},
        {"{\"model_type\": \"mixtral\"}",
         "config.json: model_type 'mixtral': experts are not modelled"},
        {"{\"model_type\": \"llama\"}",
         "config.json: no 'num_hidden_layers': is this a model's config.json?"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1.5}",
         "config.json: num_hidden_layers: expected a whole number from 1 to 16777216"},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
         "\"num_attention_heads\": 4, \"vocab_size\": 10, \"max_position_embeddings\": 8,"
         "\"head_dim\": 32}",
         "config.json: head_dim: heads of another width than hidden_size / num_attention_heads are "
         "not modelled"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        assert_int_not_equal(read(cases[i].text, &name, &shape, &err), LW_OK);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(name);
    }
}

static void failing_allocations_leave_nothing(void **unused)
{
    int64_t live = lw_alloc_live(), n = 0;
    enum lw_status s;
    (void)unused;
    do {
        struct traces_model_shape shape;
        struct lw_err err = {0};
        const char *name;
        lw_alloc_fail_at(++n);
        s = read("{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 2,"
                 "\"vocab_size\": 10, \"n_positions\": 8}", &name, &shape, &err);
        lw_alloc_fail_at(0);
        assert_int_equal(lw_alloc_live(), live);
    } while (s == LW_ENOMEM);
    assert_int_equal(s, LW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts_are_met),
        cmocka_unit_test(what_is_not_modelled_is_refused_by_field),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
