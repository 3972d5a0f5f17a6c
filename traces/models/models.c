/* Parametric models: the tables of the families, and a shape's way from options to a builder. */
#include "shared/base/nearest.h"
#include "shared/device/device_kind.h"
#include "shared/device/device_time.h"
#include "traces/models/hybrid_options.h"
#include "traces/models/models_transformer.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct traces_model *const families[] = {
    traces_models_mlp,
    traces_models_resnet,
    traces_models_gpt,
    traces_models_llama,
    traces_models_experts,
    traces_models_hybrid,
    traces_models_parallel,
    traces_models_bert,
    traces_models_megatron_bert,
    traces_models_t5,
    traces_models_vit,
};

const struct traces_model *traces_model_at(int k)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const struct traces_model *m = families[f]; m->name; m++)
            if (k-- == 0)
                return m;
    return NULL;
}

/* Names of models that differ from a known one in nothing that costs time or memory: weights,
 * or constants of the rotation. */
static const struct {
    const char *name, *known;
} same_sizes[] = {
    {"llama-3.1-8b", "llama-3-8b"},     {"llama-3.1-70b", "llama-3-70b"},
    {"llama-3.3-70b", "llama-3-70b"},   {"llama-3.1-405b", "llama-3-405b"},
    {"deepseek-r1", "deepseek-v3"},     {"deepseek-v3.1", "deepseek-v3"},
    {"nemotron-3-nano-30b-a3b", "nemotron-3-nano"},
    {"nemotron-3-super-120b-a12b", "nemotron-3-super"},
    {"nemotron-3-ultra-550b-a55b", "nemotron-3-ultra"},
    {"nvidia-nemotron-3-nano-30b-a3b-bf16", "nemotron-3-nano"},
    {"nvidia-nemotron-3-super-120b-a12b-bf16", "nemotron-3-super"},
    {"nvidia-nemotron-3-ultra-550b-a55b-bf16", "nemotron-3-ultra"},
    {"nvidia-nemotron-nano-9b-v2", "nemotron-nano-9b-v2"},
    {"nvidia-nemotron-nano-12b-v2", "nemotron-nano-12b-v2"},
    {"nemotron-h-8b-base-8k", "nemotron-h-8b"}, {"nemotron-h-47b-base-8k", "nemotron-h-47b"},
    {"nemotron-h-56b-base-8k", "nemotron-h-56b"},
};

static int next_of_name(const char **at)
{
    while (**at && !isalnum((unsigned char)**at) && **at != '.')
        ++*at;
    return **at ? tolower((unsigned char)*(*at)++) : '\0';
}

static bool same_name(const char *a, const char *b)
{
    for (int c; (c = next_of_name(&a)) == next_of_name(&b);)
        if (!c)
            return true;
    return false;
}

const struct traces_model *traces_model_named(const char *name)
{
    const struct traces_model *m;

    if (strchr(name, '/')) /* of a file */
        return NULL;
    for (size_t i = 0; i < sizeof same_sizes / sizeof *same_sizes; i++)
        if (same_name(same_sizes[i].name, name))
            name = same_sizes[i].known;
    for (int k = 0; (m = traces_model_at(k)) != NULL; k++)
        if (same_name(m->name, name))
            return m;
    return NULL;
}

/* The last part of "meta-llama/Llama-3.1-8B", of which a model may have the name. */
static const char *known_after_slash(const char *name)
{
    const char *slash = strrchr(name, '/');
    const struct traces_model *m = slash ? traces_model_named(slash + 1) : NULL;

    return m ? m->name : NULL;
}

enum lw_status traces_model_unknown(const char *name, struct lw_err *err)
{
    char hint[96];
    const struct traces_model *m;
    struct lw_nearest near = lw_nearest_begin(name);

    for (int k = 0; (m = traces_model_at(k)) != NULL; k++)
        lw_nearest_try(&near, m->name);
    const char *known = known_after_slash(name);
    near.best = known ? known : near.best;
    return lw_fail(err, LW_EINVAL, "no model '%s'%s; `lapwing model --list` lists them", name,
                   lw_nearest_hint(&near, "", hint, sizeof hint));
}

