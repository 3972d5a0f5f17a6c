/* Packed spans in the database: what is stored once, what the views give, how an older database and
 * one with other numbers come in, and what a damaged block says. */
#include "tests/lib/unit.h"
#include <string.h>

#include "analysis/store/store.h"
#include "shared/base/arena.h"
#include "shared/plan/op.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/prng.h"

enum { STEPS = 3, RANKS = 4, OPS = 50, PERIOD = 7000000 };

static const char *file(void)
{
    return fixture_path("s.db");
}

/* Ranks of two kinds, every step as the one before it. */
static struct lw_timeline regular(struct prng *r)
{
    struct lw_timeline t = {0};
    struct lw_err err = {0};
    lw_ps length[2][OPS];

    for (int i = 0; i < 2 * OPS; i++)
        length[i / OPS][i % OPS] = prng_in(r, 1, 100000);
    for (int32_t s = 0; s < STEPS; s++)
        for (int32_t rank = 0; rank < RANKS; rank++) {
            lw_ps at = s * (lw_ps)PERIOD;
            for (int32_t op = 0; op < OPS; op++) {
                bool comm = op % 5 == 4;
                lw_ps end = at + length[rank % 2][op];
                struct lw_span v = {.step = s, .rank = rank, .op = op, .comm = comm ? 0 : -1,
                                    .stream = comm, .ready = at, .issue = comm ? at : -1,
                                    .start = at, .all_in = comm ? end - 1 : -1, .end = end,
                                    .kind = comm ? LW_OP_ALL_REDUCE : LW_OP_FORWARD};
                assert_ok(lw_timeline_add(&t, &v, &err), err);
                at = end;
            }
        }
    return t;
}

static int64_t store(const struct lw_timeline *t)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM};
    struct lw_store *s;
    struct lw_err err = {0};
    int64_t run;

    assert_ok(lw_store_open(file(), LW_STORE_WRITE, &s, &err), err);
    assert_ok(lw_store_begin_run(s, &info, &run, &err), err);
    assert_ok(lw_store_spans(s, run, t, &err), err);
    lw_store_close(s);
    return run;
}

static enum lw_status load(int64_t run, struct lw_timeline *t, struct lw_err *err)
{
    struct lw_store *s;
    struct lw_arena a = {0};
    struct lw_run r;
    char word[24];

    LW_TRY(lw_store_open(file(), LW_STORE_READ, &s, err));
    snprintf(word, sizeof word, "%lld", (long long)run);
    enum lw_status st = lw_store_find_run(s, word, &a, &r, err);
    if (st == LW_OK)
        st = lw_store_load_timeline(s, &r, t, err);
    lw_arena_free(&a);
    lw_store_close(s);
    return st;
}

static void comes_back(int64_t run, const struct lw_timeline *t)
{
    struct lw_timeline back = {0};
    struct lw_err err = {0};

    assert_ok(load(run, &back, &err), err);
    assert_int_equal(back.n, t->n);
    for (int64_t i = 0; i < t->n; i++) {
        assert_true(back.step[i] == t->step[i] && back.pass[i] == t->pass[i] &&
                    back.rank[i] == t->rank[i] && back.op[i] == t->op[i]);
        assert_int_equal(back.kind[i], t->kind[i]);
        assert_int_equal(back.stream[i], t->stream[i]);
        assert_int_equal(back.comm[i], t->comm[i]);
        assert_true(back.ready[i] == t->ready[i] && back.issue[i] == t->issue[i] &&
                    back.start[i] == t->start[i] && back.all_in[i] == t->all_in[i] &&
                    back.end[i] == t->end[i]);
    }
    lw_timeline_free(&back);
}

TEST_WITH(equal_ranks_and_equal_steps_are_stored_once, fixture_open, fixture_close)
{
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t = regular(&r);
    int64_t run = store(&t);

    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_block"), STEPS * RANKS);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_data"), 2);
    assert_int_equal(sql_ask(file(), "SELECT n_spans FROM run"), STEPS * RANKS * OPS);
    comes_back(run, &t);
    lw_timeline_free(&t);
}

