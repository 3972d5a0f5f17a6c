/* Lists on the command line of sim, run as a user runs them. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define SIM "sim -w gpt2 --batch 1 -c dgx-a100 "

static int n_of(const char *text, char c)
{
    int n = 0;

    for (; *text; text++)
        n += *text == c;
    return n;
}

TEST_WITH(a_row_is_the_prediction_of_its_combination, fixture_open, fixture_close)
{
    char *all = strdup(lapwing(SIM "--dp 2,4 --zero 0,1 --no-db --format csv", NULL));
    char step[256], args[160];

    assert_non_null(all);
    assert_int_equal(n_of(all, '\n'), 5);
    for (int k = 0; k < 4; k++) {
        snprintf(args, sizeof args, SIM "--dp %d --zero %d --no-db --format csv", k < 2 ? 2 : 4,
                 k % 2);
        snprintf(step, sizeof step, "%s", csv_cell(all, k + 1, csv_column(all, "step_ns")));
        assert_string_equal(csv_cell(all, k + 1, 1), k % 2 ? "1" : "0");
        const char *one = lapwing(args, NULL);
        assert_string_equal(csv_cell(one, 1, csv_column(one, "step_ns")), step);
    }
    free(all);
}

/* Ranges double, from 0 they count, with a step they add; "all" is every word of the option. */
TEST_WITH(a_range_is_a_list, fixture_open, fixture_close)
{
    static const struct {
        const char *args, *values[6];
    } cases[] = {
        {"--dp 2..8", {"2", "4", "8"}},
        {"--dp 1,3..7", {"1", "3", "6"}},
        {"--dp 2..6+2", {"2", "4", "6"}},
        {"--zero 0..3 --dp 2", {"0", "1", "2", "3"}},
        {"--recompute all", {"none", "selective", "full"}},
        {"--bucket-cap 1MiB..5MiB --dp 2", {"1MiB", "2MiB", "4MiB"}},
    };
    char args[160];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(args, sizeof args, SIM "%s --no-db --format csv", cases[i].args);
        char *csv = strdup(lapwing(args, NULL));
        int n = 0;
        assert_non_null(csv);
        for (; cases[i].values[n]; n++)
            assert_string_equal(csv_cell(csv, n + 1, 0), cases[i].values[n]);
        assert_int_equal(n_of(csv, '\n'), n + 1);
        free(csv);
    }
    EXPECT(SIM "--no-db", {"--dp 8..2", 2, "--dp: the range from 8 to 2 is empty"},
           {"--dp 1..100000+1", 2, "--dp: the list has more than 4096 values"},
           {"--dp 1..x", 2, "--dp: '1..x' is not a whole number"},
           {"--dp all", 2, "--dp: 'all' is not a whole number"});
}

TEST_WITH(every_combination_is_a_run, fixture_open, fixture_close)
{
    expect(SIM "--dp 2,4 --framework torch-ddp,ideal --db s.db", 0, "fastest of those that fit: ");
    expect("runs 2 4 --db s.db --format json", 0, "\"framework\": \"ideal\"");
    assert_int_equal(n_of(lapwing("runs --db s.db --format csv", NULL), '\n'), 5);
}

/* A combination that cannot be predicted is a row with its reason, and the others are predicted. */
TEST_WITH(a_failure_is_a_row, fixture_open, fixture_close)
{
    EXPECT(SIM "--tp 1,5 --no-db",
           {"", 0, "tp 5: model gpt2: --tp: found 5, allowed: divisors of the heads"},
           {"--format json", 0, "{\"tp\": \"5\", \"status\": \"failed\", \"error\": \"model gpt2: ",
            {"{\"tp\": \"1\", \"status\": \"ok\", \"error\": null"}},
           {"--format csv", 0, "5,failed,\"model gpt2: "});
    expect(SIM "--tp 5,7 --no-db", 1, "none of 2 combinations can be predicted; the first: model");
}

