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

/* dgx-h100 with an interference term in its file. */
static void put_cluster(const char *term)
{
    char to[300];

    expect("cluster dgx-h100 -o given.json", 0, "");
    char *text = fixture_written(fixture_path("given.json"));
    snprintf(to, sizeof to, "\"interference\": {%s}, \"published", term);
    char *with = fixture_replaced(text, "\"published", to);
    fixture_put(fixture_path("c.json"), with);
    free(with);
    free(text);
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

/* A cluster's comm_sms, held by each collective from its entry on, is of kernels; so are the rates
 * that were measured of compute beside them (published: Lee et al. of NCCL's). */
TEST(neither_stated_sms_nor_measured_rates)
{
    static const char *const stated[] = {
        "\"comm_sms\": {\"value\": 20, \"source\": \"a test\"}",
        "\"compute_rate_under_comm\": {\"value\": 0.8, \"source\": \"a test\"}"};
    static const char *const details[] = {"collective", "chunk"};
    char run[300];

    for (int i = 0; i < 4; i++) {
        put_cluster(stated[i % 2]);
        snprintf(run, sizeof run, "-w llama-3-8b -c c.json --tp 8 --sequence-parallel on "
                                  "--seq 4096 %s --detail %s",
                 i / 2 ? "--collective-algorithm ring" : "", details[i / 2]);
        long long with = step_ns(run, "copies", "off"), pieces = step_ns(run, "pieces", "off");
        put_cluster("");
        assert_int_equal(with, step_ns(run, "pieces", "off"));
        assert_true(pieces > with);
    }
    snprintf(run, sizeof run, "-w llama-3-8b -c dgx-h100 --tp 8 --sequence-parallel on --seq 4096");
    assert_int_equal(step_ns(run, "copies", "published"), step_ns(run, "copies", "off"));
    assert_true(step_ns(run, "pieces", "published") > step_ns(run, "pieces", "off"));
}

/* What has no channels is told as what it is. */
TEST(channels_are_not_used)
{
    EXPECT("sim -w llama-3-8b -c dgx-h100 --tp 8 --sequence-parallel on --no-db --tp-overlap",
           {"copies", 0, "not used: all collectives of the plan go by copy engines",
            .lacks = "the plan has no collective"},
           {"copies --dp 2 --zero 3", 0, "sms_per_channel = 1", .lacks = "not used"},
           {"pieces", 0, "sms_per_channel = 1", .lacks = "not used"});
}

/* Nor has what a cluster states of kernels: SMs, and measured rates of compute. */
TEST(stated_terms_are_not_used)
{
    static const char *const stated[] = {
        "\"comm_sms\": {\"value\": 20, \"source\": \"a test\"}",
        "\"compute_rate_under_comm\": {\"value\": 0.8, \"source\": \"a test\"}"};
    static const char *const details[] = {"collective", "chunk --collective-algorithm ring"};

    for (int i = 0; i < 4; i++) {
        char command[200];
        put_cluster(stated[i % 2]);
        snprintf(command, sizeof command, "sim -w llama-3-8b -c c.json --sequence-parallel on "
                                          "--no-db --detail %s", details[i / 2]);
        EXPECT(command,
               {"--tp 8 --tp-overlap copies", 0,
                "(a test), not used: all collectives of the plan go by copy engines"},
               {"--tp 8 --tp-overlap pieces", 0, "(a test)", .lacks = "not used"},
               {"--tp 8 --tp-overlap copies --dp 2", 0, "(a test)", .lacks = "not used"},
               {"--tp 8 --tp-overlap copies --pp 2", 0, "(a test)", .lacks = "not used"},
               {"--sequence-parallel off", 0, "(a test), not used: the plan has no collective"});
    }
}

/* Two nodes of 8; and one node of 8, of whose plan without sequence parallelism all sums are
 * all-reduces. */
TEST(copy_engines_do_not_cross_nodes)
{
    static const char two[] = "-w llama-2-7b -c dgx-a100 --tp 16 --seq 16384 "
                              "--sequence-parallel on";

    assert_int_equal(step_ns(two, "copies", "channels"), step_ns(two, "pieces", "channels"));
    assert_true(step_ns(two, "copies", "channels") > step_ns(two, "copies", "off"));
    EXPECT("sim -w llama-2-7b -c dgx-h100 --sequence-parallel on --no-db --tp-overlap",
           {"copies --tp 16", 0, "a tensor group is on several nodes"},
           {"copies --tp 8", 0, "go by copy engines", .lacks = "several nodes"},
           {"pieces --tp 16", 0, "dgx-h100", .lacks = "copy engines"});
    EXPECT("plan -w llama-2-7b -c dgx-h100 --tp 8 --tp-overlap",
           {"copies --sequence-parallel on", 0, "of the products beside them, by copy engines",
            .lacks = "copy engines move none"},
           {"copies", 0, "copy engines move none", .lacks = "by copy engines"},
           {"pieces", 0, "of the products beside them", .lacks = "copy engines"});
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
