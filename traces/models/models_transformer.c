/* Kernels of transformers: flops, memory traffic and what is kept for backward.
 *
 * Flops are those of matrix products, with every score of attention counted, also under a causal
 * mask (Narayanan et al., SC'21, appendix). Traffic counts each operand of a kernel once. Kept
 * activations are those of Korthikanti et al., arXiv 2205.05198, section 4.1, with an element of e
 * bytes in place of 2 and masks of one byte: with dropout, full attention and a four times wider
 * pair a block keeps s b h (16 e + 2 + (2 e + 1) a s / h) bytes, 34 + 5 a s / h at e = 2. Under
 * tensor parallelism (their equation 2) the inputs of norms and of column layers and the dropout
 * masks after row layers stay whole: s b h (10 + 24 / t + 5 a s / (h t)). Fused attention keeps
 * one f32 per row of scores in their place, and its backward computes 5 products for the forward's
 * 2 (Dao, arXiv 2307.08691, section 4.1). */
#include "traces/models/models_transformer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/numbers/checked.h"
#include "traces/models/models_inside.h"

/* Columns of all matrices of a block that has `experts` experts of ffn columns, and the head's. */
static double columns(const struct traces_model_shape *s, int64_t experts)
{
    double heads = (double)s->heads * (double)(s->head_width + s->v_width + s->rope_width);
    double ssm = 3.0 * (double)s->ssm_heads * (double)s->ssm_head_width +
                 2.0 * (double)s->ssm_groups * (double)s->ssm_state;
    double linear = 3.0 * (double)s->linear_heads * (double)s->linear_width +
                    2.0 * (double)s->linear_key_heads * (double)s->linear_key_width;

    return heads + ssm + linear + (double)s->vocab + (double)s->hidden + (double)s->ffn +
           (double)s->q_lora + (double)s->kv_lora + (double)s->lora + (double)s->shared_ffn +
           (double)s->experts + (double)s->expert_latent +
           (double)experts * (double)s->expert_ffn;
}

/* Bytes, FLOPs and elements stay within 63 bits. */
static enum lw_status check_products(const struct traces_model_shape *s, struct lw_err *err)
{
    double flops = 64.0 * (double)s->batch * (double)s->seq * (double)s->hidden *
                   (columns(s, s->topk) + (double)s->seq);
    double bytes = 32.0 * (double)(s->layers + s->mtp_layers) * (double)s->hidden *
                   columns(s, s->experts);

    if (flops > 4e18)
        return lw_fail(err, LW_EINVAL,
                       "batch %" PRId64 ", sequence %" PRId64 ", hidden %" PRId64
                       ": the flops of one module are beyond 2^62; lower one of them",
                       s->batch, s->seq, s->hidden);
    if (bytes > 4e18)
        return lw_fail(err, LW_EINVAL,
                       "layers %" PRId64 ", hidden %" PRId64 ", experts %" PRId64
                       ": the bytes of the parameters are beyond 2^62; lower one of them",
                       s->layers + s->mtp_layers, s->hidden, s->experts);
    return LW_OK;
}

static enum lw_status check_sizes(const struct traces_model_shape *s, struct lw_err *err)
{
    if (s->head_width == 0 && s->hidden % s->heads)
        return lw_fail(err, LW_EINVAL,
                       "--heads: found %" PRId64 ", allowed: divisors of the hidden size, %" PRId64,
                       s->heads, s->hidden);
    if (s->heads % s->kv_heads)
        return lw_fail(err, LW_EINVAL,
                       "--kv-heads: found %" PRId64 ", allowed: divisors of the heads, %" PRId64,
                       s->kv_heads, s->heads);
    bool divided = s->tensor <= 1 || s->heads % s->tensor == 0;
    if (!divided || (s->tensor > 1 && s->kv_heads % s->tensor))
        return lw_fail(err, LW_EINVAL,
                       "--tp: found %" PRId64 ", allowed: divisors of the heads%s, %" PRId64,
                       s->tensor, divided ? " of keys and values" : "",
                       divided ? s->kv_heads : s->heads);
    if (s->context > 1 && s->seq % (2 * s->context))
        return lw_fail(err, LW_EINVAL,
                       "--cp: found %" PRId64 ", allowed: those that cut the sequence, %" PRId64
                       " tokens, into 2 x --cp equal pieces (an early and a late one for each "
                       "rank)",
                       s->context, s->seq);
    return check_products(s, err);
}