/* Every row of the view is that of the timeline, also where a rank has more than a block. */
TEST_WITH(the_view_has_every_row, fixture_open, fixture_close)
{
    struct prng r = prng_start("rows of one rank");
    struct lw_timeline t = {0};
    struct lw_err err = {0};
    lw_ps at = 0, sum = 0;

    for (int32_t op = 0; op < 20000; op++) {
        lw_ps end = at + prng_in(&r, 0, INT64_C(1) << 40);
        struct lw_span v = {.op = op, .comm = -1, .ready = at, .issue = op % 3 ? at : -1,
                            .start = at, .all_in = op % 7 ? -1 : end, .end = end};
        assert_ok(lw_timeline_add(&t, &v, &err), err);
        sum += (end - at) * (op % 11) + (v.issue + v.all_in) % 1000;
        at = end - (end - at) / 3;
    }
    int64_t run = store(&t);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_block"), 3);
    assert_int_equal(sql_ask(file(), "SELECT sum((end_ps - start_ps) * (op % 11)"
                                     " + (issue_ps + all_in_ps) % 1000) FROM span"), sum);
    assert_int_equal(sql_ask(file(), "SELECT sum(id = op + 1 AND ready_ps = start_ps) FROM span"),
                     20000);
    comes_back(run, &t);
    lw_timeline_free(&t);
}

/* Micro-batches of ops that repeat and wait for a common event, with noise of 0 to 2 ps. */
static struct lw_timeline of_micro_batches(struct prng *r, int noise)
{
    struct lw_timeline t = {0};
    struct lw_err err = {0};
    lw_ps length[OPS];

    for (int i = 0; i < OPS; i++)
        length[i] = prng_in(r, 1, 100000);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        lw_ps at = 900, event = 900;
        for (int32_t op = 0; op < 40 * OPS; op++) {
            lw_ps end = at + length[op % OPS] + (noise > 0 ? prng_in(r, 0, noise) : 0);
            int32_t i = op % OPS;
            struct lw_span v = {.rank = rank, .op = op, .comm = -1, .start = at, .end = end,
                                .ready = i % 3 ? event : at,
                                .issue = i % 5 == 0 ? -1 : i % 3 ? event : at - i,
                                .all_in = i % 7 ? -1 : at + 1, .kind = LW_OP_FORWARD};
            assert_ok(lw_timeline_add(&t, &v, &err), err);
            event = prng_below(r, 200) == 0 ? at : event;
            at = end;
        }
    }
    return t;
}

/* Sums that no two rows can exchange their values in, of the timeline and of the view. */
static void view_has(int64_t run, const struct lw_timeline *t)
{
    int64_t sum[4] = {0};
    char sql[400];

    for (int64_t i = 0; i < t->n; i++) {
        int64_t weight = t->op[i] % 97 + 100 * t->rank[i];
        sum[0] += t->start[i] * weight;
        sum[1] += t->ready[i] * weight;
        sum[2] += t->issue[i] * weight + t->all_in[i] * (weight + 3);
        sum[3] += t->end[i] * weight;
    }
    snprintf(sql, sizeof sql, "SELECT sum(start_ps * w) = %lld AND sum(ready_ps * w) = %lld AND"
             " sum(issue_ps * w + all_in_ps * (w + 3)) = %lld AND sum(end_ps * w) = %lld"
             " AND count(*) = %lld FROM (SELECT *, op %% 97 + 100 * rank AS w FROM span"
             " WHERE run = %lld)", (long long)sum[0], (long long)sum[1], (long long)sum[2],
             (long long)sum[3], (long long)t->n, (long long)run);
    assert_int_equal(sql_ask(file(), sql), 1);
}

/* Ops of micro-batches are few codes; measured times are written out. */
TEST_WITH(spans_that_are_alike_are_stored_once, fixture_open, fixture_close)
{
    struct prng r = prng_start("micro-batches");
    struct lw_timeline t[3] = {of_micro_batches(&r, 0), of_micro_batches(&r, 2),
                               of_micro_batches(&r, 1 << 30)};

    for (int i = 0; i < 3; i++) {
        int64_t run = store(&t[i]);
        comes_back(run, &t[i]);
        view_has(run, &t[i]);
    }
    assert_in_range(sql_ask(file(), "SELECT count(*) FROM span_alike WHERE run = 1"), OPS, 900);
    assert_true(sql_ask(file(), "SELECT sum(length(text)) < 5 * (SELECT n_spans FROM run WHERE"
                                " id = 1) FROM span_data WHERE run = 1"));
    assert_true(sql_ask(file(), "SELECT count(*) FROM span_alike WHERE run = 3") < OPS);
    for (int i = 0; i < 3; i++)
        lw_timeline_free(&t[i]);
}

