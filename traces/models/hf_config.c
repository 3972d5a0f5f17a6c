/* Hugging Face config.json -> sizes. Only model types whose parameters a family here registers
 * exactly are taken (huggingface/transformers, src/transformers/models/<type>/configuration_*.py).
 * Blocks that predict further tokens (num_nextn_predict_layers) are left out, as there, and parts
 * for images and sounds beside a text_config: notes say so. */
#include "traces/models/hf_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json/json.h"
#include "shared/json/value.h"
#include "shared/numbers/dtype.h"
#include "traces/models/hf_decoders.h"
#include "traces/models/hf_experts.h"
#include "traces/models/hf_fields.h"
#include "traces/models/hf_hybrid.h"
#include "traces/models/hf_refused.h"
#include "traces/models/models_transformer.h"

#define AT(field) offsetof(struct traces_model_shape, field)
static const struct field {
    const char *keys[4]; /* as most spell it, and as others do */
    size_t at;
    bool needed, none; /* none: the optional number may be 0, where the model has no such part */
} fields[] = {
    {{"num_hidden_layers", "n_layer", "n_layers"}, AT(layers), true, false},
    {{"hidden_size", "n_embd", "n_embed", "d_model"}, AT(hidden), true, false},
    {{"num_attention_heads", "n_head", "n_heads"}, AT(heads), true, false},
    {{"num_key_value_heads"}, AT(kv_heads), false, false},
    {{"intermediate_size", "n_inner"}, AT(ffn), false, false},
    {{"vocab_size"}, AT(vocab), true, false},
    {{"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"}, AT(seq), true, false},
    {{"image_size"}, AT(image), false, false},
    {{"patch_size"}, AT(patch), false, false},
    {{"head_dim", "qk_nope_head_dim"}, AT(head_width), false, false},
    {{"q_lora_rank"}, AT(q_lora), false, true},
    {{"kv_lora_rank"}, AT(kv_lora), false, true},
    {{"qk_rope_head_dim"}, AT(rope_width), false, true},
    {{"v_head_dim"}, AT(v_width), false, true},
    {{"num_local_experts", "n_routed_experts"}, AT(experts), false, true},
    {{"num_experts", "moe_num_experts"}, AT(experts), false, true},
    {{"num_experts_per_tok", "experts_per_token", "moe_k"}, AT(topk), false, true},
    {{"n_group"}, AT(expert_groups), false, true},
    {{"topk_group"}, AT(topk_groups), false, true},
    {{"moe_intermediate_size"}, AT(expert_ffn), false, true},
    {{"first_k_dense_replace", "moe_layer_start_index"}, AT(dense_layers), false, true},
    {{"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"}, AT(expert_every),
     false, false},
};
#undef AT

/* What a type has beside its numbers. */
enum trait {
    TIED = 1,         /* where the file does not say */
    QK_NORM = 2,
    QKV_BIAS = 4,
    EXPERT_WIDTH = 8, /* intermediate_size is that of an expert */
    SHARED_SAME = 16, /* a shared expert is as wide as the others */
    GPT_OSS = 32,     /* biases everywhere; every second block attends to a window */
    LATENT = 64,      /* head_dim is left out: its parts are given */
    NO_TABLE = 128,   /* without max_position_embeddings: the family's usual sequence */
    IMAGES = 256,     /* image_size and patch_size in place of vocabulary and sequence */
    WINDOW = 512,     /* sliding_window holds of all blocks */
    WINDOW_ASKED = 1024, /* of all, with use_sliding_window */
    WINDOW_LATER = 2048, /* and but of the first max_window_layers */
    PARALLEL = 4096,     /* attention and the linear pair from one input */
    TIED_USUAL = 16384,  /* where the file does not say, and it may say otherwise */
    HEAD_256 = 32768,    /* head_dim where the file does not say; scores that may be capped */
    WINDOW_TURN = 65536, /* of all but each n-th block */
    HYBRID = 131072,     /* of attention and state spaces: hf_hybrid.c */
    BIAS_SAID = 524288,  /* attention_bias says whether queries, keys and values have biases */
    GLM = 8192, /* attention_bias and use_qk_norm say which it has; a part of a head is rotated */
};

