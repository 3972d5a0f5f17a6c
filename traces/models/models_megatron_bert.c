/* BERT as Megatron trains it: GPT's pre-norm blocks, a last norm, and the heads of pre-training.
 * The words' head is a linear layer of hidden width, GELU and a norm before the scores, which are
 * by the embedding's weights and have a bias; the sentences' head is a pooler and a product to two
 * classes. Names are those of Megatron-Core's BertModel, in the order of use
 * (NVIDIA/Megatron-LM@d98e8a64, megatron/core/models/bert/bert_model.py, bert_lm_head.py and
 * pooler.py). Sizes: Shoeybi et al., arXiv 1909.08053, section 5.3, table 4, 24 blocks of 1,024;
 * 30,522 word pieces. */
#include "traces/models/models_transformer.h"

#include <stdio.h>

enum { PARAMS_PER_BLOCK = 12, PARAMS_OF_ENDS = 15, SEGMENTS = 2, CLASSES = 2 };

static void add_embedding(struct transformer *t)
{
    int64_t h = t->hidden, x = t->b.wide * t->tokens * h, mask = t->tokens * h;
    const struct lw_kernel add = {.bytes = {3 * x, 0, 2 * x}};

    transformer_module(t, "embedding");
    int32_t words = transformer_lookup(t, t->b.shape.vocab);
    int32_t places = traces_builder_kernel(&t->b, &add);
    int32_t segments = traces_builder_kernel(&t->b, &add);
    traces_builder_param(&t->b, words, t->b.shape.vocab, h, LW_TP_VOCAB,
                         "embedding.word_embeddings.weight");
    traces_builder_param(&t->b, places, t->b.shape.positions, h, LW_TP_REPLICATED,
                         "embedding.position_embeddings.weight");
    traces_builder_param(&t->b, segments, SEGMENTS, h, LW_TP_REPLICATED,
                         "embedding.tokentype_embeddings.weight");
    TRACES_TRAFFIC(&t->b, 2 * x + mask, 2 * x + mask, 0);
    transformer_keep(t, 3 * 8 * t->tokens + mask, true); /* words, positions and segments */
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_block(struct transformer *t, int32_t i)
{
    static const char *const names[6] = {
        "self_attention.linear_qkv.layer_norm_", "self_attention.linear_qkv.",
        "self_attention.linear_proj.", "mlp.linear_fc1.layer_norm_", "mlp.linear_fc1.",
        "mlp.linear_fc2."};
    char block[40];

    snprintf(block, sizeof block, "encoder.layers.%d", i);
    transformer_pre_norm_block(t, block, names);
}

/* A layer that every tensor rank does whole, of the first token of each sample. */
static void pooled_layer(struct transformer *t, int64_t out, const char *block, const char *name)
{
    int64_t h = t->hidden, bytes = t->b.item * t->batch * (h + out);

    transformer_layer(t, t->batch, h, out, LW_TP_REPLICATED, block, name);
    TRACES_TRAFFIC(&t->b, bytes, 2 * bytes, 0, .fixed = true);
    transformer_keep(t, transformer_of_samples(t, t->b.item * t->batch * h), true);
}

/* Dense layer, GELU and norm of every token, whole on each tensor rank. */
static void add_words(struct transformer *t)
{
    int64_t x = t->b.item * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_layer(t, t->tokens, t->hidden, t->hidden, LW_TP_REPLICATED, "lm_head", "dense.");
    transformer_keep(t, x, true); /* GELU's input; its result is what the norm keeps */
    TRACES_TRAFFIC(&t->b, 2 * x, 3 * x, 0);
    transformer_norm_layer(t, "lm_head", "layer_norm.");
    transformer_keep(t, x, true);
    transformer_gathers(t);
    int32_t scores = transformer_linear(t, t->tokens, t->hidden, vocab, LW_TP_VOCAB);
    traces_builder_param(&t->b, scores, vocab, t->hidden, LW_TP_VOCAB, "output_layer.weight")
        ->tied = 0;
    traces_builder_param(&t->b, scores, vocab, 1, LW_TP_VOCAB, "output_layer.bias");
}

static void add_heads(struct transformer *t)
{
    int64_t x = t->b.item * t->tokens * t->hidden;

    transformer_module(t, "lm_head");
    transformer_norm_layer(t, "encoder", "final_layernorm.");
    transformer_keep(t, x, true);
    pooled_layer(t, t->hidden, "pooler", "dense.");
    add_words(t);
    pooled_layer(t, CLASSES, "binary_head", "");
    t->b.shape.mask_in_batch = false; /* a batch has a mask of positions, not of their pairs */
    transformer_loss(t, t->b.shape.vocab);
    traces_builder_sums(&t->b, 3 * 4 * t->tokens);
    transformer_end_plain(t, LW_TP_VOCAB, 0);
}

static enum lw_status build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    const struct traces_model_shape *s;
    struct transformer t;

    LW_TRY(transformer_init(&t, m, shape, device, err));
    s = &t.b.shape;
    t.dropout = t.padding = true;
    traces_builder_room(&t.b, s->layers + 2, PARAMS_PER_BLOCK * s->layers + PARAMS_OF_ENDS, 0);
    add_embedding(&t);
    for (int32_t i = 0; i < s->layers; i++)
        add_block(&t, i);
    add_heads(&t);
    traces_builder_note(&t.b, "vocabulary %lld, %lld positions; heads of words and of sentences",
                        (long long)s->vocab, (long long)s->positions);
    return transformer_finish(&t, m, w, err);
}

const struct traces_model traces_models_megatron_bert[] = {
    {"megatron-bert", "BERT of 345 M parameters with its heads, as Megatron trains it",
     {.batch = 4, .layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .seq = 512,
      .vocab = 30522, .tied = true, .dtype = "bf16", .attention = "full", .optimizer = "adam"},
     build, "NVIDIA/Megatron-LM@d98e8a64, megatron/core/models/bert"},
    {0},
};
