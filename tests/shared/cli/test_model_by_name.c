/* -w takes a model by its name: the same plan and step as of the workload that `lapwing model`
 * writes with the shapes of the strategy's ranks. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static double number_at(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

static void same(const char *model, const char *shape, const char *strategy)
{
    char made[200], by_name[200], by_file[200];

    snprintf(made, sizeof made, "model %s --device dgx-h100 %s -o w.json --force", model, shape);
    snprintf(by_name, sizeof by_name,
             "sim -w %s -c dgx-h100 %s --no-db --format csv | grep -v wall_s", model, strategy);
    snprintf(by_file, sizeof by_file,
             "sim -w w.json -c dgx-h100 %s --no-db --format csv | grep -v wall_s", strategy);
    lapwing(made, NULL);
    char *first = strdup(lapwing(by_name, NULL));
    assert_non_null(first);
    assert_string_equal(first, lapwing(by_file, NULL));
    assert_true(strlen(first) > 100);
    free(first);
}

TEST_WITH(a_name_and_its_file_are_one_workload, fixture_open, fixture_close)
{
    same("gpt2", "", "--dp 8");
    same("gpt-1.3b", "", "--dp 8");
    same("llama-3-8b", "--tp 8 --sequence-parallel", "--tp 8 --sequence-parallel on --dp 2");
    same("mixtral-8x7b", "--ep 8", "--dp 64 --ep 8 --zero 1");
}

TEST_WITH(the_device_is_of_the_cluster_or_the_named_one, fixture_open, fixture_close)
{
    lapwing("plan -w gpt2 -c dgx-h100 --dp 8 -o h100.json", NULL);
    lapwing("plan -w gpt2 --device dgx-h100 --dp 8 -o named.json", NULL);
    lapwing("plan -w gpt2 -c dgx-a100 --dp 8 -o a100.json", NULL);
    char *h100 = strdup(lapwing("sim h100.json -c dgx-h100 --no-db | sed -n 2p", NULL));
    assert_non_null(h100);
    assert_string_equal(h100, lapwing("sim named.json -c dgx-h100 --no-db | sed -n 2p", NULL));
    assert_string_not_equal(h100, lapwing("sim a100.json -c dgx-a100 --no-db | sed -n 2p", NULL));
    free(h100);
}

/* A context group divides what depends on tokens once: its model FLOPs are the same, activations
 * are a half, and computing takes about a half, of smaller kernels. */
TEST_WITH(a_context_group_divides_a_model_once, fixture_open, fixture_close)
{
    static const char run[] = "sim -w llama-3-8b -c dgx-h100 --dp 2 --cp %d --no-db --format json";
    double flops[2], busy[2], kept[2];
    char line[200];

    for (int k = 0; k < 2; k++) {
        snprintf(line, sizeof line, run, k + 1);
        const char *out = lapwing(line, NULL);
        flops[k] = number_at(out, "\"model_flops_per_step\": ");
        busy[k] = number_at(out, "\"compute_busy_ns\": ") - 78967e3; /* the optimizer's */
        kept[k] = number_at(out, "\"activations_bytes\": ");
    }
    assert_true(flops[0] == flops[1]);
    assert_true(kept[1] > 0.49 * kept[0] && kept[1] < 0.55 * kept[0]);
    assert_true(busy[1] > 0.5 * busy[0] && busy[1] < 0.55 * busy[0]);
}

/* Times of whole products divided by a tensor group are too short, and that is said. */
TEST_WITH(products_of_other_groups_are_said, fixture_open, fixture_close)
{
    static const char said[] = "workload 'llama-3-8b' is timed by the products of --tp 1 --cp 1";

    lapwing("model llama-3-8b --device dgx-h100 -o w.json", NULL);
    expect("sim -w w.json -c dgx-h100 --dp 2 --tp 8 --no-db", 0, said);
    expect("plan -w w.json -c dgx-h100 --dp 2 --tp 2", 0, said);
    assert_null(strstr(lapwing("sim -w w.json -c dgx-h100 --dp 16 --no-db 2>&1", NULL), said));
    assert_null(
        strstr(lapwing("sim -w llama-3-8b -c dgx-h100 --dp 2 --tp 8 --no-db 2>&1", NULL), said));
}

/* Llama 2 13B has 40 heads, Llama 3 8B 32 and 8 of keys and values, in sequences of 8,192 tokens;
 * by name, and from a file that was made for one rank. */