static const struct type {
    const char *type, *model;
    unsigned traits;
} types[] = {
    {"llama", "decoder", 0},
    {"mistral", "decoder", WINDOW},
    {"qwen2", "decoder", QKV_BIAS | WINDOW_ASKED | WINDOW_LATER},
    {"qwen3", "decoder", QK_NORM | WINDOW_ASKED | WINDOW_LATER},
    {"mixtral", "decoder", EXPERT_WIDTH | WINDOW},
    {"qwen2_moe", "decoder", 0},
    {"qwen3_moe", "decoder", QK_NORM | WINDOW_ASKED},
    {"deepseek_v2", "decoder", LATENT},
    {"deepseek_v3", "decoder", LATENT},
    {"kimi_k2", "decoder", LATENT},
    {"gpt_oss", "decoder", EXPERT_WIDTH | GPT_OSS},
    {"glm4_moe", "decoder", GLM},
    {"llama4_text", "decoder", EXPERT_WIDTH | SHARED_SAME},
    {"gemma", "decoder", TIED_USUAL | HEAD_256},
    {"gemma3_text", "decoder", TIED_USUAL | HEAD_256 | QK_NORM | WINDOW_TURN},
    {"granite", "decoder", 0},
    {"olmo2", "decoder", 0},
    {"olmoe", "decoder", EXPERT_WIDTH},
    {"phi3", "decoder", WINDOW},
    {"starcoder2", "decoder", TIED_USUAL | WINDOW},
    {"gpt2", "gpt2", TIED},
    {"bert", "bert-base", TIED},
    {"bloom", "bloom-560m", TIED | NO_TABLE},
    {"mpt", "mpt-7b", TIED | NO_TABLE},
    {"gpt_neox", "gpt-neox-20b", PARALLEL},
    {"gptj", "gpt-j-6b", PARALLEL},
    {"falcon", "falcon-7b", TIED | NO_TABLE | PARALLEL},
    {"phi", "phi-2", PARALLEL},
    {"qwen3_next", "decoder", QK_NORM},
    {"qwen3_5_text", "decoder", QK_NORM},
    {"qwen3_5_moe_text", "decoder", QK_NORM},
    {"qwen2_vl_text", "decoder", QKV_BIAS | WINDOW_ASKED | WINDOW_LATER},
    {"qwen2_5_vl_text", "decoder", QKV_BIAS | WINDOW_ASKED | WINDOW_LATER},
    {"qwen3_vl_text", "decoder", QK_NORM},
    {"qwen3_vl_moe_text", "decoder", QK_NORM},
    {"glm4_moe_lite", "decoder", LATENT},
    {"minimax_m2", "decoder", EXPERT_WIDTH},
    {"olmo3", "decoder", WINDOW_TURN},
    {"seed_oss", "decoder", BIAS_SAID},
    {"hunyuan_v1_dense", "decoder", QK_NORM},
    {"ministral3", "decoder", WINDOW},
    {"ernie4_5", "decoder", TIED_USUAL},
    {"ernie4_5_moe", "decoder", TIED_USUAL},
    {"arcee", "decoder", 0},
    {"nemotron", "decoder", 0},
    {"nemotron_h", "nemotron-h-8b", HYBRID},
    {"vit", "vit-b-16", IMAGES},
};

static const struct type *find_type(const char *text)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (strcmp(types[k].type, text) == 0)
            return &types[k];
    return NULL;
}

/* A type's file does without some fields, and its model without the sizes. */
static bool is_needed(const struct field *f, const struct type *t)
{
    bool sequence = f->at == offsetof(struct traces_model_shape, seq);
    bool vocab = f->at == offsetof(struct traces_model_shape, vocab);
    bool layers = f->at == offsetof(struct traces_model_shape, layers);

    return f->needed && !(t->traits & NO_TABLE && sequence) && !(t->traits & HYBRID && layers) &&
           !(t->traits & IMAGES && (sequence || vocab));
}

static enum lw_status take_field(const struct lw_input *in, const struct lw_value *v,
                                 const struct field *f, const struct type *t,
                                 struct traces_model_shape *shape, struct lw_err *err)
{
    int64_t *to = (int64_t *)((char *)shape + f->at), found = 0;
    bool image = f->at == offsetof(struct traces_model_shape, image) ||
                 f->at == offsetof(struct traces_model_shape, patch);

    if (image != ((t->traits & IMAGES) != 0) && (image || (f->needed && !is_needed(f, t))))
        return LW_OK;
    for (size_t k = 0; k < sizeof f->keys / sizeof *f->keys && f->keys[k] && !found; k++)
        LW_TRY(traces_hf_number(in, v, f->keys[k], !f->none, &found, err));
    if (is_needed(f, t) && !found)
        return lw_fail(err, LW_EFORMAT, "%s: no '%s': is this a model's config.json?", in->name,
                       f->keys[0]);
    *to = *to ? *to : found;
    return LW_OK;
}

