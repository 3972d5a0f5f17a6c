/* A database of somebody else: texts in every column that takes any, through every command that
 * shows them. What may leave is in tests/lib/commands/hostile.h. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/unit.h"
#include <sqlite3.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/hostile.h"
#include "tests/lib/files/file_fixture.h"

static const char *const reads[] = {"runs",
                                    "runs --format json",
                                    "runs --format csv",
                                    "compare 1 2",
                                    "compare 1 2 --format json",
                                    "explain 1",
                                    "explain 2 --format json",
                                    "report -o r.html",
                                    "plot timeline -o -",
                                    "plot predicted -o -",
                                    "export 1 --format chrome -o e.json",
                                    NULL};

/* By turns, where LAPWING_MANY does not ask for each. */
static const char *const draws[] = {"plot timeline -o t.svg", "plot overlap -o o.svg",
                                    "plot predicted -o p.svg", "plot sweep -o s.svg"};

static int columns_of_text(sqlite3 *db, char names[][2][64], int most)
{
    sqlite3_stmt *q;
    int n = 0;

    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT t.name, c.name FROM sqlite_schema AS t, "
                                        "pragma_table_info(t.name) AS c WHERE t.type = 'table' "
                                        "AND c.type = 'TEXT' ORDER BY 1, 2",
                                        -1, &q, NULL),
                     0);
    while (sqlite3_step(q) == SQLITE_ROW && n < most) {
        snprintf(names[n][0], 64, "%s", (const char *)sqlite3_column_text(q, 0));
        snprintf(names[n++][1], 64, "%s", (const char *)sqlite3_column_text(q, 1));
    }
    sqlite3_finalize(q);
    return n;
}

static void set_column(sqlite3 *db, char name[2][64], const char *value)
{
    char text[256];
    sqlite3_stmt *q;

    snprintf(text, sizeof text, "UPDATE OR IGNORE %s SET %s = ?", name[0], name[1]);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &q, NULL), 0);
    sqlite3_bind_text(q, 1, value, -1, SQLITE_STATIC);
    sqlite3_step(q); /* a constraint may refuse it */
    sqlite3_finalize(q);
}

static sqlite3 *open_copy(void)
{
    sqlite3 *db;

    shell("cp good.db lapwing.db", NULL);
    assert_int_equal(sqlite3_open(fixture_path("lapwing.db"), &db), SQLITE_OK);
    return db;
}

TEST_WITH(texts_of_a_database_are_shown_and_never_executed, fixture_open, fixture_close)
{
    static const char *const values[] = {"`touch pwned`",
                                         "' . system('touch pwned') . '",
                                         "\" . `touch pwned`",
                                         "x\nEOD\n!touch pwned",
                                         "<script>alert(1)</script>'\"&",
                                         "\033[2J\033]0;t\a\177\302\233m",
                                         "a\377\303(\355\240\200",
                                         "\\`touch pwned`\\",
                                         "%s%n%100000d 100% of it"};
    char names[128][2][64];
    bool shown[128] = {false};

    char *workload = fixture_example("docs/formats/workload.md");
    fixture_put(fixture_path("w.json"), workload);
    free(workload);
    lapwing("sim -w w.json --dp 2 --spans --bucket-cap 1MiB", NULL);
    lapwing("exec -w w.json --dp 2 --steps 2 --bucket-cap 1MiB", NULL);
    shell("mv lapwing.db good.db; rm -f lapwing.db-*", NULL);
    sqlite3 *db = open_copy();
    int n = columns_of_text(db, names, 128);
    sqlite3_close(db);
    assert_true(n > 20);
    for (int c = 0; c < n; c++) { /* columns that can hold anything */
        db = open_copy();
        set_column(db, names[c], "x`touch pwned`");
        sqlite3_close(db);
        shown[c] = hostile_run("report -o r.html") == 0 && hostile_run("explain 1") == 0;
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        db = open_copy();
        for (int c = 0; c < n; c++)
            if (shown[c])
                set_column(db, names[c], values[i]);
        sqlite3_close(db);
        hostile_run_each(reads);
        for (int k = unit_cases((int)i % 4, 0); k < 4; k += unit_cases(4, 1))
            hostile_run(draws[k]);
        char *html = fixture_get(fixture_path("r.html"));
        hostile_html(html);
        hostile_bytes(html, "r.html");
        free(html);
    }
}
