/* The commands sim and cost, run as a user runs them. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/files/files.h"
#include "sim/bench/bench_plan.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/sim/sim_help.h"

/* One rank copies 2000 B in and 2000 B out: a table says 20 us, 1e9 B/s 2 us. */
static void write_copies(void)
{
    static const int64_t size[] = {1000, 4000};
    static const lw_ps time[] = {10 * LW_PS_PER_US, 40 * LW_PS_PER_US};
    struct lw_work_table in = {.kind = LW_WORK_COPY_IN, .n_rows = 2, .size = size, .time_ps = time,
                               .source = "copied by hand"};
    struct lw_builder *b = begin_plan("copies", 1);
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_err err = {0};

    for (int i = 0; i < 2; i++) {
        struct lw_op op = lw_builder_blank(i ? LW_OP_COPY_OUT : LW_OP_COPY_IN, 0);
        op.work_ps = -1;
        op.bytes = 2000;
        lw_builder_op(b, &op, NULL, 0);
    }
    finish_plan(b, &plan);
    assert_ok(lw_plan_write(&plan, fixture_path("copies.json"), &err), err);
    make_cluster(&c, 1, 1e9, 0);
    c.device = (struct lw_device){.kind = "test device", .copy_bytes_per_s = {1e9, "timed by hand"},
                                  .memory_bytes = {500, "test"}, .framework_bytes = {600, "test"},
                                  .n_work = 1, .work = &in};
    assert_ok(lw_cluster_write(&c, fixture_path("copier.json"), &err), err);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
}

static int write_files(void **state)
{
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_err err = {0};

    fixture_open(state);
    make_w_ddp(&plan, 8);
    assert_ok(lw_plan_write(&plan, fixture_path("ddp.json"), &err), err);
    make_cluster(&c, 8, 50e9, 500 * LW_PS_PER_NS);
    c.device.kind = "test device";
    c.interference.compute_rate_under_comm = (struct lw_figure){1, "measured by hand"};
    assert_ok(lw_cluster_write(&c, fixture_path("eight.json"), &err), err);
    lw_cluster_free(&c);
    lw_plan_free(&plan);
    write_copies();
    return 0;
}

TEST(a_plan_file_is_predicted_exactly)
{
    /* 12000 us + 10 x 2355.810240 us, in ns, rounded half up from ...102400 ps */
    EXPECT("sim ddp.json -c eight.json --no-db",
           {"--format json", 0, "\"step_ns\": 35558102,", {"\"status\": \"ok\""}},
           {"--format json --detail chunk --ring events", 0, "\"step_ns\": 35558102,"},
           {"--steps 3 --format json", 0, "\"steps_ns\": [35558102, 35558102, 35558102]"},
           {"--format csv --per-rank", 0, "7,35558102,30000000,0,23558102,5558102,0"},
           {"--per-rank", 2, "--per-rank makes rows of CSV: give --format csv too"},
           {"--format json --per-rank", 2, "--per-rank makes rows of CSV"},
           {"--format csv", 0, ",8,35558102,,,,", {",,,,76.407,5558102,"}});
}

TEST(the_text_names_terms_sources_and_error)
{
    EXPECT("sim ddp.json -c eight.json",
           {"--no-db",
            0,
            "interference: compute_rate_under_comm = 1 (measured by hand)",
            {"error unknown: nothing measured yet"}});
}

/* The published runs were predicted by `validate`, with other figures: no error of theirs is
 * printed as that of this prediction. */
TEST(errors_of_another_predictor_are_not_printed)
{
    char *text = strdup(lapwing("sim -w gpt2 -c dgx-h100 --dp 8 --no-db", NULL));

    assert_non_null(strstr(text, "error unknown: nothing measured yet"));
    assert_null(strstr(text, "runs like"));
    free(text);
    const char *json = lapwing("sim -w gpt2 -c dgx-h100 --dp 8 --no-db --format json", NULL);
    assert_non_null(strstr(json, "\"past_error\": null"));
    assert_null(strstr(json, "runs_like"));
}

/* In the step after the warm-up stage 1 ends 3.4 us later than where it ended in that before. */
TEST(a_period_that_is_not_the_step_says_why)
{
    EXPECT("sim -w gpt-350m -c h100-nvl --pp 2 --tp 2 --micro-batches 8 --batch 2 --seq 1024 "
           "--no-db",
           {"--clip 1 --detail chunk",
            0,
            "step 91.115 ms",
            {"a rank's period counts from its own end of the step before"}},
           {"", 0, "whose period is the longest", .lacks = "a rank's period counts"});
}

/* The sentence is for every cluster, also one without NVLink. */
TEST(one_rank_is_in_the_singular)
{
    expect("model mlp --device dgx-a100 -o m.json", 0, "");
    EXPECT("sim -w m.json -c dgx-a100 --no-db", {"", 0, ", 1 rank on cluster 'dgx-a100'"},
           {"--dp 2", 0, "; 1 rank stands for all 2"});
    expect("plan -w m.json -c dgx-a100", 0, "1 rank, 1 role");
}