enum lw_status transformer_init(struct transformer *t, const struct traces_model *m,
                                const struct traces_model_shape *shape,
                                const struct lw_device *device, struct lw_err *err)
{
    struct traces_model_shape s = *shape;

    s.kv_heads = s.kv_heads ? s.kv_heads : s.heads;
    s.ffn = s.ffn ? s.ffn : 4 * s.hidden;
    if (m->build != llama_build && m->build != hybrid_build && s.positions == 0)
        s.positions = s.seq > m->defaults.seq ? s.seq : m->defaults.seq;
    LW_TRY(check_sizes(&s, err));
    s.f32_softmax |= s.autocast && strcmp(s.attention, "flash") != 0;
    if (s.f32_softmax && strcmp(s.attention, "flash") == 0)
        return lw_fail(err, LW_EINVAL,
                       "--f32-softmax: --attention flash stores no scores: give --attention full, "
                       "or leave it out");
    int64_t width = s.head_width > 0 ? s.head_width : s.hidden / s.heads;
    *t = (struct transformer){
        .batch = s.batch, .seq = s.seq, .tokens = s.batch * s.seq,
        .hidden = s.hidden, .heads = s.heads, .kv_heads = s.kv_heads, .ffn = s.ffn,
        .qk_width = width + (s.kv_lora > 0 ? s.rope_width : 0),
        .v_width = s.v_width > 0 ? s.v_width : width,
        .flash = strcmp(s.attention, "flash") == 0, .layer_norms = s.layer_norm,
    };
    traces_builder_init(&t->b, m->name, &s, device);
    const struct transformer_narrow narrow = {s.fp8, s.fp4};
    const char *of = s.narrow_of ? s.narrow_of : "all";
    t->linears = strcmp(of, "experts") != 0 ? narrow : (struct transformer_narrow){0};
    t->grouped = strcmp(of, "linears") != 0 ? narrow : (struct transformer_narrow){0};
    t->narrow_head = strcmp(of, "head") == 0;
    transformer_take_narrow(t, t->linears);
    return LW_OK;
}

void transformer_take_narrow(struct transformer *t, struct transformer_narrow narrow)
{
    t->b.shape.fp8 = narrow.fp8;
    t->b.shape.fp4 = narrow.fp4;
}

struct lw_module *transformer_module(struct transformer *t, const char *fmt, ...)
{
    char name[64];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    struct lw_module *m = traces_builder_module(&t->b, name);
    for (int r = 0; r < LW_N_RECOMPUTE; r++)
        m->kept_bytes[r] = 0;
    t->n_linear = 0;
    return m;
}

void transformer_keep_in(struct transformer *t, enum lw_recompute mode, int64_t bytes,
                         bool whole)
{
    struct lw_module *m = traces_builder_last(&t->b);

    m->kept_bytes[mode] += bytes;
    m->whole_kept_bytes[mode] += whole && !t->b.shape.sequence_parallel ? bytes : 0;
}

/* A plan divides what a module keeps by the ranks of a context group: of samples, not of tokens,
 * each rank has all. */
int64_t transformer_of_samples(const struct transformer *t, int64_t bytes)
{
    return t->b.shape.context > 1 ? t->b.shape.context * bytes : bytes;
}

/* --- parts that selective recomputation names ------------------------------------------------- */

bool transformer_has_part(const struct transformer *t, enum lw_again part)
{
    return (t->b.shape.again_parts & LW_AGAIN_BIT(part)) != 0;
}

static bool begin_if(struct transformer *t, bool again)
{
    bool before = t->part_again;

    t->part_again |= again;
    t->b.again |= again;
    return before;
}

/* A dense pair's activation may be a part of its own. */
bool transformer_begin_part(struct transformer *t, enum lw_again part)
{
    t->parts |= LW_AGAIN_BIT(part);
    if (part == LW_AGAIN_MLP) {
        t->parts |= LW_AGAIN_BIT(LW_AGAIN_MLP_ACT);
        t->gate_again = transformer_has_part(t, LW_AGAIN_MLP_ACT);
    }
    return begin_if(t, transformer_has_part(t, part));
}

void transformer_end_part(struct transformer *t, bool before)
{
    t->b.again = t->part_again ? before : t->b.again;
    t->part_again = before;
}

/* A norm and the operand that it makes: a part of its own unless one kernel does it and the product
 * after it. Before a pair of products it is then a part of the pair. */
bool transformer_begin_norm(struct transformer *t, bool fused)
{
    t->parts |= LW_AGAIN_BIT(LW_AGAIN_LAYERNORM);
    return begin_if(t, !fused && transformer_has_part(t, LW_AGAIN_LAYERNORM));
}

bool transformer_begin_pair(struct transformer *t, bool fused)
{
    return fused ? transformer_begin_part(t, LW_AGAIN_MLP) : transformer_begin_norm(t, false);
}

/* Of a part that is computed again, its input. */
static void keep_input(struct transformer *t, int64_t bytes, bool whole)
{
    transformer_keep_in(t, LW_RECOMPUTE_NONE, bytes, whole);
    if (!t->b.again || !is_usual(t))
        transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, bytes, whole);
}

void transformer_keep(struct transformer *t, int64_t bytes, bool whole)
{
    transformer_keep_in(t, LW_RECOMPUTE_NONE, bytes, whole);
    if (!t->b.again)
        transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, bytes, whole);
}

void transformer_cast_norm(struct transformer *t)
{
    const struct lw_product p = {.fp8 = true, .fp4 = t->b.shape.fp4};
    const enum lw_fp8_recipe recipe = lw_fp8_recipe_named(t->b.shape.fp8_recipe);
    bool apart = recipe == LW_FP8_TENSORWISE || recipe == LW_FP8_BLOCKWISE ||
                 recipe == LW_FP8_MXFP8;

    if (t->b.shape.fp4 || (t->b.shape.fp8 && apart))
        TRACES_TRAFFIC(&t->b,
                       lw_product_cast_bytes(&p, t->tokens * t->hidden, t->b.shape.lora == 0), 0, 0,
                       .fp8 = true, .fp4 = p.fp4);
}

