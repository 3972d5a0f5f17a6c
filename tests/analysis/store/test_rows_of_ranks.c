/* Of ranks that are alike one rank's spans are stored, and read for each of them: what is read is
 * what is read of a run that stored every rank. */
#include "tests/lib/unit.h"
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "analysis/draw/step_bars.h"
#include "analysis/store/store.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

/* 16 ranks, whose ops are more than are stored without being asked for. */
#define PLAN "-w llama-3-8b -c dgx-h100 --dp 2 --tp 4 --pp 2 --micro-batches 8 "

static int make_runs(void **state)
{
    int rc = fixture_open(state);

    expect("sim " PLAN "--db alike.db", 0, "2 ranks stand for all 16");
    expect("sim " PLAN "--db every.db --spans", 0, "step ");
    return rc;
}

static void read_alike(const char *command)
{
    char line[160];
    int rc;

    snprintf(line, sizeof line, "$L %s --db every.db > every.out", command);
    shell(line, &rc);
    assert_int_equal(rc, 0);
    snprintf(line, sizeof line, "$L %s --db alike.db > alike.out && cmp every.out alike.out",
             command);
    const char *said = shell(line, &rc);
    if (rc != 0)
        fail_msg("%s: %s", command, said);
}

/* A rank without figures of its own has those of the last rank before it that has some. */
TEST(of_many_ranks_figures_are_stored_once)
{
    static const char count[] = "sqlite3 ranks4096.db \"SELECT count(*) FROM metric WHERE"
                                " name = 'period_ps'\"";
    const char *said;
    int rc;

    expect("sim -w gpt-125m -c dgx-h100 --dp 8192 --framework ideal --db ranks8192.db", 0, "step ");
    said = shell("sqlite3 ranks8192.db \"SELECT group_concat(rank) FROM metric WHERE"
                 " name = 'period_ps'\"", &rc);
    assert_string_equal(said, "-1,0\n");
    expect("sim -w gpt-125m -c dgx-h100 --dp 4096 --framework ideal --db ranks4096.db", 0, "step ");
    said = shell(count, &rc);
    assert_string_equal(said, "4097\n");
    expect("compare 1 1 --db ranks8192.db", 0, "step");
}

TEST(rows_of_each_rank_are_read_alike)
{
    read_alike("explain 1");
    read_alike("explain 1 --rank 13");
    read_alike("plot timeline 1 -o -");
    read_alike("plot memory 1 -o -");
    read_alike("plot overlap 1 -o -");
    read_alike("export 1 --format csv -o -");
}

/* Two stages of 8 ranks each. */
TEST(one_rank_of_each_class_is_stored)
{
    const char *ask = "for d in every alike; do "
                      "$L runs --format json --db $d.db | tr ',' '\\n' | grep n_spans; done";
    long long every = 0, alike = 0;

    assert_int_equal(sscanf(shell(ask, NULL), " \"n_spans\": %lld \"n_spans\": %lld", &every,
                            &alike), 2);
    assert_true(every > 50000);
    assert_int_equal(every, 8 * alike);
}

/* Steps of SQLite's programs, of all connections that are opened while steps are counted. */
static int64_t n_steps;

static int count_step(void *unused)
{
    (void)unused;
    n_steps++;
    return 0;
}

static int count_steps(sqlite3 *db)
{
    sqlite3_progress_handler(db, 1, count_step, NULL);
    return SQLITE_OK;
}

/* Of n ranks the first n / 4 are stored, with one op that has their number; rank r has the rows of
 * rank r mod n / 4. Returns the steps of reading them. */
