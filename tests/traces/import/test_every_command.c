/* Every format through every command that takes a recording or its run: it works, or is refused
 * with the reason and what works instead. A format without a case here fails. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "traces/import/importer.h"

TEST_GROUP(fixture_open, fixture_close)

#define TRACES "$P/../shared/traces/"
#define CORPUS "$P/tests/fuzz/corpus/"

enum kind {
    TIMELINE, /* when each op ran */
    GRAPH,    /* how long each op took and what it waited for */
    UNTIMED,  /* what each op needed: a device and a network time it */
    WORKLOAD, /* figures of a step: a workload */
    LIST,     /* what was called, measured or is slow */
};

static const struct {
    const char *format;
    enum kind kind;
    const char *files, *options; /* options: of sim --replay */
    const char *inspected;       /* what inspect says; NULL: it names another command */
    bool rows, reports;          /* of LIST and WORKLOAD: as CSV; with --report */
    const char *needs;           /* a folder that may be missing */
} cases[] = {
    {"kineto", TIMELINE, TRACES "kineto/megatron_tp2_2xV100_rank0.json.gz", "", "rank 0 of 2",
     true, true, "../shared/traces"},
    {"kineto", TIMELINE, TRACES "kineto/resnet50_1xV100_torch1.9.json.gz", "", "ProfilerStep#",
     true, true, "../shared/traces"},
    {"nsys", TIMELINE, TRACES "nsys/nvfuser_pytest_h200_schema3.17.sqlite", "", "24 device ops",
     true, true, "../shared/traces"},
    {"nsys", TIMELINE, TRACES "nsys/nvfuser_matmul_h100_schema3.16.sqlite", "", "21 device ops",
     true, true, "../shared/traces"},
    {"nsys", TIMELINE, TRACES "nsys/cnn_rtx2070s_oldschema.sqlite", "", "62 device ops", true,
     true, "../shared/traces"},
    {"chakra", GRAPH, TRACES "chakra/resnet50_ddp_schema101.et.gz", "", "3664 nodes", false, false,
     "../shared/traces"},
    {"chakra", GRAPH, TRACES "chakra/megatron_tp2_rank?.et.gz", "", "Chakra execution trace", false,
     false, "../shared/traces"},
    {"goal", GRAPH, TRACES "goal/binary_tree_32.goal", "", "32 ranks", false, false,
     "../shared/traces"},
    {"goal", GRAPH, TRACES "goal/dissemination_16.goal", "", "16 ranks", false, false,
     "../shared/traces"},
    {"pytorch-et", UNTIMED, TRACES "et/linear_1gpu.et.json.gz", "-c dgx-a100", "931 nodes", false,
     false, "../shared/traces"},
    {"pytorch-et", UNTIMED, TRACES "et/dlrm_8gpu_rank?.et.json.gz", "-c dgx-a100",
     "PyTorch execution trace", false, false, "../shared/traces"},
    {"pytorch-et", UNTIMED, TRACES "et/megatron_tp2_rank?.et.json.gz", "-c dgx-a100",
     "PyTorch execution trace", false, false, "../shared/traces"},
    {"pipedream", WORKLOAD, CORPUS "pipedream/graph.txt", "", "3 nodes", false, false, NULL},
    {"measured-run", WORKLOAD, CORPUS "groundtruth/tiny.json", "", NULL, false, false, NULL},
    {"nccl-tests", LIST, CORPUS "bench/today.txt", "", "NCCL 2.26.2", true, false, NULL},
    {"flight-recorder", LIST, CORPUS "collectives/json", "", "5 calls", false, false, NULL},
    {"flight-recorder", LIST, CORPUS "collectives/pickle", "", "6 calls", false, false, NULL},
    {"nccl-log", LIST, CORPUS "collectives/nccl", "", "1 mismatch", false, false, NULL},
    {"calls", LIST, "calls.csv", "", "nccl 2.28.9", false, false, NULL},
    {"job-operations", LIST, "$P/../shared/straggler-jobs/SE_ops.csv.gz", "", "64 workers", false,
     true, "../shared/straggler-jobs"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void inspected(int i)
{
    const char *files = cases[i].files, *says = cases[i].inspected;

    if (!says) {
        expectf(1, "lapwing import", "inspect %s", files);
        return;
    }
    expectf(0, says, "inspect %s", files);
    expectf(0, "\"files\": [", "inspect --format json %s", files);
    if (cases[i].rows)
        expectf(0, cases[i].format, "inspect --format csv %s | grep -v ^file,", files);
    else
        expectf(1, "--format json has all that is shown", "inspect --format csv %s", files);
    if (!cases[i].reports) {
        expectf(1, "without it inspect shows what the file holds", "inspect --report %s", files);
        expectf(1, "without it inspect", "inspect --report -o page.html %s", files);
        shell("test ! -e page.html", NULL);
        return;
    }
    expectf(0, says, "inspect --report %s", files);
    expectf(0, "\"files\": [", "inspect --report --format json %s", files);
    expectf(0, "", "inspect --report -o page.html %s", files);
    shell("grep -q '<pre>' page.html && rm page.html", NULL);
}

static void imported(int i)
{
    const char *files = cases[i].files;

    switch (cases[i].kind) {
    case TIMELINE: {
        char words[1024];
        int rc = 0;
        snprintf(words, sizeof words, "import %s -o w.json", files);
        const char *out = lapwing(words, &rc);
        if (rc == 0)
            expect("sim -w w.json -c p4d --as-recorded --dp 2 --no-db", 0, "step");
        else
            has(out, "no training step");
        expectf(0, "stored as run 1", "import --store %s", files);
        break;
    }
    case GRAPH:
        expectf(0, "next: lapwing sim", "import %s -o plan.json", files);
        expect("sim plan.json --no-db -c gb200 --buffered", 0, "step");
        expectf(1, "predicts them and stores the run", "import --store %s", files);
        break;
    case UNTIMED:
        expectf(1, "'lapwing sim --replay' with -c", "import %s -o plan.json", files);
        expectf(1, "'lapwing sim --replay' with -c", "import --store %s", files);
        break;
    case WORKLOAD:
        expectf(0, "w.json", "import %s -o w.json", files);
        expect("sim -w w.json -c p4d --as-recorded --dp 2 --no-db", 0, "step");
        expectf(1, "holds no timeline", "import --store %s", files);
        break;
    case LIST:
        expectf(1, "gives no workload", "import %s -o w.json", files);
        expectf(1, "", "import --store %s", files);
        break;
    }
}

/* What every command says of the runs: of a timeline run 1 is the recording, run 2 its replay. */
static void replayed(int i)
{
    const char *files = cases[i].files, *options = cases[i].options;

    if (cases[i].kind == WORKLOAD || cases[i].kind == LIST) {
        expectf(1, "a replay takes the profiler's traces", "sim --replay %s", files);
        return;
    }
    expectf(0, "stored as run", "sim --replay %s %s", files, options);
    expectf(0, "\"n_ops\"", "sim --replay %s %s --format json", files, options);
    expect("compare 2 1", 0, "step");
    expect("compare last last", 0, "the steps are equal");
    expect("explain last", 0, "critical path");
    expect("plot timeline last -o t.svg", 0, "wrote t.svg");
    expect("report last -o r.html", 0, "wrote r.html");
    expect("runs", 0, "sim");
    expect("export last -o t.json", 0, "wrote t.json");
    expect("inspect t.json", 0, "kineto");
    expect("export last --format csv -o t.csv", 0, "wrote t.csv");
    expect("export last --format plan -o p.json", 0, "wrote p.json");
    expect("sim p.json --no-db -c gb200 --buffered", 0, "step");
    expect("export last --format chakra -o c", 0, "wrote c.0.et");
    expect("inspect c.0.et", 0, "Chakra execution trace");
    expect("export last --format goal -o t.goal", 0, "wrote t.goal");
    expect("inspect t.goal", 0, "GOAL schedule");
}

TEST(every_format_goes_through_every_command)
{
    int skipped = 0;

    fixture_put(fixture_path("calls.csv"),
                "# lapwing-calls 1\n# library nccl 2.28.9\n# host n1 pid 7\n"
                "comm,1,00000000000000ff,0,2\n"
                "call,1,1000,50,all_reduce,256,bf16,-1,1,94620242292496,0\n"
                "span,1,1100,1900\n");
    for (int i = 0; i < N_CASES; i++) {
        if (cases[i].needs && access(cases[i].needs, F_OK) != 0) {
            skipped++;
            continue;
        }
        inspected(i);
        imported(i);
        replayed(i);
        shell("ls -A | grep -vx calls.csv | xargs rm -rf", NULL);
    }
    if (skipped > 0)
        print_message("%d of %d recordings are not here\n", skipped, (int)N_CASES);
}

/* One recording given as two ranks would be a run of two that never was. */
TEST(a_file_given_twice_is_refused)
{
    fixture_put(fixture_path("m0.goal"), "num_ranks 1\nrank 0 {\ncalc 5\n}\n");
    shell("cp $P/tests/fuzz/corpus/graph/first.et one.et && ln one.et other.et && "
          "cp one.et copy.et", NULL);
    expect("sim --replay one.et one.et --no-db", 1, "one.et and one.et are one file: give each");
    expect("sim --replay one.et other.et --no-db", 1, "one.et and other.et are one file");
    expect("sim --replay . one.et --no-db", 1, "are one file");
    expect("import one.et ./one.et -o p.json", 1, "one.et and ./one.et are one file");
    shell("test ! -e p.json", NULL);
    expect("inspect one.et one.et", 0, "Chakra execution trace");
    expect("sim --replay one.et m0.goal --no-db", 1, "one.et is a file of format chakra, m0.goal "
                                                     "of goal: replay them apart");
    expect("sim --replay $P/tests/fuzz/corpus/kineto/gpu.json one.et --no-db", 1,
           "of chakra: replay them apart");
}

/* A stream does not run one kernel twice at once: events that a file holds twice are told, and no
 * replay of them is made. */
TEST(events_that_are_there_twice_are_told)
{
    static const char kernel[] =
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 20, \"dur\": 5, "
        "\"args\": {\"stream\": 7, \"device\": 0, \"correlation\": %d}}";
    static const char launch[] =
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"ts\": 1%d, "
        "\"dur\": 1, \"pid\": 1, \"tid\": 1, \"args\": {\"correlation\": %d}}";
    char k[2][256], l[2][256];
    char text[2048];

    for (int second = 1; second <= 2; second++) {
        for (int i = 0; i < 2; i++) {
            snprintf(k[i], sizeof k[i], kernel, i == 0 ? 1 : second);
            snprintf(l[i], sizeof l[i], launch, i + 1, i + 1);
        }
        snprintf(text, sizeof text, "{\"traceEvents\": [%s,%s,%s,%s]}", l[0], l[1], k[0], k[1]);
        fixture_put(fixture_path("k.json"), text);
        bool twice = second == 1;
        has(lapwing("inspect k.json", NULL), "2 device ops");
        (twice ? has : has_not)(lapwing("inspect k.json", NULL),
                                "note: 1 device op is there twice, with the same launch");
        if (twice)
            expect("sim --replay k.json --no-db", 1, "k.json: 1 device op is there twice");
        else
            expect("sim --replay k.json --no-db", 0, "step");
    }
}

TEST(each_format_has_a_case)
{
    for (int k = 0; k < lw_n_importers; k++) {
        bool found = false;
        for (int i = 0; i < N_CASES; i++)
            found = found || strcmp(cases[i].format, lw_importers[k]->name) == 0;
        if (!found)
            fail_msg("format '%s' goes through no command", lw_importers[k]->name);
    }
}