static const struct traces_model *find_model(const char *name, struct lw_err *err)
{
    const struct traces_model *m = traces_model_named(name);

    if (!m)
        traces_model_unknown(name, err);
    return m;
}

struct lw_device traces_no_device(void)
{
    const struct lw_figure one = {1e15, "any"};
    struct lw_device d = {.kind = "", .gemm_efficiency = {1, "any"}, .memory_bytes_per_s = one,
                          .tf32_peak_flops = one};

    for (int t = 0; t < LW_N_DTYPES; t++)
        d.peak_flops[t] = one;
    return d;
}

#define AT(field) offsetof(struct traces_model_shape, field)
/* The ranges are those of the options. Sizes without one are of a configuration. `needed`: an
 * option that a model without the size does not take. */
static const struct {
    size_t at;
    const char *option;
    bool needed;
} sizes[] = {
    {AT(batch), "batch", true},      {AT(layers), "layers", true},
    {AT(width), "width", true},      {AT(image), "image", true},
    {AT(patch), "patch", true},      {AT(hidden), "hidden", true},
    {AT(heads), "heads", true},      {AT(kv_heads), "kv-heads", true},
    {AT(ffn), "ffn", true},          {AT(seq), "seq", true},
    {AT(vocab), "vocab", true},      {AT(experts), "experts", false},
    {AT(decoder_seq), "decoder-seq", true},
    {AT(topk), "topk", false},       {AT(expert_ffn), "expert-ffn", false},
    {AT(shared_ffn), "shared-ffn", false}, {AT(dense_layers), "dense-layers", false},
    {AT(mtp_layers), "mtp-layers", false}, {AT(head_width), "head-width", false},
    {AT(positions), "positions", false},
    {AT(window), NULL, false},       {AT(window_every), NULL, false},
    {AT(q_lora), "q-lora", false},   {AT(kv_lora), "kv-lora", false},
    {AT(rope_width), "rope-width", false}, {AT(v_width), "v-width", false},
    {AT(expert_every), NULL, false},
    {AT(expert_groups), NULL, false}, {AT(topk_groups), NULL, false},
    {AT(linear_every), NULL, false},       {AT(linear_heads), NULL, false},
    {AT(linear_key_heads), NULL, false},   {AT(linear_width), NULL, false},
    {AT(linear_key_width), NULL, false},
    {AT(ssm_heads), "ssm-heads", false},   {AT(ssm_head_width), "ssm-head-width", false},
    {AT(ssm_groups), "ssm-groups", false}, {AT(ssm_state), "ssm-state", false},
    {AT(ssm_chunk), "ssm-chunk", false},   {AT(expert_latent), "expert-latent", false},
};

static const size_t flags[] = {
    AT(plain_ffn), AT(tied), AT(qk_norm), AT(qkv_bias),
    AT(qk_norm_wide), AT(norms_after), AT(no_norms_before), AT(joined), AT(shared_gate),
    AT(expert_bias), AT(alibi), AT(embedding_norm), AT(no_bias), AT(layer_norm), AT(biases),
    AT(dropout), AT(fused_loss), AT(deterministic), AT(expert_serial), AT(expert_gathered),
    AT(fused_permute), AT(f32_softmax), AT(linear_split), AT(attention_gate),
};

static const struct {
    const char *option;
    size_t at;
} choices[] = {
    {"dtype", AT(dtype)}, {"attention", AT(attention)}, {"optimizer", AT(optimizer)},
};