TEST(interference_speaks_of_links_of_any_kind)
{
    EXPECT("sim copies.json -c copier.json --no-db",
           {"", 0, "others on the same links", .lacks = "NVLink"});
}

TEST(help_says_where_interference_comes_from)
{
    expect("sim --help", 0, "what the cluster file sets and what --interference adds");
}

TEST(times_of_the_cluster_are_printed_with_their_source)
{
    EXPECT("sim copies.json -c copier.json --no-db",
           {"",
            0,
            "timed by the cluster: copy_in f32 by its table (copied by hand)\n"
            "timed by the cluster: copy_out f32 by copy_bytes_per_s (timed by hand)\n",
            {"memory: not known"}}, /* copies alone say nothing of what is held */
           {"--format json",
            0,
            "\"step_ns\": 22000,",
            {"\"framework_bytes\": 600,", "\"memory_missing_bytes\": null,",
             "{\"op\": \"copy_in\", \"dtype\": \"f32\", \"by\": \"its table\", \"source\": "
             "\"copied by hand\", \"basis\": \"measured\", \"n_ops\": 1}"}});
}

/* 16 B are kept from 0 and 8 B more from the second forward on, which starts at 10 us. */
TEST(the_text_says_when_memory_is_at_its_peak)
{
    shell("echo '{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"two\", \"modules\": ["
          "{\"name\": \"a\", \"forward_ns\": 10000, \"kept_bytes\": 16}, "
          "{\"name\": \"b\", \"forward_ns\": 20000, \"kept_bytes\": 8}], \"params\": []}' "
          "> two.json", NULL);
    EXPECT("sim -w two.json --no-db",
           {"", 0,
            "memory of rank 0 at its peak, 10.000 us after the run began, in step 0 at op 1 "
            "(forward, module 1)\n  of 'first' for role 'data': activations 24 B"},
           {"--format json", 0, "\"at_ns\": 10000,"});
    EXPECT("sim -w two.json -c copier.json --no-db",
           {"", 0, "peak memory 24 B a rank and 600 B of the framework (device.framework_bytes), "
                   "more than the device has by 124 B"},
           {"--format json", 0, "\"framework_bytes\": 600,", {"\"memory_missing_bytes\": 124,"}});
}

/* The ten all-reduces of the plan: a closed form; with a table of their size measured, with one of
 * half of it scaled. Messages at chunk detail. */
TEST(the_basis_of_each_collective_is_said)
{
    static const char *const basis[] = {"scaled", "measured"};
    char said[80];

    EXPECT(
        "sim ddp.json -c eight.json --no-db",
        {"", 0, "collectives and messages: 10 modelled by alpha-beta ("},
        {"--detail chunk", 0, "collectives and messages: 10 modelled by messages (chunk detail)"});
    for (int i = 0; i < 2; i++) {
        shellf(
            "printf 'op,nranks,nnodes,size_bytes,time_us\\nall_reduce,8,1,%d,4000\\n' >basis.csv",
            (int)(SIM_BENCH_BYTES / (2 - i)));
        expect("import basis.csv --cluster-out basis.json --onto dgx-h100", 0, "");
        snprintf(said, sizeof said, "\"basis\": \"%s\", \"n_ops\": 10}", basis[i]);
        expect("sim ddp.json -c basis.json --no-db --format json", 0, said);
        snprintf(said, sizeof said, "collectives and messages: 10 %s by table", basis[i]);
        expect("sim ddp.json -c basis.json --no-db", 0, said);
    }
}

TEST(a_prediction_is_stored_unless_told_not_to)
{
    EXPECT("sim ddp.json -c eight.json --db runs.db", {"--spans", 0, "stored as run 1"},
           {"", 0, "stored as run 2"});
    EXPECT("runs --db runs.db", {"--format json",
                                 0,
                                 "sim ddp.json -c eight.json --db runs.db --spans",
                                 {"\"step_ns\": 35558102"}});
}

TEST(what_many_write_is_taken_or_answered_with_what_to_write)
{
    EXPECT("cost -c dgx-h100 --bytes 1MiB --ranks 8",
           {"--dtype fp32", 0, "all_reduce of f32"}, {"--dtype fp16", 0, "all_reduce of f16"});
    EXPECT("plan -w gpt2 --dp 2", {"--grad-dtype fp16", 0, "f16"},
           {"--grad-dtype float32", 0, "plan "},
           {"-zero 3", 2, "option '-zero' has one dash, expected two: '--zero'"},
           {"--bucket-cap 25M", 2, "(did you mean '25MiB'?)"});
    EXPECT("runs", {"--db none.db", 1, "none.db: cannot open the database (No such file or "
                                       "directory): sim, exec and import --store make one"});
    EXPECT("sim", {"-w llama-2-13bb", 1, "(did you mean 'llama-2-13b'?)"});
}

