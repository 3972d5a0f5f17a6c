/* SQLite itself on a database file, apart from the program's own access to it. */
#include "tests/lib/files/sql_file.h"

#include <sqlite3.h>
#include "tests/lib/unit.h"

static sqlite3 *open_file(const char *file)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000); /* the program may be writing it */
    return db;
}

void sql_do(const char *file, const char *sql)
{
    sqlite3 *db = open_file(file);
    char *words = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &words) != SQLITE_OK)
        fail_msg("%s: %s", sql, words);
    sqlite3_close(db);
}

int64_t sql_ask(const char *file, const char *sql)
{
    sqlite3 *db = open_file(file);
    sqlite3_stmt *q;

    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return value;
}
