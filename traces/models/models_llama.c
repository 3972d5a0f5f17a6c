/* Llama: RMS norms, rotary positions, attention with as many or fewer heads of keys and values, a
 * gated pair of linear layers with SiLU, no biases, no dropout; by options norms with biases, norms
 * of what the halves of a block give, a table of positions, latent attention, a plain pair, biases,
 * dropout, joined parameters, experts (models_experts.c) and adapters. Names and order of
 * registration are those of LlamaForCausalLM (huggingface/transformers@5dd4a635,
 * src/transformers/models/llama/modeling_llama.py): a block registers its norms after what they
 * come before, so gradients do not become ready in the reverse of registration.
 *
 * Shapes. Llama: Touvron et al., arXiv 2302.13971, table 2, with 32,000 tokens and the inner width
 * 2/3 * 4 h rounded up to a multiple of 256. Llama 2: Touvron et al., arXiv 2307.09288, table 1 and
 * section 2.2 (70B: 8 heads of keys and values; inner width 28,672). Llama 3: Grattafiori et al.,
 * arXiv 2407.21783, table 3 (8 heads of keys and values, 128,000 tokens and 256 of its own). */
#include "traces/models/models_transformer.h"

#include <stdio.h>

#include "traces/models/models_delta.h"
#include "traces/models/models_ssm.h"

enum { PARAMS_PER_BLOCK = 24 };

static void add_param(struct transformer *t, int32_t kernel, int64_t rows, int64_t columns,
                      enum lw_tp_split split, int32_t block, const char *name)
{
    traces_builder_param(&t->b, kernel, rows, columns, split, "model.layers.%d.%s.weight", block,
                         name)
        ->trainable = t->b.shape.lora == 0;
}

static void add_bias_of(struct transformer *t, int32_t kernel, int64_t numel,
                        enum lw_tp_split split, int32_t block, const char *name)
{
    traces_builder_param(&t->b, kernel, numel, 1, split, "model.layers.%d.%s.bias", block, name)
        ->trainable = t->b.shape.lora == 0;
}

/* Adapters of rank r beside a product: in x r and r x out (Hu et al., arXiv 2106.09685). Their
 * products are Megatron's own operators, not TransformerEngine's layers (NVIDIA-NeMo/
 * Megatron-Bridge@0fbfe7d3 (v0.4.0), src/megatron/bridge/peft/utils.py, ParallelLinearAdapter). */
static void add_adapter(struct transformer *t, int64_t in, int64_t out, enum lw_tp_split split,
                        int32_t block, const char *name)
{
    int64_t r = t->b.shape.lora;

    if (r == 0)
        return;
    t->b.shape.lora = 0; /* trained: with gradients of their weights */
    int32_t down =
        transformer_linear(t, t->tokens, in, r, split == LW_TP_ROW ? LW_TP_ROW : LW_TP_REPLICATED);
    traces_builder_layer(&t->b, LW_LAYER_NONE);
    int32_t up = transformer_linear(t, t->tokens, r, out,
                                    split == LW_TP_ROW ? LW_TP_REPLICATED : LW_TP_COLUMN);
    traces_builder_layer(&t->b, LW_LAYER_NONE);
    traces_builder_param(&t->b, down, r, in, split == LW_TP_ROW ? LW_TP_ROW : LW_TP_REPLICATED,
                         "model.layers.%d.%s.lora_A.weight", block, name);
    traces_builder_param(&t->b, up, out, r,
                         split == LW_TP_ROW ? LW_TP_REPLICATED : LW_TP_COLUMN,
                         "model.layers.%d.%s.lora_B.weight", block, name);
    t->b.shape.lora = r;
}

static void add_norm(struct transformer *t, int64_t width, bool whole, int32_t block,
                     const char *name)
{
    add_param(t, transformer_norm_of(t, width, whole), width, 1, LW_TP_REPLICATED, block, name);
}

/* One product; its weights are registered after those of the result, as in Phi3Attention. */
static int32_t join_projections(struct transformer *t)
{
    int64_t k_width = t->kv_heads * t->qk_width, v_width = t->kv_heads * t->v_width;
    int32_t kernel = transformer_linear(t, t->tokens, t->hidden,
                                        t->heads * t->qk_width + k_width + v_width, LW_TP_COLUMN);

    transformer_rotate_heads(t);
    return kernel;
}