TEST_WITH(wrong_usage_is_found_before_anything_runs, fixture_open, fixture_close)
{
    EXPECT(SIM,
           {"--dp 2,x --db none.db", 2, "--dp: 'x' is not a whole number", .lacks = "fits"},
           {"--dp 2,4 --per-rank --format csv", 2, "--per-rank makes rows of one prediction"},
           {"--dp 2,4 --dp 1,2", 2, "--dp is given two lists"},
           {"--dp 2,2", 2, "--dp: the list has '2' twice; give it once"},
           {"--dp 1..8,4", 2, "--dp: the list has '4' twice; give it once"},
           {"--dp ,", 2, "--dp: a value of the list is empty"},
           {"--dp 2,,4", 2, "--dp: a value of the list is empty"},
           {"--bucket-cap 1.5", 2, "--bucket-cap: size '1.5' has a part of a byte"},
           {"--dp 1,2,3,4,5,6,7,8,9,10 --batch 1,2,3,4,5,6,7,8,9,10 --seq 1,2,3,4,5,6,7,8,9,10 "
            "--micro-batches 1,2,3,4,5,6,7,8,9,10,11", 2, "make 11000 combinations"});
    expect("runs --db none.db", 1, "none.db");
}

TEST_WITH(a_size_that_lacks_its_unit_is_told, fixture_open, fixture_close)
{
    EXPECT(SIM "--no-db --dp 2", {"--bucket-cap 1", 0, "means 1 byte; write 1MiB for mebibytes"},
           {"--bucket-cap 25", 0, "means 25 bytes; write 25MiB for mebibytes"});
}

/* A misspelt name is no combination: nothing is predicted, the name that may be meant is said. */
TEST_WITH(a_name_that_nothing_has_stops_the_sweep, fixture_open, fixture_close)
{
    EXPECT("sim --batch 1 --dp 2 --db n.db",
           {"-w gpt2 -c dgx-a100,dgx-a10", 1, "--cluster: cluster 'dgx-a10': no such file and no "
            "known system (did you mean 'dgx-a100'?)", .lacks = "fits"},
           {"-w gpt2,gptt2 -c dgx-a100", 1, "--workload: gptt2: no such file; as a model: no model "
            "'gptt2' (did you mean 'gpt2'?)", .lacks = "fits"},
           {"-w gpt2,none.json -c dgx-a100", 1, "--workload: none.json: no such file"},
           {"-w gpt2 -c dgx-a100 --framework ideal,megatron", 1, "--framework: framework "
            "'megatron': no such file and no known framework (did you mean 'megatron-lm'?)",
            .lacks = "fits"},
           {"-w gpt2 -c dgx-a100 --device dgx-a100,nope", 1, "--device: ", .lacks = "fits"},
           {"-w gpt2 -c dgx-a100 -s none.json,none.too", 1, "--strategy: none.json"});
    expect("runs --db n.db", 1, "n.db");
}

/* Texts with commas that an option takes, and files, are one value. */
TEST_WITH(a_value_with_commas_is_no_list, fixture_open, fixture_close)
{
    shell("$L cluster dgx-a100 -o a,b.json", NULL);
    EXPECT("sim -w gpt2 --batch 1 --no-db", {"-c a,b.json --dp 2", 0, "plan gpt2 dp2"},
           {"-c dgx-a100 --pp 2 --partition explicit --partition-list 0,7", 0, "plan gpt2 "});
}

/* 16 devices in groups of 1 and 2: --dp is 16 and 8. */
TEST_WITH(dp_follows_from_ranks, fixture_open, fixture_close)
{
    EXPECT(SIM "--no-db", {"--ranks 16 --tp 2", 0, "dp8 pp1 tp2", {"16 ranks"}},
           {"--ranks 16,8 --tp 1,2", 0, "ranks  tp"},
           {"--ranks 7 --tp 2", 1, "--ranks 7 is not a multiple of the 2 ranks that --pp 1, --tp 2 "
                                   "and --cp 1 make: take --ranks 6 or 8, or other sizes",
            .lacks = "--dp"},
           {"--ranks 1 --tp 2", 1, "make: take --ranks 2, or other sizes"},
           {"--ranks 1 --pp 2 --tp 2", 1, "the 4 ranks that --pp 2, --tp 2"},
           {"--ranks 16 --tp 2 --dp 2", 1, "--ranks 16, but --dp 2"});
}

