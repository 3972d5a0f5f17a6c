/* An option that a command takes and that cannot change what it prints or stores is refused, with
 * its name and what it is for. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define TRACE "$R/gpt6__local.rank0.json.gz "

TEST_WITH(interference_is_of_simulations, fixture_open, fixture_close)
{
    EXPECT("plan -w gpt2 -c dgx-h100 --dp 2 --interference",
           {"off", 2, "--interference changes what is simulated, and plan simulates nothing"},
           {"published", 2, "give it to sim"});
    expect("exec -w mlp --interference off", 2, "and exec simulates nothing");
    has_not(lapwing("help plan", NULL), "--interference");
    has_not(lapwing("help exec", NULL), "--interference");
    has(lapwing("help sim", NULL), "--interference");
    has(lapwing("help recommend", NULL), "--interference");
}

/* What has an effect on some plans is told where it has none. */
TEST_WITH(a_stated_network_that_nothing_asks_for, fixture_open, fixture_close)
{
    lapwing("plan -w gpt2 -c dgx-a100 --dp 16 -o p.json", NULL);
    EXPECT("", {"plan -w gpt2 -c dgx-a100 --dp 16 --node-gbps 9", 0,
                "--node-gbps 9 changes nothing: no decision of this plan is made from times"},
           {"plan p.json -c dgx-a100 --node-gbps 9", 0, "--node-gbps 9 changes nothing: no"},
           {"plan -w gpt2 -c dgx-a100 --dp 16 --bucket-policy mg-wfbp --node-gbps 9", 0, "gpt2",
            .lacks = "changes nothing"},
           {"sim -w gpt2 -c dgx-a100 --dp 8 --node-gbps 9 --no-db", 0,
            "--node-gbps 9 changes nothing: all 8 ranks of the plan are on one node of cluster "
            "'dgx-a100'"},
           {"sim -w gpt2 -c dgx-a100 --dp 16 --node-gbps 9 --no-db", 0, "step",
            .lacks = "changes nothing"},
           {"sim p.json -c dgx-a100 --node-gbps 9 --no-db", 0, "step", .lacks = "changes nothing"});
}

TEST_WITH(interference_off_of_a_cluster_without_terms, fixture_open, fixture_close)
{
    EXPECT("sim -w mlp --no-db --interference off --dp 2 -c",
           {"host", 0, "--interference off changes nothing: cluster 'host' has no terms but those"},
           {"mi300x", 0, "--interference off changes nothing"},
           {"dgx-h100", 0, "step", .lacks = "changes nothing"});
    expect("sim -w mlp --no-db --dp 2 -c host --interference channels", 0, "step");
}

/* Experts' options: refused without what they act on, or told where they act on memory that neither
 * the groups nor the framework has. */
TEST_WITH(options_of_experts_without_effect, fixture_open, fixture_close)
{
#define JOB "-w qwen3-30b-a3b --layers 2 -c dgx-h100 --dp 8 "
    static const char needs[] = "--experts-in-turn changes nothing without --dispatch-once";

    EXPECT("sim --no-db " JOB, {"--experts-in-turn", 1, needs},
           {"--ep 8 --experts-in-turn", 1, needs},
           {"--ep 8 --experts-in-turn --dispatch-once 8", 0, "step"},
           {"--whole-experts", 0, "--whole-experts changes nothing: --tp 1 has no tensor group"},
           {"--tp 2 --whole-experts", 0, "step", .lacks = "changes nothing"},
           {"--serial-experts --framework torchtitan", 0, "--serial-experts changes nothing: its"},
           {"--serial-experts --framework megatron-lm", 0, "step", .lacks = "changes nothing"},
           {"--gathered-experts", 0, "--gathered-experts changes nothing: --ep 1 --tp 1 gathers"},
           {"--ep 8 --gathered-experts --framework torchtitan", 0, "no buffer of gathered tokens"},
           {"--ep 8 --gathered-experts --framework megatron-lm", 0, "step",
            .lacks = "changes nothing"},
           {"--fused-permute --framework torchtitan", 0, "--fused-permute changes nothing: its f"},
           {"--fused-permute --framework megatron-lm", 0, "without --deterministic no results"},
           {"--fused-permute --deterministic --framework megatron-lm", 0, "step",
            .lacks = "fused-permute changes"});
    expect("plan " JOB "--experts-in-turn", 1, needs);
    expect("exec --no-db " JOB "--experts-in-turn", 1, needs);
    expect("tune -w qwen3-30b-a3b --layers 2 -c dgx-h100 --ranks 8 --global-batch 8 --batch 1 "
           "--tp 1 --pp 1 --ep 8 --zero 1 --recompute none --dispatch-once 0,8 --experts-in-turn "
           "--no-db -q", 0, "not valid, ");
#undef JOB
}