static void add_qk_norms(struct transformer *t, int64_t q_width, int64_t k_width, int32_t i)
{
    bool wide = t->b.shape.qk_norm_wide;
    enum lw_tp_split split = wide ? LW_TP_COLUMN : LW_TP_REPLICATED;

    if (!t->b.shape.qk_norm && !wide)
        return;
    int32_t norm = transformer_norm_of(t, q_width + k_width, false);
    add_param(t, norm, wide ? q_width : t->qk_width, 1, split, i, "self_attn.q_norm");
    add_param(t, norm, wide ? k_width : t->qk_width, 1, split, i, "self_attn.k_norm");
}

/* Queries, keys and values of as many widths as heads have. */
static void add_projections(struct transformer *t, int32_t i)
{
    int64_t h = t->hidden, q_width = t->heads * t->qk_width, k_width = t->kv_heads * t->qk_width;
    int64_t v_width = t->kv_heads * t->v_width;
    const struct traces_model_shape *s = &t->b.shape;
    int64_t q_out = s->attention_gate ? 2 * q_width : q_width; /* each head's gate beside it */

    int32_t q = transformer_linear(t, t->tokens, h, q_out, LW_TP_COLUMN);
    int32_t k = transformer_joined(t, h, k_width);
    int32_t v = transformer_joined(t, h, v_width);
    add_adapter(t, h, q_width + k_width + v_width, LW_TP_COLUMN, i, "self_attn.qkv_proj");
    add_param(t, q, q_out, h, LW_TP_COLUMN, i, "self_attn.q_proj");
    add_param(t, k, k_width, h, LW_TP_COLUMN, i, "self_attn.k_proj");
    add_param(t, v, v_width, h, LW_TP_COLUMN, i, "self_attn.v_proj");
    if (s->qkv_bias || s->expert_bias || s->biases) {
        add_bias_of(t, q, q_width, LW_TP_COLUMN, i, "self_attn.q_proj");
        add_bias_of(t, k, k_width, LW_TP_COLUMN, i, "self_attn.k_proj");
        add_bias_of(t, v, v_width, LW_TP_COLUMN, i, "self_attn.v_proj");
        transformer_bias_sum(t, q_width + k_width + v_width, false);
    }
    add_qk_norms(t, q_width, k_width, i);
    if (s->positions == 0)
        transformer_rotate_heads(t);
}

/* The parts that are rotated are copied beside the plain ones. Fused: queries are rotated where
 * they are, and a second kernel reads plain keys with values and the one rotated key, and writes
 * keys and values; the gradients go the other way (NVIDIA/Megatron-LM@d98e8a64,
 * megatron/core/fusions/fused_mla_yarn_rope_apply.py). */
static void rotate_latent(struct transformer *t)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t token = t->b.item * t->tokens, rotated = t->heads * s->rope_width;
    int64_t keys = t->heads * t->qk_width, values = t->heads * t->v_width;
    int64_t made = token * ((keys - rotated + values + s->rope_width) + keys + values);

    if (!s->fused_latent) {
        transformer_rotation(t, rotated + s->rope_width);
        transformer_elementwise(t, 2 * keys, 1);
        return;
    }
    TRACES_TRAFFIC(&t->b, 2 * token * rotated, 2 * token * rotated, 0, .split = LW_SPLIT_GROUP);
    TRACES_TRAFFIC(&t->b, made, made, 0, .split = LW_SPLIT_GROUP);
}

/* Latent attention: queries, and keys with values, come from narrow vectors; a part of every key is
 * rotated and the same for all heads (DeepSeek-AI, arXiv 2405.04434, section 2.1). Each rank of a
 * tensor group computes the narrow vectors of its tokens. Rotated and plain parts are then copied
 * side by side. */
