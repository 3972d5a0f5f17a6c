/* Every recorded training trace goes the whole way: import, sim, recommend. What a trace lacks is
 * filled and said; what holds no training step is refused with the reason. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

#define TRACES "../shared/traces/kineto/"
#define RUNS "../shared/groundtruth/"

/* own_cluster: the trace's collectives become a cluster that the plan then runs on. */
struct recording {
    const char *files; /* below $P */
    bool own_cluster;
    int dp;
    int n_params;
    int64_t numel;
    const char *says; /* one of its notes */
};

static const struct recording trained[] = {
    /* five all-reduces of 8,196,000 + 31,502,336 + 26,255,360 + 26,550,272 + 9,724,160 bytes:
     * ResNet-50's 25,557,032 floats (truth.json, ProfilerStep#4) */
    {TRACES "ddp_resnet50_2xA100_rank0.json.gz", true, 2, 161, 25557032, "share of the all-reduce"},
    {TRACES "dlrm_8gpu_rank0.json.gz", true, 8, 16, -1, "1 of 16 gradients have no recorded size"},
    {TRACES "dlrm_8gpu_rank7.json.gz", true, 8, 16, -1, "1 of 16 gradients have no recorded size"},
    {TRACES "torchrec_8xA100_rank3.json.gz", true, 8, 259, -1,
     "2 of 259 gradients are not tensors"},
    {TRACES "megatron_tp2_2xV100_rank0.json.gz", true, 2, 29, -1, "Optimizer.step#Adam.step"},
    {TRACES "megatron_tp2_2xV100_rank1.json.gz", true, 2, 29, -1, "Optimizer.step#Adam.step"},
    {TRACES "linear_1gpu.json.gz", false, 8, 42, -1, "--elements N gives the true total"},
    {TRACES "minitoy_mi250_rocm62.json.gz", false, 8, 2, -1, "bytes passed between modules"},
    {TRACES "resnet50_1xV100_torch1.9.json.gz", false, 8, 161, 25557032,
     "sizes from the gradients'"},
    {RUNS "gpt6__local.trace.json.gz", false, 8, 76, 13842432, "float32 assumed"},
    {RUNS "resnet18__local.trace.json.gz", false, 8, 62, 11689512, "float32 assumed"},
    {RUNS "gpt6__5g__cap1.rank0.trace.json.gz $P/" RUNS "gpt6__5g__cap1.rank1.trace.json.gz", true,
     2, 76, 13842432, "float32 assumed"},
    {RUNS "gpt6__1g__cap25.rank0.trace.json.gz", true, 2, 76, 13842432, "float32 assumed"},
    {RUNS "resnet18__unl__cap25.rank0.trace.json.gz $P/" RUNS
          "resnet18__unl__cap25.rank1.trace.json.gz",
     true, 2, 62, 11689512, "float32 assumed"},
    {RUNS "resnet18__500m__cap1.rank1.trace.json.gz", true, 2, 62, 11689512, "float32 assumed"},
};

static const struct {
    const char *file, *says;
} refused[] = {
    {TRACES "alexnet_cuda_sync.json.gz", "nor a backward: inference"},
    {TRACES "cuda_sync_event.json.gz", "no backward in the file: inference"},
    {TRACES "cuda_sync_multi_stream.json.gz", "nor a backward: inference"},
    {TRACES "sampled_128ranks_rank0.json.gz", "a sampled or filtered file"},
    {TRACES "cpu_events_only.json.gz", "2 of 2 gradients have no size"},
};

static bool is_there(void)
{
    if (access(TRACES, R_OK) == 0 && access(RUNS, R_OK) == 0)
        return true;
    fprintf(stderr, "%s and %s are not here: recorded training traces are not checked\n", TRACES,
            RUNS);
    return false;
}

