/* What a step of a replay is, by hand. Times in us. */
#include "tests/lib/unit.h"

#include "tests/lib/traces/replay_help.h"
#include "traces/replay/recorded_timeline.h"

#define US LW_PS_PER_US

/* The device lags by more than a step. An op launched before the recording runs in [0,20).
 *   step 1  [0,100)    a launch [10,15) of 150: device [20,170), after what ran before
 *   step 2  [100,200)  a launch [110,115) of 120: [170,290)
 *   step 3  [200,300)  a launch [210,215) of 90: [290,380)
 *   step 4  [300,310)  launches nothing: no step
 * Periods: 120 and 90; the first step ends on the device at 170. */
static void run_lagging(void)
{
    static const int64_t length[] = {150, 120, 90}, start[] = {20, 170, 290};
    static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};

    replay_row(&hand, LW_ROW_KERNEL, "before", 0, 20, 7, 99);
    for (int k = 0; k < 3; k++) {
        replay_row(&hand, LW_ROW_USER, names[k], 100 * k, 100, 0, -1);
        replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 100 * k + 10, 5, 0, k + 1);
        replay_row(&hand, LW_ROW_KERNEL, "gemm", start[k], length[k], 7, k + 1);
    }
    replay_row(&hand, LW_ROW_USER, "ProfilerStep#4", 300, 10, 0, -1);
    replay_row(&hand, LW_ROW_HOST, "aten::zeros", 301, 1, 0, -1);
    hand_run();
}

TEST_WITH(a_period_lasts_from_the_end_on_the_device_to_the_next, hand_open, hand_close)
{
    static const lw_ps want[] = {170 * US, 120 * US, 90 * US};
    struct lw_timeline recorded;
    lw_ps periods[3];

    run_lagging();
    assert_int_equal(ran.r.n_steps, 3);
    assert_int_equal(traces_replay_basis(&ran.r), TRACES_DEVICE_PERIOD);
    assert_int_equal(traces_replay_first(&ran.r), 1);
    assert_int_equal(traces_replay_periods(&ran.r, &ran.t, -1, periods, NULL), LW_OK);
    for (int k = 0; k < 3; k++)
        assert_int_equal(periods[k], want[k]);
    assert_int_equal(traces_recorded_rows(&ran.r, &ran.r.plan, &recorded, NULL), LW_OK);
    assert_int_equal(traces_replay_periods(&ran.r, &recorded, 0, periods, NULL), LW_OK);
    for (int k = 0; k < 3; k++)
        assert_int_equal(periods[k], want[k]);
    for (int k = 0; k < 3; k++)
        assert_int_equal(traces_replay_host(&ran.r, &ran.t, k, -1), 100 * US);
    lw_timeline_free(&recorded);
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

TEST_WITH(summaries_of_prediction_and_recording_hold_the_same_steps, hand_open, hand_close)
{
    struct lw_timeline recorded;
    struct lw_summary summary;

    run_lagging();
    assert_int_equal(traces_replay_divide(&ran.r, &ran.t, NULL), LW_OK);
    check_summary(&ran.t, &ran.r);
    assert_int_equal(traces_recorded_timeline(&ran.r, &ran.r.plan, &recorded, &summary, NULL),
                     LW_OK);
    check_summary(&recorded, &ran.r);
    lw_summary_free(&summary);
    lw_timeline_free(&recorded);
}

/* One step: from its start on the host, 0, to the end on the device, 15 + 40. */
TEST_WITH(a_single_step_ends_with_its_last_device_op, hand_open, hand_close)
{
    lw_ps period;

    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 0, 30, 0, -1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 5, 0, 1);
    replay_row(&hand, LW_ROW_KERNEL, "gemm", 15, 40, 7, 1);
    hand_run();
    assert_int_equal(traces_replay_basis(&ran.r), TRACES_DEVICE_SPAN);
    assert_int_equal(traces_replay_periods(&ran.r, &ran.t, -1, &period, NULL), LW_OK);
    assert_int_equal(period, 55 * US);
}

/* No device: ops of the host compute, 20 + 30 of a step of 100; nested ones and ranges add nothing.
 */
TEST_WITH(ops_of_a_recording_without_device_compute, hand_open, hand_close)
{
    struct lw_summary sum;

    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(&hand, LW_ROW_HOST, "Optimizer.step#SGD.step", 5, 90, 0, -1);
    replay_row(&hand, LW_ROW_HOST, "aten::linear", 10, 20, 0, -1);
    replay_row(&hand, LW_ROW_HOST, "aten::mm", 12, 10, 0, -1);
    replay_row(&hand, LW_ROW_HOST, "aten::add_", 60, 30, 0, -1);
    hand_run();
    assert_int_equal(traces_replay_basis(&ran.r), TRACES_HOST_PERIOD);
    assert_int_equal(traces_replay_divide(&ran.r, &ran.t, NULL), LW_OK);
    assert_int_equal(lw_timeline_summarize(&ran.t, &ran.r.plan, 1, &sum, NULL), LW_OK);
    assert_int_equal(sum.step, 100 * US);
    assert_int_equal(sum.ranks[0].compute_busy, 50 * US);
    assert_int_equal(sum.ranks[0].idle, 50 * US);
    lw_summary_free(&sum);
}