/* A file may hold any number; each command that computes with it names those no machine has. */
TEST(absurd_figures_of_a_cluster_are_named)
{
    static const char peak[] = "cluster 'dgx-h100': device.peak_flops.bf16.value is 1e+300 flop/s",
                      sms[] = "device.n_sms.value is 1e+18, usual are 1 to 10000",
                      latency[] = "latency_ns.value is 0 ns, usual are 10 to 1e+08 ns";

    shell("$L cluster dgx-h100 -o c.json && "
          "sed -i -E 's/(\"bf16\": .\"value\": )[0-9]+/\\11e300/; "
          "s/(\"latency_ns\": .\"value\": )[0-9]+/\\10/' c.json && "
          "sed -E 's/(\"n_sms\": .\"value\": )[0-9]+/\\11000000000000000000/' c.json > s.json",
          NULL);
    EXPECT("sim -w gpt2 --dp 2 --no-db", {"-c c.json", 0, peak, {latency}},
           {"-c s.json", 1, sms, {"the times add up to more than 106 days"}},
           {"-c dgx-h100", 0, "step ", .lacks = "usual are"},
           {"-c dgx-h100 --node-gbps 900000000", 0, "links[1].bytes_per_s.value is"});
    EXPECT("cost --bytes 1MiB --ranks 8", {"-c s.json", 0, peak, {sms, latency}});
    EXPECT("cluster", {"s.json", 0, peak, {sms, latency}});
    EXPECT("model gpt2", {"--device c.json", 0, peak, {latency}});
}

/* Neither is there anything to store into, nor is anything predicted, run, calibrated or written.
 */
TEST(a_database_that_cannot_be_used_is_refused_before_the_run)
{
    static const char remedy[] = "nothing was run: give --db FILE that can be written, or leave "
                                 "storing out (--no-db, no --store)";

    fixture_put(fixture_path("text.db"), "hello\n");
    EXPECT("sim ddp.json -c eight.json --db",
           {"/absent/folder/x.db", 1, "/absent/folder/x.db: unable to open", {remedy}, "step"},
           {"text.db", 1, "text.db: not a usable SQLite database", {remedy}, "step"},
           {". --format json", 1, "\"error\": \".: a folder", {"nothing was run"}, "step_ns"});
    EXPECT("exec ddp.json --steps 1 --compute sleep --db",
           {"/absent/folder/x.db", 1, "unable to open", {remedy}, "step"},
           {"text.db --spawn", 1, "not a usable SQLite database", {remedy}, "step"});
    EXPECT("recommend gpt2 -c dgx-h100 --dp 8 --store --db",
           {"text.db", 1, "not a usable SQLite database", {remedy}, "cap"});
    EXPECT("validate --here --db", {"text.db", 1, "not a usable SQLite database", {remedy}});
    EXPECT("import $P/tests/fuzz/corpus/kineto/cpu_ddp.json -o made.json --store --db",
           {"text.db", 1, "not a usable SQLite database", {remedy}});
    assert_int_not_equal(access(fixture_path("made.json"), F_OK), 0);
}

TEST(bad_requests_are_refused_in_one_line)
{
    EXPECT("sim", {"absent.json -c eight.json --no-db", 1, "absent.json"},
           {"ddp.json -c absent --no-db", 1, "absent"},
           {"ddp.json -c eight.json --db /absent/folder/x.db", 1, "/absent/folder/x.db"});
    EXPECT("sim ddp.json -c eight.json --no-db",
           {"--detail fine", 2, "expected one of collective, chunk"}, {"--steps 0", 2, "steps"},
           {"--jitter 5ns", 2, "--detail chunk"},
           {"--ring events", 2, "--ring events and recurrence need --detail chunk"});
}

TEST(cost_prints_time_and_bandwidths)
{
    /* 64 MiB on 8 ranks: 2355.810 us; algbw 67108864 B / that = 28.486e9, busbw x 14/8. Pairwise:
     * 14 steps of 8 MiB as well; one-shot: 7 x 64 MiB at 50e9 B/s = 9395.241 us, + 0.5 */
    EXPECT("cost -c eight.json",
           {"--bytes 64MiB", 0, "2.356 ms      28.487      49.851  alpha-beta"},
           {"--bytes 64MiB --format json", 0, "\"time_ns\": 2355810,"},
           {"--bytes 64MiB --algorithm pairwise --format json", 0, "\"time_ns\": 2355810,"},
           {"--bytes 64MiB --algorithm one_shot --format json", 0, "\"time_ns\": 9395741,"},
           {"--ranks 16", 1, "16 ranks on 2 nodes"},
           {"--algorithm spiral", 2, "unknown value 'spiral'; expected one of auto, ring, tree"},
           {"--algorithm nvls", 1, "no model of all_reduce by nvls"},
           {"--op all_or_nothing", 2, "all_or_nothing"}, {"--bytes 8..4", 2, "upwards"});
    EXPECT("cost -c dgx-h100",
           {"--ranks 16 --nodes 1", 1,
            "--ranks 16 --nodes 1: a node of cluster 'dgx-h100' has 8 devices: --nodes 2 holds"},
           {"--gemm 8,8,8 --bytes 1MiB", 2, "leave out one of them"},
           {"--where op=send", 2, "--where chooses rows of --measured FILE"},
           {"--ranks 2147483647", 2, "--ranks"},
           {"--ranks 16777216 --bytes 8", 0, "2097152 nodes"});
    fixture_put(fixture_path("trays.csv"), "op,nranks,nnodes,size_bytes,time_us\n"
                                           "all_reduce,72,18,8589934592,20299\n");
    EXPECT("cost --measured trays.csv -c gb200", {"--format json", 0, "\"n_nodes\": 1,"},
           {"--bytes 1MiB", 2, "leave out --bytes"}, {"--dtype bf16", 2, "leave out --dtype"},
           {"--gemm 8,8,8", 2, "leave out --gemm"},
           {"--where op=send", 1, "trays.csv: no row holds --where 'op=send'"});
    expect("import trays.csv --where op=send --cluster-out t.json", 1, "no row holds --where");
    expect("cost -c fire-flyer --ranks 16", 0, "host bridge 8.100 GB/s, NIC 12.500 GB/s");
}