/* A database of schema version 14 has no numbers in its texts: it is read as it is, so is one of
 * version 15 that has such texts, and what is stored into it brings it up to date. */
TEST_WITH(spans_of_schema_version_14_are_read_as_they_are, fixture_open, fixture_close)
{
    struct lw_timeline back = {0};
    struct lw_err err = {0};
    char *schema = fixture_get("analysis/store/schema.sql");
    char *to_15 = strstr(schema, "-- version 15\n"), *to_16 = strstr(schema, "-- version 16\n");

    to_15[-1] = to_16[-1] = '\0';
    sql_do(file(), schema);
    sql_do(file(), "PRAGMA application_id = 0x4c617077; PRAGMA user_version = 14;"
                   "INSERT INTO op_kind VALUES (1, 'forward', 'F', 'compute'),"
                   " (15, 'all_reduce', 'AR', 'collective');"
                   "INSERT INTO run (id, kind, status, version, started_at, n_spans)"
                   " VALUES (1, 'sim', 'ok', '0', 0, 2);"
                   "INSERT INTO span_data VALUES (1, 1, 'x',"
                   " '[[0,1,0,-1,0,0,null,null,5000],[2,15,1,0,5001,1,1,500,2099]]');"
                   "INSERT INTO span_block VALUES (1, 1, 2, 0, 0, 0, 4, 900, 1)");
    for (int version = 14; version <= 16; version++) { /* and then the newest */
        assert_int_equal(sql_ask(file(), "PRAGMA user_version"), version + (version == 16));
        assert_ok(load(1, &back, &err), err);
        assert_int_equal(back.n, 2);
        assert_int_equal(back.op[1], 6);
        assert_int_equal(back.ready[1], 5900);
        assert_int_equal(back.all_in[1], 6401);
        assert_int_equal(back.end[1], 8000);
        assert_int_equal(sql_ask(file(), "SELECT sum(ready_ps + end_ps) FROM span"),
                         900 + 5900 + 5900 + 8000);
        lw_timeline_free(&back);
        if (version == 14) {
            sql_do(file(), to_15);
            sql_do(file(), "PRAGMA user_version = 15");
        } else if (version == 15) {
            struct lw_timeline t = {0};
            store(&t);
            lw_timeline_free(&t);
        }
    }
    free(schema);
}

/* Two writers of schema version 11 store their rows by turns. */
TEST_WITH(spans_of_an_older_database_are_packed, fixture_open, fixture_close)
{
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t[2] = {regular(&r), regular(&r)};
    struct lw_store *s;
    struct lw_err err = {0};

    for (int i = 0; i < 2; i++)
        assert_int_equal(store(&t[i]), i + 1);
    int64_t n = sql_ask(file(), "SELECT count(*) FROM span_data");
    make_spans_old(file());
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span"), 2 * t[0].n);
    assert_int_equal(lw_store_open(file(), LW_STORE_READ, &s, &err), LW_EFORMAT);
    assert_ok(lw_store_open(file(), LW_STORE_WRITE, &s, &err), err);
    lw_store_close(s);
    assert_int_equal(sql_ask(file(), "PRAGMA user_version"), 17);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_data"), n);
    for (int i = 0; i < 2; i++) {
        comes_back(i + 1, &t[i]);
        lw_timeline_free(&t[i]);
    }
}

/* The other database numbers kinds in another order. */
TEST_WITH(merged_spans_keep_their_kinds, fixture_open, fixture_close)
{
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t = regular(&r);
    struct lw_store *s;
    struct lw_err err = {0};
    int32_t n;
    int64_t n_searches;
    char line[600];

    store(&t);
    shell("mv s.db other.db; rm -f s.db-*", NULL);
    snprintf(line, sizeof line, "%s", fixture_path("other.db"));
    sql_do(line, "UPDATE span_data SET text = replace(text, (SELECT ',' || id || ',0,-1,'"
                 " FROM op_kind WHERE name = 'forward'), ',900,0,-1,');"
                 "UPDATE op_kind SET id = 900 WHERE name = 'forward'");
    assert_int_equal(store(&t), 1);
    assert_ok(lw_store_open(file(), LW_STORE_WRITE, &s, &err), err);
    assert_ok(lw_store_merge(s, line, &n, &n_searches, &err), err);
    assert_int_equal(n, 1);
    lw_store_close(s);
    comes_back(1, &t);
    comes_back(2, &t);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span WHERE kind = 900"), 0);
    lw_timeline_free(&t);
}