/* What is said to change nothing changes no figure. */
TEST_WITH(what_is_told_to_change_nothing_changes_nothing, fixture_open, fixture_close)
{
    static const char *const options[] = {"whole-experts", "serial-experts", "gathered-experts",
                                          "fused-permute"};
    static const char *const frameworks[] = {"ideal", "megatron-lm", "megatron-bridge",
                                             "torchtitan", "nemo-automodel"};
    static const char *const groups[] = {"", "--tp 2 --ep 4 --deterministic", "--ep 8", "--tp 2",
                                         "--deterministic"};
    int n_idle = 0, n_used = 0;

    for (int g = 0; g < unit_cases(2, 5); g++)
        for (int f = 0; f < 5; f++) {
            char job[300];
            snprintf(job, sizeof job, "$L sim -w qwen3-30b-a3b --layers 2 -c dgx-h100 --dp 8 "
                     "--no-db --format json %s --framework %s", groups[g], frameworks[f]);
            char *plain = strdup(shellf("%s 2>/dev/null | grep -v wall_s", job));
            for (int o = 0; o < 4; o++) {
                bool idle = strstr(shellf("%s --%s 2>&1 >/dev/null", job, options[o]),
                                   "changes nothing") != NULL;
                bool same = strcmp(plain, shellf("%s --%s 2>/dev/null | grep -v wall_s", job,
                                                 options[o])) == 0;
                if (idle && !same)
                    fail_msg("--%s: %s", options[o], job);
                n_idle += idle;
                n_used += !same;
            }
            free(plain);
        }
    assert_true(n_idle > 20 && n_used > 4);
}

TEST_WITH(options_of_one_format_are_refused_for_others, fixture_open, fixture_close)
{
    EXPECT("import " TRACE "-o w.json", {"--op all_reduce", 1, "--op is for nccl-tests: it changes "
                                         "nothing of a file of format"},
           {"--ranks 2", 1, "--ranks is for nccl-tests"},
           {"--nodes 2", 1, "--nodes is for nccl-tests"},
           {"--in-place", 1, "--in-place is for nccl-tests"},
           {"--where gpu=H200", 1, "--where is for nccl-tests"},
           {"--loggops L=1", 1, "--loggops"},
           {"--name x", 2, "--name changes nothing without --store"},
           {"--db x.db", 2, "--db changes nothing without --store"});
    EXPECT("inspect " TRACE, {"--op all_reduce", 1, "--op is for nccl-tests"},
           {"--ranks 2", 1, "--ranks is for nccl-tests"},
           {"--where gpu=H200", 1, "--where is for nccl-tests"},
           {"--loggops L=1", 1, "--loggops"});
}

