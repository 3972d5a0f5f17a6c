/* Rows from the pages of a file are those that SQLite hands out, in its order, and what is not
 * plain is left to SQLite from its first row on. */
#include "tests/lib/unit.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/prng.h"
#include "traces/nsys/nsys_database.h"

static const char *const columns[] = {"a", "?b", "?absent", "?c", NULL};

/* n rows of numbers of all widths, texts and NULL: row i has rowid i * step + from. */
static void put_rows(char *sql, size_t room, const char *table, int n, int step, int from)
{
    snprintf(sql, room,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT "
             "INTO %s(rowid, a, b, c, d) SELECT i * %d + %d, (1 << (i %% 63)) - i, CASE i %% 5 "
             "WHEN 0 THEN NULL WHEN 1 THEN 'text ' || i WHEN 2 THEN '' ELSE -(1 << (i %% 61)) END, "
             "i %% 3, 0.5 FROM n;",
             n, table, step, from);
}

/* Every row by nsys_rows, beside SQLite's; the number that came from pages. */
static int64_t same_rows(const struct nsys_database *d, const char *table)
{
    struct nsys_rows r;
    struct lw_err err = {0};
    sqlite3_stmt *s;
    char query[128];
    bool more = true;
    int64_t n_plain = 0;

    snprintf(query, sizeof query, "SELECT a, b, NULL, c FROM %s", table);
    assert_int_equal(sqlite3_prepare_v2(d->db, query, -1, &s, NULL), SQLITE_OK);
    assert_ok(nsys_rows_open(d, table, columns, "", &r, &err), err);
    while (more) {
        assert_ok(nsys_rows_next(&r, &more, &err), err);
        assert_int_equal(sqlite3_step(s), more ? SQLITE_ROW : SQLITE_DONE);
        n_plain += more && r.pages;
        for (int i = 0; more && i < 4; i++) {
            int64_t value = 0;
            int len, type = sqlite3_column_type(s, i);
            bool number = nsys_rows_maybe(&r, i, INT64_MIN, &value, &err) == LW_OK;
            assert_int_equal(number, type == SQLITE_INTEGER || type == SQLITE_NULL);
            if (number)
                assert_int_equal(value, type == SQLITE_NULL ? INT64_MIN
                                                            : sqlite3_column_int64(s, i));
            const char *text = nsys_rows_text(&r, i, &len);
            const char *theirs = (const char *)sqlite3_column_text(s, i);
            assert_int_equal(len, sqlite3_column_bytes(s, i));
            assert_memory_equal(text, theirs ? theirs : "", (size_t)len);
        }
    }
    nsys_rows_close(&r);
    sqlite3_finalize(s);
    return n_plain;
}

static int64_t same_rows_of_file(const char *file, bool in_memory)
{
    struct nsys_database d;
    struct lw_input in;
    struct lw_err err = {0};

    assert_ok(lw_input_read(file, 0, &in, &err), err);
    in.name = in_memory ? "no such file" : in.name;
    assert_ok(nsys_database_open(&in, &d, &err), err);
    int64_t n = same_rows(&d, "t");
    nsys_database_close(&d);
    lw_input_free(&in);
    return n;
}

/* An odd number of rows, whose rowids have gaps and begin below 0, on pages of each size; of 512
 * bytes the tree is three levels deep. */
TEST_WITH(plain_rows_are_read_from_the_pages, fixture_open, fixture_close)
{
    static const int sizes[] = {512, 4096, 65536};
    char sql[1024], rows[700];

    for (int i = 0; i < 3; i++) {
        const char *file = fixture_path("plain.db");
        unlink(file);
        put_rows(rows, sizeof rows, "t", 20001, 7, -30000);
        snprintf(sql, sizeof sql, "PRAGMA page_size=%d; CREATE TABLE t(d, a, b, c);%s", sizes[i],
                 rows);
        sql_do(file, sql);
        assert_int_equal(same_rows_of_file(file, false), 20001);
        assert_int_equal(same_rows_of_file(file, true), 20001);
        sql_do(file, "DELETE FROM t WHERE rowid % 3 = 0"); /* pages that are partly free */
        assert_int_equal(same_rows_of_file(file, false), 13334);
        sql_do(file, "DELETE FROM t");
        assert_int_equal(same_rows_of_file(file, false), 0);
    }
}

