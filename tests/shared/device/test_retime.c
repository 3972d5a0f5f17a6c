/* A workload on another device: hand-computed ratios, models that are made for both devices, and
 * what is refused. */
#include <math.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/device/retime.h"
#include "shared/files/files.h"
#include "tests/lib/plans/tiny_workload.h"
#include "traces/models/models.h"

static const struct lw_device slow = {.kind = "slow", .peak_flops[LW_F32] = {100, "t"},
                                      .memory_bytes_per_s = {10, "t"}};
static const struct lw_device fast = {.kind = "fast", .peak_flops[LW_F32] = {400, "t"},
                                      .memory_bytes_per_s = {20, "t"}};

/* Module a: 600 FLOPs, no bytes: 4 times faster. b: 600 FLOPs (6 s), 200 bytes (20 s): by
 * memory, twice (10 s of the fast one against 1.5). c: 600 FLOPs (6 s), 50 bytes (5 s): 6 s
 * there, 2.5 s here. */
TEST(each_module_goes_by_its_own_roofline)
{
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[1].forward_bytes = 200;
    t.modules[2].forward_bytes = 50;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_OK);
    assert_int_equal(t.modules[0].forward_ps, LW_PS_PER_US / 4);
    assert_int_equal(t.modules[1].backward_input_ps, 2 * LW_PS_PER_US / 2);
    assert_int_equal(t.modules[2].backward_weight_ps, 1250000); /* 3 us * 2.5 / 6 */
    assert_int_equal(t.w.optimizer_ps, 7 * LW_PS_PER_US / 2);
    /* windows: c [0, 2.5), b [2.5, 4.5), a [4.5, 5) us; c.weight at 5 of 6, b.bias at 8 of 6..10 */
    assert_int_equal(t.params[C_WEIGHT].ready_ps, 2083333);
    assert_int_equal(t.params[B_BIAS].ready_ps, 3500000);
    assert_int_equal(t.params[A_WEIGHT].ready_ps, 5000000);
    assert_string_equal(t.w.from.device, "fast");
    assert_int_equal(lw_workload_check(&t.w, &err), LW_OK);
    lw_arena_free(&t.w.arena);
}

/* A quarter of 4 ps of forward is 1 ps. A quarter of each of its products of 2 ps would be rounded
 * up to 1 ps: the row product has what the column product leaves. */
TEST(products_stay_within_the_forward)
{
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[0].forward_ps = 4;
    t.modules[0].tp_column_ps = t.modules[0].tp_row_ps = 2;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_OK);
    assert_int_equal(t.modules[0].forward_ps, 1);
    assert_int_equal(t.modules[0].tp_column_ps + t.modules[0].tp_row_ps, 1);
    assert_ok(lw_workload_check(&t.w, &err), err);
    lw_arena_free(&t.w.arena);
}

/* A quarter of 1 ps is rounded to 1, not to 0, which would be an op without work. */
TEST(no_time_becomes_none)
{
    struct lw_work work = {.ps = 1, .flops = 600};
    struct lw_op op = {.kind = LW_OP_FORWARD, .module = -1};
    struct lw_plan_param param = {.dtype = LW_F32, .numel = 1};
    struct lw_plan p = {.works = &work, .n_works = 1, .ops = &op, .n_ops = 1, .params = &param,
                        .n_params = 1};
    struct tiny t;
    struct lw_err err = {0};

    assert_ok(lw_plan_retime(&p, &slow, &fast, &err), err);
    assert_int_equal(work.ps, 1);
    lw_arena_free(&p.arena);
    tiny_init(&t);
    t.modules[0].forward_ps = 1;
    t.modules[0].backward_input_ps = 0;
    assert_ok(lw_workload_retime(&t.w, &slow, &fast, &err), err);
    assert_int_equal(t.modules[0].forward_ps, 1);
    assert_int_equal(t.modules[0].backward_input_ps, 0);
    lw_arena_free(&t.w.arena);
}

/* Of 40 ps of forward attention has 8 .. 23, of 80 ps of backward 4 .. 44: a quarter of each. */
TEST(attention_keeps_its_share)
{
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[0].forward_ps = t.modules[0].backward_input_ps = t.modules[0].backward_weight_ps = 40;
    t.modules[0].attention_start_ps = 8;
    t.modules[0].attention_ps = 15;
    t.modules[0].attention_backward_start_ps = 4;
    t.modules[0].attention_backward_ps = 40;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_OK);
    assert_int_equal(t.modules[0].forward_ps, 10);
    assert_int_equal(t.modules[0].attention_start_ps, 2);
    assert_int_equal(t.modules[0].attention_ps, 3); /* 23 / 4, rounded down, less 2 */
    assert_int_equal(t.modules[0].attention_backward_start_ps, 1);
    assert_int_equal(t.modules[0].attention_backward_ps, 10);
    lw_arena_free(&t.w.arena);
}

