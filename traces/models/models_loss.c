/* Kernels of the loss over a vocabulary, and what the head and the loss keep for backward. */
#include "traces/models/models_inside.h"

/* Bytes of a score at the loss's most. In place: the scores and one f32 copy, which each step
 * changes; in the backward its cast to their gradient in place of them
 * (NVIDIA/Megatron-LM@d98e8a64, megatron/core/tensor_parallel/cross_entropy.py). Compiled, a step
 * cannot change its operand: its f32 result is there beside it
 * (megatron/core/fusions/fused_cross_entropy.py). log_softmax: the program's scores, their
 * logarithms, the gradient of these and that of the scores; under autocast, before the last, the
 * logarithms' f32 copy, which nll_loss keeps, and its gradient (pytorch/pytorch@0321fa774,
 * aten/src/ATen/native/LossNLL.cpp: nll_loss_backward takes self). TransformerEngine's forward
 * stores the gradient over the scores, in their type. */
static int64_t loss_bytes(const struct transformer *t)
{
    int64_t copy = t->b.item < 4 ? t->b.item : 0;

    if (t->b.shape.loss_scores > 0)
        return t->b.shape.loss_scores;
    if (has_kept(t, TRACES_KEPT_CHUNKED_LOSS) || is_unfused(t, TRACES_LOSS_WRITES_GRADIENT))
        return t->b.item;
    if (is_unfused(t, TRACES_LOG_SOFTMAX))
        return t->b.shape.autocast ? 2 * t->b.item + 4 + 4 : 4 * t->b.item;
    if (has_kept(t, TRACES_KEPT_LOSS_IN_PLACE))
        return copy + (t->b.shape.fused_loss ? 8 : 4);
    return is_unfused(t, TRACES_UNFUSED_LOSS) ? t->b.item + 8 : 4;
}

/* Of each micro-batch whose gradient of the head's weights waits: the gradient of its scores, and
 * the head's input; and the gradient of the weights, which stays where no hook of autograd takes it
 * (NVIDIA/Megatron-LM@d98e8a64, megatron/core/tensor_parallel/layers.py and core/utils.py,
 * drain_embedding_wgrad_compute). */
static void keep_waiting(struct transformer *t, int64_t scores, int64_t vocab)
{
    int64_t n = t->b.shape.head_waits, item = t->b.item;

    if (n == 0)
        return;
    transformer_keep(t, n * item * scores, false);
    transformer_keep(t, n * item * t->tokens * t->hidden, true);
    transformer_keep(t, transformer_of_samples(t, item * vocab * t->hidden), false);
}

/* A loss in 8 pieces of tokens: the head's backward of each gives a gradient of the whole weight,
 * which is added to the sum of those before it. Sum and result are there when the scores of the
 * first piece have gone (pytorch/torchtune@10ff7cd2, torchtune/modules/loss/
 * ce_chunked_output_loss.py, and torchtune/modules/transformer.py, chunked_output). */
static void keep_piece(struct transformer *t, int64_t scores, int64_t vocab)
{
    enum { PIECES = 8 };
    int64_t result = transformer_of_samples(t, t->b.item * vocab * t->hidden);
    int64_t gone = t->b.item * scores / PIECES;

    if (has_kept(t, TRACES_KEPT_CHUNKED_LOSS) && t->b.shape.lora == 0 && result > gone)
        transformer_keep(t, result - gone, false);
}

/* Tokens of a piece: as many scores as the head's input has elements, a power of two. */
static int64_t tokens_of_piece(const struct transformer *t, int64_t vocab)
{
    int64_t pieces = (vocab + t->hidden - 1) / t->hidden, piece = 1;

    while (piece * pieces < t->tokens)
        piece *= 2;
    return piece < t->tokens ? piece : t->tokens;
}

/* Head and loss in pieces of tokens: their backward is a part of the forward, which leaves the
 * gradients of the head's input and weight; the scores of one piece become their gradients in
 * place. What a piece adds to the weight's gradient is a product's result and its f32 copy
 * (linkedin/Liger-Kernel@ead96b61, src/liger_kernel/ops/fused_linear_cross_entropy.py). */
