/* GPT: token and position embeddings, pre-norm blocks of attention and a four times wider linear
 * pair with GELU, a last norm, and scores by the embedding's own weights (tied). Names and order of
 * registration are those of GPT2LMHeadModel (huggingface/transformers@c44b2d99,
 * src/transformers/models/gpt2/modeling_gpt2.py).
 *
 * Shapes. GPT-2: Radford et al. 2019, table 2, as released (openai-community/gpt2, -medium, -large,
 * -xl: 1024 positions, 50,257 tokens, heads of 64). GPT-3: Brown et al., arXiv 2005.14165, table
 * 2.1, 2048 positions; where its heads times their width is not the hidden size (1.3B, 13B), the
 * nearest shape that fits stands. Their vocabulary is the one that Megatron-LM pads 50,257 to for
 * tensor groups of eight, 51,200 (Narayanan et al., SC'21, section 5).
 *
 * BLOOM and MPT have ALiBi (Press et al., arXiv 2108.12409): a product of the scores' kernel, and
 * no position table. Names and order are those of BloomForCausalLM and MptForCausalLM
 * (huggingface/transformers, src/transformers/models/bloom and mpt). */

#include "traces/models/models_transformer.h"

#include <stdio.h>

enum { PARAMS_PER_BLOCK = 12 };

/* Names of parameters in GPT-2, BLOOM and MPT. */
static const struct names {
    const char *embedding, *block, *last, *parts[6];
} gpt = {"wte", "h", "ln_f.",
         {"ln_1.", "attn.c_attn.", "attn.c_proj.", "ln_2.", "mlp.c_fc.", "mlp.c_proj."}},
  bloom = {"word_embeddings", "h", "ln_f.",
           {"input_layernorm.", "self_attention.query_key_value.", "self_attention.dense.",
            "post_attention_layernorm.", "mlp.dense_h_to_4h.", "mlp.dense_4h_to_h."}},
  mpt = {"wte", "blocks", "norm_f.",
         {"norm_1.", "attn.Wqkv.", "attn.out_proj.", "norm_2.", "ffn.up_proj.", "ffn.down_proj."}};

static const struct names *names_of(const struct transformer *t)
{
    return !t->b.shape.alibi ? &gpt : t->b.shape.no_bias ? &mpt : &bloom;
}

/* Learned positions are added, with dropout where there is some. */
static void add_positions(struct transformer *t)
{
    int64_t x = t->b.wide * t->tokens * t->hidden, mask = t->dropout ? t->tokens * t->hidden : 0;
    int32_t places = TRACES_TRAFFIC(&t->b, 3 * x + mask, 0, 2 * x + mask);

    traces_builder_param(&t->b, places, t->b.shape.positions, t->hidden, LW_TP_REPLICATED,
                         "transformer.wpe.weight");
    transformer_keep(t, mask, true);
}

static void add_embedding(struct transformer *t)
{
    int64_t x = t->b.wide * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "transformer.embedding");
    int32_t tokens = transformer_lookup(t, vocab);
    traces_builder_param(&t->b, tokens, vocab, t->hidden, LW_TP_VOCAB, "transformer.%s.weight",
                         names_of(t)->embedding);
    if (!t->b.shape.alibi)
        add_positions(t);
    if (t->b.shape.embedding_norm)
        transformer_norm_layer(t, "transformer", "word_embeddings_layernorm.");
    transformer_keep(t, 8 * t->tokens, true);
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_block(struct transformer *t, int32_t i)
{
    char block[64];

    snprintf(block, sizeof block, "transformer.%s.%d", names_of(t)->block, i);
    transformer_pre_norm_block(t, block, names_of(t)->parts);
}

/* Vocabulary-parallel scores sum three numbers per token in forward, their maximum, their sum and
 * the label's, and the gradient of their input in backward. */
static void add_head(struct transformer *t)
{
    int64_t x = t->b.item * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "lm_head");
    transformer_norm_layer(t, "transformer", names_of(t)->last);
    transformer_keep(t, x, true);
    transformer_gathers(t);
    int32_t scores = transformer_linear(t, t->tokens, t->hidden, vocab, LW_TP_VOCAB);
    traces_builder_param(&t->b, scores, vocab, t->hidden, LW_TP_VOCAB, "lm_head.weight")->tied = 0;
    transformer_loss(t, vocab);
    traces_builder_sums(&t->b, 3 * 4 * t->tokens);
    transformer_end_plain(t, LW_TP_VOCAB, 0);
}

/* The blocks of GPT-2 hold their causal mask, one byte per pair of positions. */
static void add_masks(struct transformer *t)
{
    int64_t n = t->b.shape.positions;

    for (int32_t i = 0; i < t->b.shape.layers; i++)
        traces_builder_buffer(&t->b, n * n, LW_U8, "transformer.h.%d.attn.bias", i);
}

