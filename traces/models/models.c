/* Parametric models: the tables of the families, and a shape's way from options to a builder. */
#include "shared/base/nearest.h"
#include "shared/device/device_time.h"
#include "traces/models/models.h"

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
    traces_models_bert,
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

enum lw_status traces_model_unknown(const char *name, struct lw_err *err)
{
    char hint[96];
    const struct traces_model *m;
    struct lw_nearest near = lw_nearest_begin(name);

    for (int k = 0; (m = traces_model_at(k)) != NULL; k++)
        lw_nearest_try(&near, m->name);
    return lw_fail(err, LW_EINVAL, "no model '%s'%s; `lapwing model --list` lists them", name,
                   lw_nearest_hint(&near, "", hint, sizeof hint));
}

static const struct traces_model *find_model(const char *name, struct lw_err *err)
{
    const struct traces_model *m;

    for (int k = 0; (m = traces_model_at(k)) != NULL; k++)
        if (strcmp(m->name, name) == 0)
            return m;
    traces_model_unknown(name, err);
    return NULL;
}

struct lw_device traces_no_device(void)
{
    const struct lw_figure one = {1e15, "any"};
    struct lw_device d = {.kind = "", .gemm_efficiency = {1, "any"}, .memory_bytes_per_s = one};

    for (int t = 0; t < LW_N_DTYPES; t++)
        d.peak_flops[t] = one;
    return d;
}

#define AT(field) offsetof(struct traces_model_shape, field)
/* Those without an option are of a model, or of a configuration that gives them. */
static const struct {
    size_t at;
    const char *option;
    int64_t least, most;
} sizes[] = {
    {AT(batch), "batch", 1, 65536},      {AT(layers), "layers", 1, 4096},
    {AT(width), "width", 1, 65536},      {AT(image), "image", 32, 4096},
    {AT(patch), "patch", 1, 4096},       {AT(hidden), "hidden", 1, 262144},
    {AT(heads), "heads", 1, 4096},       {AT(kv_heads), "kv-heads", 1, 4096},
    {AT(ffn), "ffn", 1, 1048576},        {AT(seq), "seq", 1, 4194304},
    {AT(vocab), "vocab", 1, 16777216},   {AT(head_width)}, {AT(window)}, {AT(q_lora)},
    {AT(kv_lora)}, {AT(rope_width)}, {AT(v_width)}, {AT(experts)}, {AT(topk)}, {AT(expert_ffn)},
    {AT(shared_ffn)}, {AT(dense_layers)}, {AT(expert_every)}, {AT(mtp_layers)},
};

static const size_t flags[] = {
    AT(plain_ffn), AT(tied), AT(qk_norm), AT(qkv_bias),
    AT(expert_bias), AT(alibi), AT(embedding_norm), AT(no_bias),
};

static const struct {
    const char *option;
    size_t at;
    const char *words[4];
} choices[] = {
    {"dtype", AT(dtype), {"f32", "bf16", "f16"}},
    {"attention", AT(attention), {"full", "flash"}},
    {"optimizer", AT(optimizer), {"sgd", "momentum", "adam"}},
};
#undef AT

/* Where it is not given, the model's own size. */
static enum lw_status take_size(const struct traces_model *m, size_t k,
                                struct traces_model_shape *s, struct lw_err *err)
{
    int64_t *size = (int64_t *)((char *)s + sizes[k].at);
    int64_t standard = *(const int64_t *)((const char *)&m->defaults + sizes[k].at);

    if (sizes[k].option && *size && !standard)
        return lw_fail(err, LW_EINVAL, "--%s does not apply to model %s", sizes[k].option, m->name);
    if (sizes[k].option && *size && (*size < sizes[k].least || *size > sizes[k].most))
        return lw_fail(err, LW_EINVAL, "--%s: found %" PRId64 ", allowed: %" PRId64 " to %" PRId64,
                       sizes[k].option, *size, sizes[k].least, sizes[k].most);
    *size = *size ? *size : standard;
    return LW_OK;
}