static void fused_head(struct transformer *t, int64_t vocab)
{
    int64_t piece = t->b.item * tokens_of_piece(t, vocab) * vocab;

    t->b.shape.score_bytes = piece;
    transformer_keep(t, piece, false);
    transformer_keep(t, t->b.item * t->tokens * t->hidden, true);
    transformer_keep(t, transformer_of_samples(t, (2 * t->b.item + 4) * vocab * t->hidden), false);
    TRACES_TRAFFIC(&t->b, 2 * t->b.item * t->tokens * vocab, 0, 0, .split = LW_SPLIT_GROUP);
}

/* Scores are read and written as f32 probabilities; backward reads these and writes the gradient.
 * In place: forward reads scores, backward reads them and writes their gradient (Dao-AILab/
 * flash-attention@v1.0.9, csrc/xentropy). TransformerEngine's forward reads scores for their
 * softmax's sum, reads them again and writes their gradient over them; backward multiplies that by
 * the gradient of each token's loss (NVIDIA/TransformerEngine@v2.9, transformer_engine/pytorch/
 * triton/cross_entropy.py). A metric's loss casts scores to f32, reads the cast and
 * writes logarithms of probabilities (mosaicml/composer@12d31ceb9, composer/metrics/nlp.py,
 * LanguageCrossEntropy).
 * Unfused: cast, maximum, difference, exponential, sum and quotient are kernels of f32 tensors; so
 * are the backward's product and its cast. The scores themselves and their f32 copy are there when
 * the probabilities are made, and again as gradients (huggingface/nanotron@00708b8,
 * src/nanotron/parallel/tensor_parallel/functional.py).
 * log_softmax: one kernel reads scores and writes logarithms of their type; of these the loss takes
 * one a token. Backward, zeros are filled for its gradient, and one kernel reads that and the
 * logarithms and writes the scores' (pytorch/pytorch@0321fa774, aten/src/ATen/native/LossNLL.cpp,
 * cross_entropy_loss: log_softmax with dtype self.scalar_type(), nll_loss). Under autocast nll_loss
 * is of f32: the logarithms are cast, zeros have 4 bytes, and their gradient is cast back. */
void transformer_loss(struct transformer *t, int64_t vocab)
{
    int64_t scores = t->tokens * vocab, forward = t->b.item + 4, backward = t->b.item + 4;

    if (has_kept(t, TRACES_KEPT_FUSED_HEAD)) {
        fused_head(t, vocab);
        return;
    }
    t->b.shape.score_bytes = loss_bytes(t) * scores;
    transformer_keep(t, t->b.shape.score_bytes, false);
    keep_waiting(t, scores, vocab);
    keep_piece(t, scores, vocab);
    if (t->b.shape.mask_in_batch)
        transformer_keep(t, t->batch * t->seq * t->seq * ranks_of_group(t), true);
    if (is_unfused(t, TRACES_LOG_SOFTMAX)) {
        forward = 2 * t->b.item + (t->b.shape.autocast ? t->b.item + 4 : 0);
        backward = 4 * t->b.item + (t->b.shape.autocast ? 4 + 4 : 0);
    } else if (is_unfused(t, TRACES_UNFUSED_LOSS)) {
        forward += 4 + 8 + 8 + 4 + 8;
        backward += 8;
    } else if (is_unfused(t, TRACES_LOSS_IN_PLACE)) {
        forward = t->b.item;
        backward = 2 * t->b.item;
    } else if (is_unfused(t, TRACES_LOSS_WRITES_GRADIENT)) {
        forward = 3 * t->b.item;
        backward = 2 * t->b.item;
    }
    forward += t->b.shape.metric_losses * (t->b.item + 4 + 4 + 4);
    TRACES_TRAFFIC(&t->b, forward * scores, backward * scores, 0, .split = LW_SPLIT_GROUP);
}
