/* Text tables and CSV from the same cells. */
#include "shared/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "shared/arena.h"

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
    char text[512];
    va_list ap;

    if (!t || t->failed)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = lw_arena_strdup(&t->arena, text);
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

static void put_row(const struct lw_table *t, FILE *f, int indent, const int *width,
                    const char *(*cell)(const struct lw_table *, int64_t), int64_t first)
{
    fprintf(f, "%*s", indent, "");
    for (int c = 0; c < t->n_columns; c++) {
        const char *s = cell(t, first + c);
        int pad = width[c] - shown_width(s);
        bool last = c + 1 == t->n_columns, right = t->titles[c][0] == '>';
        fprintf(f, "%*s%s%*s%s", right ? pad : 0, "", s, right || last ? 0 : pad, "",
                last ? "\n" : "  ");
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

enum lw_status lw_table_print(const struct lw_table *t, FILE *f, int indent, struct lw_err *err)
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

static void put_csv(FILE *f, const char *s)
{
    if (!strpbrk(s, ",\"\n")) {
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
        put_csv(f, title(t, c));
        fputc(c + 1 == t->n_columns ? '\n' : ',', f);
    }
    for (int64_t i = 0; i < t->n; i++) {
        put_csv(f, t->cells[i]);
        fputc((i + 1) % t->n_columns == 0 ? '\n' : ',', f);
    }
    return LW_OK;
}

void lw_table_free(struct lw_table *t)
{
    if (!t)
        return;
    lw_arena_free(&t->arena);
    lw_free(t->cells);
    lw_free(t);
}
