/* The options of a model: one table for the command line, the library and overriding. */
#include "shared/plan/model_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/numbers/units.h"

#define ROW(name, kind, field, arg, help) \
    {name, LW_MODEL_##kind, offsetof(struct lw_model_request, field), arg, help}
#define SIZE(name, field, help) ROW(name, INT, field, "N", help)
static const struct lw_model_option options[] = {
    SIZE("batch", batch, "samples of one micro-batch (the model's)"),
    SIZE("seq", seq, "tokens of a sample"),
    ROW("dtype", TEXT, dtype, "TYPE", "parameters and activations: f32|bf16|f16 (the model's)"),
    ROW("fp8", FLAG, fp8, NULL, "products of blocks take 8-bit operands"),
    SIZE("layers", layers, "blocks; mlp: layers, an even number"),
    SIZE("hidden", hidden, "transformers: width of a token"),
    SIZE("heads", heads, "transformers: attention heads"),
    SIZE("kv-heads", kv_heads, "llama: heads of keys and values"),
    SIZE("ffn", ffn, "transformers: width inside a block's linear pair (by the family's rule)"),
    SIZE("vocab", vocab, "rows of the token embedding"),
    SIZE("width", width, "mlp: width of every layer (1024)"),
    SIZE("image", image, "resnet, vit: pixels of a side (224)"),
    SIZE("patch", patch, "vit: pixels of a patch's side"),
    ROW("expert-capacity", REAL, expert_capacity, "F",
        "each expert computes F times the even share of tokens, padded; 0: all tokens (0)"),
    SIZE("experts", experts, "llama: experts of a block (the model's)"),
    SIZE("topk", topk, "llama: experts that a token goes to"),
    SIZE("expert-ffn", expert_ffn, "llama: width inside an expert"),
    SIZE("shared-ffn", shared_ffn, "llama: width inside the expert of all tokens"),
    SIZE("dense-layers", dense_layers, "llama: first blocks, which have no experts"),
    SIZE("mtp-layers", mtp_layers, "llama: blocks that predict further tokens"),
    ROW("whole-experts", FLAG, expert_whole, NULL,
        "llama: a tensor group shares experts, and does not split each"),
    ROW("tied", FLAG, tied, NULL, "the head's weights are the embedding's"),
    SIZE("lora", lora, "rank of adapters on attention's products: the rest is frozen"),
    ROW("attention", TEXT, attention, "HOW", "scores stored or fused: full|flash (the model's)"),
    ROW("optimizer", TEXT, optimizer, "NAME", "sgd|momentum|adam (the model's)"),
};
enum { N_OPTIONS = sizeof options / sizeof *options };

int lw_model_n_options(void)
{
    return N_OPTIONS;
}

int lw_model_find(const char *name)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return i;
    return -1;
}

const struct lw_model_option *lw_model_option(int option)
{
    return option >= 0 && option < N_OPTIONS ? &options[option] : NULL;
}

static void *field(struct lw_model_request *r, int option)
{
    return (char *)r + options[option].at;
}

static enum lw_status parse_real(const char *text, double *out, struct lw_err *err)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || !isfinite(v) || v < 0)
        return lw_fail(err, LW_EINVAL, "found '%s', expected a number of at least 0", text);
    *out = v;
    return LW_OK;
}

static enum lw_status parse_flag(const char *text, bool *out, struct lw_err *err)
{
    bool on = strcmp(text, "on") == 0;

    if (!on && strcmp(text, "off") != 0)
        return lw_fail(err, LW_EINVAL, "found '%s', expected on or off", text);
    *out = on;
    return LW_OK;
}

static enum lw_status parse(struct lw_model_request *r, int option, const char *value,
                            struct lw_err *err)
{
    void *to = field(r, option);

    switch (options[option].kind) {
    case LW_MODEL_INT:
        return lw_parse_int(value, 1, INT64_MAX, to, err);
    case LW_MODEL_REAL:
        return parse_real(value, to, err);
    case LW_MODEL_FLAG:
        return parse_flag(value, to, err);
    case LW_MODEL_TEXT:
        break;
    }
    *(const char **)to = value;
    return LW_OK;
}

enum lw_status lw_model_set(struct lw_model_request *r, const char *name, const char *value,
                            struct lw_err *err)
{
    int option = lw_model_find(name);

    if (option < 0)
        return lw_fail(err, LW_EINVAL, "no option '%s' of a model", name);
    return lw_err_context(err, parse(r, option, value, err), "--%s", name);
}

bool lw_model_given(const struct lw_model_request *r, int option)
{
    const void *at = (const char *)r + options[option].at;

    switch (options[option].kind) {
    case LW_MODEL_INT:
        return *(const int64_t *)at != 0;
    case LW_MODEL_REAL:
        return *(const double *)at > 0;
    case LW_MODEL_FLAG:
        return *(const bool *)at;
    case LW_MODEL_TEXT:
        break;
    }
    return *(const char *const *)at && **(const char *const *)at;
}

const char *lw_model_first_given(const struct lw_model_request *r)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (lw_model_given(r, i))
            return options[i].name;
    return NULL;
}

void lw_model_override(struct lw_model_request *r, const struct lw_model_request *given)
{
    static const size_t sizes[] = {
        [LW_MODEL_INT] = sizeof(int64_t), [LW_MODEL_REAL] = sizeof(double),
        [LW_MODEL_TEXT] = sizeof(const char *), [LW_MODEL_FLAG] = sizeof(bool),
    };

    for (int i = 0; i < N_OPTIONS; i++)
        if (lw_model_given(given, i))
            memcpy(field(r, i), (const char *)given + options[i].at, sizes[options[i].kind]);
}