TEST_WITH(groups_that_do_not_divide_heads_or_sequences_are_refused, fixture_open, fixture_close)
{
    lapwing("model llama-2-13b --device dgx-a100 -o 13b.json", NULL);
    lapwing("model llama-3-8b --device dgx-h100 -o 8b.json", NULL);
    EXPECT("sim --no-db -w",
           {"llama-2-13b -c dgx-a100 --tp 16", 1,
            "--tp: found 16, allowed: divisors of the heads, 40"},
           {"llama-2-13b -c dgx-a100 --tp 8", 0, "step "},
           {"13b.json -c dgx-a100 --tp 16", 1,
            "--tp 16: workload 'llama-2-13b' has 40 heads, which 16 ranks cannot divide: choose a "
            "--tp that divides 40"},
           {"llama-3-8b -c dgx-h100 --tp 16", 1,
            "--tp: found 16, allowed: divisors of the heads of keys and values, 8"},
           {"8b.json -c dgx-h100 --tp 16", 1,
            "has 8 heads of keys and values, which 16 ranks cannot divide: choose a --tp that "
            "divides 8"},
           {"llama-3-8b -c dgx-h100 --cp 3", 1, "--cp: found 3, allowed: those that cut the "
                                                "sequence, 8192 tokens"},
           {"8b.json -c dgx-h100 --cp 3", 1, "8192 tokens, expected a multiple of 6 (2 x --cp"},
           {"8b.json -c dgx-h100 --cp 2", 0, "step "});
    EXPECT("model", {"llama-2-13b --tp 16 --device dgx-a100", 1, "--tp: found 16"},
           {"llama-3-8b --tp 16 --kv-heads 16 --device dgx-h100", 0, "16 heads of keys and values"},
           {"llama-3-8b --cp 3 --device dgx-h100", 1, "--cp: found 3"});
}

/* The A100 multiplies no 8-bit floats; of the MI300X no speed of theirs is known. */
TEST_WITH(products_of_8_bits_need_a_device_that_has_them, fixture_open, fixture_close)
{
    static const char lacks[] = "has no fp8_speedup (of 8-bit products against bf16)";

    EXPECT("model llama-3-8b --fp8",
           {"--device dgx-a100", 1, "--fp8: device 'A100-SXM4-80GB' has no fp8_speedup"},
           {"--device mi300x", 1, lacks}, {"--device dgx-h100 -o w.json", 0, "step of one device"});
    lapwing("plan -w w.json -c dgx-h100 -o p.json", NULL);
    EXPECT("sim --no-db", {"-w w.json -c dgx-h100", 0, "step "},
           {"-w w.json --device dgx-a100 -c dgx-a100", 1, lacks},
           {"p.json --device dgx-a100 -c dgx-a100", 1, lacks});
}

TEST_WITH(recommend_and_exec_take_a_name, fixture_open, fixture_close)
{
    expect("recommend gpt2 -c dgx-h100 --dp 8", 0, "keep the default cap: 13 buckets");
    expect("recommend -w gpt2 -c dgx-h100 --dp 8", 0, "keep the default cap: 13 buckets");
    expect("exec -w mlp --dp 2 --steps 1 --warmup 0 --compute sleep --no-db", 0, "verified");
}

TEST_WITH(a_file_of_that_name_wins, fixture_open, fixture_close)
{
    lapwing("model mlp --layers 4 -o w.json", NULL);
    shell("mv w.json gpt2", NULL);
    expect("plan -w gpt2", 0, "plan ");
    expect("sim -w gpt2 --no-db --format json", 0, "\"plan\": \"mlp dp1\"");
}

TEST_WITH(name_of_no_file_and_no_model_is_refused, fixture_open, fixture_close)
{
    expect("sim -w gpt-2 -c dgx-h100", 1, "gpt-2: no such file; as a model: no model 'gpt-2' "
                                          "(did you mean 'gpt2'?)");
    expect("sim -w ./gpt2 -c dgx-h100", 1, "./gpt2: cannot open");
    expect("sim -w gpt2.json -c dgx-h100", 1, "gpt2.json: cannot open");
    expect("sim -w llama-3-8b", 1, "choose another device, or make the workload with");
    expect("sim -w llama-3-8b", 1, "; or give its cluster (-c NAME)");
}
