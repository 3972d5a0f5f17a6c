/* Decoders with parallel blocks: attention and the linear pair take the same input, and both
 * results are added to it at once. GPT-J, Falcon 7B and Phi have one norm for both halves, GPT-NeoX
 * and Falcon 40B a norm for each. Names and order of registration are those of
 * huggingface/transformers, src/transformers/models: gpt_neox/modeling_gpt_neox.py@006bd23d,
 * gptj/modeling_gptj.py@00b676f8, falcon/modeling_falcon.py@00dcc6dd, phi/modular_phi.py@00a98e71.
 *
 * The results of both halves are added on each rank of a tensor group and then summed once
 * (kingoflolz/mesh-transformer-jax, transformer_shard.py; EleutherAI/gpt-neox, transformer.py,
 * gpt_j_residual). With a norm for each half the gradients of two norms are summed. Rotation
 * touches a part of each head (rope_width); both parts are then copied side by side.
 *
 * Shapes. GPT-NeoX 20B: Black et al., arXiv 2204.06745, table 1. Pythia: Biderman et al., arXiv
 * 2304.01373, table 1. GPT-J, Falcon, Phi: config.json of EleutherAI/gpt-j-6b, tiiuae/falcon-7b,
 * tiiuae/falcon-40b, microsoft/phi-2 at huggingface.co. */
#include "traces/models/models_transformer.h"

enum { PARAMS_PER_BLOCK = 16 };

/* What a line of a block's registration is of. */
enum part { END, NORM, SECOND_NORM, QKV, QUERIES, KEYS, VALUES, RESULT, UP, DOWN, N_PARTS };

struct line {
    enum part part;
    const char *name;
    bool bias;
};

static const struct family {
    const char *embedding, *block, *last, *head;
    bool head_bias;
    struct line lines[8];
} families[] = {
    [TRACES_GPT_NEOX] = {"gpt_neox.embed_in", "gpt_neox.layers", "gpt_neox.final_layer_norm",
                         "embed_out", false,
                         {{NORM, "input_layernorm", true},
                          {SECOND_NORM, "post_attention_layernorm", true},
                          {QKV, "attention.query_key_value", true},
                          {RESULT, "attention.dense", true},
                          {UP, "mlp.dense_h_to_4h", true},
                          {DOWN, "mlp.dense_4h_to_h", true}}},
    [TRACES_GPT_J] = {"transformer.wte", "transformer.h", "transformer.ln_f", "lm_head", true,
                      {{NORM, "ln_1", true},
                       {KEYS, "attn.k_proj", false},
                       {VALUES, "attn.v_proj", false},
                       {QUERIES, "attn.q_proj", false},
                       {RESULT, "attn.out_proj", false},
                       {UP, "mlp.fc_in", true},
                       {DOWN, "mlp.fc_out", true}}},
    [TRACES_FALCON] = {"transformer.word_embeddings", "transformer.h", "transformer.ln_f",
                       "lm_head", false,
                       {{QKV, "self_attention.query_key_value", false},
                        {RESULT, "self_attention.dense", false},
                        {UP, "mlp.dense_h_to_4h", false},
                        {DOWN, "mlp.dense_4h_to_h", false},
                        {NORM, "input_layernorm", true}}},
    [TRACES_FALCON_TWO] = {"transformer.word_embeddings", "transformer.h", "transformer.ln_f",
                           "lm_head", false,
                           {{QKV, "self_attention.query_key_value", false},
                            {RESULT, "self_attention.dense", false},
                            {UP, "mlp.dense_h_to_4h", false},
                            {DOWN, "mlp.dense_4h_to_h", false},
                            {NORM, "ln_attn", true},
                            {SECOND_NORM, "ln_mlp", true}}},
    [TRACES_PHI] = {"model.embed_tokens", "model.layers", "model.final_layernorm", "lm_head", true,
                    {{QUERIES, "self_attn.q_proj", true},
                     {KEYS, "self_attn.k_proj", true},
                     {VALUES, "self_attn.v_proj", true},
                     {RESULT, "self_attn.dense", true},
                     {UP, "mlp.fc1", true},
                     {DOWN, "mlp.fc2", true},
                     {NORM, "input_layernorm", true}}},
};

static bool has(const struct family *f, enum part part)
{
    for (const struct line *l = f->lines; l->part != END; l++)
        if (l->part == part)
            return true;
    return false;
}