/* The usual framework of a strategy may be another in each row: then it is told. */
TEST_WITH(frameworks_that_differ_are_a_column, fixture_open, fixture_close)
{
#define MODEL "sim -w llama-2-7b --batch 1 -c dgx-h100 --dp 8 --no-db "
    EXPECT(MODEL, {"--tp 1,2 --zero 1", 0, "tp  framework", {"1   deepspeed", "2   megatron-lm",
                   "rows differ in their framework too"}},
           {"--tp 2,4 --zero 1", 0, "tp ", .lacks = "megatron-lm"},
           {"--tp 1,2 --zero 1 --framework megatron-lm", 0, "tp ", .lacks = "framework"},
           {"--tp 1,2 --zero 1 --framework ideal,megatron-lm", 0, "tp  framework",
            .lacks = "rows differ"});
#undef MODEL
}

/* A figure of a list is what the command of the row alone says. */
TEST_WITH(a_row_has_the_figures_of_one_run, fixture_open, fixture_close)
{
    static const char *const keys[] = {"\"exposed_comm_ns\": ", "\"step_ns\": "};

    for (int dp = 2; dp <= 32; dp *= 2) {
        char *one = strdup(lapwingf(SIM "--no-db -q --format json --dp %d", dp));
        const char *list = lapwingf(SIM "--no-db -q --format json --dp %d,64", dp);
        assert_non_null(strstr(one, "\"fits\": true"));
        assert_non_null(strstr(list, "\"fits\": true"));
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            if (number_after(one, keys[i]) != number_after(list, keys[i]))
                fail_msg("dp %d: %s%.0f, in a list %.0f", dp, keys[i], number_after(one, keys[i]),
                         number_after(list, keys[i]));
        free(one);
    }
}

TEST_WITH(a_cluster_that_is_too_small_is_named_with_its_size, fixture_open, fixture_close)
{
    shell("$L cluster dgx-a100 -o one.json && sed -i 's/\"devices_per_node\"/\"n_nodes\": 1, &/' "
          "one.json", NULL);
    expect("sim -w gpt2 --batch 1 -c one.json --no-db --dp 16", 1, "has 8 devices (1 node of 8)");
}

/* gpt2 has 12 blocks. */
TEST_WITH(more_recomputed_layers_than_there_are_are_told, fixture_open, fixture_close)
{
    EXPECT(SIM "--no-db --recompute full",
           {"--recompute-layers 99", 0, "--recompute-layers 99: workload 'gpt2",
            {"has 12 modules that can recompute; --recompute-layers 0 is all of them"}},
           {"--recompute-layers 13", 0, "--recompute-layers 13: "},
           {"--recompute-layers 12", 0, "plan gpt2", .lacks = "--recompute-layers"});
}

/* Days and costs: of the sweep, of one run, in CSV and from a cluster file. */
TEST_WITH(a_training_has_days_and_costs, fixture_open, fixture_close)
{
    EXPECT(SIM "--no-db --dp 8",
           {"--tokens 1T --price 2",
            0,
            "1T tokens: ",
            {" device-hours; cost ", " at 2 per device-hour"}},
           {"--price 2", 0, "price 2 per device-hour, ", {" per trillion tokens"}},
           {"--tokens 1T", 0, " device-hours\n", .lacks = "cost"},
           {"", 0, "memory ", .lacks = "per device-hour"},
           {"--tokens zero", 2, "--tokens: found 'zero', expected a number of tokens above 0"},
           {"--price 0", 2, "--price: '0' is not a number above 0"},
           {"--price inf", 2, "--price: 'inf' is not a finite number above 0, at most 1000000"},
           {"--price nan", 2, "--price: 'nan' is not a finite number above 0, at most 1000000"},
           {"--price 2e6", 2, "--price: '2e6' is not a number above 0, at most 1000000"},
           {"--tokens 1T --format json", 0, "\"price_per_device_hour\": null, \"days\": 129.5"},
           {"--tokens 1T", 0, ": 129.5 days"});
    expect(SIM "--no-db --dp 8,4 --tokens 1T", 0, "  129.5\n"); /* the same digits in a table */
    expect("sim -w resnet50 -c dgx-a100 --no-db --tokens 1T", 1,
           "--tokens: 'resnet50 dp1' does not say how many tokens a step has");
    shell("$L cluster dgx-a100 -o c.json && sed -i "
          "'s/^  \"devices_per_node\"/  \"price_per_device_hour\": 1.25,\\n&/' c.json", NULL);
    expect("sim -w gpt2 --batch 1 -c c.json --no-db --tokens 1T --force", 2, "--force");
    expect("sim -w gpt2 --batch 1 -c c.json --no-db --tokens 1T", 0, " at 1.25 per device-hour");
    expect("cluster c.json", 0, "1.25");
}

