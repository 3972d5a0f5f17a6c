/* A multi-layer perceptron of equal layers: y = relu(x W + b), W of width x width. Layers alternate
 * as tensor parallelism splits them (Shoeybi et al., arXiv 1909.08053, section 3): a column layer
 * leaves its output split and all-reduces the gradient of its input after backward; the row layer
 * behind it all-reduces its output after forward. All layers cost the same: also the first one
 * computes the gradient of its input, as inside a larger network. */
#include <stdio.h>

#include "traces/models.h"

/* Traffic counts every operand of a product once and ReLU's two passes over the output. */
static struct traces_cost layer_cost(int64_t batch, int64_t width)
{
    int64_t weight = 4 * width * width, activation = 4 * batch * width;
    int64_t flops = 2 * batch * width * width;

    return (struct traces_cost){
        .forward_flops = flops,
        .forward_bytes = weight + 2 * activation + 2 * activation, /* x, W -> y; relu in place */
        .input_flops = flops,
        .input_bytes = 3 * activation + weight + 2 * activation, /* relu': dy, y; dy, W -> dx */
        .weight_flops = flops,
        .weight_bytes = 2 * activation + weight, /* dy, x -> dW (and db) */
    };
}

enum lw_status traces_build_mlp(const struct traces_model_shape *shape,
                                const struct lw_device *device, struct lw_workload *w,
                                struct lw_err *err)
{
    struct traces_builder b = {.device = device, .shape = *shape};
    int64_t batch = shape->batch, width = shape->width, activation = 4 * batch * width;
    struct traces_cost cost = layer_cost(batch, width);
    char name[32];

    if (shape->layers % 2)
        return lw_fail(err, LW_EINVAL,
                       "--layers: found %lld, allowed: even numbers (a column and a row layer "
                       "make a pair)",
                       (long long)shape->layers);
    traces_builder_init(&b, "mlp", (int32_t)shape->layers, (int32_t)shape->layers * 2, 0);
    for (int64_t i = 0; i < shape->layers; i++) {
        bool column = i % 2 == 0;
        snprintf(name, sizeof name, "layers.%lld", (long long)i);
        struct lw_module *m = traces_builder_module(&b, &cost, name);
        m->output_bytes = activation;
        for (int r = 0; r < LW_N_RECOMPUTE; r++)
            m->kept_bytes[r] = activation; /* its input; ReLU's output is the next one's */
        m->tp_split = column ? LW_TP_COLUMN : LW_TP_ROW;
        m->tp_forward_bytes = column ? 0 : activation;
        m->tp_backward_bytes = column ? activation : 0;
        traces_builder_param(&b, "weight", width * width);
        traces_builder_param(&b, "bias", width);
    }
    traces_builder_note(&b, "mlp: %lld layers of width %lld, batch %lld", (long long)shape->layers,
                        (long long)width, (long long)batch);
    traces_builder_note(&b, "every layer computes the gradient of its input, the first one too, so "
                            "that all are equal");
    return traces_builder_finish(&b, "lapwing model mlp", w, err);
}
