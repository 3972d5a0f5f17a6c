/* `lapwing sim --replay`: what-ifs by hand, and the command on a trace in a file. Times in us. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/files/file_fixture.h"
#include "tests/lib/traces/replay_help.h"
#include "shared/files/files.h"
#include "analysis/study/replay_whatif.h"
#include "tests/lib/files/says.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/commands/command_fixture.h"

#define US LW_PS_PER_US
#define ALL_REDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

/* Rank 0 of 2: sgemm (40), an elementwise kernel (30), an all-reduce of 1024 B (20); all waited
 * for. */
static void make_trace(struct traces_source *s, bool sized)
{
    struct lw_row_detail d = replay_no_detail();

    replay_begin(s);
    s->trace.rank = 0;
    s->trace.world_size = 2;
    d.in_numel = 256;
    d.group_size = 2;
    d.dtype = traces_strings_add(&s->trace.strings, "Float", 5);
    replay_row(s, LW_ROW_USER, "ProfilerStep#1", 0, 200, 0, -1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 0, 1, 0, 1);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 1, 1, 0, 2);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 2, 69, 0, 3);
    replay_row(s, LW_ROW_LAUNCH, "cudaLaunchKernel", 71, 1, 0, 4);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 72, 20, 0, 5);
    replay_row(s, LW_ROW_LAUNCH, "cudaDeviceSynchronize", 150, 0, 0, 6);
    replay_row(s, LW_ROW_KERNEL, "ampere_sgemm_128x64_nn", 1, 40, 7, 1);
    replay_row(s, LW_ROW_KERNEL, "vectorized_elementwise_kernel", 41, 30, 7, 2);
    replay_row_with(s, LW_ROW_KERNEL, ALL_REDUCE, 72, 20, 20, 4, sized ? &d : NULL);
    replay_ready(s);
}

static lw_ps step_with(const struct traces_source *s, struct sim_whatif *w)
{
    struct traces_replay_rule rule;
    struct traces_replay_choice choice = {.rule = &rule};
    struct replay_run x;
    struct lw_err err = {0};

    w->world = 2;
    assert_ok(sim_whatif_open(w, &rule, &err), err);
    replay_run(s, 1, &choice, &x);
    lw_ps step = replay_step(&x, 0);
    bool said = false;
    for (int32_t i = 0; i < x.r.plan.n_notes; i++)
        said |= strncmp(x.r.plan.notes[i], "what-if: ", 9) == 0;
    assert_true(said);
    replay_run_free(&x);
    sim_whatif_close(w);
    return step;
}

/* As recorded: 1 + 40 + 30 = 71, launch to 72, all-reduce to 92, and 108 of the host: 200. */
TEST(other_ranks_scale_the_traffic_of_a_ring)
{
    struct traces_source s;

    make_trace(&s, true);
    /* 20 x (7/8) / (1/2) = 35, so 15 more; 4 ranks: 20 x (3/4) / (1/2) = 30 */
    assert_int_equal(step_with(&s, &(struct sim_whatif){.ranks = 8}), 215 * US);
    assert_int_equal(step_with(&s, &(struct sim_whatif){.ranks = 4}), 210 * US);
    assert_int_equal(step_with(&s, &(struct sim_whatif){.ranks = 2}), 200 * US);
    traces_source_free(&s);
}

TEST(another_network_is_asked_about_sizes_and_ranks)
{
    static const int64_t bytes[] = {1024};
    static const lw_ps two[] = {5 * US}, eight[] = {12 * US};
    const char *file = fixture_path("net.json");
    struct traces_source s;
    struct traces_replay_rule rule;
    struct traces_replay r;
    struct lw_cluster c;
    struct lw_err err = {0};

    make_cluster(&c, 8, 50e9, 500000);
    c.device.kind = "test device";
    add_table(&c, LW_OP_ALL_REDUCE, 2, 1, 1, bytes, two);
    add_table(&c, LW_OP_ALL_REDUCE, 8, 1, 1, bytes, eight);
    assert_int_equal(lw_cluster_write(&c, file, NULL), LW_OK);
    lw_cluster_free(&c);
    make_trace(&s, true);
    struct sim_whatif w = {.as_recorded = true, .network = file};
    assert_int_equal(step_with(&s, &w), 185 * US);
    w.ranks = 8;
    assert_int_equal(step_with(&s, &w), 192 * US);
    traces_source_free(&s);
    make_trace(&s, false); /* the trace tells no size */
    w = (struct sim_whatif){.as_recorded = true, .network = file, .world = 2};
    assert_int_equal(sim_whatif_open(&w, &rule, NULL), LW_OK);
    assert_int_equal(traces_replay_build(&s, 1, &(struct traces_replay_choice){.rule = &rule}, &r,
                                         &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "do not contain the size of '" ALL_REDUCE "'"));
    sim_whatif_close(&w);
    traces_source_free(&s);
}

