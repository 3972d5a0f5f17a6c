/* A multi-layer perceptron of equal layers: y = relu(x W + b), W of width x width. Layers alternate
 * as tensor parallelism splits them (Shoeybi et al., arXiv 1909.08053, section 3): a column layer
 * leaves its output split and all-reduces the gradient of its input after backward; the row layer
 * after it all-reduces its output after forward. All layers cost the same: also the first one
 * computes the gradient of its input, as inside a larger network. */
#include <stdio.h>

#include "traces/models/models_build.h"

/* Traffic counts every operand of a product once and ReLU's two passes over the output. */
static struct lw_kernel layer_kernel(const struct traces_builder *b)
{
    int64_t batch = b->shape.batch, width = b->shape.width;
    int64_t weight = b->item * width * width, activation = b->item * batch * width;
    int64_t flops = 2 * batch * width * width;

    return (struct lw_kernel){
        .kind = LW_KERNEL_COUNTED,
        .split = LW_SPLIT_GROUP,
        .flops = {flops, flops, flops},
        .bytes = {weight + 2 * activation + 2 * activation,     /* x, W -> y; relu in place */
                  3 * activation + weight + 2 * activation,     /* relu': dy, y; dy, W -> dx */
                  2 * activation + weight},                     /* dy, x -> dW (and db) */
    };
}

static enum lw_status build(const struct traces_model *model,
                            const struct traces_model_shape *shape, const struct lw_device *device,
                            struct lw_workload *w, struct lw_err *err)
{
    struct traces_builder b;
    int64_t batch = shape->batch, width = shape->width;
    char name[32];

    if (shape->layers % 2)
        return lw_fail(err, LW_EINVAL,
                       "--layers: found %lld, allowed: even numbers (a column and a row layer "
                       "make a pair)",
                       (long long)shape->layers);
    traces_builder_init(&b, model->name, shape, device);
    traces_builder_room(&b, shape->layers, shape->layers * 2, 0);
    int64_t activation = b.item * batch * width;
    const struct lw_kernel kernel = layer_kernel(&b);
    for (int64_t i = 0; i < shape->layers; i++) {
        bool column = i % 2 == 0;
        snprintf(name, sizeof name, "layers.%lld", (long long)i);
        struct lw_module *m = traces_builder_module(&b, name);
        traces_builder_gathers(&b, column ? activation : 0);
        int32_t k = traces_builder_kernel(&b, &kernel);
        traces_builder_sums(&b, column ? 0 : activation);
        m->output_bytes = activation;
        for (int r = 0; r < LW_N_RECOMPUTE; r++)
            m->kept_bytes[r] = activation; /* its input; ReLU's output is the next one's */
        for (int r = 0; column && r < LW_N_RECOMPUTE; r++)
            m->whole_kept_bytes[r] = activation;
        m->tp_split = column ? LW_TP_COLUMN : LW_TP_ROW;
        traces_builder_param(&b, k, width, width, m->tp_split, "%s.weight", name);
        traces_builder_param(&b, k, width, 1, column ? LW_TP_COLUMN : LW_TP_REPLICATED,
                             "%s.bias", name);
    }
    traces_builder_note(&b, "mlp: %lld layers of width %lld, batch %lld", (long long)shape->layers,
                        (long long)width, (long long)batch);
    traces_builder_note(&b, "every layer computes the gradient of its input, the first one too, so "
                            "that all are equal");
    return traces_builder_finish(&b, "lapwing model mlp", w, err);
}

const struct traces_model traces_models_mlp[] = {
    {.name = "mlp",
     .about = "equal linear layers with ReLU, split in column and row pairs",
     .defaults =
         {.batch = 32, .layers = 16, .width = 1024, .dtype = "f32", .optimizer = "momentum"},
     .build = build,
     .source = "no published model"},
    {0},
};
