/* lapwing tune --here: what is refused, and what is executed, told and stored. How good predictions
 * are is the machine's matter: a status of 0, 3 or 4 says that all of it ran. */
#include "tests/lib/unit.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

static const char cluster[] =
    "{\"lapwing\": 1, \"kind\": \"cluster\", \"name\": \"two cores\", \"calibrated\": true,"
    " \"devices_per_node\": 2, \"device\": {\"kind\": \"cpu core\", \"memory_bytes\": {\"value\": "
    "1e9, \"source\": \"t\"}, \"copy_bytes_per_s\": {\"value\": 1e9, \"source\": \"t\"}, "
    "\"peak_flops\": {\"f32\": {\"value\": 5e10, \"source\": \"t\"}}, \"gemm_efficiency\": "
    "{\"value\": 1, \"source\": \"t\"}, \"memory_bytes_per_s\": {\"value\": 1e10, \"source\": "
    "\"t\"}},"
    " \"links\": [{\"name\": \"memory\", \"level\": \"intra\", \"bytes_per_s\": {\"value\": 1e9, "
    "\"source\": \"t\"}, \"latency_ns\": {\"value\": 1000, \"source\": \"t\"}, \"n_links\": "
    "{\"value\": 1, \"source\": \"t\"}}]}";

static int put_files(void **state)
{
    fixture_open(state);
    fixture_put(fixture_path("c.json"), cluster);
    return 0;
}

static bool two_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 2;
}

#define SMALL                                                                                      \
    "tune --here -c c.json -w mlp --layers 4 --width 128 --batch 8 --optimizer sgd "               \
    "--global-batch 16 --ranks 2 --steps 1 --repeats 2 -q "

static char *here(const char *words)
{
    char args[400];
    int rc;

    snprintf(args, sizeof args, SMALL "%s", words);
    const char *out = lapwing(args, &rc);
    if (rc != 0 && rc != 3 && rc != 4)
        fail_msg("lapwing %s: exit %d\n%s", args, rc, out);
    return strdup(out);
}

/* Ten strategies with two runs each: the prediction of each and its runs are runs of the database,
 * of the steps that were printed. */
TEST(the_best_and_others_are_executed_and_stored)
{
    if (!two_cores())
        skip();
    char *csv = here("--db a.db --format csv");
    char *db = strdup(fixture_path("a.db"));
    int of = csv_column(csv, "of"), run = csv_column(csv, "predicted_run"),
        step = csv_column(csv, "predicted_ns"), best = 0, others = 0;

    for (int line = 1; line <= 10; line++) {
        int id = atoi(csv_cell(csv, line, run));
        int64_t ns = atoll(csv_cell(csv, line, step));
        best += strcmp(csv_cell(csv, line, of), "best") == 0;
        others += strcmp(csv_cell(csv, line, of), "others") == 0;
        assert_int_equal((int64_t)number_after(lapwingf("runs %d --db a.db --format json", id),
                                               "\"step_ns\": "), ns);
    }
    assert_int_equal(best, 5);
    assert_int_equal(others, 5);
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM run WHERE kind = 'sim'"), 10);
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM run WHERE kind = 'exec'"), 20);
    free(db);
    free(csv);
}

TEST(the_same_seed_executes_the_same)
{
    if (!two_cores())
        skip();
    char *a = here("--no-db --format csv --seed 7"), *b = here("--no-db --format csv --seed 7");
    int at = csv_column(a, "place");

    for (int line = 1; line <= 10; line++) {
        char *place = strdup(csv_cell(a, line, at));
        assert_string_equal(place, csv_cell(b, line, at));
        free(place);
    }
    free(a);
    free(b);
}

/* To the predictor those of one step are one strategy, whichever is drawn. */
TEST(no_two_that_are_executed_are_predicted_equal)
{
    if (!two_cores())
        skip();
    for (int seed = 1; seed <= unit_cases(2, 4); seed++) {
        char words[64];
        snprintf(words, sizeof words, "--no-db --format csv --seed %d", seed);
        char *csv = here(words);
        int at = csv_column(csv, "predicted_ns");
        for (int line = 2; line <= 10; line++)
            for (int other = 1; other < line; other++) {
                int64_t ns = atoll(csv_cell(csv, other, at));
                if (atoll(csv_cell(csv, line, at)) == ns)
                    fail_msg("seed %d, rows %d and %d: %lld ns", seed, other, line, (long long)ns);
            }
        free(csv);
    }
}

TEST(text_and_json_say_rank_and_regret)
{
    if (!two_cores())
        skip();
    char *text = here("--no-db --seed 3"), *json = here("--no-db --format json --seed 3");

    has(text, "executed: the best 5 and 5 others (seed 3), 2 runs of each, 1 step each");
    has(text, "rank correlation ");
    has(text, "regret ");
    has(json, "\"seed\": 3, ");
    has(json, "\"n_measured\": 10");
    has(json, "\"rank_correlation\": ");
    has(json, "\"allowed_regret_pct\": 3");
    free(text);
    free(json);
}

/* The calibration takes most of a minute: with LAPWING_MANY=1 alone. */
TEST(without_a_cluster_this_machine_is_calibrated)
{
    int rc;

    if (!two_cores() || !getenv("LAPWING_MANY")) {
        print_message("skipped: calibrates this machine; set LAPWING_MANY=1\n");
        skip();
    }
    const char *out = lapwing("tune --here -w mlp --layers 4 --width 128 --batch 8 --optimizer sgd "
                              "--global-batch 16 --ranks 2 --steps 1 --repeats 2 -q --no-db", &rc);
    if (rc != 0 && rc != 3 && rc != 4)
        fail_msg("exit %d\n%s", rc, out);
    has(out, "rank correlation ");
}

TEST(what_cannot_be_had_together_is_refused)
{
    if (!two_cores())
        skip();
    EXPECT("tune",
           {"--here -c dgx-a100", 1, "--here: -c dgx-a100: 'dgx-a100' is not calibrated; take a "
                                     "file that `lapwing calibrate -o FILE` wrote"},
           {"--here -c c.json --ranks 4000", 1, "--ranks 4000 on "},
           {"--here -c c.json --ranks 1", 2, "--ranks 1: expected 2 or more"},
           {"--here -c c.json --ranks 2,4", 2, "--ranks 2,4: expected one number"},
           {"--here -c c.json,dgx-a100", 2, "expected one calibration"},
           {"--here -c c.json --shard 1/2", 2, "leave out --shard"},
           {"--here -c c.json --device dgx-a100", 2,
            "--here does not go with --device: the strategies run on this machine"},
           {"--here -c c.json --resume", 2, "leave out --resume"},
           {"--here -c c.json --framework ideal", 2, "leave out --framework"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --steps 3", 2, "--steps goes with --here"},
           {"-w gpt2 -c dgx-a100 --global-batch 8 --seed 3", 1,
            "cluster 'dgx-a100' has no noise", {"leave out --samples and --seed"}});
    expect(SMALL "--no-db --time-limit 0.001", 1, "allowed: 0 s; take a smaller model");
}

TEST_GROUP(put_files, fixture_close)
