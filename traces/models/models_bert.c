/* BERT: three embeddings and a norm, post-norm blocks with separate query, key and value layers
 * and GELU, and the pooler. Names and order of registration are those of BertModel
 * (huggingface/transformers@8ec58104, src/transformers/models/bert/modeling_bert.py), whose
 * 335,141,888 parameters are BERT-large's published 340 M. The heads of pre-training are not
 * part of it (their scores are by the embedding's weights: tied). Shapes: Devlin et al., arXiv
 * 1810.04805, section 3; 30,522 word pieces, 512 positions, two segments. */
#include "traces/models/models_transformer.h"

#include <stdio.h>

enum { PARAMS_PER_BLOCK = 16, SEGMENTS = 2 };

static void add_embedding(struct transformer *t)
{
    int64_t h = t->hidden, x = t->b.item * t->tokens * h, mask = t->tokens * h;
    const struct lw_kernel add = {.bytes = {3 * x, 0, 2 * x}};

    transformer_module(t, "embeddings");
    int32_t words = transformer_lookup(t, t->b.shape.vocab);
    int32_t places = traces_builder_kernel(&t->b, &add);
    int32_t segments = traces_builder_kernel(&t->b, &add);
    traces_builder_param(&t->b, words, t->b.shape.vocab, h, LW_TP_VOCAB,
                         "embeddings.word_embeddings.weight");
    traces_builder_param(&t->b, places, t->b.shape.positions, h, LW_TP_REPLICATED,
                         "embeddings.position_embeddings.weight");
    traces_builder_param(&t->b, segments, SEGMENTS, h, LW_TP_REPLICATED,
                         "embeddings.token_type_embeddings.weight");
    transformer_norm_layer(t, "embeddings", "LayerNorm.");
    TRACES_TRAFFIC(&t->b, 2 * x + mask, 2 * x + mask, 0);
    transformer_keep(t, 2 * 8 * t->tokens + mask, true); /* words and segments */
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_block(struct transformer *t, int32_t i)
{
    static const char *const inputs[] = {"attention.self.query.", "attention.self.key.",
                                         "attention.self.value."};
    int64_t h = t->hidden, ffn = t->ffn;
    char block[40];

    snprintf(block, sizeof block, "encoder.layer.%d", i);
    transformer_module(t, "%s", block);
    transformer_cast_norm(t);
    transformer_keep_operand(t, h, true);
    transformer_gathers(t);
    for (int k = 0; k < 3; k++) {
        transformer_layer(t, t->tokens, h, h, LW_TP_COLUMN, block, inputs[k]);
        traces_builder_layer(&t->b, k > 0 ? LW_LAYER_JOINED : LW_LAYER_SPLIT);
    }
    transformer_attention(t);
    transformer_layer(t, t->tokens, h, h, LW_TP_ROW, block, "attention.output.dense.");
    transformer_sums(t);
    transformer_residual(t);
    transformer_norm_layer(t, block, "attention.output.LayerNorm.");
    transformer_cast_norm(t);
    transformer_keep_operand(t, h, true);
    transformer_gathers(t);
    transformer_layer(t, t->tokens, h, ffn, LW_TP_COLUMN, block, "intermediate.dense.");
    transformer_activation(t, ffn);
    transformer_layer(t, t->tokens, ffn, h, LW_TP_ROW, block, "output.dense.");
    transformer_sums(t);
    transformer_residual(t);
    transformer_norm_layer(t, block, "output.LayerNorm.");
    transformer_end_block(t);
}

/* A linear layer with tanh on the first token of each sample; every tensor rank does all of it. */
static void add_pooler(struct transformer *t)
{
    int64_t h = t->hidden, pooled = t->b.item * t->batch * h;

    transformer_module(t, "pooler");
    transformer_layer(t, t->batch, h, h, LW_TP_REPLICATED, "pooler", "dense.");
    TRACES_TRAFFIC(&t->b, 2 * pooled, 3 * pooled, 0, .fixed = true);
    int64_t all = transformer_of_samples(t, pooled);
    transformer_keep(t, 2 * all, true);
    transformer_end_plain(t, LW_TP_REPLICATED, all);
}

static enum lw_status build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    const struct traces_model_shape *s;
    struct transformer t;

    LW_TRY(transformer_init(&t, m, shape, device, err));
    s = &t.b.shape;
    t.dropout = true;
    traces_builder_room(&t.b, s->layers + 2, PARAMS_PER_BLOCK * s->layers + 7, 2);
    add_embedding(&t);
    for (int32_t i = 0; i < s->layers; i++)
        add_block(&t, i);
    add_pooler(&t);
    traces_builder_buffer(&t.b, s->positions, LW_I64, "embeddings.position_ids");
    traces_builder_buffer(&t.b, s->positions, LW_I64, "embeddings.token_type_ids");
    traces_builder_note(&t.b, "vocabulary %lld, %lld positions; without a head for a task",
                        (long long)s->vocab, (long long)s->positions);
    return transformer_finish(&t, m, w, err);
}

#define BERT(layers_, hidden_, heads_)                                                             \
    {                                                                                              \
        .batch = 8, .layers = layers_, .hidden = hidden_, .heads = heads_, .ffn = 4 * hidden_,     \
        .seq = 512, .vocab = 30522, .tied = true, .dtype = "f32",                                \
        .attention = "full", .optimizer = "adam",                                                  \
    }
#define DEVLIN "Devlin et al., arXiv 1810.04805, section 3; huggingface/transformers BertModel"

const struct traces_model traces_models_bert[] = {
    {"bert-base", "BERT base", BERT(12, 768, 12), build, DEVLIN},
    {"bert-large", "BERT large", BERT(24, 1024, 16), build, DEVLIN},
    {0},
};