/* A product of the block, or a norm: its kernel, the shape of its weights and their split. */
struct made {
    int32_t kernel;
    int64_t rows, columns;
    enum lw_tp_split split;
};

static struct made product(struct transformer *t, int64_t in, int64_t out, enum lw_tp_split split)
{
    return (struct made){transformer_linear(t, t->tokens, in, out, split), out, in, split};
}

static struct made norm(const struct transformer *t, int32_t kernel)
{
    return (struct made){kernel, t->hidden, 1, LW_TP_REPLICATED};
}

static void make_attention(struct transformer *t, const struct family *f, struct made *made)
{
    int64_t h = t->hidden, q = t->heads * t->qk_width, kv = t->kv_heads * t->qk_width;

    transformer_gathers(t);
    if (has(f, QKV)) {
        made[QKV] = product(t, h, q + 2 * kv, LW_TP_COLUMN);
    } else {
        made[QUERIES] = product(t, h, q, LW_TP_COLUMN);
        made[KEYS] = product(t, h, kv, LW_TP_COLUMN);
        traces_builder_layer(&t->b, LW_LAYER_JOINED);
        made[VALUES] = product(t, h, kv, LW_TP_COLUMN);
        traces_builder_layer(&t->b, LW_LAYER_JOINED);
    }
    transformer_rotate_heads(t);
    transformer_attention(t);
    made[RESULT] = product(t, q, h, LW_TP_ROW);
}

/* The input is kept once; of one norm the operand of both halves too. */
static void make_pair(struct transformer *t, const struct family *f, struct made *made)
{
    if (has(f, SECOND_NORM)) {
        bool before = transformer_begin_pair(t, t->b.shape.fused_norms);
        made[SECOND_NORM] = norm(t, transformer_norm_again(t));
        transformer_cast_norm(t);
        transformer_keep_operand(t, t->hidden, true);
        transformer_end_part(t, before);
        transformer_gathers(t);
    }
    bool before = transformer_begin_part(t, LW_AGAIN_MLP);
    transformer_read_norm(t);
    made[UP] = product(t, t->hidden, t->ffn, LW_TP_COLUMN);
    transformer_activation(t, t->ffn);
    made[DOWN] = product(t, t->ffn, t->hidden, LW_TP_ROW);
    transformer_end_part(t, before);
}

static void add_params(struct transformer *t, const struct line *l, const struct made *m,
                       const char *block, int32_t i)
{
    traces_builder_param(&t->b, m->kernel, m->rows, m->columns, m->split, "%s.%d.%s.weight", block,
                         i, l->name);
    if (l->bias)
        traces_builder_param(&t->b, m->kernel, m->rows, 1,
                             m->split == LW_TP_COLUMN ? LW_TP_COLUMN : LW_TP_REPLICATED,
                             "%s.%d.%s.bias", block, i, l->name);
}

static void add_block(struct transformer *t, const struct family *f, int32_t i)
{
    struct made made[N_PARTS];

    transformer_module(t, "%s.%d", f->block, i);
    bool before =
        transformer_begin_norm(t, t->b.shape.fused_norms && has(f, SECOND_NORM));
    made[NORM] = norm(t, transformer_norm(t));
    transformer_cast_norm(t);
    transformer_keep_operand(t, t->hidden, true);
    transformer_end_part(t, before);
    make_attention(t, f, made);
    make_pair(t, f, made);
    transformer_residual(t); /* both halves, before the tensor group sums them */
    transformer_sums(t);
    transformer_residual(t);
    transformer_end_block(t);
    for (const struct line *l = f->lines; l->part != END; l++)
        add_params(t, l, &made[l->part], f->block, i);
}

