#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/io/input.h"

/* A published table as CSV: a line of titles, then rows of as many cells, which may be quoted.
 * Cells are trimmed of blanks; empty lines are skipped. */
struct lw_rows {
    struct lw_arena arena; /* owns everything below */
    const char *file;      /* as the user wrote it */
    int32_t n_columns, n_rows;
    const char **titles;   /* [n_columns] */
    const char **cells;    /* [n_rows * n_columns] */
    int32_t *line;         /* [n_rows] in the file, from 1 */
    int32_t n_bad;         /* of lw_rows_read_good: lines that are no row */
    int32_t *bad_line;
    const char **bad;      /* why: "FILE:LINE: ..." */
};

/* The first line has every one of these titles ("a b c", separated by blanks). Cheap: for telling
 * kinds of files apart. */
bool lw_rows_have(const struct lw_input *in, const char *titles);

/* LW_EFORMAT names the line: another number of cells than titles, a title given twice, no row. */
enum lw_status lw_rows_read(const struct lw_input *in, struct lw_rows *out, struct lw_err *err);
/* The same, but rows that have another number of cells or wrong quotes are left out and listed.
 * Without any good row n_rows is 0 where one is listed. */
enum lw_status lw_rows_read_good(const struct lw_input *in, struct lw_rows *out,
                                 struct lw_err *err);
void lw_rows_free(struct lw_rows *r);

int32_t lw_rows_column(const struct lw_rows *r, const char *title); /* -1 = none */
const char *lw_rows_cell(const struct lw_rows *r, int32_t row, const char *title); /* "" = none */
/* A cell as a number; LW_EFORMAT with file, line, column, what was found and what is allowed. */
enum lw_status lw_rows_int(const struct lw_rows *r, int32_t row, const char *title, int64_t least,
                           int64_t most, int64_t *v, struct lw_err *err);
enum lw_status lw_rows_real(const struct lw_rows *r, int32_t row, const char *title, double least,
                            double *v, struct lw_err *err);
/* A printed number and the unit of its last digit ("41.3": 0.1, "4187": 1). */
enum lw_status lw_rows_printed(const struct lw_rows *r, int32_t row, const char *title, double *v,
                               double *unit, struct lw_err *err);
