/* Replays of hand-made traces: every start by hand. Times in us. */
#include "tests/lib/unit.h"
#include <string.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/traces/replay_help.h"

#define US LW_PS_PER_US

static const struct traces_replay_choice plain = {0};

/* The worked example of docs/design/replay.md: step [0,200). gemm (40) launched at 10, relu (30)
 * at 20, a synchronisation from 30 to 100, last (20) launched at 110, a synchronisation of 2 at
 * 180. */
static void make_example(struct traces_source *s, int64_t gemm, int64_t last)
{
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 200, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 5, 0, 1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 20, 5, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaStreamSynchronize", 30, 70, 0, 3);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 110, 5, 0, 4);
    replay_row(s, LW_ROW_LAUNCH, "cudaStreamSynchronize", 180, 2, 0, 5);
    replay_row(s, LW_ROW_KERNEL, "gemm", 16, gemm, 7, 1);
    replay_row(s, LW_ROW_KERNEL, "relu", 60, 30, 7, 2);
    replay_row(s, LW_ROW_KERNEL, "last", 118, last, 7, 4);
    replay_ready(s);
}

static lw_ps example_step(int64_t gemm, int64_t last)
{
    struct traces_source s;
    struct replay_run x;

    make_example(&s, gemm, last);
    replay_run(&s, 1, &plain, &x);
    lw_ps step = replay_step(&x, 0);
    replay_run_free(&x);
    traces_source_free(&s);
    return step;
}

TEST_WITH(every_start_is_computed_from_durations_and_the_hosts_own_time, hand_open, hand_close)
{
    static const struct {
        const char *name;
        int32_t skip;
        lw_ps start, end;
    } want[] = {
        {"cudaLaunchKernel", 0, 10, 15}, {"gemm", 0, 15, 55}, {"cudaLaunchKernel", 1, 20, 25},
        {"relu", 0, 55, 85},             /* after gemm */
        {"cudaStreamSynchronize", 0, 30, 32}, /* of the call itself: the shortest of its name */
        {"cudaStreamSynchronize", 1, 85, 85}, /* then until relu ends, not until 100 */
        {"cudaLaunchKernel", 2, 95, 100}, /* 10 after the call returned, as recorded */
        {"last", 0, 100, 120},
        {"ProfilerStep#1 ends", 0, 185, 185},
    };

    make_example(&hand, 40, 20);
    replay_run(&hand, 1, &plain, &ran);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(hand_start(want[i].name, want[i].skip), want[i].start * US);
        assert_int_equal(hand_end(want[i].name, want[i].skip), want[i].end * US);
    }
    assert_int_equal(replay_step(&ran, 0), 185 * US);
    assert_int_equal(ran.r.steps[0].host, 200 * US);
    assert_string_equal(ran.r.steps[0].name, "ProfilerStep#1");
}

/* The example with a host of twice the speed; kernels as they are. */
TEST_WITH(the_hosts_own_time_is_scaled_and_the_devices_is_not, hand_open, hand_close)
{
    static const struct traces_replay_choice half = {.host_scale = 0.5};

    make_example(&hand, 40, 20);
    replay_run(&hand, 1, &half, &ran);
    assert_int_equal(hand_start("gemm", 0), 75 * US / 10);   /* a gap of 10 and a call of 5 */
    assert_int_equal(hand_start("relu", 0), 475 * US / 10);  /* after gemm */
    assert_int_equal(hand_start("last", 0), 850 * US / 10);  /* 77.5 + (10 + 5) / 2 */
    assert_int_equal(replay_step(&ran, 0), 1275 * US / 10);  /* 85 + (65 + 2 + 18) / 2 */
}

TEST(a_critical_kernel_moves_the_step_and_another_does_not)
{
    assert_int_equal(example_step(80, 20), 225 * US); /* +40 */
    assert_int_equal(example_step(40, 10), 185 * US);
    assert_int_equal(example_step(40, 40), 185 * US); /* done at 140, waited for at 165 */
}

/* compute (50) on 7; event; 20 waits; nccl (100) on 20; 7 waits for it; after (10) on 7. Calls
 * of 1. */