#define OF_EXPERTS(field) AT(field), sizeof(((struct traces_model_shape *)NULL)->field), true
#define OF_FAMILY(field) AT(field), sizeof(((struct traces_model_shape *)NULL)->field), false
/* What only the llama family computes; of_experts: of blocks that have experts. */
static const struct {
    const char *option;
    size_t at, size;
    bool of_experts;
} llama_options[] = {
    {"experts", OF_FAMILY(experts)},
    {"topk", OF_EXPERTS(topk)},
    {"expert-ffn", OF_EXPERTS(expert_ffn)},
    {"shared-ffn", OF_EXPERTS(shared_ffn)},
    {"dense-layers", OF_EXPERTS(dense_layers)},
    {"expert-capacity", OF_EXPERTS(expert_capacity)},
    {"whole-experts", OF_EXPERTS(expert_whole)},
    {"experts-in-turn", OF_EXPERTS(experts_in_turn)},
    {"mtp-layers", OF_FAMILY(mtp_layers)},
    {"tied", OF_FAMILY(tied)},
    {"lora", OF_FAMILY(lora)},
    {"head-width", OF_FAMILY(head_width)},
    {"kv-lora", OF_FAMILY(kv_lora)},
    {"q-lora", OF_FAMILY(q_lora)},
    {"rope-width", OF_FAMILY(rope_width)},
    {"v-width", OF_FAMILY(v_width)},
    {"positions", OF_FAMILY(positions)},
    {"serial-experts", OF_EXPERTS(expert_serial)},
    {"gathered-experts", OF_EXPERTS(expert_gathered)},
    {"fused-permute", OF_EXPERTS(fused_permute)},
    {"plain-ffn", OF_FAMILY(plain_ffn)},
    {"layer-norm", OF_FAMILY(layer_norm)},
    {"qk-norm", OF_FAMILY(qk_norm)},
    {"biases", OF_FAMILY(biases)},
    {"dropout", OF_FAMILY(dropout)},
};
#undef OF_EXPERTS
#undef OF_FAMILY

bool traces_shape_is_given(const struct traces_model_shape *s, size_t at, size_t size)
{
    static const char absent[sizeof(int64_t)];

    return memcmp((const char *)s + at, absent, size) != 0;
}

#define OF(field) AT(field), sizeof(((struct traces_model_shape *)NULL)->field)
/* What only a transformer computes, or one whose loss is over a vocabulary. */
static const struct {
    const char *option;
    size_t at, size;
    bool of_loss;
} transformer_options[] = {
    {"autocast", OF(autocast), true},
    {"fused-loss", OF(fused_loss), true},
    {"head-waits", OF(head_waits), true},
    {"f32-softmax", OF(f32_softmax), false},
    {"deterministic", OF(deterministic), false},
};
#undef OF
#undef AT

static bool takes_llama_option(const struct traces_model *m, const char *option)
{
    if (m->build == hybrid_build)
        return hybrid_takes(option);
    bool parallel = m->build == parallel_build;
    bool table = m->defaults.vocab > 0 && !m->defaults.alibi && !parallel; /* gpt, bert */
    bool tied = m->defaults.tied || parallel;

    return m->build == llama_build || (tied && strcmp(option, "tied") == 0) ||
           (table && strcmp(option, "positions") == 0) ||
           (parallel && strcmp(option, "rope-width") == 0); /* of configurations */
}

static enum lw_status check_transformer(const struct traces_model *m,
                                        const struct traces_model_shape *given, struct lw_err *err)
{
    bool convolutions = m->build == traces_models_resnet[0].build;
    bool has_loss = m->build == llama_build || m->build == parallel_build ||
                    m->build == hybrid_build || m->defaults.decoder_seq > 0 ||
                    m->build == traces_models_gpt[0].build;

    for (size_t k = 0; k < sizeof transformer_options / sizeof *transformer_options; k++) {
        const char *option = transformer_options[k].option;
        if (!traces_shape_is_given(given, transformer_options[k].at, transformer_options[k].size))
            continue;
        if (convolutions && strcmp(option, "autocast") == 0)
            continue;
        if (transformer_options[k].of_loss && !has_loss)
            return lw_fail(err, LW_EINVAL,
                           "--%s does not apply to model %s, which has no loss over a vocabulary; "
                           "leave it out, or choose a model of the gpt or llama family",
                           option, m->name);
        if (m->defaults.hidden == 0)
            return lw_fail(err, LW_EINVAL,
                           "--%s does not apply to model %s, which has no attention; leave it out, "
                           "or choose a transformer",
                           option, m->name);
    }
    return LW_OK;
}

