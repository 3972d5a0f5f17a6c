/* Real graphs through every command, as a user runs them. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

#define CHAKRA "$P/../shared/traces/chakra/"
#define ET "$P/../shared/traces/et/"
#define GOAL "$P/../shared/traces/goal/"

static void need(const char *folder)
{
    if (access(folder, F_OK) == 0)
        return;
    print_message("SKIP: %s is not here\n", folder);
    skip();
}

/* A run is predicted from `files`, and what every command says about it. */
static void each_command(const char *files, const char *step, const char *options)
{
    expectf(0, step, "sim --replay %s --db r.db", files);
    expectf(0, "memory: not recorded", "sim --replay %s --no-db", files);
    expectf(0, "n_ops", "sim --replay %s --db r.db --format json", files);
    expectf(0, "memory: not recorded", "sim --replay %s --no-db", files);
    expectf(0, "next: lapwing sim", "import %s -o plan.json --force", files);
    expectf(0, step + strlen("step "), "sim plan.json --no-db -c gb200 %s", options);
    expect("compare 1 2 --db r.db", 0, "the steps are equal");
    expect("explain 1 --db r.db", 0, "critical path");
    expect("plot timeline 1 --db r.db -o t.svg --force", 0, "t.svg");
    expect("export 1 --db r.db -o t.json --force", 0, "wrote t.json");
    expect("inspect t.json", 0, "kineto");
    expect("runs --db r.db", 0, step + strlen("step "));
    shell("rm -f r.db* plan.json t.svg t.json", NULL);
}

TEST(chakra_goes_through_every_command)
{
    need("../shared/traces/chakra");
    expect("inspect " CHAKRA "resnet50_ddp_schema101.et.gz", 0, "schema 1.0.1, 3664 nodes");
    expect("inspect --format json " CHAKRA "astrasim_alltoall_16npu_rank9.et", 0,
           "\"node_type_counts\": {");
    each_command(CHAKRA "resnet50_ddp_schema101.et.gz", "step 297.046 ms", "");
    each_command(CHAKRA "megatron_tp2_rank0.et.gz " CHAKRA "megatron_tp2_rank1.et.gz",
                 "step 56.789 ms", "");
}

TEST(goal_goes_through_every_command)
{
    need("../shared/traces/goal");
    expect("inspect " GOAL "binary_tree_32.goal", 0, "GOAL schedule (text), 32 ranks");
    expect("inspect --format json " GOAL "binary_tree_32.goal", 0, "\"requires\": 26,");
    EXPECT("inspect",
           {GOAL "binary_tree_32.goal", 0, "step 27.500 us under LogGOPS (LogGOPSim's defaults)"},
           {GOAL "dissemination_16.goal --format json", 0, "\"step_ns\": 22000"},
           {GOAL "binary_tree_32.goal --loggops L=0,o=0,g=0,G=0", 0, "step 0 ps under LogGOPS"},
           {GOAL "binary_tree_32.goal --loggops L=x", 2, "--loggops: "},
           {CHAKRA "megatron_tp2_rank0.et.gz --loggops L=1", 1,
            "--loggops concerns GOAL schedules"});
    shell("printf '%s\\n' 'num_ranks 2' 'rank 0 {' 'send 8b to 1' '}' 'rank 1 {' 'calc 5' '}' "
          "> lone.goal", NULL);
    EXPECT("inspect",
           {"lone.goal", 0, "no step: ", {"1 sends"}},
           {"lone.goal --format json", 0, "\"step_ns\": null"});
    each_command(GOAL "binary_tree_32.goal", "step 27.500 us", "--buffered");
    each_command(GOAL "dissemination_16.goal", "step 22.000 us", "--buffered");
    EXPECT(
        "sim",
        {"--replay " GOAL "binary_tree_32.goal --no-db --loggops L=0,o=0,g=0,G=0", 0, "step 0 ps"},
        {"--replay " GOAL "binary_tree_32.goal --no-db --loggops L=0,q=1", 2,
         "--loggops: 'q=1': expected L, o, g (ns)"},
        {"--replay " GOAL "binary_tree_32.goal --no-db -c dgx-a100 --as-recorded", 1,
         "give --loggops instead of -c, --ranks and --device"},
        {"--replay " GOAL "binary_tree_32.goal " GOAL "dissemination_16.goal --no-db", 1,
         "one GOAL schedule at a time"},
        {"--replay " CHAKRA "megatron_tp2_rank0.et.gz --no-db --loggops L=1", 1,
         "--loggops concerns GOAL schedules"});
}