static void write_device(const char *file, double flops, double bandwidth)
{
    struct lw_cluster c;

    make_cluster(&c, 1, 50e9, 500000);
    c.device.kind = "test device";
    c.device.peak_flops[LW_F32] = given(flops);
    c.device.memory_bytes_per_s = given(bandwidth);
    assert_int_equal(lw_cluster_write(&c, file, NULL), LW_OK);
    lw_cluster_free(&c);
}

TEST(another_device_scales_each_kernel_by_what_bounds_it)
{
    const char *from = fixture_path("from.json"), *to = fixture_path("to.json");
    struct traces_source s;

    write_device(from, 10e12, 1.5e12);
    write_device(to, 20e12, 2e12);
    make_trace(&s, true);
    /* 40 / 2 = 20 and 30 x 3/4 = 22.5: 27.5 less */
    assert_int_equal(step_with(&s, &(struct sim_whatif){.device = to, .from_device = from,
                                                        .recorded_device = ""}),
                     172500 * LW_PS_PER_NS);
    traces_source_free(&s);
}

TEST(an_unknown_recorded_device_is_asked_for)
{
    struct traces_replay_rule rule;
    struct lw_err err = {0};
    struct sim_whatif w = {.device = "dgx-h100", .recorded_device = "Tesla P100-PCIE-16GB"};

    assert_int_equal(sim_whatif_open(&w, &rule, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "--from-device"));
    sim_whatif_close(&w);
    w = (struct sim_whatif){.device = "dgx-h100", .recorded_device = "NVIDIA A100-PG509-200"};
    assert_int_equal(sim_whatif_open(&w, &rule, NULL), LW_OK);
    assert_non_null(strstr(w.from.device.kind, "A100"));
    sim_whatif_close(&w);
}

/* ---- the command ---- */

static const char trace_text[] =
    "{\"deviceProperties\": [{\"name\": \"X\"}], \"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":0,\"dur\":200},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":5,\"args\":{\"correlation\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"pid\":1,\"tid\":1,"
    "\"ts\":20,\"dur\":100,\"args\":{\"correlation\":2}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"pid\":1,\"tid\":1,"
    "\"ts\":190,\"dur\":1,\"args\":{\"correlation\":3}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"big_gemm\",\"pid\":0,\"tid\":7,\"ts\":16,\"dur\":"
    "104,\"args\":{\"correlation\":1,\"stream\":7}}]}";

TEST(the_command_says_predicted_recorded_and_error)
{
    fixture_put(fixture_path("trace.json"), trace_text);
    /* launch ends at 15, the kernel at 119, one less than recorded; then 80 of the host */
    const char *json = lapwing("sim --replay trace.json --db runs.db --spans --format json", NULL);
    has(json, "\"step_ns\": 119000");
    has(json, "\"steps_ns\": [119000]");
    has(json, "\"basis\": \"device_span\"");
    has(json, "\"recorded_period_ns\": 120000");
    has(json, "\"period_error_pct\": -0.8333");
    has(json, "\"predicted_host_ns\": 199000");
    has(json, "\"recorded_host_ns\": 200000");
    has(json, "\"host_error_pct\": -0.5000");
    has(json, "\"what_if\": false");
    has(json, "{\"rank\": 0, \"predicted_period_ns\": 119000, \"recorded_period_ns\": 120000, "
                   "\"predicted_host_ns\": 199000, \"recorded_host_ns\": 200000}");
    has(json, "host time between calls and calls that launch are kept as recorded");
    const char *text = lapwing("explain last --db runs.db", NULL);
    has(text, "big_gemm");
    has(text, "between calls");
    has(text, "a replay ran on no cluster; ask 'lapwing sim --replay'");
}

/* Two recorded steps of 118.3 and 138.7 ms: 1 % is no finding, and the reader is told. */
TEST(a_change_below_the_spread_of_the_recording_is_said_to_be)
{
    static const char words[] =
        "sim --no-db --replay $R/resnet18__gloo2__cap25.rank*.json.gz --bucket-cap 5MiB";

    expect(words, 0, "less than the recorded steps differ among themselves");
    expect(words, 0,
           "off by 4.7 % of the step on average, 14.7 % at most: the sign is not certain");
}