/* A table of positions has a row for each token of a sequence. */
static enum lw_status check_positions(const struct traces_model_shape *s, struct lw_err *err)
{
    if (s->positions == 0 || s->positions >= s->seq)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--positions: found %" PRId64 ", allowed: %" PRId64 ", the sequence, or more; "
                   "or give --seq %" PRId64,
                   s->positions, s->seq, s->positions);
}

/* Widths that latent attention alone has. */
static enum lw_status check_latent(const struct traces_model *m,
                                   const struct traces_model_shape *given, struct lw_err *err)
{
    const char *option = given->q_lora > 0    ? "q-lora"
                         : given->v_width > 0 ? "v-width"
                                              : NULL;

    if (!option || m->build != llama_build || given->kv_lora > 0 || m->defaults.kv_lora > 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "--%s: model %s has no latent attention; give --kv-lora too",
                   option, m->name);
}

/* An option that the model would ignore is refused. */
static enum lw_status check_family(const struct traces_model *m,
                                   const struct traces_model_shape *given, struct lw_err *err)
{
    bool has_experts = given->experts != 0 || m->defaults.experts != 0;

    for (size_t k = 0; k < sizeof llama_options / sizeof *llama_options; k++) {
        const char *option = llama_options[k].option;
        if (!traces_shape_is_given(given, llama_options[k].at, llama_options[k].size))
            continue;
        bool folded = given->expert_folded && strcmp(option, "whole-experts") == 0;
        const char *as_given = folded ? "etp 1" : option;
        if (!takes_llama_option(m, option))
            return lw_fail(err, LW_EINVAL,
                           "--%s does not apply to model %s; models of the llama family take it "
                           "(decoder, llama-2-7b, mixtral-8x7b, ...)",
                           as_given, m->name);
        if (llama_options[k].of_experts && !has_experts)
            return lw_fail(err, LW_EINVAL, "--%s: model %s has no experts; give --experts too",
                           as_given, m->name);
    }
    LW_TRY(hybrid_check_options(m, given, err));
    return check_latent(m, given, err);
}

/* Where it is not given, the model's own size. */
static enum lw_status take_size(const struct traces_model *m, size_t k,
                                struct traces_model_shape *s, struct lw_err *err)
{
    int64_t *size = (int64_t *)((char *)s + sizes[k].at);
    int64_t standard = *(const int64_t *)((const char *)&m->defaults + sizes[k].at);

    const struct lw_model_option *o =
        sizes[k].option ? lw_model_option(lw_model_find(sizes[k].option)) : NULL;

    if (sizes[k].needed && *size && !standard)
        return lw_fail(err, LW_EINVAL, "--%s does not apply to model %s", sizes[k].option, m->name);
    if (o && *size && (*size < o->least || *size > o->most))
        return lw_fail(err, LW_EINVAL, "--%s: found %" PRId64 ", allowed: %" PRId64 " to %" PRId64,
                       o->name, *size, o->least, o->most);
    *size = *size ? *size : standard;
    return LW_OK;
}

static enum lw_status take_choice(const struct traces_model *m, size_t k,
                                  struct traces_model_shape *s, struct lw_err *err)
{
    const char **word = (const char **)((char *)s + choices[k].at);
    const char *standard = *(const char *const *)((const char *)&m->defaults + choices[k].at);

    if (*word && !standard)
        return lw_fail(err, LW_EINVAL, "--%s does not apply to model %s", choices[k].option,
                       m->name);
    if (!*word)
        *word = standard;
    return *word ? lw_model_word(lw_model_find(choices[k].option), *word, word, err) : LW_OK;
}

/* What follows from another size unless it is given: 0 asks the family for its rule. */
static void leave_derived(const struct traces_model *m, const struct traces_model_shape *given,
                          struct traces_model_shape *out)
{
    if (given->hidden && !given->ffn)
        out->ffn = 0;
    if (given->heads && !given->kv_heads && m->defaults.kv_heads == m->defaults.heads)
        out->kv_heads = 0;
}

