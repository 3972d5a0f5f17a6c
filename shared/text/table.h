#ifndef LW_SHARED_TEXT_TABLE_H
#define LW_SHARED_TEXT_TABLE_H

#include <stdio.h>

#include "shared/base/err.h"
#include "shared/base/units.h"

/* A table for people or as CSV: cells are added row by row, widths are found when it is printed. A
 * title that begins with '>' makes its column align right (the '>' is not shown). A failure of
 * memory sticks and is reported by the print functions, so cells are added without tests. */
struct lw_table;

struct lw_table *lw_table_new(int n_columns, const char *const *titles); /* borrowed titles */
void lw_table_cell(struct lw_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A cell with a time. */
void lw_table_ps(struct lw_table *t, lw_ps time);
void lw_table_ns(struct lw_table *t, lw_ns time);

/* Text: two blanks between columns, a rule under the titles, `indent` blanks before each line.
 * Where that is wider than lw_columns_of(f), the widest columns that align left are cut, with an
 * ellipsis; where that is not enough titles are broken at blanks too; columns that still lack room
 * follow below, with the first column again. Numbers are always whole. */
enum lw_status lw_table_print(const struct lw_table *t, FILE *f, int indent, struct lw_err *err);
/* The same within so many columns; 0 = any number. */
enum lw_status lw_table_print_within(const struct lw_table *t, FILE *f, int indent, int n_columns,
                                     struct lw_err *err);
enum lw_status lw_table_print_csv(const struct lw_table *t, FILE *f, struct lw_err *err);
/* One field of CSV, in quotation marks where it needs them (RFC 4180). */
void lw_csv_text(FILE *f, const char *s);
void lw_table_free(struct lw_table *t);
/* Print as text and free; LW_ENOMEM where t is NULL. */
enum lw_status lw_table_end(struct lw_table *t, FILE *f, int indent, struct lw_err *err);

#endif
