/* The options of a model: one table for the command line, the library and overriding. */
#include "shared/workload/model_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/nearest.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/strategy/fp8_recipe.h"

#define ROW(name, kind, field, least, most, words, arg, help) \
    {name, LW_MODEL_##kind, offsetof(struct lw_model_request, field), arg, help, least, most, words}
#define SIZE(name, field, least, most, help) ROW(name, INT, field, least, most, NULL, "N", help)
#define WORD(name, field, words, arg, help) ROW(name, TEXT, field, 0, 0, words, arg, help)
#define REAL(name, field, arg, help) ROW(name, REAL, field, 0, 0, NULL, arg, help)
#define FLAG(name, field, help) ROW(name, FLAG, field, 0, 0, NULL, NULL, help)
#define LAYERS(name, field, help) ROW(name, LAYERS, field, 0, 0, NULL, "LETTERS", help)
static const char *const dtypes[] = {"f32", "bf16", "f16", NULL};
static const char *const attentions[] = {"full", "flash", NULL};
static const char *const optimizers[] = {"sgd", "momentum", "adam", "muon", NULL};
static const char *const narrow_products[] = {"all", "linears", "experts", "head", NULL};
static const struct lw_model_option options[] = {
    SIZE("batch", batch, 1, 65536, "samples of one micro-batch (the model's)"),
    SIZE("seq", seq, 1, 4194304, "tokens of a sample"),
    WORD("dtype", dtype, dtypes, "TYPE", "parameters and activations: f32|bf16|f16 (the model's)"),
    FLAG("fp8", fp8, "products of blocks take 8-bit operands"),
    WORD("fp8-recipe", fp8_recipe, lw_fp8_recipe_words + LW_FP8_DELAYED, "WORD",
         "with --fp8: how operands are scaled, as Megatron-LM's option and torchao's recipes: "
         "delayed|tensorwise|rowwise|blockwise|mxfp8 (as the framework implies)"),
    FLAG("fp4", fp4, "products of blocks take 4-bit operands: NVFP4"),
    WORD("narrow-products", narrow_of, narrow_products, "WHICH",
         "with --fp8 or --fp4: products that take such operands: of blocks all or, as torchao's "
         "converters choose, linears or experts; head: --fp8: all and the head's, as Megatron-LM's "
         "fp8_output_proj: all|linears|experts|head (all)"),
    FLAG("tf32", tf32, "transformers: products of f32 are of TF32, as with torch's allow_tf32"),
    FLAG("autocast", autocast,
        "gpt, llama: weights, norms and residuals are f32, and products of --dtype (bf16), as with "
        "torch.autocast"),
    SIZE("layers", layers, 1, 4096, "blocks; mlp: layers, an even number"),
    SIZE("hidden", hidden, 1, 262144, "transformers: width of a token"),
    SIZE("heads", heads, 1, 4096, "transformers: attention heads"),
    SIZE("kv-heads", kv_heads, 1, 4096, "llama: heads of keys and values"),
    SIZE("ffn", ffn, 1, 1048576,
         "transformers: width inside a block's linear pair (by the family's rule)"),
    SIZE("vocab", vocab, 1, 16777216, "rows of the token embedding"),
    SIZE("decoder-seq", decoder_seq, 1, 4194304,
         "t5: tokens of a sample that the decoder makes (--seq: those that the encoder takes)"),
    SIZE("width", width, 1, 65536, "mlp: width of every layer (1024)"),
    SIZE("image", image, 32, 4096, "resnet, vit: pixels of a side (224)"),
    SIZE("patch", patch, 1, 4096, "vit: pixels of a patch's side"),
    REAL("expert-capacity", expert_capacity, "F",
        "each expert computes F times the even share of tokens, padded; 0: all tokens (0)"),
    SIZE("experts", experts, 1, LW_MOST_EXPERTS, "llama: experts of a block (the model's)"),
    SIZE("topk", topk, 1, LW_MOST_EXPERTS, "llama: experts that a token goes to"),
    SIZE("expert-ffn", expert_ffn, 1, 1048576, "llama: width inside an expert"),
    SIZE("shared-ffn", shared_ffn, 1, 1048576, "llama: width inside the expert of all tokens"),
    SIZE("dense-layers", dense_layers, 1, 4096, "llama: first blocks, which have no experts"),
    SIZE("mtp-layers", mtp_layers, 1, 4096, "llama: blocks that predict further tokens"),
    FLAG("whole-experts", expert_whole,
        "llama: a tensor group shares experts, and does not split each"),
    FLAG("experts-in-turn", experts_in_turn,
        "llama: a token's experts are those after the experts of the token before, as of a router "
        "that is balanced by counting (at random; --dispatch-once sends fewer copies then)"),
    FLAG("tied", tied, "the head's weights are the embedding's"),
    SIZE("head-width", head_width, 1, 65536, "llama: of every head (hidden / heads)"),
    SIZE("kv-lora", kv_lora, 1, 65536,
         "llama: latent attention: width of the product that keys and values are made of"),
    SIZE("q-lora", q_lora, 1, 65536, "latent attention: the same of queries (made of the input)"),
    SIZE("rope-width", rope_width, 1, 65536,
         "a head's rotated elements: with latent attention beside those of --head-width, else of "
         "them (all)"),
    SIZE("v-width", v_width, 1, 65536, "latent attention: of a head's values (--head-width)"),
    SIZE("positions", positions, 1, 4194304,
         "gpt, llama: rows of a learned table of positions, which llama has in place of rotation"),
    LAYERS("layer-pattern", layer_pattern,
           "hybrids: a letter for each layer: M state space, * attention, - two products, "
           "E experts"),
    SIZE("ssm-heads", ssm_heads, 1, 65536, "hybrids: heads of a state-space layer"),
    SIZE("ssm-head-width", ssm_head_width, 1, 65536, "hybrids: width of each of these heads"),
    SIZE("ssm-groups", ssm_groups, 1, 65536,
         "hybrids: groups of heads that share the state's input and output"),
    SIZE("ssm-state", ssm_state, 1, 65536, "hybrids: elements of a state for each of a head's"),
    SIZE("ssm-chunk", ssm_chunk, 16, 4096, "hybrids: tokens of a chunk of the scan"),
    SIZE("expert-latent", expert_latent, 1, 262144,
         "hybrids: width of the tokens that go to experts, by a product there and one back (none)"),
    FLAG("plain-ffn", plain_ffn, "llama: two products, and not a gated pair and one"),
    FLAG("layer-norm", layer_norm, "llama: norms with a bias, and not RMS norms"),
    FLAG("qk-norm", qk_norm, "llama: norms of each head's queries and keys"),
    FLAG("biases", biases, "llama: products of blocks have biases"),
    FLAG("dropout", dropout, "llama: of scores, of the embedding and after each half of a block"),
    FLAG("fused-loss", fused_loss, "the loss's steps are compiled into few kernels"),
    SIZE("head-waits", head_waits, 1, 65536,
         "transformers: micro-batches whose gradient of the head's weights waits for the last"),
    FLAG("serial-experts", expert_serial,
        "llama: memory of experts that are products of their own, not grouped ones"),
    FLAG("gathered-experts", expert_gathered,
        "llama: memory of expert ranks that gather all tokens, and exchange no copies"),
    FLAG("fused-permute", fused_permute,
        "llama: memory of fused kernels that order copies of tokens by expert, and back"),
    FLAG("f32-softmax", f32_softmax,
        "stored scores: the softmax's steps are kernels of their own, in f32"),
    FLAG("deterministic", deterministic,
        "kernels that give the same bits in every run: other ones, with other workspaces"),
    SIZE("lora", lora, 1, 262144,
         "llama: rank of adapters on attention's products: the rest is frozen"),
    WORD("attention", attention, attentions, "HOW",
         "scores stored or fused: full|flash (the model's)"),
    WORD("optimizer", optimizer, optimizers, "NAME", "sgd|momentum|adam|muon (the model's)"),
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

enum lw_status lw_model_word(int option, const char *value, const char **word, struct lw_err *err)
{
    const struct lw_model_option *o = &options[option];
    enum lw_dtype dtype;

    if (o->words == dtypes && lw_dtype_parse(value, &dtype, NULL) == LW_OK)
        value = lw_dtype_name(dtype); /* fp32, float32, ... */
    for (int i = 0; o->words[i]; i++)
        if (strcmp(value, o->words[i]) == 0) {
            *word = o->words[i];
            return LW_OK;
        }
    return lw_fail_word(err, o->name, value, o->words);
}

enum lw_status lw_model_layers(const char *value, char *to, struct lw_err *err)
{
    size_t n = strspn(value, "M*-E");

    if (value[n])
        return lw_fail(err, LW_EINVAL,
                       "letter %zu: found '%c', expected M (state space), * (attention), - (two "
                       "products), E (experts)", n + 1, value[n]);
    if (n == 0 || n >= LW_MODEL_LAYERS_SIZE)
        return lw_fail(err, LW_EINVAL, "found %zu layers, allowed: 1 to %d", n,
                       LW_MODEL_LAYERS_SIZE - 1);
    memset(to, 0, LW_MODEL_LAYERS_SIZE);
    memcpy(to, value, n);
    return LW_OK;
}

static enum lw_status parse(struct lw_model_request *r, int option, const char *value,
                            struct lw_err *err)
{
    void *to = field(r, option);

    switch (options[option].kind) {
    case LW_MODEL_INT:
        return lw_parse_int(value, options[option].least, options[option].most, to, err);
    case LW_MODEL_REAL:
        return parse_real(value, to, err);
    case LW_MODEL_FLAG:
        return parse_flag(value, to, err);
    case LW_MODEL_LAYERS:
        return lw_model_layers(value, to, err);
    case LW_MODEL_TEXT:
        break;
    }
    LW_TRY(lw_model_word(option, value, to, err));
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
    case LW_MODEL_LAYERS:
        return *(const char *)at != '\0';
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
        [LW_MODEL_LAYERS] = LW_MODEL_LAYERS_SIZE,
    };

    for (int i = 0; i < N_OPTIONS; i++)
        if (lw_model_given(given, i))
            memcpy(field(r, i), (const char *)given + options[i].at, sizes[options[i].kind]);
}