static enum lw_status need(const struct lw_device *d, struct lw_figure f, const char *name,
                           struct lw_err *err)
{
    if (lw_figure_is_set(f))
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "device '%s' has no %s, which times by roofline need", d->kind,
                   name);
}

/* The type to take in place of one that the device has no peak of: of the same width, else f32;
 * NULL: neither has one. */
static const char *dtype_instead(const struct lw_device *d, enum lw_dtype dtype)
{
    static const enum lw_dtype each[] = {LW_F16, LW_BF16, LW_F32};

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if ((each[i] == LW_F32 || lw_dtype_size(each[i]) == lw_dtype_size(dtype)) &&
            lw_figure_is_set(d->peak_flops[each[i]]))
            return lw_dtype_name(each[i]);
    return NULL;
}

static enum lw_status need_roofline(const struct lw_device *d, const char *word, struct lw_err *err)
{
    enum lw_dtype dtype = LW_F32;
    char name[40];

    LW_TRY(lw_dtype_parse(word, &dtype, err));
    snprintf(name, sizeof name, "peak_flops.%s", lw_dtype_name(dtype));
    bool products = lw_work_find(d, LW_WORK_GEMM, dtype, dtype) != NULL;
    bool traffic = lw_work_find(d, LW_WORK_COPY, dtype, dtype) != NULL;
    const char *instead = dtype_instead(d, dtype);
    if (!products && !lw_figure_is_set(d->peak_flops[dtype]) && instead)
        return lw_fail(
            err, LW_EINVAL,
            "device '%s' has no %s, which times by roofline need; choose another device, or "
            "--dtype %s",
            d->kind, name, instead);
    if (!products)
        LW_TRY(need(d, d->peak_flops[dtype], name, err));
    if (!products)
        LW_TRY(need(d, d->gemm_efficiency, "gemm_efficiency", err));
    return traffic ? LW_OK : need(d, d->memory_bytes_per_s, "memory_bytes_per_s", err);
}

static const char *narrow_option(const struct traces_model_shape *s)
{
    return s->fp4 ? "--fp4" : s->fp8 ? "--fp8" : NULL;
}

/* Products of narrow operands have times where the device's figures give their speed by shape. */
static enum lw_status need_narrow(const struct lw_device *d, const struct traces_model_shape *s,
                                  struct lw_err *err)
{
    enum lw_dtype dtype = LW_BF16;

    LW_TRY(lw_dtype_parse(s->dtype, &dtype, err));
    const char *lacks = lw_device_lacks_narrow(d, dtype, s->fp4);
    if (!lacks)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "%s: device '%s' has no %s: leave %s out, choose another device, or add the "
                   "figures with their source to a cluster file (`lapwing cluster NAME -o FILE`)",
                   narrow_option(s), d->kind, lacks, narrow_option(s));
}

/* Frameworks that hold weights in 8 bits, or an expert's gate in its products, do so for all. */
static enum lw_status check_narrow_products(const struct traces_model *m,
                                            const struct traces_model_shape *s,
                                            struct lw_err *err)
{
    if (!s->narrow_of)
        return LW_OK;
    if (!s->fp8)
        return lw_fail(err, LW_EINVAL,
                       "--narrow-products %s: products are of %s; give --fp8 or --fp4 too",
                       s->narrow_of, s->dtype);
    if (strcmp(s->narrow_of, "head") == 0 && (s->fp4 || s->tied))
        return lw_fail(err, LW_EINVAL, "--narrow-products head: %s; leave it out",
                       s->fp4 ? "the head's are of 8 bits (--fp8)"
                              : "the embedding, whose weights the head has, is not of 8 bits");
    if (strcmp(s->narrow_of, "head") == 0 && s->vocab == 0)
        return lw_fail(err, LW_EINVAL,
                       "--narrow-products head: model %s has no vocabulary; leave it out", m->name);
    if (strcmp(s->narrow_of, "all") == 0 || strcmp(s->narrow_of, "head") == 0)
        return LW_OK;
    if (s->experts == 0)
        return lw_fail(err, LW_EINVAL,
                       "--narrow-products %s: model %s has no experts; leave it out", s->narrow_of,
                       m->name);
    if (s->narrow_params || s->fused_experts)
        return lw_fail(err, LW_EINVAL,
                       "--narrow-products %s: the framework %s of 8 bits in all blocks; choose "
                       "another one (--framework torchtitan)", s->narrow_of,
                       s->narrow_params ? "holds weights" : "joins an expert's gate and products");
    return LW_OK;
}

