/* Hugging Face config.json -> sizes. Only model types whose parameters a family here registers
 * exactly are taken (huggingface/transformers, src/transformers/models/<type>/configuration_*.py);
 * experts, biases of some layers and norms of queries and keys are refused by name. */
#include "traces/models/hf_config.h"

#include <stddef.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"
#include "shared/json/value.h"

#define AT(field) offsetof(struct traces_model_shape, field)
static const struct field {
    const char *key, *other; /* as Llama and as GPT-2 spell it */
    size_t at;
    bool needed;
} fields[] = {
    {"num_hidden_layers", "n_layer", AT(layers), true},
    {"hidden_size", "n_embd", AT(hidden), true},
    {"num_attention_heads", "n_head", AT(heads), true},
    {"num_key_value_heads", NULL, AT(kv_heads), false},
    {"intermediate_size", "n_inner", AT(ffn), false},
    {"vocab_size", NULL, AT(vocab), true},
    {"max_position_embeddings", "n_positions", AT(seq), true},
};
#undef AT

static const struct type {
    const char *type, *model; /* model NULL: refused */
    const char *why;
    bool tied;                /* where the file does not say */
} types[] = {
    {"llama", "llama-2-7b", NULL, false},
    {"mistral", "llama-2-7b", NULL, false},
    {"gpt2", "gpt2", NULL, true},
    {"bert", "bert-base", NULL, true},
    {"qwen2", NULL, "biases of queries, keys and values are not modelled", false},
    {"qwen3", NULL, "norms of queries and keys are not modelled", false},
    {"mixtral", NULL, "experts are not modelled", false},
    {"qwen3_moe", NULL, "experts are not modelled", false},
    {"deepseek_v2", NULL, "experts and latent attention are not modelled", false},
    {"deepseek_v3", NULL, "experts and latent attention are not modelled", false},
};

static const struct type *find_type(const char *text)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (strcmp(types[k].type, text) == 0)
            return &types[k];
    return NULL;
}

/* A whole number; null and absent are 0. */
static enum lw_status take(const struct lw_input *in, const struct lw_value *v, const char *key,
                           int64_t *out, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(v, key);
    int64_t found;

    *out = 0;
    if (!f || f->type == LW_JSON_NULL)
        return LW_OK;
    if (f->type != LW_JSON_NUMBER || lw_parse_int(f->text, 1, 1 << 24, &found, NULL) != LW_OK)
        return lw_fail(err, LW_EFORMAT, "%s: %s: expected a whole number from 1 to %d", in->name,
                       key, 1 << 24);
    *out = found;
    return LW_OK;
}

static enum lw_status take_field(const struct lw_input *in, const struct lw_value *v,
                                 const struct field *f, struct traces_model_shape *shape,
                                 struct lw_err *err)
{
    int64_t *to = (int64_t *)((char *)shape + f->at), found, other = 0;

    LW_TRY(take(in, v, f->key, &found, err));
    if (f->other)
        LW_TRY(take(in, v, f->other, &other, err));
    found = found ? found : other;
    if (f->needed && !found)
        return lw_fail(err, LW_EFORMAT, "%s: no '%s': is this a model's config.json?", in->name,
                       f->key);
    *to = *to ? *to : found;
    return LW_OK;
}

static bool is_true(const struct lw_value *v, const char *key, bool otherwise)
{
    const struct lw_value *f = lw_value_get(v, key);

    return f && f->type == LW_JSON_BOOL ? f->truth : otherwise;
}

/* Where the width of a head is given, it must be what hidden size and heads make. */
static enum lw_status check_heads(const struct lw_input *in, const struct lw_value *v,
                                  const struct traces_model_shape *s, struct lw_err *err)
{
    int64_t width;

    LW_TRY(take(in, v, "head_dim", &width, err));
    if (width && width * s->heads != s->hidden)
        return lw_fail(err, LW_ENOTSUP, "%s: head_dim: heads of another width than hidden_size / "
                                        "num_attention_heads are not modelled", in->name);
    if (is_true(v, "attention_bias", false) || is_true(v, "mlp_bias", false))
        return lw_fail(err, LW_ENOTSUP,
                       "%s: attention_bias, mlp_bias: biases of this family are not "
                       "modelled",
                       in->name);
    return LW_OK;
}

static enum lw_status read_config(const struct lw_input *in, const struct lw_value *v,
                                  const char **name, struct traces_model_shape *shape,
                                  struct lw_err *err)
{
    const struct lw_value *text = lw_value_get(v, "model_type");
    const struct type *t = text && text->type == LW_JSON_STRING ? find_type(text->text) : NULL;

    if (!text || text->type != LW_JSON_STRING)
        return lw_fail(err, LW_EFORMAT, "%s: no 'model_type': is this a model's config.json?",
                       in->name);
    if (!t)
        return lw_fail(err, LW_ENOTSUP, "%s: model_type '%.40s' is not modelled; known: llama, "
                                        "mistral, gpt2, bert", in->name, text->text);
    if (!t->model)
        return lw_fail(err, LW_ENOTSUP, "%s: model_type '%s': %s", in->name, t->type, t->why);
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        LW_TRY(take_field(in, v, &fields[k], shape, err));
    LW_TRY(check_heads(in, v, shape, err));
    bool llama = strncmp(t->model, "llama", 5) == 0;
    shape->tied = llama && is_true(v, "tie_word_embeddings", t->tied);
    if (!llama)
        shape->kv_heads = 0;
    *name = t->model;
    return LW_OK;
}

enum lw_status traces_hf_config(const struct lw_input *in, const char **name,
                                struct traces_model_shape *shape, struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct lw_value v = {.type = LW_JSON_NULL};
    struct lw_json *j;

    LW_TRY(lw_json_open(in->name, in->text, in->len, &j, err));
    enum lw_status s = lw_value_read(j, &arena, &v, err);
    lw_json_close(j);
    if (s == LW_OK && v.type != LW_JSON_OBJECT)
        s = lw_fail(err, LW_EFORMAT, "%s: expected an object", in->name);
    if (s == LW_OK)
        s = read_config(in, &v, name, shape, err);
    lw_arena_free(&arena);
    return s;
}
