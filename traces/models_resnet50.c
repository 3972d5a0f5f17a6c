/* ResNet-50 (He et al., arXiv 1512.03385, table 1) in the v1.5 form: the stride of a block lies in
 * its 3x3 convolution. Names and registration order are torchvision's
 * (torchvision/models/resnet.py): conv1, bn1, layer1.0.conv1, ... fc; a block's downsample is
 * registered, and used, behind bn3, so the reverse of registration is also the reverse of use.
 *
 * Modules are the convolutions and batch norms and fc; what has no parameters belongs to the module
 * before it (ReLU, max pool, addition) or, for the average pool, to fc. Matrix flops are those of
 * convolutions and fc; a batch norm is memory traffic alone. Traffic counts each operand of a
 * kernel once: no caches, no workspace of a convolution. */
#include <stdio.h>

#include "traces/models.h"

enum {
    BLOCKS = 16,
    CONVS = 1 + 3 * BLOCKS + 4, /* stem, three per block, four downsamplings */
    MODULES = 2 * CONVS + 1,
    PARAMS = 3 * CONVS + 2,
    BUFFERS = 3 * CONVS,
    CLASSES = 1000,
};

/* An activation of batch * channels * side * side elements. */
struct tensor {
    int64_t channels, side;
};

static int64_t elements(const struct traces_builder *b, struct tensor t)
{
    return b->shape.batch * t.channels * t.side * t.side;
}

/* floor((n + 2 * padding - kernel) / stride) + 1 with the padding that keeps the side at stride 1.
 */
static int64_t side_after(int64_t side, int64_t kernel, int64_t stride)
{
    return (side + 2 * (kernel / 2) - kernel) / stride + 1;
}

/* Keeps its input for backward, unless another module does (the block's first convolution). */
static struct tensor add_conv(struct traces_builder *b, const char *name, struct tensor in,
                              int64_t channels, int64_t kernel, int64_t stride, bool keeps)
{
    struct tensor out = {channels, side_after(in.side, kernel, stride)};
    int64_t numel = channels * in.channels * kernel * kernel;
    int64_t x = 4 * elements(b, in), y = 4 * elements(b, out), weight = 4 * numel;
    int64_t flops = 2 * elements(b, out) * in.channels * kernel * kernel;
    bool first = b->w.n_modules == 0; /* images need no gradient */
    struct traces_cost cost = {
        .forward_flops = flops,
        .forward_bytes = x + weight + y,
        .input_flops = first ? 0 : flops,
        .input_bytes = first ? 0 : y + weight + x,
        .weight_flops = flops,
        .weight_bytes = y + x + weight,
    };
    struct lw_module *m = traces_builder_module(b, &cost, name);

    m->output_bytes = y;
    m->kept_bytes[LW_RECOMPUTE_NONE] = m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = keeps ? x : 0;
    traces_builder_param(b, "weight", numel);
    return out;
}

/* What follows a batch norm inside its module. */
enum tail { TAIL_NONE, TAIL_RELU, TAIL_ADD_RELU, TAIL_RELU_POOL };

/* Passes over the activation: the norm reads twice (moments, then values) and writes once, backward
 * reads output gradient and input twice and writes once; ReLU in place 2 and 3; addition 3 and 0
 * (the gradient goes both ways as it is). */
static struct tensor add_norm(struct traces_builder *b, const char *name, struct tensor t,
                              enum tail tail)
{
    int64_t n = 4 * elements(b, t), forward = 3 * n, backward = 5 * n;

    if (tail != TAIL_NONE) {
        forward += 2 * n;
        backward += 3 * n;
    }
    if (tail == TAIL_ADD_RELU)
        forward += 3 * n;
    struct tensor out = t;
    int64_t kept = n;
    if (tail == TAIL_RELU_POOL) { /* 3x3, stride 2; keeps its input and the places of the maxima */
        out.side = side_after(t.side, 3, 2);
        int64_t pooled = elements(b, out);
        forward += n + 4 * pooled + 8 * pooled;
        backward += n + 4 * pooled + 8 * pooled;
        kept += n + 8 * pooled;
    }
    struct traces_cost cost = {.forward_bytes = forward, .input_bytes = backward};
    struct lw_module *m = traces_builder_module(b, &cost, name);
    m->output_bytes = 4 * elements(b, out);
    m->kept_bytes[LW_RECOMPUTE_NONE] = m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = kept;
    traces_builder_param(b, "weight", t.channels);
    traces_builder_param(b, "bias", t.channels);
    traces_builder_buffer(b, "running_mean", t.channels, LW_F32);
    traces_builder_buffer(b, "running_var", t.channels, LW_F32);
    traces_builder_buffer(b, "num_batches_tracked", 1, LW_I64);
    return out;
}

