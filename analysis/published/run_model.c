/* Models and element types as tables name them. */
#include "analysis/published/run_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "traces/models/models.h"

/* By the letters and digits of a name, in lower case; the first row that its beginning has. */
static const struct {
    const char *start, *model, *family;
} names[] = {
    {"llama270b", "llama-2-70b", "llama"},      {"llama27b", "llama-2-7b", "llama"},
    {"llama213b", "llama-2-13b", "llama"},      {"llama38b", "llama-3-8b", "llama"},
    {"llama318b", "llama-3-8b", "llama"},       {"llama370b", "llama-3-70b", "llama"},
    {"llama3170b", "llama-3-70b", "llama"},     {"llama3405b", "llama-3-405b", "llama"},
    {"llama31405b", "llama-3-405b", "llama"},   {"gpt3175b", "gpt-175b", "gpt"},
    {"gpt175b", "gpt-175b", "gpt"},             {"gpt35b", "gpt-5b", "gpt"},
    {"gpt5b", "gpt-5b", "gpt"},                 {"gpt126m", "gpt-125m", "gpt"},
    {"deepseekv2", "deepseek-v2", "llama"},     {"deepseekv3", "deepseek-v3", "llama"},
    {"kimik2", "kimi-k2", "llama"},             {"grok1", "grok-1", "llama"},
    {"mixtral8x7b", "mixtral-8x7b", "llama"},   {"mixtral8x22b", "mixtral-8x22b", "llama"},
    {"qwen330b", "qwen3-30b-a3b", "llama"},     {"qwen3moe30b", "qwen3-30b-a3b", "llama"},
    {"qwen3235b", "qwen3-235b-a22b", "llama"},  {"qwen38b", "qwen3-8b", "llama"},
    {"gptoss120b", "gpt-oss-120b", "llama"},    {"llama4scout", "llama-4-scout", "llama"},
    {"llama4maverick", "llama-4-maverick", "llama"},
    {"nemotron415b", "nemotron-4-15b", "llama"}, {"nemotron4340b", "nemotron-4-340b", "llama"},
    {"nemotron15b", "nemotron-4-15b", "llama"}, {"nemotron340b", "nemotron-4-340b", "llama"},
    {"nemotron22b", "nemotron-3-22b", "llama"}, {"qwen2532b", "qwen-2.5-32b", "llama"},
    {"llama323b", "llama-3.2-3b", "llama"},     {"internlm7b", "internlm-7b", "llama"},
    {"internlm20b", "internlm-20b", "llama"},
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

/* Layers of a row that its chunks do not divide, though those of the model that it names do. */
static bool contradicts(const struct lw_run *r, const struct traces_model *m)
{
    int64_t chunks = (r->pp > 0 ? r->pp : 1) * (r->pp > 1 && r->vpp > 0 ? r->vpp : 1);

    return r->layers > 0 && r->layers % chunks != 0 && m->defaults.layers % chunks == 0;
}

static const struct traces_model *model_named(const char *model)
{
    const struct traces_model *m;
    int i = 0;

    while ((m = traces_model_at(i)) != NULL && strcmp(m->name, model) != 0)
        i++;
    return m;
}

/* The transformer whose name in `lapwing model --list` has these letters and digits. */
static const struct traces_model *model_of_letters(const char *name)
{
    const struct traces_model *m;
    char own[64];

    for (int i = 0; (m = traces_model_at(i)) != NULL; i++) {
        letters(m->name, own, sizeof own);
        if (strcmp(own, name) == 0 && m->defaults.hidden > 0)
            return m;
    }
    return NULL;
}

/* The model that a row names; *family is set where its row of names[] gives it. A name of the list
 * counts only where the row gives no sizes, for tables use such words for other sizes. */
static const struct traces_model *model_of(const struct lw_run *r, const char **family)
{
    char name[64];

    letters(r->model, name, sizeof name);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strncmp(name, names[k].start, strlen(names[k].start)) == 0) {
            *family = names[k].family;
            return model_named(names[k].model);
        }
    return r->layers == 0 && r->hidden == 0 ? model_of_letters(name) : NULL;
}

/* *named: the model is known, and fills what the run does not say. Its family holds, whatever most
 * rows of the table have. */
static enum lw_status take_named(struct lw_run *r, bool *named, struct lw_err *err)
{
    const char *family = "";
    const struct traces_model *m = model_of(r, &family);

    *named = m != NULL;
    if (!m)
        return LW_OK;
    if (contradicts(r, m))
        return lw_fail(err, LW_ENOTSUP, "the layers do not divide into pp * vpp chunks, though "
                                        "those of the model that the row names do");
    r->base = m->name;
    r->tied = m->defaults.tied ? "True" : r->tied;
    take(&r->layers, m->defaults.layers);
    take(&r->hidden, m->defaults.hidden);
    take(&r->heads, m->defaults.heads);
    take(&r->kv_heads, m->defaults.kv_heads);
    take(&r->ffn, m->defaults.ffn);
    take(&r->vocab, m->defaults.vocab);
    take(&r->seq, m->defaults.seq);
    r->family = *family ? family : r->family;
    return LW_OK;
}

static const struct {
    const char *word, *family;
} families[] = {
    {"llama", "llama"}, {"internlm", "llama"}, {"mpt", "mpt"}, {"gpt", "gpt"}, {"bloom", "gpt"},
    {"bert", "bert"},
};

enum lw_status lw_run_shape(struct lw_run *r, struct lw_err *err)
{
    bool named;

    LW_TRY(take_named(r, &named, err));
    for (size_t k = 0; !*r->family && k < sizeof families / sizeof *families; k++)
        if (strcasestr(r->model, families[k].word))
            r->family = families[k].family;
    if (!named && (r->layers == 0 || r->hidden == 0))
        return *r->model ? lw_fail(err, LW_ENOTSUP, "the sizes of the model (%.40s) are not known",
                                   r->model)
                         : lw_fail(err, LW_ENOTSUP, "the row names no model, and no sizes of one");
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

enum lw_status lw_run_precision(const struct lw_run *r, const char **dtype, bool *fp8,
                                struct lw_err *err)
{
    char *end;

    if (!*r->precision)
        return lw_fail(err, LW_ENOTSUP, "the precision is not given");
    if (strcasestr(r->precision, "fp4"))
        return lw_fail(err, LW_ENOTSUP, "4-bit products are not modelled");
    *dtype = strcasestr(r->precision, "fp16") ? "f16" : "bf16";
    *fp8 = strcasestr(r->precision, "fp8") || strcasestr(r->precision, "float8");
    (void)strtod(r->expert_capacity, &end);
    return *end ? lw_fail(err, LW_ENOTSUP, "expert_capacity: '%.40s' is not a number",
                          r->expert_capacity)
                : LW_OK;
}

bool lw_run_is_yes(const char *text)
{
    return strncasecmp(text, "yes", 3) == 0 || strncasecmp(text, "true", 4) == 0 || *text == '1' ||
           strncmp(text, "TP mode", 7) == 0;
}

/* DeepSeek-V3 predicts one more token; Megatron-Bridge's tables say where it does not. */
int64_t lw_run_mtp_layers(const struct lw_run *r)
{
    bool trained = r->base && strcmp(r->base, "deepseek-v3") == 0 &&
                   strstr(r->framework, "Megatron-Bridge");

    return trained && !strstr(r->moe, "w/o MTP");
}
