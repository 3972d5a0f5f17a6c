/* What a step of a replay is, by hand. Times in us. */
#include "tests/lib/unit.h"

#include "tests/lib/traces/replay_help.h"
#include "traces/replay/recorded_timeline.h"

#define US LW_PS_PER_US

static const struct traces_replay_choice plain = {0};

/* The device lags by more than a step. An op launched before the recording runs in [0,20).
 *   step 1  [0,100)    a launch [10,15) of 150: device [20,170), after what ran before
 *   step 2  [100,200)  a launch [110,115) of 120: [170,290)
 *   step 3  [200,300)  a launch [210,215) of 90: [290,380)
 *   step 4  [300,310)  launches nothing: no step
 * Periods: 120 and 90; the first step ends on the device at 170. */
static void make_lagging(struct traces_source *s)
{
    static const int64_t length[] = {150, 120, 90}, start[] = {20, 170, 290};
    static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};

    replay_begin(s);
    replay_row(s, LW_ROW_KERNEL, "before", 0, 20, 7, 99);
    for (int k = 0; k < 3; k++) {
        replay_row(s, LW_ROW_USER, names[k], 100 * k, 100, 0, -1);
        replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 100 * k + 10, 5, 0, k + 1);
        replay_row(s, LW_ROW_KERNEL, "gemm", start[k], length[k], 7, k + 1);
    }
    replay_row(s, LW_ROW_USER, "ProfilerStep#4", 300, 10, 0, -1);
    replay_row(s, LW_ROW_HOST, "aten::zeros", 301, 1, 0, -1);
    replay_ready(s);
}

TEST(a_period_lasts_from_the_end_on_the_device_to_the_next)
{
    static const lw_ps want[] = {170 * US, 120 * US, 90 * US};
    struct traces_source s;
    struct replay_run x;
    struct lw_timeline recorded;
    lw_ps periods[3];

    make_lagging(&s);
    replay_run(&s, 1, &plain, &x);
    assert_int_equal(x.r.n_steps, 3);
    assert_int_equal(traces_replay_basis(&x.r), TRACES_DEVICE_PERIOD);
    assert_int_equal(traces_replay_first(&x.r), 1);
    assert_int_equal(traces_replay_periods(&x.r, &x.t, -1, periods, NULL), LW_OK);
    for (int k = 0; k < 3; k++)
        assert_int_equal(periods[k], want[k]);
    assert_int_equal(traces_recorded_rows(&x.r, &x.r.plan, &recorded, NULL), LW_OK);
    assert_int_equal(traces_replay_periods(&x.r, &recorded, 0, periods, NULL), LW_OK);
    for (int k = 0; k < 3; k++)
        assert_int_equal(periods[k], want[k]);
    for (int k = 0; k < 3; k++)
        assert_int_equal(traces_replay_host(&x.r, &x.t, k, -1), 100 * US);
    lw_timeline_free(&recorded);
    replay_run_free(&x);
    traces_source_free(&s);
}

/* The same steps as the summary of a timeline has them; busy never exceeds a period, and what was
 * launched before the recording is in no measured step. */
static void check_summary(struct lw_timeline *t, const struct traces_replay *r)
{
    struct lw_summary s;

    assert_int_equal(lw_timeline_summarize(t, &r->plan, 1 + traces_replay_first(r), &s, NULL),
                     LW_OK);
    assert_int_equal(s.n_steps, 2);
    assert_int_equal(s.steps[0], 120 * US);
    assert_int_equal(s.steps[1], 90 * US);
    assert_int_equal(s.ranks[0].end - s.ranks[0].start, 90 * US); /* the lower one of two */
    assert_int_equal(s.ranks[0].compute_busy, 90 * US);
    assert_int_equal(s.ranks[0].idle, 0);
    lw_summary_free(&s);
}

TEST(summaries_of_prediction_and_recording_hold_the_same_steps)
{
    struct traces_source s;
    struct replay_run x;
    struct lw_timeline recorded;
    struct lw_summary summary;

    make_lagging(&s);
    replay_run(&s, 1, &plain, &x);
    assert_int_equal(traces_replay_divide(&x.r, &x.t, NULL), LW_OK);
    check_summary(&x.t, &x.r);
    assert_int_equal(traces_recorded_timeline(&x.r, &x.r.plan, &recorded, &summary, NULL), LW_OK);
    check_summary(&recorded, &x.r);
    lw_summary_free(&summary);
    lw_timeline_free(&recorded);
    replay_run_free(&x);
    traces_source_free(&s);
}

/* One step: from its start on the host, 0, to the end on the device, 15 + 40. */
TEST(a_single_step_ends_with_its_last_device_op)
{
    struct traces_source s;
    struct replay_run x;
    lw_ps period;

    replay_begin(&s);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 30, 0, -1);
    replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 5, 0, 1);
    replay_row(&s, LW_ROW_KERNEL, "gemm", 15, 40, 7, 1);
    replay_ready(&s);
    replay_run(&s, 1, &plain, &x);
    assert_int_equal(traces_replay_basis(&x.r), TRACES_DEVICE_SPAN);
    assert_int_equal(traces_replay_periods(&x.r, &x.t, -1, &period, NULL), LW_OK);
    assert_int_equal(period, 55 * US);
    replay_run_free(&x);
    traces_source_free(&s);
}

/* No device: ops of the host compute, 20 + 30 of a step of 100; nested ones and ranges add nothing.
 */
TEST(ops_of_a_recording_without_device_compute)
{
    struct traces_source s;
    struct replay_run x;
    struct lw_summary sum;

    replay_begin(&s);
    replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(&s, LW_ROW_HOST, "Optimizer.step#SGD.step", 5, 90, 0, -1);
    replay_row(&s, LW_ROW_HOST, "aten::linear", 10, 20, 0, -1);
    replay_row(&s, LW_ROW_HOST, "aten::mm", 12, 10, 0, -1);
    replay_row(&s, LW_ROW_HOST, "aten::add_", 60, 30, 0, -1);
    replay_ready(&s);
    replay_run(&s, 1, &plain, &x);
    assert_int_equal(traces_replay_basis(&x.r), TRACES_HOST_PERIOD);
    assert_int_equal(traces_replay_divide(&x.r, &x.t, NULL), LW_OK);
    assert_int_equal(lw_timeline_summarize(&x.t, &x.r.plan, 1, &sum, NULL), LW_OK);
    assert_int_equal(sum.step, 100 * US);
    assert_int_equal(sum.ranks[0].compute_busy, 50 * US);
    assert_int_equal(sum.ranks[0].idle, 50 * US);
    lw_summary_free(&sum);
    replay_run_free(&x);
    traces_source_free(&s);
}
