/* `lapwing plan` as a user meets it: what it writes and shows, and what it refuses. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static int make_workload(void **state)
{
    fixture_open(state);
    expect("model resnet50 -o w.json", 0, "");
    return 0;
}

TEST(a_plan_is_written_shown_and_read_back)
{
    EXPECT("plan", {"-w w.json --dp 2 -o p.json", 0, "limits [1.00 MiB, 25.00 MiB]"},
           {"p.json", 0, "resnet50 dp2: 2 ranks"},
           {"p.json --format csv",
            0,
            "rebuilt,1,f32,2,8196000,1048576,2,",
            {"rebuilt,5,f32,81,9724160,26214400,161,"}},
           {"p.json --format json", 0, "\"bytes\": 31502336"});
}

/* Units of four modules: the last one's weights stay from its forward to its backward. */
TEST(a_plan_shows_when_units_are_gathered_and_freed)
{
    expect("model mlp --layers 4 --width 8 -o m.json", 0, "");
    EXPECT("plan -w m.json --dp 2",
           {"--zero 3 --micro-batches 2",
            0,
            "4  f32             2  288 B  forward 3                 backward 3\n",
            {"5  f32             2  288 B  forward 2, backward 2     forward 2, backward 2\n",
             "6  f32             2  288 B  forward 1, backward 1     forward 1, backward 1\n",
             "7  f32             2  288 B  forward 0, backward 0     forward 0, backward 0\n"},
            .lacks = "optimizer       "},
           {"--zero 3 --reshard off", 0, "forward 1                 backward 1\n"},
           {"--zero 3 --reshard off --no-sync 1", 0, "forward 1                 backward 1\n"},
           /* whole, gathered after the step */
           {"--zero 2", 0, "optimizer                    -\n", .lacks = "gathered before"},
           {"--zero 3 --format json", 0,
            "\"gathered_before\": \"forward 1, backward 1\", "
            "\"freed_after\": \"forward 1, backward 1\""});
}

TEST(options_win_over_a_strategy_file)
{
    expect("plan -w w.json --dp 2 --bucket-cap 5MiB --no-sync 2 -o q.json", 0,
           "passes: accumulate x 2, first, repeated: accumulate x 2, steady");
    fixture_put(fixture_path("s.json"),
                "{\"lapwing\": 1, \"kind\": \"strategy\", \"options\": {\"dp\": 2, "
                "\"bucket-cap\": \"1MiB\"}}");
    expect("plan -w w.json -s s.json", 0, "limits [1.00 MiB] (an explicit cap");
    expect("plan -w w.json --bucket-cap 5MiB -s s.json", 0, "limits [5.00 MiB] (an explicit cap");
}

TEST(diff_names_the_decision_and_exits_3)
{
    EXPECT("plan", {"-w w.json --dp 2 -o a.json", 0},
           {"-w w.json --dp 2 --bucket-cap 25MiB -o b.json", 0},
           {"diff a.json a.json", 0, "the plans decide the same"},
           {"diff a.json b.json", 3,
            "strategy: --bucket-cap is none in the first plan, 25.00 MiB (26214400 B) in the "
            "second"},
           {"-w w.json --dp 2 --micro-batches 2 -o c.json", 0},
           {"diff a.json c.json", 3,
            "strategy: --micro-batches is 1 in the first plan, 2 in the second"},
           {"diff a.json b.json --format json", 3, "\"same\": false"},
           {"diff a.json", 2, "diff takes two plan files, got 1"});
}

TEST(bad_input_is_refused_in_one_line)
{
    expect("plan", 2, "lapwing plan: needs -w FILE or a plan file");
    expect("plan -w w.json --bucket-policy nope", 2,
           "--bucket-policy: unknown value 'nope'; expected one of c10d-2020");
    expect("plan -w w.json --dp 2 --ranks 3", 1,
           "--ranks 3, but --dp 2, --pp 1, --tp 1 and --cp 1 make 2 ranks");
    expect("plan -w w.json --dp 2097153 --pp 2", 1,
           "--dp 2097153, --pp 2, --tp 1 and --cp 1 make more than the "
           "4194304 ranks that a plan may have");
    expect("plan -w absent.json", 1, "absent.json");
    expect("plan -w w.json --pp 2000", 1, "2000");
    expect("plan a.json --dp 2", 2, "plan file 'a.json' holds its strategy: --dp needs -w");
    expect("plan a.json -w w.json", 2, "takes plan file 'a.json' or -w w.json, not both");
    expect("plan w.json", 1, "'w.json' is a workload, not a plan: give it with -w");
    expect("plan -w w.json --dp 2 -o /nowhere/p.json", 1, "/nowhere/p.json");
}

