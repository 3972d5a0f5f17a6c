/* A framework's facts -> kernels of its own, passes of its step, what it keeps, time of its host.
 * See docs/design/frameworks.md. */
#include "traces/models/model_framework.h"

#include <string.h>

#include "shared/device/device_kind.h"
#include "shared/framework/framework.h"
#include "shared/framework/framework_rates.h"
#include "shared/numbers/dtype.h"
#include "shared/strategy/strategy.h"
#include "traces/models/models.h"

static unsigned bit(struct lw_figure f, int bit)
{
    return lw_fact(f) ? (unsigned)bit : 0;
}

static unsigned unfused_of(const struct lw_framework *f)
{
    return bit(f->unfused_sums, TRACES_UNFUSED_SUMS) | bit(f->unfused_loss, TRACES_UNFUSED_LOSS) |
           bit(f->unfused_block, TRACES_UNFUSED_BLOCK) |
           bit(f->unfused_norms, TRACES_UNFUSED_NORMS) | bit(f->norm_casts, TRACES_NORM_CASTS) |
           bit(f->unfused_grads, TRACES_UNFUSED_GRADS) |
           bit(f->unfused_expert_bias, TRACES_UNFUSED_EXPERT_BIAS) |
           bit(f->unfused_rotation, TRACES_UNFUSED_ROTATION) |
           bit(f->unfused_yarn, TRACES_UNFUSED_YARN) |
           bit(f->unfused_mask, TRACES_UNFUSED_MASK) | bit(f->router_f32, TRACES_ROUTER_F32) |
           bit(f->graph_copies, TRACES_GRAPH_COPIES) |
           bit(f->padded_experts, TRACES_PADDED_EXPERTS) | bit(f->hybrid_ep, TRACES_HYBRID_EP) |
           bit(f->samples_first, TRACES_SAMPLES_FIRST) |
           bit(f->unfused_dispatch, TRACES_UNFUSED_DISPATCH) |
           bit(f->cast_sums, TRACES_CAST_SUMS) | bit(f->bias_sums, TRACES_BIAS_SUMS) |
           bit(f->residual_sums, TRACES_RESIDUAL_SUMS) |
           bit(f->joined_gradients, TRACES_JOINED_GRADIENTS) |
           bit(f->context_copy, TRACES_CONTEXT_COPY) |
           bit(f->loss_in_place, TRACES_LOSS_IN_PLACE) |
           bit(f->loss_writes_gradient, TRACES_LOSS_WRITES_GRADIENT) |
           bit(f->log_softmax, TRACES_LOG_SOFTMAX) |
           bit(f->convolution_layouts, TRACES_CONVOLUTION_LAYOUTS) |
           bit(f->channel_norms, TRACES_CHANNEL_NORMS) |
           bit(f->norms_again, TRACES_NORMS_AGAIN);
}

/* Operands in 8 bits belong to adapters, whose products are frozen. */
static unsigned kept_of_adapters(const struct lw_framework *f)
{
    return bit(f->kept_gate_8bit, TRACES_KEPT_GATE_8BIT) |
           bit(f->kept_attention_8bit, TRACES_KEPT_ATTENTION_8BIT) |
           bit(f->kept_adapter_whole, TRACES_KEPT_ADAPTER_WHOLE) |
           bit(f->kept_adapter_dropout, TRACES_KEPT_ADAPTER_DROPOUT);
}