static void add_latent(struct transformer *t, int32_t i)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t h = t->hidden, q_in = s->q_lora > 0 ? s->q_lora : h, q_out = t->heads * t->qk_width;
    int64_t kv_in = s->kv_lora, plain = t->qk_width - s->rope_width;
    int64_t kv_out = t->heads * (plain + t->v_width);

    if (s->q_lora > 0) {
        int32_t down = transformer_whole(t, h, q_in);
        add_param(t, down, q_in, h, LW_TP_REPLICATED, i, "self_attn.q_a_proj");
        add_norm(t, q_in, true, i, "self_attn.q_a_layernorm");
        transformer_keep(t, t->b.item * t->tokens * q_in, true);
    }
    bool before = transformer_begin_part(t, LW_AGAIN_MLA_UP_PROJ);
    int32_t q = transformer_linear(t, t->tokens, q_in, q_out, LW_TP_COLUMN);
    transformer_end_part(t, before);
    add_param(t, q, q_out, q_in, LW_TP_COLUMN, i, s->q_lora > 0 ? "self_attn.q_b_proj"
                                                                  : "self_attn.q_proj");
    int32_t down = transformer_whole(t, h, kv_in + s->rope_width);
    add_param(t, down, kv_in + s->rope_width, h, LW_TP_REPLICATED, i,
              "self_attn.kv_a_proj_with_mqa");
    add_norm(t, kv_in, true, i, "self_attn.kv_a_layernorm");
    transformer_keep(t, t->b.item * t->tokens * kv_in, true);
    before = transformer_begin_part(t, LW_AGAIN_MLA_UP_PROJ);
    int32_t up = transformer_linear(t, t->tokens, kv_in, kv_out, LW_TP_COLUMN);
    add_param(t, up, kv_out, kv_in, LW_TP_COLUMN, i, "self_attn.kv_b_proj");
    rotate_latent(t);
    transformer_end_part(t, before);
}

static void add_attention(struct transformer *t, int32_t i)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t h = t->hidden, width = t->heads * t->v_width;
    int32_t joined = -1;

    if (s->lora > 0)
        transformer_keep_adapter(t, h, true);
    transformer_gathers(t);
    if (s->kv_lora > 0)
        add_latent(t, i);
    else if (s->joined)
        joined = join_projections(t);
    else
        add_projections(t, i);
    t->window = (i + 1) % (s->window_every > 0 ? s->window_every : 2) != 0 ? s->window : 0;
    transformer_attention(t);
    if (s->attention_gate)
        transformer_attention_gate(t);
    if (s->lora > 0)
        transformer_keep_adapter(t, width, false);
    int32_t o = transformer_linear(t, t->tokens, width, h, LW_TP_ROW);
    add_adapter(t, width, h, LW_TP_ROW, i, "self_attn.o_proj");
    transformer_sums(t); /* of both: the adapter's parts add up as the product's do */
    add_param(t, o, h, width, LW_TP_ROW, i, "self_attn.o_proj");
    if (joined >= 0)
        add_param(t, joined, width + 2 * t->kv_heads * t->qk_width, h, LW_TP_COLUMN, i,
                  "self_attn.qkv_proj");
    if (s->expert_bias || s->biases) {
        add_bias_of(t, o, h, LW_TP_REPLICATED, i, "self_attn.o_proj");
        transformer_bias_sum(t, h, true);
    }
    if (s->expert_bias)
        add_bias_of(t, o, t->heads, LW_TP_COLUMN, i, "self_attn.sinks");
}

/* Gate and up in one product, whose weights are one parameter. */
static void add_joined_pair(struct transformer *t, int32_t i)
{
    int64_t h = t->hidden, ffn = t->ffn;

    transformer_gathers(t);
    int32_t up = transformer_linear(t, t->tokens, h, 2 * ffn, LW_TP_COLUMN);
    transformer_gate(t, ffn, false);
    transformer_last_product(t);
    int32_t down = transformer_linear(t, t->tokens, ffn, h, LW_TP_ROW);
    transformer_sums(t);
    add_param(t, up, 2 * ffn, h, LW_TP_COLUMN, i, "mlp.gate_up_proj");
    add_param(t, down, h, ffn, LW_TP_ROW, i, "mlp.down_proj");
}