/* A factor of the even share: an option, else Megatron's name for it or GShard's; null is none. */
static enum lw_status take_capacity(const struct lw_input *in, const struct lw_value *v,
                                    struct traces_model_shape *s, struct lw_err *err)
{
    static const char *const keys[] = {"moe_expert_capacity_factor", "capacity_factor"};

    for (size_t k = 0; k < sizeof keys / sizeof *keys && s->expert_capacity == 0; k++) {
        const struct lw_value *f = lw_value_get(v, keys[k]);
        if (!f || f->type == LW_JSON_NULL)
            continue;
        s->expert_capacity = f->type == LW_JSON_NUMBER ? strtod(f->text, NULL) : 0;
        if (!(s->expert_capacity > 0))
            return lw_fail(err, LW_EFORMAT, "%s: %s: expected a number above 0, or null", in->name,
                           keys[k]);
    }
    return LW_OK;
}

/* "torch_dtype", or "dtype" as files since transformers 4.56 have it: of parameters and
 * activations where no option says. */
static enum lw_status take_dtype(const struct lw_input *in, const struct lw_value *v,
                                 struct traces_model_shape *shape, struct lw_err *err)
{
    static const char *const keys[] = {"torch_dtype", "dtype"};

    for (size_t k = 0; k < sizeof keys / sizeof *keys && !shape->dtype; k++) {
        const struct lw_value *f = lw_value_get(v, keys[k]);
        enum lw_dtype t = LW_I64;
        char found[64];
        if (!f || f->type == LW_JSON_NULL)
            continue;
        if (f->type == LW_JSON_STRING && lw_dtype_parse(f->text, &t, NULL) != LW_OK)
            t = LW_I64;
        if (t != LW_F32 && t != LW_BF16 && t != LW_F16)
            return lw_fail(err, f->type == LW_JSON_STRING ? LW_ENOTSUP : LW_EFORMAT,
                           "%s: %s: found %s, allowed: \"float32\", \"bfloat16\", \"float16\"; "
                           "--dtype TYPE takes precedence",
                           in->name, keys[k], traces_hf_written(f, found, sizeof found));
        shape->dtype = lw_dtype_name(t);
    }
    return LW_OK;
}

/* Weights that are published in fewer bits than they are trained in; other methods are those of
 * models that are not trained so. With --dtype all are trained whole. */
static const char *stored_as(const struct lw_value *method)
{
    static const char *const known[] = {"fp8", "mxfp4"};

    for (size_t i = 0; method && i < sizeof known / sizeof *known; i++)
        if (method->type == LW_JSON_STRING && strcmp(method->text, known[i]) == 0)
            return known[i];
    return NULL;
}

static enum lw_status take_quantized(const struct lw_input *in, const struct lw_value *v,
                                     bool typed, struct traces_model_shape *shape,
                                     struct lw_err *err)
{
    const struct lw_value *quantized, *method;
    char found[64];

    LW_TRY(traces_hf_items(in, v, "quantization_config", LW_JSON_OBJECT, &quantized, err));
    if (!quantized || typed)
        return LW_OK;
    method = lw_value_get(quantized, "quant_method");
    shape->stored_as = stored_as(method);
    if (shape->stored_as)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "%s: quantization_config: found %s%s, allowed: fp8, mxfp4 (weights of fewer "
                   "bits are not modelled: --dtype TYPE takes whole ones)",
                   in->name, method ? "quant_method " : "no quant_method",
                   method ? traces_hf_written(method, found, sizeof found) : "");
}

/* Llama 4 lists the blocks that have experts. */
static enum lw_status check_listed(const struct lw_input *in, const struct lw_value *v,
                                   const struct traces_model_shape *s, struct lw_err *err)
{
    const struct lw_value *list;

    LW_TRY(traces_hf_items(in, v, "moe_layers", LW_JSON_ARRAY, &list, err));
    if (!list)
        return LW_OK;
    for (int64_t block = 0; block < s->layers; block++) {
        bool listed = false;
        for (int32_t k = 0; k < list->n; k++) {
            const struct lw_value *item = &list->items[k];
            int64_t found = -1;
            if (item->type != LW_JSON_NUMBER ||
                lw_parse_int(item->text, 0, s->layers - 1, &found, NULL) != LW_OK)
                return lw_fail(err, LW_EFORMAT, "%s: moe_layers: expected blocks from 0 to %lld",
                               in->name, (long long)s->layers - 1);
            listed = listed || found == block;
        }
        if (listed != llama_has_experts(s, block))
            return lw_fail(err, LW_ENOTSUP,
                           "%s: moe_layers: block %lld is %s; interleave_moe_layer_step gives %s",
                           in->name, (long long)block, listed ? "listed" : "not listed",
                           listed ? "a dense block" : "experts");
    }
    return LW_OK;
}