/* The "plan HASH" line. */
static void hash_line(const char *arguments, char line[64])
{
    snprintf(line, 64, "%.37s", lapwing(arguments, NULL));
    assert_int_equal(strncmp(line, "plan ", 5), 0);
}

/* "12.5 ms", "3 us", "1.2 s". */
static bool has_a_time(const char *text)
{
    static const char *const units[] = {" s", " ms", " us", " ns", " ps"};

    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (const char *at = text + 1; (at = strstr(at, units[u])) != NULL; at++)
            if (at[-1] >= '0' && at[-1] <= '9' && strchr(" ,;)\n", at[strlen(units[u])]))
                return true;
    return false;
}

/* A model that no device is named for: the plan that every machine has, without times. */
TEST(policies_that_read_no_time_need_no_device)
{
    static const char *const of[] = {
        "-w gpt2 --dp 8", "-w resnet50 --dp 2 --zero 3", "-w gpt2 --dp 8 --zero 2 --no-sync 1",
        "-w gpt2 --dp 2 --pp 2 --micro-batches 4 --partition uniform",
        "-w gpt2 --pp 2 --micro-batches 4 --framework torch-pipelining",
        "-w gpt2 --dp 2 --pp 4 --micro-batches 8 --schedule zb-auto-2p --partition uniform"};

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char line[256], without[64], with[64];
        snprintf(line, sizeof line, "plan %s", of[i]);
        hash_line(line, without);
        const char *shown = lapwing(line, NULL);
        has(shown, "no times: give -c NAME (or --device NAME)");
        assert_false(has_a_time(shown));
        snprintf(line, sizeof line, "plan %s -c l40s", of[i]);
        hash_line(line, with);
        assert_string_equal(with, without);
        assert_null(strstr(lapwing(line, NULL), "no times"));
        assert_true(i > 0 || has_a_time(lapwing(line, NULL)));
    }
    EXPECT("plan -w gpt2 --dp 2",
           {"--format json", 0, "\"has_times\": false", {"\"launch_ns\": null"}},
           {"--device dgx-a100 --format json", 0, "\"has_times\": true"});
}

/* Neither a name nor a file of a model; where a device is named, it needs the figure. */
TEST(narrow_operands_need_no_device)
{
    static const char *const narrow[] = {"fp8", "fp4"};
    char line[256], without[64], with[64];

    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        snprintf(line, sizeof line, "plan -w llama-3-8b --dp 2 --%s", narrow[i]);
        hash_line(line, without);
        has(lapwing(line, NULL), "no times: give -c NAME");
        snprintf(line, sizeof line, "plan -w llama-3-8b --dp 2 --%s -c dgx-b200", narrow[i]);
        hash_line(line, with);
        assert_string_equal(with, without);
        snprintf(line, sizeof line, "model llama-3-8b --%s -o narrow.json", narrow[i]);
        lapwing(line, NULL);
        hash_line("plan -w narrow.json --dp 2", with);
        assert_string_equal(with, without);
    }
    EXPECT("plan -w llama-3-8b --dp 2 --fp4", {"-c dgx-h100", 1, "has no fp4_speedup"},
           {"--device dgx-h100", 1, "has no fp4_speedup"});
}

