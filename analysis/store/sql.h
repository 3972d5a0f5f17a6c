#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Statements over the results database, for the files of this folder. The first error of a
 * statement sticks: later calls answer "nothing" (false, 0, ""), and lw_sql_finish reports it. */
struct lw_store;
struct lw_sql;

enum lw_status lw_sql_exec(struct lw_store *s, const char *text, struct lw_err *err);

/* types: one letter per value that replaces a '?': i int, l int64_t, d double, t const char *
 * (NULL: NULL), b const char * and size_t (bytes). Text is borrowed until the next bind or
 * finish. */
enum lw_status lw_sql_prepare(struct lw_store *s, const char *text, struct lw_sql **out,
                              struct lw_err *err);
/* Bind alone: lw_sql_next then gives the rows. All of them, before it is bound anew. */
void lw_sql_bind(struct lw_sql *q, const char *types, ...);
/* Bind, run to the end, ready for the next row. */
void lw_sql_run(struct lw_sql *q, const char *types, ...);
/* The same with values of a list. Text where it is not NULL, which is borrowed as above. */
struct lw_sql_value {
    int64_t number;
    const char *text;
    bool null; /* neither */
};
void lw_sql_run_values(struct lw_sql *q, const struct lw_sql_value *v, int n);
/* Both at once: prepare and bind. */
enum lw_status lw_sql_query(struct lw_store *s, struct lw_sql **out, struct lw_err *err,
                            const char *text, const char *types, ...);
/* All at once: prepare, bind, run to the end, finish. */
enum lw_status lw_sql_do(struct lw_store *s, struct lw_err *err, const char *text,
                         const char *types, ...);
/* The number in the first column of the first row; 0 where there is no row. */
enum lw_status lw_sql_number(struct lw_store *s, int64_t *value, struct lw_err *err,
                             const char *text, const char *types, ...);

bool lw_sql_next(struct lw_sql *q); /* false at the end or after an error */
int64_t lw_sql_int(struct lw_sql *q, int column);
double lw_sql_real(struct lw_sql *q, int column);
const char *lw_sql_text(struct lw_sql *q, int column); /* "" for NULL; valid until the next step */
/* Bytes; NULL and 0 for NULL. Valid until the next step. */
const void *lw_sql_bytes(struct lw_sql *q, int column, size_t *n);
bool lw_sql_is_null(struct lw_sql *q, int column);
bool lw_sql_failed(const struct lw_sql *q);
enum lw_status lw_sql_finish(struct lw_sql *q, struct lw_err *err); /* frees; NULL is fine */
/* The same after work with its rows: where that failed (st), it is what is reported. */
enum lw_status lw_sql_end(struct lw_sql *q, enum lw_status st, struct lw_err *err);

int64_t lw_sql_last_id(struct lw_store *s);
int64_t lw_sql_changed(struct lw_store *s);          /* rows that the last statement changed */
enum lw_status lw_sql_begin(struct lw_store *s, struct lw_err *err);
/* Commit, or roll back where what was done in the transaction failed (st). */
enum lw_status lw_sql_commit(struct lw_store *s, enum lw_status st, struct lw_err *err);
void lw_sql_rollback(struct lw_store *s); /* fine outside a transaction */