static void add_pair(struct transformer *t, int32_t i)
{
    int64_t h = t->hidden, ffn = t->ffn;
    bool gated = !t->b.shape.plain_ffn;

    if (t->b.shape.joined) {
        add_joined_pair(t, i);
        return;
    }
    transformer_gathers(t);
    int32_t gate = gated ? transformer_linear(t, t->tokens, h, ffn, LW_TP_COLUMN) : -1;
    int32_t up = gated ? transformer_joined(t, h, ffn)
                       : transformer_linear(t, t->tokens, h, ffn, LW_TP_COLUMN);
    if (gated)
        transformer_gate(t, ffn, false);
    else
        transformer_activation(t, ffn);
    transformer_last_product(t);
    int32_t down = transformer_linear(t, t->tokens, ffn, h, LW_TP_ROW);
    transformer_sums(t);
    if (gated)
        add_param(t, gate, ffn, h, LW_TP_COLUMN, i, "mlp.gate_proj");
    add_param(t, up, ffn, h, LW_TP_COLUMN, i, "mlp.up_proj");
    add_param(t, down, h, ffn, LW_TP_ROW, i, "mlp.down_proj");
    if (!t->b.shape.biases)
        return;
    if (gated)
        add_bias_of(t, gate, ffn, LW_TP_COLUMN, i, "mlp.gate_proj");
    add_bias_of(t, up, ffn, LW_TP_COLUMN, i, "mlp.up_proj");
    add_bias_of(t, down, h, LW_TP_REPLICATED, i, "mlp.down_proj");
    transformer_bias_sum(t, gated ? 2 * ffn : ffn, false);
    transformer_bias_sum(t, h, true);
}

bool llama_has_experts(const struct traces_model_shape *s, int64_t block)
{
    return s->experts > 0 && block >= s->dense_layers &&
           (s->expert_every <= 1 || (block + 1) % s->expert_every == 0);
}

/* What a half of a block takes: the result of its norm, or the block's own tensor, which products
 * read, a router and shared experts, or a router alone. -1: no norm. */
static int32_t begin_half(struct transformer *t, bool router)
{
    int32_t norm = t->b.shape.no_norms_before ? -1 : transformer_norm(t);
    bool product = !router || t->b.shape.shared_ffn > 0;

    if (product)
        transformer_cast_norm(t);
    if (router)
        transformer_keep_routed(t, product);
    else
        transformer_keep_operand(t, t->hidden, true);
    return norm;
}

/* A norm of what it gives; -1: none. */
static int32_t end_half(struct transformer *t)
{
    int32_t norm = -1;

    if (t->b.shape.norms_after) {
        bool before = transformer_begin_norm(t, false);
        norm = transformer_norm(t);
        transformer_end_part(t, before);
    }
    transformer_residual(t);
    return norm;
}

/* Registered after the halves, in the order of the forward. */
static void add_block_norms(struct transformer *t, int32_t i, const int32_t norms[4])
{
    const char *const names[] = {
        "input_layernorm", "post_attention_layernorm",
        t->b.shape.norms_after ? "pre_feedforward_layernorm" : "post_attention_layernorm",
        "post_feedforward_layernorm"};

    for (int k = 0; k < 4; k++)
        if (norms[k] >= 0)
            add_param(t, norms[k], t->hidden, 1, LW_TP_REPLICATED, i, names[k]);
    for (int k = 0; k < 4 && t->b.shape.layer_norm; k++)
        if (norms[k] >= 0)
            add_bias_of(t, norms[k], t->hidden, LW_TP_REPLICATED, i, names[k]);
}

static void add_experts(struct transformer *t, int32_t i)
{
    char block[40];

    snprintf(block, sizeof block, "model.layers.%d.mlp", i);
    transformer_experts(t, block);
}

static void add_block(struct transformer *t, int32_t i)
{
    int32_t norms[4];

    transformer_module(t, "model.layers.%d", i);
    bool fused = t->b.shape.fused_norms, experts = llama_has_experts(&t->b.shape, i);
    bool before = transformer_begin_norm(t, fused && t->b.shape.kv_lora == 0);
    norms[0] = begin_half(t, false);
    transformer_end_part(t, before);
    bool delta = transformer_is_delta(&t->b.shape, i);
    if (delta)
        transformer_delta(t, i);
    else
        add_attention(t, i);
    norms[1] = end_half(t);
    before = experts ? transformer_begin_norm(t, false) : transformer_begin_pair(t, fused);
    norms[2] = begin_half(t, experts);
    transformer_end_part(t, before);
    before = transformer_begin_part(t, experts ? LW_AGAIN_MOE : LW_AGAIN_MLP);
    if (experts)
        add_experts(t, i);
    else
        add_pair(t, i);
    transformer_end_part(t, before);
    norms[3] = end_half(t);
    transformer_norms_again(t);
    transformer_end_block(t);
    if (delta)
        traces_builder_last(&t->b)->kv_bytes = 0;
    add_block_norms(t, i, norms);
}

