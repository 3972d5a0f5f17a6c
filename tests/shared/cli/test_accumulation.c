/* --micro-batches and --no-sync together, as a loop of torch has them: of M backwards of a step K
 * do not reduce. */
#include "tests/lib/unit.h"
#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const char sim[] = "sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --no-db -q ";

static double step(const char *options)
{
    const char *out = lapwingf("%s%s --format json", sim, options);

    return number_after(out, "\"step_ns\": ");
}

TEST_WITH(a_step_has_as_many_backwards_as_micro_batches, fixture_open, fixture_close)
{
    static const char words[] = "a step has 4 backwards on each rank, and gradients are reduced "
                                "once, after the last";
    static const char *const same[] = {"--micro-batches 4 --sync-each-micro-batch off",
                                       "--no-sync 3",
                                       "--micro-batches 4 --no-sync 3"};

    for (int i = 0; i < 3; i++) {
        const char *out = lapwingf("%s%s", sim, same[i]);
        has(out, words);
        out = lapwingf("%s%s --format json", sim, same[i]);
        assert_true(number_after(out, "\"backwards_per_step\": ") == 4);
        assert_true(number_after(out, "\"reductions_per_step\": ") == 1);
    }
    assert_true(step(same[1]) == step(same[2])); /* not 16 backwards */
    has_not(lapwingf("%s", sim), "backwards on each rank");
}

TEST_WITH(no_sync_0_reduces_each_or_is_refused, fixture_open, fixture_close)
{
    const char *out = lapwingf("%s--zero 2 --micro-batches 4 --no-sync 0", sim);

    has(out, "a step has 4 backwards on each rank, and each is reduced");
    assert_true(step("--zero 2 --micro-batches 4 --no-sync 0") ==
                step("--zero 2 --micro-batches 4"));
    static const char *const each[] = {"--micro-batches 4", "--micro-batches 4 --no-sync 0",
                                       "--micro-batches 4 --sync-each-micro-batch on"};
    for (int i = 0; i < 3; i++) { /* torch-ddp's usual way */
        out = lapwingf("%s%s --format json", sim, each[i]);
        assert_true(number_after(out, "\"reductions_per_step\": ") == 4);
        assert_true(step(each[i]) == step(each[0]));
    }
    EXPECT("sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --no-db -q --micro-batches 4 --no-sync 0",
           {"--zero 1", 2, "each of the 4 backwards of a step would be reduced",
            {"leave --no-sync out to reduce once"}},
           {"--sync-each-micro-batch off", 2, "leave one of them out"});
}

TEST_WITH(contradictions_are_refused_with_what_to_give, fixture_open, fixture_close)
{
    EXPECT("sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --no-db -q",
           {"--micro-batches 2 --no-sync 3", 2, "at most 1 do not reduce",
            {"for 4 backwards give --no-sync 3 alone"}},
           {"--micro-batches 4 --no-sync 1", 2, "3 of the 4 backwards of a step would be reduced",
            {"--no-sync 3, or each: --no-sync 0"}});
    /* a pipeline's micro-batches are one pass, and passes are accumulated */
    has(lapwing("sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --pp 2 --micro-batches 4 --no-sync 3 "
                "--no-db -q", NULL),
        "a step has 16 backwards on each rank");
}

TEST_WITH(a_strategy_file_with_both_is_no_product, fixture_open, fixture_close)
{
    static const struct {
        const char *options;
        double backwards, reductions;
    } of[] = {{"\"micro-batches\": 4, \"no-sync\": 3", 4, 1},
              {"\"micro-batches\": 4, \"no-sync\": 0", 4, 4},
              {"\"micro-batches\": 4", 4, 4},
              {"\"no-sync\": 3", 4, 1},
              {"\"zero\": 2, \"micro-batches\": 4, \"no-sync\": 0", 4, 4}};
    static const char head[] = "{\"lapwing\": 1, \"kind\": \"strategy\", \"options\": {\"dp\": 2, ";
    char text[256];

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(text, sizeof text, "%s%s}}", head, of[i].options);
        fixture_put(fixture_path("both.json"), text);
        const char *out = lapwingf("%s-s both.json --format json", sim);
        assert_true(number_after(out, "\"backwards_per_step\": ") == of[i].backwards);
        assert_true(number_after(out, "\"reductions_per_step\": ") == of[i].reductions);
    }
    snprintf(text, sizeof text, "%s\"micro-batches\": 4, \"no-sync\": 1}}", head);
    fixture_put(fixture_path("both.json"), text);
    EXPECT("sim -w gpt2 --batch 1 -c dgx-a100 --no-db -q",
           {"-s both.json", 2, "3 of the 4 backwards of a step would be reduced",
            {"both.json", "--no-sync 3, or each: --no-sync 0"}});
    /* one of the file, one of the command line */
    snprintf(text, sizeof text, "%s\"micro-batches\": 4}}", head);
    fixture_put(fixture_path("both.json"), text);
    const char *out = lapwingf("%s-s both.json --no-sync 3 --format json", sim);
    assert_true(number_after(out, "\"backwards_per_step\": ") == 4);
}

/* Told at once, with what is the most, in place of minutes without a word. Ranks that are alike
 * are simulated once, however many they are. */
TEST_WITH(more_passes_than_can_be_simulated_are_refused, fixture_open, fixture_close)
{
    EXPECT("sim -w gpt2 --batch 1 -c dgx-a100 --no-db -q",
           {"--dp 2 --steps 1000000", 1, "1000000 steps and 2 before them are about 194.0 million",
            {"4.34 GiB of memory", "--steps 345920 is the most"}},
           {"--dp 32 --steps 1000000", 1, "--steps 345920 is the most"},
           {"--dp 2 --no-sync 1000000", 1, "at most 67.1 million are simulated",
            {"with --steps 1 --no-sync 251342 is the most"}},
           {"--dp 2 --no-sync 1000000 --steps 1000000", 1, "is the most"});
    EXPECT("exec -w mlp --width 8 -c dgx-a100 --dp 2 --no-db -q",
           {"--steps 1 --no-sync 1000000", 1, "at most 67.1 million are run by a rank",
            {"would take about"}},
           {"--no-sync 1000 --steps 100000", 1, "is the most"});
}

TEST_WITH(exec_says_how_many_backwards_it_runs, fixture_open, fixture_close)
{
    static const char run[] = "exec -w mlp --width 8 -c dgx-a100 --dp 2 --steps 1 --no-db -q ";

    has(lapwingf("%s--no-sync 3", run), "a step has 4 backwards on each rank, and gradients are "
                                        "reduced once, after the last");
    has(lapwingf("%s--micro-batches 4 --no-sync 0", run), "4 backwards on each rank, and each is "
                                                          "reduced");
    has_not(lapwingf("%s", run), "backwards on each rank");
}
