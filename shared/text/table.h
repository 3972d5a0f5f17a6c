#pragma once

#include <stdio.h>

#include "shared/base/err.h"
#include "shared/numbers/quantity.h"

/* A table for people or as CSV: cells are added row by row, widths are found when it is printed. A
 * title that begins with '>' makes its column align right (the '>' is not shown). A failure of
 * memory sticks and is reported by the print functions, so cells are added without tests. */
struct lw_table;

struct lw_table *lw_table_new(int n_columns, const char *const *titles); /* borrowed titles */
void lw_table_cell(struct lw_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void lw_table_text(struct lw_table *t, const char *text); /* NULL: "-" */
void lw_table_int(struct lw_table *t, int64_t value);
void lw_table_decimals(struct lw_table *t, struct lw_decimals value);
void lw_table_maybe(struct lw_table *t, struct lw_maybe value); /* not known: "" */
void lw_table_quantity(struct lw_table *t, struct lw_quantity value);
/* Up to twelve cells at once, each by its type. */
#define LW_CELLS(t, ...)                                                                         \
    LW_CELLS_PICK(__VA_ARGS__, LW_CELLS_12, LW_CELLS_11, LW_CELLS_10, LW_CELLS_9, LW_CELLS_8,    \
                  LW_CELLS_7, LW_CELLS_6, LW_CELLS_5, LW_CELLS_4, LW_CELLS_3, LW_CELLS_2,        \
                  LW_CELLS_1, 0)                                                                 \
    (t, __VA_ARGS__)
#define LW_CELLS_PICK(a, b, c, d, e, f, g, h, i, j, k, l, macro, ...) macro
#define LW_CELLS_1(t, v)                        \
    _Generic((v),                               \
        char *: lw_table_text,                  \
        const char *: lw_table_text,            \
        struct lw_decimals: lw_table_decimals,  \
        struct lw_maybe: lw_table_maybe,        \
        struct lw_quantity: lw_table_quantity,  \
        float: lw_table_decimals, /* refused, as double: say how many decimals */ \
        double: lw_table_decimals,              \
        long double: lw_table_decimals,         \
        default: lw_table_int)(t, v)
#define LW_CELLS_2(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_1(t, __VA_ARGS__))
#define LW_CELLS_3(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_2(t, __VA_ARGS__))
#define LW_CELLS_4(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_3(t, __VA_ARGS__))
#define LW_CELLS_5(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_4(t, __VA_ARGS__))
#define LW_CELLS_6(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_5(t, __VA_ARGS__))
#define LW_CELLS_7(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_6(t, __VA_ARGS__))
#define LW_CELLS_8(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_7(t, __VA_ARGS__))
#define LW_CELLS_9(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_8(t, __VA_ARGS__))
#define LW_CELLS_10(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_9(t, __VA_ARGS__))
#define LW_CELLS_11(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_10(t, __VA_ARGS__))
#define LW_CELLS_12(t, v, ...) (LW_CELLS_1(t, v), LW_CELLS_11(t, __VA_ARGS__))

/* Text: two blanks between columns, a rule under the titles, `indent` blanks before each line.
 * Where that is wider than lw_columns_of(f), the widest columns that align left are cut, with an
 * ellipsis; where that is not enough titles are broken at blanks too; columns that still lack room
 * follow below, with the first column again. Numbers are always whole. */
enum lw_status lw_table_print(const struct lw_table *t, FILE *f, int indent, struct lw_err *err);
/* The same within so many columns; 0 = any number. */
enum lw_status lw_table_print_within(const struct lw_table *t, FILE *f, int indent, int n_columns,
                                     struct lw_err *err);
/* One field of CSV, in quotation marks where it needs them (RFC 4180). A text that begins with = +
 * - @, a tab or CR and is no number follows an apostrophe: spreadsheets would compute it. */
void lw_csv_text(FILE *f, const char *s);
void lw_table_free(struct lw_table *t);
/* Print as text with that indent, or as CSV, and free; LW_ENOMEM where t is NULL. */
enum { LW_TABLE_CSV = -1 };
enum lw_status lw_table_end(struct lw_table *t, FILE *f, int indent, struct lw_err *err);
