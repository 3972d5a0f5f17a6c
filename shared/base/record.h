#ifndef LW_SHARED_BASE_RECORD_H
#define LW_SHARED_BASE_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/base/jsonout.h"

/* How a command prints. */
enum lw_format { LW_FORMAT_TEXT, LW_FORMAT_JSON, LW_FORMAT_CSV };

/* One printer for rows of structs: a table of fields says what a struct holds, and text, JSON and
 * CSV follow from it. Text shows units ("25.00 MiB", "1.5 ms"); JSON and CSV hold exact numbers
 * whose key names the unit, times in whole nanoseconds. */
enum lw_field_kind {
    LW_FIELD_INT,   /* int64_t */
    LW_FIELD_INT32, /* int32_t */
    LW_FIELD_BYTES, /* int64_t */
    LW_FIELD_PS,    /* lw_ps */
    LW_FIELD_FLAG,  /* bool; yes, no in text and CSV */
    LW_FIELD_TEXT,  /* const char *; NULL or "" = lacking */
    LW_FIELD_CHARS, /* char[]; "" = lacking */
    LW_FIELD_WORD,  /* int-sized enum, shown by `word` */
    LW_FIELD_REAL,  /* double, `digits` decimals */
};

struct lw_field {
    const char *key;             /* of JSON and CSV; NULL: only in text */
    const char *title;           /* of the text's column; NULL: not in text */
    enum lw_field_kind kind;
    size_t at;                   /* offset in the struct */
    int digits;                  /* LW_FIELD_REAL: decimals; texts: most characters in text, 0 = all */
    const char *(*word)(int value);
    const char *lacking;         /* text for a number below 0 or no text; NULL: no number lacks */
};

struct lw_records {
    const char *key;             /* of the JSON array */
    const struct lw_field *fields;
    int n_fields;
    const void *rows;
    int64_t n;
    size_t size;                 /* of one struct */
};

/* The members of one struct, into an object that is open. */
void lw_record_json(struct lw_jsonout *o, const struct lw_field *fields, int n_fields,
                    const void *row);
/* An array "key" of objects, one line each. */
void lw_records_json(struct lw_jsonout *o, const struct lw_records *r);
enum lw_status lw_records_text(const struct lw_records *r, FILE *f, int indent, struct lw_err *err);
enum lw_status lw_records_csv(const struct lw_records *r, FILE *f, struct lw_err *err);

/* All there is to print: a table, or CSV, or an object that holds the array alone. */
enum lw_status lw_records_print(const struct lw_records *r, enum lw_format format, FILE *f,
                                struct lw_err *err);

#endif
