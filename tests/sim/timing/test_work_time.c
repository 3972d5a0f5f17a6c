/* How long an op takes alone on its device: tables over sizes, and rates where there is none
 * (sim/timing/work_time.h). */
#include <string.h>
#include "tests/lib/unit.h"

#include "sim/predict/sim.h"
#include "sim/timing/work_time.h"
#include "tests/lib/sim/sim_help.h"

/* 1000 B take 10 us, 4000 B 40 us (slope 1), 64000 B 160 us (slope 1/2: 16000 B 80 us); beyond,
 * 500 B a us. */
static const int64_t sizes[] = {1000, 4000, 64000};
static const lw_ps times[] = {10000000, 40000000, 160000000};
static const lw_ps fast[] = {1000000, 4000000, 16000000};
enum { us = 1000000 };

static void add_work_table(struct lw_cluster *c, enum lw_work_kind kind, enum lw_dtype dtype,
                           enum lw_dtype from, const lw_ps *time, const char *source)
{
    static struct lw_work_table room[8];

    c->device.work = room;
    room[c->device.n_work++] =
        (struct lw_work_table){kind, dtype, from, 3, sizes, time, NULL, source};
}

/* An op that the cluster times. */
static struct lw_op timed(enum lw_op_kind kind, enum lw_dtype dtype)
{
    struct lw_op op = lw_builder_blank(kind, 0);

    op.dtype = dtype;
    op.work_ps = -1;
    op.name = "";
    return op;
}

static void expect(const struct lw_plan *p, const struct lw_cluster *c, const struct lw_op *op,
                   int64_t bytes, lw_ps time, const char *by, const char *source)
{
    struct lw_err err = {0};
    struct sim_work w;

    assert_ok(sim_work_of(p, c, 0, op, bytes, &w, &err), err);
    assert_int_equal(w.time, time);
    assert_string_equal(w.by, by);
    assert_string_equal(w.source, source);
}

TEST(copies_go_by_the_table_of_their_kind)
{
    const struct lw_plan none = {.name = "p"};
    struct lw_op in = timed(LW_OP_COPY_IN, LW_F32), half = timed(LW_OP_COPY_IN, LW_BF16),
                 out = timed(LW_OP_COPY_OUT, LW_F32), own = timed(LW_OP_COPY, LW_F32);
    struct lw_cluster c;

    make_cluster(&c, 2, 1e9, 0);
    c.device.copy_bytes_per_s = given(1e9);
    add_work_table(&c, LW_WORK_COPY_IN, LW_F32, LW_F32, times, "in");
    add_work_table(&c, LW_WORK_COPY_IN, LW_BF16, LW_BF16, fast, "in bf16");
    expect(&none, &c, &in, 0, 0, "its table", "in");
    expect(&none, &c, &in, 8, 10 * us, "its table", "in");
    expect(&none, &c, &in, 2000, 20 * us, "its table", "in");
    expect(&none, &c, &in, 16000, 80 * us, "its table", "in");
    expect(&none, &c, &in, 124000, 280 * us, "its table", "in");
    expect(&none, &c, &half, 4000, 4 * us, "its table", "in bf16");
    expect(&none, &c, &out, 2000, 2 * us, "copy_bytes_per_s", "test");
    own.work_ps = 7;
    expect(&none, &c, &own, 4000, 7, "the plan", "");
    lw_cluster_free(&c);
}

/* Out to the wire a cast's result tells the table, back home what the bucket holds. */
TEST(casts_go_by_what_they_read_and_make)
{
    struct lw_bucket bucket = {.dtype = LW_BF16};
    const struct lw_plan plan = {.name = "p", .buckets = &bucket};
    struct lw_op out = timed(LW_OP_CAST, LW_BF16), back = timed(LW_OP_CAST, LW_F32);
    struct lw_cluster c;

    out.bucket = back.bucket = 0;
    make_cluster(&c, 2, 1e9, 0);
    add_work_table(&c, LW_WORK_CAST, LW_F32, LW_F16, fast, "f16 to f32");
    add_work_table(&c, LW_WORK_CAST, LW_F32, LW_BF16, times, "bf16 to f32");
    add_work_table(&c, LW_WORK_CAST, LW_BF16, LW_F32, fast, "f32 to bf16");
    expect(&plan, &c, &out, 1000, 1 * us, "its table", "f32 to bf16");
    expect(&plan, &c, &back, 1000, 10 * us, "its table", "bf16 to f32");
    lw_cluster_free(&c);
}

/* 2000 FLOPs: 20 us by the table, 2 us at 1e9 flop/s; of bf16 there is no table. 32000 B of
 * traffic are a copy of 16000 B: 80 us. The longer of both counts. */