/* 4-bit operands are a kind of the narrow ones that "fp8" counts. */
TEST(a_difference_names_the_operands_that_one_plan_has)
{
    lapwing("plan -w gpt2 --dtype bf16 --dp 2 -o wide.json", NULL);
    lapwing("plan -w gpt2 --dtype bf16 --dp 2 --fp8 -o fp8.json", NULL);
    lapwing("plan -w gpt2 --dtype bf16 --dp 2 --fp4 -o fp4.json", NULL);
    EXPECT("plan diff",
           {"wide.json fp4.json", 3, "fp4 is 0 in the first plan, 1 in the second"},
           {"fp4.json wide.json", 3, "fp4 is 1 in the first plan, 0 in the second"},
           {"fp4.json fp8.json", 3, "fp4 is 1 in the first plan, 0 in the second"},
           {"wide.json fp8.json", 3, "fp8 is 0 in the first plan, 1 in the second"});
}

/* Converters choose which products are narrow; a file keeps the choice. */
TEST(narrow_products_need_experts_and_narrow_operands)
{
    char all[64], linears[64];

    hash_line("plan -w mixtral-8x7b --layers 2 --fp8 --dp 2", all);
    hash_line("plan -w mixtral-8x7b --layers 2 --fp8 --narrow-products all --dp 2", linears);
    assert_string_equal(linears, all);
    hash_line("plan -w mixtral-8x7b --layers 2 --fp8 --narrow-products linears --dp 2", linears);
    assert_string_not_equal(linears, all);
    lapwing("model mixtral-8x7b --layers 2 --fp8 --narrow-products linears -o linears.json", NULL);
    hash_line("plan -w linears.json --dp 2", all);
    assert_string_equal(linears, all);
    EXPECT("plan --dp 2 --narrow-products linears -w",
           {"mixtral-8x7b", 1, "products are of bf16; give --fp8 or --fp4 too"},
           {"llama-2-7b --fp8", 1, "model llama-2-7b has no experts"},
           {"mixtral-8x7b --layers 2 --fp8 --framework megatron-mlperf -c dgx-h100", 1,
            "the framework holds weights of 8 bits in all blocks"});
    EXPECT("plan --dp 2 --narrow-products all -w",
           {"gpt2 --dtype bf16", 1, "all: products are of bf16; give --fp8 or --fp4 too"},
           {"gpt2 --dtype bf16 --fp4", 0, "plan"});
    EXPECT("plan -w mixtral-8x7b --fp8 --dp 2 --narrow-products",
           {"experts --layers 2 --framework torchtitan -c dgx-b200", 0, "plan"},
           {"heads", 2, "expected one of all, linears, experts, head"});
    EXPECT("plan -w llama-2-7b --layers 2 --dp 2 --narrow-products head",
           {"--fp8 -c dgx-b200", 0, "plan"},
           {"--fp8 -c dgx-h100", 1, "head is of MXFP8, whose products are of Blackwell"},
           {"--fp8 --fp8-recipe mxfp8 -c dgx-h100", 1, "MXFP8's products are of Blackwell"},
           {"--fp4 -c dgx-b200", 1, "head: the head's are of 8 bits (--fp8); leave it out"},
           {"--fp8 --tied", 1,
            "head: the embedding, whose weights the head has, is not of 8 bits"});
    expect("plan -w vit-b-16 --dtype bf16 --fp8 --narrow-products head -c dgx-b200", 1,
           "head: model vit-b-16 has no vocabulary; leave it out");
}

/* A recipe is of 8-bit operands, of devices that have its products, and of a framework that has its
 * casts; a file and a plan carry it, and without one all is as it was. */
