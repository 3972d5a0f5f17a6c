/* Kernels that autograd or a program adds to those of a block, where nothing fuses them. */
#include "traces/models/models_inside.h"

/* The gradient of a bias is the sum of its product's gradient over tokens: a kernel of its own,
 * which reads that gradient (pytorch/pytorch@e1253a956, torch/csrc/autograd/engine.cpp,
 * validate_outputs: at::sum_to; aten/src/ATen/ExpandUtils.h). Of `out` elements a token. */
void transformer_bias_sum(struct transformer *t, int64_t out, bool whole)
{
    if (is_unfused(t, TRACES_BIAS_SUMS) && t->b.shape.lora == 0)
        TRACES_TRAFFIC(&t->b, 0, 0, t->b.item * t->tokens * out,
                       .split = whole ? LW_SPLIT_NONE : LW_SPLIT_GROUP);
}

/* Queries, keys and values are views of one product's result: their gradients are copied side by
 * side (pytorch/pytorch, torch/csrc/autograd/FunctionsManual.cpp, split_backward: at::cat). The
 * result is copied where heads come before tokens. */
void transformer_attention_copies(struct transformer *t)
{
    int64_t out = t->b.item * results(t);
    int64_t joined = t->b.item * (queries_of(t) + keys_of(t) + values_of(t));

    if (is_unfused(t, TRACES_JOINED_GRADIENTS))
        TRACES_TRAFFIC(&t->b, 0, 2 * joined, 0, .split = LW_SPLIT_GROUP);
    if (is_unfused(t, TRACES_CONTEXT_COPY))
        TRACES_TRAFFIC(&t->b, 2 * out, 0, 0, .split = LW_SPLIT_GROUP);
}

/* What makes the results of a block's two norms is a checkpoint of its own: both norms and the sum
 * between them run again in the backward (InternLM/InternEvo@v0.2.1dev20231121,
 * internlm/model/modeling_internlm.py, _dropout_and_norm_attn and _dropout_and_norm_ffn). */
void transformer_norms_again(struct transformer *t)
{
    int64_t n = t->tokens * t->hidden, norm = is_unfused(t, TRACES_NORM_CASTS) ? 12 : 2 * t->b.wide;

    if (is_unfused(t, TRACES_NORMS_AGAIN))
        TRACES_TRAFFIC(&t->b, 0, (2 * norm + 3 * t->b.wide) * n, 0, .n_backward = 5);
}

void transformer_copies(struct transformer *t, int64_t results, int64_t more)
{
    int64_t x = 2 * t->b.item * t->tokens * t->hidden;

    if (is_unfused(t, TRACES_GRAPH_COPIES))
        TRACES_TRAFFIC(&t->b, x, x * results + 2 * more, 0, .n_forward = 1,
                       .n_backward = (int32_t)results + (more > 0));
}
