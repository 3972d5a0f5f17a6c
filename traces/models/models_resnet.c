/* ResNets (He et al., arXiv 1512.03385, table 1) in the v1.5 form: the stride of a bottleneck lies
 * in its 3x3 convolution. Names and registration order are torchvision's (pytorch/vision@f50e776b,
 * torchvision/models/resnet.py): conv1, bn1, layer1.0.conv1, ... fc; a block's downsample is
 * registered, and used, after its last norm, so the reverse of registration is also the reverse of
 * use.
 *
 * Modules are the convolutions and batch norms and fc; what has no parameters belongs to the module
 * before it (ReLU, max pool, addition) or, for the average pool, to fc. Matrix flops are those of
 * convolutions and fc; a batch norm is memory traffic alone. Traffic counts each operand of a
 * kernel once: no caches, no workspace of a convolution. */
#include <stdio.h>

#include "traces/models/models_build.h"

enum { STAGES = 4 };

static const struct depth {
    int32_t depth;
    int blocks[STAGES];
    bool bottleneck; /* 1x1, 3x3, 1x1 convolutions and four times the width out; else two 3x3 */
} depths[] = {
    {18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
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
    int64_t x = b->item * elements(b, in), y = b->item * elements(b, out);
    int64_t weight = b->item * numel;
    int64_t flops = 2 * elements(b, out) * in.channels * kernel * kernel;
    bool first = b->w.n_modules == 0; /* images need no gradient */
    const struct lw_kernel conv = {
        .kind = LW_KERNEL_COUNTED,
        .split = LW_SPLIT_GROUP,
        .flops = {flops, first ? 0 : flops, flops},
        .bytes = {x + weight + y, first ? 0 : y + weight + x, y + x + weight},
    };
    struct lw_module *m = traces_builder_module(b, name);
    int32_t k = traces_builder_kernel(b, &conv);

    m->output_bytes = y;
    m->kept_bytes[LW_RECOMPUTE_NONE] = m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = keeps ? x : 0;
    traces_builder_param(b, k, channels, numel / channels, LW_TP_REPLICATED, "%s.weight", name);
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
    int64_t n = b->item * elements(b, t), forward = 3 * n, backward = 5 * n;

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
        forward += n + b->item * pooled + 8 * pooled;
        backward += n + b->item * pooled + 8 * pooled;
        kept += n + 8 * pooled;
    }
    struct lw_module *m = traces_builder_module(b, name);
    int32_t kernel = TRACES_TRAFFIC(b, forward, backward, 0, .split = LW_SPLIT_GROUP);
    m->output_bytes = b->item * elements(b, out);
    m->kept_bytes[LW_RECOMPUTE_NONE] = m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = kept;
    traces_builder_param(b, kernel, t.channels, 1, LW_TP_REPLICATED, "%s.weight", name);
    traces_builder_param(b, kernel, t.channels, 1, LW_TP_REPLICATED, "%s.bias", name);
    traces_builder_buffer(b, t.channels, LW_F32, "%s.running_mean", name);
    traces_builder_buffer(b, t.channels, LW_F32, "%s.running_var", name);
    traces_builder_buffer(b, 1, LW_I64, "%s.num_batches_tracked", name);
    return out;
}

/* With full recomputation a block keeps its input alone. */
static void keep_only_input(struct traces_builder *b, int32_t first, int64_t input_bytes)
{
    for (int32_t m = first; m < b->w.n_modules; m++)
        b->w.modules[m].kept_bytes[LW_RECOMPUTE_FULL] = m == first ? input_bytes : 0;
}

/* The layers of a block, and how many. */
static int block_layers(bool bottleneck, const int **kernels)
{
    static const int deep[] = {1, 3, 1}, basic[] = {3, 3};

    *kernels = bottleneck ? deep : basic;
    return bottleneck ? 3 : 2;
}

static struct tensor add_block(struct traces_builder *b, const struct depth *d, int stage,
                               int block, struct tensor in)
{
    int64_t width = INT64_C(64) << stage, out = width * (d->bottleneck ? 4 : 1);
    int64_t stride = stage > 0 && block == 0 ? 2 : 1;
    const int *kernels;
    int n = block_layers(d->bottleneck, &kernels), strided = d->bottleneck ? 1 : 0;
    char name[48];
    struct tensor t = in;
    int32_t first = b->w.n_modules;

    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "layer%d.%d.conv%d", stage + 1, block, k + 1);
        t = add_conv(b, name, t, k == n - 1 ? out : width, kernels[k], k == strided ? stride : 1,
                     true);
        snprintf(name, sizeof name, "layer%d.%d.bn%d", stage + 1, block, k + 1);
        t = add_norm(b, name, t, k == n - 1 ? TAIL_ADD_RELU : TAIL_RELU);
    }
    if (stride != 1 || in.channels != out) {
        snprintf(name, sizeof name, "layer%d.%d.downsample.0", stage + 1, block);
        struct tensor side = add_conv(b, name, in, out, 1, stride, false);
        snprintf(name, sizeof name, "layer%d.%d.downsample.1", stage + 1, block);
        add_norm(b, name, side, TAIL_NONE);
    }
    if (!b->no_memory)
        keep_only_input(b, first, b->item * elements(b, in));
    return t;
}

