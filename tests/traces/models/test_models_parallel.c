/* Decoders with parallel blocks: registration, published counts, what a block keeps, what a tensor
 * group sums, and the configurations that are refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "tests/lib/traces/model_help.h"

/* Released weights: arXiv 2204.06745 (GPT-NeoX 20B), arXiv 2304.01373 (Pythia 6.9B), safetensors
 * headers at huggingface.co (tied weights once). */
MODEL_TEST(parameter_counts_are_the_published_ones)
{
    static const struct {
        const char *name;
        int64_t count;
        int32_t n;
    } cases[] = {
        {"gpt-neox-20b", INT64_C(20554567680), 1 + 44 * 12 + 3},
        {"pythia-6.9b", INT64_C(6857302016), 1 + 32 * 12 + 3},
        {"gpt-j-6b", INT64_C(6050882784), 1 + 28 * 10 + 4},
        {"falcon-7b", INT64_C(6921720704), 1 + 32 * 6 + 2},
        {"falcon-40b", INT64_C(41303293952), 1 + 60 * 8 + 2},
        {"phi-2", INT64_C(2779683840), 1 + 32 * 14 + 4},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL(cases[k].name, 0);
        int32_t tied = w.params[w.n_params - 1].tied >= 0; /* no parameter of its own */
        assert_int_equal(lw_workload_numel(&w, false), cases[k].count);
        assert_int_equal(w.n_params - tied, cases[k].n);
    }
}

MODEL_TEST(parameters_stand_in_registration_order_with_their_splits)
{
    static const struct {
        const char *name;
        int64_t numel;
        enum lw_tp_split split;
    } first[] = {
        {"transformer.wte.weight", 50400 * 4096, LW_TP_VOCAB},
        {"transformer.h.0.ln_1.weight", 4096, LW_TP_REPLICATED},
        {"transformer.h.0.ln_1.bias", 4096, LW_TP_REPLICATED},
        {"transformer.h.0.attn.k_proj.weight", 4096 * 4096, LW_TP_COLUMN},
        {"transformer.h.0.attn.v_proj.weight", 4096 * 4096, LW_TP_COLUMN},
        {"transformer.h.0.attn.q_proj.weight", 4096 * 4096, LW_TP_COLUMN},
        {"transformer.h.0.attn.out_proj.weight", 4096 * 4096, LW_TP_ROW},
        {"transformer.h.0.mlp.fc_in.weight", 4096 * 16384, LW_TP_COLUMN},
        {"transformer.h.0.mlp.fc_in.bias", 16384, LW_TP_COLUMN},
        {"transformer.h.0.mlp.fc_out.weight", 4096 * 16384, LW_TP_ROW},
        {"transformer.h.0.mlp.fc_out.bias", 4096, LW_TP_REPLICATED},
        {"transformer.ln_f.weight", 4096, LW_TP_REPLICATED},
        {"transformer.ln_f.bias", 4096, LW_TP_REPLICATED},
        {"lm_head.weight", 50400 * 4096, LW_TP_VOCAB},
        {"lm_head.bias", 50400, LW_TP_VOCAB},
    };
    struct lw_workload w = MODEL("gpt-j-6b", .layers = 1);

    assert_int_equal(w.n_params, sizeof first / sizeof *first);
    for (int32_t k = 0; k < w.n_params; k++) {
        assert_string_equal(w.params[k].name, first[k].name);
        assert_int_equal(w.params[k].numel, first[k].numel);
        assert_int_equal(w.params[k].tp_split, first[k].split);
    }
}

/* Input, the norms' results, queries, keys, values, attention's result, the activation's input and
 * output; one f32 per row of scores. */
static int64_t kept(const struct traces_model_shape *s, int64_t kv_heads, int64_t n_norms)
{
    int64_t kv = 2 * s->hidden / s->heads * kv_heads;

    return s->batch * s->seq * (2 * ((3 + n_norms) * s->hidden + kv + 2 * s->ffn) + 4 * s->heads);
}

MODEL_TEST(a_block_keeps_its_input_and_a_shared_norm_once)
{
    unsigned seed = 29;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 40; round++) {
        struct traces_model_shape s = {.layers = 1 + rand() % 3, .heads = 1 + rand() % 6,
                                       .ffn = 1 + rand() % 300, .seq = 1 + rand() % 40,
                                       .batch = 1 + rand() % 4, .vocab = 1 + rand() % 99};
        s.hidden = s.heads * 2 * (1 + rand() % 16);
        struct lw_workload one = model_kept("gpt-j-6b", NULL, s);
        struct lw_workload two = model_kept("gpt-neox-20b", NULL, s);
        struct lw_workload grouped = model_kept("falcon-7b", NULL, s);
        for (int64_t i = 1; i <= s.layers; i++) {
            assert_int_equal(one.modules[i].kept_bytes[LW_RECOMPUTE_NONE], kept(&s, s.heads, 1));
            assert_int_equal(two.modules[i].kept_bytes[LW_RECOMPUTE_NONE], kept(&s, s.heads, 2));
            assert_int_equal(grouped.modules[i].kept_bytes[LW_RECOMPUTE_NONE], kept(&s, 1, 1));
            assert_int_equal(one.modules[i].kept_bytes[LW_RECOMPUTE_FULL],
                             2 * s.batch * s.seq * s.hidden);
        }
    }
}