/* With full recomputation a block keeps its input alone. */
static void keep_only_input(struct traces_builder *b, int32_t first, int64_t input_bytes)
{
    for (int32_t m = first; m < b->w.n_modules; m++)
        b->w.modules[m].kept_bytes[LW_RECOMPUTE_FULL] = m == first ? input_bytes : 0;
}

static struct tensor add_block(struct traces_builder *b, int stage, int block, struct tensor in,
                               int64_t width, int64_t stride)
{
    static const struct {
        const char *conv, *norm;
        int kernel;
        enum tail tail;
    } layers[] = {{"conv1", "bn1", 1, TAIL_RELU},
                  {"conv2", "bn2", 3, TAIL_RELU},
                  {"conv3", "bn3", 1, TAIL_ADD_RELU}};
    char name[48];
    struct tensor t = in;
    int32_t first = b->w.n_modules;

    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "layer%d.%d.%s", stage, block, layers[k].conv);
        t = add_conv(b, name, t, k == 2 ? 4 * width : width, layers[k].kernel, k == 1 ? stride : 1,
                     true);
        snprintf(name, sizeof name, "layer%d.%d.%s", stage, block, layers[k].norm);
        t = add_norm(b, name, t, layers[k].tail);
    }
    if (block == 0) {
        snprintf(name, sizeof name, "layer%d.%d.downsample.0", stage, block);
        struct tensor side = add_conv(b, name, in, 4 * width, 1, stride, false);
        snprintf(name, sizeof name, "layer%d.%d.downsample.1", stage, block);
        add_norm(b, name, side, TAIL_NONE);
    }
    if (!b->no_memory)
        keep_only_input(b, first, 4 * elements(b, in));
    return t;
}

/* The average pool reads its input once (and writes it once backward); then a linear layer. */
static void add_head(struct traces_builder *b, struct tensor in)
{
    int64_t batch = b->shape.batch, pooled = 4 * batch * in.channels, map = 4 * elements(b, in);
    int64_t scores = 4 * batch * CLASSES, weight = 4 * in.channels * CLASSES;
    int64_t flops = 2 * batch * in.channels * CLASSES;
    struct traces_cost cost = {
        .forward_flops = flops,
        .forward_bytes = map + 2 * pooled + weight + scores,
        .input_flops = flops,
        .input_bytes = scores + weight + 2 * pooled + map,
        .weight_flops = flops,
        .weight_bytes = scores + pooled + weight,
    };
    struct lw_module *m = traces_builder_module(b, &cost, "fc");

    m->output_bytes = scores;
    for (int r = 0; r < LW_N_RECOMPUTE; r++)
        m->kept_bytes[r] = r == LW_RECOMPUTE_FULL ? map : pooled;
    traces_builder_param(b, "weight", in.channels * CLASSES);
    traces_builder_param(b, "bias", CLASSES);
}

enum lw_status traces_build_resnet50(const struct traces_model_shape *shape,
                                     const struct lw_device *device, struct lw_workload *w,
                                     struct lw_err *err)
{
    static const struct {
        int blocks, width;
    } stages[] = {{3, 64}, {4, 128}, {6, 256}, {3, 512}};
    struct traces_builder b = {.device = device, .shape = *shape};
    struct tensor t = {3, shape->image};

    traces_builder_init(&b, "resnet50", MODULES, PARAMS, BUFFERS);
    int64_t images = 4 * elements(&b, t);
    t = add_conv(&b, "conv1", t, 64, 7, 2, true);
    t = add_norm(&b, "bn1", t, TAIL_RELU_POOL);
    if (!b.no_memory)
        keep_only_input(&b, 0, images);
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < stages[s].blocks; k++)
            t = add_block(&b, s + 1, k, t, stages[s].width, s > 0 && k == 0 ? 2 : 1);
    add_head(&b, t);
    traces_builder_note(&b, "resnet50: batch %lld, images of %lld x %lld, %d classes",
                        (long long)shape->batch, (long long)shape->image, (long long)shape->image,
                        CLASSES);
    traces_builder_note(&b, "modules are convolutions, batch norms (with the ReLU, addition and "
                            "max pool behind them) and fc (with the average pool before it)");
    return traces_builder_finish(&b, "lapwing model resnet50", w, err);
}