/* The average pool reads its input once (and writes it once backward); then a linear layer. */
static void add_head(struct traces_builder *b, struct tensor in)
{
    int64_t batch = b->shape.batch, map = b->item * elements(b, in);
    int64_t pooled = b->item * batch * in.channels;
    int64_t scores = b->item * batch * TRACES_N_LABELS;
    int64_t weight = b->item * in.channels * TRACES_N_LABELS;
    int64_t flops = 2 * batch * in.channels * TRACES_N_LABELS;
    const struct lw_kernel linear = {
        .kind = LW_KERNEL_COUNTED,
        .split = LW_SPLIT_GROUP,
        .flops = {flops, flops, flops},
        .bytes = {map + 2 * pooled + weight + scores, scores + weight + 2 * pooled + map,
                  scores + pooled + weight},
    };
    struct lw_module *m = traces_builder_module(b, "fc");
    int32_t kernel = traces_builder_kernel(b, &linear);

    m->output_bytes = scores;
    for (int r = 0; r < LW_N_RECOMPUTE; r++)
        m->kept_bytes[r] = r == LW_RECOMPUTE_FULL ? map : pooled;
    traces_builder_param(b, kernel, TRACES_N_LABELS, in.channels, LW_TP_REPLICATED, "fc.weight");
    traces_builder_param(b, kernel, TRACES_N_LABELS, 1, LW_TP_REPLICATED, "fc.bias");
}

static const struct depth *find_depth(int32_t depth)
{
    const struct depth *d = depths;

    while (d->depth != depth)
        d++;
    return d;
}

/* Convolutions of all blocks, the stem's, and at most one in each stage's way around its first. */
static int64_t max_convs(const struct depth *d)
{
    int64_t n = 1 + STAGES;

    for (int s = 0; s < STAGES; s++)
        n += d->blocks[s] * (d->bottleneck ? 3 : 2);
    return n;
}

static enum lw_status build(const struct traces_model *model,
                            const struct traces_model_shape *shape, const struct lw_device *device,
                            struct lw_workload *w, struct lw_err *err)
{
    const struct depth *d = find_depth(model->member);
    int64_t n_convs = max_convs(d);
    struct traces_builder b;
    struct tensor t = {3, shape->image};
    char producer[48];

    traces_builder_init(&b, model->name, shape, device);
    traces_builder_room(&b, 2 * n_convs + 1, 3 * n_convs + 2, 3 * n_convs);
    int64_t images = b.item * elements(&b, t);
    t = add_conv(&b, "conv1", t, 64, 7, 2, true);
    t = add_norm(&b, "bn1", t, TAIL_RELU_POOL);
    if (!b.no_memory)
        keep_only_input(&b, 0, images);
    for (int s = 0; s < STAGES; s++)
        for (int k = 0; k < d->blocks[s]; k++)
            t = add_block(&b, d, s, k, t);
    add_head(&b, t);
    traces_builder_note(&b, "%s: batch %lld, images of %lld x %lld, %d classes", model->name,
                        (long long)shape->batch, (long long)shape->image, (long long)shape->image,
                        TRACES_N_LABELS);
    traces_builder_note(&b, "modules are convolutions, batch norms (with the ReLU, addition and "
                            "max pool after them) and fc (with the average pool before it)");
    snprintf(producer, sizeof producer, "lapwing model %s", model->name);
    return traces_builder_finish(&b, producer, w, err);
}

#define RESNET(depth, count)                                                                       \
    {                                                                                              \
        .name = "resnet" #depth,                                                                   \
        .about = "ResNet-" #depth " v1.5 as torchvision registers it (" count " parameters)",      \
        .defaults = {.batch = 32, .image = 224, .dtype = "f32", .optimizer = "momentum"},          \
        .build = build, .member = depth,                                                           \
        .source = "He et al., arXiv 1512.03385, table 1; pytorch/vision@f50e776b, "                \
                  "torchvision/models/resnet.py",                                                  \
    }

const struct traces_model traces_models_resnet[] = {
    RESNET(18, "11,689,512"),  RESNET(34, "21,797,672"),  RESNET(50, "25,557,032"),
    RESNET(101, "44,549,160"), RESNET(152, "60,192,808"), {0},
};