TEST(options_that_contradict_a_replay_are_refused)
{
    static const struct {
        const char *options, *says;
    } cases[] = {
        {"--tp 2", "--tp cannot be combined with --replay"},
        {"--steps 3", "--steps: a replay has the steps of its traces"},
        {"--samples 5", "--samples is for a plan: a replay has the steps of its traces"},
        {"--noise 0.01", "a replay has the recorded times, noise included"},
        {"--rank-noise 0.01", "a replay has the recorded times, noise included"},
        {"--seed 3", "a replay has the recorded times, noise included"},
        {"--start-skew 1ms", "a replay has the recorded times, noise included"},
        {"--detail chunk", "a replay has recorded transfers"},
        {"--buffered", "a replay has recorded transfers"},
        {"--ranks 4", "--ranks: the recorded run shows one rank and no collective"},
        {"--device dgx-h100", "recorded on 'X', which is not a known device"},
        {"--from-device dgx-h100", "--from-device names the recorded device"},
        {"--kernel-classes /nowhere", "/nowhere"},
        {"-c dgx-h100", "--as-recorded keeps them and uses only the cluster's network"},
        {"-c dgx-h100 --as-recorded", "-c: the traces contain no collective"},
        {"--bucket-cap 1MiB", "no buckets to change"},
    };

    fixture_put(fixture_path("trace.json"), trace_text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[128];
        int rc;
        snprintf(args, sizeof args, "sim --replay trace.json --no-db %s", cases[i].options);
        has(lapwing(args, &rc), cases[i].says);
        assert_true(rc == 1 || rc == 2);
    }
    expect("sim --device dgx-h100 --no-db", 2, "needs a plan file or a workload");
}

/* A kernel of 10 that no op waits for, and a copy that is launched much later. */
static const char bound_text[] =
    "{\"deviceProperties\": [{\"name\": \"NVIDIA A100-SXM4-80GB\"}], \"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":0,\"dur\":190},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":5,\"args\":{\"correlation\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaMemcpyAsync\",\"pid\":1,\"tid\":1,"
    "\"ts\":150,\"dur\":5,\"args\":{\"correlation\":2}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"elementwise\",\"pid\":0,\"tid\":7,\"ts\":15,"
    "\"dur\":10,\"args\":{\"correlation\":1,\"stream\":7}},"
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoD\",\"pid\":0,\"tid\":7,\"ts\":155,"
    "\"dur\":10,\"args\":{\"correlation\":2,\"stream\":7}}]}";

/* The copy at the end is launched at 150 whatever the kernel takes. */
TEST(a_change_off_the_critical_path_is_refused_with_the_reason)
{
    fixture_put(fixture_path("bound.json"), bound_text);
    expect("sim --replay bound.json --no-db --device dgx-h100", 1,
           "none of them is on the critical");
}

/* Steps of 100 us on the host of an A100, which launches a kernel of the given length 80 us into
 * each. */
static void put_steps(const char *file, const int *kernel_us, int n)
{
    char text[4096];
    size_t at = (size_t)snprintf(text, sizeof text, "{\"deviceProperties\": [{\"name\": \"NVIDIA "
                                                    "A100-SXM4-80GB\"}], \"traceEvents\": [");
    int begin = 85; /* of the next kernel */

    for (int k = 0; k < n; k++) {
        begin = begin > 100 * k + 85 ? begin : 100 * k + 85;
        at += (size_t)snprintf(
            text + at, sizeof text - at,
            "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\","
            "\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":100},{\"ph\":\"X\",\"cat\":\"cuda_runtime\","
            "\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":5,\"args\":"
            "{\"correlation\":%d}},{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"elementwise\","
            "\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"correlation\":%d,"
            "\"stream\":7}}",
            k > 0 ? "," : "", k, 100 * k, 100 * k + 80, k + 1, begin, kernel_us[k], k + 1);
        begin += kernel_us[k];
    }
    snprintf(text + at, sizeof text - at, "]}");
    fixture_put(fixture_path(file), text);
}

/* The kernels end at 95, 193, 287 us: periods of 98 and 94, in which each step's kernel counts
 * against the one before. An H100 has 3350 / 2039 of the bandwidth, and the host's 100 us remain. A
 * device that is busy all the time takes the host's 100 us a step where it took 150. */
TEST(another_device_under_a_host_that_sets_the_period_is_refused)
{
    const int pauses[] = {10, 8, 2}, full[] = {150, 150, 150, 150};

    put_steps("pauses.json", pauses, 3);
    expect("sim --replay pauses.json --no-db", 0, "recorded 96.000 us");
    expect("sim --replay pauses.json --no-db --device dgx-h100", 1,
           "in every step the device waits for the host");
    put_steps("full.json", full, 4);
    expect("sim --replay full.json --no-db --device dgx-h100", 0,
           "predicted 100.000 us, recorded 150.000 us");
    expect("sim --replay full.json --no-db --device dgx-h100", 0, "changes by -33.33 %");
}

/* The kernel waited for the copy on another stream, and no call in the trace says so. */
static const char missed_text[] =
    "{\"deviceProperties\": [{\"name\": \"NVIDIA A100-SXM4-80GB\"}], \"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":0,\"dur\":40},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaMemcpyAsync\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":5,\"args\":{\"correlation\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":20,\"dur\":5,\"args\":{\"correlation\":2}},"
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoD\",\"pid\":0,\"tid\":9,\"ts\":15,"
    "\"dur\":160,\"args\":{\"correlation\":1,\"stream\":9}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":175,"
    "\"dur\":100,\"args\":{\"correlation\":2,\"stream\":7}}]}";

