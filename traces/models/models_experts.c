/* Blocks with experts: a router gives each token topk of many gated pairs, and a weighted sum of
 * their results; shared experts see all tokens (Shazeer et al., arXiv 1701.06538; Jiang et al.,
 * arXiv 2401.04088; DeepSeek-AI, arXiv 2405.04434, section 2.2). Tokens are spread evenly over the
 * experts. None is dropped, or each expert takes its capacity, a factor of the even share: below 1
 * tokens are dropped, above 1 rows are padding (Lepikhin et al., arXiv 2006.16668, section 2.2;
 * Fedus et al., arXiv 2101.03961, section 2.2; Megatron's --moe-expert-capacity-factor with
 * --moe-pad-expert-input-to-capacity). A factor of 1 is the same work as none.
 *
 * Work of a rank, T tokens of its tensor group, in the order of Megatron's all-to-all dispatcher
 * (NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py): scores and the choice of
 * topk in f32; copies of T h elements to C h, ordered by expert, where C is T topk times the
 * capacity; dispatch; a sort by expert where a rank has several; one grouped product for gate and
 * up, and one for down, of C ranks / experts rows for each of the rank's experts; the way back. */
#include <inttypes.h>

#include "traces/models/models_transformer.h"

/* Of the ranks of a tensor group: 1 where they share the experts. */
static int64_t splits(const struct transformer *t)
{
    return t->b.shape.expert_whole || t->b.shape.tensor < 1 ? 1 : t->b.shape.tensor;
}

static int64_t ranks_of(const struct traces_model_shape *s)
{
    int64_t tensor = s->expert_whole && !s->expert_folded && s->tensor > 1 ? s->tensor : 1;

    return (s->expert_ranks > 1 ? s->expert_ranks : 1) * tensor;
}

/* Rows that experts take of all tokens: without dropped ones, with padding; at least one of each
 * rank of a context group. */
static int64_t copies_of(const struct transformer *t)
{
    int64_t ranks = t->b.shape.context > 1 ? t->b.shape.context : 1;
    int64_t copies = t->tokens / ranks * t->b.shape.topk;

    return ranks * lw_expert_copies(copies, t->b.shape.expert_capacity);
}

static enum lw_status check_capacity(const struct traces_model_shape *s, struct lw_err *err)
{
    double most = (double)s->experts / (double)s->topk;

    if (s->expert_capacity >= 0 && s->expert_capacity <= most)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--expert-capacity: found %g, allowed: 0 (no limit) to %g, where each of "
                   "%" PRId64 " experts takes every token",
                   s->expert_capacity, most, s->experts);
}

enum lw_status transformer_experts_check(const struct traces_model_shape *s, struct lw_err *err)
{
    int64_t ranks = ranks_of(s);

    if (s->experts == 0)
        return ranks == 1 ? LW_OK : lw_fail(err, LW_EINVAL,
                                            "--ep: found %" PRId64 ", but the model has no experts "
                                            "to share (1)", s->expert_ranks);
    if (s->topk < 1 || s->topk > s->experts || s->expert_ffn < 1)
        return lw_fail(err, LW_EINVAL,
                       "experts of a token: found %" PRId64 ", allowed: 1 to %" PRId64 "; width of "
                       "an expert: found %" PRId64 ", allowed: 1 or more",
                       s->topk, s->experts, s->expert_ffn);
    if (s->biases && s->shared_ffn > 0)
        return lw_fail(err, LW_EINVAL,
                       "--biases: shared experts have none in Megatron-LM (shared_experts.py); "
                       "leave out --biases or --shared-ffn");
    if (s->experts % ranks != 0)
        return lw_fail(err, LW_EINVAL,
                       "--ep: found %" PRId64 " ranks, allowed: divisors of the experts, %" PRId64,
                       ranks, s->experts);
    return check_capacity(s, err);
}

/* A kernel that moves so many bytes in forward and in backward: on every tensor rank, or of its own
 * tokens under sequence parallelism. */
static void move(struct transformer *t, int64_t bytes)
{
    TRACES_TRAFFIC(&t->b, bytes, bytes, 0);
}