/* JSON rounds nothing: a row has the figures of one run, digit for digit. */
TEST_WITH(json_has_the_digits_of_one_run, fixture_open, fixture_close)
{
    static const char *const keys[] = {"\"tokens_per_s\": ", "\"tokens_per_s_per_device\": ",
                                       "\"samples_per_s\": "};
    double one[3];

    for (int i = 0; i < 3; i++)
        one[i] = number_after(lapwing(SIM "--dp 8 --no-db --format json", NULL), keys[i]);
    for (int i = 0; i < 3; i++)
        assert_true(number_after(lapwing(SIM "--dp 8,16 --no-db --format json", NULL), keys[i]) ==
                    one[i]);
}

/* Without a pipeline what was given for pipelines does not apply, and the row is that of a command
 * without it; given for pp 1 alone it is refused. */
TEST_WITH(pp_1_of_a_list_takes_no_options_of_pipelines, fixture_open, fixture_close)
{
    static const char *const options[] = {"--schedule 1f1b", "--schedule=gpipe",
                                          "--partition uniform",
                                          "--count_loss --count-embedding on",
                                          "--async-messages off"};
    char words[200];

    snprintf(words, sizeof words, "%s--pp 1 --micro-batches 4 --no-db --format json", SIM);
    double one = number_after(lapwing(words, NULL), "\"step_ns\": ");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        snprintf(words, sizeof words, "%s--pp 1,2 --micro-batches 4 --no-db --format json %s %s",
                 SIM, options[i], strstr(options[i], "loss") ? "--partition megatron" : "");
        const char *out = lapwing(words, NULL);
        has_not(out, "\"status\": \"failed\"");
        assert_true(number_after(out, "\"step_ns\": ") == one);
    }
    expect(SIM "--pp 1,2 --micro-batches 4 --schedule 1f1b --no-db", 0,
           "pp 1 is not a pipeline: its rows are without --schedule");
    expect(SIM "--pp 1 --micro-batches 4 --schedule 1f1b --no-db", 1, "--schedule needs --pp");
}

/* Swept options that do not apply make no rows of their own: pp 1 is one row, without them. */
TEST_WITH(pp_1_of_a_list_is_one_row_for_all_schedules, fixture_open, fixture_close)
{
    char *one = strdup(lapwing(SIM "--pp 1 --micro-batches 4 --no-db --format json", NULL));
    const char *csv = lapwing(SIM "--schedule 1f1b,gpipe,zb-h1 --pp 1,2 --micro-batches 4 --no-db "
                                  "--format csv", NULL);
    int schedule = csv_column(csv, "schedule"), n = 0;

    assert_string_equal(csv_cell(csv, 1, schedule), "");
    assert_int_equal(atoll(csv_cell(csv, 1, csv_column(csv, "step_ns"))),
                     (int64_t)number_after(one, "\"step_ns\": "));
    for (const char *c = csv; *c; c++)
        n += *c == '\n';
    assert_int_equal(n, 1 + 1 + 3);
    has_not(csv, "failed");
    free(one);
    expect(SIM "--pp 1,2 --micro-batches 4 --schedule 1f1b,gpipe --no-db", 0,
           "pp 1 is not a pipeline: its rows are without --schedule");
}

