/* Vision transformers (Dosovitskiy et al., arXiv 2010.11929, table 1): patches by a convolution,
 * a class token, learned positions, pre-norm blocks with GELU, a linear classifier on the class
 * token; no dropout. Names and order of registration are torchvision's (pytorch/vision@07a929e8,
 * torchvision/models/vision_transformer.py), where a module's own parameters come before those
 * of its children: the class token is the first. */
#include "traces/models/models_transformer.h"

#include <inttypes.h>
#include <stdio.h>

enum { PARAMS_PER_BLOCK = 12, CHANNELS = 3 };

static void add_patches(struct transformer *t)
{
    int64_t h = t->hidden, item = t->b.item, x = item * t->tokens * h;
    int64_t rows = t->tokens - t->batch, in = CHANNELS * t->b.shape.patch * t->b.shape.patch;
    int64_t flops = 2 * rows * in * h, bytes = item * (rows * in + in * h + rows * h);
    const struct lw_kernel add = {.bytes = {3 * x, 0, x}};

    transformer_module(t, "conv_proj"); /* the images need no gradient */
    int32_t conv = TRACES_KERNEL(&t->b, .kind = LW_KERNEL_COUNTED, .flops = {flops, 0, flops},
                                 .bytes = {bytes, 0, bytes});
    int32_t tokens = traces_builder_kernel(&t->b, &add);
    int32_t places = traces_builder_kernel(&t->b, &add);
    traces_builder_param(&t->b, tokens, 1, h, LW_TP_REPLICATED, "class_token");
    traces_builder_param(&t->b, conv, h, in, LW_TP_REPLICATED, "conv_proj.weight");
    traces_builder_param(&t->b, conv, h, 1, LW_TP_REPLICATED, "conv_proj.bias");
    traces_builder_param(&t->b, places, 1, t->seq * h, LW_TP_REPLICATED, "encoder.pos_embedding");
    transformer_keep(t, item * rows * in, true);
    transformer_end_plain(t, LW_TP_REPLICATED, x);
}

static void add_block(struct transformer *t, int32_t i)
{
    static const char *const names[] = {"ln_1.", "self_attention.in_proj_",
                                        "self_attention.out_proj.", "ln_2.", "mlp.0.", "mlp.3."};
    char block[64];

    snprintf(block, sizeof block, "encoder.layers.encoder_layer_%d", i);
    transformer_pre_norm_block(t, block, names);
}

static void add_head(struct transformer *t)
{
    int64_t h = t->hidden, scores = t->b.item * t->batch * TRACES_N_LABELS;

    transformer_module(t, "heads");
    transformer_norm_layer(t, "encoder", "ln.");
    transformer_layer(t, t->batch, h, TRACES_N_LABELS, LW_TP_REPLICATED, "heads", "head.");
    transformer_keep(t, transformer_of_samples(t, t->b.item * t->batch * h + scores), true);
    transformer_end_plain(t, LW_TP_REPLICATED, transformer_of_samples(t, scores));
}

static enum lw_status build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    struct traces_model_shape s = *shape;
    struct transformer t;

    if (s.image % s.patch)
        return lw_fail(err, LW_EINVAL,
                       "--patch: found %" PRId64
                       ", allowed: divisors of the image's side, %" PRId64,
                       s.patch, s.image);
    s.seq = (s.image / s.patch) * (s.image / s.patch) + 1;
    LW_TRY(transformer_init(&t, m, &s, device, err));
    traces_builder_room(&t.b, s.layers + 2, PARAMS_PER_BLOCK * s.layers + 8, 0);
    add_patches(&t);
    for (int32_t i = 0; i < s.layers; i++)
        add_block(&t, i);
    add_head(&t);
    traces_builder_note(&t.b, "images of %lld x %lld in patches of %lld x %lld, and a class token; "
                              "%d classes",
                        (long long)s.image, (long long)s.image, (long long)s.patch,
                        (long long)s.patch, TRACES_N_LABELS);
    return transformer_finish(&t, m, w, err);
}

#define VIT(layers_, hidden_, heads_, patch_)                                                      \
    {                                                                                              \
        .batch = 32, .layers = layers_, .hidden = hidden_, .heads = heads_, .ffn = 4 * hidden_,    \
        .image = 224, .patch = patch_, .dtype = "f32", .attention = "flash", .optimizer = "adam",  \
    }
#define DOSOVITSKIY "Dosovitskiy et al., arXiv 2010.11929, table 1; torchvision"

const struct traces_model traces_models_vit[] = {
    {"vit-b-16", "ViT-B/16 at 224 pixels", VIT(12, 768, 12, 16), build, DOSOVITSKIY},
    {"vit-b-32", "ViT-B/32 at 224 pixels", VIT(12, 768, 12, 32), build, DOSOVITSKIY},
    {"vit-l-16", "ViT-L/16 at 224 pixels", VIT(24, 1024, 16, 16), build, DOSOVITSKIY},
    {"vit-l-32", "ViT-L/32 at 224 pixels", VIT(24, 1024, 16, 32), build, DOSOVITSKIY},
    {"vit-h-14", "ViT-H/14 at 224 pixels", VIT(32, 1280, 16, 14), build, DOSOVITSKIY},
    {0},
};
