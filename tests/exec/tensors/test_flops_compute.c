/* Compute of known FLOPs and unknown time: exec/tensors/flops_compute.h. */
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/tensors/flops_compute.h"
#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "shared/plan/plan_builder.h"
#include "tests/lib/exec/exec_ops.h"
#include "tests/lib/exec/flops_plan.h"

/* 2 n^3: 2, 16, 54, 128. Halfway between 16 and 54 is 35. */
TEST(the_nearest_side_is_taken)
{
    static const struct {
        int64_t flops;
        int32_t side;
    } cases[] = {
        {1, 1},
        {2, 1},
        {15, 2},
        {16, 2},
        {35, 2},
        {36, 3},
        {54, 3},
        {2 * INT64_C(1000000000), 1000},
        {INT64_C(8796093022208), 16384},
        {INT64_C(9000000000000), EXEC_MAX_SIDE + 1},
        {INT64_MAX, EXEC_MAX_SIDE + 1},
        {0, 0},
        {-1, 0},
    };
    struct lw_work work = {.ps = -1};
    struct lw_plan plan = {.works = &work, .n_works = 1};
    struct lw_op op = {.kind = LW_OP_KERNEL, .work = 0, .work_ps = -1};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        work.flops = cases[i].flops;
        assert_int_equal(exec_product_side(&plan, &op), cases[i].side);
    }
    work.flops = 16;
    op.kind = LW_OP_COPY;
    assert_int_equal(exec_product_side(&plan, &op), 0);
    op.kind = LW_OP_KERNEL;
    work.ps = 5;
    assert_int_equal(exec_product_side(&plan, &op), 0);
}

TEST(a_part_multiplies_row_after_row)
{
    struct lw_err err = {0};

    assert_ok(exec_ops_product(&exec_backend_threads, &err), err);
}

static enum lw_status run(int64_t flops, enum exec_compute compute, int64_t *n_rows,
                          struct lw_err *err)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r = {0};
    struct lw_plan plan;

    flops_plan(flops, -1, &plan);
    o.compute = compute;
    o.n_steps = 2;
    o.n_warmup = 0;
    enum lw_status s = lw_exec_run(&plan, &o, &r, err);
    *n_rows = r.timeline.n;
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

TEST(an_op_of_flops_alone_runs_as_one_product)
{
    struct lw_err err = {0};
    int64_t n_rows = 0;

    assert_ok(run(2 * 32 * 32 * 32, EXEC_COMPUTE_GEMM, &n_rows, &err), err);
    assert_int_equal(n_rows, 2 * 2); /* ranks, steps */
}

TEST(op_without_a_product_is_refused)
{
    struct lw_err err = {0};
    int64_t n_rows;

    assert_int_equal(run(16, EXEC_COMPUTE_SPIN, &n_rows, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg,
                           "op 0 (kernel) has no time of its own: its FLOPs are computed with "
                           "--compute gemm alone"));
    assert_int_equal(run(-1, EXEC_COMPUTE_GEMM, &n_rows, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "no time of its own, nor FLOPs"));
    assert_int_equal(run(INT64_C(9000000000000), EXEC_COMPUTE_GEMM, &n_rows, &err), LW_ENOTSUP);
    assert_non_null(
        strstr(err.msg, "its 9000000000000 FLOPs are more than one product of 16384 rows"));
}

TEST(failing_allocations_leave_nothing)
{
    struct lw_plan plan;
    struct lw_exec_options o = lw_exec_options_default();
    enum lw_status s;
    int64_t n = 0;

    flops_plan(16, -1, &plan);
    o.n_steps = 1;
    o.n_warmup = 0;
    int64_t live = lw_alloc_live();
    do {
        struct lw_exec_result r = {0};
        struct lw_err err = {0};
        lw_alloc_fail_at(++n);
        s = lw_exec_run(&plan, &o, &r, &err);
        lw_alloc_fail_at(0);
        lw_exec_result_free(&r);
        assert_int_equal(lw_alloc_live(), live);
    } while (s != LW_OK && n < 1000);
    assert_int_equal(s, LW_OK);
    assert_true(n > 20);
    lw_plan_free(&plan);
}
