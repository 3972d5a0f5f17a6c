/* Options of hybrids with state-space layers: which they share with the llama family, which are
 * theirs alone, and the pattern of layers that a model has after all options. */
#include "traces/models/hybrid_options.h"

#include <stddef.h>
#include <string.h>

#include "traces/models/models_transformer.h"

#define OF(field) offsetof(struct traces_model_shape, field), \
    sizeof(((struct traces_model_shape *)NULL)->field)
/* What only hybrids with state-space layers compute. */
static const struct {
    const char *option;
    size_t at, size;
} options[] = {
    {"layer-pattern", offsetof(struct traces_model_shape, layer_pattern), 1}, /* its first letter */
    {"ssm-heads", OF(ssm_heads)},
    {"ssm-head-width", OF(ssm_head_width)},
    {"ssm-groups", OF(ssm_groups)},
    {"ssm-state", OF(ssm_state)},
    {"ssm-chunk", OF(ssm_chunk)},
    {"expert-latent", OF(expert_latent)},
};
#undef OF

/* But what their layers do not have. */
bool hybrid_takes(const char *option)
{
    static const char *const others[] = {"dense-layers", "lora", "kv-lora", "q-lora", "rope-width",
                                         "v-width", "qk-norm"};

    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (strcmp(others[k], option) == 0)
            return false;
    return true;
}

enum lw_status hybrid_check_options(const struct traces_model *m,
                                    const struct traces_model_shape *given, struct lw_err *err)
{
    if (m->build == hybrid_build)
        return LW_OK;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        if (traces_shape_is_given(given, options[k].at, options[k].size))
            return lw_fail(err, LW_EINVAL,
                           "--%s does not apply to model %s; hybrids with state-space layers take "
                           "it (nemotron-h-8b, nemotron-3-nano, ...)",
                           options[k].option, m->name);
    return LW_OK;
}

static bool names_experts(const struct traces_model_shape *given)
{
    return given->experts || given->topk || given->expert_ffn || given->shared_ffn ||
           given->expert_latent || given->mtp_layers;
}

enum lw_status hybrid_take_layers(const struct traces_model *m,
                                  const struct traces_model_shape *given,
                                  struct traces_model_shape *out, struct lw_err *err)
{
    const char *own = m->defaults.layer_pattern;

    if (m->build != hybrid_build)
        return LW_OK;
    if (!given->layer_pattern[0]) {
        memcpy(out->layer_pattern, own, sizeof out->layer_pattern);
        if (out->layers < (int64_t)strlen(own))
            out->layer_pattern[out->layers] = '\0';
    } else if (!given->layers) {
        out->layers = (int64_t)strlen(given->layer_pattern);
    }
    if (!strchr(out->layer_pattern, 'E') && !names_experts(given))
        out->experts = out->topk = out->expert_ffn = out->shared_ffn = out->expert_latent = 0;
    if (!strchr(out->layer_pattern, 'M')) {
        out->ssm_heads = given->ssm_heads;
        out->ssm_head_width = given->ssm_head_width;
        out->ssm_groups = given->ssm_groups;
        out->ssm_state = given->ssm_state;
        out->ssm_chunk = given->ssm_chunk;
    }
    if (given->ffn && !strchr(out->layer_pattern, '-'))
        return lw_fail(err, LW_EINVAL, "--ffn: no layer of the pattern is -; give a "
                                       "--layer-pattern with -, or leave --ffn out");
    return LW_OK;
}
