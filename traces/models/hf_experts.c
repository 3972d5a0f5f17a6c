/* Fields of config.json that models with experts need. transformers has a size for each field that
 * a file leaves out (huggingface/transformers@008e5743, OlmoeConfig: 64 experts, Qwen2MoeConfig: 60
 * and a shared one of 5632), that of one published model; files of other sizes state theirs, so an
 * absent field is refused here. null is as absent. 0 experts are a model without any where the
 * model's code says so (@00d4b3d2, models/qwen3_moe/modeling_qwen3_moe.py, Qwen3MoeDecoderLayer:
 * experts where num_experts > 0). */
#include "traces/models/hf_experts.h"

#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(struct traces_model_shape, field)
#define DEEPSEEK(type)                                                                             \
    {type, "n_routed_experts", "experts", AT(experts), false},                                     \
    {type, "n_shared_experts", "shared-ffn", AT(shared_ffn), true},                                \
    {type, "first_k_dense_replace", "dense-layers", AT(dense_layers), true}
static const struct need {
    const char *type, *key, *option; /* option: stands in for the field */
    size_t at;
    bool none; /* 0 is a number of them */
} needs[] = {
    {"mixtral", "num_local_experts", "experts", AT(experts), false},
    {"gpt_oss", "num_local_experts", "experts", AT(experts), false},
    {"llama4_text", "num_local_experts", "experts", AT(experts), false},
    {"olmoe", "num_experts", "experts", AT(experts), false},
    {"qwen2_moe", "num_experts", "experts", AT(experts), true},
    {"qwen2_moe", "shared_expert_intermediate_size", "shared-ffn", AT(shared_ffn), false},
    {"qwen3_moe", "num_experts", "experts", AT(experts), true},
    {"qwen3_next", "num_experts", "experts", AT(experts), true},
    {"qwen3_next", "shared_expert_intermediate_size", "shared-ffn", AT(shared_ffn), false},
    {"qwen3_5_moe_text", "num_experts", "experts", AT(experts), false},
    {"qwen3_5_moe_text", "shared_expert_intermediate_size", "shared-ffn", AT(shared_ffn), false},
    DEEPSEEK("deepseek_v2"),
    DEEPSEEK("deepseek_v3"),
    DEEPSEEK("kimi_k2"),
    DEEPSEEK("glm4_moe"),
    {"glm4_moe_lite", "n_routed_experts", "experts", AT(experts), false},
    {"glm4_moe_lite", "n_shared_experts", "shared-ffn", AT(shared_ffn), true},
    {"minimax_m2", "num_local_experts", "experts", AT(experts), false},
    {"qwen3_vl_moe_text", "num_experts", "experts", AT(experts), true},
    {"ernie4_5_moe", "moe_num_experts", "experts", AT(experts), false},
    {"ernie4_5_moe", "moe_num_shared_experts", "shared-ffn", AT(shared_ffn), true},
    {"ernie4_5_moe", "moe_layer_start_index", "dense-layers", AT(dense_layers), true},
};
#undef DEEPSEEK

static int64_t size_at(const struct traces_model_shape *s, size_t at)
{
    return *(const int64_t *)(const void *)((const char *)s + at);
}

static enum lw_status check_need(const struct lw_input *in, const struct lw_value *v,
                                 const struct need *n, const struct traces_model_shape *given,
                                 const struct traces_model_shape *s, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(v, n->key);

    if (size_at(given, n->at) > 0 || size_at(s, n->at) > 0)
        return LW_OK;
    if (!f || f->type == LW_JSON_NULL)
        return lw_fail(err, LW_EFORMAT,
                       "%s: no '%s', which model_type %s needs: add it, or give --%s", in->name,
                       n->key, n->type, n->option);
    if (!n->none)
        return lw_fail(err, LW_EFORMAT, "%s: %s: found 0, expected 1 or more (model_type %s); "
                       "or give --%s", in->name, n->key, n->type, n->option);
    return LW_OK;
}

/* Llama 4: width of blocks without experts, where there are some. */
static enum lw_status check_dense(const struct lw_input *in, const struct lw_value *v,
                                  const char *type, const struct traces_model_shape *given,
                                  const struct traces_model_shape *s, struct lw_err *err)
{
    const struct need dense = {type, "intermediate_size_mlp", "ffn", AT(ffn), true};
    const struct traces_model_shape none = {.layers = 0};

    if (strcmp(type, "llama4_text") != 0 || s->expert_every < 2)
        return LW_OK;
    return check_need(in, v, &dense, given, &none, err);
}
#undef AT

enum lw_status traces_hf_experts(const struct lw_input *in, const struct lw_value *v,
                                 const char *type, const struct traces_model_shape *given,
                                 const struct traces_model_shape *s, struct lw_err *err)
{
    for (size_t k = 0; k < sizeof needs / sizeof *needs; k++) {
        bool experts = needs[k].at == offsetof(struct traces_model_shape, experts);
        if (strcmp(needs[k].type, type) == 0 && (experts || s->experts > 0))
            LW_TRY(check_need(in, v, &needs[k], given, s, err));
    }
    return check_dense(in, v, type, given, s, err);
}
