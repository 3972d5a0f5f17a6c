/* Lines of prose that fit. */
#include "shared/text/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int lw_text_width(const char *text, int n)
{
    int columns = 0;

    for (int i = 0; i < n && text[i]; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* From column `at`, later lines from `indent` on. */
static void put(FILE *f, const char *text, int at, int indent, int width)
{
    for (int blanks = 0; *text; blanks = (int)strspn(text, " "), text += blanks) {
        int bytes = (int)strcspn(text, " "), word = lw_text_width(text, bytes);
        if (blanks > 0 && at + blanks + word > width) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
            blanks = 0;
        }
        fprintf(f, "%*s%.*s", blanks, "", bytes, text);
        at += blanks + word;
        text += bytes;
    }
    fputc('\n', f);
}

int lw_columns_of(FILE *f)
{
    const char *said = getenv("COLUMNS");
    struct winsize size;
    int fd = f == stdout ? STDOUT_FILENO : fileno(f);
    long n = said ? strtol(said, NULL, 10) : 0;

    if (n > 0 && n < 10000)
        return (int)n;
    if (fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return LW_TEXT_COLUMNS;
}

void lw_put_wrapped(FILE *f, const char *text, int column, int width)
{
    int room = lw_columns_of(f);

    put(f, text, column, column, width < room ? width : room);
}

void lw_put_paragraph(FILE *f, const char *before, const char *text)
{
    int indent = (int)strspn(before, " ") + 2, room = lw_columns_of(f);
    char *whole = NULL;
    size_t n = 0;
    FILE *m = open_memstream(&whole, &n), *to = m ? m : f;

    room = room < LW_TEXT_COLUMNS ? room : LW_TEXT_COLUMNS;
    put(to, text, fprintf(to, "%s", before), indent, room);
    if (m && fclose(m) == 0)
        fwrite(whole, 1, n, f);
    free(whole);
}

/* Empty lines around the text, and blanks before it, are kept. */
static void put_printed(FILE *f, char *text)
{
    size_t empty = strspn(text, "\n"), blanks = strspn(text + empty, " ");
    char *begin = text + empty + blanks, *end = begin + strlen(begin);
    int after = 0;

    for (size_t i = 0; i < empty; i++)
        fputc('\n', f);
    for (; end > begin && end[-1] == '\n'; after++)
        *--end = '\0';
    lw_put_paragraph(f, &"       "[7 - (blanks < 7 ? blanks : 7)], begin);
    for (; after > 0; after--)
        fputc('\n', f);
}

void lw_printf_paragraph(FILE *f, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put_printed(f, text);
}

FILE *lw_paragraph_open(struct lw_paragraph *p, FILE *out, const char *before)
{
    *p = (struct lw_paragraph){.out = out, .before = before};
    p->f = open_memstream(&p->text, &p->size);
    if (!p->f && before)
        fputs(before, out);
    return p->f ? p->f : out;
}

enum lw_status lw_paragraph_close(struct lw_paragraph *p, struct lw_err *err)
{
    bool whole = !p->f || fclose(p->f) == 0;

    if (!p->f)
        fputc('\n', p->out);
    else if (whole && p->before)
        lw_put_paragraph(p->out, p->before, p->text);
    else if (whole)
        put_printed(p->out, p->text);
    free(p->text);
    return whole ? LW_OK : lw_fail_nomem(err);
}
