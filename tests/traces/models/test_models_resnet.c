/* Convolutions as torch and cuDNN run them: TF32, copies to channels last, casts under autocast,
 * launches of batch norms (docs/design/frameworks.md, Convolutions). */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/traces/model_help.h"

static const struct lw_module *module_of(const struct lw_workload *w, const char *name)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (strcmp(w->modules[i].name, name) == 0)
            return &w->modules[i];
    fail_msg("no module %s", name);
    return NULL;
}

/* The convolution, or fc's product, of a module. */
static const struct lw_kernel *counted(const struct lw_workload *w, const char *name)
{
    const struct lw_module *m = module_of(w, name);

    for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++)
        if (w->kernels[k].kind == LW_KERNEL_COUNTED)
            return &w->kernels[k];
    fail_msg("nothing is counted in %s", name);
    return NULL;
}

/* Bytes, and launches, of a module's kernels that move memory. */
struct moved {
    int64_t forward, input, weight, n_forward, n_backward;
};

static int64_t at_least_one(int64_t bytes, int32_t n)
{
    return bytes == 0 ? 0 : n > 0 ? n : 1;
}

static struct moved moved(const struct lw_workload *w, const struct lw_module *m)
{
    struct moved sum = {0};

    for (int32_t i = m->first_kernel; i < m->first_kernel + m->n_kernels; i++) {
        const struct lw_kernel *k = &w->kernels[i];
        if (k->kind != LW_KERNEL_TRAFFIC)
            continue;
        sum.forward += k->bytes[LW_PRODUCTS_FORWARD];
        sum.input += k->bytes[LW_PRODUCTS_INPUT];
        sum.weight += k->bytes[LW_PRODUCTS_WEIGHT];
        sum.n_forward += at_least_one(k->bytes[LW_PRODUCTS_FORWARD], k->n_forward);
        sum.n_backward += at_least_one(k->bytes[LW_PRODUCTS_INPUT] + k->bytes[LW_PRODUCTS_WEIGHT],
                                       k->n_backward);
    }
    return sum;
}

static struct lw_device device_with_tf32(void)
{
    struct lw_device d = model_device();

    d.tf32_peak_flops = (struct lw_figure){8e12, "test"};
    return d;
}

/* fc is a product: torch's flag of products is another, and off. */
MODEL_TEST(convolutions_of_f32_are_of_tf32_where_framework_and_device_have_it)
{
    const struct {
        bool device, fact;
        const char *dtype;
        bool tf32;
    } cases[] = {{true, true, "f32", true}, {true, false, "f32", false},
                 {false, true, "f32", false}, {true, true, "bf16", false}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_device d = cases[k].device ? device_with_tf32() : model_device();
        struct traces_model_shape s = {.dtype = cases[k].dtype,
                                       .tf32_convolutions = cases[k].fact};
        struct lw_workload w = model_kept("resnet50", &d, s);
        assert_int_equal(counted(&w, "conv1")->tf32, cases[k].tf32);
        assert_int_equal(counted(&w, "layer4.2.conv3")->tf32, cases[k].tf32);
        assert_false(counted(&w, "fc")->tf32);
    }
}

/* A 3 x 3 convolution of 64 channels, 56 x 56 pixels, 32 images: 2 * 32 * 64 * 3136 * 576 FLOPs =
 * 7.398752256e9, at half of 1e12 and of 8e12 flop/s; memory is no bound. */
MODEL_TEST(tf32_takes_its_own_peak)
{
    struct lw_device d = device_with_tf32();
    d.memory_bytes_per_s.value = 1e15;
    struct traces_model_shape s = {.dtype = "f32"};
    struct lw_workload f32 = model_kept("resnet50", &d, s);
    s.tf32_convolutions = true;
    struct lw_workload tf32 = model_kept("resnet50", &d, s);

    assert_int_equal(module_of(&f32, "layer1.0.conv2")->forward_ps, INT64_C(14797504512));
    assert_int_equal(module_of(&tf32, "layer1.0.conv2")->forward_ps, INT64_C(1849688064));
}

/* Of all layouts of a step the recorded one of an H200 in bf16 has 226, all but 4 of them for these
 * reasons: layer4.0.conv1 is no product there. That of an A100 in f32 has 211; 198 here. */
MODEL_TEST(convolutions_that_are_no_products_of_pixels_are_brought_channels_last)
{
    static const struct {
        const char *dtype;
        int64_t layouts, sums;
    } cases[] = {{"bf16", 222, 53 - 37}, {"f32", 198, 53 - 25}};

    struct lw_device d = device_with_tf32();

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t layouts = 0, sums = 0;
        struct traces_model_shape s = {.batch = 64, .dtype = cases[c].dtype,
                                       .tf32_convolutions = true,
                                       .unfused = TRACES_CONVOLUTION_LAYOUTS};
        struct lw_workload w = model_kept("resnet50", &d, s);
        for (int32_t i = 0; i < w.n_modules; i++) {
            if (!strstr(w.modules[i].name, "conv") && !strstr(w.modules[i].name, "downsample.0"))
                continue;
            struct moved m = moved(&w, &w.modules[i]);
            bool product = m.n_backward == 1; /* sums what each image gives */
            layouts += m.n_forward + m.n_backward - product;
            sums += product;
        }
        assert_int_equal(layouts, cases[c].layouts);
        assert_int_equal(sums, cases[c].sums);
    }
}