TEST_WITH(deleted_runs_leave_no_spans, fixture_open, fixture_close)
{
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t = regular(&r);
    struct lw_store *s;
    struct lw_err err = {0};

    store(&t);
    store(&t);
    assert_ok(lw_store_open(file(), LW_STORE_WRITE, &s, &err), err);
    assert_ok(lw_store_delete_runs(s, &(struct lw_run){.id = 1, .plan = -1}, 1, &err), err);
    lw_store_close(s);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_data WHERE run = 1"), 0);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_block WHERE run = 1"), 0);
    assert_int_equal(sql_ask(file(), "SELECT count(*) FROM span_alike WHERE run = 1"), 0);
    comes_back(2, &t);
    lw_timeline_free(&t);
}

TEST_WITH(damaged_spans_are_named, fixture_open, fixture_close)
{
    static const char *const damage[] = {
        "UPDATE span_data SET text = ''", "UPDATE span_data SET text = substr(text, 2)",
        "UPDATE span_data SET text = text || ']'", "UPDATE span_block SET n = n + 1",
        "UPDATE span_block SET n = -1", "UPDATE span_data SET text = '[' || text || ']'",
        "DELETE FROM span_alike WHERE alike = (SELECT max(alike) FROM span_alike)",
        "UPDATE span_alike SET alike = -1 - alike", "UPDATE span_alike SET ready = NULL",
        "UPDATE span_alike SET held = 0", "DROP TABLE span_alike",
        "UPDATE span_data SET id = -1 WHERE id = 1; UPDATE span_block SET data = -1, n = 1000000",
    };
    struct prng r = prng_start("micro-batches");
    struct lw_timeline t = of_micro_batches(&r, 0), back = {0};

    store(&t);
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        struct lw_err err = {0};
        shell("cp s.db good.db", NULL);
        sql_do(file(), damage[i]);
        assert_int_equal(load(1, &back, &err), LW_EFORMAT);
        has(err.msg, "not a usable SQLite database (spans of run 1 from row ");
        has(err.msg, " on are damaged: delete the run (lapwing runs 1 --delete) and run ");
        shell("rm -f s.db-*; mv good.db s.db", NULL);
    }
    comes_back(1, &t);
    lw_timeline_free(&t);
}

/* The number of a span is that of its block's first span and its place in the block. */
TEST_WITH(blocks_whose_numbers_do_not_fit_are_named, fixture_open, fixture_close)
{
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t = regular(&r), back = {0};
    struct lw_err err = {0};
    char sql[200];

    store(&t);
    for (int over = 0; over < 2; over++) {
        snprintf(sql, sizeof sql, "UPDATE span_block SET first = %lld WHERE first ="
                 " (SELECT max(first) FROM span_block)", (long long)(INT64_MAX - OPS + over));
        sql_do(file(), sql);
        assert_int_equal(load(1, &back, &err), over ? LW_EFORMAT : LW_OK);
        lw_timeline_free(&back);
    }
    has(err.msg, "(spans of run 1 from row 9223372036854775758 on are damaged: ");
    lw_timeline_free(&t);
}

