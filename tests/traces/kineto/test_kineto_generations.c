/* Every dialect and quirk of the format in a small file, through every reader of it;
 * all figures by hand. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "tests/lib/traces/kineto_text.h"
#include "traces/steps/device_figures.h"
#include "traces/steps/step_phases.h"

/* What was read last. */
static struct {
    struct lw_trace t;
    struct lw_inspection i;
    struct lw_steps s;
} r;

static int done(void **state)
{
    (void)state;
    lw_steps_free(&r.s);
    lw_inspection_free(&r.i);
    lw_trace_free(&r.t);
    return (int)lw_alloc_live();
}

static void read_text(const char *text)
{
    struct lw_err err = {0};

    done(NULL);
    assert_ok(kineto_text(text, NULL, &r.t, &err), err);
    assert_ok(lw_trace_sort(&r.t, &err), err);
    assert_ok(lw_inspect(&r.t, NULL, &r.i, &err), err);
    assert_ok(lw_steps_find(&r.t, &r.s, &err), err);
}

/* ---- time ---- */

TEST_WITH(integer_microseconds_of_2021_are_whole_and_may_be_zero_long, NULL, done)
{
    read_text("{\"traceEvents\":["
              STEP("4", "1661203462584767", "10") ","
              LAUNCH("7", "1661203462584768") ","
              KERNEL("a", "7", "7", "1661203462584770", "0") ","
              KERNEL("b", "7", "7", "1661203462584771", "3") "]}");
    assert_int_equal(r.t.start_ns[0], 1661203462584767000);
    assert_int_equal(r.i.n_device_rows, 2);
    assert_int_equal(r.i.whole.window_ns, 4000);      /* from 770 to 774 us */
    assert_int_equal(r.i.whole.compute_busy_ns, 3000);
    assert_int_equal(r.i.whole.idle_ns, 1000);
    assert_int_equal(r.i.iterations[0].by_launch.window_ns, 4000);
}

TEST_WITH(float_microseconds_since_1970_lose_no_nanosecond, NULL, done)
{
    /* a double near 1.7e15 has steps of 0.25: .123 would be .0 or .25 */
    read_text("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["
              KERNEL("a", "7", "1", "1712195495519689.123", "0.877") ","
              KERNEL("b", "7", "2", "1712195495519690.001", "1.5") "]}");
    assert_int_equal(r.t.start_ns[0], 1712195495519689123);
    assert_int_equal(lw_trace_end_ns(&r.t, 0), 1712195495519690000);
    assert_int_equal(r.i.whole.window_ns, 2378);      /* ...689.123 to ...691.501 */
    assert_int_equal(r.i.whole.compute_busy_ns, 2377); /* 877 + 1500 */
    assert_int_equal(r.i.whole.idle_ns, 1);
}

TEST_WITH(a_clock_base_may_stand_before_or_after_the_events, NULL, done)
{
    static const char events[] = KERNEL("a", "7", "1", "4458676522690.655", "2.5");
    char text[2][1024];

    snprintf(text[0], sizeof text[0],
             "{\"baseTimeNanoseconds\":1719853884000000000,\"distributedInfo\":{\"rank\":3},"
             "\"traceEvents\":[%s]}", events);
    snprintf(text[1], sizeof text[1],
             "{\"traceEvents\":[%s],\"distributedInfo\":{\"rank\":3},"
             "\"baseTimeNanoseconds\":1719853884000000000}", events);
    for (int i = 0; i < 2; i++) {
        read_text(text[i]);
        assert_int_equal(r.t.base_ns, 1719853884000000000);
        assert_int_equal(r.t.rank, 3);
        assert_int_equal(r.t.start_ns[0], 4458676522690655); /* apart from the base */
    }
}

TEST_WITH(a_bare_array_means_the_same_as_an_object, NULL, done)
{
    static const char events[] =
        "[" STEP("0", "0", "9") "," LAUNCH("5", "1") "," KERNEL("k", "7", "5", "3", "4") "]";
    char text[1024];
    struct lw_busy whole, launched;

    snprintf(text, sizeof text, "{\"schemaVersion\":1,\"traceEvents\":%s}", events);
    read_text(events);
    assert_int_equal(r.i.n_iterations, 1);
    whole = r.i.whole;
    launched = r.i.iterations[0].by_launch;
    read_text(text);
    assert_memory_equal(&r.i.whole, &whole, sizeof whole);
    assert_memory_equal(&r.i.iterations[0].by_launch, &launched, sizeof launched);
}

