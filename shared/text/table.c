/* Text tables and CSV from the same cells. */
#include "shared/text/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/base/shown_text.h"

/* A column that is cut keeps at least this much, in a narrow table and in a wide one; the width
 * of a table outside a terminal. */
enum { NARROWEST = 8, NARROWEST_OF_WIDE = 12, WIDE = 60, PIPED = 100 };

struct lw_table {
    struct lw_arena arena;
    int n_columns;
    const char *const *titles;
    char **cells; /* row after row */
    int64_t n, capacity;
    bool failed;
};

struct lw_table *lw_table_new(int n_columns, const char *const *titles)
{
    struct lw_table *t = lw_calloc(1, sizeof *t);

    if (t) {
        t->n_columns = n_columns;
        t->titles = titles;
    }
    return t;
}

void lw_table_cell(struct lw_table *t, const char *fmt, ...)
{
    char text[512], shown[512];
    va_list ap;

    if (!t || t->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = lw_arena_strdup(&t->arena, lw_shown_text(shown, sizeof shown, text));
    if (!copy || lw_reserve(&t->cells, &t->capacity, t->n + 1, sizeof *t->cells) != 0) {
        t->failed = true;
        return;
    }
    t->cells[t->n++] = copy;
}

static const char *title(const struct lw_table *t, int c)
{
    return t->titles[c] + (t->titles[c][0] == '>');
}

/* Columns on a terminal: bytes of UTF-8 that begin a character. */
static int shown_width(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* As much of a text as fits, its last place taken by an ellipsis where it is cut. */
static void put_cut(FILE *f, const char *s, int width)
{
    int n = 0;

    if (shown_width(s) <= width) {
        fputs(s, f);
        return;
    }
    for (; *s && (n < width - 1 || ((unsigned char)*s & 0xc0) == 0x80); s++) {
        n += ((unsigned char)s[1] & 0xc0) != 0x80;
        fputc(*s, f);
    }
    fputs("\xe2\x80\xa6", f);
}

static void put_row(const struct lw_table *t, FILE *f, int indent, const int *width,
                    const char *(*cell)(const struct lw_table *, int64_t), int64_t first)
{
    fprintf(f, "%*s", indent, "");
    for (int c = 0; c < t->n_columns; c++) {
        const char *s = cell(t, first + c);
        int pad = width[c] > shown_width(s) ? width[c] - shown_width(s) : 0;
        bool last = c + 1 == t->n_columns, right = t->titles[c][0] == '>';
        fprintf(f, "%*s", right ? pad : 0, "");
        put_cut(f, s, width[c]);
        fprintf(f, "%*s%s", right || last ? 0 : pad, "", last ? "\n" : "  ");
    }
}

static const char *title_cell(const struct lw_table *t, int64_t i)
{
    return title(t, (int)i);
}

static const char *body_cell(const struct lw_table *t, int64_t i)
{
    return t->cells[i];
}

/* Columns of the terminal that f is; of a pipe or a file PIPED, so that rows stay readable where
 * they end up. $COLUMNS, where it is exported, wins over both. */
static int width_of(FILE *f)
{
    const char *said = getenv("COLUMNS");
    struct winsize size;
    int fd = f == stdout ? STDOUT_FILENO : fileno(f);
    long n = said ? strtol(said, NULL, 10) : 0;

    if (n > 0 && n < 10000)
        return (int)n;
    if (fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return PIPED;
}

/* Take from the widest text column until the table fits or no text is left to cut. */
static void fit(const struct lw_table *t, int room, int *width)
{
    int whole = 2 * (t->n_columns - 1), narrowest = room < WIDE ? NARROWEST : NARROWEST_OF_WIDE;

    for (int c = 0; c < t->n_columns; c++)
        whole += width[c];
    for (; whole > room; whole--) {
        int widest = -1;
        for (int c = 0; c < t->n_columns; c++)
            if (t->titles[c][0] != '>' && width[c] > narrowest &&
                (widest < 0 || width[c] > width[widest]))
                widest = c;
        if (widest < 0)
            return;
        width[widest]--;
    }
}

enum lw_status lw_table_print(const struct lw_table *t, FILE *f, int indent, struct lw_err *err)
{
    return lw_table_print_within(t, f, indent, width_of(f), err);
}

enum lw_status lw_table_print_within(const struct lw_table *t, FILE *f, int indent, int n_columns,
                                     struct lw_err *err)
{
    if (!t || t->failed)
        return lw_fail_nomem(err);
    int *width = lw_calloc((size_t)t->n_columns, sizeof *width);
    if (!width)
        return lw_fail_nomem(err);
    int64_t n_rows = t->n / t->n_columns;
    for (int c = 0; c < t->n_columns; c++) {
        width[c] = shown_width(title(t, c));
        for (int64_t r = 0; r < n_rows; r++) {
            int w = shown_width(t->cells[r * t->n_columns + c]);
            width[c] = w > width[c] ? w : width[c];
        }
    }
    if (n_columns > 0)
        fit(t, n_columns - indent, width);
    put_row(t, f, indent, width, title_cell, 0);
    fprintf(f, "%*s", indent, "");
    for (int c = 0; c < t->n_columns; c++) {
        for (int i = 0; i < width[c]; i++)
            fputc('-', f);
        fputs(c + 1 == t->n_columns ? "\n" : "  ", f);
    }
    for (int64_t r = 0; r < n_rows; r++)
        put_row(t, f, indent, width, body_cell, r * t->n_columns);
    lw_free(width);
    return LW_OK;
}

void lw_csv_text(FILE *f, const char *s)
{
    if (!strpbrk(s, ",\"\r\n")) {
        fputs(s, f);
        return;
    }
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

enum lw_status lw_table_print_csv(const struct lw_table *t, FILE *f, struct lw_err *err)
{
    if (!t || t->failed)
        return lw_fail_nomem(err);
    for (int c = 0; c < t->n_columns; c++) {
        lw_csv_text(f, title(t, c));
        fputc(c + 1 == t->n_columns ? '\n' : ',', f);
    }
    for (int64_t i = 0; i < t->n; i++) {
        lw_csv_text(f, t->cells[i]);
        fputc((i + 1) % t->n_columns == 0 ? '\n' : ',', f);
    }
    return LW_OK;
}

void lw_table_ps(struct lw_table *t, lw_ps time)
{
    char text[32];

    lw_table_cell(t, "%s", lw_format_ps(text, time));
}

void lw_table_ns(struct lw_table *t, lw_ns time)
{
    lw_table_ps(t, lw_ns_to_ps(time));
}

enum lw_status lw_table_end(struct lw_table *t, FILE *f, int indent, struct lw_err *err)
{
    enum lw_status status = t ? lw_table_print(t, f, indent, err) : lw_fail_nomem(err);

    lw_table_free(t);
    return status;
}

void lw_table_free(struct lw_table *t)
{
    if (!t)
        return;
    lw_arena_free(&t->arena);
    lw_free(t->cells);
    lw_free(t);
}
