/* ResNets (He et al., arXiv 1512.03385, table 1) in the v1.5 form: the stride of a bottleneck lies
 * in its 3x3 convolution. Names and registration order are torchvision's (pytorch/vision@f50e776b,
 * torchvision/models/resnet.py): conv1, bn1, layer1.0.conv1, ... fc; a block's downsample is
 * registered, and used, after its last norm, so the reverse of registration is also the reverse of
 * use.
 *
 * Modules are the convolutions and batch norms and fc; what has no parameters belongs to the module
 * before it (ReLU, max pool, addition) or, for the average pool, to fc. Matrix flops are those of
 * convolutions and fc; a batch norm is memory traffic alone. Traffic counts each operand of a
 * kernel once: no caches, no workspace of a convolution. Launches are those of torch's kernels.
 *
 * Under autocast convolutions and fc take 16-bit operands, and what is between them has their type
 * (pytorch/pytorch@008ec6b1, aten/src/ATen/autocast_mode.cpp: conv2d and linear are
 * lower_precision_fp; batch_norm, relu, add and pools are on no list). What follows is in
 * docs/design/frameworks.md, Convolutions. */
#include <stdio.h>

#include "shared/device/device_time.h"
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

static bool is_unfused(const struct traces_builder *b, unsigned what)
{
    return (b->shape.unfused & what) != 0;
}

/* --- convolutions ----------------------------------------------------------------------------- */

struct conv {
    struct tensor in, out;
    int64_t kernel, stride, numel;
    bool first; /* images need no gradient */
};

/* Where the device has it: torch's flag of cuDNN is on by default, that of products is not
 * (pytorch/pytorch@d0eaa6b7, aten/src/ATen/Context.h: allow_tf32_cudnn, float32_matmul_precision).
 */
static bool is_tf32(const struct traces_builder *b)
{
    return b->shape.tf32_convolutions && b->dtype == LW_F32 && !lw_device_lacks_tf32(b->device);
}

/* Tensor cores take operands channels last; f32 without TF32 has kernels for either layout, as in a
 * recorded step of V100 (pytorch/kineto@f329bb5f, tb_plugin/samples/resnet50_num_workers_0). */
static bool brings_last(const struct traces_builder *b)
{
    return is_unfused(b, TRACES_CONVOLUTION_LAYOUTS) && (b->item < 4 || is_tf32(b));
}

/* A filter of one pixel at stride 1 is a product of each image's channels by pixels as they lie in
 * memory, where its kernels can load rows of pixels: an even number of them, and for the gradient
 * of weights, which sums over pixels, whole 16 bytes. What is no such product is computed channels
 * last ("the cuDNN library may use padding, folding, and NCHW-to-NHWC transformations to call the
 * Tensor Core operations": docs.nvidia.com/deeplearning/cudnn, legacy API). Which are products was
 * read off a recorded step of H200 in bf16 and holds for one of A100 in f32. */
static bool is_product(const struct traces_builder *b, const struct conv *c, bool of_weights)
{
    int64_t pixels = c->in.side * c->in.side;

    return c->kernel == 1 && c->stride == 1 &&
           (of_weights ? pixels * b->item % 16 == 0 : pixels % 2 == 0);
}

/* Copies to and from channels last, and their launches. Filters of one pixel are the same in both
 * layouts. */
struct layouts {
    int64_t bytes;
    int32_t n;
};

static void copy_layout(struct layouts *l, int64_t bytes)
{
    l->bytes += 2 * bytes;
    l->n++;
}

/* Of what is no product: input, output and weights, each to channels last or back. */
static struct layouts all_layouts(const struct traces_builder *b, const struct conv *c)
{
    struct layouts l = {0};

    copy_layout(&l, b->item * elements(b, c->in));
    copy_layout(&l, b->item * elements(b, c->out));
    if (c->kernel > 1)
        copy_layout(&l, b->item * c->numel);
    return l;
}

/* Of the forward and of the gradient of the input: one operand to channels last, and the weights;
 * the result back. */
static struct layouts layouts_of(const struct traces_builder *b, const struct conv *c)
{
    return is_product(b, c, false) ? (struct layouts){0} : all_layouts(b, c);
}

/* Of the gradient of the weights: both operands, and the result. A product has one result for each
 * image, in f32, which another kernel sums. */
static struct layouts weight_layouts(const struct traces_builder *b, const struct conv *c)
{
    return is_product(b, c, true)
               ? (struct layouts){(4 * b->shape.batch + b->item) * c->numel, 1}
               : all_layouts(b, c);
}