/* The copy ends at 175, the kernel, which waits for nothing known, at 125: 175 instead of 275. */
TEST(a_replay_that_misses_the_recording_answers_no_what_if)
{
    fixture_put(fixture_path("missed.json"), missed_text);
    has(lapwing("sim --replay missed.json --no-db --format json", NULL),
             "\"answers_what_ifs\": false");
    has(lapwing("sim --replay missed.json --no-db --format json", NULL),
             "\"period_error_pct\": -36.3636");
    expect("sim --replay missed.json --no-db --device dgx-h100", 1,
           "misses the recorded period by -36.36 % before anything is changed (at most 1 % is "
           "accepted): its ops wait for something that the trace does not show; most of it before "
           "'gemm' of rank 0, which begins 150.000 us earlier; --force answers with that error");
}

/* As above with a kernel of 300: 325 instead of 475; by 19.5 / 67 TFLOP/s 87.3, so 175 of the copy
 * remain. */
TEST(a_forced_what_if_states_the_error_of_the_replay)
{
    char text[sizeof missed_text];

    snprintf(text, sizeof text, "%s", missed_text);
    memcpy(strstr(text, "\"dur\":100"), "\"dur\":300", 9);
    fixture_put(fixture_path("forced.json"), text);
    expect("sim --replay forced.json --no-db --device dgx-h100 --force", 0,
           "predicted 175.000 us, recorded 475.000 us, replayed without the change 325.000 us "
           "(-31.58 % off): it changes by -46.15 %, on a replay that is -31.58 % off");
    has(lapwing("sim --replay forced.json --no-db --device dgx-h100 --force --format json", NULL),
        "\"unchanged_error_pct\": -31.5789");
    expect("sim --force", 2, "--force needs --replay");
}

/* --as-recorded is about a cluster's network; it and --device exclude each other. */
TEST(as_recorded_that_changes_nothing_is_wrong_usage)
{
    fixture_put(fixture_path("bound.json"), bound_text);
    expect("sim --replay bound.json --no-db --as-recorded", 2, "give that cluster (-c NAME)");
    expect("sim --replay bound.json --no-db --as-recorded --device dgx-h100 -c dgx-h100", 2,
           "give only one of them");
}

static bool kineto_is_there(void)
{
    bool there = access("../shared/traces/kineto", R_OK) == 0;

    if (!there)
        print_message("SKIP: ../shared/traces/kineto is not there\n");
    return there;
}

/* Seven ranks wait for one that starts last: the step counts from it. */
TEST(a_rank_that_starts_early_has_a_longer_period)
{
    static const char why[] = "a rank's period counts from its own end of the step before";

    if (!kineto_is_there())
        skip();
    expect("sim --replay $P/../shared/traces/kineto/dlrm_8gpu_rank?.json.gz --db dlrm.db", 0, why);
    expect("explain 1 --db dlrm.db", 0, why);
    expect("explain 1 --db dlrm.db", 0,
           "step 1: 13.156 ms; every moment of rank 1's period of 19.736 ms charged to one cause");
    expect("explain 1 --db dlrm.db", 0, "the 10 longest of 611 pieces; the others take 9.468 ms");
    assert_int_equal(atoi(shell("$L explain 1 --db dlrm.db | wc -l", NULL)), 48);
    assert_true(atoi(shell("$L explain 1 --db dlrm.db --all | wc -l", NULL)) > 611);
}

#define LINEAR "$L sim --no-db --replay $P/../shared/traces/kineto/linear_1gpu.json.gz "

/* Rank 0 waits for rank 1 in a gradient all-reduce over gloo. */
TEST(a_recorded_group_that_sums_gradients_is_data_parallel)
{
    const char *out = lapwing("sim --replay $R/gpt6__gloo2__cap5.rank0.json.gz "
                              "$R/gpt6__gloo2__cap5.rank1.json.gz -q --format json --no-db", NULL);
    const char *ranks = strstr(out, "\"rank\": 0");

    assert_non_null(ranks);
    assert_true(number_after(ranks, "\"wait_data_ns\": ") > 0);
    assert_true(number_after(ranks, "\"wait_other_ns\": ") == 0);
}

TEST(ten_of_many_steps_are_printed)
{
    if (!kineto_is_there())
        skip();
    assert_int_equal(atoi(shell(LINEAR "| grep -c '^  step [0-9]'", NULL)), 10);
    assert_int_equal(atoi(shell(LINEAR "--all | grep -c '^  step [0-9]'", NULL)), 40);
}

TEST_GROUP(fixture_open, fixture_close)