/* A router in f32 makes f32 scores of 16-bit operands. In backward its input is cast to f32, both
 * products are of f32, and the input's gradient is cast back: two casts of 6 bytes an element, and
 * two operands of 4 bytes that are of 2 else. Casts of the weights are not counted.
 * NVIDIA/Megatron-LM@3bec9aa9 (core_v0.16.0), megatron/core/transformer/moe/moe_utils.py,
 * RouterGatingLinearFunction. GPT-OSS leaves the router's type as it is. */
static void add_router_casts(struct transformer *t)
{
    int64_t n = t->tokens * t->hidden;

    if ((t->b.shape.unfused & TRACES_ROUTER_F32) && !t->b.shape.expert_bias)
        TRACES_TRAFFIC(&t->b, 0, 2 * (6 + 2) * n, 0);
}

/* Scores in f32, their softmax, the choice and its weights: each reads and writes all scores. */
static int32_t route(struct transformer *t)
{
    int64_t experts = t->b.shape.experts, scores = 4 * t->tokens * experts;

    transformer_take_narrow(t, (struct transformer_narrow){0});
    int32_t kernel = transformer_linear(t, t->tokens, t->hidden, experts, LW_TP_REPLICATED);
    transformer_take_narrow(t, t->linears);
    add_router_casts(t);
    for (int i = 0; i < 3; i++)
        move(t, 2 * scores);
    transformer_keep(t, 2 * scores, true);
    return kernel;
}

/* Elements of a token that goes to experts: of its latent vector where they have one. */
static int64_t width_of(const struct transformer *t)
{
    return t->b.shape.expert_latent > 0 ? t->b.shape.expert_latent : t->hidden;
}

/* Tokens in the order of experts, or back: T rows on one side and C on the other. Rows that lie
 * apart move at 0.5 of a B200's bandwidth (network_fit_simumax, permute_fwd and permute_bwd: fused
 * kernels), copies at 0.85. Where a token goes once the sort has it (kernel_share.c). */
static void permute(struct transformer *t)
{
    int64_t bytes = t->b.item * width_of(t) * (t->tokens + copies_of(t));

    bytes = bytes * 17 / 10;
    TRACES_TRAFFIC(&t->b, bytes, bytes, 0, .experts = t->b.shape.experts);
}

/* What came from several ranks in the order of a rank's own experts, or back. */
static void sort(struct transformer *t, enum lw_kernel_tokens tokens)
{
    int64_t bytes = 2 * t->b.item * copies_of(t) * width_of(t);

    TRACES_TRAFFIC(&t->b, bytes, bytes, 0, .split = LW_SPLIT_EXPERTS,
                   .experts = t->b.shape.experts, .tokens = (uint8_t)tokens);
}

static void add_weights(struct transformer *t, int32_t kernel, int64_t rows, int64_t columns,
                        enum lw_tp_split split, bool expert, const char *block, const char *name)
{
    if (!block) {
        traces_builder_last(&t->b)->reused_numel += rows * columns;
        return;
    }
    struct lw_param *p =
        traces_builder_param(&t->b, kernel, rows, columns, split, "%s.%s", block, name);

    p->expert = expert;
    p->trainable = t->b.shape.lora == 0;
}

static bool has_bias_kernels(const struct transformer *t)
{
    return t->b.shape.expert_bias && !t->b.shape.fused_experts &&
           (t->b.shape.unfused & TRACES_UNFUSED_EXPERT_BIAS);
}

/* GPT-OSS limits both halves before the gate: two clamps, and both side by side. Backward: two
 * comparisons, both together, and the choice of one half, one comparison and the choice of the
 * other (a byte for each truth), and both side by side (NVIDIA/Megatron-LM@3bec9aa9,
 * megatron/core/fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl; torch's clamp). */
static void clamp(struct transformer *t, int64_t copies)
{
    int64_t n = copies * t->b.shape.expert_ffn, item = t->b.item;

    transformer_keep(t, 2 * item * n, false);
    TRACES_TRAFFIC(&t->b, 8 * item * n, (11 * item + 8) * n, 0, .split = LW_SPLIT_GROUP,
                   .n_forward = 3, .n_backward = 7);
}