static void add_layouts(struct traces_builder *b, const struct conv *c)
{
    const struct layouts l = layouts_of(b, c);

    if (brings_last(b) && l.n > 0)
        TRACES_TRAFFIC(b, l.bytes, c->first ? 0 : l.bytes, 0, .split = LW_SPLIT_GROUP,
                       .n_forward = l.n, .n_backward = c->first ? 0 : l.n);
}

/* Ends with the gradient of the weights. */
static int32_t add_weight_layouts(struct traces_builder *b, const struct conv *c)
{
    const struct layouts l = weight_layouts(b, c);

    return TRACES_TRAFFIC(b, 0, 0, l.bytes, .split = LW_SPLIT_GROUP, .n_backward = l.n);
}

/* Weights are cast to operands in forward, their gradients back; images once. Bytes per element. */
static int64_t cast_bytes(const struct traces_builder *b)
{
    return b->wide + b->item;
}

static int32_t add_casts(struct traces_builder *b, int64_t numel, int32_t n, int64_t images)
{
    return TRACES_TRAFFIC(b, cast_bytes(b) * (numel + images), 0, cast_bytes(b) * numel,
                          .split = LW_SPLIT_GROUP, .n_forward = n + (images > 0), .n_backward = n);
}

/* Kernels in the order of the forward; backward ends with what brings the weights' gradient to its
 * layout and its type. The number of the kernel that completes it. */
static int32_t conv_kernels(struct traces_builder *b, const struct conv *c, int64_t flops)
{
    int64_t x = b->item * elements(b, c->in), y = b->item * elements(b, c->out);
    int64_t weight = b->item * c->numel;
    const struct lw_kernel conv = {
        .kind = LW_KERNEL_COUNTED,
        .split = LW_SPLIT_GROUP,
        .flops = {flops, c->first ? 0 : flops, flops},
        .bytes = {x + weight + y, c->first ? 0 : y + weight + x, y + x + weight},
        .tf32 = is_tf32(b),
    };
    int32_t done = -1;

    if (b->shape.autocast)
        done = add_casts(b, c->numel, 1, c->first ? elements(b, c->in) : 0);
    if (brings_last(b)) {
        int32_t k = add_weight_layouts(b, c);
        done = done < 0 ? k : done;
    }
    add_layouts(b, c);
    int32_t k = traces_builder_kernel(b, &conv);
    return done < 0 ? k : done;
}

/* A block's input is read by its first convolution and by the way around it: a kernel adds the two
 * gradients. */
static void add_branch(struct traces_builder *b, struct tensor t)
{
    if (is_unfused(b, TRACES_RESIDUAL_SUMS | TRACES_UNFUSED_BLOCK))
        TRACES_TRAFFIC(b, 0, 3 * b->item * elements(b, t), 0, .split = LW_SPLIT_GROUP);
}

/* What a module keeps; copies of weights (autocast) whatever is recomputed. */
static void keep(struct traces_builder *b, struct lw_module *m, int64_t bytes, int64_t numel)
{
    int64_t copies = b->shape.autocast ? b->item * numel : 0;

    m->kept_bytes[LW_RECOMPUTE_NONE] = m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = bytes + copies;
    m->kept_bytes[LW_RECOMPUTE_FULL] = copies;
}

enum conv_use { CONV_USUAL, CONV_BEGINS_BLOCK, CONV_AROUND_BLOCK };

/* Keeps its input for backward, unless another module does (the block's first convolution). */
static struct tensor add_conv(struct traces_builder *b, const char *name, struct tensor in,
                              int64_t channels, int64_t kernel, int64_t stride, enum conv_use use)
{
    const struct conv c = {.in = in,
                           .out = {channels, side_after(in.side, kernel, stride)},
                           .kernel = kernel,
                           .stride = stride,
                           .numel = channels * in.channels * kernel * kernel,
                           .first = b->w.n_modules == 0};
    struct lw_module *m = traces_builder_module(b, name);

    if (use == CONV_BEGINS_BLOCK)
        add_branch(b, in);
    int32_t k = conv_kernels(b, &c, 2 * elements(b, c.out) * in.channels * kernel * kernel);
    m->output_bytes = b->item * elements(b, c.out);
    keep(b, m, use != CONV_AROUND_BLOCK ? b->item * elements(b, in) : 0, c.numel);
    traces_builder_param(b, k, channels, c.numel / channels, LW_TP_REPLICATED, "%s.weight", name);
    return c.out;
}

/* What follows a batch norm inside its module. */
enum tail { TAIL_NONE, TAIL_RELU, TAIL_ADD_RELU, TAIL_RELU_POOL };

