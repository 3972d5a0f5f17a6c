/* tests/gpu_check.sh from end to end against the fakes of tests/fake_gpu: what an owner of GPUs
 * runs and sends back. Nothing here was measured on a GPU. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/files/file_fixture.h"

static const char cluster[] =
    "{\"lapwing\": 1, \"kind\": \"cluster\", \"name\": \"c\", \"calibrated\": true,"
    " \"devices_per_node\": 4, \"device\": {\"kind\": \"gpu\", \"copy_bytes_per_s\":"
    " {\"value\": 1e9, \"source\": \"t\"}}, \"links\": [{\"name\": \"l\", \"level\": \"intra\","
    " \"bytes_per_s\": {\"value\": 1e9, \"source\": \"t\"},"
    " \"latency_ns\": {\"value\": 1000, \"source\": \"t\"},"
    " \"n_links\": {\"value\": 1, \"source\": \"t\"}}]}";

/* The script with these settings before it, against the fakes; its output and the names of what it
 * packed. */
static const char *check_as(const char *script, const char *settings, int *rc)
{
    char words[2048];

    snprintf(words, sizeof words,
             "echo '%s' >c.json; env LD_LIBRARY_PATH=%s PATH=$P/tests/fake_gpu:$PATH LAPWING=$L "
             "RESULTS=$PWD %s sh %s --quick; rc=$?; "
             "tar -tzf fake-gpu-x*.tar.gz; cat fake-gpu-x*/FAILED fake-gpu-x*/LEFT_OUT "
             "2>/dev/null; rm -rf fake-gpu-x*; exit $rc",
             cluster, getenv("LAPWING_FAKE_GPU"), settings, script);
    return shell(words, rc);
}

static const char *check(const char *settings, int *rc)
{
    return check_as("$P/tests/gpu_check.sh", settings, rc);
}

#ifndef __SANITIZE_ADDRESS__ /* minutes of products */
TEST(packs_one_file_of_one_gpu_and_of_two)
{
    static const char *const packed[] = {
        "send that file back", "/compare.txt", "/report.html", "/timeline.png", "/predicted.png",
        "/results.db", "/COMMANDS", "/TOOK", "/tensor-exec.txt", "/pipeline-1f1b-exec.txt",
        "/graph-exec.txt", "/clocks.csv", "/cluster.json", "/doctor.txt",
    };
    /* one GPU: as it is carried to a machine without compilers. LAPWING_MANY alone runs it,
     * because its calibration fills and copies gigabytes; else two GPUs are given the pack. */
    const bool many = unit_cases(0, 1);
    static const char *const settings[] = {"FAKE_GPU_COUNT=1 BUDGET=3000",
                                           "FAKE_GPU_COUNT=2 BUDGET=3000 CLUSTER=$PWD/c.json"};
    const char *const scripts[] = {"lapwing-gpu/run",
                                   many ? "$P/tests/gpu_check.sh" : "lapwing-gpu/run"};
    static const char *const honesty[] = {"nccl, emula", "nccl, real"};

    needs_fakes();
    shell("LAPWING=$L sh $P/tests/gpu_pack.sh $PWD/p.tar.gz && tar -xzf p.tar.gz", NULL);
    for (int i = many ? 0 : 1; i < 2; i++) {
        const char *out = check_as(scripts[i], settings[i], NULL);
        for (size_t k = 0; k < sizeof packed / sizeof *packed; k++)
            has(out, packed[k]);
        has(out, honesty[i]);
        has_not(out, "/FAILED");
        has_not(out, "/LEFT_OUT");
        if (i == 0)
            has(out, "/calibrate.txt");
    }
}
#endif

/* Rank 1 dies at its first op: runs of two ranks fail, the rest is measured, and all is packed. */
TEST(a_part_that_fails_is_named_and_the_rest_is_packed)
{
    int rc;

    needs_fakes();
    const char *out =
        check("FAKE_GPU_COUNT=2 CLUSTER=$PWD/c.json GRID=zero BUDGET=3000 FAKE_NCCL_LOSE=1:1", &rc);
    assert_int_equal(rc, 1);
    has(out, "/FAILED");
    has(out, "zero-2-exec.txt: status 1: ");
    has(out, "rank 1 was ended by signal 9");
    has_not(out, "one-exec.txt: status");
    has(out, "/one-exec.txt");
    has(out, "/results.db");
}

/* Without time for the grid its parts are listed; what there is is packed. */
TEST(parts_without_time_are_listed)
{
    int rc;

    needs_fakes();
    const char *out = check("FAKE_GPU_COUNT=2 CLUSTER=$PWD/c.json BUDGET=39", &rc);
    has(out, "/LEFT_OUT");
    has(out, "cap-25MiB: no time left: --dp 2 --bucket-cap 25MiB");
    has_not(out, "/cap-25MiB-exec.txt");
    has_not(out, "/graph-exec.txt");
}

TEST(a_machine_without_a_gpu_is_told_so)
{
    int rc;

    needs_fakes();
    const char *out = check("FAKE_GPU_COUNT=0", &rc);
    assert_int_equal(rc, 1);
    has(out, "the NCCL backend cannot run here");
}

TEST_GROUP(fixture_open, fixture_close)
