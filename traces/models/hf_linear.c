/* config.json of model_type qwen3_next, qwen3_5_text and qwen3_5_moe_text: blocks whose attention
 * is a gated delta net. Fields and what a file may leave out are those of their configurations
 * (huggingface/transformers 5.24.0, models/qwen3_next/configuration_qwen3_next.py and models/
 * qwen3_5, qwen3_5_moe). */
#include "traces/models/hf_linear.h"

#include <stddef.h>
#include <string.h>

#include "traces/models/hf_fields.h"
#include "traces/models/models_ssm.h"

/* "layer_types": each every-th block attends to all tokens, and no other; layers + 1: none does. */
static enum lw_status take_list(const struct lw_input *in, const struct lw_value *v,
                                const struct lw_value *list, int64_t *every, struct lw_err *err)
{
    int64_t stated, first = list->n;
    char found[64];

    LW_TRY(traces_hf_number(in, v, "num_hidden_layers", 1, &stated, err));
    if (list->n != stated)
        return lw_fail(err, LW_EFORMAT,
                       "%s: layer_types: found %d, allowed: %lld, the blocks (num_hidden_layers)",
                       in->name, list->n, (long long)stated);
    for (int32_t k = list->n - 1; k >= 0; k--) {
        const struct lw_value *f = &list->items[k];
        bool full = f->type == LW_JSON_STRING && strcmp(f->text, "full_attention") == 0;
        if (!full && (f->type != LW_JSON_STRING || strcmp(f->text, "linear_attention") != 0))
            return lw_fail(err, LW_ENOTSUP,
                           "%s: layer_types: block %d is %s, allowed: \"full_attention\", "
                           "\"linear_attention\"", in->name, k,
                           traces_hf_written(f, found, sizeof found));
        first = full ? k : first;
    }
    *every = first + 1;
    for (int32_t k = 0; k < list->n; k++)
        if ((strcmp(list->items[k].text, "full_attention") == 0) != ((k + 1) % *every == 0))
            return lw_fail(err, LW_ENOTSUP,
                           "%s: layer_types: block %d breaks the turn: linear attention is "
                           "modelled where each n-th block attends to all tokens", in->name, k);
    return LW_OK;
}

static enum lw_status take_turn(const struct lw_input *in, const struct lw_value *v,
                                struct traces_model_shape *s, struct lw_err *err)
{
    const struct lw_value *list;
    int64_t every;

    LW_TRY(traces_hf_items(in, v, "layer_types", LW_JSON_ARRAY, &list, err));
    LW_TRY(traces_hf_number(in, v, "full_attention_interval", 1, &every, err));
    s->linear_every = every > 0 ? every : 4;
    return list ? take_list(in, v, list, &s->linear_every, err) : LW_OK;
}

#define AT(field) offsetof(struct traces_model_shape, field)
static const struct {
    const char *key;
    size_t at;
    int64_t absent;
} sizes[] = {
    {"linear_num_value_heads", AT(linear_heads), 32},
    {"linear_num_key_heads", AT(linear_key_heads), 16},
    {"linear_value_head_dim", AT(linear_width), 128},
    {"linear_key_head_dim", AT(linear_key_width), 128},
};
#undef AT

static enum lw_status take_sizes(const struct lw_input *in, const struct lw_value *v,
                                 struct traces_model_shape *s, struct lw_err *err)
{
    int64_t conv;

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t found;
        LW_TRY(traces_hf_number(in, v, sizes[k].key, 1, &found, err));
        *(int64_t *)((char *)s + sizes[k].at) = found > 0 ? found : sizes[k].absent;
    }
    if (s->linear_heads % s->linear_key_heads)
        return lw_fail(err, LW_EFORMAT,
                       "%s: linear_num_key_heads: found %lld, allowed: divisors of "
                       "linear_num_value_heads, %lld", in->name, (long long)s->linear_key_heads,
                       (long long)s->linear_heads);
    LW_TRY(traces_hf_number(in, v, "linear_conv_kernel_dim", 1, &conv, err));
    if (conv > 0 && conv != TRACES_SSM_CONV)
        return lw_fail(err, LW_ENOTSUP, "%s: linear_conv_kernel_dim: found %lld, allowed: %d",
                       in->name, (long long)conv, TRACES_SSM_CONV);
    return LW_OK;
}

enum lw_status traces_hf_linear(const struct lw_input *in, const struct lw_value *v,
                                const char *type, const struct traces_model_shape *given,
                                struct traces_model_shape *s, struct lw_err *err)
{
    enum { HEAD = 256 };
    int64_t shared, further;

    LW_TRY(take_turn(in, v, s, err));
    LW_TRY(take_sizes(in, v, s, err));
    LW_TRY(traces_hf_number(in, v, "mtp_num_hidden_layers", 0, &further, err));
    LW_TRY(traces_hf_number(in, v, "shared_expert_intermediate_size", 1, &shared, err));
    s->head_width = s->head_width ? s->head_width : HEAD;
    s->linear_split = strcmp(type, "qwen3_next") != 0;
    s->mtp_stated = s->linear_split ? further : s->mtp_stated;
    s->attention_gate = true;
    s->shared_ffn = given->shared_ffn ? given->shared_ffn : s->experts > 0 ? shared : 0;
    s->shared_gate = s->shared_ffn > 0;
    return LW_OK;
}
