/* Gradients take room from their backward to the optimizer's end, unless a buffer holds them. The
 * workload: modules a and b of MODULE elements each (f32, sgd: no state) that keep KEPT bytes until
 * their backward; with W = 4 MODULE bytes of weights of each:
 *
 *   end of the forward   2 W + 2 KEPT
 *   backward of b        2 W + 2 KEPT + W
 *   backward of a        2 W + KEPT + 2 W */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

enum { MODULE = 1 << 20, W = 4 * MODULE, KEPT = 8 << 20 };

static void put_workload(const char *name, int64_t kept, const char *more)
{
    char text[2048];

    snprintf(text, sizeof text,
             "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"peak\",\"batch\":1,"
             "\"optimizer\":\"sgd\",\"optimizer_ns\":1000,\"modules\":["
             "{\"name\":\"a\",\"forward_ns\":1000,\"backward_input_ns\":1000,"
             "\"backward_weight_ns\":1000,\"output_bytes\":1024,\"kept_bytes\":%lld},"
             "{\"name\":\"b\",\"forward_ns\":1000,\"backward_input_ns\":1000,"
             "\"backward_weight_ns\":1000,\"output_bytes\":1024,\"kept_bytes\":%lld}],"
             "\"params\":[{\"name\":\"a.w\",\"numel\":%d,\"module\":0},"
             "{\"name\":\"b.w\",\"numel\":%d,\"module\":1%s}]}",
             (long long)kept, (long long)kept, MODULE, MODULE, more);
    fixture_put(fixture_path(name), text);
}

static int64_t peak(const char *file, const char *options)
{
    const char *out = lapwingf("sim -w %s -c dgx-a100 %s --no-db -q --format json", file, options);

    return (int64_t)number_after(out, "\"peak_memory_bytes\": ");
}

TEST_WITH(a_gradient_takes_room_from_its_backward_on, fixture_open, fixture_close)
{
    static const struct {
        const char *options;
        int64_t bytes;
    } cases[] = {
        {"--dp 1", 3 * W + 2 * KEPT},
        {"--dp 2", 3 * W + 2 * KEPT + 2 * W}, /* and buckets */
        {"--dp 2 --zero 1", 3 * W + 2 * KEPT},
        /* all of the first micro-batch's are there in the second's forward */
        {"--dp 1 --micro-batches 2", 4 * W + 2 * KEPT},
        {"--dp 1 --no-sync 1", 4 * W + 2 * KEPT},
        /* one bucket of both in the backward of b; no share before it is reduced */
        {"--dp 2 --zero 2", 2 * W + 2 * KEPT + 2 * W},
        /* halves of weights stay, and both modules' are gathered */
        {"--dp 2 --zero 3 --prefetch 0", W + W + 2 * KEPT + W},
    };

    put_workload("peak.json", KEPT, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(peak("peak.json", cases[i].options), cases[i].bytes);
    put_workload("small.json", W / 2, "");
    assert_int_equal(peak("small.json", "--dp 1"), 4 * W + W / 2); /* in the backward of a */
}

TEST_WITH(the_second_micro_batch_finds_gradients_of_the_first, fixture_open, fixture_close)
{
    put_workload("peak.json", KEPT, "");
    assert_int_equal(peak("peak.json", "--dp 2 --micro-batches 3 --sync-each-micro-batch on"),
                     6 * W + 2 * KEPT);
}

TEST_WITH(views_and_buffers_hold_gradients_throughout, fixture_open, fixture_close)
{
    put_workload("peak.json", KEPT, "");
    assert_int_equal(peak("peak.json", "--dp 2 --gradient-as-bucket-view on"), 4 * W + 2 * KEPT);
    assert_int_equal(peak("peak.json", "--dp 1 --framework megatron-lm"), 4 * W + 2 * KEPT);
    assert_int_equal(peak("peak.json", "--dp 1 --framework torch-ddp"), 3 * W + 2 * KEPT);
}

/* The gradient that b shares with a is made in the backward of b. */
TEST_WITH(a_tied_gradient_is_there_from_its_first_backward, fixture_open, fixture_close)
{
    put_workload("tied.json", KEPT, ",\"tied\":0");
    assert_int_equal(peak("tied.json", "--dp 1"), 2 * W + 2 * KEPT);
}

/* What is never made takes nothing: the weights of b are frozen, or never used. */
TEST_WITH(gradients_that_are_never_made_take_no_room, fixture_open, fixture_close)
{
    put_workload("frozen.json", KEPT, ",\"trainable\":false");
    assert_int_equal(peak("frozen.json", "--dp 1"), 2 * W + 2 * KEPT);
    put_workload("unused.json", KEPT, ",\"used\":false");
    assert_int_equal(peak("unused.json", "--dp 1"), 2 * W + 2 * KEPT);
}