/* The recipe of a device that has no products of it, and what to do. */
static enum lw_status fail_recipe(const struct traces_model_shape *s,
                                  const struct lw_device *device, const char *has,
                                  struct lw_err *err)
{
    enum lw_dtype dtype = LW_BF16;

    LW_TRY(lw_dtype_parse(s->dtype, &dtype, err));
    bool none = lw_device_lacks_narrow(device, dtype, s->fp4) != NULL;
    return lw_fail(err, LW_EINVAL,
                   "--fp8-recipe %s: %s, and the device is '%s': choose another device, or %s",
                   s->fp8_recipe, has, device->kind,
                   none ? "leave --fp8 out" : "another recipe (tensorwise)");
}

/* Of TransformerEngine: transformer_engine/pytorch/quantization.py of NVIDIA/TransformerEngine
 * @d0067d0d, _compute_mxfp8_support and _compute_fp8_block_scaling_support; on Blackwell blocks are
 * run as MXFP8 (docs/features/low_precision_training/fp8_blockwise_scaling). A head of 8 bits is
 * of MXFP8 (NVIDIA/Megatron-LM@d98e8a64, transformer_config.py, fp8_output_proj). */
static enum lw_status check_recipe(const struct traces_model_shape *s,
                                   const struct lw_device *device, struct lw_err *err)
{
    const enum lw_fp8_recipe recipe = lw_fp8_recipe_named(s->fp8_recipe);
    bool any = !device->kind[0], blackwell = lw_device_is_blackwell(device->kind);
    bool head = s->narrow_of && strcmp(s->narrow_of, "head") == 0;

    if (recipe == LW_FP8_UNSTATED && s->fp8 && head && !any && !blackwell)
        return lw_fail(err, LW_EINVAL,
                       "--narrow-products head is of MXFP8, whose products are of Blackwell, and "
                       "the device is '%s': choose another device, or leave it out",
                       device->kind);
    if (recipe == LW_FP8_UNSTATED)
        return LW_OK;
    if (!s->fp8 || s->fp4)
        return lw_fail(err, LW_EINVAL, "--fp8-recipe %s: products are of %s; %s", s->fp8_recipe,
                       s->fp4 ? "4 bits" : s->dtype,
                       s->fp4 ? "leave it out" : "give --fp8 too");
    if (recipe == LW_FP8_MXFP8 && !any && !blackwell)
        return fail_recipe(s, device, "MXFP8's products are of Blackwell", err);
    if (recipe == LW_FP8_BLOCKWISE && !any && !blackwell && !lw_device_is_hopper(device->kind))
        return fail_recipe(s, device, "such products are of Hopper and Blackwell", err);
    if (recipe == LW_FP8_ROWWISE && s->rates.input_casts)
        return lw_fail(err, LW_EINVAL,
                       "--fp8-recipe rowwise: the framework casts by TransformerEngine, which has "
                       "no such recipe; choose another framework (--framework torchtitan)");
    if (recipe != LW_FP8_MXFP8 && head)
        return lw_fail(err, LW_EINVAL,
                       "--fp8-recipe %s: --narrow-products head is of MXFP8; leave one out",
                       s->fp8_recipe);
    return LW_OK;
}