void transformer_keep_operand(struct transformer *t, int64_t width, bool whole)
{
    int64_t n = t->tokens * width;
    int64_t bytes = !keeps_8bit(t) ? t->b.item * n : t->b.shape.fp4 ? n * LW_FP4_16 / 16 : n;

    if (t->b.shape.lora > 0 || t->wide_operand) /* each product keeps its cast */
        return;
    transformer_keep_in(t, LW_RECOMPUTE_NONE, bytes, whole);
    if (is_usual(t) ? !has_kept(t, TRACES_KEPT_PROJECTIONS) : !t->part_again)
        transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, bytes, whole);
}

void transformer_keep_routed(struct transformer *t, bool shared)
{
    transformer_take_narrow(t, (struct transformer_narrow){0});
    transformer_keep_operand(t, t->hidden, true);
    transformer_take_narrow(t, t->linears);
    if (shared && keeps_8bit(t))
        transformer_keep_operand(t, t->hidden, true);
}

/* An adapter's product has an operand of all tokens, whatever a group does with them elsewhere: the
 * gathered input of the first one. A plan divides what is kept by the group. Dropout keeps a byte
 * of each element as its mask, and its result is that operand (NVIDIA/NeMo@0cdc2a00,
 * nemo/collections/llm/peft/utils.py: ParallelLinearAdapter, return_layernorm_output_gathered). */
void transformer_keep_adapter(struct transformer *t, int64_t width, bool first)
{
    const struct traces_model_shape *s = &t->b.shape;
    bool drops = has_kept(t, TRACES_KEPT_ADAPTER_DROPOUT);
    bool gathered = first && has_kept(t, TRACES_KEPT_ADAPTER_WHOLE) && s->sequence_parallel;
    int64_t n = t->tokens * width * (gathered && s->tensor > 1 ? s->tensor : 1);

    transformer_keep(t, (first || drops ? t->b.item * n : 0) + (drops ? n : 0), first);
}

/* Forward reads and writes; backward reads gradient, input and the residual's gradient and writes
 * their sum, then reads gradient and input again for the weights. Unfused, an element takes 36
 * bytes in forward (cast, square, mean, product, cast, weights) and 74 in backward (the reverse
 * of each; the factor's gradient is a product and a sum), and is kept in f32 and normalised
 * (huggingface/transformers@c44b2d99, models/llama/modeling_llama.py, LlamaRMSNorm). A frozen
 * factor has no gradient: unfused that leaves out a product of 6 bytes and a sum of 2. Those are
 * an RMSNorm's steps: LayerNorm is one kernel in every program, and in backward one for its input
 * and one for its weights (pytorch/pytorch@0005c538e, aten/src/ATen/native/cuda/
 * layer_norm_kernel.cu, LayerNormBackwardKernelImplInternal).
 *
 * One kernel on a cast copy of its input: the cast reads 2 bytes and writes 4, the norm reads 4 and
 * writes 2. Backward, the norm reads its gradient and the copy and writes an f32 gradient (10), the
 * cast back takes 6, the sum with the residual's gradient 6; the factor's gradient 6. The copy is
 * not kept: what makes it is run again (InternLM/InternEvo@v0.2.1dev20231121,
 * internlm/model/modeling_internlm.py, _dropout_and_norm_attn; that second run is not counted). */
static int32_t norm_kernel(struct transformer *t, int64_t width, bool whole)
{
    int64_t n = t->tokens * width, x = t->b.wide * n;
    enum lw_kernel_split split = whole ? LW_SPLIT_NONE : LW_SPLIT_GROUP;
    bool frozen = t->b.shape.lora > 0;

    t->wide_operand = t->b.shape.autocast;
    if (is_unfused(t, TRACES_UNFUSED_NORMS) && !t->layer_norms) {
        transformer_keep(t, 4 * n, whole);
        return TRACES_TRAFFIC(&t->b, 36 * n, (frozen ? 66 : 74) * n, 0, .split = split,
                              .n_forward = 6, .n_backward = frozen ? 8 : 10);
    }
    if (is_unfused(t, TRACES_NORM_CASTS))
        return TRACES_TRAFFIC(&t->b, 12 * n, 22 * n, frozen ? 0 : 6 * n, .split = split,
                              .n_forward = 2, .n_backward = 3);
    return TRACES_TRAFFIC(&t->b, 2 * x, 4 * x, frozen ? 0 : 2 * x, .split = split);
}

int32_t transformer_norm_of(struct transformer *t, int64_t width, bool whole)
{
    if (!has_kept(t, TRACES_KEPT_NORM_RESULT)) /* the operand of the product after it */
        keep_input(t, t->b.wide * t->tokens * width, whole);
    return norm_kernel(t, width, whole);
}

int32_t transformer_norm(struct transformer *t)
{
    return transformer_norm_of(t, t->hidden, true);
}

int32_t transformer_norm_again(struct transformer *t)
{
    return norm_kernel(t, t->hidden, true);
}

enum { SUM_BYTES = 4 }; /* sums in f32: always of experts' gradients */

/* Bytes per element of a cast between f32 and the products' type. */
static int64_t cast_bytes(const struct transformer *t)
{
    return t->b.shape.autocast ? t->b.wide + t->b.item : 0;
}

