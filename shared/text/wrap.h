#ifndef LW_SHARED_TEXT_WRAP_H
#define LW_SHARED_TEXT_WRAP_H

#include <stdio.h>

/* The most that a line of text has outside a terminal. */
enum { LW_TEXT_COLUMNS = 100 };

/* Text from `column` on, where the cursor stands, in lines of at most `width` columns, broken at
 * blanks; the next lines begin at the same column. Ends the last line. */
void lw_put_wrapped(FILE *f, const char *text, int column, int width);
/* The same after `before`; later lines begin under its first character, indented by two more. */
void lw_put_paragraph(FILE *f, const char *before, const char *text);
/* A line as printf writes it, broken likewise; what is beyond 2047 bytes is cut. */
void lw_printf_paragraph(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