/* To the result of each expert its bias times the weight of the copy: the product and the sum, for
 * each expert, and all side by side. Backward: the products for the gradients of bias and weight,
 * the sum of each, for each expert, and the gradients side by side (the same Megatron-LM,
 * megatron/core/transformer/moe/experts.py, TEGroupedMLP._apply_bias; weights of the type of
 * activations, since the router's type is not set).
 *
 * What sends a token once takes f32 weights alone (token_dispatcher.py, _HybridEPManager and
 * _DeepepManager: token_probs.float()). Then all are f32, of item bytes what experts give: product
 * 4, sum item + 4 + 4, side by side 4 + 4, cast 4 + item. Backward: casts of the gradient to f32
 * and back, two products of 8, their sums of 4 each, gradients side by side 2 item. */
static void add_bias(struct transformer *t, int64_t copies)
{
    int64_t n = copies * width_of(t) * splits(t), item = t->b.item;
    bool f32 = t->b.shape.dispatch_once > 0;
    int64_t forward = f32 ? 24 + 2 * item : 6 * item, back = f32 ? 32 + 4 * item : 8 * item;

    TRACES_TRAFFIC(&t->b, forward * n, back * n, 0, .split = LW_SPLIT_GROUP,
                   .experts = t->b.shape.experts, .n_forward = 2, .n_backward = f32 ? 5 : 4);
}

/* To the input of each expert's gate its bias: the sum, for each expert, and all side by side.
 * Backward: the pieces of the gradient side by side, and the sum of each for the bias, for each
 * expert (NVIDIA-NeMo/Automodel@5e55eca63, nemo_automodel/components/moe/layers.py,
 * GroupedExpertsDeepEP._apply_bias: torch.split and torch.cat; its products take no bias). */
static void add_up_bias(struct transformer *t, int64_t copies)
{
    int64_t n = copies * t->b.shape.expert_ffn * (t->b.shape.plain_ffn ? 1 : 2);

    if (has_bias_kernels(t) && t->b.shape.unfused_up_bias)
        TRACES_TRAFFIC(&t->b, 4 * t->b.item * n, 3 * t->b.item * n, 0, .split = LW_SPLIT_GROUP,
                       .experts = t->b.shape.experts, .n_forward = 2, .n_backward = 2);
}

/* SiLU and the product, or an activation: of every copy. */
static void gate(struct transformer *t, int64_t copies)
{
    int64_t tokens = t->tokens;

    t->tokens = copies;
    t->gate_again = transformer_has_part(t, LW_AGAIN_MOE_ACT);
    bool before = transformer_begin_part(t, LW_AGAIN_MOE_ACT);
    if (t->b.shape.plain_ffn && (t->b.shape.kept & TRACES_KEPT_UNWEIGHTED))
        transformer_keep(t, t->b.item * copies * t->b.shape.expert_ffn, false);
    if (has_bias_kernels(t) && !t->b.shape.fused_clamp)
        clamp(t, copies);
    transformer_end_part(t, before);
    if (t->b.shape.plain_ffn)
        transformer_activation(t, t->b.shape.expert_ffn);
    else
        transformer_gate(t, t->b.shape.expert_ffn, t->b.shape.fused_experts);
    t->gate_again = false;
    t->tokens = tokens;
}

/* A tensor group that splits each expert gathers the copies of its tokens that came, and sums their
 * results; one that shares the experts sends each rank's own tokens, and only shared experts need
 * all of them. Without sequence parallelism all ranks have all tokens. */
static bool gathers_copies(const struct transformer *t)
{
    return !t->b.shape.expert_whole && t->b.shape.sequence_parallel;
}

/* Of an expert: columns of the products before the activation. */
static int64_t inner(const struct traces_model_shape *s)
{
    return (s->plain_ffn ? 1 : 2) * s->expert_ffn;
}

/* Results of experts, for the backward of an addition at indices: of all copies of the rank's
 * experts where tokens were gathered, else of the copies of the rank's own tokens. */