/* A dtype may be given by any of its names; the choice is one of the words here. */
static const char *canonical(const char *option, const char *found)
{
    enum lw_dtype dtype;

    if (strcmp(option, "dtype") != 0)
        return found;
    return lw_dtype_parse(found, &dtype, NULL) == LW_OK ? lw_dtype_name(dtype) : found;
}

static enum lw_status take_choice(const struct traces_model *m, size_t k,
                                  struct traces_model_shape *s, struct lw_err *err)
{
    const char **word = (const char **)((char *)s + choices[k].at);
    const char *standard = *(const char *const *)((const char *)&m->defaults + choices[k].at);

    if (*word && !standard)
        return lw_fail(err, LW_EINVAL, "--%s does not apply to model %s", choices[k].option,
                       m->name);
    *word = *word ? canonical(choices[k].option, *word) : standard;
    for (int i = 0; *word && choices[k].words[i]; i++)
        if (strcmp(*word, choices[k].words[i]) == 0)
            return LW_OK;
    return *word ? lw_fail_word(err, choices[k].option, *word, choices[k].words) : LW_OK;
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

static enum lw_status need_roofline(const struct lw_device *d, const char *word, struct lw_err *err)
{
    enum lw_dtype dtype = LW_F32;
    char name[40];

    LW_TRY(lw_dtype_parse(word, &dtype, err));
    snprintf(name, sizeof name, "peak_flops.%s", lw_dtype_name(dtype));
    bool products = lw_work_find(d, LW_WORK_GEMM, dtype, dtype) != NULL;
    bool traffic = lw_work_find(d, LW_WORK_COPY, dtype, dtype) != NULL;
    if (!products && !lw_figure_is_set(d->peak_flops[dtype]) &&
        lw_figure_is_set(d->peak_flops[LW_F32]))
        return lw_fail(
            err, LW_EINVAL,
            "device '%s' has no %s, which times by roofline need; choose another device, or "
            "--dtype f32",
            d->kind, name);
    if (!products)
        LW_TRY(need(d, d->peak_flops[dtype], name, err));
    if (!products)
        LW_TRY(need(d, d->gemm_efficiency, "gemm_efficiency", err));
    return traffic ? LW_OK : need(d, d->memory_bytes_per_s, "memory_bytes_per_s", err);
}

/* Products of 8-bit operands have times where the device's figures give their speed by shape. */
static enum lw_status need_8bit(const struct lw_device *d, const char *word, struct lw_err *err)
{
    enum lw_dtype dtype = LW_BF16;

    LW_TRY(lw_dtype_parse(word, &dtype, err));
    const char *lacks = lw_device_lacks_8bit(d, dtype);
    if (!lacks)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--fp8: device '%s' has no %s: leave --fp8 out, choose another device, or add "
                   "the figures with their source to a cluster file (`lapwing cluster NAME -o "
                   "FILE`)",
                   d->kind, lacks);
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
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        LW_TRY(take_size(m, k, &s, err));
    for (size_t k = 0; k < sizeof choices / sizeof *choices; k++)
        LW_TRY(take_choice(m, k, &s, err));
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        *(bool *)((char *)&s + flags[k]) |= *(const bool *)((const char *)&m->defaults + flags[k]);
    leave_derived(m, shape, &s);
    s.vocab = padded(s.vocab, s.pad_vocab * (s.tensor > 1 ? s.tensor : 1));
    if (s.expert_capacity != 0 && s.experts == 0)
        return lw_fail(err, LW_EINVAL, "--expert-capacity: model %s has no experts", m->name);
    if (s.fp8 && (s.hidden == 0 || strcmp(s.dtype, "f32") == 0))
        return lw_fail(err, LW_EINVAL,
                       s.hidden == 0 ? "--fp8 does not apply to model %s"
                                     : "--fp8: model %s has f32 parameters; give --dtype bf16",
                       m->name);
    LW_TRY(need_roofline(device, s.dtype, err));
    if (s.fp8 && device->kind[0])
        LW_TRY(need_8bit(device, s.dtype, err));
    return m->build(m, &s, device, w, err);
}