static enum lw_status check_exact(const struct lw_input *in, const struct lw_value *v,
                                  const struct type *t, struct lw_err *err)
{
    const struct lw_value *dense;
    bool attention, mlp, tied;
    int64_t every;

    LW_TRY(traces_hf_items(in, v, "mlp_only_layers", LW_JSON_ARRAY, &dense, err));
    LW_TRY(traces_hf_flag(in, v, "attention_bias", false, &attention, err));
    LW_TRY(traces_hf_flag(in, v, "mlp_bias", false, &mlp, err));
    LW_TRY(traces_hf_flag(in, v, "tie_word_embeddings", t->traits & TIED, &tied, err));
    if (t->traits & TIED && !tied)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: tie_word_embeddings: found false, allowed: true (the head of "
                       "model_type %s is its embedding)", in->name, t->type);
    LW_TRY(traces_hf_number(in, v, "moe_layer_freq", 1, &every, err));
    if (every > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: moe_layer_freq: found %lld, allowed: 1 (experts in every block after "
                       "first_k_dense_replace)", in->name, (long long)every);
    if ((attention && !(t->traits & (GPT_OSS | PARALLEL | GLM | BIAS_SAID))) || mlp)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: attention_bias, mlp_bias: biases of this family are not "
                       "modelled",
                       in->name);
    if (dense && dense->n > 0)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: mlp_only_layers: blocks without experts are modelled at the beginning "
                       "(first_k_dense_replace) and in turn (decoder_sparse_step) only", in->name);
    return LW_OK;
}

/* Of MPT a gated or grouped form, of ViT another classifier than that of 1000 classes. */
static enum lw_status check_family(const struct lw_input *in, const struct lw_value *v,
                                   const struct type *t, const struct traces_model_shape *s,
                                   struct lw_err *err)
{
    const struct lw_value *attention, *labels;
    bool alibi = true, norms = false, plain = true;
    int64_t ratio = 0, kv = 0;

    LW_TRY(traces_hf_items(in, v, "id2label", LW_JSON_OBJECT, &labels, err));
    if (labels && t->traits & IMAGES && labels->n != TRACES_N_LABELS)
        return lw_fail(err, LW_ENOTSUP, "%s: id2label: found %d classes, allowed: %d", in->name,
                       labels->n, TRACES_N_LABELS);
    if (strcmp(t->type, "mpt") != 0)
        return LW_OK;
    LW_TRY(traces_hf_number(in, v, "expansion_ratio", 1, &ratio, err));
    LW_TRY(traces_hf_flag(in, v, "no_bias", true, &plain, err));
    LW_TRY(traces_hf_items(in, v, "attn_config", LW_JSON_OBJECT, &attention, err));
    if (attention) {
        LW_TRY(traces_hf_number(in, attention, "kv_n_heads", 1, &kv, err));
        LW_TRY(traces_hf_flag(in, attention, "alibi", true, &alibi, err));
        LW_TRY(traces_hf_flag(in, attention, "qk_ln", false, &norms, err));
    }
    if (ratio > 0 && ratio != 4)
        return lw_fail(err, LW_ENOTSUP, "%s: expansion_ratio: found %lld, allowed: 4", in->name,
                       (long long)ratio);
    if (!alibi || norms || (kv > 0 && kv != s->heads) || !plain)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: attn_config, no_bias: allowed are ALiBi without norms of queries, as "
                       "many heads of keys as of queries, and no biases", in->name);
    return LW_OK;
}

/* Without experts, a file's sizes of them say nothing. */
static void leave_experts(const struct traces_model_shape *given, struct traces_model_shape *s)
{
    s->topk = given->topk;
    s->expert_ffn = given->expert_ffn;
    s->shared_ffn = given->shared_ffn;
    s->dense_layers = given->dense_layers;
    s->expert_every = given->expert_every;
    s->expert_groups = given->expert_groups;
    s->topk_groups = given->topk_groups;
}

/* Hybrids whose layers have no experts leave these sizes out; the head's weights may be tied. */
static enum lw_status complete_hybrid(const struct lw_input *in, const struct lw_value *v,
                                      const struct traces_model_shape *given,
                                      struct traces_model_shape *s, struct lw_err *err)
{
    bool tied;