static void keep_scattered(struct transformer *t, int64_t copies)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t bytes = t->b.item * copies * width_of(t);

    if ((s->kept & TRACES_KEPT_SCATTERED) && !s->dispatch_once)
        transformer_keep(t, s->expert_gathered ? bytes * splits(t) : bytes, false);
}

/* To the latent vector and back, on every tensor rank (NVIDIA/Megatron-LM@00bebb45,
 * megatron/core/transformer/moe/moe_layer.py: fc1_latent_proj of the layer's input before tokens
 * leave, fc2_latent_proj of the experts' sum, both "duplicated"). The first shares its operand with
 * the router, and the second keeps its own. */
static int32_t to_latent(struct transformer *t)
{
    int64_t width = t->b.shape.expert_latent;

    return width > 0 ? transformer_whole(t, t->hidden, width) : -1;
}

static int32_t from_latent(struct transformer *t)
{
    int64_t width = t->b.shape.expert_latent;

    if (width == 0)
        return -1;
    transformer_keep_operand(t, width, true);
    return transformer_whole(t, width, t->hidden);
}

static void add_latent_weights(struct transformer *t, int32_t to, int32_t from, const char *block)
{
    int64_t width = t->b.shape.expert_latent, h = t->hidden;

    if (width == 0)
        return;
    add_weights(t, to, width, h, LW_TP_REPLICATED, false, block, "fc1_latent_proj.weight");
    add_weights(t, from, h, width, LW_TP_REPLICATED, false, block, "fc2_latent_proj.weight");
}

/* 8-bit products take whole multiples of 16 or 32 rows of each expert: the copies of tokens are
 * copied with rows of zeros between, and the results without them; backward does both the other way
 * (NVIDIA/Megatron-LM@3bec9aa9, megatron/core/transformer/moe/experts.py, TEGroupedMLP.forward:
 * quantization_padding, quantization_unpadding). HybridEP pads as it orders copies
 * (token_dispatcher.py, _HybridEPManager: pad_multiple), and a capacity is padded already. What
 * sends a token once is HybridEP unless it is named. */
static void pad(struct transformer *t, int64_t copies)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t bytes = 2 * t->b.item * copies * width_of(t) * splits(t);

    bool ordered = s->dispatch_once > 0 && s->dispatcher != LW_DISPATCHER_DEEPEP;
    if ((s->unfused & TRACES_PADDED_EXPERTS) && s->fp8 && !ordered && s->expert_capacity == 0)
        TRACES_TRAFFIC(&t->b, bytes, bytes, 0, .split = LW_SPLIT_GROUP);
}

/* torchtitan's dispatch is not compiled (pytorch/torchtitan@1bd2548b1, torchtitan/models/moe/
 * moe.py, MoE.forward, utils.py, _permute and _unpermute). Beside what permute and sort have, of an
 * element of a copy: a cast to f32, the product with the score and the cast back, 2 item + 16; a
 * row of zeros after all copies, 2 item; a result of zeros, and copies put there before they are
 * summed, 3 item. Backward: casts of the gradient and back, the products for both gradients and the
 * sum of one, 2 item + 32; the gradient of all but that row, 3 item; zeros and sums there of the
 * copies' order, 2 item. Of an element of a token: zeros, and two sums of three gradients, 7
 * item. */
static void add_unfused_dispatch(struct transformer *t, int64_t copies)
{
    int64_t e = t->b.item, h = width_of(t);

    if (t->b.shape.unfused & TRACES_UNFUSED_DISPATCH)
        TRACES_TRAFFIC(&t->b, copies * h * (7 * e + 16),
                       copies * h * (7 * e + 32) + t->tokens * h * 7 * e, 0, .n_forward = 6,
                       .n_backward = 12);
}