static unsigned kept_of(const struct lw_framework *f, bool adapters)
{
    return bit(f->kept_fused_gate, TRACES_KEPT_FUSED_GATE) |
           (adapters ? kept_of_adapters(f) : 0) |
           bit(f->kept_projections, TRACES_KEPT_PROJECTIONS) |
           bit(f->kept_alternate, TRACES_KEPT_ALTERNATE) |
           bit(f->kept_needed, TRACES_KEPT_NEEDED) |
           bit(f->checkpoint_stops_early, TRACES_STOPS_EARLY) |
           bit(f->kept_chunked_loss, TRACES_KEPT_CHUNKED_LOSS) |
           bit(f->kept_loss_in_place, TRACES_KEPT_LOSS_IN_PLACE) |
           bit(f->kept_fused_head, TRACES_KEPT_FUSED_HEAD) |
           bit(f->kept_unweighted, TRACES_KEPT_UNWEIGHTED) |
           bit(f->kept_repeated, TRACES_KEPT_REPEATED) |
           bit(f->kept_norm_result, TRACES_KEPT_NORM_RESULT) |
           bit(f->kept_relu, TRACES_KEPT_RELU) | bit(f->kept_16bit, TRACES_KEPT_16BIT);
}

/* One rank's gradients are their own mean. */
static unsigned step_of(const struct lw_framework *f, bool reduced)
{
    return bit(f->step_zero, TRACES_STEP_ZERO) | bit(f->step_check, TRACES_STEP_CHECK) |
           (reduced ? bit(f->step_scale, TRACES_STEP_SCALE) : 0) |
           bit(f->step_clip, TRACES_STEP_CLIP) | bit(f->step_unscale, TRACES_STEP_UNSCALE) |
           bit(f->step_copy, TRACES_STEP_COPY) | bit(f->step_foreach, TRACES_STEP_FOREACH);
}

static bool is_hopper(const struct lw_device *d)
{
    return lw_device_is_hopper(d->kind);
}

static bool is_blackwell(const struct lw_device *d)
{
    return lw_device_is_blackwell(d->kind);
}

static bool is_older(const struct lw_device *d)
{
    static const char *const kinds[] = {"A10", "A30", "A40", "A100", "A800", "L4", "V100", NULL};

    return lw_device_is_one_of(d->kind, kinds);
}

/* torch holds a workspace for each handle of cuBLAS: 32 MiB on Hopper, elsewhere 2 of 4 MiB and 8
 * of 16 KiB (pytorch/pytorch, aten/src/ATen/cuda/CublasHandlePool.cpp, chosenWorkspaceSize). Sums
 * in a fixed order ask for 8 of 4 MiB (CUBLAS_WORKSPACE_CONFIG=:4096:8). TransformerEngine's is of
 * 32 MiB and 1 KiB from Hopper on, before of 4 MiB (NVIDIA/TransformerEngine@d0067d0d,
 * transformer_engine/pytorch/cpp_extensions/gemm.py, get_cublas_workspace_size_bytes). */
static void take_workspaces(const struct lw_framework *f, const struct lw_strategy *s,
                            const struct lw_device *d, struct traces_model_shape *shape)
{
    const int64_t KiB = 1024, MiB = 1024 * KiB;
    int64_t blas = shape->deterministic || is_hopper(d) ? 32 * MiB : 2 * 4 * MiB + 8 * 16 * KiB;
    int64_t engine = is_older(d) ? 4 * MiB : 32 * MiB + KiB;
    bool holds = lw_fact_value(f->blas_workspaces, 0) > 0 || lw_fact_value(f->te_workspace, 0) > 0;
    bool overlaps = s->tp > 1 && s->tp_overlap == LW_TP_OVERLAP_PIECES;

    shape->workspace_unknown = holds && !is_hopper(d) && !is_blackwell(d) && !is_older(d);
    if (!holds || shape->workspace_unknown)
        return;
    shape->workspace =
        (int64_t)lw_fact_value(f->blas_workspaces, 0) * blas +
        (int64_t)(lw_fact_value(f->te_workspace, 0) +
                  (overlaps ? lw_fact_value(f->te_overlap, 0) : 0)) * engine;
    shape->stream_workspace = (int64_t)lw_fact_value(f->te_streams, 0) * engine;
}