/* Bytes per element of a kernel that reads a gradient of the parameters' type and adds it to its
 * sum, in f32 or of the same type; 0 = the product does. DeepSpeed adds an f32 copy of a bf16
 * gradient, and has f32 sums of bf16 alone (deepspeedai/DeepSpeed@9b70ce56e, deepspeed/runtime/
 * bf16_optimizer.py, update_hp_grads: hp_grad.data.add_(lp.grad.data.to(hp_grad.dtype))). */
static int64_t sum_bytes(const struct transformer *t)
{
    bool copy = is_unfused(t, TRACES_CAST_SUMS), f16 = t->b.dtype == LW_F16;
    bool f32 = is_unfused(t, TRACES_UNFUSED_SUMS) && !(copy && f16);
    bool added = is_unfused(t, TRACES_UNFUSED_SUMS | TRACES_UNFUSED_GRADS);
    int64_t sum = f32 ? SUM_BYTES : t->b.wide;

    return cast_bytes(t) + (added ? t->b.wide + 2 * sum : 0) +
           (copy && f32 && t->b.wide < SUM_BYTES ? 2 * SUM_BYTES : 0);
}

static enum lw_kernel_split split_of(enum lw_tp_split split)
{
    static const enum lw_kernel_split of[LW_N_TP_SPLITS] = {
        [LW_TP_COLUMN] = LW_SPLIT_COLUMN, [LW_TP_ROW] = LW_SPLIT_ROW,
        [LW_TP_VOCAB] = LW_SPLIT_VOCAB};

    return of[split];
}

/* out = in x weights. */
static int32_t product(struct transformer *t, struct lw_kernel k)
{
    k.kind = LW_KERNEL_GEMM;
    k.trained = t->b.shape.lora == 0;
    k.tf32 = t->b.shape.tf32;
    k.out_size = k.experts > 0 || t->b.shape.fused_sums ? SUM_BYTES : 0;
    k.sum_bytes = (uint8_t)(k.trained ? sum_bytes(t) : 0);
    return traces_builder_kernel(&t->b, &k);
}

/* Kernels of their own, which share no casts. */
static bool is_eager(const struct transformer *t)
{
    return is_unfused(t, TRACES_UNFUSED_BLOCK | TRACES_UNFUSED_NORMS);
}

void transformer_read_norm(struct transformer *t)
{
    t->wide_operand |= t->b.shape.autocast && is_eager(t);
}

/* Weights are cast once in a forward, and the copy is kept whatever is recomputed: the cache of
 * casts holds it until the forward ends, the product until its backward. The f32 result of a norm
 * is no weight, so each product casts and keeps it; a compiler shares one cast, which the norm
 * writes. (pytorch/pytorch@008ec6b1, aten/src/ATen/autocast_mode.cpp, cached_cast) */
static void cast_operands(struct transformer *t, int64_t rows, int64_t in, int64_t out, bool head)
{
    int64_t copy = transformer_of_samples(t, t->b.item * in * out), x = rows * in;

    if (!t->b.shape.autocast)
        return;
    TRACES_TRAFFIC(&t->b, cast_bytes(t) * in * out, 0, 0, .split = LW_SPLIT_GROUP, .fixed = true);
    for (int mode = LW_RECOMPUTE_NONE; mode < LW_N_RECOMPUTE; mode++)
        if (!head || mode != LW_RECOMPUTE_FULL)
            transformer_keep_in(t, mode, copy, false);
    if (!t->wide_operand)
        return;
    if (is_eager(t))
        TRACES_TRAFFIC(&t->b, cast_bytes(t) * x, cast_bytes(t) * x, 0);
    if (!head)
        transformer_keep(t, t->b.item * x, true);
    t->wide_operand = is_eager(t);
}

int32_t transformer_linear(struct transformer *t, int64_t rows, int64_t in, int64_t out,
                           enum lw_tp_split split)
{
    bool alternate = is_usual(t) && has_kept(t, TRACES_KEPT_ALTERNATE) && split != LW_TP_VOCAB;
    bool narrow = split != LW_TP_VOCAB || t->narrow_head;

    cast_operands(t, rows, in, out, split == LW_TP_VOCAB);
    t->b.again = alternate ? t->n_linear++ % 2 == 1 : t->b.again;
    t->b.unrepeated = t->stops;
    int32_t kernel = product(t, (struct lw_kernel){.batch = 1, .m = rows, .n = out, .k = in,
                                                   .split = (uint8_t)split_of(split),
                                                   .fp8 = t->b.shape.fp8 && narrow,
                                                   .fp4 = t->b.shape.fp4 && narrow,
                                                   .fixed = rows != t->tokens});
    t->b.again = alternate || t->b.again;
    return kernel;
}

int32_t transformer_joined(struct transformer *t, int64_t in, int64_t out)
{
    int32_t kernel = transformer_linear(t, t->tokens, in, out, LW_TP_COLUMN);

    traces_builder_layer(&t->b, LW_LAYER_JOINED);
    return kernel;
}

int32_t transformer_whole(struct transformer *t, int64_t in, int64_t out)
{
    int32_t kernel = transformer_linear(t, t->tokens, in, out, LW_TP_REPLICATED);

    traces_builder_layer(&t->b, LW_LAYER_WHOLE);
    return kernel;
}

