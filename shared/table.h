#ifndef LW_SHARED_TABLE_H
#define LW_SHARED_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "shared/err.h"

/* A table for people or as CSV: cells are added row by row, widths are found when it is printed.
 * Columns whose title ends in " |" of nothing are plain text; a title beginning with '>' is aligned
 * right (the '>' is not shown). Memory failures stick and are reported by lw_table_print. */
struct lw_table;

struct lw_table *lw_table_new(int n_columns, const char *const *titles);
void lw_table_cell(struct lw_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Text: two blanks between columns, a rule under the titles, `indent` blanks before each line. */
enum lw_status lw_table_print(const struct lw_table *t, FILE *f, int indent, struct lw_err *err);
enum lw_status lw_table_print_csv(const struct lw_table *t, FILE *f, struct lw_err *err);
void lw_table_free(struct lw_table *t);

#endif
