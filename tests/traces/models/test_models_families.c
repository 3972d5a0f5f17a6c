/* Llama, BERT, ViT and the ResNets: parameters by independent formulas and published figures. */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "shared/base/arena.h"
#include "shared/workload/buffer.h"
#include "tests/lib/traces/model_help.h"

struct published {
    const char *name;
    int64_t count;
};

/* ResNets, ViT: torchvision's num_params; BERT: BertModel; the others: sums over released
 * checkpoints. */
static const struct published published[] = {
    {"resnet18", INT64_C(11689512)},        {"resnet34", INT64_C(21797672)},
    {"resnet50", INT64_C(25557032)},        {"resnet101", INT64_C(44549160)},
    {"resnet152", INT64_C(60192808)},       {"bert-base", INT64_C(109482240)},
    {"bert-large", INT64_C(335141888)},     {"vit-b-16", INT64_C(86567656)},
    {"vit-b-32", INT64_C(88224232)},        {"vit-l-16", INT64_C(304326632)},
    {"vit-l-32", INT64_C(306535400)},       {"vit-h-14", INT64_C(632045800)},
    {"llama-7b", INT64_C(6738415616)},      {"llama-13b", INT64_C(13015864320)},
    {"llama-33b", INT64_C(32528943616)},    {"llama-65b", INT64_C(65285660672)},
    {"llama-2-70b", INT64_C(68976648192)},  {"llama-3-8b", INT64_C(8030261248)},
    {"llama-3-70b", INT64_C(70553706496)},  {"llama-3-405b", INT64_C(405853388800)},
    {"llama-3.2-1b", INT64_C(1235814400)},  {"llama-3.2-3b", INT64_C(3212749824)},
    {"mistral-7b", INT64_C(7248023552)},    {"qwen-2.5-7b", INT64_C(7615616512)},
    {"qwen-2.5-14b", INT64_C(14770033664)}, {"qwen-2.5-32b", INT64_C(32763876352)},
    {"qwen-2.5-72b", INT64_C(72706203648)}, {"qwen3-4b", INT64_C(4022468096)},
    {"qwen3-8b", INT64_C(8190735360)},      {"qwen3-14b", INT64_C(14768307200)},
    {"qwen3-32b", INT64_C(32762123264)},    {"megatron-bert", INT64_C(336226108)},
};

MODEL_TEST(parameter_counts_are_the_published_ones)
{
    for (size_t k = 0; k < sizeof published / sizeof *published; k++) {
        struct lw_workload w = MODEL(published[k].name, 0);
        assert_int_equal(lw_workload_numel(&w, false), published[k].count);
    }
}

/* No two models have names that differ in case and separators alone: each is found by its own. */
TEST(names_are_found_however_they_are_spelled)
{
    static const char *const names[][2] = {
        {"Qwen2.5-7B", "qwen-2.5-7b"}, {"DeepSeek-V3", "deepseek-v3"}, {"GPT-2", "gpt2"},
        {"llama_3_70B", "llama-3-70b"}, {"Llama-3.1-8B", "llama-3-8b"},
        {"llama3.3-70b", "llama-3-70b"}, {"DeepSeek R1", "deepseek-v3"},
    };
    const struct traces_model *m;

    for (int k = 0; (m = traces_model_at(k)) != NULL; k++)
        assert_ptr_equal(traces_model_named(m->name), m);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(traces_model_named(names[i][0])->name, names[i][1]);
    assert_null(traces_model_named("llama-3-8"));
    assert_null(traces_model_named("llama-3-8bb"));
    assert_null(traces_model_named("meta-llama/llama-3-8b"));
    assert_null(traces_model_named(""));
}

/* Formulas that do not know how a model is put together. */
static int64_t llama(const struct traces_model_shape *s)
{
    int64_t h = s->hidden, kv = h / s->heads * s->kv_heads;

    return 2 * s->vocab * h + h + s->layers * (2 * h * h + 2 * h * kv + 3 * h * s->ffn + 2 * h);
}

static int64_t bert(const struct traces_model_shape *s)
{
    int64_t h = s->hidden;

    return (s->vocab + s->seq + 2 + 2) * h + h * h + h +
           s->layers * (4 * h * h + 2 * h * s->ffn + s->ffn + 9 * h);
}

static int64_t vit(const struct traces_model_shape *s)
{
    int64_t h = s->hidden, n = s->image / s->patch;

    return (3 * s->patch * s->patch + 1) * h + h + (n * n + 1) * h + 2 * h + 1001 * h - h + 1000 +
           s->layers * (4 * h * h + 2 * h * s->ffn + s->ffn + 9 * h);
}

static int64_t roll(int64_t n)
{
    return 1 + rand() % n;
}