/* Each with 300 rows: how many of them the pages give. */
TEST_WITH(what_is_not_plain_is_left_to_sqlite, fixture_open, fixture_close)
{
    static const struct {
        const char *create, *then;
        int64_t n_plain;
    } cases[] = {
        {"CREATE TABLE t(d, a, b, c)", "", 300},
        /* a text that goes on on other pages; a blob; a fraction: from that row on */
        {"CREATE TABLE t(d, a, b, c)",
         "UPDATE t SET b = printf('%9000s', 'x') WHERE rowid = 101", 100},
        {"CREATE TABLE t(d, a, b, c)", "UPDATE t SET b = x'00' WHERE rowid = 201", 200},
        {"CREATE TABLE t(d, a, b, c)", "UPDATE t SET c = 0.5 WHERE rowid = 1", 0},
        /* the same in a column that is not asked for */
        {"CREATE TABLE t(d, a, b, c)", "UPDATE t SET d = x'00' WHERE rowid = 201", 300},
        /* numbers that are handed out as fractions; a key that is the rowid; a computed column */
        {"CREATE TABLE t(d, a, b, c REAL)", "", 0},
        {"CREATE TABLE t(d, a INTEGER PRIMARY KEY, b, c)", "-", 0},
        {"CREATE TABLE t(d, e AS (a), a, b, c)", "", 0},
        {"CREATE TABLE t(d, a PRIMARY KEY, b, c) WITHOUT ROWID", "-", 0},
        {"CREATE TABLE t(d DEFAULT (random()) PRIMARY KEY, a, b, c) WITHOUT ROWID", "-", 0},
        /* rows that are older than their last column */
        {"CREATE TABLE t(d, a, b)", "ALTER TABLE t ADD COLUMN c DEFAULT 7", 0},
        {"PRAGMA encoding='UTF-16'; CREATE TABLE t(d, a, b, c)", "", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *file = fixture_path("other.db");
        char rows[700];
        bool with_c = !strstr(cases[i].then, "ADD COLUMN");
        unlink(file);
        sql_do(file, cases[i].create);
        put_rows(rows, sizeof rows, "t", 300, 1, 0);
        if (*cases[i].then == '-') /* without a rowid to give */
            snprintf(rows, sizeof rows,
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                     "300) INSERT INTO t(a, b, c) SELECT 301 - i, 'x', i FROM n");
        if (!with_c)
            snprintf(rows, sizeof rows, "INSERT INTO t(a, b) VALUES(1, 2), (3, 'x')");
        sql_do(file, rows);
        if (*cases[i].then && *cases[i].then != '-')
            sql_do(file, cases[i].then);
        int64_t n = same_rows_of_file(file, i % 2);
        if (n != cases[i].n_plain)
            fail_msg("case %zu: %" PRId64 " rows from pages", i, n);
    }
}

/* Bytes changed at random: every read ends, with rows or with an error, and stays within the image
 * (the sanitizers see where it does not). */
TEST_WITH(damaged_pages_end, fixture_open, fixture_close)
{
    char rows[700];
    struct lw_input in;
    struct lw_err err = {0};
    const int place[] = {1, 2, -1, 3};

    sql_do(fixture_path("d.db"), "PRAGMA page_size=512; CREATE TABLE t(d, a, b, c)");
    put_rows(rows, sizeof rows, "t", 2001, 7, 0);
    sql_do(fixture_path("d.db"), rows);
    int64_t root = sql_ask(fixture_path("d.db"), "SELECT rootpage FROM sqlite_master");
    assert_ok(lw_input_read(fixture_path("d.db"), 0, &in, &err), err);
    for (uint64_t seed = 1; seed <= (uint64_t)unit_cases(2000, 50000); seed++) {
        struct prng r = {seed * 2685821657736338717u + 1};
        char *copy = malloc(in.len);
        struct nsys_pages *p;
        enum nsys_pages_state row;
        int64_t n = 0, last = INT64_MIN;
        memcpy(copy, in.text, in.len);
        for (int k = 0; k < 8; k++) { /* the first bytes of a page tell most */
            size_t at = (size_t)prng_below(&r, (int)in.len);
            at = k % 2 ? at / 512 * 512 + at % 24 : at;
            copy[at < 512 ? 512 : at] = (char)prng_below(&r, 256);
        }
        struct nsys_image image = {.image = copy, .len = in.len};
        assert_ok(nsys_pages_open(&image, root, place, 4, &p, &err), err);
        while ((row = nsys_pages_next(p)) == NSYS_PAGES_ROW) {
            if (nsys_pages_rowid(p) <= last || ++n > (int64_t)in.len)
                fail_msg("seed %" PRIu64 ": row %" PRId64, seed, nsys_pages_rowid(p));
            last = nsys_pages_rowid(p);
        }
        assert_int_equal(nsys_pages_next(p), row); /* the end stays the end */
        nsys_pages_free(p);
        free(copy);
    }
    lw_input_free(&in);
    assert_int_equal(lw_alloc_live(), 0);
}
