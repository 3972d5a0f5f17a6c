/* A recording of an own script, asked for another device, as a user does. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

/* In units of the last word of " 2.540 ms". */
static double figure(const char *text, const char *after, const char *unit)
{
    const char *at = strstr(text, after);
    char *end;

    assert_non_null(at);
    double value = strtod(at + strlen(after), &end);
    assert_int_equal(strncmp(end + 1, unit, strlen(unit)), 0);
    return value;
}

static double compute_of(const char *args)
{
    int rc;
    char *text = strdup(lapwing(args, &rc));

    if (rc != 0)
        fail_msg("%s", text);
    double ms = figure(text, "\n  compute", "ms");
    free(text);
    return ms;
}

/* Products and attention of a CPU's recording take on an H200 what the model of these sizes takes:
 * the rest, its launches, differs by what the script does. */
TEST(a_recording_of_a_cpu_is_timed_as_the_model_of_its_sizes)
{
    lapwing("import $R/gpt6__local.rank0.json.gz -o g.json", NULL);
    double own = compute_of("sim -w g.json --device dgx-h200 -c dgx-h200 --framework ideal "
                            "--no-db");
    double model = compute_of("sim -w gpt2 --layers 6 --hidden 256 --heads 4 --vocab 8192 --seq 64 "
                              "--batch 4 --dtype f32 --optimizer momentum --attention flash "
                              "--framework ideal --device dgx-h200 -c dgx-h200 --no-db");
    print_message("own %.3f ms, model %.3f ms\n", own, model);
    assert_true(own > 0.9 * model && own < 1.1 * model);
}

/* A device's own times stay; another device's are theirs by the ratio of the operators. */
TEST(a_recording_of_a_device_keeps_its_times_there)
{
    lapwing("import $R/h200/gpt2__nccl1__capdefault.rank0.json.gz -o h.json", NULL);
    double kept = compute_of("sim -w h.json -c dgx-h200 --no-db");
    double same = compute_of("sim -w h.json --device dgx-h200 -c dgx-h200 --no-db");
    double other = compute_of("sim -w h.json --device dgx-h100 -c dgx-h100 --no-db");
    assert_true(kept == same);
    /* no faster than by the peak, which is equal, and no slower than by bandwidth, 4.8 to 3.35 */
    assert_true(other > kept && other < kept * 4.8 / 3.35);
}

TEST(assumptions_and_refusals_are_said)
{
    shell("$L import $R/gpt6__local.rank0.json.gz -o a.json && "
          "sed -e '/\"ops\": \\[$/,/^  ],/d' -e 's/, \"ops\": \\[[^]]*\\]//' a.json > bare.json",
          NULL);
    EXPECT("sim -w",
           {"a.json --device dgx-h100 -c dgx-h100 --dp 8 --no-db", 0,
            "75 products and 12 attention kernels by shape"},
           {"a.json --device dgx-h100 -c dgx-h100 --dp 8 --no-db", 0,
            "the host takes 28.9 us to launch each of them"},
           {"a.json -c dgx-h100 --dp 8 --no-db", 1, "--device dgx-h100 times it"},
           {"a.json --device dgx-h100 --from-device nosuch -c dgx-h100 --no-db", 1, "nosuch"},
           {"bare.json --device dgx-h100 -c dgx-h100 --no-db", 1, "record_shapes=True"});
}

TEST_GROUP(fixture_open, fixture_close)