/* One image of 32 x 32 pixels in f32. layer1.0 has 8 x 8 pixels of 64 channels, 4,096 elements, and
 * layer1.0.conv2 64 * 64 * 9 weights, 36,864. Forward and the input's gradient copy operand,
 * weights and result, that of the weights two operands and its result: each read and written. */
MODEL_TEST(layouts_are_read_and_written)
{
    struct lw_device d = device_with_tf32();
    struct traces_model_shape s = {.batch = 1, .image = 32, .tf32_convolutions = true};
    struct lw_workload last = model_kept("resnet50", &d, s);
    s.unfused = TRACES_CONVOLUTION_LAYOUTS;
    struct lw_workload first = model_kept("resnet50", &d, s);
    struct lw_workload plain = model_kept("resnet50", NULL, s); /* no TF32: V100 copies none */
    const int64_t copies = 2 * 4 * (4096 + 36864 + 4096);
    struct moved m = moved(&first, module_of(&first, "layer1.0.conv2"));

    assert_int_equal(m.forward, copies);
    assert_int_equal(m.input, copies);
    assert_int_equal(m.weight, copies);
    assert_int_equal(m.n_forward, 3);
    assert_int_equal(moved(&last, module_of(&last, "layer1.0.conv2")).forward, 0);
    assert_int_equal(moved(&plain, module_of(&plain, "layer1.0.conv2")).forward, 0);
    m = moved(&first, module_of(&first, "layer1.0.conv3")); /* 64 x 256 weights, a product */
    assert_int_equal(m.forward, 0);
    assert_int_equal(m.weight, (4 + 4) * 64 * 256);
    m = moved(&first, module_of(&first, "conv1")); /* images have no gradient */
    assert_int_equal(m.input, 0);
    assert_int_equal(m.weight, 2 * 4 * (3 * 32 * 32 + 64 * 16 * 16 + 64 * 3 * 49));
    assert_int_equal(m.n_backward, 3);
}

/* A block's first convolution sums the gradients of its input and of the way around it. */
MODEL_TEST(gradients_of_a_branch_are_added)
{
    struct lw_workload w = MODEL("resnet50", .batch = 1, .image = 32,
                                 .unfused = TRACES_UNFUSED_BLOCK);

    assert_int_equal(moved(&w, module_of(&w, "layer1.0.conv1")).input, 3 * 4 * 4096);
    assert_int_equal(moved(&w, module_of(&w, "layer1.1.conv1")).input, 3 * 4 * 4 * 4096);
    assert_int_equal(moved(&w, module_of(&w, "layer1.0.conv2")).input, 0);
}

/* Moments, running moments, values and the count of batches; cuDNN has one kernel for three of
 * them. A ReLU is one more, and with an addition two. */
MODEL_TEST(batch_norms_launch_what_torch_launches)
{
    static const struct {
        const char *dtype;
        bool autocast;
        int64_t norm;
    } cases[] = {{"f32", false, 2}, {"bf16", false, 4}, {"f16", false, 4}, {"bf16", true, 4},
                 {"f16", true, 2}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL("resnet50", .dtype = cases[k].dtype,
                                     .autocast = cases[k].autocast);
        struct moved plain = moved(&w, module_of(&w, "layer1.0.downsample.1"));
        struct moved relu = moved(&w, module_of(&w, "layer1.0.bn1"));
        struct moved sum = moved(&w, module_of(&w, "layer1.0.bn3"));
        assert_int_equal(plain.n_forward, cases[k].norm);
        assert_int_equal(plain.n_backward, 1);
        assert_int_equal(relu.n_forward, cases[k].norm + 1);
        assert_int_equal(relu.n_backward, 2);
        assert_int_equal(sum.n_forward, cases[k].norm + 2);
        assert_int_equal(sum.n_backward, 2);
    }
}

/* Moments of a channel are one block's, and all of cuDNN's norm is; ReLU is not. The count of
 * batches reads and writes 8 bytes. 64 channels of 8 x 8 pixels: 4,096 elements. */
