/* --offload activations: shared/lower_ops/lower_offload.c, docs/design/memory.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_build.h"

/* Four modules of 1 ms a forward and 1 ms each half of a backward, each keeps 0.8 GB: 25 ms over a
 * link of 32 GB/s. */
static void put_modules(const char *name, double ms)
{
    char text[1600] = "";
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"w\",\"batch\":1,"
                                "\"optimizer\":\"sgd\",\"optimizer_ns\":0,\"modules\":[");

    for (int m = 0; m < 4; m++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s{\"name\":\"m%d\",\"forward_ns\":%.0f,\"backward_input_ns\":%.0f,"
                              "\"backward_weight_ns\":%.0f,\"output_bytes\":4,"
                              "\"kept_bytes\":800000000}", m ? "," : "", m, ms * 1e6, ms * 1e6,
                              ms * 1e6);
    n += (size_t)snprintf(text + n, sizeof text - n, "],\"params\":[");
    for (int m = 0; m < 4; m++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s{\"name\":\"m%d.w\",\"numel\":1,\"module\":%d}", m ? "," : "", m,
                              m);
    snprintf(text + n, sizeof text - n, "]}");
    fixture_put(fixture_path(name), text);
}

static int64_t peak_of(const char *arguments)
{
    char line[300];

    snprintf(line, sizeof line, "sim -w w.json -c dgx-a100 --dp 1 --no-db -q --format json %s",
             arguments);
    return (int64_t)number_after(lapwing(line, NULL), "\"peak_memory_bytes\": ");
}

/* Stores of the first three end 25 ms after their forward and each other, at 30 + 25 = 55, 85, 115
 * ms where a forward takes 30 ms; the last stays. Beside it one more is on the device: 1.6 GB and
 * 4 weights and gradients of 4 bytes. A step is the compute's. */
TEST_WITH(activations_move_beside_compute, fixture_open, fixture_close)
{
    put_modules("w.json", 30);
    assert_int_equal(peak_of(""), 4 * INT64_C(800000000) + 4 * 4 + 4);
    int64_t away = peak_of("--offload activations");
    assert_true(away >= INT64_C(1600000000) && away <= INT64_C(1600000000) + 4 * 8);
    expect("sim -w w.json -c dgx-a100 --dp 1 --no-db --offload activations", 0, "step 360.000 ms");
}

/* With forwards of 1 ms the link is all: three stores, then three loads, of 25 ms, the first store
 * after 1 ms, and after the last load the first module's backward of 2 ms. */
TEST_WITH(a_slow_link_is_the_step, fixture_open, fixture_close)
{
    put_modules("w.json", 1);
    expect("sim -w w.json -c dgx-a100 --dp 1 --no-db", 0, "step 12.000 ms");
    expect("sim -w w.json -c dgx-a100 --dp 1 --no-db --offload activations", 0, "step 153.000 ms");
    /* of one module: store to 26 ms, then its load to 51, as the backward of the next is over */
    expect("sim -w w.json -c dgx-a100 --dp 1 --no-db --offload activations --offload-layers 1", 0,
           "step 53.000 ms");
}

TEST_WITH(executed_copies_change_no_value, fixture_open, fixture_close)
{
    expect("exec -w mlp --width 128 --dp 2 --steps 3 --offload activations --no-db", 0,
           "verified: ");
    expect("exec -w mlp --width 128 --dp 2 --zero 3 --micro-batches 2 --steps 3 "
           "--offload activations --no-db",
           0, "verified: ");
}

TEST_WITH(what_is_not_planned_is_one_line, fixture_open, fixture_close)
{
    put_modules("w.json", 1);
    expect("sim -w w.json -c dgx-a100 --pp 2 --no-db --offload activations", 1,
           "--offload activations cannot be combined with --pp 2");
    expect("sim -w w.json -c dgx-a100 --recompute full --no-db --offload activations", 1,
           "--offload activations cannot be combined with --recompute");
    expect("sim -w w.json -c dgx-a100 --no-db --offload-layers 3", 1,
           "--offload-layers 3 is for --offload activations");
    expect("sim -w w.json -c l40s --no-db --offload activations", 1, "add the figure to its file");
    expect("sim -w w.json -c dgx-a100 --no-db --cpu-offloading", 2,
           "here it is --offload activations");
}
