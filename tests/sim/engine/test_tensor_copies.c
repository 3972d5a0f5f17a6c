/* --tp-overlap copies: the collectives of --tp-overlap pieces by copy engines, which take no SM. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

TEST_GROUP(fixture_open, fixture_close)

static long long number(const char *out, const char *key)
{
    const char *at = strstr(out, key);

    if (!at)
        fail_msg("no %s in: %.300s", key, out);
    return atoll(at + strlen(key));
}

static long long step_ns(const char *run, const char *overlap, const char *interference)
{
    return number(lapwingf("sim %s --tp-overlap %s --interference %s --no-db --format json", run,
                           overlap, interference),
                  "\"step_ns\": ");
}

/* With a tensor group alone its collectives are all that have channels: the step is that without
 * any; in pieces it is longer. */
TEST(a_tensor_group_takes_no_sm)
{
    struct prng r = prng_start("tensor groups by copies");

    for (int i = 0; i < 4; i++) {
        char run[200];
        snprintf(run, sizeof run, "-w llama-3-8b -c %s --tp %d --sequence-parallel on --seq %d",
                 prng_in(&r, 0, 1) ? "dgx-h100" : "dgx-a100", 2 << (int)prng_in(&r, 0, 2),
                 1024 * (int)prng_in(&r, 2, 8));
        long long off = step_ns(run, "pieces", "off");
        assert_int_equal(step_ns(run, "copies", "channels"), off);
        assert_int_equal(step_ns(run, "copies", "off"), off);
        assert_true(step_ns(run, "pieces", "channels") > off);
    }
}

/* A data group's gathers have their channels still. */
TEST(other_groups_take_theirs)
{
    static const char run[] = "-w llama-3-8b -c dgx-h100 --dp 2 --tp 8 --zero 3 "
                              "--sequence-parallel on";
    long long copies = step_ns(run, "copies", "channels");

    assert_true(copies > step_ns(run, "copies", "off"));
    assert_true(copies < step_ns(run, "pieces", "channels"));
}
