/* Decoders of config.json that differ from Llama's in their parameters or norms, one function a
 * type (huggingface/transformers@000c33fd, models/olmo2/modeling_olmo2.py; @008f5c8c, models/gemma3
 * and phi3; @008e5743, models/olmoe, qwen2_moe and starcoder2; 5.24.0, models/olmo3, seed_oss,
 * ernie4_5, ernie4_5_moe, minimax_m2, glm4_moe_lite, ministral3, arcee and nemotron). */
#include "traces/models/hf_decoders.h"

#include <stddef.h>
#include <string.h>

#include "traces/models/hf_fields.h"
#include "traces/models/hf_linear.h"

struct file {
    const struct lw_input *in;
    const struct lw_value *v;
    const char *type;
    const struct traces_model_shape *given; /* options */
};

/* A field that is null or absent in all that is modelled. */
static enum lw_status need_null(const struct file *f, const char *key, const char *why,
                                struct lw_err *err)
{
    const struct lw_value *v = lw_value_get(f->v, key);
    char found[64];

    if (!v || v->type == LW_JSON_NULL)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP, "%s: %s: found %s, allowed: null (%s not modelled)",
                   f->in->name, key, traces_hf_written(v, found, sizeof found), why);
}

static enum lw_status need(const struct file *f, const char *key, bool value, struct lw_err *err)
{
    return traces_hf_need_flag(f->in, f->v, f->type, key, value, value, err);
}

static void take_head(int64_t width, struct traces_model_shape *s)
{
    s->head_width = s->head_width ? s->head_width : width;
}

/* partial_rotary_factor of the file, or of its rope_parameters. */
static enum lw_status take_rotation(const struct file *f, double otherwise,
                                    struct traces_model_shape *s, struct lw_err *err)
{
    static const char KEY[] = "partial_rotary_factor";
    const struct lw_value *rope;

    LW_TRY(traces_hf_items(f->in, f->v, "rope_parameters", LW_JSON_OBJECT, &rope, err));
    rope = rope && lw_value_get(rope, KEY) ? rope : f->v;
    LW_TRY(traces_hf_rotation(f->in, rope, KEY, otherwise, s, err));
    s->rope_width = f->given->rope_width ? f->given->rope_width : s->rope_width;
    return LW_OK;
}

static enum lw_status gemma(const struct file *f, struct traces_model_shape *s, struct lw_err *err)
{
    static const char CAPPED[] = "capped scores are";
    enum { HEAD = 256 };

    LW_TRY(need_null(f, "attn_logit_softcapping", CAPPED, err));
    LW_TRY(need_null(f, "final_logit_softcapping", CAPPED, err));
    take_head(HEAD, s);
    s->norms_after = strcmp(f->type, "gemma3_text") == 0;
    return LW_OK;
}

static enum lw_status olmo2(const struct file *f, struct traces_model_shape *s, struct lw_err *err)
{
    (void)f;
    (void)err;
    s->norms_after = s->no_norms_before = s->qk_norm_wide = true;
    return LW_OK;
}

static enum lw_status olmoe(const struct file *f, struct traces_model_shape *s, struct lw_err *err)
{
    s->qk_norm_wide = true;
    return need_null(f, "clip_qkv", "clipped queries are", err);
}

/* A shared expert of its own width, whose result a gate weighs. */
static enum lw_status qwen2_moe(const struct file *f, struct traces_model_shape *s,
                                struct lw_err *err)
{
    int64_t width;

    LW_TRY(need(f, "use_sliding_window", false, err));
    LW_TRY(traces_hf_flag(f->in, f->v, "qkv_bias", true, &s->qkv_bias, err));
    LW_TRY(traces_hf_number(f->in, f->v, "shared_expert_intermediate_size", 1, &width, err));
    s->shared_ffn = f->given->shared_ffn ? f->given->shared_ffn : s->experts > 0 ? width : 0;
    s->shared_gate = s->shared_ffn > 0;
    return LW_OK;
}

static enum lw_status phi3(const struct file *f, struct traces_model_shape *s, struct lw_err *err)
{
    s->joined = true;
    return take_rotation(f, 1, s, err);
}

static enum lw_status starcoder2(const struct file *f, struct traces_model_shape *s,
                                 struct lw_err *err)
{
    s->layer_norm = s->biases = s->plain_ffn = true;
    return need(f, "use_bias", true, err);
}

static enum lw_status linear(const struct file *f, struct traces_model_shape *s,
                             struct lw_err *err)
{
    LW_TRY(traces_hf_linear(f->in, f->v, f->type, f->given, s, err));
    LW_TRY(take_rotation(f, 0.25, s, err));
    return need(f, "attn_output_gate", true, err);
}

static enum lw_status seed_oss(const struct file *f, struct traces_model_shape *s,
                               struct lw_err *err)
{
    take_head(128, s);
    LW_TRY(need(f, "attention_out_bias", false, err));
    return traces_hf_flag(f->in, f->v, "attention_bias", true, &s->qkv_bias, err);
}

