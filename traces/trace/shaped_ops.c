/* Which host ops' shapes are kept: what reads a trace needs few of them, and each takes memory. */
#include "traces/trace/shaped_ops.h"

#include <string.h>

struct prefix {
    const char *text;
    size_t len;
};

#define P(text) {text, sizeof(text) - 1}

/* Host ops whose first input's shape is worth its memory: gradients and copies of them,
 * collectives, and forward ops whose first input is the activation. */
static const struct prefix shaped[] = {
    P("torch::autograd::AccumulateGrad"), P("AccumulateGrad"), P("gloo:"), P("nccl:"), P("c10d::"),
    P("record_param_comms"), P("aten::linear"), P("aten::conv"), P("aten::batch_norm"),
    P("aten::layer_norm"), P("aten::group_norm"), P("aten::rms_norm"), P("aten::matmul"),
    P("aten::relu"), P("aten::gelu"), P("aten::silu"), P("aten::max_pool"),
    P("aten::adaptive_avg_pool"), P("aten::avg_pool"), P("aten::dropout"),
    P("aten::scaled_dot_product_attention"), P("aten::flatten"),
    P("torch.distributed.ddp.reducer::copy_bucket_to_grad"),
};

/* Host ops that launch matrix products: the element type of their first input, without its shape,
 * which would be taken for an activation's. */
static const struct prefix typed[] = {
    P("aten::mm"), P("aten::bmm"), P("aten::addmm"), P("aten::baddbmm"), P("aten::_scaled_mm"),
    P("aten::_scaled_grouped_mm"), P("aten::_grouped_mm"), P("aten::_flash_attention"),
    P("aten::_efficient_attention"), P("aten::_scaled_dot_product"), P("aten::_cudnn_attention"),
    P("aten::cudnn_conv"), P("aten::miopen_conv"), P("aten::slow_conv"), P("triton_"),
};

/* Nearly all of them begin alike: the last letter tells sooner. */
static bool begins_with_one(const char *name, size_t len, const struct prefix *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (len >= p[i].len && name[p[i].len - 1] == p[i].text[p[i].len - 1] &&
            memcmp(name, p[i].text, p[i].len) == 0)
            return true;
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