/* What `runs` and `tune` say of a prediction has its digits too. */
TEST_WITH(json_of_runs_and_searches_has_the_digits_of_one_run, fixture_open, fixture_close)
{
    static const char *const keys[] = {"\"tokens_per_s\": ", "\"mfu_pct\": ", "\"overlap_pct\": ",
                                       "\"cost_per_trillion_tokens\": "};
    double one[4];

    const char *sim = lapwing(SIM "--dp 8 --bucket-cap 25MiB --price 2.5 --db x.db --format json",
                              NULL);
    for (int i = 0; i < 4; i++)
        one[i] = number_after(sim, keys[i]);
    assert_true(one[0] != round(one[0] * 10) / 10);
    for (int i = 0; i < 4; i++)
        assert_true(number_after(lapwing("runs 1 --db x.db --format json", NULL), keys[i]) ==
                    one[i]);
    const char *tune = "tune -w gpt2 --batch 1 -c dgx-a100 --framework torch-ddp --ranks 8 --tp 1 "
                       "--pp 1 --zero 0 --recompute none --bucket-cap 25MiB --global-batch 8 "
                       "--price 2.5 --no-db -q --format json";
    const char *row = strstr(lapwing(tune, NULL), "{\"strategy\": ");
    assert_true(number_after(row, keys[0]) == one[0]);
    assert_true(number_after(row, keys[3]) == one[3]);
}

/* Exit status 3 as soon as one row does not fit. */
TEST_WITH(every_row_must_fit, fixture_open, fixture_close)
{
    static const char *const sim = "sim -w llama-3-8b -c dgx-a100 --no-db --must-fit --zero 3";

    expectf(3, "--must-fit: 1 of 2 combinations do not fit", "%s --dp 1,64", sim);
    expectf(0, "fastest", "%s --dp 64,128", sim);
    expectf(3, "--must-fit: 1 of 1 combinations do not fit", "%s --dp 1 --batch 1..1", sim);
}

/* What a prediction yields is in its row of the database. */
TEST_WITH(runs_hold_rates_memory_and_price, fixture_open, fixture_close)
{
    expect(SIM "--dp 8 --price 2 --db m.db", 0, "stored as run 1");
    char *one = strdup(lapwing(SIM "--dp 8 --price 2 --no-db --format csv", NULL));
    const char *runs = lapwing("runs --db m.db --format csv", NULL);
    static const char *const keys[] = {"tokens_per_s", "mfu_pct", "overlap_pct", "memory_bytes",
                                       "device_memory_bytes", "fits", "price_per_device_hour",
                                       "cost_per_trillion_tokens"};

    assert_non_null(one);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, "%s", csv_cell(one, 1, csv_column(one, keys[i])));
        assert_true(expected[0]);
        /* the name has commas, in quotation marks: all columns are shifted alike */
        int columns = 0;
        for (const char *p = runs; *p != '\n'; p++)
            columns += *p == ',';
        int extra = n_of(strchr(runs, '\n'), ',') - columns;
        assert_string_equal(csv_cell(runs, 1, csv_column(runs, keys[i]) + extra), expected);
    }
    free(one);
}

/* An old name of an option is read, swept and named as the new one; help has the new one alone. */
TEST_WITH(an_old_name_of_an_option_is_read, fixture_open, fixture_close)
{
    expect(SIM "--dp 8 --no-db --collective-algorithm nope", 2,
           "--collective-algorithm: unknown value 'nope'");
    char *old = strdup(lapwing(SIM "--dp 8 --no-db --reducer tree --format csv", NULL));
    assert_non_null(old);
    assert_string_equal(lapwing(SIM "--dp 8 --no-db --collective-algorithm tree --format csv",
                                NULL), old);
    free(old);
    expect(SIM "--dp 8 --reducer ring,tree --db r.db", 0, "fastest of those that fit: ");
    expect("runs --db r.db", 0, " algorithm tree, ");
    expect("plan -w gpt2 --dp 8 --reducer tree --format json", 0,
           "\"collective-algorithm\": \"tree\"");
    assert_null(strstr(lapwing("help sim", NULL), "--reducer"));
    fixture_put(fixture_path("s.json"), "{\"lapwing\": 1, \"kind\": \"strategy\", "
                                        "\"options\": {\"reducer\": \"tree\"}}\n");
    expect("plan -w gpt2 --dp 8 -s s.json --format json", 0,
           "\"collective-algorithm\": \"tree\"");
}
