/* config.json of model_type nemotron_h -> a pattern of layers and their sizes. Names of fields,
 * older names and what a file may leave out are those of NemotronHConfig (huggingface/transformers@
 * 13923c63, src/transformers/models/nemotron_h/configuration_nemotron_h.py). Layers for further
 * tokens (num_nextn_predict_layers) are left out unless --mtp-layers asks for them, and a note says
 * so. */
#include "traces/models/hf_hybrid.h"

#include <stddef.h>
#include <string.h>

#include "traces/models/hf_fields.h"
#include "traces/models/models_ssm.h"

/* --- which mixer a layer has ------------------------------------------------------------------ */

static const struct {
    const char *word;
    char letter;
} mixers[] = {
    {"mamba", 'M'}, {"linear_attention", 'M'}, {"attention", '*'}, {"full_attention", '*'},
    {"mlp", '-'}, {"moe", 'E'},
};

static char letter_of(const struct lw_value *v)
{
    for (size_t k = 0; v->type == LW_JSON_STRING && k < sizeof mixers / sizeof *mixers; k++)
        if (strcmp(v->text, mixers[k].word) == 0)
            return mixers[k].letter;
    return '\0';
}

static enum lw_status read_list(const struct lw_input *in, const char *key,
                                const struct lw_value *list, char *to, struct lw_err *err)
{
    char found[64];

    if (list->n >= LW_MODEL_LAYERS_SIZE)
        return lw_fail(err, LW_ENOTSUP, "%s: %s: found %d layers, allowed: at most %d", in->name,
                       key, list->n, LW_MODEL_LAYERS_SIZE - 1);
    for (int32_t k = 0; k < list->n; k++) {
        to[k] = letter_of(&list->items[k]);
        if (!to[k])
            return lw_fail(err, LW_ENOTSUP,
                           "%s: %s: layer %d is %s, allowed: \"mamba\" or \"linear_attention\", "
                           "\"attention\" or \"full_attention\", \"mlp\", \"moe\"", in->name, key,
                           k, traces_hf_written(&list->items[k], found, sizeof found));
    }
    to[list->n] = '\0';
    return LW_OK;
}

/* The letters of `text_key`, or the words of a list; "" where the file has neither. */
static enum lw_status read_layers(const struct lw_input *in, const struct lw_value *v,
                                  const char *text_key, const char *const list_keys[2], char *to,
                                  struct lw_err *err)
{
    const struct lw_value *text = lw_value_get(v, text_key), *list;

    to[0] = '\0';
    for (int k = 0; k < 2; k++) {
        LW_TRY(traces_hf_items(in, v, list_keys[k], LW_JSON_ARRAY, &list, err));
        if (list)
            return read_list(in, list_keys[k], list, to, err);
    }
    if (!text || text->type == LW_JSON_NULL)
        return LW_OK;
    if (text->type != LW_JSON_STRING)
        return lw_fail(err, LW_EFORMAT, "%s: %s: expected a string of M, *, - and E", in->name,
                       text_key);
    return lw_err_context(err, lw_model_layers(text->text, to, err), "%s: %s", in->name, text_key);
}

/* An option's pattern, else the file's, of which --layers takes the first letters. */
static enum lw_status take_pattern(const struct lw_input *in, const struct lw_value *v,
                                   const struct traces_model_shape *given,
                                   struct traces_model_shape *s, struct lw_err *err)
{
    static const char *const keys[] = {"layers_block_type", "layer_types"};
    char pattern[LW_MODEL_LAYERS_SIZE];
    int64_t stated;

    LW_TRY(read_layers(in, v, "hybrid_override_pattern", keys, pattern, err));
    LW_TRY(traces_hf_number(in, v, "num_hidden_layers", 1, &stated, err));
    int64_t n = (int64_t)strlen(pattern);
    if (given->layer_pattern[0]) {
        s->layers = given->layers;
        return LW_OK;
    }
    if (n == 0)
        return lw_fail(err, LW_EFORMAT, "%s: no 'hybrid_override_pattern' and no "
                       "'layers_block_type': which mixer each layer has is not known; give "
                       "--layer-pattern", in->name);
    if (stated > 0 && stated != n)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: num_hidden_layers: found %lld, allowed: %lld, the layers that the file "
                       "names", in->name, (long long)stated, (long long)n);
    s->layers = given->layers ? given->layers : n;
    if (s->layers < n)
        pattern[s->layers] = '\0';
    memcpy(s->layer_pattern, pattern, sizeof s->layer_pattern);
    return LW_OK;
}

/* --- sizes ------------------------------------------------------------------------------------ */

#define AT(field) offsetof(struct traces_model_shape, field)
static const struct {
    const char *keys[2]; /* as files have it, and as older ones do */
    size_t at;
    int64_t absent;
} sizes[] = {
    {{"mamba_num_heads"}, AT(ssm_heads), 128},
    {{"mamba_head_dim"}, AT(ssm_head_width), 64},
    {{"ssm_state_size"}, AT(ssm_state), 128},
    {{"n_groups", "mamba_n_groups"}, AT(ssm_groups), 8},
    {{"chunk_size", "mamba_chunk_size"}, AT(ssm_chunk), 128},
    {{"head_dim", "attention_head_dim"}, AT(head_width), 128},
    {{"num_key_value_heads"}, AT(kv_heads), 8},
    {{"moe_latent_size"}, AT(expert_latent), 0},
    {{"moe_shared_expert_intermediate_size"}, AT(shared_ffn), 0},
};
#undef AT