    LW_TRY(traces_hf_hybrid(in, v, given, s, err));
    LW_TRY(traces_hf_flag(in, v, "tie_word_embeddings", false, &tied, err));
    s->tied = given->tied || tied;
    if (strchr(s->layer_pattern, 'E') || s->mtp_layers > 0)
        return take_capacity(in, v, s, err);
    leave_experts(given, s);
    s->experts = given->experts;
    s->expert_latent = given->expert_latent;
    return LW_OK;
}

/* Of another family than the decoder, which has as many heads of keys as of queries. */
static void leave_decoder(const struct traces_model_shape *given, struct traces_model_shape *s)
{
    leave_experts(given, s);
    s->experts = given->experts;
    s->kv_heads = given->kv_heads;
    s->head_width = 0;
}

/* Widths of the blocks without experts, of an expert and of the shared one; options (`given`) take
 * precedence. */
static void complete_widths(const struct type *t, int64_t n_shared, int64_t dense,
                            const struct traces_model_shape *given, struct traces_model_shape *s)
{
    if (t->traits & EXPERT_WIDTH && !given->expert_ffn)
        s->expert_ffn = s->ffn;
    if (dense && !given->ffn)
        s->ffn = dense;
    if (!given->shared_ffn)
        s->shared_ffn = t->traits & SHARED_SAME ? s->expert_ffn : n_shared * s->expert_ffn;
}

/* Files name each of their blocks; --layers takes more or fewer of them. */
static enum lw_status check_n_types(const struct lw_input *in, const struct lw_value *v,
                                    const struct lw_value *list, struct lw_err *err)
{
    int64_t stated;

    LW_TRY(traces_hf_number(in, v, "num_hidden_layers", 1, &stated, err));
    if (list->n == stated || stated == 0)
        return LW_OK;
    return lw_fail(err, LW_EFORMAT,
                   "%s: layer_types: found %d, allowed: %lld, the blocks (num_hidden_layers)",
                   in->name, list->n, (long long)stated);
}

/* Of a file without sliding_window (huggingface/transformers@008f5c8c, models/gemma3,
 * Gemma3TextConfig; @001f85b3, models/mistral; @02b8f42b, models/gpt_oss; @008e5743, models/qwen2,
 * qwen3 and qwen3_moe); null is none, and absent is none of mixtral, phi3 and starcoder2. */
static int64_t usual_window(const struct type *t)
{
    enum { GEMMA_MISTRAL_QWEN = 4096, GPT = 128 };

    if (t->traits & GPT_OSS)
        return GPT;
    if (t->traits & (WINDOW_TURN | WINDOW_ASKED) || strcmp(t->type, "mistral") == 0)
        return GEMMA_MISTRAL_QWEN;
    return 0;
}

/* "layer_types": which one of so many blocks attends to all tokens: layers + 1 = none, 1 =
 * all. */
static enum lw_status take_layer_types(const struct lw_input *in, const struct lw_value *list,
                                       int64_t layers, int64_t *every, struct lw_err *err)
{
    int64_t first = list->n, n_full = 0;

    for (int32_t k = 0; k < list->n; k++) {
        const struct lw_value *f = &list->items[k];
        bool full = f->type == LW_JSON_STRING && strcmp(f->text, "full_attention") == 0;
        char found[64];
        if (!full && (f->type != LW_JSON_STRING || strcmp(f->text, "sliding_attention") != 0))
            return lw_fail(err, LW_ENOTSUP,
                           "%s: layer_types: block %d is %s, allowed: \"full_attention\", "
                           "\"sliding_attention\"",
                           in->name, k, traces_hf_written(f, found, sizeof found));
        first = full && k < first ? k : first;
        n_full += full;
    }
    *every = n_full == 0 ? layers + 1 : first + 1;
    for (int32_t k = 0; k < list->n; k++)
        if ((strcmp(list->items[k].text, "full_attention") == 0) != ((k + 1) % *every == 0))
            return lw_fail(err, LW_ENOTSUP,
                           "%s: layer_types: block %d breaks the turn: blocks that attend to a "
                           "window are modelled where each n-th block attends to all tokens",
                           in->name, k);
    return LW_OK;
}

/* Gemma 3: each n-th block attends to all tokens (huggingface/transformers@008f5c8c,
 * models/gemma3/configuration_gemma3.py). */
static enum lw_status take_turn(const struct lw_input *in, const struct lw_value *v,
                                const struct type *t, int64_t *every, struct lw_err *err)
{
    enum { OF_GEMMA = 6, OF_OLMO = 4 };

    LW_TRY(traces_hf_number(in, v, "sliding_window_pattern", 1, every, err));
    if (*every == 0)
        LW_TRY(traces_hf_number(in, v, "_sliding_window_pattern", 1, every, err));
    *every = *every > 0 ? *every : strcmp(t->type, "olmo3") == 0 ? OF_OLMO : OF_GEMMA;
    return LW_OK;
}