static void check_workload(const struct recording *r)
{
    struct lw_workload w;
    struct lw_err err = {0};
    bool said = false;
    int64_t numel = 0;

    if (lw_workload_read(fixture_path("w.json"), &w, &err) != LW_OK)
        fail_msg("%s: %s", r->files, err.msg);
    assert_int_equal(w.n_params, r->n_params);
    for (int32_t i = 0; i < w.n_params; i++) {
        assert_true(w.params[i].numel > 0);
        numel += w.params[i].numel;
    }
    if (r->numel >= 0)
        assert_int_equal(numel, r->numel);
    for (int32_t i = 0; i < w.n_notes; i++)
        said |= strstr(w.notes[i], r->says) != NULL;
    if (!said)
        fail_msg("%s: no note says '%s'", r->files, r->says);
    lw_workload_free(&w);
}

/* The command that import prints last predicts, and its options go with recommend as well. */
TEST_WITH(training_traces_go_from_import_to_recommend, fixture_open, fixture_close)
{
    static const char next[] = "next: lapwing sim ";
    char words[1024], options[256];

    for (size_t i = 0; is_there() && i < sizeof trained / sizeof *trained; i++) {
        const struct recording *r = &trained[i];
        snprintf(words, sizeof words, "import $P/%s -o w.json %s", r->files,
                 r->own_cluster ? "--cluster-out c.json" : "");
        const char *at = strstr(lapwing(words, NULL), next);
        assert_non_null(at);
        at += strlen(next);
        snprintf(options, sizeof options, "%.*s", (int)strcspn(at, "\n"), at);
        check_workload(r);
        snprintf(words, sizeof words, "sim %s --no-db", options);
        assert_non_null(strstr(lapwing(words, NULL), "step"));
        if (!r->own_cluster)
            strcpy(options, "-w w.json -c dgx-a100 --as-recorded");
        snprintf(words, sizeof words, "sim %s --dp %d --zero 2 --no-db", options, r->dp);
        lapwing(words, NULL);
        snprintf(words, sizeof words, "recommend %s --dp %d", options, r->dp);
        lapwing(words, NULL);
        snprintf(words, sizeof words, "sim -w w.json -c gb300 --no-db");
        expect(words, 1, "is timed for device");
        snprintf(words, sizeof words, "sim -w w.json -c gb300 --as-recorded --no-db");
        expect(words, 0, "on cluster 'gb300 with ");
    }
}

/* No known system has an SXM3 board: the network of one of its family, and its own device. */
TEST_WITH(the_next_command_of_another_kind_takes_the_network_alone, fixture_open, fixture_close)
{
    if (!is_there())
        return;
    shell("zcat $P/" TRACES "dlrm_8gpu_rank0.json.gz | sed s/V100-SXM2/V100-SXM3/ > sxm3.json",
          NULL);
    const char *out = lapwing("import sxm3.json -o w.json", NULL);
    assert_non_null(strstr(out, "next: lapwing sim -w w.json -c v100-ib --as-recorded --dp 8"));
    expect("sim -w w.json -c v100-ib --as-recorded --dp 8 --no-db --format json", 0,
           "\"device_memory_bytes\": null");
    expect("sim -w w.json -c v100-ib --dp 8 --no-db", 1, "cluster 'v100-ib' has 'V100-SXM2-16GB'");
}

/* A device that no known system has, or that the trace does not name, is not this machine's. */
TEST_WITH(the_next_command_of_an_unknown_device_names_a_network, fixture_open, fixture_close)
{
    static const char next[] = "next: lapwing sim -w w.json -c pcie-box --as-recorded\n"
                               "  the network of cluster 'pcie-box' is assumed: -c names another";
    static const char sim[] = "sim -w w.json -c pcie-box --as-recorded --no-db";

    if (!is_there())
        return;
    expect("import $P/" TRACES "linear_1gpu.json.gz -o w.json", 0, next);
    expect(sim, 0, "pcie-box with NVIDIA GeForce RTX 2080 Ti");
    shell("zcat $P/" TRACES "linear_1gpu.json.gz | sed s/deviceProperties/devices/ > unnamed.json",
          NULL);
    expect("import unnamed.json -o w.json --force", 0, next);
    expect(sim, 0, "pcie-box with unnamed device");
}

