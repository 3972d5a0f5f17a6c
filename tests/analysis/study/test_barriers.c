/* A barrier moves nothing: what it takes is waiting, in inspect, its report and the replay. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define EVENT(cat, name, tid, ts, dur, args)                                                       \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" tid ",\"tid\":" tid  \
    ",\"ts\":" ts ",\"dur\":" dur ",\"args\":{" args "}}"
#define LAUNCH(ts, n) EVENT("cuda_runtime", "cudaLaunchKernel", "1", ts, "1", "\"correlation\":" n)
#define KERNEL(name, tid, ts, dur, n)                                                              \
    EVENT("kernel", name, tid, ts, dur, "\"correlation\":" n ",\"stream\":" tid)

/* us: gemm [10,50), all-reduce [50,80), then the kernel `%s`, launched at 30, in [80,180); the step
 * ends when a synchronisation returns. `%s` before: ranges of the host around that launch. */
static const char text[] =
    "{\"deviceProperties\": [{\"name\": \"X\"}], \"distributedInfo\": {\"rank\": 0, "
    "\"world_size\": 2, \"backend\": \"nccl\"}, \"traceEvents\": ["
    EVENT("user_annotation", "ProfilerStep#1", "1", "0", "200", "") ","
    LAUNCH("5", "1") "," LAUNCH("10", "2") "," "%s" LAUNCH("30", "3") ","
    EVENT("cuda_runtime", "cudaDeviceSynchronize", "1", "40", "141", "\"correlation\":4") ","
    KERNEL("gemm", "7", "10", "40", "1") ","
    KERNEL("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "7", "50", "30", "2") ","
    KERNEL("%s", "7", "80", "100", "3") "]}";

static const struct {
    const char *range, *kernel;
    bool barrier;
} cases[] = {
    /* pytorch #140785: an all-reduce of one element in this range */
    {EVENT("user_annotation", "nccl:all_reduce_barrier", "1", "29", "3", "") ",",
     "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true},
    {EVENT("cpu_op", "c10d::barrier", "1", "29", "3", "") ",",
     "ncclKernel_AllReduce_RING_LL_Sum_float", true},
    {"", "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)", true},
    {"", "barrier_all_on_stream_kernel_warp()", true},
    {"", "void deep_ep::intranode::barrier<8>(int**, int)", true},
    {"", "(anonymous namespace)::barrier_kernel(unsigned int**, int, int, int, unsigned long)",
     true},
    {"", "barrier_kernel(float*, float*, float)", false}, /* of options, in finance: compute */
    {"", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", false},
};

static bool is_comm(const char *kernel)
{
    return strncmp(kernel, "nccl", 4) == 0;
}

TEST_WITH(a_barrier_is_waiting_in_inspect_report_and_replay, fixture_open, fixture_close)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char trace[4096];
        bool comm = !cases[i].barrier && is_comm(cases[i].kernel);
        snprintf(trace, sizeof trace, text, cases[i].range, cases[i].kernel);
        fixture_put(fixture_path("t.json"), trace);
        const char *out = lapwing("inspect t.json --format json", NULL);
        const char *step = strstr(out, "\"by_time\"");
        assert_non_null(step);
        /* the step's 200: compute 40, an all-reduce of 30, the barrier's 100 are idle */
        assert_true(number_after(step, "\"comm_busy_ns\": ") == (comm ? 130000 : 30000));
        assert_true(number_after(step, "\"barrier_ns\": ") == (cases[i].barrier ? 100000 : 0));
        assert_true(number_after(step, "\"idle_ns\": ") == (cases[i].barrier ? 130000 : 30000));
        assert_true(number_after(step, "\"compute_busy_ns\": ") ==
                    (cases[i].barrier || comm ? 40000 : 140000));
        out = lapwing("inspect --report t.json", NULL);
        if (!cases[i].barrier) {
            has_not(out, "barriers");
            continue;
        }
        has(out, "barriers: 100.000 us in the whole file, waiting for other ranks");
        has(out, "communication: 30.000 us busy");
        out = lapwing("sim --replay t.json --no-db --format json", NULL);
        assert_true(number_after(out, "\"period_error_pct\": ") < 1);
        assert_true(number_after(out, "\"exposed_transfer_ns\": ") == 30000);
    }
}