/* ---- devices ---- */

TEST_WITH(rocm_has_hip_names_stream_0_and_sizes_on_the_host_alone, NULL, done)
{
    read_text("{\"traceEvents\":[" STEP("1", "0", "100") ","
              X("cpu_op", "record_param_comms", "1", "10", "20",
                "\"Collective name\":\"allreduce\",\"In msg nelems\":256,\"Out msg nelems\":256,"
                "\"Group size\":2,\"dtype\":\"BFloat16\"") ","
              X("cuda_runtime", "hipLaunchKernel", "1", "2", "1", "\"correlation\":1") ","
              X("cuda_runtime", "hipExtLaunchKernel", "1", "15", "1", "\"correlation\":2") ","
              X("kernel", "Cijk_Ailk_Bljk_BBS", "0", "20", "30",
                "\"device\":4,\"stream\":0,\"correlation\":1,\"kind\":\"Dispatch Kernel\"") ","
              X("kernel", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "0", "40",
                "20", "\"device\":4,\"stream\":0,\"correlation\":2,\"kind\":\"Dispatch Kernel\"")
              "]}");
    assert_int_equal(r.i.n_resolved, 2);
    const struct lw_iteration *it = &r.i.iterations[0];
    assert_int_equal(it->n_comm, 1);
    assert_string_equal(it->comm[0].op, "allreduce");
    assert_string_equal(it->comm[0].kernel, "ncclDevKernel_Generic");
    assert_int_equal(it->comm[0].stream, 0);
    assert_int_equal(it->comm[0].bytes, 512); /* 256 of 2 bytes */
    assert_int_equal(it->comm[0].group_size, 2);
    assert_int_equal(it->comm[0].launch_ns, 15000);
    assert_int_equal(it->by_launch.exposed_comm_ns, 10000); /* [40,60) minus [20,50) */
}

TEST_WITH(other_devices_launch_by_other_categories, NULL, done)
{
    static const char *const categories[] = {"mtia_runtime", "xpu_runtime", "privateuse1_runtime",
                                             "cuda_driver", "glow_runtime"};

    for (size_t k = 0; k < sizeof categories / sizeof *categories; k++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "[" STEP("1", "0",
                          "9") ",{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"launch\",\"pid\":1,"
                               "\"tid\":1,\"ts\":2,\"dur\":1,\"args\":{\"correlation\":5}}," KERNEL(
                                   "k", "3", "5", "4", "2") "]",
                 categories[k]);
        read_text(text);
        assert_int_equal(r.i.n_resolved, 1);
        assert_int_equal(r.i.iterations[0].by_launch.compute_busy_ns, 2000);
    }
}

TEST_WITH(a_trace_of_the_host_alone_has_steps_but_no_iterations, NULL, done)
{
    read_text(
        "{\"distributedInfo\":{\"backend\":\"gloo\",\"rank\":1,\"world_size\":4},\"traceEvents\":"
        "[" STEP("2", "0", "50") "," X("cpu_op", "aten::mm", "1", "3", "9", "") "]}");
    assert_false(r.i.has_device);
    assert_int_equal(r.i.n_iterations, 0);
    assert_int_equal(r.s.n, 1);
    assert_int_equal(r.s.steps[0].end_ns, 50000);
    assert_int_equal(r.t.world_size, 4);
}

TEST_WITH(one_graph_launch_stands_for_all_its_kernels, NULL, done)
{
    read_text("[" STEP("1", "0", "10") ","
              X("cuda_runtime", "cudaGraphLaunch", "1", "2", "1", "\"correlation\":77") ","
              KERNEL("a", "7", "77", "5", "1") "," KERNEL("b", "7", "77", "6", "2") ","
              KERNEL("c", "8", "77", "20", "3") "]");
    assert_int_equal(r.i.n_resolved, 3);
    assert_int_equal(r.i.iterations[0].n_gpu_ops, 3);
    assert_int_equal(r.i.iterations[0].by_launch.window_ns, 18000); /* [5,23) */
    assert_int_equal(r.i.iterations[0].by_launch.compute_busy_ns, 6000);
}