static void add_routed(struct transformer *t, const char *i)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t h = width_of(t), f = s->expert_ffn, wide = inner(s), copies = copies_of(t);

    bool gathers = gathers_copies(t);
    if (!s->expert_whole && !s->sequence_parallel) /* one sum of routed and shared experts */
        transformer_gathers(t);
    int32_t router = route(t);
    int32_t to = to_latent(t);
    transformer_take_narrow(t, t->grouped);
    permute(t);
    add_unfused_dispatch(t, copies);
    sort(t, LW_TOKENS_SENT_BEFORE);
    traces_builder_gathers(&t->b, gathers ? t->b.item * copies * h : 0);
    pad(t, copies);
    int32_t up = transformer_grouped(t, h, wide, !s->plain_ffn, LW_TP_COLUMN);
    add_up_bias(t, copies);
    gate(t, copies);
    int32_t down = transformer_grouped(t, f, h, false, LW_TP_ROW);
    traces_builder_sums(&t->b, gathers ? t->b.item * copies * h : 0);
    if (has_bias_kernels(t))
        add_bias(t, copies);
    pad(t, copies);
    sort(t, LW_TOKENS_BACK_AFTER);
    permute(t);
    transformer_keep(t, t->b.item * copies * h * splits(t), false);
    keep_scattered(t, copies);
    transformer_take_narrow(t, t->linears);
    int32_t from = from_latent(t);
    add_weights(t, router, s->experts, t->hidden, LW_TP_REPLICATED, false, i, "gate.weight");
    add_weights(t, up, s->experts, wide * h, LW_TP_COLUMN, true, i, "experts.gate_up_proj");
    add_weights(t, down, s->experts, f * h, LW_TP_ROW, true, i, "experts.down_proj");
    if (s->expert_bias)
        add_weights(t, router, s->experts, 1, LW_TP_REPLICATED, false, i, "gate.bias");
    if (s->expert_bias || s->biases) {
        add_weights(t, up, s->experts, wide, LW_TP_COLUMN, true, i, "experts.gate_up_proj_bias");
        add_weights(t, down, s->experts, h, LW_TP_REPLICATED, true, i, "experts.down_proj_bias");
    }
    add_latent_weights(t, to, from, i);
}

/* The result is multiplied by a sigmoid of the token, and kept for its gradient
 * (huggingface/transformers@008e5743, models/qwen2_moe/modeling_qwen2_moe.py). */
static void add_shared_gate(struct transformer *t, const char *i)
{
    int64_t h = t->hidden, x = t->b.item * t->tokens * h;
    int32_t gate = transformer_linear(t, t->tokens, h, 1, LW_TP_REPLICATED);

    transformer_keep(t, x, true);
    TRACES_TRAFFIC(&t->b, 2 * x, 3 * x, 0);
    add_weights(t, gate, 1, h, LW_TP_REPLICATED, false, i, "shared_expert_gate.weight");
}

static void add_shared(struct transformer *t, const char *i)
{
    int64_t h = t->hidden, f = t->b.shape.shared_ffn;

    bool own = gathers_copies(t) || t->b.shape.expert_whole; /* its own gather and sum */
    bool gated = !t->b.shape.plain_ffn;
    bool before = transformer_begin_part(t, LW_AGAIN_SHARED_EXPERTS);

    if (own)
        transformer_gathers(t);
    int32_t gate = gated ? transformer_linear(t, t->tokens, h, f, LW_TP_COLUMN) : -1;
    int32_t up = gated ? transformer_joined(t, h, f)
                       : transformer_linear(t, t->tokens, h, f, LW_TP_COLUMN);
    if (gated)
        transformer_gate(t, f, false);
    else
        transformer_activation(t, f);
    int32_t down = transformer_linear(t, t->tokens, f, h, LW_TP_ROW);
    transformer_end_part(t, before);
    if (own)
        transformer_sums(t);
    transformer_residual(t);
    if (gated)
        add_weights(t, gate, f, h, LW_TP_COLUMN, false, i, "shared_experts.gate_proj.weight");
    add_weights(t, up, f, h, LW_TP_COLUMN, false, i, "shared_experts.up_proj.weight");
    add_weights(t, down, h, f, LW_TP_ROW, false, i, "shared_experts.down_proj.weight");
    if (t->b.shape.shared_gate)
        add_shared_gate(t, i);
}

