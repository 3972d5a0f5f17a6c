/* Pictures of a search: their data are the strategies of the database. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/store.h"
#include "analysis/store/store_search.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define GIB 1073741824

/* Of 8 devices: 100 and 130 ms with 10 and 4 GiB, both in the Pareto set; 120 ms with 12 GiB; 90 ms
 * that do not fit; on 16 devices at least 60 ms. */
static const struct lw_searched strategies[] = {
    {.combination = 0, .place = 1, .front = 2, .nth = 0, .strategy = "ranks=8 tp=1 pp=1",
     .bound = 90 * LW_PS_PER_MS, .step = 100 * LW_PS_PER_MS, .step_p90 = -1, .n_devices = 8,
     .tokens_per_s = 1000, .memory_bytes = 10LL * GIB},
    {.combination = 1, .front = 1, .nth = 1, .strategy = "ranks=8 tp=2 pp=1",
     .bound = 90 * LW_PS_PER_MS, .step = 130 * LW_PS_PER_MS, .step_p90 = -1, .n_devices = 8,
     .tokens_per_s = 769, .memory_bytes = 4LL * GIB},
    {.combination = 2, .nth = 2, .strategy = "ranks=8 tp=1 pp=2", .bound = 90 * LW_PS_PER_MS,
     .step = 120 * LW_PS_PER_MS, .step_p90 = -1, .n_devices = 8, .tokens_per_s = 833,
     .memory_bytes = 12LL * GIB},
    {.combination = 3, .nth = 3, .strategy = "ranks=8 tp=2 pp=2", .bound = 80 * LW_PS_PER_MS,
     .step = 90 * LW_PS_PER_MS, .step_p90 = -1, .n_devices = 8, .tokens_per_s = 1111,
     .memory_bytes = 90LL * GIB, .missing_bytes = GIB},
    {.combination = 4, .outcome = LW_SEARCHED_BOUNDED, .nth = -1,
     .strategy = "ranks=16 tp=1 pp=1", .bound = 50 * LW_PS_PER_MS, .step = -1, .step_p90 = -1,
     .n_devices = -1, .tokens_per_s = NAN, .memory_bytes = -1},
};

enum { N = sizeof strategies / sizeof *strategies };

static void store_searched(const struct lw_searched *of)
{
    struct lw_search x = {.hash = "h", .space = "", .shard = 1, .n_shards = 1, .model = "gpt2",
                          .cluster = "dgx-a100", .framework = "torch", .command = "lapwing tune",
                          .global_batch = 8, .n_best = 1, .status = LW_SEARCH_OK, .n_valid = 5,
                          .n_simulated = 4, .within = NAN};
    struct lw_searched v[N];
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    for (int i = 0; i < N; i++) {
        v[i] = of[i];
        v[i].command = v[i].why = v[i].interval_of = v[i].alike = "";
        v[i].samples_per_s = v[i].cost_per_trillion_tokens = NAN;
    }
    assert_int_equal(lw_store_open(fixture_path("a.db"), LW_STORE_WRITE, &s, &err), LW_OK);
    assert_int_equal(lw_store_begin_search(s, &x, &x.id, &err), LW_OK);
    assert_int_equal(lw_store_finish_search(s, &x, v, N, NULL, 0, &err), LW_OK);
    lw_store_close(s);
}

static void store_search(void)
{
    store_searched(strategies);
}

static const char *script(const char *args)
{
    return shellf("$L plot tune %s --db a.db -o t.gp --force > out.txt && cat t.gp", args);
}

TEST_WITH(points_are_steps_and_memory, fixture_open, fixture_close)
{
    store_search();
    const char *text = script("");
    has(text, "$others << EOD\n120 12\nEOD\n");
    has(text, "$best << EOD\n100 10\nEOD\n");
    has(text, "$unfit << EOD\n90 90\nEOD\n");
    has(text, "$front << EOD\n130 4\n100 10\nEOD\n"); /* least memory first */
    has(text, "'tp 1'"); /* the option in which the two of the front differ */
    has(text, "'tp 2'");
    has(text, "search 1: 5 strategies, 4 simulated");
    has(text, "set xlabel 'step [ms]'");
}

/* 120 ms and 12 GiB are of the Pareto set by their 4 devices: the line of memory over steps leaves
 * them out. */
TEST_WITH(the_line_has_no_more_memory_at_longer_steps, fixture_open, fixture_close)
{
    struct lw_searched v[N];

    memcpy(v, strategies, sizeof v);
    v[2].front = 3;
    v[2].n_devices = 4;
    store_searched(v);
    const char *text = script("");
    has(text, "$front << EOD\n130 4\n100 10\n120 12\nEOD\n");
    has(text, "$line << EOD\n130 4\n100 10\nEOD\n");
    has(text, "$line using 1:2 with fsteps");
}

/* Each pair's best step that fits; a bound where none was simulated; and where none fits. */
TEST_WITH(cells_are_the_best_steps_of_pairs, fixture_open, fixture_close)
{
    store_search();
    has(script("--x tp --y pp"),
        "$cell << EOD\n0 0 \"100\"\n0 1 \"120\"\n1 0 \"130\"\n1 1 \"no room\"\nEOD\n"
        "$fastest << EOD\n0 0\nEOD\n");
    has(script("--x ranks --y tp"),
        "$cell << EOD\n0 0 \"100\"\n0 1 \"130\"\n1 0 \"> 50\"\n1 1 \"\"\nEOD\n");
}

/* 1000 tokens/s x 100 ms = 100 tokens a step: in 50 ms at most 2000 a second. */
TEST_WITH(rates_are_those_of_the_best, fixture_open, fixture_close)
{
    store_search();
    const char *text = script("--x devices");
    has(text, "$rate << EOD\n8 1000\nEOD\n$most << EOD\n16 2000\nEOD\n$linear << EOD\n8 1000\n"
              "16 2000\nEOD\n");
    has(text, "set logscale xy");
    has(script("--x tp"), "$rate << EOD\n1 769\n0 1000\nEOD\n$most << EOD\nEOD\n");
}

TEST_WITH(every_output_is_written, fixture_open, fixture_close)
{
    static const char *const ends[] = {"png", "svg", "pdf"};

    store_search();
    if (system("gnuplot --version > /dev/null 2>&1") != 0) {
        print_message("skipped: no gnuplot on the PATH\n");
        skip();
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            expectf(0, "tune of search 1", "plot tune %s --db a.db -o p%d.%s",
                    k == 0 ? "" : k == 1 ? "--x tp --y pp" : "--x devices", k, ends[i]);
    has(lapwing("plot tune last --x tp --y pp --db a.db -o -", NULL), "no room");
}

TEST_WITH(bad_input_is_one_line, fixture_open, fixture_close)
{
    store_search();
    EXPECT("plot tune --db a.db",
           {"--x foo", 1, "search 1: no strategy has an option 'foo', expected one that was "
                          "searched, as ranks, tp, pp, or devices"},
           {"--y tp", 2, "--y is for 'tune' with another option as --x"},
           {"--x tp --y tp", 2, "--y is for 'tune' with another option as --x"},
           {"2", 1, "no search '2', expected 'last' or a number from 1 to 1"},
           {"1 2", 2, "'tune' draws one search, got 2"});
    expect("plot sweep --y tp --db a.db", 2, "--y is for 'tune'");
    expect("plot memory --x tp --db a.db", 2, "--x is for 'sweep' and 'tune'");
    expect("sim -w mlp -c dgx-a100 --db b.db", 0, "step");
    expect("plot tune --db b.db", 1, "holds no search; `lapwing tune` stores one");
}
