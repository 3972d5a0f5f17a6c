/* Models as tables name them -> sizes and workloads. */
#include "analysis/validate/run_model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "traces/models/models.h"

/* By the letters and digits of a name, in lower case; the first row that its beginning has. */
static const struct {
    const char *start, *model, *family;
} names[] = {
    {"llama270b", "llama-2-70b", "llama"},   {"llama27b", "llama-2-7b", "llama"},
    {"llama213b", "llama-2-13b", "llama"},   {"llama38b", "llama-3-8b", "llama"},
    {"llama318b", "llama-3-8b", "llama"},    {"llama370b", "llama-3-70b", "llama"},
    {"llama3170b", "llama-3-70b", "llama"},  {"llama3405b", "llama-3-405b", "llama"},
    {"llama31405b", "llama-3-405b", "llama"}, {"gpt3175b", "gpt-175b", "gpt"},
    {"gpt175b", "gpt-175b", "gpt"},
};

static void letters(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 1 < size; text++)
        if (isalnum((unsigned char)*text))
            out[n++] = (char)tolower((unsigned char)*text);
    out[n] = '\0';
}

static void take(int64_t *field, int64_t v)
{
    *field = *field > 0 ? *field : v;
}

static bool take_named(struct lw_run *r)
{
    char name[64];
    const struct traces_model *m;

    letters(r->model, name, sizeof name);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strncmp(name, names[k].start, strlen(names[k].start)) != 0)
            continue;
        for (int i = 0; (m = traces_model_at(i)) != NULL; i++)
            if (strcmp(m->name, names[k].model) == 0)
                break;
        if (!m)
            return false;
        take(&r->layers, m->defaults.layers);
        take(&r->hidden, m->defaults.hidden);
        take(&r->heads, m->defaults.heads);
        take(&r->kv_heads, m->defaults.kv_heads);
        take(&r->ffn, m->defaults.ffn);
        take(&r->vocab, m->defaults.vocab);
        take(&r->seq, m->defaults.seq);
        r->family = *r->family ? r->family : names[k].family;
        return true;
    }
    return false;
}

static const struct {
    const char *word, *family;
} families[] = {
    {"llama", "llama"}, {"internlm", "llama"}, {"mpt", "mpt"}, {"gpt", "gpt"}, {"bloom", "gpt"},
    {"bert", "bert"},
};

enum lw_status lw_run_shape(struct lw_run *r, struct lw_err *err)
{
    bool named = take_named(r);

    for (size_t k = 0; !*r->family && k < sizeof families / sizeof *families; k++)
        if (strcasestr(r->model, families[k].word))
            r->family = families[k].family;
    if (!named && (r->layers == 0 || r->hidden == 0))
        return lw_fail(err, LW_ENOTSUP, "the sizes of the model (%.40s) are not known", r->model);
    if (!*r->family)
        return lw_fail(err, LW_ENOTSUP, "the model's family (%.40s) is not known", r->model);
    if (r->heads == 0)
        return lw_fail(err, LW_ENOTSUP, "the number of heads is not given");
    if (r->seq == 0)
        return lw_fail(err, LW_ENOTSUP, "the sequence length is not given");
    take(&r->kv_heads, r->heads);
    take(&r->vocab, 51200);
    return LW_OK;
}

static enum lw_status dtype_of(const struct lw_run *r, const char **name, enum lw_dtype *dtype,
                               struct lw_err *err)
{
    if (!*r->precision)
        return lw_fail(err, LW_ENOTSUP, "the precision is not given");
    if (strcasestr(r->precision, "fp8") || strcasestr(r->precision, "float8") ||
        strcasestr(r->precision, "fp4"))
        return lw_fail(err, LW_ENOTSUP, "8-bit and 4-bit products are not modelled");
    bool half = strcasestr(r->precision, "fp16") != NULL;
    *name = half ? "f16" : "bf16";
    *dtype = half ? LW_F16 : LW_BF16;
    return LW_OK;
}

/* Of the best fused kernel's: Triton 0.325, FlashAttention-2 0.655 of the peak, both on A100
 * (Dao-AILab/flash-attention@0251105a, figures of forward and backward). */
static const double TRITON_SPEED = 0.5;

enum lw_status lw_run_workload(const struct lw_run *r, const struct lw_device *device,
                               struct lw_workload *w, enum lw_dtype *dtype, struct lw_err *err)
{
    bool llama = strcmp(r->family, "llama") == 0;
    struct traces_model_shape s = {
        .batch = r->mbs, .layers = r->layers, .hidden = r->hidden, .heads = r->heads,
        .kv_heads = llama ? r->kv_heads : 0, .ffn = r->ffn, .seq = r->seq, .vocab = r->vocab,
        .attention = strstr(r->attention, "full") || strcmp(r->attention, "no") == 0 ? "full" : "flash",
        .tensor = r->tp, .tied = strcmp(r->tied, "True") == 0,
        .attention_speed = strstr(r->attention, "triton") ? TRITON_SPEED : 0,
    };

    LW_TRY(dtype_of(r, &s.dtype, dtype, err));
    if (strcmp(r->family, "bert") == 0)
        return traces_model_build("bert-large", &s, device, w, err);
    return traces_model_build(llama ? "llama-2-7b" : "gpt-13b", &s, device, w, err);
}