/* Of a file without max_window_layers (huggingface/transformers@008e5743, Qwen2Config and
 * Qwen3Config; Qwen3MoeConfig has no such field). */
enum { FULL_BLOCKS = 28 };

static enum lw_status check_chunk(const struct lw_input *in, const struct lw_value *v,
                                  const struct traces_model_shape *s, struct lw_err *err)
{
    int64_t chunk;

    LW_TRY(traces_hf_number(in, v, "attention_chunk_size", 0, &chunk, err));
    if (chunk > 0 && chunk < s->seq)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: attention_chunk_size: found %lld, allowed: the sequence, %lld, or more "
                       "(attention in chunks is not modelled: --seq %lld or less)",
                       in->name, (long long)chunk, (long long)s->seq, (long long)chunk);
    return LW_OK;
}

/* Windows shorter than the sequence: of all blocks (mistral, mixtral), of those that layer_types
 * names, of every second (gpt_oss), of none unless use_sliding_window says so (qwen). */
static enum lw_status take_windows(const struct lw_input *in, const struct lw_value *v,
                                   const struct type *t, struct traces_model_shape *s,
                                   struct lw_err *err)
{
    const struct lw_value *list;
    const struct lw_value *given = lw_value_get(v, "max_window_layers");
    int64_t window, from = 0;
    bool used;

    LW_TRY(check_chunk(in, v, s, err));
    LW_TRY(traces_hf_number(in, v, "sliding_window", 0, &window, err));
    window = lw_value_get(v, "sliding_window") ? window : usual_window(t);
    LW_TRY(traces_hf_flag(in, v, "use_sliding_window", !(t->traits & WINDOW_ASKED), &used, err));
    LW_TRY(traces_hf_items(in, v, "layer_types", LW_JSON_ARRAY, &list, err));
    if (!(t->traits & (WINDOW | WINDOW_ASKED | WINDOW_TURN | GPT_OSS)))
        return LW_OK;
    if (list)
        LW_TRY(check_n_types(in, v, list, err));
    if (!used || window == 0 || window >= s->seq)
        return LW_OK;
    s->window = window;
    if (t->traits & WINDOW_TURN && !list)
        return take_turn(in, v, t, &s->window_every, err);
    if (list)
        return take_layer_types(in, list, s->layers, &s->window_every, err);
    if (t->traits & GPT_OSS)
        return LW_OK;
    s->window_every = s->layers + 1;
    if (t->traits & WINDOW_LATER) {
        LW_TRY(traces_hf_number(in, v, "max_window_layers", 0, &from, err));
        from = given && given->type != LW_JSON_NULL ? from : FULL_BLOCKS;
    }
    if (from >= s->layers)
        s->window = s->window_every = 0;
    else if (from > 0)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: max_window_layers: found %lld, allowed: 0, or the %lld blocks (windows "
                       "of the later blocks alone are not modelled: --seq %lld or less)",
                       in->name, (long long)from, (long long)s->layers, (long long)window);
    return LW_OK;
}

/* huggingface/transformers, src/transformers/models/glm4_moe/configuration_glm4_moe.py: what a file
 * leaves out. */
static enum lw_status complete_glm(const struct lw_input *in, const struct lw_value *v,
                                   const struct traces_model_shape *given,
                                   struct traces_model_shape *s, struct lw_err *err)
{
    LW_TRY(traces_hf_flag(in, v, "attention_bias", false, &s->qkv_bias, err));
    LW_TRY(traces_hf_flag(in, v, "use_qk_norm", false, &s->qk_norm, err));
    LW_TRY(traces_hf_rotation(in, v, "partial_rotary_factor", 0.5, s, err));
    s->rope_width = given->rope_width ? given->rope_width : s->rope_width;
    return LW_OK;
}

/* Sizes that follow from others, by type. */
static enum lw_status complete(const struct lw_input *in, const struct lw_value *v,
                               const struct type *t, const struct traces_model_shape *given,
                               struct traces_model_shape *s, struct lw_err *err)
{
    int64_t shared, dense;
    bool tied;