/* 20 experts of 1232 x 3072 x 5120: half of their launches and weights is not hidden. */
TEST(cost_prints_a_product_of_experts)
{
    EXPECT("cost -c dgx-b200 --gemm", {"20x1232,3072,5120 --format json", 0, "\"grouped\": true"},
           {"20,1232,3072,5120 --format json", 0, "\"grouped\": false"},
           {"20x1232,3072", 2, "expected M,N,K, BATCH,M,N,K or, for experts, GROUPSxM,N,K"});
}

TEST(bench_simulates_the_oracles)
{
    /* w-ar: 14 (167,772,160 + 500,000) ps and 2 x 8 x 7 messages; w-ddp: 12,000 us and ten of them;
     * store: 8 x 4 x 30 ops.
     * streams: two stages, 32 micro-batches: F 100 us, message 2^20 B / 50e9 B/s + 500 ns =
     * 21,471,520 ps; forwards of stage 1 follow each other from 121,471,520 ps on, as do the
     * backwards; stage 0 ends one message and one backward after stage 1's last backward:
     * 100 us + m + 64 x 100 us + m + 100 us = 6,600 us + 2 m = 6,642,943,040 ps, eight times */
    EXPECT("bench", {"w-ar --ranks 8 --format json", 0, "\"simulated_ps\": 2355810240,"},
           {"w-ar --ranks 8 --method recurrence --format json", 0, "\"simulated_ps\": 2355810240,"},
           {"w-ar --ranks 8 --method collective --format json", 0, "\"n_events\": 1,"},
           {"w-ar --ranks 8 --no-fold", 0, "112"},
           {"w-ddp --ranks 8 --format json", 0, "\"simulated_ps\": 35558102400,"},
           {"streams --ranks 2 --method collective --format json", 0,
            "\"simulated_ps\": 53143544320,"},
           {"3d --ranks 100", 1, "allowed: a multiple of 128"},
           {"store --ranks 4 --format json", 0, "\"n_events\": 960,"},
           {"nothing", 2,
            "unknown benchmark 'nothing'; expected one of w-ar, w-ddp, 3d, data-ranks, streams, "
            "pipeline, micro-batches, strategies, proofs, queue, cost, plan, plan-3d, units, "
            "optimal, store, tune, dispatch, by-hand, overlap, import"},
           {"queue --jitter-ns 4", 2, "queue simulates nothing"},
           {"plan --method events", 2, "plan simulates nothing"},
           {"store --no-fold", 2, "store simulates nothing"}, {"--method magic", 2, "magic"});
}

/* A workload belongs to the device that it is timed for. */
TEST(a_cluster_of_another_device_is_refused)
{
    recording_of_model("gpt2 --layers 2 --device dgx-h100", "h100.json");
    EXPECT("sim -w h100.json --dp 2 --no-db -c", {"dgx-h100", 0, "step "},
           {"p4d", 1,
            "timed for device 'H100-SXM5-80GB', cluster 'p4d' has 'A100-SXM4-40GB': --device p4d"},
           {"p4d --device p4d", 0,
            "times of device 'A100-SXM4-40GB' from those of 'H100-SXM5-80GB': the products of 3 "
            "of"});
    expect("plan -w h100.json -c dgx-a100 --dp 2", 1, "--device dgx-a100");
    expect("exec -w h100.json -c p4d --dp 2 --no-db", 1, "--device p4d");
    expect("recommend h100.json -c p4d --dp 2", 1, "--device p4d");
}

/* A plan keeps the kind of its workload: every command that reads both compares them. */
TEST(a_plan_of_another_device_is_refused)
{
    static const char *const commands[] = {"plan", "sim --no-db", "exec --no-db",
                                           "exec --no-check --no-db"};

    expect("plan -w h100.json --dp 2 -o plan_h100.json", 0, "");
    expect("sim plan_h100.json -c dgx-h100 --no-db", 0, "step ");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        EXPECT(commands[i],
               {"plan_h100.json -c p4d", 1,
                "plan 'gpt2 dp2' is timed for device 'H100-SXM5-80GB', cluster 'p4d' has "
                "'A100-SXM4-40GB': --device p4d times it by FLOPs and bytes; --as-recorded keeps "
                "its times and uses only the cluster's network; or make it for that device"});
}

/* A plan that is timed for another device has the step of the plan of the re-timed workload, and
 * its times back where they came from, to the rounding of a picosecond in each op. */