TEST(recipes_need_operands_of_8_bits_and_a_device)
{
    char option[64], file[64];

    hash_line("plan -w llama-3-8b --layers 2 --dp 2 --fp8 --fp8-recipe mxfp8 -c dgx-b200", option);
    lapwing("model llama-3-8b --layers 2 --fp8 --fp8-recipe mxfp8 -o mx.json", NULL);
    hash_line("plan -w mx.json --dp 2 -c dgx-b200", file);
    assert_string_equal(file, option);
    lapwing("plan -w mx.json --dp 2 -c dgx-b200 -o mxp.json", NULL);
    char *plan = fixture_get(fixture_path("mxp.json"));
    assert_non_null(strstr(plan, "\"fp8_recipe\": \"mxfp8\""));
    assert_non_null(strstr(plan, "mxfp8: products take the time of operands with one scale"));
    free(plan);
    EXPECT("plan -w mx.json --dp 2 -c dgx-h100", {"", 1, "MXFP8's products are of Blackwell"});
    EXPECT("plan -w llama-3-8b --layers 2 --dp 2 --fp8-recipe",
           {"mxfp8", 1, "products are of bf16; give --fp8 too"},
           {"mxfp8 --fp4", 1, "products are of 4 bits; leave it out"},
           {"blockwise --fp8 -c dgx-h100", 0, "plan"},
           {"blockwise --fp8 -c mi300x", 1, "such products are of Hopper and Blackwell",
            {"or another recipe (tensorwise)"}},
           {"blockwise --fp8 -c dgx-a100", 1, "choose another device, or leave --fp8 out"},
           {"rowwise --fp8 -c mi300x", 0, "plan"},
           {"rowwise --fp8 -c dgx-h100 --framework nemo", 1, "which has no such recipe"},
           {"tensorwise --fp8 --narrow-products head -c dgx-b200", 1, "head is of MXFP8"},
           {"scaled --fp8", 2, "expected one of delayed, tensorwise, rowwise, blockwise, mxfp8"});
}

/* Products in TF32 are f32's on a device that has a rate for them; a file keeps the option. */
TEST(products_in_tf32_need_f32_and_a_rate)
{
    char without[64], with[64];

    hash_line("plan -w gpt2 --dtype f32 --dp 2 --tf32", without);
    hash_line("plan -w gpt2 --dtype f32 --dp 2 --tf32 -c dgx-a100", with);
    assert_string_equal(with, without);
    lapwing("model gpt2 --dtype f32 --tf32 -o tf32.json", NULL);
    hash_line("plan -w tf32.json --dp 2", with);
    assert_string_equal(with, without);
    EXPECT("plan --dp 2 -w",
           {"tf32.json -c v100-ib", 1, "has no tf32_peak_flops",
            {"the workload file has --tf32: to leave it out, make the file anew without it"}},
           {"tf32.json --dtype bf16 -c dgx-a100", 1, "products of model gpt2 are of bf16",
            {"the workload file has --tf32: to leave it out, make the file anew without it"}},
           {.args = "gpt2 --tf32 --dtype bf16 -c dgx-a100", .rc = 1, .says = "leave --tf32 out",
            .lacks = "the workload file"});
    EXPECT("plan --dp 2 --tf32 -w",
           {"gpt2 --dtype bf16", 1, "--tf32: products of model gpt2 are of bf16; give --dtype f32"},
           {"mlp", 1, "--tf32 does not apply to model mlp"},
           {"gpt2 --dtype f32 -c v100-ib", 1, "has no tf32_peak_flops"});
    EXPECT("model gpt2 --dtype f32 --device dgx-a100",
           {"--tf32", 0, "products at 0.8 of 1.56e+14 flop/s"},
           {"", 0, "products at 0.8 of 1.95e+13 flop/s"});
    lapwing("plan -w gpt2 --dtype f32 --dp 2 -o f32.json", NULL);
    lapwing("plan -w gpt2 --dtype f32 --dp 2 --tf32 -o tf32-plan.json", NULL);
    EXPECT("plan diff",
           {"f32.json tf32-plan.json", 3, "tf32 is 0 in the first plan, 1 in the second"});
}

TEST(policies_that_read_times_need_a_device)
{
    EXPECT("plan -w gpt2 --dp 8",
           {"--bucket-policy mg-wfbp", 1, "--bucket-policy mg-wfbp weighs buckets by the time",
            {"name a cluster (-c)"}},
           {"--bucket-policy optimal --device dgx-a100", 1, "name a cluster (-c)"},
           {"--launch-order completion-order", 1, "--launch-order completion-order: times decide",
            {"(-c NAME)"}});
    EXPECT("plan -w gpt2 --pp 2 --micro-batches 4 --framework ideal",
           {"", 1, "--partition exact: times decide this", {"(-c NAME)"}},
           {"--partition pipedream", 1, "--partition pipedream: times decide this"},
           {"--weigh-transfers on", 1, "--weigh-transfers on asks the cluster"});
}

