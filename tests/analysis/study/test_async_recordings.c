/* Recordings of devices whose ops end after the host's step, made here with known periods: what sim
 * --replay, inspect, compare and plot print of them. A step of `host` us launches a and b on one
 * stream and c on another. An op of `before` us was launched before the recording. Times in us. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

enum { N_STEPS = 8, MIDDLE = 4, ROOM = 1 << 14, LAUNCH = 2, FIRST_LAUNCH = 5 };

struct recording {
    const char *device, *call;
    int host, a, b, c, before;
    /* by hand: the period between ends on the device, its busy part, the step from its first start
     * to its last end, and the whole file's busy part and length */
    int period, busy, span, file_busy, file;
};

static const struct recording recordings[] = {
    /* Stream 7 never waits for a launch: a and b of step k end at 40 + 120 (k + 1). Streams 7 and
     * 8 take 190 in each 120, side by side. After 8 steps the device is 200 later than the host,
     * two of its steps. Step 4: c starts at 400 + 17, b ends at 640. */
    {"NVIDIA H100 80GB HBM3", "cudaLaunchKernel", 100, 60, 60, 70, 40, 120, 120, 223, 1000, 1000},
    /* The host's range is 16 % short of the device's period. Step 4: 40 + 945 - (640 + 17). */
    {"AMD Instinct MI300X", "hipLaunchKernel", 160, 100, 89, 70, 40, 189, 189, 328, 1552, 1552},
    /* The device waits for the host: a at 7, b at 37 to 57, c at 17 to 87 of each 100. The host's
     * gap from 317 to 400 ends after step 3 does, at 387: step 4 is from 317 to 487. */
    {"NVIDIA H100 80GB HBM3", "cudaLaunchKernel", 100, 30, 20, 70, 0, 100, 80, 170, 640, 787},
};

static void put_event(char *json, const char *cat, const char *name, int tid, int at, int length,
                      int call)
{
    size_t n = strlen(json);

    snprintf(json + n, ROOM - n,
             "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%d,"
             "\"dur\":%d,\"args\":{\"correlation\":%d%s%.0d}}",
             json[n - 1] == '[' ? "" : ",\n", cat, name, tid, at, length, call,
             tid > 1 ? ",\"stream\":" : "", tid > 1 ? tid : 0);
}

/* Each op of a stream starts when the one before it and its launch have ended. */
static void put_step(char *json, const struct recording *r, int k, int *free_at)
{
    static const char *const names[] = {"gemm_a", "gemm_b", "gemm_c"};
    const int length[] = {r->a, r->b, r->c}, stream[] = {7, 7, 8};
    char step[32];

    snprintf(step, sizeof step, "ProfilerStep#%d", k + 1);
    put_event(json, "user_annotation", step, 1, r->host * k, r->host, 0);
    for (int i = 0; i < 3; i++) {
        int at = r->host * k + FIRST_LAUNCH * (i + 1), *end = &free_at[stream[i] - 7];
        put_event(json, "cuda_runtime", r->call, 1, at, LAUNCH, 10 * k + i + 1);
        *end = *end > at + LAUNCH ? *end : at + LAUNCH;
        put_event(json, "kernel", names[i], stream[i], *end, length[i], 10 * k + i + 1);
        *end += length[i];
    }
}

static void write_recording(const struct recording *r)
{
    static char json[ROOM];
    int free_at[2] = {r->before, 0};
    size_t n;

    snprintf(json, sizeof json, "{\"deviceProperties\":[{\"name\":\"%s\"}],\"traceEvents\":[",
             r->device);
    if (r->before > 0)
        put_event(json, "kernel", "gemm_before", 7, 0, r->before, 999);
    for (int k = 0; k < N_STEPS; k++)
        put_step(json, r, k, free_at);
    n = strlen(json);
    snprintf(json + n, ROOM - n, "]}");
    fixture_put(fixture_path("trace.json"), json);
}

static void has_ns(const char *json, const char *key, int us)
{
    char field[64];

    snprintf(field, sizeof field, "\"%s\": %d", key, us * 1000);
    has(json, field);
}

static void check_replay(const struct recording *r)
{
    const char *json =
        lapwing("sim --replay trace.json --db runs.db --spans --format json", NULL);

    has(json, "\"basis\": \"device_period\"");
    has_ns(json, "step_ns", r->period);
    has_ns(json, "recorded_period_ns", r->period);
    has_ns(json, "predicted_host_ns", r->host);
    has_ns(json, "recorded_host_ns", r->host);
    has_ns(json, "compute_busy_ns", r->busy);
    has_ns(json, "idle_ns", r->period - r->busy);
    has_ns(json, "span_ns", r->span);
    has(json, "\"period_error_pct\": 0.0000");
    has(json, "\"host_error_pct\": 0.0000");
}

/* Two streams at once are busy once, also beyond the end of the host's range. */
static void check_inspect(const struct recording *r)
{
    const char *json = lapwing("inspect trace.json --format json", NULL);
    char text[160];

    snprintf(text, sizeof text, "\"whole_gpu_span\": {\"window_ns\": %d, \"compute_busy_ns\": %d,",
             r->file * 1000 - (r->before > 0 ? 0 : (FIRST_LAUNCH + LAUNCH) * 1000),
             r->file_busy * 1000);
    has(json, text);
    snprintf(text, sizeof text, "\"n_gpu_ops\": %d,", 3 * N_STEPS + (r->before > 0));
    has(json, text);
    for (const char *at = json; (at = strstr(at, "\"by_launch\"")) != NULL; at++) {
        long busy = -1, span = -1, idle = -1;
        sscanf(strstr(at, "\"compute_busy_ns\""), "\"compute_busy_ns\": %ld", &busy);
        sscanf(strstr(at, "\"span_ns\""), "\"span_ns\": %ld", &span);
        sscanf(strstr(at, "\"idle_within_span_ns\""), "\"idle_within_span_ns\": %ld", &idle);
        assert_true(busy > 0 && idle >= 0);
        assert_int_equal(busy + idle, span);
    }
}

/* The recording itself as a run: its steps are the same, so nothing is too long and nothing idle
 * in one of the two alone. */
static void check_runs(const struct recording *r)
{
    char text[64];

    lapwing("import trace.json --store --db runs.db", NULL);
    expect("compare 1 2 --db runs.db", 0, "the steps are equal, part by part");
    snprintf(text, sizeof text, "this step %d.000 us", r->span);
    expect("plot timeline 1 --db runs.db -o -", 0, text);
    if (r->before > 0) /* else rows of the host alone come first in the prediction */
        expect("plot timeline 2 --db runs.db -o -", 0, text);
    shell("rm runs.db*", NULL);
}

TEST(periods_of_recordings_are_those_that_they_were_made_with)
{
    for (size_t i = 0; i < sizeof recordings / sizeof *recordings; i++) {
        write_recording(&recordings[i]);
        check_replay(&recordings[i]);
        check_inspect(&recordings[i]);
        check_runs(&recordings[i]);
    }
}

/* Without a recorded collective neither buckets nor other ranks can act. */
TEST(a_change_that_cannot_act_is_refused)
{
    write_recording(&recordings[0]);
    expect("sim --replay trace.json --bucket-cap 1MiB --no-db", 1,
           "there are no buckets to change");
    expect("sim --replay trace.json --ranks 4 --no-db", 1, "shows one rank and no collective");
}

TEST_GROUP(fixture_open, fixture_close)
