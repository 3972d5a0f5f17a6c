/* Recordings of a device predict the step without the profiler, which their sidecars have. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const struct {
    const char *name;
    double unprofiled_ms; /* traces/recorded/h200/README.md */
} recordings[] = {{"gpt2__nccl1__capdefault", 40.0},
                  {"gpt2__nccl1__cap1", 44.9},
                  {"resnet50__nccl1__capdefault", 39.4},
                  {"resnet50__nccl1__cap1", 34.8}};
enum { N = sizeof recordings / sizeof *recordings };

static double pct(double is, double should)
{
    return 100 * (is - should) / should;
}

TEST_WITH(a_workload_is_of_the_step_without_the_profiler, fixture_open, fixture_close)
{
    for (int i = 0; i < N; i++) {
        const char *out = lapwingf("import $R/h200/%s.rank0.json.gz -o w.json --format json",
                                   recordings[i].name);
        double step = number_after(out, "\"step_ns\": ") / 1e6;
        double wrapper = number_after(out, "\"excluded_ns\": ") / 1e6;
        print_message("%-28s imported %.2f + %.2f ms of the wrapper, measured %.1f ms (%+.1f %%)\n",
                      recordings[i].name, step, wrapper, recordings[i].unprofiled_ms,
                      pct(step + wrapper, recordings[i].unprofiled_ms));
        has(out, "host gaps scaled by 0.");
        assert_true(fabs(pct(step + wrapper, recordings[i].unprofiled_ms)) < 1);
        out = lapwing("sim -w w.json -c dgx-h200 --no-db -q --format json", NULL);
        assert_true(fabs(pct(number_after(out, "\"step_ns\": ") / 1e6 + wrapper,
                             recordings[i].unprofiled_ms)) < 1);
    }
    expect("import $R/h200/gpt2__nccl1__cap1.rank0.json.gz --as-traced -o w.json", 0,
           "55.466 ms, 4.023 ms left out");
}

TEST_WITH(a_what_if_changes_the_step_without_the_profiler, fixture_open, fixture_close)
{
    for (int i = 0; i < N; i++) {
        const char *out = lapwingf("sim --replay $R/h200/%s.rank0.json.gz --device dgx-a100 "
                                   "--no-db -q --format json", recordings[i].name);
        double unchanged = number_after(out, "\"unchanged_period_ns\": ") / 1e6;
        assert_true(fabs(pct(unchanged, recordings[i].unprofiled_ms)) < 0.2);
        assert_true(fabs(number_after(out, "\"unchanged_error_pct\": ")) < 1); /* as recorded */
        has(out, "host times scaled by 0.");
    }
    expect("sim --replay $R/h200/gpt2__nccl1__cap1.rank0.json.gz --no-db", 0,
           "without the profiler the step took 44.925 ms");
    const char *out = lapwing("sim --replay $R/h200/gpt2__nccl1__cap1.rank0.json.gz --no-db -q "
                              "--device dgx-a100 --as-traced --format json", NULL);
    assert_true(fabs(number_after(out, "\"unchanged_period_ns\": ") / 1e6 - 52.343) < 0.001);
    expect("sim -w gpt2 --as-traced", 2, "--as-traced needs --replay");
}

TEST_WITH(without_a_sidecar_the_profiled_step_is_predicted_and_said, fixture_open, fixture_close)
{
    shell("cp $R/h200/gpt2__nccl1__cap1.rank0.json.gz t.json.gz", NULL);
    expect("import t.json.gz -o w.json", 0,
           "times are of the profiled step, with what the profiler costs inside");
    expect("sim --replay t.json.gz --no-db", 0, "the host's times are those of the profiled step");
}
