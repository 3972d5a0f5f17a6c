/* Kernels by class, the host's calls, and host-bound stretches, by hand. Times in us. */
#include "tests/lib/unit.h"

#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/replay_help.h"
#include "traces/steps/host_bound.h"

/* The example of docs/design/inspect.md. */
static void make(struct traces_source *s)
{
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 1000, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 100, 10, 0, 1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 120, 10, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 400, 10, 0, 3);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 430, 10, 0, 4);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 450, 300, 0, 5);
    replay_row(s, LW_ROW_KERNEL, "sgemm", 115, 50, 7, 1);
    replay_row(s, LW_ROW_KERNEL, "elementwise", 165, 20, 7, 2);
    replay_row(s, LW_ROW_KERNEL, "mine", 420, 80, 7, 3);
    replay_row(s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce", 700, 40, 20, 4);
    replay_ready(s);
}

TEST(idle_time_before_a_late_launch_is_host_bound)
{
    struct traces_source s;
    struct lw_inspection in;
    struct traces_host_bound m;

    make(&s);
    assert_int_equal(lw_inspect(&s.trace, NULL, &in, NULL), LW_OK);
    assert_int_equal(traces_host_bound_find(&s.trace, &in, NULL, &m, NULL), LW_OK);
    assert_int_equal(in.n_iterations, 1);
    const struct traces_host_use *u = &m.host[0];
    assert_int_equal(u->n_launches, 4);
    assert_int_equal(u->launch_ns, 40000);
    assert_int_equal(u->n_blocking, 1);
    assert_int_equal(u->blocking_ns, 300000);
    /* [0,115) before the first, [185,420); not [500,700): nccl was launched at 430 */
    assert_int_equal(u->host_bound_ns, (115 + 235) * 1000);
    assert_int_equal(u->n_stretches, 2);
    assert_int_equal(u->stretches[1].start_ns, 185000);
    assert_int_equal(u->stretches[1].end_ns, 420000);
    assert_int_equal(u->stretches[1].launch_ns, 400000);
    assert_string_equal(lw_trace_name(&s.trace, u->stretches[1].row), "mine");
    static const int64_t n[LW_N_KERNEL_CLASSES] = {1, 1, 1, 1}, us[] = {80, 40, 50, 20};
    for (int c = 0; c < LW_N_KERNEL_CLASSES; c++) {
        assert_int_equal(m.classes[c].n, n[c]);
        assert_int_equal(m.classes[c].total_ns, us[c] * 1000);
    }
    assert_int_equal(m.n_waits[TRACES_WAIT_RECORDED], 1);
    traces_host_bound_free(&m);
    lw_inspection_free(&in);
    traces_source_free(&s);
}

TEST(failing_allocations_leak_nothing)
{
    struct traces_source s;
    struct lw_inspection in;
    struct traces_host_bound m = {0};

    make(&s);
    assert_int_equal(lw_inspect(&s.trace, NULL, &in, NULL), LW_OK);
    EACH_ALLOCATION_FAILS(2, traces_host_bound_find(&s.trace, &in, NULL, &m, NULL), m,
                          traces_host_bound_free(&m));
    lw_inspection_free(&in);
    traces_source_free(&s);
}