TEST_WITH(recorded_shapes_suffice_for_a_pipeline, fixture_open, fixture_close)
{
    if (!is_there())
        return;
    lapwing("import $P/" TRACES "resnet50_1xV100_torch1.9.json.gz -o w.json", NULL);
    lapwing("sim -w w.json -c dgx-a100 --as-recorded --pp 4 --micro-batches 8 --no-db", NULL);
}

TEST_WITH(traces_without_a_training_step_are_refused_with_the_reason, fixture_open, fixture_close)
{
    char words[1024];

    for (size_t i = 0; is_there() && i < sizeof refused / sizeof *refused; i++) {
        snprintf(words, sizeof words, "import $P/%s -o w.json", refused[i].file);
        expect(words, 1, refused[i].says);
    }
}

TEST_WITH(a_given_total_and_device_replace_what_is_assumed, fixture_open, fixture_close)
{
    struct lw_workload w;

    if (!is_there())
        return;
    lapwing("import $P/" TRACES "linear_1gpu.json.gz -o w.json --elements 1000003", NULL);
    assert_int_equal(lw_workload_read(fixture_path("w.json"), &w, NULL), LW_OK);
    assert_int_equal(lw_workload_numel(&w, true), 1000003);
    lw_workload_free(&w);
    expect("import $P/" TRACES "linear_1gpu.json.gz -o w.json --from-device dgx-a100", 0,
           "A100-SXM4-80GB: NVIDIA A100 datasheet");
}

/* The legacy profiler's export: a bare array, no category, no sequence numbers, no shapes. */
static void put_legacy(const char *path, bool forward)
{
    static const char *const rows[] = {
        "Optimizer.zero_grad#SGD.zero_grad", "aten::linear", "aten::relu", "aten::linear",
        "AddmmBackward0", "torch::autograd::AccumulateGrad", "ReluBackward0", "AddmmBackward0",
        "torch::autograd::AccumulateGrad", "Optimizer.step#SGD.step"};
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "[{\"name\":\"ProfilerStep#3\",\"ph\":\"X\",\"ts\":0,\"dur\":1000,\"tid\":1,"
                     "\"pid\":\"CPU functions\",\"args\":{}}");

    for (int i = 0; i < 10; i++)
        if (forward || i == 0 || i > 3)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          ",{\"name\":\"%s\",\"ph\":\"X\",\"ts\":%d,\"dur\":%d,\"tid\":1,"
                          "\"pid\":\"CPU functions\",\"args\":{}}",
                          rows[i], 10 + 90 * i, 80);
    snprintf(text + n, sizeof text - (size_t)n, "]");
    fixture_put(path, text);
}

TEST_WITH(a_legacy_profilers_export_is_a_training_step, fixture_open, fixture_close)
{
    struct lw_workload w;

    put_legacy(fixture_path("old.json"), true);
    expect("import old.json -o w.json", 0, "ProfilerStep#3");
    assert_int_equal(lw_workload_read(fixture_path("w.json"), &w, NULL), LW_OK);
    assert_int_equal(w.n_ready, 2);
    /* backward from the node at 370 to the end of the last one at 730 + 80; gradients end at
     * 540, 810 */
    assert_int_equal(lw_workload_backward_ps(&w), 440 * 1000000LL);
    assert_int_equal(w.params[w.ready_order[0]].ready_ps, (540 - 370) * 1000000LL);
    /* forward from the op after zero_grad (100) to the backward's start */
    assert_int_equal(lw_workload_forward_ps(&w), 270 * 1000000LL);
    lw_workload_free(&w);
    put_legacy(fixture_path("old.json"), false);
    expect("import old.json -o w.json", 1, "2 gradients, but no step with both");
}