static void make_streams(struct traces_source *s, bool recorded)
{
    struct lw_row_detail to20 = replay_no_detail(), to7 = replay_no_detail();

    to20.wait_stream = 7, to20.wait_record = 2;
    to7.wait_stream = 20, to7.wait_record = 5;
    replay_begin(s);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 400, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 0, 1, 0, 1);
    replay_row(s, LW_ROW_HOST, "c10d::allreduce_", 2, 20, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaEventRecord", 3, 1, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 5, 1, 0, 3);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 7, 1, 0, 4);
    replay_row(s, LW_ROW_LAUNCH, "cudaEventRecord", 9, 1, 0, 5);
    replay_row(s, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 30, 1, 0, 6);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 32, 1, 0, 7);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 40, 130, 0, 8);
    replay_row(s, LW_ROW_KERNEL, "compute", 2, 50, 7, 1);
    replay_row(s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 52, 100, 20, 4);
    replay_row(s, LW_ROW_KERNEL, "after", 152, 10, 7, 7);
    if (recorded) {
        replay_row_with(s, LW_ROW_SYNC, "Stream Wait Event", 5, 1, 20, 3, &to20);
        replay_row_with(s, LW_ROW_SYNC, "Stream Wait Event", 30, 1, 7, 6, &to7);
    }
    replay_ready(s);
}

TEST(streams_wait_for_each_other_as_recorded_or_as_order_tells)
{
    for (int recorded = 0; recorded < 2; recorded++) {
        struct traces_source s;
        struct replay_run x;
        make_streams(&s, recorded);
        replay_run(&s, 1, &plain, &x);
        int32_t nccl = replay_op(&x, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0);
        int32_t after = replay_op(&x, "after", 0);
        assert_int_equal(x.r.plan.ops[nccl].kind, LW_OP_ALL_REDUCE);
        assert_int_equal(x.t.start[nccl], 51 * US); /* launched at 8, compute ends at 1 + 50 */
        assert_int_equal(x.t.start[after], 151 * US);
        int n_records = 0, n_waits = 0;
        for (int32_t i = 0; i < x.r.plan.n_ops; i++) {
            n_records += x.r.plan.ops[i].kind == LW_OP_EVENT_RECORD;
            n_waits += x.r.plan.ops[i].kind == LW_OP_EVENT_WAIT;
        }
        assert_int_equal(n_waits, 2);
        /* the recorder knows which events they are */
        assert_int_equal(n_records, recorded ? 2 : 0);
        replay_run_free(&x);
        traces_source_free(&s);
    }
}

/* Main thread (0) is silent from 20 to 500 while thread 1 launches at 100 and 300 (until 310). */
TEST_WITH(a_thread_that_was_silent_waits_for_the_other_one, hand_open, hand_close)
{
    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 0, 600, 0, -1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 10, 0, 1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaMemcpyAsync", 200, 60, 1, 2);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 300, 10, 1, 3);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 500, 10, 0, 4);
    replay_row(&hand, LW_ROW_KERNEL, "k1", 20, 5, 7, 1);
    replay_row(&hand, LW_ROW_MEM, "Memcpy DtoH (Device -> Pageable)", 210, 50, 7, 2);
    replay_row(&hand, LW_ROW_KERNEL, "k3", 310, 5, 7, 3);
    replay_row(&hand, LW_ROW_KERNEL, "k4", 510, 5, 7, 4);
    for (int64_t i = 0; i < hand.trace.n; i++) /* the copy takes 100 more than recorded */
        if (hand.trace.class[i] == LW_ROW_MEM)
            hand.trace.dur_ns[i] = 150000;
    hand_run();
    /* Thread 1 begins 180 after thread 0's call ended at 20: at 200. Its copy call takes nothing
     * of its own (60 - 150 < 0), the copy ends at 350, 90 later than recorded: so does all that
     * follows, also on thread 0, which goes on 190 after thread 1's last call: 310 + 90 + 190 =
     * 590. */
    assert_int_equal(hand_start("cudaMemcpyAsync", 0), 200 * US);
    assert_int_equal(hand_end("Memcpy DtoH (Device -> Pageable)", 0), 350 * US);
    assert_int_equal(hand_start("cudaLaunchKernel", 1), 390 * US);
    assert_int_equal(hand_start("cudaLaunchKernel", 2), 590 * US);
    assert_int_equal(replay_step(&ran, 0), 690 * US);
}

/* The same all-reduce of 20 on two ranks; rank 1 launches it 300 later, so rank 0's kernel took
 * 320. */
static void make_rank(struct traces_source *s, int32_t rank, int64_t launch, int64_t dur)
{
    replay_begin(s);
    s->trace.rank = rank;
    s->trace.world_size = 2;
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 1000, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", launch, 10, 0, 1);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", launch + 10, dur + 2, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 900, 2, 0, 3);
    replay_row(s, LW_ROW_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", launch + 10, dur, 20,
               1);
    replay_ready(s);
}