TEST_WITH(options_of_one_picture_are_refused_for_others, fixture_open, fixture_close)
{
    static const struct {
        const char *option, *of;
    } options[] = {
        {"-c dgx-a100", " roofline gemm "}, {"--op all_gather", " roofline "},
        {"--ranks 8", " roofline "},        {"--nodes 1", " roofline "},
        {"--max-ranks 1", " timeline "},    {"--step 0", " timeline memory "},
        {"--x dp", " sweep tune "},         {"--validation v.json", " predicted "},
    };
    static const char *const kinds[] = {"timeline", "overlap", "predicted", "sweep",
                                        "memory",   "roofline", "gemm",     "tune"};

    lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --db r.db", NULL);
    for (size_t o = 0; o < sizeof options / sizeof *options; o++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            int rc;
            const char *out = shellf("$L plot %s --db r.db -o - %s; echo rc $?", kinds[k],
                                     options[o].option);
            rc = (int)number_after(out, "rc ");
            bool taken = strstr(options[o].of, kinds[k]) != NULL;
            printf("%s %s\n", kinds[k], options[o].option);
            assert_true(taken ? rc != 2 : rc == 2);
            if (!taken)
                has(out, " for ");
        }
}

TEST_WITH(options_without_an_object_are_refused, fixture_open, fixture_close)
{
    lapwing("plan -w gpt2 -c dgx-a100 --dp 2 -o p.json", NULL);
    for (int i = 0; i < 2; i++)
        lapwing("sim -w gpt2 -c dgx-a100 --dp 2 --db r.db", NULL);
    EXPECT("", {"plan p.json --max-ops 5", 2, "--max-ops limits a plan that is made"},
           {"sim p.json -c dgx-a100 --no-db --max-ops 5", 2, "'p.json' is one already"},
           {"plan diff p.json p.json --dp 4", 2, "compares two plan files as they are: --dp"},
           {"plan diff p.json p.json -w gpt2", 2, "-w changes nothing"},
           {"plan diff p.json p.json -o q.json", 2, "-o changes nothing"},
           {"sim -w gpt2 -c dgx-a100 --no-db --as-recorded", 1, "--as-recorded is for a workload"},
           {"sim -w gpt2 -c dgx-a100 --no-db --device dgx-a100 --from-device dgx-h100", 1,
            "--from-device is for a workload file"},
           {"sim -w gpt2 -c dgx-a100 --no-db --spans", 2, "--spans changes nothing with --no-db"},
           {"sim -w gpt2 -c dgx-a100 --no-db --name x", 2, "--name changes nothing with --no-db"},
           {"exec -w mlp --no-db --link-latency 1us", 2,
            "--link-latency changes nothing without --link-rate"},
           {"runs --merge other.db --kind sim --db r.db", 2, "no filter"},
           {"compare 1 2 1 --all --db r.db", 2, "--all prints the buckets of two runs"},
           {"compare --all --db r.db", 2, "--all prints the buckets of two runs"},
           {"compare 1 2 --all --by cluster --db r.db", 2, "it changes nothing with --by"},
           {"compare 1 2 --all --db r.db", 0, "step"},
           {"export 1 --rank 0 --format csv -o - --db r.db", 2, "--rank is for --format chrome"});
    assert_string_equal(lapwing("runs 1 --delete --format json --db r.db", NULL),
                        "{\n  \"deleted\": [1]\n}\n");
    assert_string_equal(lapwing("runs 2 --delete --format csv --db r.db", NULL), "deleted\n2\n");
}

/* Experts that a tensor group shares are asked for by two options; the message names the given. */
TEST_WITH(experts_that_are_not_there_are_named_by_the_option, fixture_open, fixture_close)
{
    EXPECT("sim -c dgx-h100 --dp 4 --tp 2 --no-db -w",
           {"llama-3-8b --ep 4 --etp 1", 1, "--etp 1: model llama-3-8b has no experts"},
           {"llama-3-8b --whole-experts", 1, "--whole-experts: model llama-3-8b has no experts"},
           {"gpt2 --ep 4 --etp 1", 1, "--etp 1 does not apply to model gpt2"},
           {"gpt2 --whole-experts", 1, "--whole-experts does not apply to model gpt2"});
}
