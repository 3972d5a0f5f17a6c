/* The search, run as a user runs it: equal to simulating everything, on several models and
 * clusters. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/tune_help.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The steps of rows that fit, ascending. */
static int steps_of(const char *csv, int64_t *out, int most)
{
    int n = 0;

    for (int line = 1, end = csv_n_lines(csv); line < end && n < most; line++)
        if (strcmp(csv_cell(csv, line, csv_column(csv, "fits")), "yes") == 0)
            out[n++] = csv_figure(csv, line, "step_ns");
    qsort(out, (size_t)n, sizeof *out, ascending);
    return n;
}

/* All are simulated: no bound is above what it bounds; and the search without that gives the same
 * best steps. */
static void check_space(const char *args, int least)
{
    static int64_t all[1000], best[1000];
    char *every = strdup(lapwingf("tune %s --no-bounds --format csv -q", args));
    char *found = strdup(lapwingf("tune %s --best 5 --format csv -q", args));
    int n = steps_of(every, all, 1000), m = steps_of(found, best, 1000);

    assert_true(csv_n_lines(every) > least);
    assert_true(n >= 5 && m >= 5 && csv_n_lines(found) <= csv_n_lines(every));
    for (int line = 1, end = csv_n_lines(every); line < end; line++) {
        if (csv_figure(every, line, "bound_ns") > csv_figure(every, line, "step_ns") ||
            csv_figure(every, line, "needed_bound_bytes") > csv_figure(every, line, "needed_bytes"))
            fail_msg("%s: bound %lld of step %lld, bytes %lld of %lld: %s", args,
                     (long long)csv_figure(every, line, "bound_ns"),
                     (long long)csv_figure(every, line, "step_ns"),
                     (long long)csv_figure(every, line, "needed_bound_bytes"),
                     (long long)csv_figure(every, line, "needed_bytes"), csv_cell(every, line, 0));
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(best[i], all[i]);
    free(every);
    free(found);
}

/* Valid is what can be planned, whether it was simulated or not: experts are divided by data groups
 * of all sizes of one shape. */
TEST_WITH(counts_are_the_same_without_bounds, fixture_open, fixture_close)
{
    static const char space[] =
        "-w mixtral-8x7b --layers 4 -c dgx-h100 --ranks 8 --global-batch 8 --seq 1024 --batch 1 "
        "--schedule 1f1b,zb-h1 --recompute none --no-db -q --format json";
    char *found = strdup(lapwingf("tune %s", space));
    const char *every = lapwingf("tune %s --no-bounds", space);

    assert_true(number_after(every, "\"n_valid\": ") > 300);
    assert_true(number_after(found, "\"n_valid\": ") == number_after(every, "\"n_valid\": "));
    assert_true(number_after(found, "\"n_invalid\": ") ==
                number_after(every, "\"n_invalid\": "));
    free(found);
}

/* Fused attention keeps no scores: selective recomputation is then the same strategy as none, and
 * counts as its repetition, unless it is the only one that is searched. Where scores are kept it is
 * another. */
TEST_WITH(recomputation_of_nothing_is_no_strategy, fixture_open, fixture_close)
{
    static const struct {
        const char *attention, *recompute;
        int rows;
    } cases[] = {{"flash", "none,selective", 1},
                 {"flash", "selective", 1},
                 {"full", "none,selective", 2}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *csv = strdup(lapwingf(
            "tune -w gpt2 -c dgx-h100 --global-batch 8 --ranks 8 --batch 1 --framework ideal "
            "--tp 1 --pp 1 --zero 0 --attention %s --recompute %s --no-bounds --no-db "
            "--format csv -q",
            cases[i].attention, cases[i].recompute));
        assert_int_equal(csv_n_lines(csv) - 1, cases[i].rows);
        free(csv);
    }
}

/* The two largest spaces in part without LAPWING_MANY. */
TEST_WITH(equal_to_simulating_all, fixture_open, fixture_close)
{
    const bool many = getenv("LAPWING_MANY") != NULL;
    const char *const spaces[] = {
        many ? "-w gpt2 -c dgx-a100 --global-batch 32 --ranks 8 --batch 1,4"
             : "-w gpt2 -c dgx-a100 --global-batch 32 --ranks 8 --batch 1,4 --recompute none "
               "--zero 0,3",
        many ? "-w gpt2 -c p4d --global-batch 32 --ranks 16 --batch 2 --framework ideal --tp 1..4 "
               "--schedule 1f1b,gpipe,zb-h1,interleaved-1f1b --chunks 2,3"
             : "-w gpt2 -c p4d --global-batch 32 --ranks 16 --batch 2 --framework ideal --tp 2,4 "
               "--schedule 1f1b,gpipe,zb-h1,interleaved-1f1b --chunks 3",
        "-w gpt2 -c dgx-h100 --global-batch 16 --ranks 8 --batch 1 --framework torch --zero 0..3 "
        "--bucket-cap 1MiB..64MiB --pp 1,2 --tp 1,2 --recompute none --schedule 1f1b",
        "-w decoder --layers 8 --hidden 512 --heads 8 --seq 1024 --vocab 4096 -c dgx-h100 "
        "--global-batch 32 --ranks 16 --batch 1 --tp 1..8 --sequence-parallel on,off --pp 1..8 "
        "--cp 1,2 --recompute full,none --zero 0,1 --schedule 1f1b,interleaved-1f1b --chunks 2",
        "-w decoder --layers 8 --hidden 512 --heads 8 --seq 512 --vocab 4096 --experts 8 --topk 2 "
        "--expert-ffn 512 -c dgx-h100 --global-batch 16 --ranks 8 --batch 1 --tp 1,2 --pp 1,2 "
        "--zero 0,1 --recompute none --schedule 1f1b",
        "-w gpt2 -c dgx-a100 --global-batch 16 --ranks 8 --batch 1 --framework ideal --tp 1 --pp "
        "2,4,8 --zero 0 --recompute none,full --schedule all",
        "-w decoder --layers 8 --hidden 512 --heads 8 --seq 2048 --vocab 4096 --experts 16 "
        "--topk 2 --expert-ffn 512 -c dgx-a100 --global-batch 32 --ranks 16 --batch 1 "
        "--framework ideal "
        "--tp 1,2 --ep 1..16 --etp 0,1 --cp 1 --pp 1,2 --zero 1 --recompute none,full "
        "--schedule 1f1b,zb-h1 --sequence-parallel on --overlap-param-gather off",
        "-w decoder --layers 8 --hidden 512 --heads 8 --seq 2048 --vocab 4096 --experts 16 "
        "--topk 2 --expert-ffn 512 -c dgx-h100 --global-batch 32 --ranks 16 --batch 1,2 "
        "--framework ideal "
        "--tp 2 --ep 4,8 --etp 0,1 --pp 2,4 --zero 0,1 --recompute none --schedule 1f1b,dualpipev "
        "--sequence-parallel on --overlap-param-gather off",
    };

    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        check_space(spaces[i], 20);
}

/* Each strategy of a device that lacks a figure of the model is one that is not valid; the others
 * are those of a search without that device. */
TEST_WITH(a_device_without_times_of_the_model_has_no_valid_strategy, fixture_open, fixture_close)
{
    static const char space[] =
        "tune -w llama-3-8b --layers 4 --fp4 --ranks 8 --global-batch 8 --batch 1 --tp 1,2 "
        "--pp 1,2 --cp 1 --zero 1 --recompute none --schedule 1f1b --best 2 --format json -q "
        "--no-db";
    static const char *const orders[] = {"dgx-b200,dgx-h100", "dgx-h100,dgx-b200"};
    double step = number_after(strstr(lapwingf("%s -c dgx-b200", space), "\"best\""),
                               "\"step_ns\": ");
    int64_t n = (int64_t)number_after(lapwingf("%s -c dgx-b200", space), "\"n_valid\": ");

    for (int i = 0; i < 2; i++) {
        const char *json = lapwingf("%s -c %s", space, orders[i]);
        assert_int_equal((int64_t)number_after(json, "\"n_valid\": "), n);
        assert_int_equal((int64_t)number_after(json, "\"n_invalid\": "), n);
        has(json, "has no fp4_speedup");
        assert_true(number_after(strstr(json, "\"best\""), "\"step_ns\": ") == step);
    }
    expect("tune -w llama-3-8b --fp4 --ranks 8 --global-batch 8 --no-db -c dgx-h100", 1,
           "tune: model llama-3-8b: --fp4: device 'H100-SXM5-80GB' has no fp4_speedup");
    expect("tune -w llama-3-8b --fp4 --ranks 8 --global-batch 8 --no-db -c dgx-h100,dgx-a100", 1,
           "is a valid strategy");
    expect("tune -w nosuch --ranks 8 --global-batch 8 --no-db -c dgx-h100,dgx-a100", 1,
           "nosuch: no such file");
}

/* Numbers do not depend on which strategy of a kind came first: of tp=2 and four stages ep=4 does
 * not divide the data group, of two stages it does. */
TEST_WITH(refused_groups_are_counted_in_any_order, fixture_open, fixture_close)
{
    static const char *const stages[] = {"2,4", "4,2"};

    for (int i = 0; i < 2; i++) {
        const char *json = lapwingf(
            "tune -w decoder --layers 8 --hidden 512 --heads 8 --seq 512 --vocab 512 --experts 8 "
            "--topk 2 --expert-ffn 64 -c dgx-h100 --ranks 16 --global-batch 32 --batch 1 "
            "--framework ideal --tp 2 --ep 4 --etp 0 --cp 1 --zero 1 --recompute none,full "
            "--schedule gpipe,1f1b,zb-h1,interleaved-1f1b --chunks 2,4 --sequence-parallel off "
            "--best 1 --format json -q --pp %s", stages[i]);
        assert_int_equal((int64_t)number_after(json, "\"n_invalid\": "), 20);
        assert_int_equal((int64_t)number_after(json, "\"n_valid\": "), 20);
    }
}

/* Tokens to experts and back take most of this step: a bound without them is below half of it. */
TEST_WITH(bounds_count_tokens_to_experts, fixture_open, fixture_close)
{
    const char *csv =
        lapwing("tune -w decoder --layers 4 --hidden 1024 --heads 8 --seq 4096 --vocab 512 "
                "--experts 16 --topk 8 --expert-ffn 64 -c dgx-h100 --ranks 16 --global-batch 16 "
                "--batch 1 --framework ideal --tp 1 --cp 1 --pp 1 --ep 16 --zero 1 --recompute "
                "none --format csv -q", NULL);
    int n = csv_n_lines(csv);

    assert_true(n > 1);
    for (int line = 1; line < n; line++)
        assert_true(10 * csv_figure(csv, line, "bound_ns") > 9 * csv_figure(csv, line, "step_ns"));
}

/* Spaces of at most 500 strategies of small models, drawn at random. */
TEST_WITH(equal_to_simulating_all_of_random_spaces, fixture_open, fixture_close)
{
    struct prng r = prng_start("equal_to_simulating_all_of_random_spaces");

    for (int i = 0; i < 4; i++) {
        char args[600];
        snprintf(args, sizeof args,
                 "-w decoder --layers %s --hidden 512 --heads 8 --seq %s --vocab 4096 %s -c %s "
                 "--global-batch %s --ranks 16 --batch %s --tp %s --pp %s --zero %s --recompute %s "
                 "--schedule %s --chunks 2 --sequence-parallel %s --overlap-param-gather %s "
                 "--bucket-cap %s",
                 tune_one_of(&r, "8|12|16"), tune_one_of(&r, "512|2048"),
                 tune_one_of(&r, "|--experts 8 --topk 2 --expert-ffn 512 --ep 1,2"),
                 tune_one_of(&r, "dgx-a100|dgx-h100|p4d|gb300"), tune_one_of(&r, "16|32|48"),
                 tune_one_of(&r, "1|2|1,2"), tune_one_of(&r, "1,2|1,4|2,4"),
                 tune_one_of(&r, "1,2,4|2,4|1,4,8"),
                 tune_one_of(&r, "0,3|1,3|2,3|0,1"), tune_one_of(&r, "none|full|none,full"),
                 tune_one_of(&r, "1f1b,interleaved-1f1b|gpipe,zb-h1|1f1b,zb-v|"
                                 "interleaved-1f1b,zb-h2"),
                 tune_one_of(&r, "off,on|off"), tune_one_of(&r, "off|on|off,on"),
                 tune_one_of(&r, "25MiB|64KiB|1MiB,8MiB"));
        check_space(args, 6);
    }
}

/* GPipe is in the list before 1F1B, takes as long and holds more; with bounds and without. */
TEST_WITH(of_equal_steps_the_least_memory_is_first, fixture_open, fixture_close)
{
#define ARGS "-w gpt2-medium -c dgx-a100 --ranks 4 --global-batch 16 --batch 1 --framework ideal " \
             "--tp 1 --pp 1,2 --zero 0,1 --schedule gpipe,1f1b --bucket-policy c10d "              \
             "--recompute none --gradient-as-bucket-view off,on --bucket-cap 1MiB,2GiB --best "
    for (int n = 1; n < 20; n += 3) {
        char args[400];
        snprintf(args, sizeof args, ARGS "%d", n);
        char *found = tune_best_of(args);
        snprintf(args, sizeof args, ARGS "%d --no-bounds", n);
        char *all = tune_best_of(args);
        assert_string_equal(found, all);
        free(found);
        free(all);
    }
    char *best = tune_best_of("-w gpt2-medium -c dgx-a100 --ranks 4 --global-batch 16 --batch 1 "
                              "--tp 1 --pp 2 --framework ideal --zero 0 --schedule gpipe,1f1b "
                              "--recompute none --best 2");
    const char *first = strstr(best, "\"step_ns\": "), *second = strstr(first + 1, "\"step_ns\": ");
    assert_non_null(second);
    assert_int_equal(atoll(first + 11), atoll(second + 11));
    assert_non_null(strstr(best, "schedule=1f1b"));
    assert_true(strstr(best, "schedule=1f1b") < strstr(best, "schedule=gpipe"));
    free(best);
#undef ARGS
}

/* Of every row, of the best or not: slower than the first by more than the difference. */
TEST_WITH(rows_beyond_the_best_are_told_apart, fixture_open, fixture_close)
{
#define ARGS "tune -w gpt2 -c dgx-a100 --ranks 8 --global-batch 64 --batch 2,8 --tp 1 --pp 1,4 " \
             "--zero 0,3 --schedule 1f1b --recompute none --best 2 --no-bounds --no-db -q --format "
    char *json = strdup(lapwing(ARGS "json", NULL));
    char *csv = strdup(lapwing(ARGS "csv", NULL));
    double within = 1 + number_after(json, "\"difference_pct\": ") / 100;
    double first = number_after(json, "\"step_ns\": ");
    int n[2] = {0};

    for (int line = 1, end = csv_n_lines(csv); line < end; line++) {
        bool slower = (double)csv_figure(csv, line, "step_ns") > within * first;
        assert_string_equal(csv_cell(csv, line, csv_column(csv, "told_apart")),
                            slower ? "yes" : "no");
        n[slower]++;
    }
    assert_true(n[false] > 2 && n[true] > 2);
    assert_non_null(strstr(strstr(json, "\"pareto\""), "\"told_apart\": true"));
    free(json);
    free(csv);
#undef ARGS
}

/* The printed commands of rows predict their steps, to the nanosecond. */
static void check_commands(const char *args)
{
    char *json = strdup(lapwingf("tune %s --best 3 --format json -q", args));
    const char *at = strstr(json, "\"best\"");
    int n = 0;

    assert_non_null(at);
    for (; n < 3 && (at = strstr(at, "\"step_ns\": ")) != NULL; n++) {
        int64_t step = atoll(at + strlen("\"step_ns\": "));
        char words[900];
        at = strstr(at, "\"command\": \"lapwing ") + strlen("\"command\": \"lapwing ");
        snprintf(words, sizeof words, "%.*s --no-db --format json", (int)strcspn(at, "\""), at);
        assert_int_equal((int64_t)number_after(lapwing(words, NULL), "\"step_ns\": "), step);
    }
    assert_int_equal(n, 3);
    free(json);
}

TEST_WITH(the_command_of_a_row_gives_its_step, fixture_open, fixture_close)
{
#define DECODER "-w decoder --layers 8 --hidden 512 --heads 8 --vocab 4096 --global-batch 16 "
    check_commands("-w gpt2 -c dgx-a100 --global-batch 32 --ranks 8 --recompute none,full");
    check_commands(DECODER "-c dgx-h100 --ranks 16 --seq 512 --experts 8 --topk 2 --expert-ffn 512 "
                           "--ep 2 --tp 1,2 --pp 2 --zero 1,3 --recompute none --batch 1");
    check_commands(DECODER "-c gb300 --ranks 16 --seq 8192 --cp 2 --tp 2 --pp 1,2 --zero 3 "
                           "--recompute full --batch 1");
#undef DECODER
}

/* Caps that make one plan have one simulation, and each of them a row with what `sim` says of it.
 * DeepSpeed's buffers have the cap's size: there no row stands for another. */
TEST_WITH(caps_of_the_same_plan_have_its_figures, fixture_open, fixture_close)
{
    static const char *const frameworks[] = {"torch", "megatron-lm", "deepspeed"};

    for (size_t i = 0; i < 3; i++) {
        char *csv = strdup(lapwingf(
            "tune -w gpt2 -c dgx-a100 --global-batch 8 --ranks 8 --batch 1 --framework %s --tp 1 "
            "--pp 1,2 --zero %d --recompute none --schedule 1f1b --overlap-param-gather off "
            "--bucket-cap 8MiB,20MiB,21MiB,900MiB,1GiB,4GiB --no-bounds --best 1 --db s.db -q "
            "--format csv",
            frameworks[i], i > 0));
        assert_int_equal(csv_n_lines(csv), 13);
        for (int line = 1; line < 13; line++) {
            char words[900];
            snprintf(words, sizeof words, "%s --no-db --format json",
                     csv_cell(csv, line, csv_column(csv, "command")) + strlen("lapwing "));
            const char *json = lapwing(words, NULL);
            assert_int_equal((int64_t)number_after(json, "\"step_ns\": "),
                             csv_figure(csv, line, "step_ns"));
            assert_int_equal((int64_t)number_after(json, "\"peak_memory_bytes\": "),
                             csv_figure(csv, line, "peak_memory_bytes"));
        }
        const char *losers = lapwing("runs --search last --losers --db s.db --format csv", NULL);
        const char *same = strstr(losers, "; the same plan as with bucket-cap=900MiB");
        assert_int_equal(same != NULL, i < 2);
        free(csv);
    }
}

/* The days and the cost of a row are those of `sim` with its options: 1e12 / tokens/s / 86,400, and
 * 24 hours of 8 devices at 2. */
TEST_WITH(days_and_cost_are_those_of_sim, fixture_open, fixture_close)
{
#define WORK                                                                                      \
    "-w gpt2 -c dgx-a100 --global-batch 64 --batch 4 --tokens 1T --price 2 --framework torch "
    char *found = strdup(lapwing("tune " WORK "--ranks 8 --tp 1 --pp 1 --zero 0 --recompute none "
                                 "--best 1 --db t.db --format json -q", NULL));
    double days = number_after(found, "\"days\": "), cost = number_after(found, "\"cost\": ");
    const char *sim = lapwing("sim " WORK "--dp 8 --no-db --format json", NULL);

    assert_true(days > 0 && fabs(days - number_after(sim, "\"days\": ")) < 1e-4);
    assert_true(fabs(cost - days * 24 * 8 * 2) < 0.1);
    const char *again = lapwing("runs --search last --db t.db --format json", NULL);
    assert_true(number_after(again, "\"days\": ") == days);
    free(found);
    EXPECT("tune", {"-w resnet50 -c dgx-a100 --ranks 8 --global-batch 64 --tokens 1T --no-db", 1,
                    "lapwing tune: --tokens: 'resnet50' does not say how many tokens a step has"},
                   {WORK "--ranks 8 --tokens 0 --no-db", 2, "--tokens: found '0', expected"});
#undef WORK
}

/* The command of a row has them too; and a search is printed with them from its database, however
 * long its command line was. */
TEST_WITH(tokens_and_price_are_kept, fixture_open, fixture_close)
{
    char same_folder[1400] = "";

    for (int i = 0; i < 650; i++)
        strcat(same_folder, "./");
    char *found = strdup(lapwingf("tune -w gpt2 -c dgx-a100 --ranks 8 --global-batch 64 --batch 4 "
                                  "--tp 1 --pp 1 --zero 0 --recompute none --framework torch "
                                  "--best 1 --format json -q --db %st.db --tokens 1T --price 2",
                                  same_folder));
    double days = number_after(found, "\"days\": "), cost = number_after(found, "\"cost\": ");
    const char *command = strstr(found, "\"command\": \"lapwing ") + 20;
    char words[900];

    snprintf(words, sizeof words, "%.*s --no-db --format json", (int)strcspn(command, "\""),
             command);
    assert_non_null(strstr(words, " --tokens 1T --price 2 "));
    const char *sim = lapwing(words, NULL);
    assert_true(fabs(number_after(sim, "\"days\": ") - days) < 1e-4);
    assert_true(fabs(number_after(sim, "\"cost\": ") - cost) < 0.1);
    const char *again = lapwing("runs --search last --db t.db --format json", NULL);
    assert_true(number_after(again, "\"days\": ") == days);
    free(found);
}

/* Memory follows --offload: what does not fit without it is no bound of what does. */
TEST_WITH(the_order_of_values_changes_nothing, fixture_open, fixture_close)
{
#define SPACE "$L tune --framework megatron-lm --seq 4096 -w llama-2-13b -c dgx-a100 --ranks 8 " \
              "--global-batch 16 --pp 1 --tp 1 --zero 2 --batch 1 --recompute none "             \
              "--overlap-param-gather off --no-db --format csv "
    int rc;
    const char *differ = shell(SPACE "--offload none,activations,optimizer >a.csv 2>/dev/null; "
                               SPACE "--offload optimizer,activations,none >b.csv 2>/dev/null; "
                               "sort a.csv >a; sort b.csv >b; wc -l <a; cmp a b", &rc);
    assert_int_equal(rc, 0);
    assert_true(atoi(differ) > 2);
#undef SPACE
}

/* On standard error, also where nothing is found. */
TEST_WITH(numbers_of_combinations_come_before_the_search, fixture_open, fixture_close)
{
    int rc;
    const char *text = shell("$L tune -w gpt-175b -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 "
                             "--tp 8,16 --pp 1 --zero 0,1 2>&1 >/dev/null", &rc);
    const char *numbers = strstr(text, "1200 combinations, 594 of them repeat another, 600 are not "
                                       "valid: 6 strategies");
    const char *answer = strstr(text, "lapwing tune: none of 6 strategies fits");

    assert_int_equal(rc, 1);
    assert_non_null(numbers);
    assert_non_null(strstr(numbers, "not valid, 600: --pp x --tp x --cp does not divide"));
    assert_true(answer > numbers);
}

TEST_WITH(threads_change_nothing, fixture_open, fixture_close)
{
#define ARGS                                                                                  \
    "tune -w gpt2 -c dgx-a100 --global-batch 32 --ranks 8 --batch 1,2 --format csv --no-db -q "
    char *one = strdup(lapwing(ARGS "--threads 1", NULL));

    assert_string_equal(lapwing(ARGS "--threads 3", NULL), one);
#undef ARGS
    free(one);
}

/* A step of a range that is larger than what is left of all numbers. */
TEST_WITH(a_range_ends_before_its_step_overflows, fixture_open, fixture_close)
{
    char *one = strdup(lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --tp 1,2 --format csv --no-db -q",
                               NULL));
    char *first = strdup(lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --tp 1..5+9223372036854775807 "
                                 "--format csv --no-db -q", NULL));

    assert_int_equal(csv_n_lines(one), 3);
    assert_int_equal(csv_n_lines(first), 2);
    assert_memory_equal(first, one, strlen(first));
    free(first);
    free(one);
}

