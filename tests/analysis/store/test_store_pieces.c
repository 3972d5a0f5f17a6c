/* Ops and memory of the database in pieces: the views, what Lapwing reads, and what it makes of an
 * older database and of another one are the same rows. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "analysis/store/store_memory.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/prng.h"

#define PLAN "-w llama-3-8b -c dgx-h100 --tp 4 --pp 4 --spans "

/* runs.db, and older.db, which has the same rows as schema version 15 has them. */
static int make_runs(void **state)
{
    int rc = fixture_open(state);

    expect("sim " PLAN "--micro-batches 6 --db runs.db", 0, "stored as run 1");
    expect("sim " PLAN "--micro-batches 12 --db runs.db", 0, "stored as run 2");
    shell("cp runs.db older.db", NULL);
    make_pieces_old(fixture_path("older.db"));
    return rc;
}

/* The rows of a query, which is ended, as text to be freed. */
static char *text_of(struct lw_sql *q)
{
    struct lw_err err = {0};
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    while (lw_sql_next(q))
        fprintf(f, "%s %s %s %s %s\n", lw_sql_text(q, 0), lw_sql_text(q, 1), lw_sql_text(q, 2),
                lw_sql_text(q, 3), lw_sql_text(q, 4));
    assert_ok(lw_sql_finish(q, &err), err);
    fclose(f);
    return text;
}

static struct lw_store *opened(const char *file)
{
    struct lw_store *s;
    struct lw_err err = {0};

    assert_ok(lw_store_open(fixture_path(file), LW_STORE_READ, &s, &err), err);
    return s;
}

static char *rows_of(const char *file, const char *sql)
{
    struct lw_store *s = opened(file);
    struct lw_sql *q;
    struct lw_err err = {0};

    assert_ok(lw_sql_prepare(s, sql, &q, &err), err);
    char *text = text_of(q);
    lw_store_close(s);
    return text;
}

static char *memory_of(const char *file, int64_t run)
{
    struct lw_store *s = opened(file);
    struct lw_sql *q;
    struct lw_err err = {0};

    assert_ok(lw_store_query_memory(s, run, &q, &err), err);
    char *text = text_of(q);
    lw_store_close(s);
    return text;
}

static const char all_ops[] = "SELECT op, kind, name, micro_batch, bytes FROM op"
                              " WHERE plan = %d ORDER BY op";

static void expect_same(char *got, char *expected, bool any)
{
    assert_true(any ? expected[0] != '\0' : true);
    assert_string_equal(got, expected);
    free(got);
    free(expected);
}

/* Of the run and plan `id` of a file: what older.db has of `was`. */
static void has_rows_of(const char *file, int id, int was)
{
    char sql[2][160];

    snprintf(sql[0], sizeof sql[0], all_ops, id);
    snprintf(sql[1], sizeof sql[1], all_ops, was);
    expect_same(rows_of(file, sql[0]), rows_of("older.db", sql[1]), true);
    expect_same(memory_of(file, id), memory_of("older.db", was), true);
}

/* What the tables of schema version 15 have are numbers that no view computes. */
TEST(rows_are_those_of_the_tables_before)
{
    static const char *const sums[] = {
        "SELECT count(*) FROM op_row",
        "SELECT sum(plan * 7 + op * (alike + 3 * micro_batch)) FROM op_row",
        "SELECT sum((op + plan) * (bytes % 1000003 + 5 * stream + module + length(name))) FROM op",
        "SELECT count(*) FROM memory",
        "SELECT sum((run + change) * (at_ps % 1000003 + bytes % 1000003)) FROM memory",
        "SELECT sum(change * rank + length(category)) FROM memory WHERE run = 2",
    };

    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        assert_int_equal(sql_ask(fixture_path("runs.db"), sums[i]),
                         sql_ask(fixture_path("older.db"), sums[i]));
    for (int id = 1; id <= 2; id++)
        has_rows_of("runs.db", id, id);
}

TEST(the_names_of_spans_are_those_of_their_ops)
{
    static const char by_tables[] =
        "SELECT count(*) FROM run JOIN span ON span.run = run.id"
        " JOIN op ON op.plan = run.plan AND op.op = span.op JOIN run_span AS x ON x.run = run.id"
        "  AND x.step = span.step AND x.rank = span.rank AND x.op = span.op"
        "  AND x.pass = span.pass AND x.name = op.name AND x.bucket = op.bucket"
        "  AND x.bytes = op.bytes WHERE run.id = 1 AND span.rank = 5 AND x.rank = 5";

    int64_t n = sql_ask(fixture_path("runs.db"),
                        "SELECT count(*) FROM span WHERE run = 1 AND rank = 5");
    assert_true(n > 100);
    assert_int_equal(sql_ask(fixture_path("runs.db"), by_tables), n);
}