/* The router's graph gives the tokens, the residual, what the shared experts make and the f32
 * weights of all experts (NVIDIA/Megatron-LM@3bec9aa9, megatron/core/transformer/
 * transformer_layer.py, _te_cuda_graph_replay). Where all of a layer's experts are computed again,
 * no graph holds it. */
static void add_copies(struct transformer *t)
{
    int64_t results = t->b.shape.shared_ffn > 0 ? 3 : 2;

    if (!transformer_has_part(t, LW_AGAIN_MOE))
        transformer_copies(t, results, 4 * t->tokens * t->b.shape.experts);
}

/* The program that sends tokens to experts; AUTO: nothing is known to go beside them. */
static enum lw_dispatcher dispatcher_of(const struct traces_model_shape *s)
{
    if (s->dispatcher == LW_DISPATCHER_AUTO && (s->unfused & TRACES_HYBRID_EP))
        return s->dispatch_once > 0 ? LW_DISPATCHER_HYBRIDEP : LW_DISPATCHER_AUTO;
    return s->dispatcher;
}

/* Ranks that exchange tokens for each expert rank of a plan: those of a tensor group that has
 * experts beside it take part. */
static int64_t sharers(const struct traces_model_shape *s)
{
    return ranks_of(s) / (s->expert_ranks > 1 ? s->expert_ranks : 1);
}

/* HybridEP (deepseek-ai/DeepEP@41cad944, csrc/hybrid_ep): a copy of a token has an f32 weight of
 * each expert of its node with it, and on the way back in backward their gradients
 * (backend/hybrid_ep_backend.cuh, expert_output_prob: NUM_OF_EXPERTS_PER_RANK x
 * NUM_OF_RANKS_PER_NODE floats). Before a forward every rank gathers which experts each token of
 * the group goes to, a byte of each (executor/executor.cu, allgather_routing_map). */
static void add_hybridep(const struct transformer *t, struct lw_module *m)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t nodes = s->expert_nodes > 1 ? s->expert_nodes : 1;

    m->dispatch_weight_bytes = copies_of(t) * 4 * (s->experts / nodes);
    m->routing_map_bytes = t->tokens * s->experts * sharers(s);
}

/* DeepEP (deepseek-ai/DeepEP@dd758caf, csrc/kernels/legacy): a copy of a token has an f32 weight of
 * each of the token's experts with it, on the way back in backward their gradients, and to the
 * experts their indexes. Inside a node these are of 64 bits beside the token's own of 32
 * (intranode.cu, dispatch: channel_src_idx_buffers, channel_topk_idx_buffers, and the weights;
 * deep_ep/include/deep_ep/common/compiled.cuh, EP_NUM_TOPK_IDX_BITS); between nodes of 32 beside 8
 * bytes, all in whole multiples of 16 (internode.cu, get_num_bytes_per_token, SourceMeta). Not
 * counted: 4 or 8 bytes with each copy on the other ways, and what notify_dispatch exchanges before
 * a forward, a count for each rank and expert. */
static void add_deepep(const struct transformer *t, struct lw_module *m)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t weights = 4 * s->topk, between = (8 + 2 * weights + 15) / 16 * 16 - weights;

    m->dispatch_weight_bytes = copies_of(t) * weights;
    m->dispatch_index_bytes = copies_of(t) * (s->expert_nodes > 1 ? between : 4 + 8 * s->topk);
}

/* Megatron-LM's alltoall (NVIDIA/Megatron-LM@d98e8a64, megatron/core/transformer/moe/
 * token_dispatcher.py, MoEAlltoAllTokenDispatcher): a second all-to-all sends the weight of each
 * copy (token_dispatch: permuted_probs; of the type of activations, since the router's type is not
 * set), and in backward its gradient back. Before a forward all ranks gather how many of each one's
 * copies go to each expert, 64 bits of each (preprocess: num_local_tokens_per_expert), but not with
 * a capacity. Counts are the same for any number of tokens, which a plan divides. Not counted: the
 * second call's own latency. */
