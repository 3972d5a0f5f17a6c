/* Kernels of attention, fused or with stored scores, and what they keep for backward. */
#include "traces/models/models_inside.h"

static void keep_core(struct transformer *t, int64_t bytes)
{
    transformer_keep_in(t, LW_RECOMPUTE_NONE, bytes, false);
    if (!core_again(t))
        transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, bytes, false);
}

/* From here on parts are computed again, and what they keep is not kept, by frameworks that keep
 * projections alone: to the end of the activation between the second pair of products. */
static void begin_again(struct transformer *t)
{
    if (is_usual(t))
        t->b.again = has_kept(t, TRACES_KEPT_PROJECTIONS);
}

/* The product of scores, or of values, with every score, for every head of every sequence. Its
 * backward: the gradients of both operands. Keys and values have as many heads as they have. */
static void one_product(struct transformer *t, int64_t keys, int64_t score_bytes, bool scores)
{
    int64_t width = scores ? t->qk_width : t->v_width;
    int64_t rows = t->tokens * t->heads + t->batch * keys * t->kv_heads;

    TRACES_KERNEL(&t->b, .kind = LW_KERNEL_GEMM, .split = LW_SPLIT_HEADS,
                  .batch = t->batch * t->heads, .m = t->seq, .n = scores ? keys : width,
                  .k = scores ? width : keys, .bytes = {score_bytes + t->b.item * rows * width},
                  .tf32 = t->b.shape.tf32, .both = true, .transposed = scores,
                  .again = core_again(t));
}

/* TransformerEngine fills the softmax's result again where a sample is padded, and keeps the mask
 * of the pairs, which all heads share (NVIDIA/TransformerEngine@006b3360, pytorch/attention/
 * dot_product_attention/backends.py, UnfusedDotProductAttention: masked_fill). */
static void keep_padding(struct transformer *t, int64_t keys)
{
    int64_t mask = t->batch * t->seq * keys * ranks_of_group(t);

    if (!t->padding || !t->b.shape.fills_padding)
        return;
    transformer_keep_in(t, LW_RECOMPUTE_NONE, mask, true);
    if (!core_again(t))
        transformer_keep_in(t, LW_RECOMPUTE_SELECTIVE, mask, true);
}

/* A mask of its own is applied in place to a view of the scores, so torch's autograd makes five
 * copies in backward (pytorch/pytorch@00ee6511, torch/csrc/autograd/functions/tensor.cpp,
 * CopySlices::apply_impl): of the gradient, of that slice, of this for masked_fill, which fills it,
 * and back. Four of them are alive at once: the gradient, its copy, the slice's, the filled one. */
enum { MASK_COPIES = 5, MASK_GRADS = 4 };

/* Scores, softmax with its scale and mask, dropout, sum over values: four kernels. A window is a
 * mask: all scores are computed. */
static void full_attention(struct transformer *t, int64_t keys)
{
    int64_t n_scores = t->batch * t->heads * t->seq * keys, scores = t->b.item * n_scores;
    bool dropout = t->dropout && !t->b.shape.no_score_dropout;

    one_product(t, keys, scores, true);
    if (is_unfused(t, TRACES_UNFUSED_MASK))
        TRACES_TRAFFIC(&t->b, 2 * scores, 2 * MASK_COPIES * scores, 0, .split = LW_SPLIT_GROUP,
                       .n_backward = MASK_COPIES, .again = core_again(t));
    TRACES_TRAFFIC(&t->b, 2 * scores, 3 * scores, 0, .split = LW_SPLIT_GROUP,
                   .again = core_again(t));
    if (dropout)
        TRACES_TRAFFIC(&t->b, 2 * scores + n_scores, 2 * scores + n_scores, 0,
                       .split = LW_SPLIT_GROUP, .again = core_again(t));
    one_product(t, keys, scores, false);
    if (t->b.shape.f32_softmax) /* its cast is the operand of the next product, or of dropout */
        keep_core(t, (4 + t->b.item) * n_scores + (dropout ? n_scores : 0));
    else
        keep_core(t, scores + (dropout ? scores + n_scores : 0));
    keep_padding(t, keys);
    t->score_grads = (is_unfused(t, TRACES_UNFUSED_MASK) ? MASK_GRADS : 1) * scores;
}

static void flash_attention(struct transformer *t)
{
    bool again = t->b.again, alternate = is_usual(t) && has_kept(t, TRACES_KEPT_ALTERNATE);

    t->b.again = alternate ? has_kept(t, TRACES_KEPT_NO_ATTENTION) : again;
    TRACES_KERNEL(&t->b, .kind = LW_KERNEL_ATTENTION, .split = LW_SPLIT_HEADS, .batch = t->batch,
                  .m = t->seq, .n = t->window, .heads = t->heads, .kv_heads = t->kv_heads,
                  .qk_width = t->qk_width, .v_width = t->v_width, .causal = t->causal);
    t->b.again = again;
    transformer_keep(t, 4 * t->tokens * t->heads, false);
    if (has_kept(t, TRACES_KEPT_LAYOUTS))
        transformer_keep(t, t->b.item * results(t), false);
}

