/* Other buckets by two roads: a replay with --bucket-cap, and an imported workload on an imported
 * cluster. Where they part, both outputs name the assumption. docs/design/replay_whatif.md. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const char *const caps[] = {"50MiB", "25MiB", "5MiB", "1MiB", "256KiB"};
enum { N_CAPS = sizeof caps / sizeof *caps };

/* What a replay says of recordings where the link bounds collectives, in %. */
static const double MOST_PARTED = 6.1;

static double step_of(const char *out)
{
    return number_after(out, "\"step_ns\": ");
}

/* How far the plan of the import is from the replay, in %, at each cap. */
static void compare_roads(const char *name, const char *traces, double *parted)
{
    lapwingf("import %s -o w.json --cluster-out c.json --force", traces);
    for (int i = 0; i < N_CAPS; i++) {
        double replayed = step_of(lapwingf("sim --replay %s --bucket-cap %s --no-db -q --format "
                                           "json", traces, caps[i]));
        double planned = step_of(lapwingf("sim -w w.json -c c.json --dp 2 --bucket-cap %s --no-db "
                                          "-q --format json", caps[i]));
        parted[i] = 100 * (planned / replayed - 1);
        print_message("%s, %s: replayed %.1f, planned %.1f ms, %+.1f %%\n", name, caps[i],
                      replayed / 1e6, planned / 1e6, parted[i]);
    }
}

static void link_bounds(const char *name, const char *traces)
{
    double parted[N_CAPS];
    char says[128];

    compare_roads(name, traces, parted);
    for (int i = 0; i < N_CAPS; i++)
        assert_true(fabs(parted[i]) < MOST_PARTED + 0.05); /* as rounded when printed */
    snprintf(says, sizeof says,
             "has a core for communication, and parts from this replay by the share above "
             "(to %.1f %%",
             MOST_PARTED);
    has(lapwingf("sim --replay %s --bucket-cap 512KiB --no-db -q", traces), says);
}

static void needs_files(const char *folder)
{
    if (access(folder, R_OK) != 0) {
        print_message("SKIP: %s is absent\n", folder);
        skip();
    }
}

TEST_WITH(they_agree_where_the_link_bounds_collectives, fixture_open, fixture_close)
{
    static const char *const models[] = {"gpt6", "resnet18"}, *const nets[] = {"500m", "1g"},
                             *const recorded[] = {"1", "25"};
    char name[64], traces[512];

    needs_files("../shared/groundtruth");
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "%s__%s__cap%s", models[i / 4], nets[i / 2 % 2],
                 recorded[i % 2]);
        snprintf(traces, sizeof traces, "$P/../shared/groundtruth/%s.rank?.trace.json.gz", name);
        link_bounds(name, traces);
    }
}

TEST_WITH(they_agree_on_a_recent_torch, fixture_open, fixture_close)
{
    needs_files("../shared/groundtruth-torch");
    link_bounds("ddp_cap25",
                "$P/../shared/groundtruth-torch/traces/gpt__1g__ddp_cap25.rank?.json.gz");
}

/* By 65 % with one bucket for two or more, by 23 % with small ones. */
TEST_WITH(they_name_the_processor_where_it_parts_them, fixture_open, fixture_close)
{
    const char *traces = "$R/resnet18__gloo2__cap25.rank?.json.gz";
    double parted[N_CAPS];

    compare_roads("resnet18__gloo2__cap25", traces, parted);
    for (int i = 0; i < N_CAPS; i++)
        assert_true(parted[i] > -23 && parted[i] < 65);
    has(lapwingf("sim --replay %s --bucket-cap 1MiB --no-db -q", traces),
        "collectives keep the times that computing beside them cost");
    has(lapwing("sim -w w.json -c c.json --dp 2 --bucket-cap 1MiB --no-db -q", NULL),
        "the processor bounds them: their times hold what computing cost them");
}

/* One rank of eight: waiting for the others is in each recorded collective. */
TEST_WITH(they_name_waiting_where_it_parts_them, fixture_open, fixture_close)
{
    const char *traces = "$P/../shared/traces/kineto/ddp_resnet18_8xMI300_rank0.json.gz";

    needs_files("../shared/traces");
    has(lapwingf("sim --replay %s --bucket-cap 1MiB --no-db -q", traces),
        "is taken as waiting for other ranks at their last gradient and stays there");
    lapwingf("import %s -o w.json --cluster-out c.json", traces);
    has(lapwing("sim -w w.json -c c.json --dp 8 --bucket-cap 1MiB --no-db -q", NULL),
        "of each do not grow with the bytes and count in every bucket of a plan, in a replay at "
        "the recorded gradients");
}