/* A learned table, whose rows are added, and dropout. Where they are frozen no gradient comes this
 * far. */
static void add_positions(struct transformer *t)
{
    int64_t n = t->b.shape.positions, x = t->b.wide * t->tokens * t->hidden;
    int64_t mask = t->dropout ? t->tokens * t->hidden : 0;

    if (n > 0 || t->dropout) {
        bool frozen = t->b.shape.lora > 0;
        int32_t kernel = TRACES_TRAFFIC(&t->b, 3 * x + mask, 0, frozen ? 0 : 2 * x + mask);
        if (n > 0)
            traces_builder_param(&t->b, kernel, n, t->hidden, LW_TP_REPLICATED,
                                 "model.embed_positions.weight")
                ->trainable = !frozen;
    }
    transformer_keep(t, mask, true);
}

static void add_embedding(struct transformer *t)
{
    int64_t x = t->b.wide * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "model.embed_tokens");
    int32_t kernel = transformer_lookup(t, vocab);
    traces_builder_param(&t->b, kernel, vocab, t->hidden, LW_TP_VOCAB, "model.embed_tokens.weight")
        ->trainable = t->b.shape.lora == 0;
    add_positions(t);
    transformer_keep(t, 8 * t->tokens, true);
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_head(struct transformer *t)
{
    int64_t x = t->b.item * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "lm_head");
    int32_t norm = transformer_norm(t);
    traces_builder_param(&t->b, norm, t->hidden, 1, LW_TP_REPLICATED, "model.norm.weight")
        ->trainable = t->b.shape.lora == 0;
    if (t->b.shape.layer_norm)
        traces_builder_param(&t->b, norm, t->hidden, 1, LW_TP_REPLICATED, "model.norm.bias")
            ->trainable = t->b.shape.lora == 0;
    transformer_keep(t, x, true);
    transformer_gathers(t);
    int32_t scores = transformer_linear(t, t->tokens, t->hidden, vocab, LW_TP_VOCAB);
    struct lw_param *p =
        traces_builder_param(&t->b, scores, vocab, t->hidden, LW_TP_VOCAB, "lm_head.weight");
    if (t->b.shape.tied)
        p->tied = 0;
    p->trainable = t->b.shape.lora == 0;
    transformer_loss(t, vocab);
    traces_builder_sums(&t->b, 3 * 4 * t->tokens);
    transformer_end_plain(t, LW_TP_VOCAB, 0);
}

/* The first Llama's rule for the inner width. */
static int64_t inner_width(int64_t hidden)
{
    return (8 * hidden / 3 + 255) / 256 * 256;
}

/* Blocks that predict the tokens after the next one: the embedding of the next token and the last
 * block's result side by side, made narrow again, one more block and the head's weights again
 * (DeepSeek-AI, arXiv 2412.19437, section 2.2). */
static void add_mtp(struct transformer *t, int32_t i)
{
    int64_t h = t->hidden, vocab = t->b.shape.vocab;

    add_block(t, i);
    int32_t norm = transformer_norm_of(t, 3 * h, true);
    int32_t join = transformer_whole(t, 2 * h, h);
    add_param(t, norm, 3 * h, 1, LW_TP_REPLICATED, i, "mtp_norms");
    add_param(t, join, h, 2 * h, LW_TP_REPLICATED, i, "eh_proj");
    transformer_keep(t, 3 * t->b.item * t->tokens * h, true);
    transformer_linear(t, t->tokens, h, vocab, LW_TP_VOCAB);
    traces_builder_last(&t->b)->reused_numel += vocab * h;
    transformer_loss(t, vocab);
}

enum lw_status llama_build(const struct traces_model *m, const struct traces_model_shape *shape,
                           const struct lw_device *device, struct lw_workload *w,
                           struct lw_err *err)
{
    struct traces_model_shape s = *shape;
    struct transformer t;