MODEL_TEST(any_shape_has_the_parameters_of_its_formula)
{
    unsigned seed = 11;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 60; round++) {
        struct traces_model_shape s = {.layers = roll(5), .heads = 2 * roll(4), .ffn = roll(300)};
        s.hidden = s.heads * 2 * roll(16);
        struct traces_model_shape text = s, image = s;
        text.seq = 512 + roll(100);
        text.vocab = roll(1000);
        image.patch = roll(20);
        image.image = image.patch * (31 / image.patch + roll(4));
        struct lw_workload b = model_kept("bert-base", NULL, text);
        struct lw_workload v = model_kept("vit-b-16", NULL, image);
        text.kv_heads = roll(2) * (text.heads / 2);
        struct lw_workload l = model_kept("llama-7b", NULL, text);
        assert_int_equal(lw_workload_numel(&l, true), llama(&text));
        assert_int_equal(lw_workload_numel(&b, true), bert(&text));
        assert_int_equal(lw_workload_numel(&v, true), vit(&image));
    }
}

/* What holds of every model: gradients of a module inside its window of the backward, whole parts
 * no larger than their whole, kept bytes falling with recomputation, parameters of every module
 * that tensor parallelism splits. */
MODEL_TEST(every_model_is_consistent)
{
    const struct traces_model *m;
    for (int k = 0; (m = traces_model_at(k)) != NULL; k++) {
        struct lw_workload w = MODEL(m->name, .batch = 2);
        int32_t expected = 0;
        lw_ps end = 0;
        for (int32_t i = 0; i < w.n_params; i++)
            expected += lw_param_has_gradient(&w.params[i]);
        assert_int_equal(w.n_ready, expected);
        for (int32_t j = w.n_modules - 1, i = 0; j >= 0; j--) {
            const struct lw_module *x = &w.modules[j];
            lw_ps begin = end;
            end += x->backward_input_ps + x->backward_weight_ps;
            for (; i < w.n_ready && w.params[w.ready_order[i]].module == j; i++) {
                assert_true(w.params[w.ready_order[i]].ready_ps > begin);
                assert_true(w.params[w.ready_order[i]].ready_ps <= end);
            }
            assert_true(j > 0 || i == w.n_ready);
            assert_true(x->kept_bytes[LW_RECOMPUTE_NONE] >= x->kept_bytes[LW_RECOMPUTE_SELECTIVE]);
            assert_true(x->kept_bytes[LW_RECOMPUTE_FULL] >= 0);
            assert_true(x->selective_ps <= x->forward_ps);
        }
        assert_int_equal(end, lw_workload_backward_ps(&w));
    }
}

/* A block's e s b (6 h + 2 kv + 4 ffn) and flops of its seven products and two of attention. */
MODEL_TEST(llama_blocks_keep_and_compute_by_their_widths)
{
    int64_t b = 3, s = 64, h = 4096, kv = 1024, ffn = 14336, a = 32, n = b * s;
    struct lw_workload w = MODEL("llama-3-8b", .batch = 3, .seq = 64, .layers = 2);
    const struct lw_module *m = &w.modules[1];
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_NONE],
                     2 * n * (6 * h + 2 * kv + 4 * ffn) + 4 * a * n);
    assert_int_equal(m->whole_kept_bytes[LW_RECOMPUTE_NONE], 2 * n * 4 * h);
    assert_int_equal(m->forward_flops,
                     2 * n * (2 * h * h + 2 * h * kv + 3 * h * ffn) + 4 * n * s * h);
    assert_int_equal(m->tp_calls, 2);
}

MODEL_TEST(llama_registers_norms_last_and_readies_them_in_place)
{
    struct lw_workload w = MODEL("llama-7b", .layers = 1);
    assert_string_equal(w.params[0].name, "model.embed_tokens.weight");
    assert_string_equal(w.params[1].name, "model.layers.0.self_attn.q_proj.weight");
    assert_string_equal(w.params[7].name, "model.layers.0.mlp.down_proj.weight");
    assert_string_equal(w.params[8].name, "model.layers.0.input_layernorm.weight");
    assert_string_equal(w.params[9].name, "model.layers.0.post_attention_layernorm.weight");
    assert_string_equal(w.params[11].name, "lm_head.weight");
    const int32_t order[] = {11, 10, 7, 6, 5, 9, 4, 3, 2, 1, 8, 0};
    for (int32_t k = 0; k < 12; k++)
        assert_int_equal(w.ready_order[k], order[k]);
    assert_int_equal(w.params[2].tp_split, LW_TP_COLUMN);
    assert_int_equal(w.params[4].tp_split, LW_TP_ROW);
    assert_int_equal(w.n_buffers, 1);
    assert_int_equal(w.buffers[0].numel, 64); /* half a head of 128 */
}