int32_t transformer_grouped(struct transformer *t, int64_t in, int64_t out, bool halves,
                            enum lw_tp_split split)
{
    const struct traces_model_shape *s = &t->b.shape;

    return product(t, (struct lw_kernel){.m = t->tokens * s->topk, .n = out, .k = in,
                                         .split = (uint8_t)split_of(split), .fp8 = s->fp8,
                                         .fp4 = s->fp4,
                                         .epilogue = s->fused_experts && !s->plain_ffn,
                                         .halves = halves, .experts = s->experts,
                                         .capacity = s->expert_capacity == 1
                                                         ? 0 : s->expert_capacity});
}

/* A checkpoint that stops early ends when the last tensor that the forward saved is there again: a
 * product's operands are saved before it runs, and a sum saves nothing (pytorch/pytorch@v2.1.0,
 * torch/utils/checkpoint.py, _StopRecomputationError). Adapters come after the frozen product, a
 * mask or a norm's input after its result. An 8-bit product is an autograd.Function, whose operands
 * are saved when it has run; a compiler drops it all the same, as nothing reads its result. */
void transformer_last_product(struct transformer *t)
{
    const struct traces_model_shape *s = &t->b.shape;
    bool saved_before = !s->fp8 || has_kept(t, TRACES_KEPT_NEEDED);

    t->stops = has_kept(t, TRACES_STOPS_EARLY) && saved_before && !t->dropout &&
               !s->norms_after && s->lora == 0;
}

/* The residual's gradient is added where the norm's backward reads it and writes the sum; else the
 * norm's backward writes its own and a kernel adds both, which is one reading and one writing more
 * (pytorch/pytorch@00d40e7f7, torch/csrc/autograd/input_buffer.cpp, accumulate). */
void transformer_residual(struct transformer *t)
{
    int64_t n = t->tokens * t->hidden, x = t->b.item * n, wide = t->b.wide * n;
    int64_t mask = t->dropout ? n : 0;
    int64_t sum = is_unfused(t, TRACES_RESIDUAL_SUMS) ? 2 * wide : 0;
    if (is_unfused(t, TRACES_UNFUSED_BLOCK)) /* of which LayerNorm's kernel has one reading */
        sum += (t->layer_norms ? 2 : 3) * wide;
    int64_t cast = is_eager(t) ? cast_bytes(t) * n : 0; /* of the gradient, to the half's type */

    if (t->dropout)
        transformer_keep(t, mask, true);
    TRACES_TRAFFIC(&t->b, 2 * wide + x + mask, (t->dropout ? 2 * x + mask : 0) + sum + cast, 0);
}

void transformer_elementwise(struct transformer *t, int64_t width, int reads)
{
    int64_t x = t->b.item * t->tokens * width;

    TRACES_TRAFFIC(&t->b, (reads + 1) * x, (2 * reads + 1) * x, 0, .split = LW_SPLIT_GROUP);
}

/* After the activation nothing is computed again but what an outer part names. */
static void end_gate(struct transformer *t, bool before)
{
    transformer_end_part(t, before);
    t->b.again = t->part_again;
    t->gate_again = false;
}

/* Gradients of activations where a block's backward has most of them, of its pair of products
 * `width` wide: that of its result; that of the second product's operand, which is still there;
 * then those of what the activation read (`made` tensors; 0: in place of it, as linkedin/
 * Liger-Kernel@06e2af7d, src/liger_kernel/ops/swiglu.py), when the operand has gone. Not of
 * experts. */
static void note_gradients(struct transformer *t, int64_t width, int made)
{
    struct traces_model_shape *s = &t->b.shape;
    int64_t x = t->b.item * t->tokens * width, operand = s->lora > 0 ? 0 : x;
    int64_t after = (made + 1) * x - operand, most = after > x ? after : x;
    int64_t whole = t->b.wide * t->tokens * t->hidden;

    if (s->experts > 0)
        return;
    s->whole_grad_bytes = whole > s->whole_grad_bytes ? whole : s->whole_grad_bytes;
    s->pair_grad_bytes = most > s->pair_grad_bytes ? most : s->pair_grad_bytes;
}

void transformer_activation(struct transformer *t, int64_t width)
{
    note_gradients(t, width, 1);
    t->wide_operand = false;
    if (!has_kept(t, TRACES_KEPT_RELU))
        transformer_keep(t, t->b.item * t->tokens * width, false);
    bool before = begin_if(t, t->gate_again);
    transformer_elementwise(t, width, 1);
    transformer_keep_operand(t, width, false);
    end_gate(t, before);
}

/* As part of 8-bit products: a product writes its result beside the activation's, which is read for
 * the gradients of both halves. Fused: one kernel. Unfused: the activation and the product; of
 * blocks, each operand's gradient is a product, and both are written side by side. */
static void move_gate(struct transformer *t, int64_t width, bool in_products)
{
    int64_t x = t->b.item * t->tokens * width;
    int64_t narrow = 2 * t->tokens * width; /* 8 bits, in both layouts */

    if (in_products) {
        TRACES_TRAFFIC(&t->b, narrow, 2 * x + 2 * narrow, 0, .split = LW_SPLIT_GROUP);
    } else {
        if (!has_kept(t, TRACES_KEPT_FUSED_GATE))
            transformer_elementwise(t, width, 1);
        transformer_elementwise(t, width, 2);
    }
    if (is_unfused(t, TRACES_UNFUSED_BLOCK))
        TRACES_TRAFFIC(&t->b, 0, 5 * x, 0, .split = LW_SPLIT_GROUP);
}