TEST(compute_goes_by_products_and_copies)
{
    struct lw_work work[] = {
        {.ps = -1, .flops = 2000, .bytes = -1},
        {.ps = -1, .flops = 2000, .bytes = 32000},
        {.ps = -1, .flops = 2000, .bytes = 2000},
    };
    const struct lw_plan plan = {.name = "p", .works = work, .n_works = 3};
    struct lw_op op = timed(LW_OP_KERNEL, LW_F32);
    struct lw_cluster c;

    make_cluster(&c, 2, 1e9, 0);
    c.device.peak_flops[LW_F32] = c.device.peak_flops[LW_BF16] = given(2e9);
    c.device.gemm_efficiency = given(0.5);
    c.device.memory_bytes_per_s = given(1e9);
    op.work = 0;
    expect(&plan, &c, &op, 0, 2 * us, "peak_flops", "test");
    op.work = 1;
    expect(&plan, &c, &op, 0, 32 * us, "memory_bytes_per_s", "test");
    add_work_table(&c, LW_WORK_GEMM, LW_F32, LW_F32, times, "gemm");
    add_work_table(&c, LW_WORK_COPY, LW_F32, LW_F32, times, "copy");
    expect(&plan, &c, &op, 0, 80 * us, "its table", "copy");
    op.work = 2;
    expect(&plan, &c, &op, 0, 20 * us, "its table", "gemm");
    op.work = 0;
    op.dtype = LW_BF16;
    expect(&plan, &c, &op, 0, 2 * us, "peak_flops", "test");
    lw_cluster_free(&c);
}

TEST(missing_figure_is_named)
{
    struct lw_work work = {.ps = -1, .flops = 2000, .bytes = -1};
    struct lw_plan plan = {.name = "p", .works = &work, .n_works = 1};
    struct lw_op op = timed(LW_OP_CAST, LW_F32), kernel = timed(LW_OP_KERNEL, LW_F32);
    struct lw_err err = {0};
    struct sim_work w = {.time = -5};
    struct lw_cluster c;

    plan.ops = &op;
    make_cluster(&c, 2, 1e9, 0);
    add_work_table(&c, LW_WORK_COPY_IN, LW_F32, LW_F32, times, "in");
    assert_int_equal(sim_work_of(&plan, &c, 0, &op, 8, &w, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "op 0 (cast)"));
    assert_non_null(strstr(err.msg, "copy bandwidth (copy_bytes_per_s)"));
    kernel.work = 0;
    plan.ops = &kernel;
    assert_int_equal(sim_work_of(&plan, &c, 0, &kernel, 8, &w, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "peak FLOP rate of its data type"));
    assert_int_equal(w.time, -5);
    lw_cluster_free(&c);
}

/* Two copies in of 10 and 20 us, one out of 2000 B at 1e9 B/s: 2 us; 32 us in a row. */
TEST(a_run_says_what_timed_its_ops)
{
    struct lw_builder *b = begin_plan("p", 1);
    static const int64_t bytes[] = {1000, 2000};
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_timeline t = {0};
    struct lw_sim_stats s;
    struct lw_err err = {0};
    struct lw_sim_options o = lw_sim_options_default();

    for (int i = 0; i < 2; i++) {
        struct lw_op op = timed(LW_OP_COPY_IN, LW_F32);
        op.bytes = bytes[i];
        lw_builder_op(b, &op, NULL, 0);
    }
    struct lw_op out = timed(LW_OP_COPY_OUT, LW_F32);
    out.bytes = 2000;
    lw_builder_op(b, &out, NULL, 0);
    add_work(b, LW_OP_KERNEL, 0, us, -1);
    finish_plan(b, &plan);
    make_cluster(&c, 1, 1e9, 0);
    c.device.copy_bytes_per_s = given(1e9);
    add_work_table(&c, LW_WORK_COPY_IN, LW_F32, LW_F32, times, "in");
    assert_ok(lw_sim_run(&plan, &c, &o, &t, &s, &err), err);
    assert_int_equal(s.end, 33 * us);
    assert_int_equal(s.n_timed, 2);
    assert_int_equal(s.timed[0].kind, LW_OP_COPY_IN);
    assert_int_equal(s.timed[0].n_ops, 2);
    assert_string_equal(s.timed[0].by, "its table");
    assert_string_equal(s.timed[0].source, "in");
    assert_int_equal(s.timed[1].kind, LW_OP_COPY_OUT);
    assert_string_equal(s.timed[1].by, "copy_bytes_per_s");
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
}
