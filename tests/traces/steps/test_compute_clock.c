/* Lengths on the compute clock of a device, by hand; times in us. */
#include "tests/lib/unit.h"

#include "tests/lib/prng.h"
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

enum { N_OPS = 30 };

static bool launched_in(const struct traces_ops *o, int64_t i, const struct lw_step *s)
{
    for (int64_t g = 0; g < s->n_gradients; g++)
        if (o->launch_ns[i] >= s->gradients[g].node_start_ns &&
            o->launch_ns[i] < s->gradients[g].node_end_ns)
            return true;
    return false;
}

/* By definition, op by op. */
static void equals_definition(const struct traces_axis *a, const struct lw_step *s, int64_t ns)
{
    const struct traces_ops *o = a->ops;
    int64_t start = INT64_MAX, end = INT64_MIN;

    for (int64_t i = o->n - 1; i >= 0; i--)
        if (o->launch_ns[i] >= ns && !launched_in(o, i, s))
            start = a->t->start_ns[o->row[i]];
    for (int64_t i = 0; i < o->n; i++) {
        int64_t e = lw_trace_end_ns(a->t, o->row[i]);
        if (o->launch_ns[i] < ns && !launched_in(o, i, s) && e > end)
            end = e;
    }
    assert_int_equal(traces_axis_start(a, ns), start);
    assert_int_equal(traces_axis_end(a, ns), end);
}

static void random_trace(struct traces_source *s, struct prng *r)
{
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 1000, 0, -1);
    for (int i = 0; i < N_OPS; i++) {
        int64_t launch = 10 * i + 1;
        replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", launch, 5, 0, i + 1);
        replay_row(s, LW_ROW_KERNEL, "k", launch + prng_below(r, 20),
                   1 + prng_below(r, i % 7 == 3 ? 300 : 40), 7, i + 1);
    }
    replay_ready(s);
}

TEST(moments_around_left_out_ops_are_those_of_the_definition)
{
    struct prng r = prng_start("left-out ops");

    for (int k = 0; k < 200; k++) {
        struct traces_source s;
        struct lw_arena arena = {0};
        struct traces_ops ops;
        struct traces_axis a;
        struct lw_gradient gradients[3] = {{0}};

        random_trace(&s, &r);
        struct lw_step step = s.steps.steps[0];
        step.gradients = gradients;
        step.n_gradients = prng_below(&r, 4);
        for (int64_t g = 0; g < step.n_gradients; g++) {
            gradients[g].node_start_ns = prng_below(&r, 320000);
            gradients[g].node_end_ns =
                gradients[g].node_start_ns + prng_below(&r, 60000);
        }
        assert_int_equal(traces_ops_build(&s.trace, &arena, &ops, NULL), LW_OK);
        assert_int_equal(ops.n, N_OPS);
        assert_int_equal(traces_axis_build(&s.trace, &ops, &step, true, &arena, &a, NULL), LW_OK);
        for (int64_t ns = 0; ns < 340000; ns += 2500)
            equals_definition(&a, &step, ns);
        lw_arena_free(&arena);
        traces_source_free(&s);
    }
}