    s.ffn = s.ffn ? s.ffn : inner_width(s.hidden);
    LW_TRY(transformer_experts_check(&s, err));
    LW_TRY(transformer_delta_check(&s, err));
    int64_t width = s.head_width > 0 ? s.head_width : s.hidden / s.heads;
    if (s.kv_lora == 0 && s.rope_width > width)
        return lw_fail(err, LW_EINVAL, "--rope-width: found %lld, allowed: %lld, a head's width, "
                                       "or less", (long long)s.rope_width, (long long)width);
    LW_TRY(transformer_init(&t, m, &s, device, err));
    t.causal = true;
    t.dropout = s.dropout;
    traces_builder_room(&t.b, s.layers + s.mtp_layers + 2,
                        PARAMS_PER_BLOCK * (s.layers + s.mtp_layers) + 5, 1);
    add_embedding(&t);
    for (int32_t i = 0; i < s.layers; i++)
        add_block(&t, i);
    for (int64_t i = 0; i < s.mtp_layers; i++)
        add_mtp(&t, (int32_t)(s.layers + i));
    add_head(&t);
    traces_builder_buffer(&t.b, (s.rope_width ? s.rope_width : t.qk_width) / 2, LW_F32,
                          "model.rotary_emb.inv_freq");
    traces_builder_note(&t.b,
                        "vocabulary %lld; %lld heads of keys and values; scores by weights of "
                        "their own",
                        (long long)s.vocab, (long long)t.kv_heads);
    if (s.linear_every > 0)
        traces_builder_note(&t.b, LW_ASSUMPTION "blocks of linear attention (all but each %lld-th) "
                            "keep what Megatron-LM's keep; their rule takes " TRACES_SCAN_TAKES
                            " of scans of state spaces", (long long)s.linear_every);
    if (s.mtp_stated > s.mtp_layers)
        traces_builder_note(&t.b, LW_ASSUMPTION "config.json's %s is %lld; blocks for further "
                            "tokens that are trained: %lld (--mtp-layers)",
                            s.linear_split ? "mtp_num_hidden_layers" : "num_nextn_predict_layers",
                            (long long)s.mtp_stated, (long long)s.mtp_layers);
    if (s.qk_norm_wide && s.tensor > 1)
        traces_builder_note(&t.b, LW_ASSUMPTION "one norm of all queries, and one of all keys: a "
                            "tensor group's sums of their squares are not counted");
    if (s.expert_capacity > 0 && s.expert_capacity < 1)
        traces_builder_note(&t.b, LW_ASSUMPTION
                            "--expert-capacity %g drops %.3g %% of the copies of tokens that go to "
                            "experts: model FLOPs and MFU count them, hardware FLOPs and HFU do "
                            "not", s.expert_capacity, 100 * (1 - s.expert_capacity));
    return transformer_finish(&t, m, w, err);
}

#define ONE "Touvron et al., arXiv 2302.13971, table 2"
#define TWO "Touvron et al., arXiv 2307.09288, table 1"
#define INTERN "InternLM/InternEvo@c628a8c, configs/_base_/models/internlm_"
#define NEMO "NVIDIA/NeMo@8cfedd7, nemo/collections/llm/gpt/model/nemotron.py"
#define QWEN_2 "huggingface.co/Qwen, config.json of Qwen2.5-"
#define QWEN_3 "Yang et al., arXiv 2505.09388, table 1; huggingface.co/Qwen, config.json"
#define THREE "Grattafiori et al., arXiv 2407.21783, table 3"