    LW_TRY(traces_hf_number(in, v, "n_shared_experts", 0, &shared, err));
    LW_TRY(traces_hf_number(in, v, "intermediate_size_mlp", 0, &dense, err));
    LW_TRY(traces_hf_number(in, v, "num_nextn_predict_layers", 0, &s->mtp_stated, err));
    LW_TRY(take_windows(in, v, t, s, err));
    if (t->traits & LATENT)
        LW_TRY(traces_hf_number(in, v, "qk_nope_head_dim", 1, &s->head_width, err));
    complete_widths(t, shared, dense, given, s);
    s->qk_norm = t->traits & QK_NORM;
    s->qkv_bias = t->traits & QKV_BIAS;
    s->expert_bias = t->traits & GPT_OSS;
    if (t->traits & GLM)
        LW_TRY(complete_glm(in, v, given, s, err));
    if (s->experts > 0)
        LW_TRY(take_capacity(in, v, s, err));
    else
        leave_experts(given, s);
    LW_TRY(traces_hf_flag(in, v, "tie_word_embeddings", t->traits & TIED_USUAL, &tied, err));
    s->tied = given->tied || tied;
    return check_listed(in, v, s, err);
}

/* Falcon's blocks: one head of keys and values and one norm, or as many as the file says and a norm
 * for each half. */
static enum lw_status complete_falcon(const struct lw_input *in, const struct lw_value *v,
                                      const struct type *t, const char **name,
                                      struct traces_model_shape *s, struct lw_err *err)
{
    int64_t norms, kv;
    bool two, one_head;

    LW_TRY(traces_hf_need_flag(in, v, t->type, "parallel_attn", true, true, err));
    LW_TRY(traces_hf_need_flag(in, v, t->type, "alibi", false, false, err));
    LW_TRY(traces_hf_need_flag(in, v, t->type, "bias", false, false, err));
    LW_TRY(traces_hf_flag(in, v, "new_decoder_architecture", false, &two, err));
    LW_TRY(traces_hf_flag(in, v, "multi_query", true, &one_head, err));
    LW_TRY(traces_hf_number(in, v, "num_kv_heads", 1, &kv, err));
    LW_TRY(traces_hf_number(in, v, "num_ln_in_parallel_attn", 1, &norms, err));
    LW_TRY(traces_hf_number(in, v, "ffn_hidden_size", 1, &s->ffn, err));
    *name = two && norms != 1 ? "falcon-40b" : "falcon-7b";
    s->kv_heads = !two && one_head ? 1 : kv ? kv : s->heads;
    return LW_OK;
}

/* Of types with parallel blocks; `given`: options, which take precedence. */
static enum lw_status complete_parallel(const struct lw_input *in, const struct lw_value *v,
                                        const struct type *t,
                                        const struct traces_model_shape *given, const char **name,
                                        struct traces_model_shape *s, struct lw_err *err)
{
    bool tied;

    s->kv_heads = given->kv_heads;
    if (strcmp(t->type, "falcon") == 0) {
        LW_TRY(complete_falcon(in, v, t, name, s, err));
    } else if (strcmp(t->type, "gpt_neox") == 0) {
        LW_TRY(traces_hf_need_flag(in, v, t->type, "use_parallel_residual", true, true, err));
        LW_TRY(traces_hf_need_flag(in, v, t->type, "attention_bias", true, true, err));
        LW_TRY(traces_hf_rotation(in, v, "rotary_pct", 0.25, s, err));
    } else if (strcmp(t->type, "gptj") == 0) {
        LW_TRY(traces_hf_number(in, v, "rotary_dim", 1, &s->rope_width, err));
    } else {
        LW_TRY(traces_hf_need_flag(in, v, t->type, "qk_layernorm", false, false, err));
        LW_TRY(traces_hf_number(in, v, "num_key_value_heads", 1, &s->kv_heads, err));
        LW_TRY(traces_hf_rotation(in, v, "partial_rotary_factor", 0.5, s, err));
        s->kv_heads = s->kv_heads ? s->kv_heads : s->heads;
    }
    s->kv_heads = given->kv_heads ? given->kv_heads : s->kv_heads;
    s->ffn = given->ffn ? given->ffn : s->ffn;
    s->rope_width = given->rope_width ? given->rope_width : s->rope_width;
    LW_TRY(traces_hf_flag(in, v, "tie_word_embeddings", t->traits & TIED, &tied, err));
    s->tied = given->tied || tied;
    return LW_OK;
}

static enum lw_status unknown_type(const struct lw_input *in, const char *found, struct lw_err *err)
{
    const char *why = traces_hf_refused(found);
    char all[600] = "";

