/* `inspect --report`: figures of a trace by hand, of two ranks, and of the recordings' identity. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/traces/kineto_text.h"
#include "traces/report/alike_ranks.h"
#include "traces/report/rank_report.h"

/* Calls of 1 us at 0, 20 and 21; their kernels run on stream 7 at 5-15, 25-30 and 30-40 us. */
static const char three[] =
    "[" LAUNCH("1", "0") "," KERNEL("gemm", "7", "1", "5", "10") "," LAUNCH("2", "20") ","
    KERNEL("relu_elementwise", "7", "2", "25", "5") "," LAUNCH("3", "21") ","
    KERNEL("gemm", "7", "3", "30", "10") "]";

static void read_sorted(const char *text, struct lw_trace *t)
{
    struct lw_err err = {0};

    if (kineto_text(text, NULL, t, &err) != LW_OK || lw_trace_sort(t, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

TEST(a_rank_has_its_idle_causes_launches_and_critical_path)
{
    struct lw_trace t;
    struct traces_rank_report r;
    struct lw_err err = {0};

    read_sorted(three, &t);
    assert_int_equal(traces_rank_report_find(&t, NULL, &r, &err), LW_OK);
    assert_int_equal(r.span_ns, 35000);
    assert_int_equal(r.work[TRACES_WORK_COMPUTE].n, 2);
    assert_int_equal(r.work[TRACES_WORK_COMPUTE].total_ns, 20000);
    assert_int_equal(r.work[TRACES_WORK_MEMORY].longest_ns, 5000);
    /* 15 to 25: the second kernel was launched at 20 */
    assert_int_equal(r.idle_ns[TRACES_IDLE_HOST], 10000);
    assert_int_equal(r.idle_ns[TRACES_IDLE_QUEUE], 0);
    /* from the calls' ends at 1, 21 and 22: 4, 4 and 8 us */
    assert_int_equal(r.launch.n, 3);
    assert_int_equal(r.launch.call_ns, 3000);
    assert_int_equal(r.launch.delay_ns, 16000);
    assert_int_equal(r.launch.longest_delay_ns, 8000);
    /* one at 0-5 and 20-21, two at 21-25, one at 25-30: 19 over 15 us */
    assert_int_equal(r.launch.longest_queue, 2);
    assert_true(fabs(r.launch.mean_queue - 19.0 / 15) < 1e-9);
    /* back: 10 + 5 of kernels, 5 from the call at 20 to its kernel, and the host from 0 to 20 */
    assert_int_equal(r.work[TRACES_WORK_COMPUTE].critical_ns, 10000);
    assert_int_equal(r.work[TRACES_WORK_MEMORY].critical_ns, 5000);
    assert_int_equal(r.critical_gap_ns, 5000);
    assert_int_equal(r.critical_host_ns, 20000);
    assert_int_equal(r.critical_ns, 40000);
    lw_trace_free(&t);
}

TEST(a_stream_that_waits_puts_what_it_waited_for_on_the_critical_path)
{
    /* stream 20 waits for the gemm on 7, which ends at 60, and runs at 60 */
    static const char text[] =
        "[" LAUNCH("1", "0") "," KERNEL("gemm", "7", "1", "10", "50") ","
        X("cuda_runtime", "cudaEventRecord", "1", "2", "1", "\"correlation\":2") ","
        X("cuda_runtime", "cudaStreamWaitEvent", "1", "3", "1", "\"correlation\":3") ","
        X("cuda_sync", "Stream Wait Event", "20", "3", "1",
          "\"stream\":20,\"correlation\":3,\"wait_on_stream\":7,"
          "\"wait_on_cuda_event_record_corr_id\":2") ","
        LAUNCH("4", "5") "," KERNEL("relu_elementwise", "20", "4", "60", "5") "]";
    struct lw_trace t;
    struct traces_rank_report r;
    struct lw_err err = {0};

    read_sorted(text, &t);
    assert_int_equal(traces_rank_report_find(&t, NULL, &r, &err), LW_OK);
    assert_int_equal(r.work[TRACES_WORK_COMPUTE].critical_ns, 50000);
    assert_int_equal(r.work[TRACES_WORK_MEMORY].critical_ns, 5000);
    assert_int_equal(r.critical_ns, 65000); /* and 10 from the call to the gemm */
    lw_trace_free(&t);
}

/* Computes for `own` us, then an all-reduce that ends at 20, then computes to 30. */
static void rank_text(char *text, size_t size, int own)
{
    snprintf(text, size,
             "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":0,"
             "\"dur\":%d,\"args\":{\"stream\":7}},"
             "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_AllReduce\",\"pid\":0,"
             "\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"stream\":7}},"
             "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":20,"
             "\"dur\":10,\"args\":{\"stream\":7}}]",
             own, own, 20 - own);
}

TEST(the_rank_that_the_others_wait_for_is_named)
{
    static const int own[] = {10, 18};
    struct lw_trace t[2];
    struct traces_comm_list lists[2];
    struct traces_cross_rank cross;
    struct traces_alike a;
    struct lw_arena arena = {0};
    struct lw_err err = {0};
    int64_t starts[2] = {0, 0}, ends[2] = {30000, 30000};

    for (int i = 0; i < 2; i++) {
        char text[1024];
        rank_text(text, sizeof text, own[i]);
        read_sorted(text, &t[i]);
        t[i].rank = i;
        assert_int_equal(traces_comm_list_build(&t[i], NULL, &arena, &lists[i], &err), LW_OK);
    }
    assert_int_equal(traces_cross_rank_build(lists, 2, &arena, &cross, &err), LW_OK);
    assert_int_equal(traces_alike_find(lists, 2, &cross, starts, ends, &arena, &a, &err), LW_OK);
    assert_true(a.known);
    /* the all-reduce moves data for 2 us; 18 + 2 + 10, and with 14, the median, 26 */
    assert_int_equal(a.simulated_ns, 30000);
    assert_int_equal(a.alike_ns, 26000);
    assert_int_equal(a.worst, 1);
    assert_true(fabs(a.v[1].slowdown - 30.0 / 26) < 1e-12);
    assert_true(fabs(a.v[0].slowdown - 1) < 1e-12);
    assert_int_equal(a.v[1].own_ns, 28000);
    lw_arena_free(&arena);
    lw_trace_free(&t[0]);
    lw_trace_free(&t[1]);
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_trace t;
    struct traces_rank_report r = {.span_ns = 77};

    read_sorted(three, &t);
    int64_t before = lw_alloc_live();
    for (int64_t n = 1;; n++) {
        lw_alloc_fail_at(n);
        enum lw_status status = traces_rank_report_find(&t, NULL, &r, NULL);
        lw_alloc_fail_at(0);
        assert_int_equal(lw_alloc_live(), before);
        if (status == LW_OK)
            break;
        assert_int_equal(status, LW_ENOMEM);
        assert_int_equal(r.span_ns, 77);
    }
    lw_trace_free(&t);
}

/* HolisticTraceAnalysis 0.5.0 of the same file, which is of its own test data. */
TEST_WITH(figures_are_those_of_hta_where_times_are_whole_microseconds, fixture_open, fixture_close)
{
    static const char file[] = "../shared/traces/kineto/torchrec_8xA100_rank3.json.gz";

    if (access(file, F_OK) != 0) {
        printf("SKIP: no %s\n", file);
        skip();
    }
    expectf(0, ",kineto,3,whole,,464594000,281336000,", "inspect --format csv $P/%s", file);
    const char *out = lapwingf("inspect --report --format json $P/%s", file);
    double comm = number_after(out, "\"comm_busy_ns\": ");
    double exposed = number_after(out, "\"exposed_comm_ns\": ");
    double copies = number_after(out, "\"exposed_mem_ns\": ");
    assert_int_equal(exposed + copies, 107251000);
    assert_int_equal(number_after(out, "\"idle_ns\": "), 76007000);
    assert_int_equal(10000 * (1 - exposed / comm) + 0.5, 4624);
    expectf(0, "61.919 ms for other streams", "inspect --report $P/%s", file);
    expectf(0, "1.184 s because the host launched late", "inspect --report $P/%s", file);
    expectf(0, "queue of up to 288", "inspect --report $P/%s", file);
}

/* Two traces of one rank, in folders whose names are longer than a line. */
TEST_WITH(files_that_are_not_of_one_run_are_named_in_full, fixture_open, fixture_close)
{
    static const char name[] =
        "recordings-of-the-first-cluster-before-its-switches-were-replaced/"
        "of-the-job-that-was-restarted-from-its-third-checkpoint/rank0.json";
    char text[1024], wanted[256];

    snprintf(text, sizeof text, "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":%s}", three);
    shellf("mkdir -p a $(dirname %s)", name);
    fixture_put(fixture_path(name), text);
    fixture_put(fixture_path("a/rank0.json"), text);
    snprintf(wanted, sizeof wanted,
             "\"not_one_run\": \"a/rank0.json and %s: both say they are rank 0\"", name);
    expectf(0, wanted, "inspect --format json a/rank0.json %s", name);
    expectf(0, name, "inspect a/rank0.json %s", name);
}

TEST_WITH(report_is_printed_as_text_json_and_a_page, fixture_open, fixture_close)
{
    char text[1024];

    fixture_put(fixture_path("a.json"), three);
    rank_text(text, sizeof text, 10);
    fixture_put(fixture_path("b.json"), text);
    expect("inspect --report a.json", 0, "of the critical path");
    expect("inspect --report --format json a.json", 0, "\"longest_queue\": 2");
    expect("inspect --report a.json b.json", 0, "what differs most between the two files");
    expect("inspect --report -o p.html a.json", 0, "");
    char *page = fixture_get(fixture_path("p.html"));
    has(page, "of the critical path");
    has(page, "</html>");
    free(page);
    expect("inspect -o p.html a.json", 2, "--report");
    has_not(lapwing("inspect a.json", NULL), "of the critical path");
}

/* A file alone is looked at by all cores, one of two by one. */
TEST_WITH(a_file_alone_shows_what_it_shows_beside_another, fixture_open, fixture_close)
{
    static const char *const names[] = {"h200/gpt2__nccl1__cap1.rank0.json.gz",
                                        "gpt6__gloo2__cap1.rank0.json.gz"};

    for (size_t i = 0; i < 2; i++) {
        char *alone = strdup(shellf("$L inspect $R/%s --report --format json", names[i]));
        char *end = strstr(alone, "\n    }\n  ]");
        assert_non_null(end);
        *end = '\0';
        has(shellf("$L inspect $R/%s $R/resnet18__local.rank0.json.gz --report --format json",
                   names[i]), alone);
        free(alone);
    }
}