TEST_WITH(bad_input_is_one_line, fixture_open, fixture_close)
{
    EXPECT("tune",
           {"-c dgx-a100 --global-batch 8", 2, "needs a model (-w NAME)"},
           {"-w gpt2 -c dgx-a100", 2, "needs --global-batch N"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --micro-batches 4", 2,
            "--micro-batches: a search does not take it"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --pp 4..2", 2, "the range from 4 to 2 is empty"},
           {"-w gpt2 -c dgx-a100 --global-batch 32,64", 2,
            "--global-batch has 2 values, expected one: a search compares steps of the same work"},
           {"-w gpt2,gpt2-xl -c dgx-a100 --global-batch 8", 2, "--workload has 2 values"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --seq 512,1024", 2,
            "--seq has 2 values, expected one"},
           {"-w decoder -c dgx-a100 --global-batch 8 --layers 8,16,32", 2,
            "--layers has 3 values, expected one"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --vocab 1024..4096", 2,
            "--vocab has 3 values, expected one"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --ranks 8 --tp 16", 1,
            " combinations is a valid strategy; most often: --pp x --tp x --cp does not divide "
            "--ranks 8"},
           {"-w gpt2 -c dgx-a100 --global-batch 63 --ranks 8 --batch 2", 1,
            "of those with 8 ranks most often: --global-batch 63 does not divide"},
           {"-w gpt2 -c dgx-a100 --global-batch 64 --ranks 7 --zero 0", 1,
            "of those with 7 ranks most often: --global-batch 64 does not divide"},
           {"-w gpt2 -c dgx-a100 --global-batch 64 --ranks 3,7 --zero 0", 1,
            "of those with the ranks of --ranks most often: --global-batch 64 does not divide"},
           {"-w gpt2 -c host --global-batch 8192 --ranks 8192 --no-db -q", 1,
            "choose a cluster that is large enough"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --ranks 8 --tp 2 --pp 2 --dp 3", 1,
            "--dp x --pp x --tp x --cp is not --ranks 8"},
           {"-w gpt-175b -c dgx-a100 --global-batch 8 --ranks 8 -q", 1,
            "fits; the closest, batch=1 ",
            {" of each device: take more devices (--ranks)"}},
           {"-w gpt2 -c dgx-a100 --ranks 1 --framework torch-ddp --zero 0 --recompute none "
            "--batch 28 --global-batch 28 --no-db -q", 1, "(predictions of memory are off by 3 %)",
            {"at least 897.92 MiB"}},
           {"-w gpt2 -c dgx-a100 --ranks 1 --framework torch-ddp --zero 0 --recompute none "
            "--batch 31 --global-batch 31 --no-db -q", 1, "at least 9.17 GiB",
            {"of each device: "}},
           {"-w nothing -c dgx-a100 --global-batch 8", 1, "nothing"});
}
