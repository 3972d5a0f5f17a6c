/* Recorded operators on another device: by the functions that time a model's kernels. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/device/time_ops.h"
#include "shared/files/files.h"
#include "tests/lib/plans/tiny_workload.h"

static const struct lw_kernel_rates none = {.host_op_ps = 0};

/* Module a: a product in forward, two in backward; b: traffic; c: nothing. */
static struct lw_recorded_op ops[] = {
    {.kind = LW_KERNEL_GEMM, .batch = 1, .m = 512, .n = 1024, .k = 256},
    {.kind = LW_KERNEL_GEMM, .batch = 1, .m = 512, .n = 256, .k = 1024, .backward = true},
    {.kind = LW_KERNEL_GEMM, .batch = 1, .m = 256, .n = 1024, .k = 512, .backward = true},
    {.kind = LW_KERNEL_TRAFFIC, .bytes = 1 << 20},
    {.kind = LW_KERNEL_TRAFFIC, .bytes = 3 << 20, .backward = true},
    {.kind = LW_KERNEL_ATTENTION, .batch = 2, .m = 512, .heads = 8, .kv_heads = 8, .qk_width = 64,
     .v_width = 64, .causal = true, .backward = true},
};
static int32_t of_a[] = {0, 1, 2}, of_b[] = {3, 5, 4};

static void put_ops(struct tiny *t)
{
    tiny_init(t);
    t->w.ops = ops;
    t->w.n_ops = sizeof ops / sizeof *ops;
    t->modules[0].ops = of_a;
    t->modules[0].n_ops = 3;
    t->modules[1].ops = of_b;
    t->modules[1].n_ops = 3;
}

static struct lw_cluster find(const char *name)
{
    struct lw_cluster c;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find_device(name, &c, &err), err);
    return c;
}

static lw_ps product(const struct lw_device *d, int32_t i)
{
    const struct lw_recorded_op *op = &ops[i];

    return lw_product_time(d, &(struct lw_product){.batch = op->batch, .m = op->m, .n = op->n,
                                                   .k = op->k, .dtype = op->dtype});
}

TEST(operators_take_what_kernels_of_their_shape_take)
{
    struct lw_cluster c = find("dgx-h100");
    struct lw_err err = {0};
    struct tiny t;

    put_ops(&t);
    assert_ok(lw_workload_time_ops(&t.w, NULL, &c.device, &none, &err), err);
    assert_int_equal(t.modules[0].forward_ps, product(&c.device, 0));
    assert_int_equal(lw_module_backward(&t.modules[0]),
                     product(&c.device, 1) + product(&c.device, 2));
    assert_int_equal(t.modules[1].forward_ps, lw_traffic_time(&c.device, 1 << 20));
    const struct lw_attention a = {.batch = 2, .heads = 8, .kv_heads = 8, .seq_q = 512,
                                   .seq_k = 512, .qk_width = 64, .v_width = 64, .causal = true,
                                   .backward = true};
    assert_int_equal(lw_module_backward(&t.modules[1]),
                     lw_traffic_time(&c.device, 3 << 20) + lw_attention_time(&c.device, &a));
    assert_int_equal(t.modules[2].forward_ps + lw_module_backward(&t.modules[2]), 0);
    assert_string_equal(t.w.from.device, c.device.kind);
    assert_ok(lw_workload_check(&t.w, &err), err);
    lw_arena_free(&t.w.arena);
    lw_cluster_free(&c);
}

/* Three launches of 1 ms. */
TEST(the_host_limits_them)
{
    struct lw_cluster c = find("dgx-h100");
    struct lw_err err = {0};
    struct tiny t;

    put_ops(&t);
    assert_ok(lw_workload_time_ops(&t.w, NULL, &c.device,
                                   &(struct lw_kernel_rates){.host_op_ps = LW_PS_PER_MS}, &err),
              err);
    assert_int_equal(t.modules[0].forward_ps, LW_PS_PER_MS);
    assert_int_equal(lw_module_backward(&t.modules[0]), 2 * LW_PS_PER_MS);
    lw_arena_free(&t.w.arena);
    lw_cluster_free(&c);
}

