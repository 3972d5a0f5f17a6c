/* --device-spread, as a user gives it: to every command that simulates, to a stored run, to a file
 * of runs and to the library. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/library/lapwing.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"

#define JOB "-w gpt2 --batch 4 -c dgx-h100 --dp 16 "

static double number_in(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

static double step_of(const char *options)
{
    return number_in(lapwingf("sim " JOB "--no-db --format json %s", options), "\"step_ns\": ");
}

TEST_WITH(it_is_a_share_or_off, fixture_open, fixture_close)
{
    EXPECT("sim " JOB "--no-db --device-spread",
           {"0.02", 0, "interference: device_spread = 0.02 (as stated: --device-spread)",
            {"1.0353 times as long", "the slowest of the 16 devices"}, "how devices of a kind"},
           {"off", 0, "not modelled: how devices of a kind differ (cluster 'dgx-h100' gives no",
            .lacks = "interference: device_spread"},
           {"0", 0, "device_spread = 0 (as stated: --device-spread), not used: it is 0"},
           {"0.02 --rank-noise 0.01", 0, "not used: --rank-noise draws the speed of each rank"},
           {"2%", 2, "found '2%', expected off or a share from 0 to 1"},
           {"1.5", 2, "expected off or a share"}, {"-0.1", 2, "expected off or a share"},
           {"nan", 2, "expected off or a share"}, {"''", 2, "the value is empty"});
    expect("sim --replay $R/none.json --device-spread 0.02", 2, "is for a plan");
    assert_true(step_of("") == step_of("--device-spread off"));
    assert_true(step_of("") < step_of("--device-spread 0.02"));
    assert_true(step_of("--device-spread 0.01") < step_of("--device-spread 0.02"));
}

/* The one that a cluster states is used, and is a figure of its file. */
TEST_WITH(a_cluster_may_state_it, fixture_open, fixture_close)
{
    expect("cluster v100-ib -o v.json", 0, "");
    expect("cluster v.json", 0, "noise.device_spread");
    EXPECT("sim -w gpt2 --dtype f16 --batch 4 --dp 16 --no-db -c v.json",
           {"", 0, "device_spread = 0.017 (hal-uw/blox-pal@da726cab"},
           {"--device-spread off", 0, "(cluster 'v100-ib' gives no device_spread",
            .lacks = "hal-uw"},
           {"--dp 1 --ranks 1", 0, "not used: the plan has one device"});
}

/* The what-if without it is the run without it; --run takes the run's, or another. */
TEST_WITH(a_stored_run_keeps_it, fixture_open, fixture_close)
{
    expect("sim " JOB "--device-spread 0.02 --db a.db", 0, "stored as run 1");
    double with = step_of("--device-spread 0.02"), without = step_of("");
    const char *json = lapwing("explain 1 --db a.db --format json", NULL);
    const char *alike = strstr(json, "\"no_device_spread\"");

    assert_non_null(alike);
    assert_true(number_in(json, "\"step_ns\": ") == with);
    assert_true(number_in(alike, "\"step_ns\": ") == without);
    json = lapwing("sim --run 1 --db a.db --no-db --format json", NULL);
    assert_true(number_in(json, "\"step_ns\": ") == with);
    json = lapwing("sim --run 1 --db a.db --no-db --device-spread off --format json", NULL);
    assert_true(number_in(json, "\"step_ns\": ") == without);
    assert_null(strstr(lapwing("explain 1 --db a.db", NULL), "figures of cluster"));
    expect("sim " JOB "--db a.db", 0, "stored as run 2");
    assert_null(strstr(lapwing("explain 2 --db a.db --format json", NULL), "no_device_spread"));
}