static void add_all_to_all(const struct transformer *t, struct lw_module *m)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t divided = (s->context > 1 ? s->context : 1) *
                      ((s->sequence_parallel || s->expert_folded) && s->tensor > 1 ? s->tensor : 1);

    m->dispatch_weight_bytes = t->b.item * copies_of(t);
    m->routing_map_bytes = s->expert_capacity > 0 ? 0 : 8 * s->experts * sharers(s) * divided;
}

static void add_beside_tokens(struct transformer *t)
{
    struct lw_module *m = traces_builder_last(&t->b);

    switch (dispatcher_of(&t->b.shape)) {
    case LW_DISPATCHER_HYBRIDEP: add_hybridep(t, m); break;
    case LW_DISPATCHER_DEEPEP: add_deepep(t, m); break;
    case LW_DISPATCHER_ALL_TO_ALL: add_all_to_all(t, m); break;
    default: break;
    }
}

void transformer_experts(struct transformer *t, const char *block)
{
    const struct traces_model_shape *s = &t->b.shape;
    int64_t biases = s->expert_bias || s->biases ? inner(s) + width_of(t) : 0;

    add_copies(t);
    add_routed(t, block);
    if (s->shared_ffn > 0)
        add_shared(t, block);
    if (!s->expert_whole && !s->sequence_parallel)
        transformer_sums(t);
    traces_builder_last(&t->b)->dispatch_bytes = t->b.item * copies_of(t) * width_of(t);
    add_beside_tokens(t);
    int64_t idle = (s->experts - s->topk) *
                   ((inner(s) + s->expert_ffn) * width_of(t) + biases);
    if (block)
        t->b.w.idle_numel += idle;
    else
        traces_builder_last(&t->b)->reused_numel -= idle;
}

#define MIXTRAL "Jiang et al., arXiv 2401.04088, table 1; huggingface.co/mistralai, config.json"
#define DEEPSEEK_2 "DeepSeek-AI, arXiv 2405.04434, section 3.1.2"
#define DEEPSEEK_3 "DeepSeek-AI, arXiv 2412.19437, section 4.2"
#define KIMI "Kimi Team, arXiv 2507.20534, table 2; MooreThreads/SimuMax@4dcaae5, configs/models"
#define QWEN_3 "Yang et al., arXiv 2505.09388, tables 1 and 2; huggingface.co/Qwen, config.json"
#define QWEN_NEXT                                                                                  \
    "huggingface/transformers 5.24.0, models/qwen3_next/configuration_qwen3_next.py; "             \
    "yanring/Megatron-MoE-ModelZoo@e865051, model_configs/benchmarking/Qwen3-Next-80B-A3B.yaml"
#define MOONLIGHT                                                                                  \
    "NVIDIA-NeMo/Megatron-Bridge@v0.2.0, src/megatron/bridge/models/deepseek/"                     \
    "deepseek_provider.py, MoonlightModelProvider16B"
#define GPT_OSS                                                                                    \
    "OpenAI, arXiv 2508.10925, section 2; huggingface.co/openai/gpt-oss-120b, config.json"
#define GPT_OSS_20                                                                                 \
    "OpenAI, arXiv 2508.10925, section 2; huggingface.co/openai/gpt-oss-20b@6cee5e8, config.json"
#define GROK "xai-org/grok-1, run.py"
#define LLAMA_4 "huggingface.co/meta-llama, Llama-4 config.json"

#define EXPERTS(experts_, topk_, width_)                                                           \
    .experts = experts_, .topk = topk_, .expert_ffn = width_
#define LATENT(q_lora_)                                                                            \
    .head_width = 128, .q_lora = q_lora_, .kv_lora = 512, .rope_width = 64, .v_width = 128