static enum lw_status ministral3(const struct file *f, struct traces_model_shape *s,
                                 struct lw_err *err)
{
    (void)f;
    (void)err;
    take_head(128, s);
    return LW_OK;
}

static enum lw_status ernie(const struct file *f, struct traces_model_shape *s, struct lw_err *err)
{
    take_head(128, s);
    return need(f, "use_bias", false, err);
}

/* The experts' blocks are from moe_layer_start_index on, to the last; the shared experts are one
 * pair. */
static enum lw_status ernie_moe(const struct file *f, struct traces_model_shape *s,
                                struct lw_err *err)
{
    const struct lw_value *last = lw_value_get(f->v, "moe_layer_end_index");
    int64_t end = s->layers - 1, shared = 0, stated = 0;

    LW_TRY(need(f, "use_bias", false, err));
    LW_TRY(traces_hf_number(f->in, f->v, "moe_num_shared_experts", 0, &shared, err));
    LW_TRY(traces_hf_number(f->in, f->v, "num_hidden_layers", 1, &stated, err));
    if (last && last->type != LW_JSON_NULL)
        LW_TRY(traces_hf_number(f->in, f->v, "moe_layer_end_index", -1, &end, err));
    if (end >= 0 && end != s->layers - 1 && end != stated - 1)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: moe_layer_end_index: found %lld, allowed: the last block, %lld",
                       f->in->name, (long long)end, (long long)stated - 1);
    s->shared_ffn = f->given->shared_ffn ? f->given->shared_ffn : shared * s->expert_ffn;
    return LW_OK;
}

static enum lw_status minimax_m2(const struct file *f, struct traces_model_shape *s,
                                 struct lw_err *err)
{
    int64_t rotated;

    take_head(128, s);
    s->qk_norm_wide = true;
    LW_TRY(need(f, "use_qk_norm", true, err));
    LW_TRY(take_rotation(f, 1, s, err));
    LW_TRY(traces_hf_number(f->in, f->v, "rotary_dim", 1, &rotated, err));
    if (rotated > 0 && f->given->rope_width == 0)
        s->rope_width = rotated;
    return LW_OK;
}

/* mlp_layer_types: "dense" of the first blocks, then "sparse"; one dense block where the file says
 * nothing. */
static enum lw_status glm4_moe_lite(const struct file *f, struct traces_model_shape *s,
                                    struct lw_err *err)
{
    const struct lw_value *list;
    int64_t dense = 0;

    LW_TRY(traces_hf_items(f->in, f->v, "mlp_layer_types", LW_JSON_ARRAY, &list, err));
    for (int32_t k = 0; list && k < list->n; k++) {
        const struct lw_value *word = &list->items[k];
        bool is_dense = word->type == LW_JSON_STRING && strcmp(word->text, "dense") == 0;
        bool sparse = word->type == LW_JSON_STRING && strcmp(word->text, "sparse") == 0;
        if ((!is_dense && !sparse) || (is_dense && dense < k))
            return lw_fail(err, LW_ENOTSUP,
                           "%s: mlp_layer_types: block %d: allowed are \"dense\" at the beginning, "
                           "then \"sparse\"", f->in->name, k);
        dense += is_dense;
    }
    if (f->given->dense_layers == 0 && (list || !lw_value_get(f->v, "first_k_dense_replace")))
        s->dense_layers = list ? dense : 1;
    return LW_OK;
}

static enum lw_status arcee(const struct file *f, struct traces_model_shape *s, struct lw_err *err)
{
    (void)f;
    (void)err;
    s->plain_ffn = true;
    return LW_OK;
}

static enum lw_status nemotron(const struct file *f, struct traces_model_shape *s,
                               struct lw_err *err)
{
    s->plain_ffn = s->layer_norm = true;
    return take_rotation(f, 0.5, s, err);
}

static const struct {
    const char *type;
    enum lw_status (*complete)(const struct file *f, struct traces_model_shape *s,
                               struct lw_err *err);
} decoders[] = {
    {"gemma", gemma},           {"gemma3_text", gemma},
    {"olmo2", olmo2},           {"olmo3", olmo2},
    {"olmoe", olmoe},           {"qwen2_moe", qwen2_moe},
    {"phi3", phi3},             {"starcoder2", starcoder2},
    {"qwen3_next", linear},     {"qwen3_5_text", linear},
    {"qwen3_5_moe_text", linear}, {"seed_oss", seed_oss},
    {"ministral3", ministral3}, {"ernie4_5", ernie},
    {"ernie4_5_moe", ernie_moe}, {"minimax_m2", minimax_m2},
    {"glm4_moe_lite", glm4_moe_lite}, {"arcee", arcee},
    {"nemotron", nemotron},
};

enum lw_status traces_hf_decoder(const struct lw_input *in, const struct lw_value *v,
                                 const char *type, const struct traces_model_shape *given,
                                 struct traces_model_shape *s, struct lw_err *err)
{
    const struct file f = {in, v, type, given};

    for (size_t k = 0; k < sizeof decoders / sizeof *decoders; k++)
        if (strcmp(decoders[k].type, type) == 0)
            return decoders[k].complete(&f, s, err);
    return LW_OK;
}