/* Rows of a search against their own commands, and the search without bounds. */
static void expect_rows(const char *space)
{
    char *json = strdup(lapwingf("tune %s --best 3 --no-db --format json -q", space));
    char *all = strdup(lapwingf("tune %s --best 3 --no-bounds --no-db --format json -q", space));
    const char *at = strstr(json, "\"best\""), *same = strstr(all, "\"best\"");

    for (int n = 0; n < 3; n++) {
        char words[900];
        at = strstr(at, "\"step_ns\": ");
        same = strstr(same, "\"step_ns\": ");
        double step = number_in(at, "\"step_ns\": ");
        assert_true(step == number_in(same++, "\"step_ns\": "));
        at = strstr(at, "\"command\": \"lapwing ") + strlen("\"command\": \"lapwing ");
        snprintf(words, sizeof words, "%.*s --no-db --format json", (int)strcspn(at, "\""), at);
        assert_true(number_in(lapwing(words, NULL), "\"step_ns\": ") == step);
    }
    free(json);
    free(all);
}

/* Bounds do not count the spread, which makes nothing shorter: none is above its step. */
static void expect_bounds(const char *space)
{
    const char *csv = lapwingf("tune %s --no-bounds --no-db --format csv -q", space);
    int n = csv_n_lines(csv);

    assert_true(n > 20);
    for (int line = 1; line < n; line++)
        assert_true(csv_figure(csv, line, "bound_ns") <= csv_figure(csv, line, "step_ns"));
}

/* Parts of spaces without LAPWING_MANY. */
TEST_WITH(a_search_has_it, fixture_open, fixture_close)
{
#define SMALL "-w llama-2-7b --layers 4 --seq 2048 --ranks 8 --global-batch 16 "
    static const struct { const char *space, *part; } spaces[] = {
        {SMALL "-c dgx-h100 --device-spread 0.1", "--batch 2 --zero 1,3 --schedule 1f1b"},
        {SMALL "-c dgx-h100 --device-spread 0.5 --recompute none,full --schedule zb-h1,1f1b",
         "--batch 1 --zero 0,2"},
        {"-w gpt2 --dtype f16 -c v100-ib --ranks 8 --global-batch 16",
         "--batch 2 --zero 0,1 --recompute none,full --schedule 1f1b"},
    };

    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        char space[400];
        snprintf(space, sizeof space, "%s %s", spaces[i].space,
                 getenv("LAPWING_MANY") ? "" : spaces[i].part);
        expect_rows(space);
        expect_bounds(space);
    }
#undef SMALL
}

/* What bounds compute, of sim's rank and of explain's path: what the spread adds is of products,
 * and the rest as it is without. All products of a rank are on the path. */
TEST_WITH(what_it_adds_is_of_products, fixture_open, fixture_close)
{
#define PLAIN "-w llama-2-7b --layers 4 --seq 2048 -c dgx-h100 --dp 8 --interference off "
    static const char *const keys[] = {"\"memory_ns\": ", "\"launch_ns\": ", "\"host_ns\": "};
    static const char *const spread[] = {"off", "1"};

    for (int i = 0; i < 2; i++) {
        const char *from = i ? "\"bounds\"" : "\"compute_bound\"";
        expect("sim " PLAIN "--device-spread off --db off.db", 0, "");
        expect("sim " PLAIN "--device-spread 1 --db 1.db", 0, "");
        char *out[2];
        for (int k = 0; k < 2; k++)
            out[k] = strdup(i ? lapwingf("explain --db %s.db --format json", spread[k])
                              : lapwingf("sim " PLAIN "--no-db --device-spread %s --format json",
                                         spread[k]));
        const char *off = strstr(out[0], from), *on = strstr(out[1], from);
        assert_true(off && on);
        for (int k = 0; k < 3; k++)
            assert_true(number_in(off, keys[k]) == number_in(on, keys[k]));
        double was = number_in(off, "\"compute_ns\": "), is = number_in(on, "\"compute_ns\": ");
        assert_true(fabs(is - was * (1 + 1.42360)) < 1e-5 * is);
        free(out[0]);
        free(out[1]);
    }
#undef PLAIN
}

