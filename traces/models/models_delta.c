/* A gated delta net (Yang et al., arXiv 2412.06464): products give queries, keys, values, a gate z
 * and two numbers of a head, write strength and decay; a causal convolution of width 4 over
 * queries, keys and values; a rule that updates a state of K x V for each head, in chunks of 64
 * tokens; a norm of each head's result, times SiLU of its gate; one product back.
 *
 * G heads of keys of K elements, H of values of V, k = G K, d = H V. Parameters: of the products
 * h (2 k + 2 d + 2 H), 4 (2 k + d) of the convolution, 2 H (A_log, dt_bias), V of the norm, d h.
 * Names and order are those of Qwen3NextGatedDeltaNet (huggingface/transformers 5.24.0,
 * models/qwen3_next/modeling_qwen3_next.py), or of Qwen3_5GatedDeltaNet (models/qwen3_5), which has
 * four products in place of two.
 *
 * Kernels, their operands and what is kept are those of NVIDIA/Megatron-LM@d98e8a64,
 * megatron/core/ssm/gated_delta_net/gdn.py and common.py (L2 norm of queries and keys, then each
 * once for each head of values), and of the rule that it calls, fla-org/flash-linear-attention@
 * bc3b101d, fla/ops/gated_delta_rule/chunk.py and chunk_fwd.py, wy_fast.py, fla/ops/common/
 * chunk_delta_h.py and chunk_o.py, chunk_gated_delta_rule. With C tokens of a chunk, of a token and
 * head:
 *
 *   FLOPs forward: 5/4 C K of the blocks of k k' at and below the diagonal and C^2 / 2 of its
 *   inverse A; 2 C (K + V) of w = A k and u = A v; 4 K V of u - w h and k' u of a chunk's state h;
 *   2 K V + 2 C (K + V) of q h and q k' u.
 *   Backward: w, u and h again, 2 C (K + V) + 4 K V; 2 C (K + V) of u's gradient within a chunk;
 *   6 K V of the state's and of u's across chunks; 6 K V + 2 C V + 4 C K of those of q, k and w;
 *   10 C K + 4 C V + 4 C^2 of those of A, k and v.
 *
 * Each kernel takes its FLOPs and its operands, each once, one beside the other, as those of a scan
 * (models_ssm.c): no published time of these kernels was found. */
#include "traces/models/models_delta.h"

#include <inttypes.h>

#include "traces/models/models_inside.h"
#include "traces/models/models_ssm.h"

enum { CONV = TRACES_SSM_CONV, CHUNK = 64, F32 = 4 };

bool transformer_is_delta(const struct traces_model_shape *s, int64_t block)
{
    return s->linear_every > 0 && block < s->layers && (block + 1) % s->linear_every != 0;
}

enum lw_status transformer_delta_check(const struct traces_model_shape *s, struct lw_err *err)
{
    int64_t tp = s->tensor > 1 ? s->tensor : 1;
    double tokens = (double)s->batch * (double)s->seq;
    double flops = 64 * tokens * (double)s->linear_heads * (double)(s->linear_width + CHUNK) *
                   (double)(s->linear_key_width + CHUNK);

    if (s->linear_every == 0)
        return LW_OK;
    if (s->linear_heads % s->linear_key_heads)
        return lw_fail(err, LW_EINVAL,
                       "linear attention: %" PRId64 " heads of keys do not divide %" PRId64
                       " of values", s->linear_key_heads, s->linear_heads);
    if (s->linear_key_heads % tp)
        return lw_fail(err, LW_EINVAL,
                       "--tp: found %" PRId64 ", allowed: divisors of the heads of keys of linear "
                       "attention, %" PRId64, tp, s->linear_key_heads);
    if (flops > 1e17) /* a kernel's are below 2^58 */
        return lw_fail(err, LW_EINVAL,
                       "batch %" PRId64 ", sequence %" PRId64 ": the flops of one kernel of linear "
                       "attention are beyond 2^58; lower one of them", s->batch, s->seq);
    if (s->context > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--cp: found %" PRId64 ", allowed: 1 with linear attention: the exchanges "
                       "of its heads over a context group are not modelled; leave --cp out",
                       s->context);
    if (s->lora > 0)
        return lw_fail(err, LW_ENOTSUP,
                       "--lora: adapters beside linear attention are not modelled; leave it out");
    if (s->kept & TRACES_KEPT_ALTERNATE)
        return lw_fail(err, LW_ENOTSUP,
                       "--framework: what a framework that keeps every second product of a block "
                       "(torchtitan) keeps of linear attention is not known; choose another "
                       "framework");
    return LW_OK;
}