static enum lw_status take_sizes(const struct lw_input *in, const struct lw_value *v,
                                 const struct traces_model_shape *given,
                                 struct traces_model_shape *s, struct lw_err *err)
{
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t option = *(const int64_t *)((const char *)given + sizes[k].at), found = 0;
        for (int i = 0; i < 2 && sizes[k].keys[i] && found == 0; i++)
            LW_TRY(traces_hf_number(in, v, sizes[k].keys[i], 1, &found, err));
        found = option ? option : found ? found : sizes[k].absent;
        *(int64_t *)((char *)s + sizes[k].at) = found;
    }
    return LW_OK;
}

/* Sizes of layers that the file does not have. */
static void leave_unused(const struct traces_model_shape *given, struct traces_model_shape *s)
{
    const char *pattern = s->layer_pattern;

    s->ffn = strchr(pattern, '-') ? s->ffn : given->ffn;
    if (strchr(pattern, 'M'))
        return;
    s->ssm_heads = given->ssm_heads;
    s->ssm_head_width = given->ssm_head_width;
    s->ssm_groups = given->ssm_groups;
    s->ssm_state = given->ssm_state;
    s->ssm_chunk = given->ssm_chunk;
}

/* --- what layers here have in one way --------------------------------------------------------- */

static enum lw_status check_flags(const struct lw_input *in, const struct lw_value *v,
                                  struct lw_err *err)
{
    static const struct {
        const char *key;
        bool needed;
    } flags[] = {
        {"use_bias", false}, {"mamba_proj_bias", false}, {"residual_in_fp32", false},
        {"use_conv_bias", true}, {"mamba_conv_bias", true},
    };
    bool found;

    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
        LW_TRY(traces_hf_flag(in, v, flags[k].key, flags[k].needed, &found, err));
        if (found != flags[k].needed)
            return lw_fail(err, LW_ENOTSUP,
                           "%s: %s: found %s, allowed: %s (model_type nemotron_h has no other form "
                           "here); import a recording of it (lapwing import)", in->name,
                           flags[k].key, found ? "true" : "false", found ? "false" : "true");
    }
    return LW_OK;
}

static enum lw_status check_forms(const struct lw_input *in, const struct lw_value *v,
                                  struct lw_err *err)
{
    static const char *const conv[] = {"conv_kernel", "mamba_d_conv"};
    const struct lw_value *act = lw_value_get(v, "mlp_hidden_act");
    int64_t width;
    char found[64];

    LW_TRY(check_flags(in, v, err));
    for (size_t k = 0; k < sizeof conv / sizeof *conv; k++) {
        LW_TRY(traces_hf_number(in, v, conv[k], 1, &width, err));
        if (width > 0 && width != TRACES_SSM_CONV)
            return lw_fail(err, LW_ENOTSUP, "%s: %s: found %lld, allowed: %d", in->name, conv[k],
                           (long long)width, TRACES_SSM_CONV);
    }
    if (act && act->type != LW_JSON_NULL &&
        (act->type != LW_JSON_STRING || strcmp(act->text, "relu2") != 0))
        return lw_fail(err, LW_ENOTSUP, "%s: mlp_hidden_act: found %s, allowed: \"relu2\"",
                       in->name, traces_hf_written(act, found, sizeof found));
    return LW_OK;
}

/* Passes for further tokens are of one attention and one layer of experts. */
static enum lw_status take_further(const struct lw_input *in, const struct lw_value *v,
                                   const struct traces_model_shape *given,
                                   struct traces_model_shape *s, struct lw_err *err)
{
    static const char *const keys[] = {"mtp_layers_block_type", "mtp_layer_types"};
    char pattern[LW_MODEL_LAYERS_SIZE];

    LW_TRY(traces_hf_number(in, v, "num_nextn_predict_layers", 0, &s->mtp_stated, err));
    if (given->mtp_layers == 0)
        return LW_OK;
    LW_TRY(read_layers(in, v, "mtp_hybrid_override_pattern", keys, pattern, err));
    if (pattern[0] && strcmp(pattern, "*E") != 0)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: layers for further tokens are %.20s, allowed: *E; leave --mtp-layers "
                       "out", in->name, pattern);
    return LW_OK;
}

enum lw_status traces_hf_hybrid(const struct lw_input *in, const struct lw_value *v,
                                const struct traces_model_shape *given,
                                struct traces_model_shape *s, struct lw_err *err)
{
    LW_TRY(take_pattern(in, v, given, s, err));
    LW_TRY(take_sizes(in, v, given, s, err));
    LW_TRY(check_forms(in, v, err));
    leave_unused(given, s);
    return take_further(in, v, given, s, err);
}
