/* A framework's facts -> rates of the evaluator of kernels. */
#include "shared/framework/framework_rates.h"

#include "shared/device/device_kind.h"
#include "shared/framework/framework.h"
#include "shared/numbers/units.h"

static double attention_speed(const struct lw_framework *f, const char *kind)
{
    double speed = lw_fact_value(f->attention_speed, 1);

    if (lw_device_is_hopper(kind))
        return lw_fact_value(f->attention_speed_hopper, speed);
    if (lw_device_is_blackwell(kind))
        return lw_fact_value(f->attention_speed_blackwell, speed);
    return speed;
}

static lw_ps of_host(const struct lw_device *d, struct lw_figure fact)
{
    double scale = lw_figure_is_set(d->host_op_scale) ? d->host_op_scale.value : 1;

    return lw_ps_from_seconds(lw_fact_value(fact, 0) * 1e-12 * scale);
}

lw_ps lw_framework_host_op(const struct lw_framework *f, const struct lw_device *d)
{
    return of_host(d, f->host_op_ps);
}

struct lw_kernel_rates lw_framework_rates(const struct lw_framework *f, const struct lw_device *d)
{
    bool hopper = lw_device_is_hopper(d->kind);

    return (struct lw_kernel_rates){
        .host_op_ps = lw_framework_host_op(f, d),
        .host_layer_ps = {{of_host(d, f->host_forward_ps), of_host(d, f->host_backward_ps)},
                          {of_host(d, f->host_forward_8bit_ps),
                           of_host(d, f->host_backward_8bit_ps)}},
        .joined_layers = lw_fact(f->joined_layers),
        .captured = lw_fact(f->graph_copies),
        .host_waits = lw_fact(f->host_waits),
        .input_casts = lw_fact(f->input_casts),
        .scale_passes = hopper && lw_fact(f->scale_passes_hopper),
        .expert_products = lw_fact(f->expert_products),
        .router_forward = (int32_t)lw_fact_value(f->router_forward, 0),
        .router_backward = (int32_t)lw_fact_value(f->router_backward, 0),
        .traffic = lw_fact_value(f->traffic, 0),
        .memory_op_ps = (lw_ps)lw_fact_value(f->memory_op_ps, 0),
        .grouped_speed = lw_device_is_blackwell(d->kind)
                             ? lw_fact_value(f->grouped_speed_blackwell, 1) : 1,
        .scores_forward = lw_fact_value(f->scores_forward, 0),
        .scores_backward = lw_fact_value(f->scores_backward, 0),
        .attention_speed = attention_speed(f, d->kind),
    };
}
