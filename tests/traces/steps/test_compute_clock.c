/* Lengths on the compute clock of a device, by hand; times in us. */
#include "tests/lib/unit.h"

#include "tests/lib/traces/replay_help.h"
#include "traces/steps/compute_clock.h"

/* Kernels in [10,30), [50,60) and, on another stream, [55,80): the device idles in [30,50). */
static void make(struct traces_source *s)
{
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 0, 5, 0, 1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 40, 5, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 46, 5, 0, 3);
    replay_row(s, LW_ROW_KERNEL, "first", 10, 20, 7, 1);
    replay_row(s, LW_ROW_KERNEL, "second", 50, 10, 7, 2);
    replay_row(s, LW_ROW_KERNEL, "beside", 55, 25, 9, 3);
    replay_ready(s);
}

TEST(only_the_time_in_which_no_op_of_the_device_runs_is_scaled)
{
    struct traces_source s;
    struct lw_arena arena = {0};
    struct traces_ops ops;
    struct traces_axis a;

    make(&s);
    assert_int_equal(traces_ops_build(&s.trace, &arena, &ops, NULL), LW_OK);
    assert_int_equal(ops.n_idle, 1);
    assert_int_equal(traces_ops_idle(&ops, 10000, 80000), 20000);
    assert_int_equal(traces_ops_idle(&ops, 35000, 40000), 5000);
    assert_int_equal(traces_ops_idle(&ops, 60000, 80000), 0); /* another stream runs */
    assert_int_equal(
        traces_axis_build(&s.trace, &ops, &s.steps.steps[0], false, &arena, &a, NULL), LW_OK);
    assert_int_equal(traces_axis_length(&a, 10000, 80000), 70000);
    a.host_scale = TRACES_HOST_UNIT / 4;
    assert_int_equal(traces_axis_length(&a, 10000, 80000), 55000); /* 70 - 3/4 of 20 */
    assert_int_equal(traces_axis_length(&a, 40000, 60000), 12500); /* 10 idle: 2.5 */
    assert_int_equal(traces_axis_length(&a, 60000, 10000), 0);
    lw_arena_free(&arena);
    traces_source_free(&s);
}
