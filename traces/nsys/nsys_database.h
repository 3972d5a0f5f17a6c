#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "traces/nsys/nsys_pages.h"

struct lw_input;

/* A report's tables, read one after the other. A table or a column that the file lacks is no error
 * where the reader says that it may be absent. */
struct nsys_database {
    const char *name; /* of the file, in messages */
    sqlite3 *db;
    struct nsys_image image; /* len 0: rows are asked of SQLite alone */
};

/* The bytes must outlive it; those of a plain file are given back, as it is read by its name.
 * LW_EFORMAT: no database. */
enum lw_status nsys_database_open(struct lw_input *in, struct nsys_database *out,
                                  struct lw_err *err);
/* The file itself, read only. */
enum lw_status nsys_database_open_file(const char *file, struct nsys_database *out,
                                       struct lw_err *err);
void nsys_database_close(struct nsys_database *d);

/* LW_EFORMAT: a database of another program; says which, and how to get a file that is read. */
enum lw_status nsys_database_check(const struct nsys_database *d, struct lw_err *err);

bool nsys_database_has(const struct nsys_database *d, const char *table);
/* LW_EFORMAT: the first row and column are no number. */
enum lw_status nsys_database_number(const struct nsys_database *d, const char *query,
                                    int64_t *value, struct lw_err *err);

enum { NSYS_MOST_COLUMNS = NSYS_PAGES_MOST_COLUMNS };

/* The rows of one table in the order of the file. Columns are asked for by name, '?' before those
 * that may be absent: their value is then NULL. */
struct nsys_rows {
    const struct nsys_database *d;
    const char *table;
    const char *const *columns;
    int n_columns;
    int64_t n; /* rows so far */
    bool present;             /* false: the table is absent */
    struct nsys_pages *pages; /* plain rows are read from the file's pages (nsys_pages.h); */
    sqlite3_stmt *statement;  /* where pages are NULL, rows are asked of SQLite */
};

/* order: "" or " ORDER BY ...". */
enum lw_status nsys_rows_open(const struct nsys_database *d, const char *table,
                              const char *const *columns, const char *order,
                              struct nsys_rows *out, struct lw_err *err);
/* *more false: no further row. */
enum lw_status nsys_rows_next(struct nsys_rows *r, bool *more, struct lw_err *err);
void nsys_rows_close(struct nsys_rows *r);
/* LW_EFORMAT: the column holds something else than a whole number. */
enum lw_status nsys_rows_int(const struct nsys_rows *r, int column, int64_t *value,
                             struct lw_err *err);
/* The same of a column that may be absent or NULL. */
enum lw_status nsys_rows_maybe(const struct nsys_rows *r, int column, int64_t absent,
                               int64_t *value, struct lw_err *err);
/* "" for NULL; until the next row. */
const char *nsys_rows_text(const struct nsys_rows *r, int column, int *len);