TEST_WITH(work_launched_before_the_recording_counts_in_the_file_and_in_no_step, NULL, done)
{
    /* correlations 0 and 9 belong to no call; a copy without arguments has none at all */
    read_text("[" STEP("1", "10", "30") "," LAUNCH("4", "11") "," KERNEL(
                  "early", "7", "9", "0",
                  "15") "," KERNEL("zero", "7", "0", "15",
                                   "1") ","
                                        "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy "
                                        "HtoD\",\"pid\":0,\"tid\":7,\"ts\":16,\"dur\":2}," KERNEL(
                                            "mine", "7", "4", "20", "5") "]");
    assert_int_equal(r.i.n_device_rows, 4);
    assert_int_equal(r.i.n_resolved, 1);
    assert_int_equal(r.i.whole.window_ns, 25000);
    assert_int_equal(r.i.iterations[0].n_gpu_ops, 1);
    assert_int_equal(r.i.iterations[0].by_launch.window_ns, 5000);
    /* by time the host's [10,40): early [10,15), zero 1, copy 2, mine 5 */
    assert_int_equal(r.i.iterations[0].by_time.compute_busy_ns, 11000);
    assert_int_equal(r.i.iterations[0].by_time.mem_busy_ns, 2000);
}

/* ---- steps ---- */

TEST_WITH(device_twins_of_a_step_on_several_streams_add_none, NULL, done)
{
    read_text("[" STEP("5", "0", "20") "," LAUNCH("1", "1") "," KERNEL("k", "7", "1", "4", "2") ","
              X("gpu_user_annotation", "ProfilerStep#5", "7", "4", "30", "\"stream\":7") ","
              X("gpu_user_annotation", "ProfilerStep#5", "20", "6", "30", "\"stream\":20") "]");
    assert_int_equal(r.i.n_iterations, 1);
    assert_int_equal(r.i.iterations[0].by_time.window_ns, 20000); /* the host's */
    assert_int_equal(r.s.n, 1);
    assert_int_equal(r.i.n_device_rows, 1); /* ranges are no work */
}

TEST_WITH(steps_come_in_the_order_of_time_not_of_text, NULL, done)
{
    static const char *const want[] = {"ProfilerStep#5", "ProfilerStep#9", "ProfilerStep#10",
                                       "ProfilerStep#100"};

    read_text("[" STEP("10", "20", "5") "," STEP("100", "30", "5") "," STEP("5", "0", "5") "," STEP(
                  "9", "10", "5") "," LAUNCH("1", "21") "," KERNEL("k", "7", "1", "22", "2") "]");
    assert_int_equal(r.i.n_iterations, 4);
    for (int k = 0; k < 4; k++) {
        assert_string_equal(r.i.iterations[k].name, want[k]);
        assert_int_equal(r.i.iterations[k].n_gpu_ops, k == 2);
    }
}

TEST_WITH(without_profiler_steps_the_optimizer_marks_them, NULL, done)
{
    read_text("[" X("cpu_op", "aten::linear", "1", "1", "3", "") ","
              X("user_annotation", "Optimizer.step#SGD.step", "1", "10", "5", "") ","
              X("cpu_op", "aten::linear", "1", "16", "3", "") ","
              X("user_annotation", "Optimizer.step#SGD.step", "1", "25", "6", "") ","
              LAUNCH("1", "2") "," KERNEL("k", "7", "1", "4", "2") "]");
    assert_int_equal(r.i.n_iterations, 0);
    assert_true(r.i.has_device);
    assert_int_equal(r.s.n, 2);
    assert_string_equal(r.s.found_by, "Optimizer.step#");
    assert_int_equal(r.s.steps[0].start_ns, 1000);
    assert_int_equal(r.s.steps[0].end_ns, 15000);
    assert_int_equal(r.s.steps[1].end_ns, 31000);
}

