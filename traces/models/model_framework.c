/* A framework's facts -> kernels of its own, passes of its step, what it keeps, time of its host.
 * See docs/design/frameworks.md. */
#include "traces/models/model_framework.h"

#include <strings.h>

#include "shared/framework/framework.h"
#include "shared/numbers/dtype.h"
#include "shared/plan/strategy.h"
#include "traces/models/models.h"

static unsigned bit(struct lw_figure f, int bit)
{
    return lw_fact(f) ? (unsigned)bit : 0;
}

static unsigned unfused_of(const struct lw_framework *f)
{
    return bit(f->unfused_sums, TRACES_UNFUSED_SUMS) | bit(f->unfused_loss, TRACES_UNFUSED_LOSS) |
           bit(f->unfused_block, TRACES_UNFUSED_BLOCK) |
           bit(f->unfused_norms, TRACES_UNFUSED_NORMS) |
           bit(f->unfused_grads, TRACES_UNFUSED_GRADS);
}

/* Operands in 8 bits belong to adapters, whose products are frozen. */
static unsigned kept_of(const struct lw_framework *f, bool adapters)
{
    return bit(f->kept_fused_gate, TRACES_KEPT_FUSED_GATE) |
           (adapters ? bit(f->kept_gate_8bit, TRACES_KEPT_GATE_8BIT) : 0) |
           bit(f->kept_projections, TRACES_KEPT_PROJECTIONS) |
           bit(f->kept_alternate, TRACES_KEPT_ALTERNATE) |
           bit(f->kept_chunked_loss, TRACES_KEPT_CHUNKED_LOSS);
}

/* One rank's gradients are their own mean. */
static unsigned step_of(const struct lw_framework *f, bool reduced)
{
    return bit(f->step_zero, TRACES_STEP_ZERO) | bit(f->step_check, TRACES_STEP_CHECK) |
           (reduced ? bit(f->step_scale, TRACES_STEP_SCALE) : 0) |
           bit(f->step_clip, TRACES_STEP_CLIP) | bit(f->step_unscale, TRACES_STEP_UNSCALE) |
           bit(f->step_copy, TRACES_STEP_COPY);
}

static bool is_hopper(const struct lw_device *d)
{
    return d->kind &&
           (strncasecmp(d->kind, "H100", 4) == 0 || strncasecmp(d->kind, "H200", 4) == 0);
}

void traces_model_take_framework(const struct lw_framework *f, const struct lw_strategy *s,
                                 const struct lw_device *d, struct traces_model_shape *shape)
{
    bool f32 = s->grad_dtype == LW_GRAD_F32;
    double speed = lw_fact_value(f->attention_speed, 1);

    shape->unfused = unfused_of(f);
    shape->kept = kept_of(f, shape->lora > 0);
    shape->step = step_of(f, s->dp * s->cp > 1);
    shape->fused_sums = lw_fact(f->fused_sums) && f32;
    shape->grad_item = f32 ? lw_dtype_size(LW_F32) : 0;
    shape->host_op_ps = (lw_ps)lw_fact_value(f->host_op_ps, 0);
    shape->host_waits = lw_fact(f->host_waits);
    shape->memory_op_ps = (lw_ps)lw_fact_value(f->memory_op_ps, 0);
    shape->traffic = lw_fact_value(f->traffic, 0);
    shape->attention_speed =
        is_hopper(d) ? lw_fact_value(f->attention_speed_hopper, speed) : speed;
    shape->pad_vocab = (int64_t)lw_fact_value(f->pad_vocab, 0);
}