static enum lw_status build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    const struct traces_model_shape *s;
    struct transformer t;
    bool masks = m->member == 2;

    LW_TRY(transformer_init(&t, m, shape, device, err));
    s = &t.b.shape;
    t.causal = true;
    t.dropout = !s->alibi && !s->no_dropout;
    traces_builder_room(&t.b, s->layers + 2, PARAMS_PER_BLOCK * s->layers + 6,
                        masks ? s->layers : 0);
    add_embedding(&t);
    for (int32_t i = 0; i < s->layers; i++)
        add_block(&t, i);
    add_head(&t);
    if (masks)
        add_masks(&t);
    if (s->alibi)
        traces_builder_note(&t.b, "vocabulary %lld, ALiBi; scores by the tied token embedding",
                            (long long)s->vocab);
    else
        traces_builder_note(&t.b,
                            "vocabulary %lld, %lld positions; scores by the tied token embedding",
                            (long long)s->vocab, (long long)s->positions);
    return transformer_finish(&t, m, w, err);
}

#define SIZES(layers_, hidden_, heads_, seq_, vocab_, batch_, dtype_)                              \
    .batch = batch_, .layers = layers_, .hidden = hidden_, .heads = heads_, .seq = seq_,           \
    .ffn = 4 * hidden_, .vocab = vocab_, .tied = true, .dtype = dtype_, .optimizer = "adam"
#define GPT(...) {SIZES(__VA_ARGS__), .attention = "full"}
#define GPT2(layers, hidden, heads) GPT(layers, hidden, heads, 1024, 50257, 8, "f32")
#define GPT3(layers, hidden, heads) GPT(layers, hidden, heads, 2048, 51200, 1, "bf16")
#define BLOOM(layers, hidden, heads)                                                               \
    {                                                                                              \
        SIZES(layers, hidden, heads, 2048, 250880, 1, "bf16"), .attention = "full",                \
        .alibi = true, .embedding_norm = true,                                                     \
    }
#define MPT(layers, hidden, heads, seq)                                                            \
    {                                                                                              \
        SIZES(layers, hidden, heads, seq, 50432, 1, "bf16"), .attention = "flash",                 \
        .alibi = true, .no_bias = true,                                                            \
    }

#define RADFORD "Radford et al. 2019, table 2; huggingface.co/openai-community"
#define SCAO "Le Scao et al., arXiv 2211.05100, table 3; huggingface.co/bigscience"
#define MOSAIC "huggingface.co/mosaicml, config.json"
#define NEMO "NVIDIA/NeMo@8cfedd7, nemo/collections/llm/gpt/model/base.py"
#define BROWN                                                                                      \
    "Brown et al., arXiv 2005.14165, table 2.1; vocabulary of Narayanan et al., SC'21, section 5"

const struct traces_model traces_models_gpt[] = {
    {"gpt2", "GPT-2 of 124 M parameters", GPT2(12, 768, 12), build, RADFORD, 2},
    {"gpt2-medium", "GPT-2 of 355 M parameters", GPT2(24, 1024, 16), build, RADFORD, 2},
    {"gpt2-large", "GPT-2 of 774 M parameters", GPT2(36, 1280, 20), build, RADFORD, 2},
    {"gpt2-xl", "GPT-2 of 1.5 G parameters", GPT2(48, 1600, 25), build, RADFORD, 2},
    {"gpt-125m", "GPT-3 Small", GPT3(12, 768, 12), build, BROWN},
    {"gpt-350m", "GPT-3 Medium", GPT3(24, 1024, 16), build, BROWN},
    {"gpt-760m", "GPT-3 Large", GPT3(24, 1536, 16), build, BROWN},
    {"gpt-1.3b", "GPT-3 XL, with 16 heads of 128", GPT3(24, 2048, 16), build, BROWN},
    {"gpt-2.7b", "GPT-3 2.7B", GPT3(32, 2560, 32), build, BROWN},
    {"gpt-5b", "GPT of 24 layers of 4096, as of NeMo", GPT3(24, 4096, 32), build, NEMO},
    {"gpt-20b", "GPT of 44 layers of 6144, as of NeMo", GPT3(44, 6144, 48), build, NEMO},
    {"gpt-6.7b", "GPT-3 6.7B", GPT3(32, 4096, 32), build, BROWN},
    {"gpt-13b", "GPT-3 13B, with 40 heads of 128", GPT3(40, 5120, 40), build, BROWN},
    {"gpt-175b", "GPT-3 175B", GPT3(96, 12288, 96), build, BROWN},
    {"bloom-560m", "BLOOM 560M", BLOOM(24, 1024, 16), build, SCAO},
    {"bloom-7b1", "BLOOM 7.1B", BLOOM(30, 4096, 32), build, SCAO},
    {"bloom-176b", "BLOOM 176B", BLOOM(70, 14336, 112), build, SCAO},
    {"mpt-7b", "MPT 7B", MPT(32, 4096, 32, 2048), build, MOSAIC},
    {"mpt-30b", "MPT 30B", MPT(48, 7168, 64, 8192), build, MOSAIC},
    {0},
};