TEST_WITH(a_last_step_cut_short_has_no_device_work_of_its_own, NULL, done)
{
    read_text("[" STEP("1", "0", "20") "," STEP("2", "20", "0.049") "," LAUNCH("1", "5") ","
              KERNEL("k", "7", "1", "6", "30") "]");
    assert_int_equal(r.i.n_iterations, 2);
    assert_int_equal(r.i.iterations[1].n_gpu_ops, 0);
    assert_int_equal(r.i.iterations[1].by_time.window_ns, 49);
    /* the kernel runs through it */
    assert_int_equal(r.i.iterations[1].by_time.compute_busy_ns, 49);
}

/* ---- texts ---- */

TEST_WITH(strings_that_hold_lists_and_string_ids_are_no_surprise, NULL, done)
{
    read_text("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce\",\"pid\":"
              "\"0\",\"tid\":\"stream 20\","
              "\"ts\":\"5.5\",\"dur\":\"2\",\"args\":{\"correlation\":\"3\",\"Collective "
              "name\":\"allreduce\","
              "\"In msg nelems\":\"64\",\"Out msg nelems\":64,\"dtype\":\"Float\",\"Group size\":8,"
              "\"Process Group Name\":\"0\",\"Process Group Ranks\":\"[0, 1, 2, 3, ...]\","
              "\"In split size\":\"[]\",\"Out split size\":\"[1, 2]\"}}," STEP(
                  "1", "0",
                  "9") ","
                       "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernelExC\","
                       "\"pid\":\"7\",\"tid\":\"7\",\"ts\":2,\"dur\":1,"
                       "\"args\":{\"correlation\":3}},"
                       "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler "
                       "(0)\",\"pid\":\"Spans\",\"tid\":\"PyTorch Profiler\",\"ts\":0,\"dur\":9}]");
    assert_int_equal(r.i.iterations[0].n_comm, 1);
    assert_int_equal(r.i.iterations[0].comm[0].bytes, 256);
    assert_int_equal(r.i.iterations[0].comm[0].stream, 20);
    assert_int_equal(r.i.iterations[0].comm[0].start_ns, 5500);
    assert_int_equal(r.i.iterations[0].comm[0].group_size, 8);
}

TEST_WITH(huge_names_full_of_punctuation_are_kept_whole, NULL, done)
{
    enum { NAME = 100000 };
    char *text = malloc(NAME * 2 + 1000), *p = text, *want = malloc(NAME + 1);
    static const char odd[] = "<>,;{}[]:\"\\";

    p += sprintf(p, "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"");
    for (int i = 0; i < NAME; i++) {
        want[i] = i % 13 == 0 ? odd[i / 13 % (sizeof odd - 1)] : (char)('a' + i % 26);
        if (want[i] == '"' || want[i] == '\\')
            *p++ = '\\';
        *p++ = want[i];
    }
    want[NAME] = '\0';
    p += sprintf(p, "\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":2}]");
    *p = '\0';
    read_text(text);
    assert_string_equal(lw_trace_name(&r.t, 0), want);
    free(text);
    free(want);
}

TEST_WITH(events_without_duration_are_counted_and_skipped, NULL, done)
{
    read_text("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":\"Traces\",\"tid\":\"\",\"ts\":1,"
              "\"args\":{\"name\":\"x\"}},"
              "{\"ph\":\"i\",\"name\":\"Iteration Start: PyTorch "
              "Profiler\",\"s\":\"g\",\"pid\":\"Traces\",\"ts\":1},"
              "{\"ph\":\"s\",\"id\":23451,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":1,\"tid\":1,"
              "\"ts\":1},"
              "{\"ph\":\"f\",\"id\":23451,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\",\"pid\":"
              "1,\"tid\":7,\"ts\":1},"
              "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"s\":\"t\","
              "\"pid\":1,\"tid\":1,\"ts\":1,"
              "\"args\":{\"Bytes\":-512}},"
              "{\"ph\":\"C\",\"name\":\"counter\",\"ts\":1,\"args\":{\"v\":1}},"
              "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"f\",\"pid\":1,\"tid\":1,\"ts\":"
              "1,\"dur\":5},"
              "{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"o\",\"pid\":1,\"tid\":1,\"ts\":1,"
              "\"dur\":5}," KERNEL("k", "7", "1", "1", "2") "]");
    assert_int_equal(r.t.n_events, 9);
    assert_int_equal(r.t.n, 1);
}