MODEL_TEST(sizes_that_follow_others_do)
{
    struct lw_workload a = MODEL("llama-7b", .hidden = 5120, .heads = 40);
    struct lw_workload b = MODEL("llama-2-70b", .layers = 1);
    assert_int_equal(a.params[2].numel, INT64_C(5120) * 5120); /* keys: as many heads */
    assert_int_equal(a.params[5].numel, INT64_C(5120) * 13824);
    assert_int_equal(b.params[2].numel, INT64_C(8192) * 1024); /* 8 of 64 heads */
}

/* 1810.04805: as GPT's block, 34 s b h + 5 a s^2 b at 2 bytes. */
MODEL_TEST(bert_blocks_keep_by_the_formula)
{
    int64_t s = 512, b = 8, h = 1024, a = 16;
    struct lw_workload w = MODEL("bert-large", .dtype = "fp16");
    assert_int_equal(w.modules[1].kept_bytes[LW_RECOMPUTE_NONE],
                     34 * s * b * h + 5 * a * s * s * b);
    assert_int_equal(w.modules[1].whole_kept_bytes[LW_RECOMPUTE_NONE], 10 * s * b * h);
    assert_string_equal(w.params[5].name, "encoder.layer.0.attention.self.query.weight");
    assert_string_equal(w.params[w.n_params - 1].name, "pooler.dense.bias");
}

/* The heads of pre-training: four tensors of the last norm, the dense layer, GELU and the second
 * norm, and the last norm's input; two first tokens; scores as f32. */
MODEL_TEST(megatrons_bert_has_its_heads)
{
    int64_t s = 512, b = 4, h = 1024, vocab = 30522, x = 2 * s * b * h;
    struct lw_workload w = MODEL("megatron-bert", .batch = 4);
    const struct lw_module *head = &w.modules[25];
    assert_int_equal(head->whole_kept_bytes[LW_RECOMPUTE_NONE], 5 * x + 2 * 2 * b * h);
    assert_int_equal(head->kept_bytes[LW_RECOMPUTE_NONE],
                     head->whole_kept_bytes[LW_RECOMPUTE_NONE] + 4 * s * b * vocab);
    assert_int_equal(w.modules[1].kept_bytes[LW_RECOMPUTE_NONE],
                     34 * s * b * h + 5 * 16 * s * s * b);
    assert_int_equal(w.modules[0].kept_bytes[LW_RECOMPUTE_NONE], 3 * 8 * s * b + s * b * h);
    assert_string_equal(w.params[3].name, "encoder.layers.0.self_attention.linear_qkv."
                                          "layer_norm_weight");
    assert_string_equal(w.params[w.n_params - 1].name, "binary_head.bias");
    assert_int_equal(w.params[w.n_params - 4].tied, 0);
}

/* torchvision's _ops, in multiply-adds: 17.56, 61.55, 167.29 G; 1.814, 3.664, 7.801, 11.514 G. */
MODEL_TEST(flops_are_torchvisions)
{
    static const struct published ops[] = {
        {"vit-b-16", 17563}, {"vit-l-16", 61554}, {"vit-h-14", 167295}, {"resnet18", 1814},
        {"resnet34", 3663},  {"resnet101", 7801}, {"resnet152", 11513},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        struct lw_workload w = MODEL(ops[k].name, .batch = 1);
        int64_t sum = 0;
        for (int32_t m = 0; m < w.n_modules; m++)
            sum += w.modules[m].forward_flops;
        assert_int_equal(sum / 2 / 1000000, ops[k].count);
    }
}

MODEL_TEST(vit_registers_the_class_token_first)
{
    struct lw_workload w = MODEL("vit-b-16", 0);
    struct lw_device d = model_device();
    struct traces_model_shape odd = {.patch = 15};
    struct lw_err err = {0};
    struct lw_workload none;
    assert_string_equal(w.params[0].name, "class_token");
    assert_string_equal(w.params[1].name, "conv_proj.weight");
    assert_string_equal(w.params[3].name, "encoder.pos_embedding");
    assert_string_equal(w.params[6].name,
                        "encoder.layers.encoder_layer_0.self_attention.in_proj_weight");
    assert_string_equal(w.params[14].name, "encoder.layers.encoder_layer_0.mlp.3.weight");
    assert_int_equal(w.n_params, 152);
    assert_int_equal(traces_model_build("vit-b-16", &odd, &d, &none, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "--patch: found 15, allowed: divisors of the image's side, 224");
}

TEST(failing_allocations_leave_nothing)
{
    model_without_memory("llama-7b", (struct traces_model_shape){.layers = 2});
    model_without_memory("bert-base", (struct traces_model_shape){.layers = 2});
    model_without_memory("vit-b-16", (struct traces_model_shape){.layers = 2});
}