void transformer_gate(struct transformer *t, int64_t width, bool in_products)
{
    int64_t x = t->b.item * t->tokens * width;

    note_gradients(t, width, has_kept(t, TRACES_KEPT_FUSED_HEAD) ? 0 : 2);
    t->wide_operand = false;
    transformer_keep(t, has_kept(t, TRACES_KEPT_GATE_8BIT) ? 2 * t->tokens * width : 2 * x, false);
    bool before = begin_if(t, t->gate_again);
    transformer_keep(t, has_kept(t, TRACES_KEPT_FUSED_GATE) ? 0 : x, false);
    transformer_keep_operand(t, width, false);
    move_gate(t, width, in_products);
    end_gate(t, before);
}

/* Its inputs are not kept. Unfused: a cast to f32, a complex product and a cast back. With YaRN's
 * factor, of queries and of keys: the product with cosines, the halves changed over (a negative
 * half, both joined), the product with sines, the sum, and a copy beside the part that is not
 * rotated, which is empty; six tables of cosines and sines are small. Backward the same, but for
 * the copy; the empty part's gradient is zeros that are added (NVIDIA/Megatron-LM@3bec9aa9,
 * megatron/core/models/common/embeddings/rope_utils.py, _apply_rotary_pos_emb_bshd). */
void transformer_rotation(struct transformer *t, int64_t width)
{
    int64_t n = t->tokens * width, item = t->b.item;

    if (t->b.shape.expert_bias && is_unfused(t, TRACES_UNFUSED_YARN))
        TRACES_TRAFFIC(&t->b, 12 * item * n, 14 * item * n, 0, .split = LW_SPLIT_GROUP,
                       .n_forward = 24, .n_backward = 16);
    else if (is_unfused(t, TRACES_UNFUSED_NORMS | TRACES_UNFUSED_ROTATION))
        TRACES_TRAFFIC(&t->b, 20 * n, 20 * n, 0, .split = LW_SPLIT_GROUP, .n_forward = 6,
                       .n_backward = 6);
    else
        transformer_elementwise(t, width, 1);
}

void transformer_rotate_heads(struct transformer *t)
{
    int64_t heads = t->heads + t->kv_heads, part = t->b.shape.rope_width;

    if (part == 0 || part >= t->qk_width) {
        transformer_rotation(t, heads * t->qk_width);
        return;
    }
    transformer_rotation(t, heads * part);
    transformer_elementwise(t, heads * t->qk_width, 1);
}

/* Forward writes the one-hot rows and multiplies them by the table; backward multiplies what it
 * kept of them by the gradient. Nothing needs the gradient of the rows. The rows are not in the
 * memory that a plan counts. */
static int32_t lookup_by_product(struct transformer *t, int64_t rows)
{
    struct lw_kernel k = {.kind = LW_KERNEL_GEMM, .batch = 1, .m = t->tokens, .n = t->hidden,
                          .k = rows, .split = LW_SPLIT_ROW, .only = LW_ONLY_FORWARD,
                          .dtype = (uint8_t)t->b.dtype,
                          .summed = t->b.wide * t->tokens * t->hidden};
    struct lw_kernel back = {.kind = LW_KERNEL_GEMM, .batch = 1, .m = t->hidden, .n = rows,
                             .k = t->tokens, .split = LW_SPLIT_COLUMN, .only = LW_ONLY_BACKWARD,
                             .dtype = k.dtype, .fixed = true};

    TRACES_TRAFFIC(&t->b, t->b.item * t->tokens * rows + 8 * t->tokens, 0, 0,
                   .split = LW_SPLIT_GROUP);
    traces_builder_kernel(&t->b, &k);
    return traces_builder_kernel(&t->b, &back);
}

/* Forward reads ids and rows and writes them; backward reads gradients and adds them to rows of a
 * dense gradient that was filled with zeros, which alone is split. Frozen rows have no gradient. */
int32_t transformer_lookup(struct transformer *t, int64_t rows)
{
    int64_t x = t->b.wide * t->tokens * t->hidden, ids = 8 * t->tokens;

    if (t->b.shape.product_lookup && t->b.shape.lora == 0)
        return lookup_by_product(t, rows);
    if (t->b.shape.lora > 0)
        return TRACES_TRAFFIC(&t->b, 2 * x + ids, 0, 0, .summed = x);
    int32_t kernel = TRACES_TRAFFIC(&t->b, 2 * x + ids, 0, 3 * x + ids, .summed = x);
    TRACES_TRAFFIC(&t->b, 0, 0, t->b.wide * rows * t->hidden, .split = LW_SPLIT_GROUP,
                   .fixed = true);
    return kernel;
}

/* Results that are kept of products 1, 3, 5: queries, values and gate of seven, queries, values and
 * up of six without a gate, queries with keys and values and gate with up of four. */
static int64_t alternate_results(const struct transformer *t)
{
    if (t->b.shape.joined)
        return queries_of(t) + keys_of(t) + values_of(t) + 2 * t->tokens * t->ffn;
    return queries_of(t) + values_of(t) + t->tokens * t->ffn;
}

