/* What the executor costs, as `lapwing bench dispatch`, `lapwing bench by-hand` and every run
 * print it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/calibrate/calibrate_plan.h"
#include "exec/run/run.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

TEST(dispatch_of_an_empty_op_is_told)
{
    const char *out = lapwing("bench dispatch --format json", NULL);
    double median = number_after(out, "\"median_ns\": "), p90 = number_after(out, "\"p90_ns\": ");

    assert_true(median > 0 && median <= p90);
    assert_true(number_after(out, "\"whole_ns\": ") > median); /* giving comes on top */
}

TEST(the_ratio_to_calls_by_hand_has_an_interval)
{
    if (unit_cases(1, 0)) {
        printf("SKIP the_ratio_to_calls_by_hand_has_an_interval: it computes for seconds; "
               "LAPWING_MANY runs it\n");
        skip();
    }
    const char *out = lapwing("bench by-hand --format json", NULL);
    double ratio = number_after(out, "\"ratio\": ");
    /* 8 kernels of 600 us follow each other on either side: no step is shorter */
    assert_true(number_after(out, "\"executor_ns\": ") >= 8 * 600e3);
    assert_true(number_after(out, "\"hand_ns\": ") >= 8 * 600e3);
    assert_true(number_after(out, "\"ratio_low\": ") <= ratio);
    assert_true(number_after(out, "\"ratio_high\": ") >= ratio);
    assert_int_equal((int)number_after(out, "\"n_pairs\": "), 30);
}

TEST(an_all_reduce_beside_a_longer_kernel_is_hidden)
{
    const char *out = lapwing("bench overlap --format json", NULL);
    double alone = number_after(out, "\"alone_ns\": "), work = number_after(out, "\"work_ns\": ");
    double hidden = number_after(out, "\"hidden\": ");

    assert_true(fabs(work - alone * 1.5) <= 2); /* each is cut to whole ns */
    assert_int_equal((int)number_after(out, "\"n\": "), 80); /* 4 of 5 in 10 steps on 2 ranks */
    assert_true(hidden > 0 && hidden <= 1); /* run one after the other, none would be */
}

/* Kernels of 1 ms beside all-reduces: a step of 4 is 4 ms and a little, not 4 ms and 4
 * all-reduces. */
TEST(all_reduces_run_beside_the_next_kernel)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct lw_plan plan;
    int64_t beside = 0;

    o.compute = EXEC_COMPUTE_SLEEP;
    o.n_steps = 2;
    o.n_warmup = 0;
    assert_int_equal(exec_plan_overlap(2, 65536, 4, LW_PS_PER_MS, &plan, &err), LW_OK);
    assert_ok(lw_exec_run(&plan, &o, &r, &err), err);
    assert_true(r.stamp_ns > 0);
    /* sorted by op: kernel k, its all-reduce, kernel k + 1 */
    for (int64_t i = 0; i + 1 < r.timeline.n; i++)
        beside += plan.ops[r.timeline.op[i]].kind == LW_OP_ALL_REDUCE &&
                  plan.ops[r.timeline.op[i + 1]].work_ps != 0 &&
                  r.timeline.start[i + 1] <= r.timeline.start[i];
    assert_true(beside >= 4); /* of 3 a step and rank, 12; one after the other, none would be */
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
}