/* Heads before tokens, and back. A fused kernel of torch takes views of one product's result, and
 * its own result has heads beside each other: only gradients of the views are copied, side by side
 * (pytorch/pytorch@e129513e, aten/src/ATen/native/transformers/cuda/attention.cu,
 * _scaled_dot_product_flash_attention_cuda; torch/csrc/autograd/FunctionsManual.cpp,
 * split_backward). */
static void layout_copies(struct transformer *t, int64_t qkv, int64_t out)
{
    bool views = t->flash && t->joined_views;
    bool joined = is_unfused(t, TRACES_JOINED_GRADIENTS); /* counted there */

    if (!is_unfused(t, TRACES_UNFUSED_BLOCK) || (views && joined))
        return;
    if (views)
        TRACES_TRAFFIC(&t->b, 0, 2 * qkv, 0, .split = LW_SPLIT_GROUP);
    else
        TRACES_TRAFFIC(&t->b, 2 * (qkv + out), 2 * (qkv + out), 0, .split = LW_SPLIT_GROUP,
                       .n_forward = 2, .n_backward = 2);
}

void transformer_attention(struct transformer *t)
{
    int64_t q = t->b.item * queries_of(t), out = t->b.item * results(t);
    int64_t kv = t->b.item * (keys_of(t) + values_of(t));
    int64_t counted = t->flash ? t->window : 0; /* a mask spares no product of stored scores */
    int64_t flops = 2 * t->batch * t->heads * (t->qk_width + t->v_width);
    int64_t narrower = has_kept(t, TRACES_KEPT_ATTENTION_8BIT) && t->b.shape.fp8 ? t->b.item : 1;

    t->wide_operand = false;
    bool up = t->b.shape.kv_lora > 0 ? transformer_begin_part(t, LW_AGAIN_MLA_UP_PROJ)
                                     : t->part_again;
    int64_t pairs = has_kept(t, TRACES_KEPT_REPEATED) ? q + out : kv;
    transformer_keep(t, (q + pairs) / narrower, false);
    transformer_end_part(t, up);
    begin_again(t);
    layout_copies(t, q + kv, out);
    transformer_attention_copies(t);
    t->attention_flops += flops * lw_counted_scores(t->seq, t->window, t->causal);
    t->score_flops += flops * lw_counted_scores(t->seq, counted, t->causal);
    t->b.attention = true;
    bool core = transformer_begin_part(t, LW_AGAIN_CORE_ATTN);
    if (t->flash)
        flash_attention(t);
    else
        full_attention(t, t->seq);
    transformer_end_part(t, core);
    t->b.attention = false;
    transformer_keep(t, out / narrower, false);
    if (keeps_8bit(t))
        transformer_keep_operand(t, t->heads * t->v_width, false);
    t->kept_before_pair = traces_builder_last(&t->b)->kept_bytes[LW_RECOMPUTE_NONE];
    t->whole_before_pair = traces_builder_last(&t->b)->whole_kept_bytes[LW_RECOMPUTE_NONE];
}

/* A copy of the gate's elements out of the product's result, and the product in f32
 * (NVIDIA/Megatron-LM@d98e8a64, megatron/core/transformer/attention.py, _apply_output_gate). */
void transformer_attention_gate(struct transformer *t)
{
    int64_t x = t->b.item * results(t);

    TRACES_TRAFFIC(&t->b, 5 * x, 5 * x, 0, .split = LW_SPLIT_GROUP, .n_forward = 2);
    transformer_keep(t, keeps_8bit(t) ? x : 2 * x, false);
}

/* Fused, no kernel is of other keys: two products that move no scores. */
void transformer_cross_attention(struct transformer *t, int64_t keys)
{
    int64_t kv = t->batch * keys * t->kv_heads * (t->qk_width + t->v_width);
    int64_t flops = 2 * t->batch * t->heads * (t->qk_width + t->v_width) * t->seq * keys;

    t->wide_operand = false;
    transformer_keep(t, t->b.item * (queries_of(t) + kv), false);
    t->attention_flops += flops;
    t->score_flops += flops;
    t->b.attention = true;
    bool core = transformer_begin_part(t, LW_AGAIN_CORE_ATTN);
    if (t->flash) {
        one_product(t, keys, 0, true);
        one_product(t, keys, 0, false);
        transformer_keep(t, 4 * t->tokens * t->heads, false);
    } else {
        full_attention(t, keys);
    }
    transformer_end_part(t, core);
    t->b.attention = false;
    transformer_keep(t, t->b.item * results(t), false);
}
