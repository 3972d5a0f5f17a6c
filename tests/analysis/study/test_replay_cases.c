/* Recordings that were answered wrongly (../shared/cases/replay, with the derivation of each right
 * value), as a user asks about them. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define CASES "../shared/cases/replay"
#define AT "$P/" CASES "/"
#define MI300 "$P/../shared/traces/kineto/ddp_resnet18_8xMI300_rank0.json.gz"

static void need_cases(void)
{
    if (access(CASES, R_OK) == 0)
        return;
    print_message("SKIP: %s is absent\n", CASES);
    skip();
}

/* The predicted period of a replay, in us. */
static double period_us(const char *files_and_options)
{
    const char *out = lapwingf("sim --replay %s --no-db -q --format json", files_and_options);

    return number_after(out, "\"predicted_period_ns\": ") / 1000;
}

static double change_pct(const char *files_and_options)
{
    const char *out = lapwingf("sim --replay %s --no-db -q --format json", files_and_options);

    return number_after(out, "\"what_if_change_pct\": ");
}

#define assert_near(value, want, within)                                                           \
    do {                                                                                           \
        double got_ = (value);                                                                     \
        if (fabs(got_ - (want)) > (within))                                                        \
            fail_msg("%s: %.3f, expected %.3f", #value, got_, (double)(want));                     \
    } while (0)

/* One bucket of 9.6 ms where two of 6.7 and 8.7 ms were recorded; no host wait is put in. */
TEST(a_devices_bucket_what_if_has_the_right_sign)
{
    need_cases();
    assert_near(change_pct(MI300 " --bucket-cap 50MiB"), -8.5, 1);
    assert_near(change_pct(MI300 " --bucket-cap 12MiB"), 1.6, 1);
    /* the waiting for peers is not charged to each of 9, 24 and 36 buckets */
    assert_near(change_pct(MI300 " --bucket-cap 5MiB"), 0, 3);
    assert_near(change_pct(MI300 " --bucket-cap 1MiB"), 0, 3);
    assert_near(change_pct(MI300 " --bucket-cap 512KiB"), 0, 3);
    assert_near(period_us(MI300 " --first-bucket 1MiB --bucket-cap 25MiB"), period_us(MI300), 0);
}

/* The note names the assumption that parts the replay from import and sim. */
TEST(a_bucket_what_if_says_how_buckets_are_timed)
{
    need_cases();
    expect("sim --replay " MI300 " --bucket-cap 1MiB --no-db", 0,
           "is taken as waiting for other ranks at their last gradient and stays there ('import "
           "--cluster-out' counts it as latency of every bucket");
}

/* 30 ms of sgemm by 19.5 / 67 TFLOP/s, 10 ms of memory by 2039 / 3352 GB/s, and 0.2 ms. */
TEST(a_synchronisation_each_step_does_not_bind_the_step_to_the_host)
{
    need_cases();
    assert_near(period_us(AT "sync_each_step.json --device dgx-h100"), 15000, 50);
    assert_near(period_us(AT "sync_each_step_plus_short_sync.json --device dgx-h100"), 15000, 50);
    /* and another device is another step: memory by 2039 / 4800 */
    assert_near(period_us(AT "sync_each_step.json --device dgx-h200"), 13200, 50);
}

/* bf16 products scale by 1307 / 989 = 1.32, not by the ratio of f32 peaks, 2.44; memory by 1.58. */
TEST(the_type_of_a_product_is_that_of_the_launching_op)
{
    need_cases();
    const char *out =
        lapwing("sim --replay " MI300 " --device dgx-h100 --no-db -q --format json", NULL);
    assert_near(number_after(out, "\"what_if_change_pct\": "), 6.9, 0.5);
    has(out, "27 kernels bound by arithmetic, 2.2 % of the kernels' time, tell no type");
}

/* 15.9 ms is the host's: with that network the device catches up with it. */
TEST(unsized_collectives_outside_the_measured_steps_keep_their_time)
{
    need_cases();
    assert_near(period_us(MI300 " -c mi300x"), 15900, 100);
    expect("sim --replay " MI300 " -c mi300x --no-db", 0,
           "5 collectives of unknown size outside the measured steps keep their recorded time");
}

/* With clocks 5 ms apart the step divides as with aligned ones. */
TEST(clocks_that_differ_are_corrected)
{
    static const char *const of[][2] = {
        {AT "skew_rank0.json " AT "skew_rank1_5ms.json",
         AT "skew_rank0.json " AT "skew_rank1_aligned.json"},
        {AT "ddp_rank0_clock+0.json " AT "ddp_rank1_clock+5000.json", NULL},
    };

    need_cases();
    for (size_t i = 0; i < 2; i++) {
        char args[512];
        snprintf(args, sizeof args, "sim --replay %s --no-db -q --format json", of[i][0]);
        const char *out = lapwing(args, NULL);
        assert_near(number_after(out, "\"predicted_period_ns\": "), 700000, 7000);
        assert_near(number_after(out, "\"predicted_host_ns\": "), 700000, 7000);
        has(out, "clocks of the ranks differ by up to 5.000 ms");
        double period = number_after(out, "\"predicted_period_ns\": ");
        if (of[i][1])
            assert_near(period_us(of[i][1]), period / 1000, 0.001);
        /* 100 us of waiting for the other rank, 200 of transfer, as when aligned */
        snprintf(args, sizeof args, "sim --replay %s --no-db", of[i][0]);
        expect(args, 0, "transfers, exposed         200.000 us");
        expect(args, 0, "wait, other                100.000 us");
    }
}

TEST(two_devices_of_a_file_are_two_devices)
{
    need_cases();
    assert_near(period_us(AT "dataparallel_two_devices_one_process.json"), 700, 7);
    expect("inspect " AT "dataparallel_two_devices_one_process.json", 0, "ops of 2 devices");
}

TEST(without_steps_all_threads_bound_the_trace)
{
    need_cases();
    const char *out =
        lapwing("sim --replay " AT "no_step_two_threads.json --no-db -q --format json", NULL);
    assert_near(number_after(out, "\"recorded_period_ns\": "), 1420000, 0);
    assert_near(number_after(out, "\"predicted_period_ns\": "), 1420000, 7000);
}

TEST(merged_ranks_are_refused_with_that_reason)
{
    need_cases();
    expect("inspect " AT "fusion_two_ranks_one_file.json", 1,
           "fusion_two_ranks_one_file.json: processes 1000 and 1001 both have their own "
           "ProfilerStep#0: ranks of a run that were merged into one file");
}

TEST(an_event_with_ts_0_is_set_aside)
{
    need_cases();
    expect("inspect " AT "kineto109_ts_zero.json", 0, "note: 1 event with ts 0 set aside");
}

TEST(names_as_profilers_write_them_are_read)
{
    need_cases();
    expect("inspect " AT "pt113001_quotes.json", 0, "3 steps by ProfilerStep#N");
    expect("inspect " AT "pt113001_quotes.json", 0,
           "note: names hold 5 raw control characters, quotes or backslashes");
}

TEST(lost_kernels_are_counted_and_named)
{
    need_cases();
    expect("inspect " AT "pt192021_lost_kernels.json", 0, "6 launches without a device op");
    expect("sim --replay " AT "pt192021_lost_kernels.json --no-db", 0,
           "6 launches have no device op: the recorder lost their kernels");
}

TEST(one_shot_all_reduces_are_communication)
{
    need_cases();
    const char *out =
        lapwing("inspect " AT "tracelens547_custom_allreduce.json --format json", NULL);
    const char *comm = strstr(out, "\"comm\": ");
    assert_non_null(comm);
    assert_near(number_after(comm, "\"n\": "), 3, 0);
    assert_near(number_after(comm, "\"total_ns\": "), 300000, 0);
}

/* 200 steps of 100 us, a kernel of 50 in each; the second half of each kernel pair is queued 2 us
 * after the first. */
TEST(many_steps_are_summarized_and_the_devices_gap_is_stated)
{
    static char text[400 * 400];
    size_t n = 0;

    n += (size_t)snprintf(text, sizeof text, "{\"traceEvents\": [");
    for (int k = 0; k < 200; k++) {
        int t = 100 * k;
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                              "\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":90}",
                              k ? "," : "", k, t);
        for (int i = 0; i < 2; i++)
            n += (size_t)snprintf(
                text + n, sizeof text - n,
                ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,"
                "\"tid\":1,\"ts\":%d,\"dur\":2,\"args\":{\"correlation\":%d}},"
                "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,"
                "\"ts\":%d,\"dur\":20,\"args\":{\"correlation\":%d,\"stream\":7}}",
                t + 1 + 3 * i, 2 * k + i + 1, t + 10 + 22 * i, 2 * k + i + 1);
    }
    snprintf(text + n, sizeof text - n, "]}");
    fixture_put(fixture_path("many.json"), text);
    expect("inspect many.json", 0, "the 20 longest of 200 steps; --all prints every one");
    assert_true(count_words(lapwing("inspect many.json", NULL), "\n") < 110);
    assert_true(count_words(lapwing("inspect many.json --all", NULL), "\n") > 800);
    expect("sim --replay many.json --no-db", 0,
           "the device leaves 2.000 us between an op and the next one queued on its stream (median "
           "of 200, 0.400 ms together): the replay leaves none");
}