TEST(a_plan_file_is_timed_for_another_device)
{
    static const char *const plans[] = {"--dp 2 --bucket-policy single",
                                        "--dp 2 --zero 3 --recompute full",
                                        "--pp 2 --micro-batches 4 --recompute selective"};

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        double step[3];
        const char *out =
            shellf("$L plan -w h100.json %s -o p.json --force >log; "
                   "for from in \"p.json -c p4d --device p4d\" "
                   "\"-w h100.json %s -c p4d --device p4d\" "
                   "\"p.json -c p4d --device p4d --from-device dgx-h100\"; do "
                   "$L sim $from --no-db --format csv --per-rank | sed -n 2p | cut -d, -f2; done",
                   plans[i], plans[i]);
        if (sscanf(out, "%lf %lf %lf", &step[0], &step[1], &step[2]) != 3)
            fail_msg("%s: %s", plans[i], out);
        assert_true(fabs(step[0] - step[1]) <= 1); /* ns */
        assert_true(fabs(step[0] - step[2]) <= 0);
    }
    expect("plan ddp.json -c p4d --device p4d", 1,
           "--device: the plan does not name the device that its times are of; name it with "
           "--from-device");
    expect("sim p.json -c p4d --device p4d --no-db", 0, "assumption of the plan: times of device");
}

/* An unnamed device is not refused: there is nothing to compare. What is assumed is printed. */
TEST(times_of_an_unnamed_device_are_said_to_be_taken_as_the_clusters)
{
    shell("sed '/\"device\":/s/H100-SXM5-80GB/unknown/' h100.json >unnamed.json", NULL);
    EXPECT("sim --dp 2 --no-db -w",
           {"unnamed.json -c p4d", 0,
            "the workload names no device: its times are taken to be of 'A100-SXM4-40GB'"},
           {"h100.json -c dgx-h100", 0, .lacks = "no device"});
}

/* Names that mean the cluster's kind pass, of a workload and of its plan; every other name is
 * refused until --as-recorded keeps its times. */
TEST(a_device_by_any_of_its_names_is_compared_with_the_clusters)
{
    static const struct {
        const char *kind, *cluster;
        bool same;
    } cases[] = {
        {"cpu core", "dgx-h100", false},
        {"AMD EPYC 7B13", "dgx-h100", false},
        {"H100-SXM5-80GB", "host", false},
        {"Tesla X", "p4d", false},
        {"NVIDIA H100 80GB HBM3", "p4d", false},
        {"NVIDIA H100 PCIe", "dgx-h100", false},
        {"NVIDIA A100-SXM4-80GB", "p4d", false},
        {"cpu core", "host", true},
        {"AMD EPYC 7B13", "host", true},
        {"unknown", "p4d", true},
        {"H100", "dgx-h100", true},
        {"NVIDIA H100 80GB HBM3", "dgx-h100", true},
        {"NVIDIA A100-SXM4-40GB", "p4d", true},
        {"NVIDIA A100-PG509-200", "p4d", true},
    };
    static const char *const files[] = {"-w kind.json --dp 2", "kind_plan.json"};
    char said[100];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shellf("sed 's/H100-SXM5-80GB/%s/' h100.json > kind.json; "
               "$L plan -w kind.json --dp 2 -o kind_plan.json --force",
               cases[i].kind);
        for (int k = 0; k < 2; k++) {
            bool unnamed = strcmp(cases[i].kind, "unknown") == 0;
            snprintf(said, sizeof said, "is timed for device '%s', cluster '%s'", cases[i].kind,
                     cases[i].cluster);
            expectf(!cases[i].same, cases[i].same ? "step " : said, "sim %s -c %s --no-db",
                    files[k], cases[i].cluster);
            snprintf(said, sizeof said,
                     cases[i].same && !unnamed ? "cluster '%s'" : "cluster '%s with %s'",
                     cases[i].cluster, unnamed ? "unnamed device" : cases[i].kind);
            expectf(0, said, "sim %s -c %s --as-recorded --no-db", files[k], cases[i].cluster);
        }
    }
}

/* --as-recorded: MFU and memory are of the recorded device, or unknown; there is no price. */
TEST(as_recorded_mixes_no_figures_of_two_devices)
{
    shell("$L cluster p4d -o priced.json; "
          "sed -i 's/\"device\": {/\"price_per_device_hour\": {\"value\": 2, \"source\": \"t\"}, "
          "\"device\": {/' priced.json; sed 's/H100-SXM5-80GB/Tesla X/' h100.json > x.json", NULL);
    EXPECT("sim --dp 2 --no-db --format json -w",
           {"h100.json -c dgx-h100",
            0,
            "\"device_memory_bytes\": 85520809984",
            {"\"peak_tflops_per_s_per_device\": 67,"}},
           {"h100.json -c priced.json --as-recorded",
            0,
            "\"device_memory_bytes\": 85520809984",
            {"\"peak_tflops_per_s_per_device\": 67,", "\"price_per_million_tokens\": null"}},
           {"x.json -c priced.json --as-recorded",
            0,
            "\"mfu\": null",
            {"\"device_memory_bytes\": null", "of 'A100-SXM4-40GB': no figure of 'Tesla X'"}});
    expect("sim -w h100.json -c p4d --as-recorded --device p4d --no-db", 2,
           "give only one of them");
}