TEST(with_all_ranks_waiting_is_simulated)
{
    struct traces_source s[2];
    struct replay_run x;
    const char *name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

    make_rank(&s[0], 0, 100, 320);
    make_rank(&s[1], 1, 400, 20);
    replay_run(s, 2, &plain, &x);
    int32_t a = replay_op(&x, name, 0), b = replay_op(&x, name, 1);
    assert_int_equal(x.t.start[a], 110 * US);
    assert_int_equal(x.t.start[b], 410 * US);
    assert_int_equal(x.t.all_in[a], 410 * US);
    assert_int_equal(x.t.end[a], 430 * US);
    assert_int_equal(x.t.end[b], 430 * US);
    replay_run_free(&x);
    for (int k = 0; k < 2; k++)
        traces_source_free(&s[k]);
    make_rank(&s[0], 0, 100, 220);
    make_rank(&s[1], 1, 300, 20); /* 100 earlier: rank 0 waits 100 less */
    replay_run(s, 2, &plain, &x);
    assert_int_equal(x.t.end[replay_op(&x, name, 0)], 330 * US);
    replay_run_free(&x);
    replay_run(s, 1, &plain, &x); /* one rank alone keeps its waiting */
    assert_int_equal(x.t.end[replay_op(&x, name, 0)], 330 * US);
    replay_run_free(&x);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

TEST_WITH(ops_launched_before_the_recording_run_first_in_their_order, hand_open, hand_close)
{
    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 0, 100, 0, -1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 5, 0, 1);
    replay_row(&hand, LW_ROW_KERNEL, "early a", 1, 20, 7, 98);
    replay_row(&hand, LW_ROW_KERNEL, "early b", 30, 20, 7, 99);
    replay_row(&hand, LW_ROW_KERNEL, "mine", 60, 5, 7, 1);
    hand_run();
    assert_int_equal(hand_start("early b", 0), 20 * US);
    assert_int_equal(hand_start("mine", 0), 40 * US);
}

/* The device runs `early` from 20 on, for 50; the host's first call is at 50, in a step that begins
 * there, and launches `mine` (20), which follows at 70 as recorded: 20 after the call. */
TEST_WITH(the_device_runs_before_the_hosts_first_call, hand_open, hand_close)
{
    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 50, 50, 0, -1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 50, 5, 0, 1);
    replay_row(&hand, LW_ROW_KERNEL, "early", 20, 50, 7, 98);
    replay_row(&hand, LW_ROW_KERNEL, "mine", 70, 20, 7, 1);
    hand_run();
    assert_int_equal(hand_start("early", 0), 0);
    assert_int_equal(hand_start("mine", 0), 50 * US);
    assert_int_equal(ran.t.start[ran.r.steps[0].first[0]], 30 * US);
    lw_ps period;
    assert_int_equal(traces_replay_periods(&ran.r, &ran.t, -1, &period, NULL), LW_OK);
    assert_int_equal(period, 40 * US); /* from 50 to 90 */
}

/* The communication stream (20) runs an op of before the recording, and is made to wait for `work`,
 * which ends at 15 + 50: that wait is after the early op, in the stream's order. */
TEST_WITH(work_launched_before_the_recording_precedes_its_waits, hand_open, hand_close)
{
    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 0, 200, 0, -1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 5, 0, 1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaStreamWaitEvent", 20, 2, 0, 2);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaLaunchKernel", 25, 5, 0, 3);
    replay_row(&hand, LW_ROW_KERNEL, "work", 16, 50, 7, 1);
    replay_row(&hand, LW_ROW_KERNEL, "early", 1, 30, 20, 99);
    replay_row(&hand, LW_ROW_KERNEL, "ncclKernel_AllReduce_RING_LL_Sum_float", 70, 10, 20, 3);
    hand_run();
    assert_int_equal(hand_start("early", 0), 0);
    assert_int_equal(hand_start("ncclKernel_AllReduce_RING_LL_Sum_float", 0), 65 * US);
}

