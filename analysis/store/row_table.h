#pragma once

#include <sqlite3.h>

/* What a table has that SQLite asks for rows (sqlite.org/vtab.html) while the file has them packed:
 * xConnect and xDisconnect of its module, registered with the CREATE TABLE text as its aux. Without
 * xCreate it is always there. */
struct row_table {
    sqlite3_vtab base;
    sqlite3 *db;
};

int row_table_connect(sqlite3 *db, void *declared, int argc, const char *const *argv,
                      sqlite3_vtab **out, char **words);
int row_table_disconnect(sqlite3_vtab *t);
sqlite3 *row_table_db(const sqlite3_vtab_cursor *c);
/* SQLITE_CORRUPT, with the message, as sqlite3_mprintf makes it. */
int row_table_damaged(sqlite3_vtab_cursor *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