/* So many SMs of 0.25 * 10^12 flop/s, half of it sustained, without fill and launches. */
static struct lw_device shaped(const char *kind, double n_sms, double bytes_per_s)
{
    return (struct lw_device){.kind = kind, .peak_flops[LW_F32] = {0.25e12 * n_sms, "t"},
                              .n_sms = {n_sms, "t"}, .gemm_sustained = {0.5, "t"},
                              .gemm_fill = {1e-9, "t"}, .launch_ps = {1e-3, "t"},
                              .memory_bytes_per_s = {bytes_per_s, "t"}};
}

/* A product of 512 x 512 x 512 takes 2 waves of tiles of 256 x 128 on 4 SMs, 0.536870912 ms, and on
 * 16 SMs 1 wave of tiles of 128 x 128, whose speed is 64 / 104 over 85.33 / 125.33 of theirs:
 * 0.134217728 / 0.9038 = 0.148496210 ms (docs/design/device.md). The other 1 ms of the forward
 * moves bytes, 5 times as fast there. Less time than its product's: all by the product's ratio. */
TEST(products_go_by_shape_and_the_rest_by_bytes)
{
    const struct lw_device from = shaped("4 SMs", 4, 1e15), to = shaped("16 SMs", 16, 5e15);
    struct lw_product p = {.batch = 1, .m = 512, .n = 512, .k = 512, .dtype = LW_F32};
    const lw_ps two_waves = 536870912, one_wave = 148496210, ms = 1000000000;
    int32_t product = 0;
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.w.products = &p;
    t.w.n_products = 1;
    for (int k = 0; k < 2; k++) {
        struct lw_module *m = &t.modules[k];
        m->forward_ps = k == 0 ? two_waves + ms : two_waves / 2;
        m->forward_flops = lw_product_flops(&p);
        m->forward_bytes = 1000;
        m->products[LW_PRODUCTS_FORWARD] = &product;
        m->n_products[LW_PRODUCTS_FORWARD] = 1;
    }
    assert_ok(lw_workload_retime(&t.w, &from, &to, &err), err);
    assert_in_range(t.modules[0].forward_ps, one_wave + ms / 5 - 2, one_wave + ms / 5 + 2);
    assert_in_range(t.modules[1].forward_ps, one_wave / 2 - 2, one_wave / 2 + 2);
    assert_non_null(strstr(t.w.notes[0], "the products of 2 of 3 modules by shape, the rest by"));
    lw_arena_free(&t.w.arena);
}

static struct lw_workload made_for(const char *model, const struct lw_device *d)
{
    const struct traces_model_shape shape = {0};
    struct lw_workload w;
    struct lw_err err = {0};

    assert_ok(traces_model_build(model, &shape, d, &w, &err), err);
    return w;
}

static double step_of(const struct lw_workload *w)
{
    return (double)lw_workload_step_ps(w);
}

static double whole_of(const struct lw_workload *w)
{
    double sum = 0;

    for (int32_t i = 0; i < w->n_modules; i++)
        sum += (double)(w->modules[i].whole_forward_ps + w->modules[i].whole_input_ps +
                        w->modules[i].whole_weight_ps);
    return sum;
}

/* Between devices, `of` of each model is within `allowed` of that of the model made there. */
static void nearly_as_made(const char *const *models, int n, double of(const struct lw_workload *),
                           double allowed)
{
    static const char *const pairs[][2] = {
        {"dgx-h100", "dgx-b200"}, {"dgx-a100", "dgx-h100"}, {"dgx-b200", "dgx-a100"}};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct lw_cluster from, to;
        struct lw_err err = {0};
        assert_ok(lw_cluster_find(pairs[i][0], &from, &err), err);
        assert_ok(lw_cluster_find(pairs[i][1], &to, &err), err);
        for (int m = 0; m < n; m++) {
            struct lw_workload w = made_for(models[m], &from.device);
            struct lw_workload x = made_for(models[m], &to.device);
            assert_ok(lw_workload_retime(&w, &from.device, &to.device, &err), err);
            assert_ok(lw_workload_check(&w, &err), err);
            double ratio = of(&w) / of(&x);
            if (fabs(ratio - 1) > allowed)
                fail_msg("%s, %s to %s: %+.1f %%", models[m], pairs[i][0], pairs[i][1],
                         100 * (ratio - 1));
            lw_workload_free(&w);
            lw_workload_free(&x);
        }
        lw_cluster_free(&from);
        lw_cluster_free(&to);
    }
}