static void add_embedding(struct transformer *t, const struct family *f)
{
    int64_t x = t->b.wide * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "%s", f->embedding);
    int32_t kernel = transformer_lookup(t, vocab);
    traces_builder_param(&t->b, kernel, vocab, t->hidden, LW_TP_VOCAB, "%s.weight", f->embedding);
    transformer_keep(t, 8 * t->tokens, true);
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_head(struct transformer *t, const struct family *f)
{
    int64_t x = t->b.item * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "%s", f->head);
    int32_t last = transformer_norm(t);
    traces_builder_param(&t->b, last, t->hidden, 1, LW_TP_REPLICATED, "%s.weight", f->last);
    traces_builder_param(&t->b, last, t->hidden, 1, LW_TP_REPLICATED, "%s.bias", f->last);
    transformer_keep(t, x, true);
    transformer_gathers(t);
    int32_t scores = transformer_linear(t, t->tokens, t->hidden, vocab, LW_TP_VOCAB);
    struct lw_param *p = traces_builder_param(&t->b, scores, vocab, t->hidden, LW_TP_VOCAB,
                                              "%s.weight", f->head);
    if (t->b.shape.tied)
        p->tied = 0;
    if (f->head_bias)
        traces_builder_param(&t->b, scores, vocab, 1, LW_TP_VOCAB, "%s.bias", f->head);
    transformer_loss(t, vocab);
    traces_builder_sums(&t->b, 3 * 4 * t->tokens);
    transformer_end_plain(t, LW_TP_VOCAB, 0);
}

enum lw_status parallel_build(const struct traces_model *m, const struct traces_model_shape *shape,
                              const struct lw_device *device, struct lw_workload *w,
                              struct lw_err *err)
{
    const struct family *f = &families[m->member];
    struct transformer t;

    LW_TRY(transformer_init(&t, m, shape, device, err));
    const struct traces_model_shape *s = &t.b.shape;
    t.causal = true;
    traces_builder_room(&t.b, s->layers + 2, PARAMS_PER_BLOCK * s->layers + 5, 0);
    add_embedding(&t, f);
    for (int32_t i = 0; i < s->layers; i++)
        add_block(&t, f, i);
    add_head(&t, f);
    traces_builder_note(&t.b,
                        "vocabulary %lld; attention and the linear pair in parallel, from %s; "
                        "dropout is left out",
                        (long long)s->vocab,
                        has(f, SECOND_NORM) ? "a norm each" : "one norm");
    return transformer_finish(&t, m, w, err);
}

#define SIZES(layers_, hidden_, heads_, ffn_, vocab_)                                              \
    .batch = 1, .layers = layers_, .hidden = hidden_, .heads = heads_, .ffn = ffn_, .seq = 2048,   \
    .vocab = vocab_, .dtype = "bf16", .attention = "flash", .optimizer = "adam"
#define BLACK "Black et al., arXiv 2204.06745, table 1; huggingface.co/EleutherAI/gpt-neox-20b"
#define BIDERMAN "Biderman et al., arXiv 2304.01373, table 1; huggingface.co/EleutherAI"
#define PENEDO "Almazrouei et al., arXiv 2311.16867; huggingface.co/tiiuae, config.json"

const struct traces_model traces_models_parallel[] = {
    {"gpt-neox-20b", "GPT-NeoX 20B, parallel blocks",
     {SIZES(44, 6144, 64, 24576, 50432), .rope_width = 24}, parallel_build, BLACK,
     TRACES_GPT_NEOX},
    {"pythia-6.9b", "Pythia 6.9B, parallel blocks",
     {SIZES(32, 4096, 32, 16384, 50432), .rope_width = 32}, parallel_build, BIDERMAN,
     TRACES_GPT_NEOX},
    {"gpt-j-6b", "GPT-J 6B, parallel blocks from one norm",
     {SIZES(28, 4096, 16, 16384, 50400), .rope_width = 64}, parallel_build,
     "huggingface.co/EleutherAI/gpt-j-6b, config.json", TRACES_GPT_J},
    {"falcon-7b", "Falcon 7B, parallel blocks from one norm, one head of keys and values",
     {SIZES(32, 4544, 71, 18176, 65024), .kv_heads = 1, .tied = true}, parallel_build, PENEDO,
     TRACES_FALCON},
    {"falcon-40b", "Falcon 40B, parallel blocks, 8 heads of keys and values",
     {SIZES(60, 8192, 128, 32768, 65024), .kv_heads = 8, .tied = true}, parallel_build, PENEDO,
     TRACES_FALCON_TWO},
    {"phi-2", "Phi-2, parallel blocks from one norm",
     {SIZES(32, 2560, 32, 10240, 51200), .kv_heads = 32, .rope_width = 32}, parallel_build,
     "huggingface.co/microsoft/phi-2, config.json", TRACES_PHI},
    {0},
};