static int64_t steps_to_read(int32_t n, const char *file)
{
    struct lw_timeline t = {0};
    struct lw_arena a = {0};
    struct lw_store *s;
    struct lw_run *runs;
    struct lw_err err = {0};
    int64_t run;
    int32_t n_runs, *rows_of = test_calloc((size_t)n, sizeof *rows_of);

    for (int32_t r = 0; r < n; r++)
        rows_of[r] = r % (n / 4);
    for (int32_t r = 0; r < n / 4; r++)
        assert_ok(lw_timeline_add(&t, &(struct lw_span){.rank = r, .op = r, .end = 1}, &err), err);
    assert_ok(lw_store_open(fixture_path(file), LW_STORE_WRITE, &s, &err), err);
    assert_ok(lw_store_begin_run(s, &(struct lw_run_info){.kind = LW_RUN_SIM}, &run, &err), err);
    assert_ok(lw_store_spans(s, run, &t, &err), err);
    assert_ok(lw_store_rows_of_ranks(s, run, rows_of, n, &err), err);
    assert_ok(lw_store_finish_run(s, run, NULL, LW_RUN_OK, "", &err), err);
    assert_ok(lw_store_runs(s, &a, &runs, &n_runs, &err), err);
    lw_timeline_free(&t);
    n_steps = 0;
    assert_ok(lw_store_load_timeline(s, runs, &t, &err), err);
    int64_t steps = n_steps;
    assert_int_equal(t.n, n);
    for (int32_t r = 0; r < n; r++) {
        assert_int_equal(t.rank[r], r);
        assert_int_equal(t.op[r], rows_of[r]);
    }
    lw_timeline_free(&t);
    lw_arena_free(&a);
    lw_store_close(s);
    test_free(rows_of);
    return steps;
}

/* 16 times the ranks and the rows. A pass over all ranks for each row would be 256 times the
 * steps. */
/* 16 ranks of which no two are alike: what is said is what later commands find. */
TEST(a_run_without_spans_says_so)
{
    static const char uneven[] = "sim -w qwen-2.5-14b -c jupiter --seq 128 --dp 8 --cp 2 "
                                 "--micro-batches 8 --db none.db";
    const char *said;
    int rc;

    expect(uneven, 0, "stored as run 1, without spans (--spans)");
    expect("explain 1 --db none.db", 1, "run 1 was stored without spans");
    expectf(0, "stored as run 2\n", "%s --spans", uneven);
    expect("explain 2 --db none.db", 0, "run 2 (sim");
    said = lapwing("sim " PLAN "--db alike.db", &rc);
    assert_int_equal(rc, 0);
    if (strstr(said, "without spans"))
        fail_msg("%s", said);
}

TEST(reading_costs_the_same_for_each_rank)
{
    sqlite3_auto_extension((void (*)(void))count_steps);
    int64_t few = steps_to_read(64, "few.db"), many = steps_to_read(1024, "many.db");
    sqlite3_cancel_auto_extension((void (*)(void))count_steps);

    assert_true(few > 64);
    if (many > 20 * few)
        fail_msg("%lld steps for 64 ranks, %lld for 1024", (long long)few, (long long)many);
}

/* Of a prediction of 4 ranks for each of dp, of which 4 are stored. */
static int64_t steps_to_draw(int dp)
{
    char line[160], file[32];
    struct lw_arena a = {0};
    struct lw_store *s;
    struct lw_run *runs;
    struct lw_err err = {0};
    struct picture pic;
    int32_t n;

    snprintf(file, sizeof file, "dp%d.db", dp);
    snprintf(line, sizeof line, "sim -w llama-3-8b -c dgx-h100 --dp %d --pp 4 --micro-batches 8 "
             "--db %s", dp, file);
    expect(line, 0, "4 ranks stand for all");
    assert_ok(lw_store_open(fixture_path(file), LW_STORE_READ, &s, &err), err);
    assert_ok(lw_store_runs(s, &a, &runs, &n, &err), err);
    n_steps = 0;
    assert_ok(picture_read(s, &(struct picture_view){.runs = runs, .n_runs = n, .step = -1,
                                                     .max_ranks = 8}, &pic, &err), err);
    int64_t steps = n_steps;
    assert_int_equal(pic.left_out[0], 0);
    picture_free(&pic);
    lw_arena_free(&a);
    lw_store_close(s);
    return steps;
}

/* The rows are as many. A pass over all ranks for each row would be thousands of steps a rank. */
TEST(drawing_costs_little_for_a_rank_that_is_not_stored)
{
    sqlite3_auto_extension((void (*)(void))count_steps);
    int64_t few = steps_to_draw(64), many = steps_to_draw(1024);
    sqlite3_cancel_auto_extension((void (*)(void))count_steps);

    assert_true(few > 256);
    if (many - few > 200 * (4096 - 256))
        fail_msg("%lld steps for 256 ranks, %lld for 4096", (long long)few, (long long)many);
}

TEST_GROUP(make_runs, fixture_close)
