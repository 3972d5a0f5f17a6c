/* Gradients take room from their backward to the optimizer's end, unless a buffer holds them. The
 * workload: modules a and b of MODULE elements each (f32, sgd: no state) that keep KEPT bytes until
 * their backward; with W = 4 MODULE bytes of weights of each:
 *
 *   end of the forward   2 W + 2 KEPT
 *   backward of b        2 W + 2 KEPT + W
 *   backward of a        2 W + KEPT + 2 W
 *
 * From the second micro-batch on all sums are there, and a new gradient of W beside its own. */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

enum { MODULE = 1 << 20, W = 4 * MODULE, KEPT = 8 << 20 };

/* fields: of the workload; more: of the last parameter, and further ones. */
static void put_fields(const char *name, int64_t kept, const char *fields, const char *more)
{
    char text[2048];

    snprintf(text, sizeof text,
             "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"peak\",\"batch\":1,%s"
             "\"optimizer\":\"sgd\",\"optimizer_ns\":1000,\"modules\":["
             "{\"name\":\"a\",\"forward_ns\":1000,\"backward_input_ns\":1000,"
             "\"backward_weight_ns\":1000,\"output_bytes\":1024,\"kept_bytes\":%lld},"
             "{\"name\":\"b\",\"forward_ns\":1000,\"backward_input_ns\":1000,"
             "\"backward_weight_ns\":1000,\"output_bytes\":1024,\"kept_bytes\":%lld}],"
             "\"params\":[{\"name\":\"a.w\",\"numel\":%d,\"module\":0},"
             "{\"name\":\"b.w\",\"numel\":%d,\"module\":1%s}]}",
             fields, (long long)kept, (long long)kept, MODULE, MODULE, more);
    fixture_put(fixture_path(name), text);
}

static void put_workload(const char *name, int64_t kept, const char *more)
{
    put_fields(name, kept, "", more);
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
        {"--dp 1 --micro-batches 2", 4 * W + 2 * KEPT + W}, /* and the second one of b */
        {"--dp 1 --no-sync 1", 4 * W + 2 * KEPT + W},
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
                     7 * W + 2 * KEPT);
}

/* From the second micro-batch on a gradient is made beside the sum that it is added to, so the
 * backward of b, in which both modules' activations are alive, has one more. */
TEST_WITH(a_new_gradient_is_beside_its_sum, fixture_open, fixture_close)
{
    static const struct {
        const char *options;
        int64_t bytes;
    } cases[] = {
        {"--dp 1 --micro-batches 3", 5 * W + 2 * KEPT},
        {"--dp 2 --micro-batches 2", 7 * W + 2 * KEPT}, /* and buckets */
        {"--dp 2 --no-sync 2", 7 * W + 2 * KEPT},
        {"--dp 2 --zero 1 --micro-batches 2", 5 * W + 2 * KEPT},
        {"--dp 2 --micro-batches 2 --gradient-as-bucket-view on", 5 * W + 2 * KEPT},
        {"--dp 2 --no-sync 1 --gradient-as-bucket-view on", 5 * W + 2 * KEPT},
        {"--dp 2 --micro-batches 2 --framework torch-ddp", 7 * W + 2 * KEPT},
        /* products add to the sums; shares are added where they are reduced */
        {"--dp 1 --micro-batches 2 --framework megatron-lm", 4 * W + 2 * KEPT},
        {"--dp 2 --micro-batches 2 --zero 2", 3 * W + 2 * KEPT + 2 * W},
    };

    put_workload("peak.json", KEPT, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(peak("peak.json", cases[i].options), cases[i].bytes);
}

/* Parameters of a module are added one after the other: the largest counts. */
TEST_WITH(one_parameter_is_added_at_a_time, fixture_open, fixture_close)
{
    char more[128];

    snprintf(more, sizeof more, "},{\"name\":\"b.v\",\"numel\":%d,\"module\":1", MODULE / 2);
    put_workload("two.json", KEPT, more);
    assert_int_equal(peak("two.json", "--dp 1"), 3 * W + 2 * KEPT + W);
    assert_int_equal(peak("two.json", "--dp 1 --micro-batches 2"), 5 * W + 2 * KEPT + W);
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

/* When the gradient of b is made, the loss has freed W / 2 of what it keeps of the 1,024 x 512
 * scores, of which gradients of 4 bytes stay. A part that waits comes when all of the loss has
 * gone. */
TEST_WITH(the_loss_frees_its_scores_before_the_heads_gradient, fixture_open, fixture_close)
{
    char dims[256];

    snprintf(dims, sizeof dims,
             "\"dims\":{\"hidden\":1,\"vocab\":1024,\"seq\":512,\"batch\":1,\"score_bytes\":%d},",
             4 * 1024 * 512 + W / 2);
    put_fields("loss.json", KEPT, dims, "");
    assert_int_equal(peak("loss.json", "--dp 1 --micro-batches 2"), 4 * W + 2 * KEPT + W - W / 2);
    put_fields("loss.json", KEPT, dims, ",\"tied\":0");
    assert_int_equal(peak("loss.json", "--dp 1 --micro-batches 2"), 2 * W + 2 * KEPT + W - W / 2);
    put_fields("loss.json", W / 2, dims, ",\"tied\":0");
    assert_int_equal(peak("loss.json", "--dp 1 --micro-batches 2"), 4 * W + W / 2);
}

/* Autograd adds what both modules make of a tied gradient before it adds that to .grad: the part of
 * b waits for that of a. Activations of W / 2: the peak is in the backward of a. */
TEST_WITH(parts_of_a_tied_gradient_wait_for_the_last, fixture_open, fixture_close)
{
    put_workload("tied.json", KEPT, ",\"tied\":0");
    assert_int_equal(peak("tied.json", "--dp 1 --micro-batches 2"), 3 * W + 2 * KEPT);
    put_workload("tied.json", W / 2, ",\"tied\":0");
    assert_int_equal(peak("tied.json", "--dp 1"), 3 * W + W / 2); /* both parts */
    assert_int_equal(peak("tied.json", "--dp 1 --micro-batches 2"), 4 * W + W / 2);
    assert_int_equal(peak("tied.json", "--dp 1 --no-sync 1"), 4 * W + W / 2);
}

/* What is never made takes nothing: the weights of b are frozen, or never used. */
TEST_WITH(gradients_that_are_never_made_take_no_room, fixture_open, fixture_close)
{
    put_workload("frozen.json", KEPT, ",\"trainable\":false");
    assert_int_equal(peak("frozen.json", "--dp 1"), 2 * W + 2 * KEPT);
    put_workload("unused.json", KEPT, ",\"used\":false");
    assert_int_equal(peak("unused.json", "--dp 1"), 2 * W + 2 * KEPT);
}