TEST(execution_traces_go_through_every_command)
{
    need("../shared/traces/et");
    expect("inspect " ET "megatron_tp2_rank0.et.json.gz", 0,
           "PyTorch execution trace, schema 1.1.0-chakra.0.0.4, 1884 nodes");
    expect("inspect --format json " ET "dlrm_8gpu_rank3.et.json.gz", 0,
           "\"record_param_comms\": 13");
    static const char *const runs[] = {
        ET "linear_1gpu.et.json.gz -c dgx-a100",
        ET "megatron_tp2_rank0.et.json.gz " ET "megatron_tp2_rank1.et.json.gz -c dgx-a100",
        ET "dlrm_8gpu_rank?.et.json.gz -c dgx-a100",
        ET "resnet_ddp_2gpu.et.json.gz -c dgx-a100 --ranks 2",
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        expectf(0, "by the shape of their matrix product", "sim --replay %s --db r.db", runs[i]);
        expectf(0, "n_ops", "sim --replay %s --db r.db --format json", runs[i]);
        expect("compare 1 2 --db r.db", 0, "the steps are equal");
        expect("explain 1 --db r.db", 0, "critical path");
        expect("plot timeline 1 --db r.db -o t.svg --force", 0, "t.svg");
        expect("export 1 --db r.db -o t.json --force", 0, "wrote t.json");
        expect("export 1 --db r.db --format chakra -o t --force", 0, "wrote t.0.et");
        expect("runs --db r.db", 0, "graph of");
        shell("rm -f r.db* t.*", NULL);
    }
    EXPECT("sim",
           {"--replay " ET "linear_1gpu.et.json.gz --no-db", 1, "the file holds no durations"},
           {"--replay " ET "resnet_ddp_2gpu.et.json.gz --no-db -c dgx-a100", 1,
            "give the files of all ranks, or --ranks N"},
           {"--replay " ET "megatron_tp2_rank0.et.json.gz " ET "megatron_tp2_rank1.et.json.gz "
            "--no-db --device H100-SXM5-80GB",
            1, "name a network that times it"});
    EXPECT("import",
           {ET "linear_1gpu.et.json.gz -o p.json", 1, "with -c CLUSTER or --device KIND"});
}

TEST(what_a_graph_does_not_hold_is_refused_with_the_remedy)
{
    need("../shared/traces/chakra");
    EXPECT("sim",
           {"--replay " CHAKRA "astrasim_alltoall_16npu_rank9.et --no-db", 1,
            "has no duration and its other ranks are missing"},
           {"--replay " CHAKRA "megatron_tp2_rank0.et.gz --bucket-cap 1MiB --no-db", 1,
            "a file of format chakra holds no gradients"},
           {"--replay " CHAKRA "megatron_tp2_rank0.et.gz " CHAKRA
            "megatron_tp2_rank0.et.gz --no-db",
            1, "are one file: give each rank once"});
    EXPECT("import", {CHAKRA "megatron_tp2_rank0.et.gz --store", 1, "holds no start times"},
           {CHAKRA "megatron_tp2_rank0.et.gz --cluster-out c.json", 1,
            "gives no cluster (--cluster-out; -o writes the plan)"});
}

/* 13 all-reduces on another network. */
TEST(a_network_times_the_collectives_of_a_graph)
{
    need("../shared/traces/chakra");
    expect("sim --replay " CHAKRA "megatron_tp2_rank0.et.gz " CHAKRA "megatron_tp2_rank1.et.gz "
           "-c dgx-a100 --as-recorded --no-db",
           0, "what-if: 26 collectives take what cluster 'dgx-a100' says for their size");
    /* each once where none was recorded */
    expect("sim --replay " CHAKRA "astrasim_alltoall_16npu_rank9.et -c dgx-a100 --as-recorded "
           "--ranks 16 --no-db",
           0, "what-if: 1 collectives take what cluster 'dgx-a100' says for their size");
    shell("printf 'num_ranks 2\\nrank 0 {\\n}\\nrank 1 {\\n}\\n' > empty.goal", NULL);
    expect("sim --replay empty.goal --no-db", 1, "empty.goal: no op of any rank");
}