/* TransformerEngine prefers cuDNN's attention from Hopper on, which takes any order of tokens;
 * before, and where training asks for a fixed order on Blackwell, with dropout or without,
 * FlashAttention (NVIDIA/TransformerEngine@002a3e57, pytorch/attention/dot_product_attention/
 * utils.py, get_attention_backend). */
static bool calls_flash(const struct lw_device *d, bool fixed)
{
    return !is_hopper(d) && !(is_blackwell(d) && !fixed);
}

/* Only Blackwell's products of 8 bits take either layout (NVIDIA/TransformerEngine@d0067d0d,
 * pytorch/tensor/float8_tensor.py, is_non_tn_fp8_gemm_supported). */
static bool holds_transposes(const struct lw_framework *f, const struct lw_device *d)
{
    return lw_fact(f->fp8_transposes) && is_hopper(d);
}

void traces_model_take_framework(const struct lw_framework *f, const struct lw_strategy *s,
                                 const struct lw_device *d, struct traces_model_shape *shape)
{
    bool f32 = s->grad_dtype == LW_GRAD_F32;

    shape->unfused = unfused_of(f);
    if (s->recompute == LW_RECOMPUTE_FULL) /* of the whole block, and not of its norms apart */
        shape->unfused &= ~(unsigned)TRACES_NORMS_AGAIN;
    shape->kept = kept_of(f, shape->lora > 0);
    if (lw_fact(f->kept_layouts) && calls_flash(d, shape->deterministic))
        shape->kept |= TRACES_KEPT_LAYOUTS;
    if (lw_fact(f->kept_scattered) && shape->deterministic && !shape->fused_permute)
        shape->kept |= TRACES_KEPT_SCATTERED;
    if (lw_fact(f->kept_no_cudnn) && is_blackwell(d))
        shape->kept |= TRACES_KEPT_NO_ATTENTION;
    take_workspaces(f, s, d, shape);
    shape->fused_norms = lw_fact(f->te_workspace); /* TELayerNormColumnParallelLinear */
    shape->fills_padding = lw_fact(f->te_workspace);
    shape->metric_losses = (int64_t)lw_fact_value(f->metric_losses, 0);
    shape->loss_scores =
        (int64_t)lw_fact_value(s->tp > 1 ? f->loss_scores_split : f->loss_scores, 0);
    shape->narrow_params = lw_fact(f->fp8_params);
    shape->fp8_transposes = holds_transposes(f, d);
    shape->fused_experts =
        lw_fact(f->fused_experts) && is_blackwell(d) && shape->fp8 && !shape->fp4;
    shape->fused_clamp = lw_fact(f->fused_clamp);
    shape->unfused_up_bias = lw_fact(f->unfused_up_bias);
    shape->gathers_operands = lw_fact(f->gathers_operands);
    shape->fused_latent = lw_fact(f->fused_latent_rotation);
    shape->no_dropout = lw_fact(f->no_dropout);
    shape->tf32_convolutions = lw_fact(f->tf32_convolutions);
    shape->product_lookup = lw_fact(f->product_lookup);
    shape->no_score_dropout = lw_fact(f->no_score_dropout);
    shape->embedding_norm |= lw_fact(f->embedding_norm);
    shape->gather_buffer = lw_fact(f->gather_buffer);
    shape->mask_in_batch = lw_fact(f->mask_in_batch);
    shape->step = step_of(f, s->dp * s->cp > 1);
    shape->fused_sums = lw_fact(f->fused_sums) && f32;
    shape->grad_item = f32 ? lw_dtype_size(LW_F32) : 0;
    shape->state_bytes = f32 ? 0 : (int64_t)lw_fact_value(f->state_bytes, 0);
    shape->host_bytes =
        (int64_t)lw_fact_value(s->zero == 3 ? f->host_bytes_zero3 : f->host_bytes, 0);
    shape->rates = lw_framework_rates(f, d);
    shape->pad_vocab = (int64_t)lw_fact_value(f->pad_vocab, 0);
}