/* A copy from pageable memory (30) moves while its call (100) stages it: done when the call is. */
TEST_WITH(a_staged_copy_moves_beside_its_call, hand_open, hand_close)
{
    replay_row(&hand, LW_ROW_USER, "ProfilerStep#1", 0, 200, 0, -1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaMemcpyAsync", 10, 100, 0, 1);
    replay_row(&hand, LW_ROW_LAUNCH, "cudaStreamSynchronize", 110, 0, 0, 2);
    replay_row(&hand, LW_ROW_MEM, "Memcpy HtoD (Pageable -> Device)", 80, 30, 7, 1);
    hand_run();
    assert_int_equal(hand_start("Memcpy HtoD (Pageable -> Device)", 0), 80 * US);
    assert_int_equal(replay_step(&ran, 0), 200 * US);
}

/* A synchronisation of 500, its work of 20 done at 35: the rest belongs to no work, and is kept
 * after it. With work of 200 (more than a quarter) it is explained, and simulated. */
TEST(a_wait_that_its_work_does_not_explain_is_kept_and_said)
{
    static const struct {
        int64_t work;
        lw_ps step;
        bool said;
    } cases[] = {
        {20, 35 + 498 + 80, true}, /* 598 - 500 - 18 = 80 of the host after it */
        {200, 215 + 80, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_source s;
        struct replay_run x;
        replay_begin(&s);
        replay_row(&s, LW_ROW_USER, "ProfilerStep#1", 0, 598, 0, -1);
        replay_row(&s, LW_ROW_LAUNCH, "cudaLaunchKernel", 10, 5, 0, 1);
        replay_row(&s, LW_ROW_LAUNCH, "cudaStreamSynchronize", 18, 500, 0, 2);
        replay_row(&s, LW_ROW_LAUNCH, "cudaStreamSynchronize", 590, 2, 0, 3);
        replay_row(&s, LW_ROW_KERNEL, "k", 515 - cases[i].work, cases[i].work, 7, 1);
        replay_ready(&s);
        replay_run(&s, 1, &plain, &x);
        assert_int_equal(replay_step(&x, 0), cases[i].step * US);
        bool said = false;
        for (int32_t k = 0; k < x.r.plan.n_notes; k++)
            said |= strstr(x.r.plan.notes[k], "1 calls waited for something that is not in the "
                                              "trace: their 0.498 ms") != NULL;
        assert_int_equal(said, cases[i].said);
        replay_run_free(&x);
        traces_source_free(&s);
    }
}

static void refuses(struct traces_source *s, int n, const char *word)
{
    struct traces_replay r;
    struct lw_err err = {0};

    assert_int_equal(traces_replay_build(s, n, &plain, &r, &err), LW_EFORMAT);
    if (!strstr(err.msg, word))
        fail_msg("'%s' does not say '%s'", err.msg, word);
}

TEST(incomplete_trace_is_refused_with_a_reason)
{
    struct traces_source s[2];

    replay_begin(&s[0]);
    replay_row(&s[0], LW_ROW_KERNEL, "alone", 1, 20, 7, 98);
    replay_ready(&s[0]);
    refuses(s, 1, "no event of the host");
    replay_row(&s[0], LW_ROW_HOST, "aten::mm", 0, 5, 0, -1);
    lw_steps_free(&s[0].steps);
    replay_ready(&s[0]);
    refuses(s, 1, "not one call that launched them");
    traces_source_free(&s[0]);
    replay_begin(&s[0]); /* 50 kernels of 23 days each on one stream */
    replay_row(&s[0], LW_ROW_LAUNCH, "cudaGraphLaunch", 0, 5, 0, 1);
    for (int i = 0; i < 50; i++)
        replay_row(&s[0], LW_ROW_KERNEL, "k", 1, INT64_C(2000000000000), 7, 1);
    replay_ready(&s[0]);
    refuses(s, 1, "add up to more than 26 days");
    traces_source_free(&s[0]);
    replay_begin(&s[0]); /* a kernel 17 days after its launch */
    replay_row(&s[0], LW_ROW_LAUNCH, "cudaLaunchKernel", 0, 5, 0, 1);
    replay_row(&s[0], LW_ROW_KERNEL, "far", INT64_C(1500000000000), 5, 7, 1);
    replay_ready(&s[0]);
    refuses(s, 1, "'far' begins more than 13 days before or after");
    traces_source_free(&s[0]);
    make_rank(&s[0], 1, 100, 20);
    make_rank(&s[1], 1, 100, 20);
    refuses(s, 2, "both say they are rank 1");
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

TEST(traces_of_different_runs_are_refused_with_what_differs)
{
    struct traces_source s[2];

    make_rank(&s[0], 0, 100, 20);
    make_rank(&s[1], 1, 100, 20);
    s[0].trace.world_size = 2;
    s[1].trace.world_size = 4;
    refuses(s, 2, "not of one run: one is of a run of 2 ranks, the other of 4");
    s[1].trace.world_size = 2;
    s[1].trace.base_ns += INT64_C(61000000000);
    refuses(s, 2, "not of one run: they were recorded 6");
    s[1].trace.base_ns -= INT64_C(61000000000);
    s[0].has_sidecar = s[1].has_sidecar = true;
    s[0].sidecar.model = "gpt6";
    s[1].sidecar.model = "resnet18";
    refuses(s, 2, "one is of the model 'gpt6', the other of 'resnet18'");
    s[0].has_sidecar = s[1].has_sidecar = false;
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

TEST(failing_allocations_leak_nothing)
{
    struct traces_source s;
    struct traces_replay r = {0};

    make_streams(&s, true);
    EACH_ALLOCATION_FAILS(20, traces_replay_build(&s, 1, &plain, &r, NULL), r,
                          traces_replay_free(&r));
    traces_source_free(&s);
}