/* Steps of searches by older programs are without the spread: none is taken for one with it. */
TEST_WITH(a_search_says_whether_steps_have_it, fixture_open, fixture_close)
{
#define SMALL "tune -w gpt2 -c dgx-h100 --ranks 2 --global-batch 2 --tp 1 --pp 1 --db t.db -q "
    const char *said = "SELECT count(*) FROM search"
                       " WHERE space LIKE '%device spread 0.1 in every%'";

    lapwing(SMALL, NULL);
    assert_int_equal(sql_ask(fixture_path("t.db"), said), 0);
    lapwing(SMALL "--device-spread 0.1", NULL);
    assert_int_equal(sql_ask(fixture_path("t.db"), said), 1);
    sql_do(fixture_path("t.db"),
           "UPDATE search SET hash = 'old',"
           " space = replace(space, 'device spread 0.1 in every step' || char(10), '')");
    expect(SMALL "--device-spread 0.1 --resume", 1,
           "where this one has 'device spread 0.1 in every step'");
#undef SMALL
}

/* As sim does, in text and JSON, and the stored search too. */
TEST_WITH(a_search_tells_it, fixture_open, fixture_close)
{
#define SMALL "tune -w gpt2 --ranks 2 --global-batch 2 --tp 1 --pp 1 --db t.db -q -c "
    EXPECT(SMALL,
           {"dgx-h100", 0, "not modelled: how devices of a kind differ (cluster 'dgx-h100' gi"},
           {"dgx-h100 --device-spread 0.1", 0, "device_spread = 0.1 of cluster 'dgx-h100': the sl",
            .lacks = "how devices of a kind"},
           {"dgx-h100 --device-spread 0", 0, "'dgx-h100', not used: it is 0"},
           {"dgx-h100 --device-spread 0.1 --rank-noise 0.01 --samples 3", 0,
            "not used: --rank-noise draws the speed of each rank"});
    expect("runs --search 1 --db t.db", 0, "cluster 'dgx-h100' gives no device_spread");
    expect("runs --search 2 --db t.db", 0, "device_spread = 0.1 of cluster 'dgx-h100': the slow");
    expect("runs --search 4 --db t.db", 0, "not used: --rank-noise draws");
    char *both = strdup(lapwing(SMALL "v100-ib,dgx-h100 --dtype f16 --format json", NULL));
    has(both, "\"device_spread\": [\n    {\"cluster\": \"v100-ib\", \"value\": 0.017, "
              "\"used\": true},\n    {\"cluster\": \"dgx-h100\", \"value\": null, "
              "\"used\": false}\n  ]");
    free(both);
    has(lapwing("runs --search last --db t.db --format json", NULL),
        "{\"cluster\": \"v100-ib\", \"value\": 0.017, \"used\": true}");
#undef SMALL
}

TEST_WITH(runs_and_the_library_have_it, fixture_open, fixture_close)
{
    const char *const given[] = {"dp", "16", "batch", "4", "device-spread", "0.02", NULL};
    const char *const wrong[] = {"dp", "16", "device-spread", "two", NULL};
    char error[512] = "";
    double step;

    fixture_put(fixture_path("runs.csv"), "model,cluster,dp,batch,device_spread,step_s\n"
                                       "gpt2,dgx-h100,16,4,0.02,0.1\n"
                                       "gpt2,dgx-h100,16,4,,0.1\n");
    const char *csv = lapwing("validate runs.csv --format csv", NULL);
    int column = csv_column(csv, "predicted");
    double with = atof(csv_cell(csv, 1, column));
    double without = atof(csv_cell(csv, 2, column));
    assert_true(without < with && with < 1.04 * without);
    lapwing_plan *p = lapwing_plan_make("gpt2", "dgx-h100", given, error, sizeof error);
    if (!p)
        fail_msg("%s", error);
    lapwing_result *r = lapwing_simulate(p, 0, error, sizeof error);
    assert_non_null(r);
    assert_int_equal(lapwing_figure(r, "step_ps", &step), 0);
    assert_true(fabs(step / 1000 - step_of("--device-spread 0.02")) <= 1);
    lapwing_result_free(r);
    lapwing_plan_free(p);
    assert_null(lapwing_plan_make("gpt2", "dgx-h100", wrong, error, sizeof error));
    assert_non_null(strstr(error, "--device-spread: found 'two', expected off or a share"));
}