/* The memory of the machine that predicts is not that of a CPU that recorded. */
TEST(a_recording_on_a_cpu_gets_no_memory_of_this_machine)
{
    static const char *const kinds[] = {"AMD EPYC 7763 64-Core Processor", "cpu core"};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        shellf("sed 's/H100-SXM5-80GB/%s/' h100.json > cpu.json", kinds[i]);
        EXPECT("sim -w cpu.json --dp 2 --no-db --format json -c",
               {"dgx-a100 --as-recorded",
                0,
                "\"device_memory_bytes\": null",
                {"\"memory_fits\": null"}},
               {"host", 0, "\"memory_fits\": true"});
    }
}

/* --as-recorded is about a comparison: where there is none it says so. */
TEST(as_recorded_needs_a_cluster_to_compare)
{
    expect("plan -w h100.json --dp 2 --as-recorded", 2, "give that cluster (-c NAME)");
    expect("exec -w h100.json --dp 2 --as-recorded --no-db", 2, "give that cluster (-c NAME)");
    expect("plan -w h100.json --dp 2 --as-recorded -c p4d", 0, "");
    expect("sim -w h100.json --dp 2 --as-recorded --no-db", 0, "cluster 'host with H100");
}

/* Without FLOPs and bytes --device cannot work, so it is not offered. */
TEST(device_is_offered_where_it_can_time_the_modules)
{
    shell("sed -E 's/\"(forward_)?(flops|bytes)\": [0-9]+/\"\\1\\2\": 0/g' h100.json > bare.json; "
          "$L plan -w bare.json --dp 2 -o bare_plan.json",
          NULL);

    for (int i = 0; i < 2; i++)
        EXPECT(i ? "sim bare_plan.json" : "sim -w bare.json --dp 2",
               {"-c p4d --no-db", 1, "has 'A100-SXM4-40GB': --as-recorded keeps its times",
                .lacks = "--device"});
}

/* Without -c a prediction is for this machine's cores, and a plan is not a prediction. */
TEST(the_default_cluster_is_compared_where_it_is_predicted_with)
{
    EXPECT("sim -w h100.json --dp 2 --no-db", {"--device host", 0, "step "},
           {"", 1,
            "is timed for device 'H100-SXM5-80GB': give its cluster (-c NAME; `lapwing import "
            "--cluster-out FILE` writes a recording's); without -c it is 'host', which has 'cpu "
            "core'"});
    expect("recommend h100.json --dp 2", 1, "give its cluster (-c NAME;");
    expect("plan -w h100.json --dp 2", 0, "");
    recording_of_model("mlp --layers 2 --width 16 --device dgx-h100", "mlp_h100.json");
    expect("exec -w mlp_h100.json --dp 2 --steps 1 --warmup 0 --no-verify --compute sleep --no-db",
           0, "step ");
}

/* A recording's workload on its own links: at the recorded limits the step is within 17 % of the
 * recorded one. The last row has the default limits on a table of two sizes that are 2 KiB apart,
 * the row before it a table of 2 MB alone, and of 16 and 28 MB two at once. */
TEST(a_recording_is_predicted_from_its_own_links)
{
    static const struct {
        const char *recording, *options;
    } runs[] = {
        {"gpt6 cap1", "--bucket-cap 1MiB"},     {"gpt6 cap5", "--bucket-cap 5MiB"},
        {"gpt6 cap25", "--bucket-cap 25MiB"},   {"gpt6 capdefault", ""},
        {"resnet18 cap1", "--bucket-cap 1MiB"}, {"resnet18 cap5", "--bucket-cap 5MiB"},
        {"resnet18 cap25", "--bucket-cap 25MiB"}, {"resnet18 capdefault", ""},
        {"gpt6 cap5", ""},
    };

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct lw_workload w;
        struct lw_err err = {0};
        char model[16], cap[16];
        sscanf(runs[i].recording, "%15s %15s", model, cap);
        expectf(0, "next: lapwing sim -w own.json -c own_links.json --dp 2",
                "import $R/%s__gloo2__%s.rank?.json.gz $R/%s__local.rank0.json.gz -o own.json "
                "--cluster-out own_links.json",
                model, cap, model);
        assert_int_equal(lw_workload_read(fixture_path("own.json"), &w, &err), LW_OK);
        double step = number_after(
            lapwingf("sim -w own.json -c own_links.json --dp 2 %s --no-db --format json",
                     runs[i].options),
            "\"step_ns\": ");
        double recorded = (double)w.recorded.step_ps / 1e3;
        print_message("%s %s: %.1f %%\n", runs[i].recording, runs[i].options,
                      100 * (step / recorded - 1));
        assert_true(fabs(step / recorded - 1) <= .17);
        lw_workload_free(&w);
    }
}

/* NCCL's model gives one time for a collective and no messages: a slow link adds what it adds to a
 * ring. */