/* Elements of a token: of the heads of keys as made, k, and as the rule reads them, keys; of
 * values, d; bytes of an element, e; of a token's part of the states of a chunk; FLOPs' parts. */
struct delta {
    struct transformer *t;
    int64_t heads, k, keys, d, conv, columns, e, states, tokens;
    int64_t state_flops, keys_chunk, values_chunk; /* 2 K V H, 2 C K H, 2 C V H */
};

static struct delta delta_of(struct transformer *t)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t k = s->linear_key_heads * s->linear_key_width, d = s->linear_heads * s->linear_width;
    int64_t keys = s->linear_heads * s->linear_key_width;

    return (struct delta){
        .t = t, .heads = s->linear_heads, .k = k, .keys = keys, .d = d, .conv = 2 * k + d,
        .columns = 2 * k + 2 * d + 2 * s->linear_heads, .e = t->b.item, .tokens = t->tokens,
        .states = t->b.item * s->linear_key_width * d / CHUNK,
        .state_flops = 2 * s->linear_key_width * d, .keys_chunk = 2 * CHUNK * keys,
        .values_chunk = 2 * CHUNK * d,
    };
}

static void rule(const struct delta *m, int64_t flops, int64_t bytes, int64_t flops_back,
                 int64_t bytes_back, int32_t n_backward)
{
    transformer_scan(m->t, (const int64_t[2]){flops, flops_back},
                     (const int64_t[2]){bytes, bytes_back}, 1, n_backward);
}

static int32_t move(const struct delta *m, int64_t bytes, int64_t bytes_back, int32_t n_forward,
                    int32_t n_backward)
{
    return TRACES_TRAFFIC(&m->t->b, m->tokens * bytes, m->tokens * bytes_back, 0,
                          .split = LW_SPLIT_GROUP, .n_forward = n_forward,
                          .n_backward = n_backward);
}

/* The kernels of the rule in the order of the forward; each with those of the backward that repeat
 * it or make its gradients. */
static void add_rule(const struct delta *m)
{
    int64_t e = m->e, keys = e * m->keys, d = e * m->d, decay = F32 * m->heads;
    int64_t write = e * m->heads, a = e * CHUNK * m->heads;
    int64_t ck = m->keys_chunk, cv = m->values_chunk, kv = m->state_flops;
    int64_t square = CHUNK * CHUNK * m->heads;

    /* sums of decays; back, and of two gradients */
    rule(m, 0, 2 * decay, 0, 5 * decay, 2);
    /* k k' and its inverse */
    rule(m, ck * 5 / 8 + square / 2, keys + write + decay + a, 0, 0, 0);
    /* w and u; again, the gradients of A, k and v, and the sum of two of k's */
    int64_t made = a + 2 * keys + 2 * d + write + decay;
    rule(m, ck + cv, made,
         ck + cv + 5 * ck + 2 * cv + 4 * square,
         made + (a + 3 * keys + 3 * d + 2 * write + 2 * decay) + 3 * keys, 3);
    /* states of chunks; again, and their gradients with those of u */
    int64_t states = 2 * keys + 2 * d + decay + m->states;
    rule(m, 2 * kv, states, 2 * kv + 3 * kv, states + 3 * keys + 3 * d + decay + m->states, 2);
    /* results; the gradient of u within a chunk, and those of q, k and w */
    rule(m, kv + ck + cv, 2 * keys + 2 * d + decay + m->states,
         ck + cv + 3 * kv + cv + 2 * ck,
         (2 * keys + 2 * d + decay) + (5 * keys + 3 * d + 2 * decay + 2 * m->states), 2);
}

/* Model FLOPs, and all that the forward does: of attention and of the rule. Of the pairs of a chunk
 * a token sees (C + 1) / 2. */
static void count_rule(const struct delta *m)
{
    int64_t pairs = 3 * m->keys + 2 * m->d;

    /* counted as attention's: twice what a causal mask leaves */
    m->t->attention_flops += 2 * m->tokens * ((CHUNK + 1) * pairs + 3 * m->state_flops);
    m->t->score_flops += m->tokens * (2 * CHUNK * pairs + 3 * m->state_flops);
}

/* Convolution and SiLU (the backward computes it again); copies side by side of queries with keys,
 * values and gate, and their gradients in one; L2 norm of queries and keys; each once for each head
 * of values; write strength and decay in f32. Returns the convolution. */