/* --- batch norms ------------------------------------------------------------------------------ */

/* torch's own kernels are moments, running moments and values, cuDNN's are one; another counts the
 * batches (pytorch/pytorch@000e0689, aten/src/ATen/native/cuda/Normalization.cu,
 * batch_norm_cuda_out; @4aef9dcf, native/Normalization.cpp, _batch_norm_impl_index: cuDNN but for
 * bf16, and for f16 with parameters of f16). */
static bool is_own_norm(const struct traces_builder *b)
{
    return b->dtype == LW_BF16 || (b->dtype == LW_F16 && !b->shape.autocast);
}

static int32_t norm_launches(const struct traces_builder *b)
{
    return is_own_norm(b) ? 4 : 2;
}

/* Bytes, and launches, of a norm with what follows it. */
struct passes {
    int64_t forward, backward;
    int32_t n_forward, n_backward;
};

enum { COUNT_BYTES = 16 }; /* of batches: an i64 is read and written */

/* The norm's part in which one block of threads has a channel of all images: all of cuDNN's, the
 * moments and the backward of torch's own. */
static int32_t add_channels(struct traces_builder *b, struct tensor t, struct passes *rest)
{
    const int64_t n = b->item * elements(b, t), forward = (is_own_norm(b) ? 1 : 3) * n;

    rest->forward += COUNT_BYTES - forward;
    rest->backward -= 5 * n;
    rest->n_forward--;
    rest->n_backward--;
    return TRACES_TRAFFIC(b, forward, 5 * n, 0, .split = LW_SPLIT_GROUP, .blocks = t.channels);
}

/* Passes over the activation: the norm reads twice (moments, then values) and writes once, backward
 * reads output gradient and input twice and writes once; ReLU in place 2 and 3; addition 3 and 0
 * (the gradient goes both ways as it is). The pool's gradient is filled with zeros first. */
static struct tensor add_norm(struct traces_builder *b, const char *name, struct tensor t,
                              enum tail tail)
{
    int64_t n = b->item * elements(b, t);
    struct passes p = {3 * n, 5 * n, norm_launches(b), 1};

    if (tail != TAIL_NONE) {
        p.forward += 2 * n;
        p.backward += 3 * n;
        p.n_forward++;
        p.n_backward++;
    }
    if (tail == TAIL_ADD_RELU) {
        p.forward += 3 * n;
        p.n_forward++;
    }
    struct tensor out = t;
    int64_t kept = n;
    if (tail == TAIL_RELU_POOL) { /* 3x3, stride 2; keeps its input and the places of the maxima */
        out.side = side_after(t.side, 3, 2);
        int64_t pooled = elements(b, out);
        p.forward += n + b->item * pooled + 8 * pooled;
        p.backward += 2 * n + b->item * pooled + 8 * pooled;
        kept += n + 8 * pooled;
        p.n_forward++;
        p.n_backward += 2;
    }
    struct lw_module *m = traces_builder_module(b, name);
    int32_t channels = is_unfused(b, TRACES_CHANNEL_NORMS) ? add_channels(b, t, &p) : -1;
    int32_t kernel = TRACES_TRAFFIC(b, p.forward, p.backward, 0, .split = LW_SPLIT_GROUP,
                                    .n_forward = p.n_forward, .n_backward = p.n_backward);
    kernel = channels < 0 ? kernel : channels;
    m->output_bytes = b->item * elements(b, out);
    m->kept_bytes[LW_RECOMPUTE_NONE] = m->kept_bytes[LW_RECOMPUTE_SELECTIVE] = kept;
    m->kept_bytes[LW_RECOMPUTE_FULL] = 0;
    traces_builder_param(b, kernel, t.channels, 1, LW_TP_REPLICATED, "%s.weight", name);
    traces_builder_param(b, kernel, t.channels, 1, LW_TP_REPLICATED, "%s.bias", name);
    traces_builder_buffer(b, t.channels, LW_F32, "%s.running_mean", name);
    traces_builder_buffer(b, t.channels, LW_F32, "%s.running_var", name);
    traces_builder_buffer(b, 1, LW_I64, "%s.num_batches_tracked", name);
    return out;
}

