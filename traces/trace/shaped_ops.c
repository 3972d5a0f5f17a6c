/* Which host ops' shapes are kept: what reads a trace needs few of them, and each takes memory. */
#include "traces/trace/shaped_ops.h"

#include <string.h>

/* Host ops whose first input's shape is worth its memory: gradients and copies of them,
 * collectives, and forward ops whose first input is the activation. */
static const char *const shaped[] = {
    "torch::autograd::AccumulateGrad", "AccumulateGrad", "gloo:", "nccl:", "c10d::",
    "record_param_comms", "aten::linear", "aten::conv", "aten::batch_norm", "aten::layer_norm",
    "aten::group_norm", "aten::rms_norm", "aten::matmul", "aten::relu", "aten::gelu",
    "aten::silu", "aten::max_pool", "aten::adaptive_avg_pool", "aten::avg_pool", "aten::dropout",
    "aten::scaled_dot_product_attention", "aten::flatten",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
};

/* Host ops that launch matrix products: the element type of their first input, without its shape,
 * which would be taken for an activation's. */
static const char *const typed[] = {
    "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::_scaled_mm",
    "aten::_scaled_grouped_mm", "aten::_grouped_mm", "aten::_flash_attention",
    "aten::_efficient_attention", "aten::_scaled_dot_product", "aten::_cudnn_attention",
    "aten::cudnn_conv", "aten::miopen_conv", "aten::slow_conv", "triton_",
};

static bool begins_with_one(const char *name, size_t len, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t prefix = strlen(prefixes[i]);
        if (len >= prefix && memcmp(name, prefixes[i], prefix) == 0)
            return true;
    }
    return false;
}

bool traces_op_is_shaped(const char *name, size_t len)
{
    return begins_with_one(name, len, shaped, sizeof shaped / sizeof *shaped);
}

bool traces_op_is_typed(const char *name, size_t len)
{
    return begins_with_one(name, len, typed, sizeof typed / sizeof *typed);
}