/* From a device that can be timed: the recorded time by the ratio. To itself nothing changes. */
TEST(recorded_times_go_by_the_ratio)
{
    struct lw_cluster h100 = find("dgx-h100"), h200 = find("dgx-h200");
    struct lw_err err = {0};
    struct tiny t, old;

    put_ops(&t);
    put_ops(&old);
    assert_ok(lw_workload_time_ops(&t.w, &h100.device, &h100.device, &none, &err), err);
    for (int i = 0; i < t.w.n_modules; i++) {
        assert_int_equal(t.modules[i].forward_ps, old.modules[i].forward_ps);
        assert_int_equal(lw_module_backward(&t.modules[i]), lw_module_backward(&old.modules[i]));
    }
    for (int i = 0; i < t.w.n_params; i++)
        assert_int_equal(t.params[i].ready_ps, old.params[i].ready_ps);
    assert_int_equal(t.w.optimizer_ps, old.w.optimizer_ps);
    assert_ok(lw_workload_time_ops(&t.w, &h100.device, &h200.device, &none, &err), err);
    double want = (double)old.modules[0].forward_ps * (double)product(&h200.device, 0) /
                  (double)product(&h100.device, 0);
    assert_in_range(t.modules[0].forward_ps, (lw_ps)want - 1, (lw_ps)want + 1);
    assert_int_equal(t.w.n_kernels, 0); /* what bounds kernels says nothing of recorded times */
    assert_int_equal(t.modules[0].bound_ps[0][LW_BOUND_COMPUTE], 0);
    assert_ok(lw_workload_check(&t.w, &err), err);
    lw_arena_free(&t.w.arena);
    lw_arena_free(&old.w.arena);
    lw_cluster_free(&h100);
    lw_cluster_free(&h200);
}

TEST(a_device_without_figures_for_a_type_is_refused)
{
    struct lw_cluster c = find("dgx-h100");
    struct lw_err err = {0};
    struct tiny t;

    put_ops(&t);
    c.device.peak_flops[LW_F32].source = NULL;
    c.device.peak_flops[LW_F32].value = 0;
    lw_ps before = t.modules[0].forward_ps;
    assert_int_equal(lw_workload_time_ops(&t.w, NULL, &c.device, &none, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "peak_flops.f32"));
    assert_int_equal(t.modules[0].forward_ps, before);
    lw_arena_free(&t.w.arena);
    lw_cluster_free(&c);
}

/* Of a file: each size, and what all come to. */
TEST(operators_of_files_are_checked)
{
    struct lw_recorded_op of[] = {{.kind = LW_KERNEL_GEMM, .batch = 1, .m = 0, .n = 1, .k = 1},
                                  {.kind = LW_KERNEL_GEMM, .batch = INT32_MAX, .m = INT32_MAX,
                                   .n = INT32_MAX, .k = INT32_MAX},
                                  {.kind = LW_KERNEL_ATTENTION, .batch = 1, .m = 1, .heads = 1,
                                   .kv_heads = 1, .qk_width = INT64_MAX, .v_width = 1},
                                  {.kind = LW_KERNEL_TRAFFIC, .bytes = INT64_MAX}};
    struct lw_err err = {0};
    struct tiny t;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        put_ops(&t);
        t.w.ops = &of[i];
        t.w.n_ops = 1;
        t.modules[0].n_ops = t.modules[1].n_ops = 0;
        assert_int_equal(lw_workload_check(&t.w, &err), LW_EFORMAT);
        assert_non_null(strstr(err.msg, "ops[0]"));
        lw_arena_free(&t.w.arena);
    }
    put_ops(&t);
    of_a[1] = 6;
    assert_int_equal(lw_workload_check(&t.w, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "modules[0].ops"));
    of_a[1] = 1;
    lw_arena_free(&t.w.arena);
}