/* GPT-3 sums each half: twice in each direction. */
MODEL_TEST(a_tensor_group_sums_both_halves_at_once)
{
    struct traces_model_shape s = {.layers = 1, .heads = 8, .hidden = 64, .seq = 32, .batch = 2};
    int64_t x = 2 * s.batch * s.seq * s.hidden;
    struct lw_workload one = model_kept("gpt-j-6b", NULL, s);
    struct lw_workload two = model_kept("gpt-neox-20b", NULL, s);
    struct lw_workload gpt = model_kept("gpt-125m", NULL, s);

    assert_int_equal(one.modules[1].tp_forward_bytes, x);
    assert_int_equal(one.modules[1].tp_backward_bytes, x);
    assert_int_equal(two.modules[1].tp_forward_bytes, x);
    assert_int_equal(two.modules[1].tp_backward_bytes, 2 * x);
    assert_int_equal(gpt.modules[1].tp_forward_bytes, 2 * x);
}

MODEL_TEST(any_allocation_may_fail)
{
    model_without_memory("phi-2", (struct traces_model_shape){.layers = 2});
}

static enum lw_status read(const char *text, const char **name, struct traces_model_shape *shape,
                           struct lw_err *err)
{
    *shape = (struct traces_model_shape){.layers = 0};
    return model_read_config(text, name, shape, err);
}

#define SIZES(layers, hidden, heads, vocab) "\"num_hidden_layers\": " layers                      \
    ", \"hidden_size\": " hidden ", \"num_attention_heads\": " heads ", \"vocab_size\": " vocab   \
    ", \"max_position_embeddings\": 2048"

/* Pythia 1B, GPT-J 6B, Falcon 7B and 40B, Phi-1.5. */
MODEL_TEST(configurations_have_the_published_counts)
{
    static const struct {
        const char *text, *name;
        int64_t count, rotated;
    } cases[] = {
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.25, \"intermediate_size\": 8192,"
         "\"attention_bias\": true, " SIZES("16", "2048", "8", "50304") "}",
         "gpt-neox-20b", INT64_C(1011781632), 64},
        {"{\"model_type\": \"gptj\", \"n_layer\": 28, \"n_embd\": 4096, \"n_head\": 16,"
         "\"n_inner\": null, \"vocab_size\": 50400, \"n_positions\": 2048, \"rotary_dim\": 64}",
         "gpt-j-6b", INT64_C(6050882784), 64},
        {"{\"model_type\": \"falcon\", \"multi_query\": true, \"bias\": false,"
         "\"num_hidden_layers\": 32, \"hidden_size\": 4544, \"num_attention_heads\": 71,"
         "\"vocab_size\": 65024}",
         "falcon-7b", INT64_C(6921720704), 0},
        {"{\"model_type\": \"falcon\", \"new_decoder_architecture\": true, \"num_kv_heads\": 8,"
         SIZES("60", "8192", "128", "65024") "}",
         "falcon-40b", INT64_C(41303293952), 0},
        {"{\"model_type\": \"phi\", \"intermediate_size\": 8192, \"num_key_value_heads\": null,"
         "\"partial_rotary_factor\": 0.5, " SIZES("24", "2048", "32", "51200") "}",
         "phi-2", INT64_C(1418270720), 32},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct traces_model_shape shape;
        struct lw_err err;
        const char *name;
        assert_int_equal(read(cases[k].text, &name, &shape, &err), LW_OK);
        assert_string_equal(name, cases[k].name);
        assert_int_equal(shape.rope_width, cases[k].rotated);
        struct lw_workload w = model_kept(name, NULL, shape);
        assert_int_equal(lw_workload_numel(&w, false), cases[k].count);
    }
}

MODEL_TEST(other_forms_of_these_types_are_refused_by_name)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{\"model_type\": \"gpt_neox\", \"use_parallel_residual\": false, "
         SIZES("2", "64", "8", "99") "}",
         "config.json: use_parallel_residual: found false, allowed: true"},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": -1, " SIZES("2", "64", "8", "99") "}",
         "config.json: rotary_pct: expected a number above 0, at most 1"},
        {"{\"model_type\": \"falcon\", \"alibi\": true, " SIZES("2", "64", "8", "99") "}",
         "config.json: alibi: found true, allowed: false"},
        {"{\"model_type\": \"falcon\", \"parallel_attn\": false, " SIZES("2", "64", "8", "99") "}",
         "config.json: parallel_attn: found false, allowed: true"},
        {"{\"model_type\": \"phi\", \"qk_layernorm\": true, " SIZES("2", "64", "8", "99") "}",
         "config.json: qk_layernorm: found true, allowed: false"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct traces_model_shape shape;
        struct lw_err err;
        const char *name;
        assert_int_not_equal(read(cases[k].text, &name, &shape, &err), LW_OK);
        assert_memory_equal(err.msg, cases[k].why, strlen(cases[k].why));
    }
}