TEST(more_stages_than_modules_are_refused)
{
    EXPECT("plan -w gpt2 -c dgx-h100 --pp 8 --chunks 2 --schedule interleaved-1f1b "
           "--micro-batches 8",
           {"--partition exact", 1, "--partition exact: 16 stages for 14 items, allowed: 1 to 14"},
           {"--partition pipedream", 1, "--partition pipedream: 16 stages for 14 items, allowed: "
                                        "1 to 14"},
           {"--partition uniform", 1, "part 0 of 16 gets none of the 14 modules"});
}

/* A model has kernels; a workload without them is in test_lower_tensor.c. */
TEST(a_tensor_group_of_a_model_is_said_to_follow_its_kernels)
{
    expect("plan -w gpt2 --tp 2", 0, "take what one rank takes for their kernels");
}

TEST(a_plan_without_times_is_shown_and_not_run)
{
    expect("plan -w gpt2 --dp 2 -o none.json", 0, "no times: give -c");
    expect("plan -w gpt2 --dp 2 -c dgx-a100 -o some.json", 0, "");
    EXPECT("", {"plan none.json", 0, "no times: it was made without -c NAME"},
           {"plan diff none.json some.json", 0, "the plans decide the same",
            {"unknown in the first plan"}},
           {"plan none.json --device dgx-a100", 1, "plan 'none.json' has no times",
            {"make it again with the cluster"}},
           {"plan none.json -c dgx-a100", 1, "plan 'none.json' has no times"},
           {"sim none.json", 1, "plan 'none.json' has no times"},
           {"sim none.json -c dgx-a100", 1, "plan 'none.json' has no times"},
           {"exec none.json", 1, "plan 'none.json' has no times"},
           {"export none.json --format chakra -o x", 1, "plan 'none.json' has no times"});
}

static void edit(const char *sed)
{
    shellf("sed '%s' a.json >edited.json && ! cmp -s a.json edited.json", sed);
}

/* A plan edited so that a gradient lies in no bucket, or a shard overlaps, is refused by name. The
 * classifier's two gradients, 160 and 159, make the first rebuilt bucket. */
TEST(edited_plans_are_refused)
{
    expect("plan -w w.json --dp 2 -o a.json", 0, "");
    edit("s/\\(\"bytes\": \\)8196000\\(.*\\)\"params\": .160, 159., \"offsets\": .0, "
         "1000./\\14000\\2"
         "\"params\": [160], \"offsets\": [0]/");
    expect("plan edited.json", 1, "in no bucket");
    expect("plan -w w.json --dp 2 --zero 1 -o a.json", 0, "");
    edit("s/{\"param\": 1, \\(\"owner\": [01], \"numel\": 64}\\)/{\"param\": 0, \\1/");
    expect("plan edited.json", 1,
           "shard 1 of parameter 0 'conv1.weight': elements 0 and 64 more, the "
           "shards before it end at 9408 of 9408");
    edit("s/\"lapwing\": 1/\"lapwing\": 2/");
    expect("plan edited.json", 1, "edited.json");
}

/* What the hash leaves out on purpose is named where it differs. */
TEST(what_is_no_decision_is_named_by_diff)
{
    lapwing("plan -w gpt2 --dp 2 -c dgx-a100 -o a.json", NULL);
    lapwing("plan -w gpt2 --dp 2 -c dgx-h100 -o b.json", NULL);
    EXPECT("plan diff a.json",
           {"b.json", 0, "the plans decide the same",
            {"times differ: ", "times are of 'A100-SXM4-80GB' in the first plan, 'H100"}},
           {"b.json --format json", 0, "\"yields_differ\": false"});
    edit("s/\"tokens\": [0-9]*/\"tokens\": 1/");
    EXPECT("plan diff a.json edited.json",
           {"", 0, "a step yields", {"the plans decide the same", "16, 1,"}},
           {"--format json", 0, "\"yields_differ\": true"});
    expect("plan diff a.json a.json", 0, "the plans decide the same");
    assert_null(strstr(lapwing("plan diff a.json a.json", NULL), "yields"));
}

TEST_GROUP(make_workload, fixture_close)
