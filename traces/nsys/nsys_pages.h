#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* The rows of one table from the pages of an SQLite file, in the order of their rowids: the order
 * in which SQLite itself hands them out, at a tenth of its time. Only plain cases are read: whole
 * rows within a page, UTF-8, whole numbers, text and NULL. Anything else, damage included, ends
 * the reading with NSYS_PAGES_UNTOLD, and SQLite reads on from the row after `rowid`. */

struct nsys_pages;

enum { NSYS_PAGES_MOST_COLUMNS = 12 };

struct nsys_cell {
    enum { NSYS_NULL, NSYS_INT, NSYS_TEXT } kind;
    int32_t len; /* of the text, which has no terminator and is valid until the next row */
    int64_t number;
    const char *text;
};

enum nsys_pages_state { NSYS_PAGES_ROW, NSYS_PAGES_END, NSYS_PAGES_UNTOLD };

/* Where the pages are: in memory, or in an open file of `len` bytes (image NULL). */
struct nsys_image {
    const char *image;
    int fd;
    uint64_t len;
};

/* root: the table's first page; column[i]: place in the table of the i-th that is wanted, -1: NULL.
 * *out NULL: a file whose pages are not read so. Free with nsys_pages_free. LW_ENOMEM. */
enum lw_status nsys_pages_open(const struct nsys_image *image, int64_t root, const int *column,
                               int n_columns, struct nsys_pages **out, struct lw_err *err);
void nsys_pages_free(struct nsys_pages *p); /* NULL: nothing */

enum nsys_pages_state nsys_pages_next(struct nsys_pages *p);
/* The i-th wanted column of the row at hand. */
const struct nsys_cell *nsys_pages_cell(const struct nsys_pages *p, int i);
/* The same as text, a number as its digits; "" for NULL. */
const char *nsys_pages_text(struct nsys_pages *p, int i, int *len);
int64_t nsys_pages_rowid(const struct nsys_pages *p); /* of the last row; INT64_MIN: none yet */