/* Where torch's allow_tf32 counts: products of f32. */
static enum lw_status check_tf32(const struct traces_model *m, const struct traces_model_shape *s,
                                 const struct lw_device *d, struct lw_err *err)
{
    if (!s->tf32)
        return LW_OK;
    if (s->hidden == 0)
        return lw_fail(err, LW_EINVAL, "--tf32 does not apply to model %s", m->name);
    if (strcmp(s->dtype, "f32") != 0)
        return lw_fail(err, LW_EINVAL,
                       "--tf32: products of model %s are of %s; give --dtype f32, or leave --tf32 "
                       "out", m->name, s->dtype);
    if (d->kind[0] && lw_device_lacks_tf32(d))
        return lw_fail(err, LW_EINVAL,
                       "--tf32: device '%s' has no %s: leave --tf32 out, choose another device, or "
                       "add the figure with its source to a cluster file (`lapwing cluster NAME -o "
                       "FILE`)", d->kind, lw_device_lacks_tf32(d));
    return LW_OK;
}

/* Products take the type of --dtype, bf16 unless it is given; what has no rule is refused. */
static enum lw_status check_autocast(struct traces_model_shape *s, const char *dtype,
                                     struct lw_err *err)
{
    const char *other = s->experts > 0   ? "experts"
                        : s->kv_lora > 0 ? "latent attention"
                        : s->layer_pattern[0] ? "state-space layers"
                        : s->linear_every > 0 ? "linear attention"
                        : s->lora > 0    ? "--lora"
                                         : narrow_option(s);

    if (!s->autocast)
        return LW_OK;
    if (other)
        return lw_fail(err, LW_EINVAL,
                       "--autocast: with %s casts are not modelled; leave --autocast out, or "
                       "choose a model without",
                       other);
    if (dtype && strcmp(s->dtype, "f32") == 0)
        return lw_fail(err, LW_EINVAL,
                       "--autocast: products in f32 are not narrower than the weights; give "
                       "--dtype bf16 or f16, or leave --autocast out");
    s->dtype = dtype ? s->dtype : "bf16";
    return LW_OK;
}

static int64_t padded(int64_t n, int64_t multiple)
{
    return multiple > 0 ? (n + multiple - 1) / multiple * multiple : n;
}

enum lw_status traces_model_build(const char *name, const struct traces_model_shape *shape,
                                  const struct lw_device *device, struct lw_workload *w,
                                  struct lw_err *err)
{
    const struct traces_model *m = find_model(name, err);
    struct traces_model_shape s = *shape;

    if (!m)
        return LW_EINVAL;
    LW_TRY(check_family(m, shape, err));
    LW_TRY(check_transformer(m, shape, err));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        LW_TRY(take_size(m, k, &s, err));
    LW_TRY(check_positions(&s, err));
    for (size_t k = 0; k < sizeof choices / sizeof *choices; k++)
        LW_TRY(take_choice(m, k, &s, err));
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        *(bool *)((char *)&s + flags[k]) |= *(const bool *)((const char *)&m->defaults + flags[k]);
    leave_derived(m, shape, &s);
    LW_TRY(hybrid_take_layers(m, shape, &s, err));
    LW_TRY(check_autocast(&s, shape->dtype, err));
    s.vocab = padded(s.vocab, s.pad_vocab * (s.tensor > 1 ? s.tensor : 1));
    if (s.fp8 && (s.hidden == 0 || strcmp(s.dtype, "f32") == 0))
        return lw_fail(err, LW_EINVAL,
                       s.hidden == 0 ? "%s does not apply to model %s"
                                     : "%s: model %s has f32 parameters; give --dtype bf16",
                       narrow_option(&s), m->name);
    LW_TRY(check_narrow_products(m, &s, err));
    LW_TRY(check_recipe(&s, device, err));
    LW_TRY(check_tf32(m, &s, device, err));
    if (s.again_parts != 0 && s.hidden == 0)
        return lw_fail(err, LW_EINVAL, "--recompute-modules does not apply to model %s", m->name);
    LW_TRY(need_roofline(device, s.dtype, err));
    if (s.fp8 && device->kind[0])
        LW_TRY(need_narrow(device, &s, err));
    return m->build(m, &s, device, w, err);
}