TEST(a_slow_link_delays_collectives_that_nccls_model_times)
{
    static const char *const reducers[] = {"nccl", "nccl:ring", "nccl:tree", "nccl:ring/simple"};

    expectf(0, "", "cluster dgx-h100 -o equal.json");
    shell("sed '1s/{/{\"exceptions\": [{\"rank\": 0, \"rank_to\": 1, \"speed\": 0.01}],/' "
          "equal.json > slow.json", NULL);
    for (size_t i = 0; i < sizeof reducers / sizeof *reducers; i++) {
        double step[2];
        for (int k = 0; k < 2; k++)
            step[k] = number_after(lapwingf("sim -w bert-base -c %s.json --dp 4 "
                                            "--collective-algorithm %s --no-db --format json",
                                            k ? "slow" : "equal", reducers[i]), "\"step_ns\": ");
        assert_true(step[1] > 1.1 * step[0]);
    }
}

/* Recorded on a device that no cluster has: the user says what it is like. */
TEST(an_unknown_device_is_named_by_from_device)
{
    shell("sed 's/H100-SXM5-80GB/Tesla X/' h100.json > other.json", NULL);
    EXPECT("sim -w other.json -c p4d",
           {"--device p4d --dp 2 --no-db", 1,
            "--device: unknown device 'Tesla X' of the workload; name a similar one with "
            "--from-device"},
           {"--device p4d --from-device dgx-h100 --dp 2 --no-db", 0, "step "},
           {"--from-device dgx-h100 --dp 2 --no-db", 2, "needs --device, which names the new one"});
}

/* The file's own device is the one of --device: its times are replaced all the same. */
TEST(from_device_replaces_the_files_device)
{
    double step[2];

    for (int i = 0; i < 2; i++)
        step[i] = number_after(lapwingf("sim -w h100.json -c dgx-h100 %s --device dgx-h100 --dp 2 "
                                        "--no-db --format json",
                                        i ? "--from-device p4d" : ""),
                               "\"step_ns\": ");
    assert_true(step[0] > 0 && step[1] > 0 && fabs(step[0] - step[1]) > 0);
}

/* Each block's products and its half of the scores: 2 P + 2 s h per token, of the blocks alone. */
TEST(full_recomputation_adds_a_forward_of_the_blocks)
{
    static const struct {
        const char *model;
        double layers, hidden, kv, ffn, seq;
    } models[] = {
        {"llama-3-8b", 32, 4096, 1024, 14336, 8192},
        {"llama-2-7b", 32, 4096, 4096, 11008, 4096},
        {"gpt-1.3b", 24, 2048, 2048, 0, 2048}, /* 12 h^2 weights and 13 h biases and norms */
    };

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        double h = models[i].hidden, extra[2];
        double block = models[i].ffn > 0
                           ? 2 * h * h + 2 * h * models[i].kv + 3 * h * models[i].ffn + 2 * h
                           : 12 * h * h + 13 * h;
        for (int half = 0; half < 2; half++) {
            const char *out =
                lapwingf("sim -w %s -c dgx-h100 --dp 8 --zero 3 --recompute full "
                         "--recompute-layers %g --format json --no-db",
                         models[i].model, half ? models[i].layers / 2 : models[i].layers);
            extra[half] = (number_after(out, "\"hardware_flops_per_step\": ") -
                           number_after(out, "\"model_flops_per_step\": ")) /
                          number_after(out, "\"tokens_per_step\": ");
        }
        double expected = models[i].layers * (2 * block + 2 * models[i].seq * h);
        if (fabs(extra[0] - expected) > 1 || fabs(extra[1] - expected / 2) > 1)
            fail_msg("%s: %.0f, half %.0f, expected %.0f", models[i].model, extra[0], extra[1],
                     expected);
    }
}

/* Not the sets of a norm or of tied weights, which come last. */
TEST(stored_buckets_are_those_of_gradients)
{
    static const char *const more[] = {"", "--clip 1", "--pp 2 --clip 1"};
    double n[3];

    for (int k = 0; k < 3; k++) {
        lapwingf("sim -w llama-3-8b --layers 8 -c dgx-h100 --dp 4 --framework torch-ddp "
                 "--bucket-cap 100MiB %s --db buckets.db", more[k]);
        n[k] = number_after(lapwingf("runs --db buckets.db --format json | sed -n '/\"id\": %d,/p'",
                                     k + 1), "\"n_buckets\": ");
    }
    assert_true(n[0] > 20 && n[1] == n[0] && n[2] >= n[0]);
}

/* Four micro-batches run one module: four rows, each with its own name. */
TEST(ops_that_differ_are_told_apart)
{
    static const char *const clusters[] = {"dgx-a100", "dgx-h100"};

    for (int k = 0; k < 2; k++)
        lapwingf("sim -w gpt2 -c %s --pp 2 --micro-batches 4 --partition uniform --db ops.db -q "
                 "--spans", clusters[k]);
    expect("compare 1 2 --db ops.db", 0, "backward: lm_head, micro-batch 3");
    assert_string_equal(lapwing("compare 1 2 --db ops.db | sed '1,/ops that differ/d' | "
                                "grep micro-batch | sort | uniq -d", NULL), "");
}