/* More micro-batches list nothing but ops that stand alone, which are not worth looking up. */
TEST(micro_batches_share_the_list)
{
    static const char more[] = "SELECT (SELECT count(*) FROM op_order WHERE plan = 2)"
                               " - (SELECT count(*) FROM op_order WHERE plan = 1)";
    static const char alone[] = "SELECT (SELECT sum(n) FROM op_piece WHERE plan = 2 AND n < 3)"
                                " - (SELECT sum(n) FROM op_piece WHERE plan = 1 AND n < 3)";
    const char *file = fixture_path("runs.db");

    assert_int_equal(sql_ask(file, more), sql_ask(file, alone));
    assert_true(sql_ask(file, more) < 4 * 2 * 6); /* one for each further pass of a stage at most */
    assert_true(4 * sql_ask(file, "SELECT count(*) FROM op_order WHERE plan = 2")
                < sql_ask(file, "SELECT n_ops FROM plan WHERE id = 2"));
}

TEST(an_older_database_is_packed_by_what_stores)
{
    static const char size[] = "SELECT page_count - freelist_count FROM pragma_page_count,"
                               " pragma_freelist_count";

    shell("cp older.db again.db", NULL);
    int64_t before = sql_ask(fixture_path("again.db"), size);
    expect("sim -w mlp -c dgx-h100 --db again.db", 0, "stored as run 3");
    assert_int_equal(sql_ask(fixture_path("again.db"), "PRAGMA user_version"), 17);
    for (int id = 1; id <= 2; id++)
        has_rows_of("again.db", id, id);
    assert_true(sql_ask(fixture_path("again.db"), size) < before);
}

/* Of both versions, into a database whose numbers are others. */
TEST(merged_runs_have_the_same_rows)
{
    static const char *const from[] = {"runs.db", "older.db"};

    for (int i = 0; i < 2; i++) {
        shell("rm -f to.db; $L sim -w mlp -c dgx-h100 --spans --db to.db", NULL);
        lapwingf("runs --merge %s --db to.db", from[i]);
        for (int id = 1; id <= 2; id++)
            has_rows_of("to.db", 1 + id, id);
        lapwingf("runs 2 3 --delete --db to.db");
        assert_int_equal(sql_ask(fixture_path("to.db"),
                                 "SELECT (SELECT count(*) FROM op_order WHERE plan > 1)"
                                 " + (SELECT count(*) FROM op_piece WHERE plan > 1)"
                                 " + (SELECT count(*) FROM memory_order WHERE run > 1)"
                                 " + (SELECT count(*) FROM memory_piece WHERE run > 1)"), 0);
    }
}

/* Ranges of ops as Lapwing's queries name them, beside those of the view. */
TEST(ops_are_found_by_their_number)
{
    static const char *const words[][2] = {
        {"=", "<"}, {">=", "<"}, {">", "<="}, {"<", ">="}, {"<=", ">"}, {"=", "="},
    };
    struct prng r = prng_start("bounds");
    char where[128], sql[256], expected[256];
    static const char *const files[] = {"runs.db", "older.db"};

    for (int i = unit_cases(60, 600); i > 0; i--) {
        int at = (int)prng_in(&r, -5, 700), n = prng_below(&r, 40);
        snprintf(where, sizeof where, "op %s %d AND op %s %d", words[i % 6][0], at, words[i % 6][1],
                 i % 6 == 3 || i % 6 == 4 ? at - n : at + n);
        for (int k = 0; k < 2; k++) {
            snprintf(sql, sizeof sql, "SELECT count(*), ifnull(sum(op * (alike + 3 * micro_batch)),"
                                      " 0) FROM op_rows WHERE plan = 2 AND %s", where);
            snprintf(expected, sizeof expected, "SELECT count(*), ifnull(sum(op * (alike + 3 *"
                                                " micro_batch)), 0) FROM main.op_row"
                                                " WHERE plan = 2 AND %s", where);
            expect_same(rows_of(files[k], sql), rows_of("older.db", expected), true);
        }
    }
    expect_same(rows_of("runs.db", "SELECT op FROM op_rows WHERE plan = 9"), strdup(""), false);
    expect_same(rows_of("runs.db", "SELECT op FROM op_rows WHERE plan = NULL"), strdup(""), false);
    expect_same(rows_of("runs.db", "SELECT op FROM op_rows WHERE plan = 1 AND op = 2.5"),
                strdup(""), false);
    expect_same(rows_of("runs.db", "SELECT op FROM op_rows WHERE plan = 1 AND op > 2.5"
                                   " AND op < 4.5 ORDER BY op DESC"),
                strdup("4    \n3    \n"), true);
}

TEST_GROUP(make_runs, fixture_close)
