#pragma once

#include <stdio.h>

#include "shared/base/err.h"

/* The most that a line of text has outside a terminal. */
enum { LW_TEXT_COLUMNS = 100 };

/* Columns of the first n bytes of a text in UTF-8, or of all of a shorter one: bytes that begin a
 * character. */
int lw_text_width(const char *text, int n);

/* Columns of the terminal that f is; of a pipe or a file LW_TEXT_COLUMNS. $COLUMNS, where it is
 * exported, wins over both. */
int lw_columns_of(FILE *f);

/* Text from `column` on, where the cursor stands, in lines of at most `width` columns and those of
 * f, broken at blanks; the next lines begin at the same column. Ends the last line. */
void lw_put_wrapped(FILE *f, const char *text, int column, int width);
/* The same after `before` in the columns of f, LW_TEXT_COLUMNS at most; later lines begin under its
 * first character, indented by two more. Written at once: lines of several processes on one stream
 * stay apart. */
void lw_put_paragraph(FILE *f, const char *before, const char *text);
/* A line as printf writes it, broken likewise; what is beyond 2047 bytes is cut. Empty lines around
 * the text and up to 7 blanks before it, which indent it, are kept; the line end is implied. */
void lw_printf_paragraph(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same of several calls of fprintf, when it is closed. Without memory for it they write to
 * `out` itself, in one line. LW_ENOMEM: the text is incomplete and is not written. */
struct lw_paragraph {
    FILE *out, *f;
    const char *before; /* as of lw_put_paragraph; NULL = nothing */
    char *text;
    size_t size;
};
FILE *lw_paragraph_open(struct lw_paragraph *p, FILE *out, const char *before);
enum lw_status lw_paragraph_close(struct lw_paragraph *p, struct lw_err *err);