/* Numbers that a timeline cannot hold, or that measures of steps and ranks cannot count. */
TEST_WITH(spans_of_impossible_places_are_named, fixture_open, fixture_close)
{
    static const struct {
        const char *damage, *words;
    } cases[] = {
        {"rank = -2147483649",
         "s.db: span 1 of run 1 has rank -2147483649, expected 0 to 2147483646"},
        {"rank = -1", "s.db: span 1 of run 1 has rank -1, expected 0 to 2147483646"},
        {"rank = 2147483647", "has rank 2147483647, expected 0 to 2147483646"},
        {"step = -5", "s.db: span 1 of run 1 has step -5, expected 0 to 2147483646"},
        {"step = 4294967296", "has step 4294967296, expected 0 to 2147483646"},
        {"pass = 4294967296", "has pass 4294967296, expected -1 to 2147483646"},
    };
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t = regular(&r), back = {0};
    char sql[120];

    store(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        shell("cp s.db good.db", NULL);
        snprintf(sql, sizeof sql, "UPDATE span_block SET %s", cases[i].damage);
        sql_do(file(), sql);
        if (load(1, &back, &err) != LW_EFORMAT)
            fail_msg("%s is read", cases[i].damage);
        has(err.msg, cases[i].words);
        shell("rm -f s.db-*; mv good.db s.db", NULL);
    }
    lw_timeline_free(&t);
}

TEST_WITH(spans_of_ranks_that_the_plan_does_not_have_are_named, fixture_open, fixture_close)
{
    expect("sim -w resnet50 -c dgx-a100 --dp 2 --spans --db s.db", 0, "stored as run 1");
    sql_do(file(), "UPDATE span_block SET rank = 2");
    expect("export 1 -o o.json --db s.db", 1, "of run 1 has rank 2, expected 0 to 1");
}

/* Blocks whose data is gone, blocks that are gone, and kinds without a name join nothing. */
TEST_WITH(spans_that_are_missing_are_counted, fixture_open, fixture_close)
{
    static const struct {
        const char *damage, *there;
    } cases[] = {
        {"DELETE FROM span_data WHERE id = 1", "300"},  /* of ranks 0 and 2 */
        {"DELETE FROM span_block WHERE step = 1 AND rank = 3", "550"},
        {"DELETE FROM span_block", "0"},
        {"UPDATE span_data SET run = 2", "0"},
        {"DELETE FROM op_kind WHERE name = 'all_reduce'", "480"}, /* every fifth */
        {"UPDATE run SET n_spans = 599", "600"},
    };
    struct prng r = prng_start("lengths of ops");
    struct lw_timeline t = regular(&r), back = {0};
    char words[160];

    store(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        shell("cp s.db good.db", NULL);
        sql_do(file(), cases[i].damage);
        if (load(1, &back, &err) != LW_EFORMAT)
            fail_msg("%s is read", cases[i].damage);
        snprintf(words, sizeof words, "s.db: run 1 was stored with %d spans, %s of which can be "
                 "read: the file is damaged; delete the run (lapwing runs 1 --delete)",
                 i == 5 ? 599 : STEPS * RANKS * OPS, cases[i].there);
        has(err.msg, words);
        shell("rm -f s.db-*; mv good.db s.db", NULL);
    }
    comes_back(1, &t);
    lw_timeline_free(&t);
}

/* One line each, and no output that looks whole. */
TEST_WITH(commands_refuse_runs_whose_spans_are_missing, fixture_open, fixture_close)
{
    static const char *const reads[] = {"export 1 -o o.json --db s.db", "explain 1 --db s.db",
                                        "compare 1 2 --db s.db", "compare 2 1 --db s.db",
                                        "runs --merge s.db --db other.db"};
    static const char *const damage[] = {
        "DELETE FROM span_data WHERE id = (SELECT max(id) FROM span_data WHERE run = 1)",
        "UPDATE span_alike SET kind = 99 WHERE run = 1"};

    for (int i = 0; i < 2; i++)
        expect("sim -w gpt2 -c dgx-a100 --dp 2 --pp 2 --micro-batches 4 --spans --db s.db", 0, "");
    for (size_t k = 0; k < sizeof damage / sizeof *damage; k++) {
        shell("cp s.db good.db", NULL);
        sql_do(file(), damage[k]);
        for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
            expect(reads[i], 1, "run 1 was stored with ");
        expect("plot timeline 1 -o o.svg --db s.db", 1,
               k == 0 ? "run 1 was stored with "
                      : "run 1 has spans of kind 99, which table op_kind");
        expect("runs 1 --delete --db s.db", 0, "");
        expect("export 2 -o o.json --db s.db", 0, "");
        shell("rm -f s.db-* o.json; mv good.db s.db", NULL);
    }
    expect("export 1 -o o.json --db s.db", 0, "");
}