    if (why)
        return lw_fail(err, LW_ENOTSUP, "%s: model_type '%s' is not modelled: %s; import a "
                       "recording of it (lapwing import)", in->name, found, why);
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        lw_err_word(all, sizeof all, types[k].type);
    return lw_fail(err, LW_ENOTSUP,
                   "%s: model_type '%.40s' is not modelled; known: %s; import a recording of "
                   "another (lapwing import)", in->name, found, all);
}

/* Parts for images, sounds or moving images that stand beside the text's. */
static const char *beside_text(const struct lw_value *outer)
{
    static const char *const parts[] = {"vision_config", "audio_config", "video_config"};

    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (lw_value_get(outer, parts[k]))
            return parts[k];
    return NULL;
}

/* The values of a text model and, beside them or the same, those of the whole file. */
struct config {
    const struct lw_input *in, *whole;
    const struct lw_value *v, *outer;
};

static enum lw_status read_text(const struct config *c, const char **name,
                                struct traces_model_shape *shape, struct lw_err *err)
{
    const struct traces_model_shape given = *shape;
    const struct lw_input *in = c->in;
    const struct lw_value *v = c->v;
    const struct lw_value *text = lw_value_get(v, "model_type");
    const struct type *t = text && text->type == LW_JSON_STRING ? find_type(text->text) : NULL;

    if (!text || text->type != LW_JSON_STRING)
        return lw_fail(err, LW_EFORMAT, "%s: no 'model_type': is this a model's config.json?",
                       in->name);
    if (!t)
        return unknown_type(in, text->text, err);
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        LW_TRY(take_field(in, v, &fields[k], t, shape, err));
    LW_TRY(take_quantized(in, v, given.dtype != NULL, shape, err));
    LW_TRY(take_quantized(c->whole, c->outer, given.dtype != NULL, shape, err));
    LW_TRY(take_dtype(in, v, shape, err));
    LW_TRY(take_dtype(c->whole, c->outer, shape, err));
    LW_TRY(check_exact(in, v, t, err));
    if (strcmp(t->model, "decoder") == 0) {
        LW_TRY(complete(in, v, t, &given, shape, err));
        LW_TRY(traces_hf_decoder(in, v, t->type, &given, shape, err));
        LW_TRY(traces_hf_experts(in, v, t->type, &given, shape, err));
    } else if (t->traits & HYBRID) {
        LW_TRY(complete_hybrid(in, v, &given, shape, err));
    } else {
        leave_decoder(&given, shape);
    }
    LW_TRY(check_family(in, v, t, shape, err));
    *name = t->model;
    if (t->traits & PARALLEL)
        LW_TRY(complete_parallel(in, v, t, &given, name, shape, err));
    return LW_OK;
}

static enum lw_status read_config(const struct lw_input *in, const struct lw_value *v,
                                  const char **name, struct traces_model_shape *shape,
                                  struct lw_err *err)
{
    struct lw_input inside = *in;
    const struct lw_value *inner;
    char place[256];

    LW_TRY(traces_hf_items(in, v, "text_config", LW_JSON_OBJECT, &inner, err));
    snprintf(place, sizeof place, "%.200s: text_config", in->name);
    inside.name = place; /* of messages alone */
    shape->text_beside = inner ? beside_text(v) : NULL;
    return read_text(&(struct config){inner ? &inside : in, in, inner ? inner : v, v}, name, shape,
                     err);
}

static enum lw_status read_value(const struct lw_input *in, struct lw_arena *arena,
                                 struct lw_value *v, struct lw_err *err)
{
    struct lw_json *j;

    LW_TRY(lw_json_open(in->name, in->text, in->len, &j, err));
    enum lw_status s = lw_value_read(j, arena, v, err);
    lw_json_close(j);
    if (s == LW_OK && v->type != LW_JSON_OBJECT)
        s = lw_fail(err, LW_EFORMAT, "%s: expected an object", in->name);
    return s;
}

enum lw_status traces_hf_config(const struct lw_input *in, const char **name,
                                struct traces_model_shape *shape, struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct lw_value v = {.type = LW_JSON_NULL};
    enum lw_status s = read_value(in, &arena, &v, err);

    if (s == LW_OK)
        s = read_config(in, &v, name, shape, err);
    lw_arena_free(&arena);
    return s;
}

bool traces_is_hf_config(const struct lw_input *in)
{
    struct lw_arena arena = {0};
    struct lw_value v = {.type = LW_JSON_NULL};
    bool is = read_value(in, &arena, &v, NULL) == LW_OK &&
              (lw_value_get(&v, "model_type") || lw_value_get(&v, "text_config"));

    lw_arena_free(&arena);
    return is;
}