const struct traces_model traces_models_llama[] = {
    {"decoder", "sizes of options or of a config.json",
     {LLAMA(32, 4096, 32, 32, 11008, 4096, 32000)}, llama_build,
     "options or config.json; what they leave out as Llama 2 7B"},
    {"llama-7b", "Llama 7B", {LLAMA(32, 4096, 32, 32, 11008, 2048, 32000)}, llama_build, ONE},
    {"llama-13b", "Llama 13B", {LLAMA(40, 5120, 40, 40, 13824, 2048, 32000)}, llama_build, ONE},
    {"llama-33b", "Llama 33B", {LLAMA(60, 6656, 52, 52, 17920, 2048, 32000)}, llama_build, ONE},
    {"llama-65b", "Llama 65B", {LLAMA(80, 8192, 64, 64, 22016, 2048, 32000)}, llama_build, ONE},
    {"llama-2-7b", "Llama 2 7B", {LLAMA(32, 4096, 32, 32, 11008, 4096, 32000)}, llama_build, TWO},
    {"llama-2-13b", "Llama 2 13B", {LLAMA(40, 5120, 40, 40, 13824, 4096, 32000)}, llama_build, TWO},
    {"llama-2-70b", "Llama 2 70B, 8 heads of keys and values",
     {LLAMA(80, 8192, 64, 8, 28672, 4096, 32000)}, llama_build, TWO},
    {"llama-3-8b", "Llama 3 and 3.1 8B",
     {LLAMA(32, 4096, 32, 8, 14336, 8192, 128256)}, llama_build, THREE},
    {"llama-3-70b", "Llama 3, 3.1 and 3.3 70B",
     {LLAMA(80, 8192, 64, 8, 28672, 8192, 128256)}, llama_build, THREE},
    {"llama-3-405b", "Llama 3.1 405B",
     {LLAMA(126, 16384, 128, 8, 53248, 8192, 128256)}, llama_build, THREE},
    {"llama-3.2-1b", "Llama 3.2 1B, tied",
     {LLAMA(16, 2048, 32, 8, 8192, 8192, 128256), .tied = true}, llama_build,
     "huggingface.co/meta-llama/Llama-3.2-1B, config.json"},
    {"llama-3.2-3b", "Llama 3.2 3B, tied",
     {LLAMA(28, 3072, 24, 8, 8192, 8192, 128256), .tied = true}, llama_build,
     "huggingface.co/meta-llama/Llama-3.2-3B, config.json"},
    {"mistral-7b", "Mistral 7B v0.3, no window",
     {LLAMA(32, 4096, 32, 8, 14336, 8192, 32768)}, llama_build,
     "huggingface.co/mistralai/Mistral-7B-v0.3, config.json"},
    {"internlm-7b", "InternLM 7B",
     {LLAMA(32, 4096, 32, 32, 11008, 2048, 103168)}, llama_build, INTERN "7B.py"},
    {"internlm-20b", "InternLM 20B",
     {LLAMA(60, 5120, 40, 40, 13824, 4096, 103168)}, llama_build, INTERN "20B.py"},
    {"nemotron-3-22b", "Nemotron 3 22B, squared ReLU",
     {LLAMA(40, 6144, 48, 48, 24576, 4096, 256000), .plain_ffn = true}, llama_build, NEMO},
    {"nemotron-4-15b", "Nemotron 4 15B, squared ReLU",
     {LLAMA(32, 6144, 48, 8, 24576, 4096, 256000), .plain_ffn = true}, llama_build, NEMO},
    {"nemotron-4-340b", "Nemotron 4 340B, squared ReLU",
     {LLAMA(96, 18432, 96, 8, 73728, 4096, 256000), .plain_ffn = true}, llama_build, NEMO},
    {"qwen-2.5-7b", "Qwen 2.5 7B",
     {LLAMA(28, 3584, 28, 4, 18944, 4096, 152064), .qkv_bias = true}, llama_build, QWEN_2 "7B"},
    {"qwen-2.5-14b", "Qwen 2.5 14B",
     {LLAMA(48, 5120, 40, 8, 13824, 4096, 152064), .qkv_bias = true}, llama_build, QWEN_2 "14B"},
    {"qwen-2.5-32b", "Qwen 2.5 32B",
     {LLAMA(64, 5120, 40, 8, 27648, 4096, 152064), .qkv_bias = true}, llama_build, QWEN_2 "32B"},
    {"qwen-2.5-72b", "Qwen 2.5 72B",
     {LLAMA(80, 8192, 64, 8, 29568, 4096, 152064), .qkv_bias = true}, llama_build, QWEN_2 "72B"},
    {"qwen3-4b", "Qwen3 4B, tied",
     {LLAMA(36, 2560, 32, 8, 9728, 4096, 151936), .head_width = 128, .qk_norm = true,
      .tied = true}, llama_build, QWEN_3},
    {"qwen3-8b", "Qwen3 8B",
     {LLAMA(36, 4096, 32, 8, 12288, 4096, 151936), .head_width = 128, .qk_norm = true},
     llama_build, QWEN_3},
    {"qwen3-14b", "Qwen3 14B",
     {LLAMA(40, 5120, 40, 8, 17408, 4096, 151936), .head_width = 128, .qk_norm = true},
     llama_build, QWEN_3},
    {"qwen3-32b", "Qwen3 32B",
     {LLAMA(64, 5120, 64, 8, 25600, 4096, 151936), .head_width = 128, .qk_norm = true},
     llama_build, QWEN_3},
    {0},
};
