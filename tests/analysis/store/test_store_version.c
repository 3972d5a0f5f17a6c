/* Databases whose version number or tables are not those that this program writes: older, newer,
 * edited, or made by a stranger. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/store.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

static const char *file(void)
{
    return fixture_path("v.db");
}

static int64_t version_of_file(void)
{
    return sql_ask(file(), "PRAGMA user_version");
}

enum { NEWEST = 17, OLDEST_READ = 14 };

/* A database with the tables of one version and the number of another. */
static void make_version(int tables, int number)
{
    char *schema = fixture_get("analysis/store/schema.sql"), line[96];

    snprintf(line, sizeof line, "-- version %d\n", tables + 1);
    schema[strstr(schema, line) ? strstr(schema, line) - schema : (long)strlen(schema)] = '\0';
    shell("rm -f v.db*", NULL);
    sql_do(file(), schema);
    free(schema);
    snprintf(line, sizeof line, "PRAGMA application_id = 0x4c617077; PRAGMA user_version = %d",
             number);
    sql_do(file(), line);
}

/* Opening succeeds, or the message names the file, its version, the known versions and the remedy,
 * and holds no text of SQLite. */
static void use_version(int tables, int number, enum lw_store_mode mode)
{
    static const char *const foreign[] = {"no such", "already exists", "SQLite", "duplicate"};
    struct lw_store *s = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    int32_t n;
    struct lw_err err = {0};
    char version[48];

    make_version(tables, number);
    enum lw_status st = lw_store_open(file(), mode, &s, &err);
    if (st == LW_OK)
        st = lw_store_runs(s, &arena, &runs, &n, &err);
    if (st == LW_OK) {
        assert_true(number >= OLDEST_READ || mode == LW_STORE_WRITE);
        assert_int_equal(version_of_file(), mode == LW_STORE_WRITE ? NEWEST : number);
    } else {
        snprintf(version, sizeof version, "schema version %d", number);
        assert_int_equal(st, LW_EFORMAT);
        has(err.msg, file());
        has(err.msg, version);
        has(err.msg, "1 to 17");
        assert_true(strstr(err.msg, "another --db") || strstr(err.msg, "brings it up to date"));
        for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
            assert_null(strstr(err.msg, foreign[i]));
        assert_true(tables != number || number > NEWEST ||
                    (mode == LW_STORE_READ && number < OLDEST_READ));
    }
    lw_arena_free(&arena);
    lw_store_close(s);
}

/* Of a number and other tables than its own, a sample in which each occurs: all of them are made
 * and opened with LAPWING_MANY=1. */
static bool is_tried(int tables, int number)
{
    return tables == number || unit_cases((tables + 3 * number + 3) % 7 == 0, 1);
}

TEST_WITH(every_version_is_read_brought_up_to_date_or_named, fixture_open, fixture_close)
{
    for (int number = -1; number <= NEWEST + 1; number++)
        for (int tables = 1; tables <= NEWEST; tables++) {
            if (!is_tried(tables, number))
                continue;
            use_version(tables, number, LW_STORE_READ);
            use_version(tables, number, LW_STORE_WRITE);
        }
}

/* A view or a trigger of a stranger, which has no end, is not evaluated. */
TEST_WITH(sql_in_a_foreign_database_is_not_evaluated, fixture_open, fixture_close)
{
    static const char endless[] = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";
    struct lw_run_info info = {.kind = LW_RUN_SIM};
    struct lw_store *s = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    int32_t n;
    struct lw_err err = {0};
    char line[512];
    int64_t id;

    make_version(NEWEST, NEWEST);
    snprintf(line, sizeof line, "CREATE TRIGGER t AFTER INSERT ON run BEGIN INSERT INTO "
                                "op_kind(name, letter, class) %s SELECT x, x, x FROM c; END",
             endless);
    sql_do(file(), line);
    assert_int_equal(lw_store_open(file(), LW_STORE_WRITE, &s, &err), LW_OK);
    assert_int_equal(lw_store_begin_run(s, &info, &id, &err), LW_OK);
    lw_store_close(s);
    sql_do(file(), "ALTER TABLE run RENAME TO was");
    snprintf(line, sizeof line, "CREATE VIEW run AS %s SELECT was.* FROM was, c", endless);
    sql_do(file(), line);
    assert_int_equal(lw_store_open(file(), LW_STORE_READ, &s, &err), LW_OK);
    assert_int_equal(lw_store_runs(s, &arena, &runs, &n, &err), LW_EFORMAT);
    has(err.msg, "its tables are not those of schema version 17");
    lw_arena_free(&arena);
    lw_store_close(s);
}