/* With full recomputation a block keeps its input, and copies of weights. */
static void keep_input(struct traces_builder *b, int32_t first, int64_t input_bytes)
{
    b->w.modules[first].kept_bytes[LW_RECOMPUTE_FULL] += input_bytes;
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
                     k == 0 ? CONV_BEGINS_BLOCK : CONV_USUAL);
        snprintf(name, sizeof name, "layer%d.%d.bn%d", stage + 1, block, k + 1);
        t = add_norm(b, name, t, k == n - 1 ? TAIL_ADD_RELU : TAIL_RELU);
    }
    if (stride != 1 || in.channels != out) {
        snprintf(name, sizeof name, "layer%d.%d.downsample.0", stage + 1, block);
        struct tensor side = add_conv(b, name, in, out, 1, stride, CONV_AROUND_BLOCK);
        snprintf(name, sizeof name, "layer%d.%d.downsample.1", stage + 1, block);
        add_norm(b, name, side, TAIL_NONE);
    }
    if (!b->no_memory)
        keep_input(b, first, b->item * elements(b, in));
    return t;
}

/* --- the head --------------------------------------------------------------------------------- */

/* As of a vocabulary (models_loss.c): logarithms, and the loss of them; backward zeros, the loss's
 * gradient and that of the scores. Under autocast the logarithms are cast, and their gradient. */
static void add_loss(struct traces_builder *b)
{
    const int64_t scores = b->shape.batch * TRACES_N_LABELS;
    const bool casts = b->shape.autocast;
    const int64_t forward = 2 * b->item + (casts ? b->item + 4 : 0);
    const int64_t backward = 4 * b->item + (casts ? 4 + 4 : 0);

    if (is_unfused(b, TRACES_LOG_SOFTMAX))
        TRACES_TRAFFIC(b, forward * scores, backward * scores, 0, .split = LW_SPLIT_GROUP,
                       .n_forward = casts ? 3 : 2, .n_backward = casts ? 4 : 3);
}

/* The average pool reads its input once (and writes it once backward); then a linear layer, whose
 * products are no convolutions. Backward by weights, the bias's gradient is a sum. */
static void add_head(struct traces_builder *b, struct tensor in)
{
    int64_t batch = b->shape.batch, map = b->item * elements(b, in);
    int64_t pooled = b->item * batch * in.channels;
    int64_t scores = b->item * batch * TRACES_N_LABELS;
    int64_t numel = in.channels * TRACES_N_LABELS, weight = b->item * numel;
    int64_t flops = 2 * batch * numel;
    const struct lw_kernel linear = {
        .kind = LW_KERNEL_COUNTED,
        .split = LW_SPLIT_GROUP,
        .flops = {flops, flops, flops},
        .bytes = {map + 2 * pooled + weight + scores, scores + weight + 2 * pooled + map,
                  scores + pooled + weight},
        .n_forward = 2,
        .n_backward = 2,
    };
    struct lw_module *m = traces_builder_module(b, "fc");
    int32_t casts = b->shape.autocast ? add_casts(b, numel + TRACES_N_LABELS, 2, 0) : -1;
    int32_t kernel = traces_builder_kernel(b, &linear);

    if (is_unfused(b, TRACES_BIAS_SUMS))
        TRACES_TRAFFIC(b, 0, 0, scores, .split = LW_SPLIT_GROUP);
    add_loss(b);
    m->output_bytes = scores;
    keep(b, m, pooled, numel);
    m->kept_bytes[LW_RECOMPUTE_FULL] += map;
    kernel = casts < 0 ? kernel : casts;
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

static void note_tf32(struct traces_builder *b)
{
    if (is_tf32(b) && b->device->kind[0])
        traces_builder_note(b, "convolutions are of TF32, %.4g flop/s: %s",
                            b->device->tf32_peak_flops.value, b->device->tf32_peak_flops.source);
    else if (b->shape.tf32_convolutions && b->dtype == LW_F32 && b->device->kind[0])
        traces_builder_note(b, "convolutions are of f32, not TF32: device %s gives no %s",
                            b->device->kind, lw_device_lacks_tf32(b->device));
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
    t = add_conv(&b, "conv1", t, 64, 7, 2, CONV_USUAL);
    t = add_norm(&b, "bn1", t, TAIL_RELU_POOL);
    if (!b.no_memory)
        keep_input(&b, 0, images);
    for (int s = 0; s < STAGES; s++)
        for (int k = 0; k < d->blocks[s]; k++)
            t = add_block(&b, d, s, k, t);
    add_head(&b, t);
    traces_builder_note(&b, "%s: batch %lld, images of %lld x %lld, %d classes", model->name,
                        (long long)shape->batch, (long long)shape->image, (long long)shape->image,
                        TRACES_N_LABELS);
    traces_builder_note(&b, "modules are convolutions, batch norms (with the ReLU, addition and "
                            "max pool after them) and fc (with the average pool before it)");
    note_tf32(&b);
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
