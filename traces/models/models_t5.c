/* T5 as Megatron trains it: an encoder of pre-norm blocks over --seq tokens, a decoder of as many
 * blocks over --decoder-seq tokens, each of which attends to its own tokens and then to what the
 * encoder's last norm makes, and scores by the embedding's weights, with a bias. Both sides take
 * one embedding and one learned table of positions. Names are those of Megatron-Core's T5Model, in
 * the order of use (NVIDIA/Megatron-LM@d98e8a64, megatron/core/models/T5/t5_model.py and
 * t5_spec.py). Sizes: examples/t5/train_t5_220m_distributed.sh there; the 28,996 word pieces of
 * bert-large-cased-vocab.txt and 100 sentinels. */
#include "traces/models/models_transformer.h"

#include <inttypes.h>
#include <stdio.h>

enum { PARAMS_OF_ENCODER = 12, PARAMS_OF_DECODER = 20, PARAMS_OF_ENDS = 10 };

/* From here on the tokens of one side. */
static void take_side(struct transformer *t, int64_t seq)
{
    t->seq = seq;
    t->tokens = t->batch * seq;
}

/* Words and positions. The decoder's are the encoder's, parameters 0 and 1 of the model. */
static void add_embedding(struct transformer *t, const char *side, bool again)
{
    int64_t h = t->hidden, x = t->b.wide * t->tokens * h, mask = t->dropout ? t->tokens * h : 0;

    transformer_module(t, "%s.embedding", side);
    int32_t words = transformer_lookup(t, t->b.shape.vocab);
    int32_t places = TRACES_TRAFFIC(&t->b, 3 * x, 0, 2 * x);
    struct lw_param *p = traces_builder_param(&t->b, words, t->b.shape.vocab, h, LW_TP_VOCAB,
                                              "embedding.word_embeddings.weight");
    p->tied = again ? 0 : p->tied;
    p = traces_builder_param(&t->b, places, t->b.shape.positions, h, LW_TP_REPLICATED,
                             "embedding.position_embeddings.weight");
    p->tied = again ? 1 : p->tied;
    TRACES_TRAFFIC(&t->b, 2 * x + mask, 2 * x + mask, 0);
    transformer_keep(t, 2 * 8 * t->tokens + mask, true);
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_self_attention(struct transformer *t, const char *block)
{
    int64_t h = t->hidden;
    bool norm = transformer_begin_norm(t, t->b.shape.fused_norms);

    transformer_norm_layer(t, block, "self_attention.linear_qkv.layer_norm_");
    transformer_keep_operand(t, h, true);
    transformer_end_part(t, norm);
    transformer_gathers(t);
    transformer_layer(t, t->tokens, h, 3 * h, LW_TP_COLUMN, block, "self_attention.linear_qkv.");
    transformer_attention(t);
    transformer_layer(t, t->tokens, h, h, LW_TP_ROW, block, "self_attention.linear_proj.");
    transformer_sums(t);
    transformer_residual(t);
}

/* Queries of this side's tokens, keys and values of the encoder's, whose last norm keeps them. */
static void add_cross_attention(struct transformer *t, const char *block)
{
    int64_t h = t->hidden, keys = t->b.shape.seq, rows = t->batch * keys;
    bool norm = transformer_begin_norm(t, false);

    transformer_norm_layer(t, block, "pre_cross_attn_layernorm.");
    transformer_keep_operand(t, h, true);
    transformer_end_part(t, norm);
    transformer_gathers(t);
    transformer_layer(t, t->tokens, h, h, LW_TP_COLUMN, block, "cross_attention.linear_q.");
    traces_builder_gathers(&t->b, t->b.item * rows * h);
    transformer_layer(t, rows, h, 2 * h, LW_TP_COLUMN, block, "cross_attention.linear_kv.");
    transformer_cross_attention(t, keys);
    transformer_layer(t, t->tokens, h, h, LW_TP_ROW, block, "cross_attention.linear_proj.");
    transformer_sums(t);
    transformer_residual(t);
}

static void add_pair(struct transformer *t, const char *block)
{
    int64_t h = t->hidden, ffn = t->ffn;
    bool pair = transformer_begin_pair(t, t->b.shape.fused_norms);

    transformer_norm_layer(t, block, "mlp.linear_fc1.layer_norm_");
    transformer_keep_operand(t, h, true);
    transformer_end_part(t, pair);
    pair = transformer_begin_part(t, LW_AGAIN_MLP);
    transformer_gathers(t);
    transformer_layer(t, t->tokens, h, ffn, LW_TP_COLUMN, block, "mlp.linear_fc1.");
    transformer_activation(t, ffn);
    transformer_layer(t, t->tokens, ffn, h, LW_TP_ROW, block, "mlp.linear_fc2.");
    transformer_end_part(t, pair);
    transformer_sums(t);
    transformer_residual(t);
}

static void add_encoder_block(struct transformer *t, int32_t i)
{
    char block[40];

    snprintf(block, sizeof block, "encoder.layers.%d", i);
    transformer_module(t, "%s", block);
    add_self_attention(t, block);
    add_pair(t, block);
    transformer_end_block(t);
}

/* Its own scores are causal, without a mask of padding; model FLOPs count half of them. */
static void add_decoder_block(struct transformer *t, int32_t i)
{
    int64_t before = t->attention_flops;
    char block[40];

    snprintf(block, sizeof block, "decoder.layers.%d", i);
    transformer_module(t, "%s", block);
    t->causal = true;
    t->padding = false;
    add_self_attention(t, block);
    t->causal = false;
    t->padding = true;
    t->attention_flops -= (t->attention_flops - before) / 2;
    add_cross_attention(t, block);
    add_pair(t, block);
    transformer_end_block(t);
}

/* The encoder's last norm: its input, and its result, of which every block of the decoder makes
 * keys and values. */
static void add_encoder_norm(struct transformer *t)
{
    int64_t x = t->b.item * t->tokens * t->hidden;

    transformer_module(t, "encoder.final_layernorm");
    transformer_norm_layer(t, "encoder", "final_layernorm.");
    transformer_keep(t, x, true);
    transformer_end_plain(t, LW_TP_REPLICATED, x);
}

/* Where masks are of pairs of positions, a batch has the encoder's, the decoder's and one of both
 * (megatron/core/datasets/t5_dataset.py, config_attention_mask: use_local). */
static void keep_masks(struct transformer *t)
{
    int64_t own = t->seq, other = t->b.shape.seq;
    bool pairs = t->b.shape.mask_in_batch && !t->b.shape.fused_norms;

    t->b.shape.mask_in_batch = false;
    if (pairs)
        transformer_keep(t, t->batch * (own * own + own * other + other * other), true);
}

static void add_head(struct transformer *t)
{
    int64_t x = t->b.item * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "lm_head");
    transformer_norm_layer(t, "decoder", "final_layernorm.");
    transformer_keep(t, x, true);
    transformer_gathers(t);
    int32_t scores = transformer_linear(t, t->tokens, t->hidden, vocab, LW_TP_VOCAB);
    traces_builder_param(&t->b, scores, vocab, t->hidden, LW_TP_VOCAB,
                         "lm_head.output_layer.weight")->tied = 0;
    traces_builder_param(&t->b, scores, vocab, 1, LW_TP_VOCAB, "lm_head.output_layer.bias");
    keep_masks(t);
    transformer_loss(t, vocab);
    traces_builder_sums(&t->b, 3 * 4 * t->tokens);
    transformer_end_plain(t, LW_TP_VOCAB, 0);
}