/* A model says how many experts a token goes to, and whether weights' copies are kept. */
TEST(what_the_model_contradicts_is_refused)
{
    EXPECT("sim -c dgx-h100 --no-db -w",
           {"mixtral-8x7b --layers 2 --dp 8 --ep 8 --dispatch-once 8", 1,
            "a token of workload 'mixtral-8x7b' goes to 2 experts: give --dispatch-once 2"},
           {"mixtral-8x7b --layers 2 --dp 8 --ep 8 --dispatch-once 2", 0, "step "},
           {"gpt2 --autocast --recompute full --recompute-method uniform --recompute-layers 2", 1,
            "copies of weights that --autocast keeps"},
           {"gpt2 --autocast --recompute full --recompute-method every --recompute-layers 2", 0,
            "step "});
}

/* A router that is limited to groups of experts sends to fewer nodes; a plan's file keeps them. */
TEST(groups_of_experts_send_to_fewer_nodes)
{
#define STRATEGY "--dp 64 --ep 64 --dispatch-once 4"
    double step[3];

    for (int k = 0; k < 2; k++) {
        char text[800];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 2,"
                 "\"hidden_size\": 1024, \"num_attention_heads\": 8,"
                 "\"num_key_value_heads\": 8, \"q_lora_rank\": 64, \"kv_lora_rank\": 64,"
                 "\"intermediate_size\": 2048, \"qk_rope_head_dim\": 32,"
                 "\"qk_nope_head_dim\": 64, \"v_head_dim\": 64, \"vocab_size\": 512,"
                 "\"max_position_embeddings\": 1024, \"first_k_dense_replace\": 1,"
                 "\"n_shared_experts\": 0,"
                 "\"n_routed_experts\": 64, \"num_experts_per_tok\": 4,"
                 "\"moe_intermediate_size\": 256, \"n_group\": 8, \"topk_group\": %d}",
                 k ? 1 : 8);
        fixture_put(fixture_path(k ? "some.json" : "all.json"), text);
        step[k] = number_after(lapwingf("sim -w %s.json -c dgx-h100 " STRATEGY
                                        " --no-db --format json", k ? "some" : "all"),
                               "\"step_ns\": ");
    }
    lapwing("plan -w some.json -c dgx-h100 " STRATEGY " -o some.plan.json", NULL);
    step[2] = number_after(lapwingf("sim some.plan.json -c dgx-h100 --no-db --format json"),
                           "\"step_ns\": ");
    assert_true(step[1] > 0 && step[1] < 0.9 * step[0]);
    assert_true(step[2] == step[1]);
#undef STRATEGY
}

/* What sends tokens to experts: a model's bytes are its, in a simulation, a plan's file, a stored
 * run and a search, each of whose rows is what sim says of it. */
TEST(a_dispatcher_is_a_choice_of_each_command)
{
#define STRATEGY "-w mixtral-8x7b --layers 2 -c dgx-h100 --dp 8 --ep 8 --dispatch-once 2 --batch 1 "
    static const char *const names[] = {"deepep", "hybridep"};
    double step[2];

    lapwing("model mixtral-8x7b --layers 2 --device dgx-h100 -o m.json", NULL);
    EXPECT("sim --no-db -c dgx-h100 --dp 8 -w",
           {"m.json --ep 8 --dispatch-once 2 --dispatcher deepep", 0, "dispatcher deepep"},
           {"m.json --ep 8 --dispatch-once 2 --dispatcher deepep --as-recorded", 1,
            "leave --dispatcher out, or give a model"},
           {"m.json --ep 8 --dispatcher flex", 2, "expected one of auto, all-to-all, deepep, hyb"},
           {"m.json --ep 8 --dispatcher hybridep", 1, "give --dispatch-once K too"},
           {"m.json --dispatcher all-to-all", 1, "needs --ep of at least 2"},
           {"gpt2 --moe-token-dispatcher-type flex", 2, "here it is --dispatcher"},
           {"gpt2 --moe-flex-dispatcher-backend deepep", 2, "here it is --dispatcher"});
    lapwing("tune " STRATEGY "--ranks 8 --global-batch 8 --zero 0 --recompute none --dispatcher "
            "deepep,hybridep --no-db --format csv > t.csv", NULL);
    for (int k = 0; k < 2; k++) {
        char row[64];
        lapwingf("plan " STRATEGY "--zero 0 --dispatcher %s -o d%d.json", names[k], k);
        step[k] = number_after(lapwingf("sim " STRATEGY "--zero 0 --dispatcher %s --db d.db "
                                        "--format json", names[k]), "\"step_ns\": ");
        assert_true(step[k] == number_after(lapwingf("sim d%d.json -c dgx-h100 --no-db "
                                                     "--format json", k), "\"step_ns\": "));
        snprintf(row, sizeof row, "%.0f", step[k]);
        has(shell("cat t.csv", NULL), row);
    }
    assert_true(step[0] < step[1]);
    expect("compare 1 2 --db d.db", 0, "--dispatcher is 'deepep' in the first plan, 'hybridep' in");
#undef STRATEGY
}

TEST_GROUP(write_files, fixture_close)