/* Of a block's seven products the first is of queries, the third of values, the fifth of the gate,
 * the last of the block's result (pytorch/torchtitan@b5bcd76c, models/llama3/infra/parallelize.py:
 * every second product is computed again). Attention's result stays with them, but that of
 * cuDNN's only since @b39377f9 (add all SDPA backends to op_sac_save_list). No backward reads the
 * last product's result: an eager block keeps it, a compiled one does not. */
static void keep_alternate(struct transformer *t)
{
    struct lw_module *m = traces_builder_last(&t->b);
    bool stays = !has_kept(t, TRACES_KEPT_NO_ATTENTION);
    int64_t wide = alternate_results(t) + (stays ? results(t) : 0);
    int64_t sums = stays ? 4 * t->tokens * t->heads : 0;
    bool last = !t->b.shape.plain_ffn && !t->b.shape.joined && !has_kept(t, TRACES_KEPT_NEEDED);
    int64_t ends = last ? 2 : 1; /* the block's input, and the result of the seventh product */

    m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = m->whole_kept_bytes[LW_RECOMPUTE_SELECTIVE] = 0;
    transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, ends * t->b.item * t->tokens * t->hidden, true);
    transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, t->b.item * wide + sums, false);
}

static void add_pair(struct transformer *t, int32_t kernel, int64_t rows, int64_t columns,
                     enum lw_tp_split split, const char *block, const char *name)
{
    enum lw_tp_split of_bias = split == LW_TP_COLUMN ? LW_TP_COLUMN : LW_TP_REPLICATED;

    traces_builder_param(&t->b, kernel, rows, columns, split, "%s.%sweight", block, name);
    if (!t->b.shape.no_bias)
        traces_builder_param(&t->b, kernel, rows, 1, of_bias, "%s.%sbias", block, name);
}

void transformer_layer(struct transformer *t, int64_t rows, int64_t in, int64_t out,
                       enum lw_tp_split split, const char *block, const char *name)
{
    bool sum = !t->b.shape.no_bias && rows == t->tokens, row = split == LW_TP_ROW;

    if (sum && row) /* the product stays last: the group sums what it gives */
        transformer_bias_sum(t, out, true);
    add_pair(t, transformer_linear(t, rows, in, out, split), out, in, split, block, name);
    if (sum && !row)
        transformer_bias_sum(t, out, false);
}

void transformer_norm_layer(struct transformer *t, const char *block, const char *name)
{
    t->layer_norms = true;
    add_pair(t, transformer_norm(t), t->hidden, 1, LW_TP_REPLICATED, block, name);
}

void transformer_gathers(struct transformer *t)
{
    traces_builder_gathers(&t->b, t->b.item * t->tokens * t->hidden);
}

void transformer_sums(struct transformer *t)
{
    traces_builder_sums(&t->b, t->b.item * t->tokens * t->hidden);
}

void transformer_pre_norm_block(struct transformer *t, const char *block,
                                const char *const names[6])
{
    int64_t h = t->hidden, ffn = t->ffn;

    t->joined_views = true;
    transformer_module(t, "%s", block);
    bool norm = transformer_begin_norm(t, t->b.shape.fused_norms);
    transformer_norm_layer(t, block, names[0]);
    transformer_cast_norm(t);
    transformer_keep_operand(t, h, true);
    transformer_end_part(t, norm);
    transformer_gathers(t);
    transformer_layer(t, t->tokens, h, 3 * h, LW_TP_COLUMN, block, names[1]);
    transformer_attention(t);
    transformer_layer(t, t->tokens, h, h, LW_TP_ROW, block, names[2]);
    transformer_sums(t);
    transformer_residual(t);
    bool pair = transformer_begin_pair(t, t->b.shape.fused_norms);
    transformer_norm_layer(t, block, names[3]);
    transformer_keep_operand(t, h, true);
    transformer_end_part(t, pair);
    pair = transformer_begin_part(t, LW_AGAIN_MLP);
    transformer_gathers(t);
    transformer_layer(t, t->tokens, h, ffn, LW_TP_COLUMN, block, names[4]);
    transformer_activation(t, ffn);
    transformer_last_product(t);
    transformer_layer(t, t->tokens, ffn, h, LW_TP_ROW, block, names[5]);
    transformer_end_part(t, pair);
    transformer_sums(t);
    transformer_residual(t);
    transformer_end_block(t);
}

/* Where attention's backward begins what came after attention has gone: its gradients of stored
 * scores take as much as the scores; two of them where a kernel masks the scores, because neither
 * softmax's backward nor the mask's changes its operand. A fused softmax writes its gradient in
 * place of its operand (eth-easl/sailor@cf2c8e3, third_party/Megatron-DeepSpeed/megatron/
 * fused_kernels/scaled_upper_triang_masked_softmax_cuda.cu: "completely in-place"). */
static void note_score_gradients(struct transformer *t, const struct lw_module *m)
{
    struct traces_model_shape *s = &t->b.shape;
    int64_t whole = m->whole_kept_bytes[LW_RECOMPUTE_NONE] - t->whole_before_pair;
    int64_t split = m->kept_bytes[LW_RECOMPUTE_NONE] - t->kept_before_pair - whole;

    if (s->experts > 0 || t->score_grads - split <= s->score_grad_bytes)
        return;
    s->score_grad_bytes = t->score_grads - split;
    s->pair_kept_whole = whole;
}