/* A device that differs in attention's backward alone: the forward stays, and the backward
 * becomes longer by nearly as much as that of a model made there. Traffic beside attention goes by
 * the same ratio, a part of the difference. */
TEST(attention_has_a_speed_of_its_own_in_the_backward)
{
    struct lw_cluster from, to;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-h100", &from, &err), err);
    assert_ok(lw_cluster_find("dgx-h100", &to, &err), err);
    to.device.attention_backward.value /= 3;
    struct lw_workload plain = made_for("llama-3-8b", &from.device);
    struct lw_workload w = made_for("llama-3-8b", &from.device);
    struct lw_workload x = made_for("llama-3-8b", &to.device);
    assert_ok(lw_workload_retime(&w, &from.device, &to.device, &err), err);
    double more = step_of(&w) - step_of(&plain), made = step_of(&x) - step_of(&plain);
    assert_true(made > 0.05 * step_of(&plain));
    assert_true(fabs(more / made - 1) < 0.25);
    for (int32_t i = 0; i < w.n_modules; i++)
        assert_int_equal(w.modules[i].forward_ps, plain.modules[i].forward_ps);
    lw_workload_free(&plain);
    lw_workload_free(&w);
    lw_workload_free(&x);
    lw_cluster_free(&from);
    lw_cluster_free(&to);
}

/* By FLOPs and bytes alone gpt-1.3b from H100 to B200 was 22 % too fast. What is left is of fused
 * attention, whose backward has a speed of its own, and of launches. */
TEST(a_model_is_nearly_as_fast_as_one_made_for_the_device)
{
    static const char *const models[] = {"gpt-1.3b", "llama-2-7b", "llama-3-8b", "mixtral-8x7b",
                                         "bert-large", "resnet50", "vit-l-16"};

    nearly_as_made(models, 7, step_of, 0.06);
}

/* What each rank of a tensor group has whole: norms, which go by traffic, and the narrow products
 * of latent attention, by shape. What is left is of launches. */
TEST(whole_parts_are_nearly_as_fast_as_made_for_the_device)
{
    static const char *const models[] = {"llama-3-8b", "deepseek-v2", "deepseek-v3"};

    nearly_as_made(models, 3, whole_of, 0.08);
}

TEST(workload_without_figures_is_refused_and_unchanged)
{
    struct lw_device bare = {.kind = "bare"};
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    t.modules[1].forward_flops = -1;
    assert_int_equal(lw_workload_retime(&t.w, &slow, &fast, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "module 1 'b' gives neither FLOPs nor bytes"));
    assert_int_equal(t.modules[0].forward_ps, LW_PS_PER_US);
    assert_int_equal(lw_workload_retime(&t.w, &slow, &bare, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "'bare'"));
    assert_int_equal(t.w.optimizer_ps, 7 * LW_PS_PER_US);
}

TEST(missing_figures_are_found_before_retiming)
{
    struct tiny t;

    tiny_init(&t);
    assert_true(lw_workload_can_retime(&t.w));
    t.modules[1].forward_flops = -1;
    assert_false(lw_workload_can_retime(&t.w));
    t.modules[1].forward_bytes = 8;
    assert_true(lw_workload_can_retime(&t.w));
}

TEST(failed_allocations_leave_it_as_it_was)
{
    int64_t live = lw_alloc_live(), n = 0;
    enum lw_status s;

    do {
        struct tiny t;
        tiny_init(&t);
        lw_alloc_fail_at(++n);
        s = lw_workload_retime(&t.w, &slow, &fast, NULL);
        lw_alloc_fail_at(0);
        assert_true(s == LW_OK || (s == LW_ENOMEM && t.modules[0].forward_ps == LW_PS_PER_US));
        lw_arena_free(&t.w.arena);
        assert_int_equal(lw_alloc_live(), live);
    } while (s != LW_OK);
    assert_true(n > 2);
}