MODEL_TEST(a_block_of_threads_has_a_channel_of_a_batch_norm)
{
    static const struct {
        const char *dtype;
        int64_t item, passes;
    } cases[] = {{"f32", 4, 3}, {"bf16", 2, 1}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct traces_model_shape s = {.batch = 1, .image = 32, .dtype = cases[k].dtype};
        struct lw_workload one = model_kept("resnet50", NULL, s);
        s.unfused = TRACES_CHANNEL_NORMS;
        struct lw_workload w = model_kept("resnet50", NULL, s);
        const int64_t n = cases[k].item * 4096;
        const struct lw_module *m = module_of(&w, "layer1.0.bn1");
        const struct lw_kernel *norm = &w.kernels[m->first_kernel];
        struct moved all = moved(&w, m), same = moved(&one, module_of(&one, "layer1.0.bn1"));
        assert_int_equal(m->n_kernels, 2);
        assert_int_equal(norm[0].blocks, 64);
        assert_int_equal(norm[1].blocks, 0);
        assert_int_equal(norm[0].bytes[LW_PRODUCTS_FORWARD], cases[k].passes * n);
        assert_int_equal(norm[0].bytes[LW_PRODUCTS_INPUT], 5 * n);
        assert_int_equal(all.forward, same.forward + 16);
        assert_int_equal(all.input, same.input);
        assert_int_equal(all.n_forward, same.n_forward);
        assert_int_equal(all.n_backward, same.n_backward);
        all = moved(&w, module_of(&w, "layer1.0.downsample.1"));
        same = moved(&one, module_of(&one, "layer1.0.downsample.1"));
        assert_int_equal(all.n_forward, same.n_forward);
        assert_int_equal(all.n_backward, same.n_backward);
    }
}

/* With launches of 1 ms a module that moves little takes what its host takes: of layer1.0.conv2
 * three copies and the convolution forward; of both gradients copies and convolution backward. */
MODEL_TEST(the_host_launches_all_of_them)
{
    struct lw_workload w = MODEL("resnet50", .batch = 1, .image = 32, .dtype = "bf16",
                                 .unfused = TRACES_CONVOLUTION_LAYOUTS,
                                 .rates.host_op_ps = INT64_C(1000000000));
    const struct lw_module *m = module_of(&w, "layer1.0.conv2");

    assert_int_equal(m->forward_ps, INT64_C(4) * 1000000000);
    assert_int_equal(m->backward_input_ps + m->backward_weight_ps, INT64_C(8) * 1000000000);
    m = module_of(&w, "conv1");
    assert_int_equal(m->backward_input_ps + m->backward_weight_ps, INT64_C(4) * 1000000000);
}

/* Parameters and their gradients are f32; a convolution takes bf16 and keeps a copy of its weights;
 * casts read and write 6 bytes an element. */
MODEL_TEST(autocast_casts_weights_of_convolutions)
{
    struct traces_model_shape s = {.dtype = "bf16", .batch = 1, .image = 32};
    struct lw_workload plain = model_kept("resnet50", NULL, s);
    s.autocast = true;
    struct lw_workload cast = model_kept("resnet50", NULL, s);
    const struct lw_module *m = module_of(&cast, "layer1.0.conv2");
    struct moved first = moved(&cast, module_of(&cast, "conv1"));
    struct moved moves = moved(&cast, m);
    const int64_t n = 64 * 64 * 9;

    assert_int_equal(moves.forward, 6 * n);
    assert_int_equal(moves.weight, 6 * n);
    assert_int_equal(first.forward, 6 * (64 * 3 * 49 + 3 * 32 * 32)); /* images too */
    assert_int_equal(first.weight, 6 * 64 * 3 * 49);
    for (int r = 0; r < LW_N_RECOMPUTE; r++)
        assert_int_equal(m->kept_bytes[r],
                         module_of(&plain, "layer1.0.conv2")->kept_bytes[r] + 2 * n);
    assert_int_equal(m->output_bytes, module_of(&plain, "layer1.0.conv2")->output_bytes);
    for (int32_t p = 0; p < cast.n_params; p++)
        assert_int_equal(cast.params[p].dtype, LW_F32);
    assert_int_equal(cast.step_traffic.update, 20); /* no masters */
}

/* Products of bf16 have four times the peak of f32 here: the type of the convolution counts, and
 * not that of the parameters. */
MODEL_TEST(convolutions_under_autocast_take_the_peak_of_their_type)
{
    struct lw_device d = model_device();
    d.peak_flops[LW_BF16].value = 4e12;
    d.memory_bytes_per_s.value = 1e15;
    const struct traces_model_shape s = {.autocast = true};
    struct lw_workload w = model_kept("resnet50", &d, s);
    const int64_t cast_ps = 6 * 64 * 64 * 9; /* of 10^15 B/s: a byte takes a femtosecond */

    assert_in_range(module_of(&w, "layer1.0.conv2")->forward_ps, INT64_C(3699376128),
                    INT64_C(3699376128) + cast_ps / 1000 + 1);
}

/* Use is of the peak of the convolutions. */
MODEL_TEST(the_peak_is_that_of_the_convolutions)
{
    static const struct {
        struct traces_model_shape shape;
        const char *peak;
    } cases[] = {{{.autocast = true}, "bf16"}, {{.autocast = true, .dtype = "f16"}, "f16"},
                 {{.dtype = "f32"}, "f32"}, {{.dtype = "f32", .tf32_convolutions = true}, "tf32"}};
    struct lw_device d = device_with_tf32();

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = model_kept("resnet18", &d, cases[k].shape);
        const struct lw_strategy s = lw_strategy_default();
        struct lw_plan p = {0};
        struct lw_err err = {0};
        assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
        assert_string_equal(lw_yield_type(&p.yield), cases[k].peak);
        lw_plan_free(&p);
    }
}