void transformer_end_block(struct transformer *t)
{
    struct lw_module *m = traces_builder_last(&t->b);
    int64_t x = t->b.wide * t->tokens * t->hidden;

    note_score_gradients(t, m);
    t->b.again = t->part_again = t->b.unrepeated = t->stops = false;
    if (is_usual(t) && has_kept(t, TRACES_KEPT_ALTERNATE))
        keep_alternate(t);
    transformer_keep_in(t, LW_RECOMPUTE_FULL, x, true);
    m->output_bytes = x;
    m->tp_split = LW_TP_BLOCK;
    m->kv_bytes = t->b.item * (keys_of(t) + values_of(t));
}

void transformer_end_plain(struct transformer *t, enum lw_tp_split split, int64_t output_bytes)
{
    struct lw_module *m = traces_builder_last(&t->b);

    m->kept_bytes[LW_RECOMPUTE_FULL] = m->kept_bytes[LW_RECOMPUTE_NONE];
    m->whole_kept_bytes[LW_RECOMPUTE_FULL] = m->whole_kept_bytes[LW_RECOMPUTE_NONE];
    m->output_bytes = output_bytes;
    m->tp_split = split;
}

/* Of all tokens that a rank's tensor group, or its group of experts, has. */
static void add_buffers(struct transformer *t)
{
    struct traces_model_shape *s = &t->b.shape;
    int64_t tokens = t->tokens / (s->context > 1 ? s->context : 1);
    int64_t ranks = s->expert_ranks > 1 ? s->expert_ranks : 1;
    int64_t width = s->expert_latent > 0 ? s->expert_latent : t->hidden;
    int64_t of_group = s->sequence_parallel && s->tensor > 1 ? t->hidden : 0;
    bool gathered = s->experts > 0 && s->expert_gathered && (of_group > 0 || ranks > 1);
    int64_t of_experts = gathered ? ranks * width : 0;

    if (s->gather_buffer)
        s->workspace += t->b.item * tokens * (of_group > of_experts ? of_group : of_experts);
    if (s->experts > 0 && !s->expert_serial)
        s->workspace += s->stream_workspace;
}

/* Parts that are named and that no block has. */
static enum lw_status check_parts(const struct transformer *t, const struct traces_model *m,
                                  struct lw_err *err)
{
    char lacks[LW_AGAIN_TEXT], has[LW_AGAIN_TEXT];

    if ((t->b.shape.again_parts & ~t->parts) == 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--recompute-modules: blocks of model '%s' have no %s; they have %s", m->name,
                   lw_again_text(t->b.shape.again_parts & ~t->parts, lacks),
                   lw_again_text(t->parts, has));
}

/* Why less is saved than the words say. */
static void note_parts(struct transformer *t)
{
    const struct traces_model_shape *s = &t->b.shape;

    if (transformer_has_part(t, LW_AGAIN_LAYERNORM) && s->fused_norms)
        traces_builder_note(&t->b, LW_ASSUMPTION
                            "--recompute-modules layernorm: of norms before experts and latent "
                            "attention alone; the others are one kernel with their product "
                            "(TransformerEngine), which keeps their result");
    if (transformer_has_part(t, LW_AGAIN_MOE) && s->expert_ranks > 1)
        traces_builder_note(&t->b, LW_ASSUMPTION
                            "--recompute-modules moe: the exchanges of tokens that are done again "
                            "take no time");
}

enum lw_status transformer_finish(struct transformer *t, const struct traces_model *m,
                                  struct lw_workload *w, struct lw_err *err)
{
    char producer[80];
    enum lw_status parts = check_parts(t, m, err);

    if (parts != LW_OK) {
        traces_builder_drop(&t->b);
        return parts;
    }
    note_parts(t);

    traces_builder_note(&t->b,
                        "%s: batch %" PRId64 ", sequence %" PRId64 ", %" PRId64
                        " blocks, hidden %" PRId64 ", heads %" PRId64 ", ffn %" PRId64 ", %s",
                        m->name, t->batch, t->seq, t->b.shape.layers, t->hidden, t->heads, t->ffn,
                        lw_dtype_name(t->b.dtype));
    traces_builder_note(&t->b, "shapes: %s", m->source);
    traces_builder_note(&t->b,
                        t->flash ? "attention: fused, scores are not stored (flash)"
                                 : "attention: scores are stored (full); --attention flash fuses");
    traces_builder_note(&t->b,
                        "kept activations: Korthikanti et al., arXiv 2205.05198, section 4.1, "
                        "without sequence parallelism");
    add_buffers(t);
    snprintf(producer, sizeof producer, "lapwing model %s", m->name);
    t->b.w.sample_tokens = m->defaults.seq > 0 ? t->seq : 0; /* patches are not tokens */
    t->b.w.heads = t->heads;
    t->b.w.kv_heads = t->kv_heads;
    t->b.w.attention_flops = t->attention_flops / t->batch / (t->causal ? 2 : 1);
    t->b.w.score_flops = t->score_flops / t->batch;
    return traces_builder_finish(&t->b, producer, w, err);
}