static enum lw_status check(const struct traces_model_shape *s, struct lw_err *err)
{
    if (s->context > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--cp: found %" PRId64 ", allowed: 1 with an encoder and a decoder: the "
                       "exchange of the encoder's keys and values over a context group is not "
                       "modelled; leave --cp out",
                       s->context);
    if (s->positions < s->decoder_seq)
        return lw_fail(err, LW_EINVAL,
                       "--positions: found %" PRId64 ", allowed: %" PRId64 ", the decoder's "
                       "sequence, or more",
                       s->positions, s->decoder_seq);
    return LW_OK;
}

static enum lw_status build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    struct traces_model_shape given = *shape;
    const struct traces_model_shape *s;
    struct transformer t;
    int64_t longer = given.seq > given.decoder_seq ? given.seq : given.decoder_seq;

    given.positions = given.positions > 0 ? given.positions : longer;
    LW_TRY(check(&given, err));
    LW_TRY(transformer_init(&t, m, &given, device, err));
    s = &t.b.shape;
    t.dropout = !s->no_dropout;
    t.padding = true;
    traces_builder_room(&t.b, 2 * s->layers + 4,
                        (PARAMS_OF_ENCODER + PARAMS_OF_DECODER) * s->layers + PARAMS_OF_ENDS, 0);
    add_embedding(&t, "encoder", false);
    for (int32_t i = 0; i < s->layers; i++)
        add_encoder_block(&t, i);
    add_encoder_norm(&t);
    take_side(&t, s->decoder_seq);
    add_embedding(&t, "decoder", true);
    for (int32_t i = 0; i < s->layers; i++)
        add_decoder_block(&t, i);
    add_head(&t);
    take_side(&t, s->seq);
    traces_builder_note(&t.b,
                        "an encoder, and a decoder of as many blocks over %" PRId64
                        " tokens; vocabulary %" PRId64 ", %" PRId64 " positions",
                        s->decoder_seq, s->vocab, s->positions);
    return transformer_finish(&t, m, w, err);
}

const struct traces_model traces_models_t5[] = {
    {"megatron-t5", "T5 of 221 M parameters, encoder and decoder, as Megatron trains it",
     {.batch = 4, .layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .seq = 512,
      .decoder_seq = 128, .vocab = 29096, .tied = true, .dtype = "bf16", .attention = "full",
      .optimizer = "adam"},
     build, "NVIDIA/Megatron-LM@d98e8a64, examples/t5/train_t5_220m_distributed.sh"},
    {0},
};
