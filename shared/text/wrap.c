/* Lines of prose that fit. */
#include "shared/text/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

/* Columns of n bytes of UTF-8. */
static int columns_of(const char *text, int n)
{
    int columns = 0;

    for (int i = 0; i < n; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* From column `at`, later lines from `indent` on. */
static void put(FILE *f, const char *text, int at, int indent, int width)
{
    bool first = true; /* of its line */

    while (*text) {
        int bytes = (int)strcspn(text, " "), word = columns_of(text, bytes);
        if (!first && at + 1 + word > width) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
            first = true;
        }
        fprintf(f, "%s%.*s", first ? "" : " ", bytes, text);
        at += word + !first;
        first = false;
        text += bytes + strspn(text + bytes, " ");
    }
    fputc('\n', f);
}

void lw_put_wrapped(FILE *f, const char *text, int column, int width)
{
    put(f, text, column, column, width);
}

void lw_put_paragraph(FILE *f, const char *before, const char *text)
{
    int indent = (int)strspn(before, " ") + 2;

    put(f, text, fprintf(f, "%s", before), indent, LW_TEXT_COLUMNS);
}

void lw_printf_paragraph(FILE *f, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lw_put_paragraph(f, "", text);
}