/* Buckets by two roads: a replay with other caps, and the imported workload and cluster. With one
 * bucket for all they agree; with more and smaller ones both say what parts them. By hand: the
 * rows are 5.48 MiB in 6.678 and 16.82 MiB in 8.657 ms, 0.1746 ms per MiB and 5.722 ms, of which
 * twice the shortest collective (5.879 us) is latency: 5.710 ms. */
TEST(two_roads_to_other_buckets_agree_or_say_what_parts_them)
{
    static const char road[] = "sim -w w.json -c c.json --as-recorded --dp 8 --no-db -q ";

    need_cases();
    shell("$L import " MI300 " -o w.json --cluster-out c.json --force", NULL);
    has(lapwing("import " MI300 " --cluster-out c.json --force", NULL),
        "5.710 ms of each do not grow with the bytes and count in every bucket");
    const char *out =
        lapwingf("%s --bucket-cap 50MiB --first-bucket 50MiB --format json", road);
    double planned = number_after(out, "\"step_ns\": ") / 1000;
    assert_near(planned, period_us(MI300 " --bucket-cap 50MiB"), 0.05 * planned);
    has(lapwingf("%s --bucket-cap 1MiB --first-bucket 1MiB", road),
        "below 5.48 MiB, the smallest recorded, the time stays 6.678 ms, in a replay");
    out = lapwing("sim --no-db --replay " MI300 " --bucket-cap 1MiB", NULL);
    has(out, "24 new buckets are below 5.48 MiB, the smallest recorded one");
    has(out, "'import --cluster-out' counts it as latency of every bucket");
}

TEST_GROUP(fixture_open, fixture_close)
