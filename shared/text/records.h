#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/json/jsonout.h"

/* How a command prints. */
enum lw_format { LW_FORMAT_TEXT, LW_FORMAT_JSON, LW_FORMAT_CSV };

/* One printer for rows of structs: a table of columns says what a struct holds, and text, JSON and
 * CSV follow from it. Text shows units ("25.00 MiB", "1.5 ms"); JSON and CSV hold exact numbers
 * whose key names the unit, times in whole nanoseconds. */
enum lw_column_kind {
    LW_COLUMN_INT,   /* int64_t */
    LW_COLUMN_INT32, /* int32_t */
    LW_COLUMN_BYTES, /* int64_t */
    LW_COLUMN_PS,    /* lw_ps */
    LW_COLUMN_NS,    /* int64_t, a time in ns; -1 = lacking */
    LW_COLUMN_FLAG,  /* bool; yes, no in text and CSV */
    LW_COLUMN_KNOWN, /* int32_t: 1, 0 as of FLAG; -1 = lacking */
    LW_COLUMN_TEXT,  /* const char *; NULL or "" = lacking */
    LW_COLUMN_CHARS, /* char[]; "" = lacking */
    LW_COLUMN_WORD,  /* int-sized enum, shown by `word` */
    LW_COLUMN_REAL,  /* double, `digits` decimals */
    LW_COLUMN_EXACT, /* the same; in JSON as many digits as it needs */
    LW_COLUMN_DOUBLE, /* double, as many digits as it needs; NAN = lacking */
    LW_COLUMN_STRING, /* const char *; "" is a text, NULL = lacking */
    LW_COLUMN_MS,     /* lw_ps; in text milliseconds with 3 decimals; -1 = lacking */
    LW_COLUMN_CHANGE_MS,  /* of a difference: with its sign; INT64_MIN = lacking */
    LW_COLUMN_CHANGE_PCT, /* double with its sign, 1 decimal in text, 3 elsewhere; NAN = lacking */
};

struct lw_column {
    const char *key;             /* of JSON and CSV; NULL: only in text */
    const char *title;           /* of the text's column; NULL: not in text */
    enum lw_column_kind kind;
    size_t at;                   /* offset in the struct */
    int digits;                  /* REAL: decimals; texts: most characters shown, 0 = all */
    const char *(*word)(int value);
    const char *lacking;         /* text for a number below 0 or no text; NULL: no number lacks */
};

struct lw_records {
    const char *key;             /* of the JSON array */
    const struct lw_column *columns;
    int n_columns;
    const void *rows;
    int64_t n;
    size_t size;                 /* of one struct */
    int64_t most;                /* rows of the text; 0 = all */
    size_t largest;              /* those with the largest int64_t at this offset, of equals the
                                  * earlier, in their order */
    /* Row i, of rows that no array holds, valid until the next call; NULL: rows is an array. */
    const void *(*make)(void *from, int64_t i);
    void *from;
};

/* Of an array of columns, not of a pointer to one. */
#define LW_RECORDS(key, columns, rows, n) \
    ((struct lw_records){key, columns, LW_N_COLUMNS(columns), rows, n, sizeof *(rows), 0, 0,     \
                         NULL, NULL})
#define LW_N_COLUMNS(columns) ((int)(sizeof(columns) / sizeof *(columns)))

/* The members of one struct, into an object that is open. */
void lw_record_json(struct lw_jsonout *o, const struct lw_column *columns, int n_columns,
                    const void *row);
/* An array "key" of objects, one line each. */
void lw_records_json(struct lw_jsonout *o, const struct lw_records *r);
enum lw_status lw_records_text(const struct lw_records *r, FILE *f, int indent, struct lw_err *err);
enum lw_status lw_records_csv(const struct lw_records *r, FILE *f, struct lw_err *err);

/* All there is to print: a table, or CSV, or an object that holds the array alone. */
enum lw_status lw_records_print(const struct lw_records *r, enum lw_format format, FILE *f,
                                struct lw_err *err);