const struct traces_model traces_models_experts[] = {
    {"mixtral-8x7b", "Mixtral 8x7B, 12.9 G parameters active",
     {LLAMA(32, 4096, 32, 8, 14336, 4096, 32000), EXPERTS(8, 2, 14336)}, llama_build,
     MIXTRAL},
    {"mixtral-8x22b", "Mixtral 8x22B, 39 G parameters active",
     {LLAMA(56, 6144, 48, 8, 16384, 4096, 32768), EXPERTS(8, 2, 16384)}, llama_build,
     MIXTRAL},
    {"grok-1", "Grok-1 314B, 8 experts",
     {LLAMA(64, 6144, 48, 8, 32768, 8192, 131072), EXPERTS(8, 2, 32768), .tied = true},
     llama_build, GROK},
    {"deepseek-v2", "DeepSeek-V2 236B, 21 G parameters active",
     {LLAMA(60, 5120, 128, 128, 12288, 4096, 102400), EXPERTS(160, 6, 1536), LATENT(1536),
      .expert_groups = 8, .topk_groups = 3, .shared_ffn = 3072, .dense_layers = 1},
     llama_build, DEEPSEEK_2},
    {"deepseek-v3", "DeepSeek-V3 671B, 37 G parameters active",
     {LLAMA(61, 7168, 128, 128, 18432, 4096, 129280), EXPERTS(256, 8, 2048), LATENT(1536),
      .expert_groups = 8, .topk_groups = 4, .shared_ffn = 2048, .dense_layers = 3},
     llama_build, DEEPSEEK_3},
    {"kimi-k2", "Kimi K2 of 1 T parameters, 32 G active",
     {LLAMA(61, 7168, 64, 64, 18432, 4096, 163840), EXPERTS(384, 8, 2048), LATENT(1536),
      .shared_ffn = 2048, .dense_layers = 1}, llama_build, KIMI},
    {"qwen3-30b-a3b", "Qwen3 30B, 3.3 G parameters active",
     {LLAMA(48, 2048, 32, 4, 6144, 4096, 151936), EXPERTS(128, 8, 768), .head_width = 128,
      .qk_norm = true}, llama_build, QWEN_3},
    {"qwen3-235b-a22b", "Qwen3 235B, 22 G parameters active",
     {LLAMA(94, 4096, 64, 4, 12288, 4096, 151936), EXPERTS(128, 8, 1536), .head_width = 128,
      .qk_norm = true}, llama_build, QWEN_3},
    {"qwen3-next-80b-a3b", "Qwen3-Next 80B, 3.9 G parameters active, linear attention",
     {LLAMA(48, 2048, 16, 2, 5632, 4096, 151936), EXPERTS(512, 10, 512), .shared_ffn = 512,
      .head_width = 256, .rope_width = 64, .qk_norm = true, .shared_gate = true,
      .attention_gate = true, .linear_every = 4, .linear_heads = 32, .linear_key_heads = 16,
      .linear_width = 128, .linear_key_width = 128}, llama_build, QWEN_NEXT},
    {"moonlight-16b-a3b", "Moonlight 16B, 3 G parameters active",
     {LLAMA(27, 2048, 16, 16, 11264, 4096, 163840), EXPERTS(64, 6, 1408), .head_width = 128,
      .rope_width = 64, .v_width = 128, .kv_lora = 512, .shared_ffn = 2816, .dense_layers = 1},
     llama_build, MOONLIGHT},
    {"gpt-oss-120b", "GPT-OSS 120B, 5.1 G parameters active",
     {LLAMA(36, 2880, 64, 8, 2880, 4096, 201088), EXPERTS(128, 4, 2880), .head_width = 64,
      .window = 128, .expert_bias = true}, llama_build, GPT_OSS},
    {"gpt-oss-20b", "GPT-OSS 20B, 3.6 G parameters active",
     {LLAMA(24, 2880, 64, 8, 2880, 4096, 201088), EXPERTS(32, 4, 2880), .head_width = 64,
      .window = 128, .expert_bias = true}, llama_build, GPT_OSS_20},
    {"llama-4-scout", "Llama 4 Scout, text: 109 G parameters, 17 G active",
     {LLAMA(48, 5120, 40, 8, 16384, 8192, 202048), EXPERTS(16, 1, 8192), .shared_ffn = 8192},
     llama_build, LLAMA_4},
    {"llama-4-maverick", "Llama 4 Maverick, text: 400 G parameters, 17 G active",
     {LLAMA(48, 5120, 40, 8, 16384, 8192, 202048), EXPERTS(128, 1, 8192), .shared_ffn = 8192,
      .expert_every = 2}, llama_build, LLAMA_4},
    {0},
};