static int32_t prepare(const struct delta *m)
{
    int64_t e = m->e, qk = 2 * m->k, numbers = 2 * e * m->heads;
    int32_t conv = move(m, 2 * e * m->conv, 6 * e * m->conv, 1, 2);

    move(m, 2 * e * (qk + 2 * m->d), 2 * e * (m->conv + m->columns), 3, 2);
    move(m, 2 * e * qk, 3 * e * qk, 1, 1);
    if (m->keys != m->k)
        move(m, e * (qk + 2 * m->keys), e * (qk + 2 * m->keys), 2, 2);
    move(m, numbers + (F32 + e) * m->heads, 2 * numbers + (F32 + e) * m->heads, 1, 1);
    return conv;
}

/* What the convolution and the gates read, the first products' result; queries and keys as the L2
 * norm makes them, with its factors, and as the rule reads them; values, A, decays, strengths. */
static void keep_rule(const struct delta *m)
{
    const struct traces_model_shape *s = &m->t->b.shape;
    int64_t e = m->e, numbers = (F32 + e + e * CHUNK) * m->heads;
    int64_t repeated = m->keys != m->k ? 2 * e * m->keys : 0;

    transformer_keep(m->t, m->tokens * (e * m->columns + 2 * e * m->k +
                                        2 * F32 * s->linear_key_heads + repeated + e * m->d +
                                        numbers), false);
}

static void add_param(struct transformer *t, int32_t kernel, int64_t rows, int64_t columns,
                      enum lw_tp_split split, int32_t block, const char *name)
{
    traces_builder_param(&t->b, kernel, rows, columns, split, "model.layers.%d.linear_attn.%s",
                         block, name);
}

/* The first products, which a framework may compute as one: kernels[0] is the first, and so on. */
static int add_products(const struct delta *m, int32_t kernels[4])
{
    struct transformer *t = m->t;
    bool four = t->b.shape.linear_split;

    kernels[0] = transformer_linear(t, t->tokens, t->hidden, four ? m->conv : m->conv + m->d,
                                    LW_TP_COLUMN);
    kernels[1] = transformer_joined(t, t->hidden, four ? m->d : 2 * m->heads);
    for (int k = 2; four && k < 4; k++)
        kernels[k] = transformer_joined(t, t->hidden, m->heads);
    return four ? 4 : 2;
}

static void add_product_params(const struct delta *m, const int32_t kernels[4], int n,
                               int32_t block)
{
    static const char *const two[] = {"in_proj_qkvz.weight", "in_proj_ba.weight"};
    static const char *const four[] = {"in_proj_qkv.weight", "in_proj_z.weight",
                                       "in_proj_b.weight", "in_proj_a.weight"};
    const int64_t rows[2][4] = {{m->conv + m->d, 2 * m->heads, 0, 0},
                                {m->conv, m->d, m->heads, m->heads}};

    for (int k = 0; k < n; k++)
        add_param(m->t, kernels[k], rows[n == 4][k], m->t->hidden, LW_TP_COLUMN, block,
                  n == 4 ? four[k] : two[k]);
}

void transformer_delta(struct transformer *t, int32_t block)
{
    struct delta m = delta_of(t);
    int64_t h = t->hidden, x = m.e * m.tokens * m.d;
    int32_t kernels[4];
    bool split = t->b.shape.linear_split;

    transformer_gathers(t);
    int n = add_products(&m, kernels);
    int32_t conv = prepare(&m);
    keep_rule(&m);
    add_rule(&m);
    count_rule(&m);
    /* the norm's input and result, its factors and the gate */
    transformer_keep(t, 3 * x + F32 * m.tokens * m.heads, false);
    int32_t norm = move(&m, 2 * m.e * m.d, 3 * m.e * m.d, 1, 1);
    move(&m, 3 * m.e * m.d, 5 * m.e * m.d, 1, 1);
    t->wide_operand = false;
    transformer_keep_operand(t, m.d, false);
    t->kept_before_pair = traces_builder_last(&t->b)->kept_bytes[LW_RECOMPUTE_NONE];
    t->whole_before_pair = traces_builder_last(&t->b)->whole_kept_bytes[LW_RECOMPUTE_NONE];
    int32_t out = transformer_linear(t, t->tokens, m.d, h, LW_TP_ROW);
    transformer_sums(t);
    add_param(t, conv, m.conv, CONV, LW_TP_COLUMN, block, "conv1d.weight");
    if (!split)
        add_product_params(&m, kernels, n, block);
    add_param(t, conv, m.heads, 1, LW_TP_COLUMN, block, "dt_bias");
    add_param(t, conv, m.heads, 1, LW_TP_COLUMN, block, "A_log");
    add_param(t, norm, t->b.shape.linear_width, 1, LW_TP_REPLICATED, block, "norm.weight");
    add_param(t, out, h, m.d, LW_TP_ROW, block, "out_proj.weight");
    if (split)
        add_product_params(&m, kernels, n, block);
}
