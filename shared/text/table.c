/* Text tables and CSV from the same cells. */
#include "shared/text/table.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/shown_text.h"
#include "shared/numbers/units.h"
#include "shared/text/wrap.h"

/* A column that is cut keeps at least this much, in a narrow table and in a wide one; tables are
 * not split into bands in less room than the last. */
enum { NARROWEST = 8, NARROWEST_OF_WIDE = 12, WIDE = 60, LEAST_SPLIT = 40 };

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

/* As much of a text as fits, its last place taken by an ellipsis where it is cut. */
static void put_cut(FILE *f, const char *s, int width)
{
    int n = 0;

    if (lw_text_width(s, INT_MAX) <= width) {
        fputs(s, f);
        return;
    }
    for (; *s && (n < width - 1 || ((unsigned char)*s & 0xc0) == 0x80); s++) {
        n += ((unsigned char)s[1] & 0xc0) != 0x80;
        fputc(*s, f);
    }
    fputs("\xe2\x80\xa6", f);
}

/* Columns that are printed beside each other: column 0, then [first, end). */
struct band {
    int first, end;
};

static void put_cell(const struct lw_table *t, FILE *f, int c, const char *s, int width, bool last)
{
    int pad = width > lw_text_width(s, INT_MAX) ? width - lw_text_width(s, INT_MAX) : 0;
    bool right = t->titles[c][0] == '>';

    fprintf(f, "%*s", right ? pad : 0, "");
    put_cut(f, s, width);
    fprintf(f, "%*s%s", right || last ? 0 : pad, "", last ? "\n" : "  ");
}

/* Line k of a title that is broken at blanks into lines of that width; "" after its last. */
static const char *title_line(const char *s, int width, int k, char buf[128])
{
    for (;;) {
        int n = 0, words = 0;
        while (s[n]) {
            int next = n + (s[n] == ' '), word = (int)strcspn(s + next, " ");
            if (words > 0 && next + word > width)
                break;
            n = next + word;
            words++;
        }
        if (k-- == 0 || !s[n]) {
            snprintf(buf, 128, "%.*s", k < 0 ? n : 0, s);
            return buf;
        }
        s += n + 1;
    }
}

static int n_title_lines(const char *s, int width)
{
    char buf[128];
    int n = 1;

    while (*title_line(s, width, n, buf))
        n++;
    return n;
}

static int longest_line(const char *s, int width)
{
    char buf[128];
    int longest = 0;

    for (int k = n_title_lines(s, width) - 1; k >= 0; k--) {
        int n = lw_text_width(title_line(s, width, k, buf), INT_MAX);
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Titles stand on the rule: a shorter one begins in a later line. */
static void put_titles(const struct lw_table *t, FILE *f, int indent, const int *width,
                       struct band b)
{
    int lines = n_title_lines(title(t, 0), width[0]);
    char buf[128];

    for (int c = b.first; c < b.end; c++) {
        int n = n_title_lines(title(t, c), width[c]);
        lines = n > lines ? n : lines;
    }
    for (int k = 0; k < lines; k++) {
        int last = 0; /* of this line */
        for (int c = b.first; c < b.end; c++)
            if (n_title_lines(title(t, c), width[c]) >= lines - k)
                last = c;
        fprintf(f, "%*s", indent, "");
        for (int c = 0; c <= last; c = c ? c + 1 : b.first) {
            int line = k - lines + n_title_lines(title(t, c), width[c]);
            put_cell(t, f, c, line < 0 ? "" : title_line(title(t, c), width[c], line, buf),
                     width[c], c == last);
        }
    }
}

static void put_band(const struct lw_table *t, FILE *f, int indent, const int *width,
                     struct band b)
{
    put_titles(t, f, indent, width, b);
    fprintf(f, "%*s", indent, "");
    for (int c = 0; c < b.end; c = c ? c + 1 : b.first) {
        for (int i = 0; i < width[c]; i++)
            fputc('-', f);
        fputs(c + 1 == b.end ? "\n" : "  ", f);
    }
    for (int64_t r = 0; r < t->n / t->n_columns; r++) {
        fprintf(f, "%*s", indent, "");
        for (int c = 0; c < b.end; c = c ? c + 1 : b.first)
            put_cell(t, f, c, t->cells[r * t->n_columns + c], width[c], c + 1 == b.end);
    }
}

/* Take from the widest column of the band that is wider than its least until the band fits; false:
 * it does not. */
static bool shrink(struct band b, int room, const int *least, int *width)
{
    int whole = -2;

    for (int c = 0; c < b.end; c = c ? c + 1 : b.first)
        whole += width[c] + 2;
    for (; whole > room; whole--) {
        int widest = -1;
        for (int c = 0; c < b.end; c = c ? c + 1 : b.first)
            if (width[c] > least[c] && (widest < 0 || width[c] > width[widest]))
                widest = c;
        if (widest < 0)
            return false;
        width[widest]--;
    }
    return true;
}

/* What columns need: titles on one line, texts cut, every title broken, both. */
struct widths {
    int *whole, *cut, *broken, *least;
};

/* The width of a band's columns: texts are cut, or, where that is not enough, titles are broken
 * before. */
static void fit(const struct lw_table *t, struct band b, int room, struct widths w, int *width)
{
    memcpy(width, w.whole, (size_t)t->n_columns * sizeof *width);
    if (shrink(b, room, w.cut, width))
        return;
    memcpy(width, w.whole, (size_t)t->n_columns * sizeof *width);
    shrink(b, room, w.broken, width);
    for (int c = 0; c < t->n_columns; c++) {
        int line = longest_line(title(t, c), width[c]);
        width[c] = line > w.broken[c] ? line : w.broken[c];
    }
    shrink(b, room, w.least, width);
}

/* Bands of columns that fit; all in one where there is hardly room for two. */
static void put_bands(const struct lw_table *t, FILE *f, int indent, int room, struct widths w,
                      int *width)
{
    struct band b = {1, 1};

    do {
        int least = w.least[0];
        for (b.end = b.first; b.end < t->n_columns; b.end++) {
            least += 2 + w.least[b.end];
            if (room >= LEAST_SPLIT && least > room && b.end > b.first)
                break;
        }
        if (b.first > 1)
            fputc('\n', f);
        fit(t, b, room, w, width);
        put_band(t, f, indent, width, b);
        b.first = b.end;
    } while (b.end < t->n_columns);
}

enum lw_status lw_table_print(const struct lw_table *t, FILE *f, int indent, struct lw_err *err)
{
    return lw_table_print_within(t, f, indent, lw_columns_of(f), err);
}

enum lw_status lw_table_print_within(const struct lw_table *t, FILE *f, int indent, int n_columns,
                                     struct lw_err *err)
{
    if (!t || t->failed)
        return lw_fail_nomem(err);
    int n = t->n_columns, *width = lw_calloc(5 * (size_t)n, sizeof *width);
    struct widths w = {width + n, width + 2 * n, width + 3 * n, width + 4 * n};
    int room = n_columns > 0 ? n_columns - indent : INT_MAX;
    int narrowest = room < WIDE ? NARROWEST : NARROWEST_OF_WIDE;
    if (!width)
        return lw_fail_nomem(err);
    for (int c = 0; c < n; c++) {
        int whole = lw_text_width(title(t, c), INT_MAX);
        w.broken[c] = longest_line(title(t, c), 1);
        for (int64_t i = c; i < t->n; i += n) {
            int cell = lw_text_width(t->cells[i], INT_MAX);
            w.broken[c] = cell > w.broken[c] ? cell : w.broken[c];
        }
        w.whole[c] = whole > w.broken[c] ? whole : w.broken[c];
        bool text = t->titles[c][0] != '>';
        w.cut[c] = text && w.whole[c] > narrowest ? narrowest : w.whole[c];
        w.least[c] = text && w.broken[c] > narrowest ? narrowest : w.broken[c];
    }
    put_bands(t, f, indent, room, w, width);
    lw_free(width);
    return LW_OK;
}

/* What a spreadsheet would compute. A number with a sign is none; nor is a sign alone. */
static bool is_formula(const char *s)
{
    char *end;

    if (!*s || !strchr("=+-@\t\r", *s) || !s[1])
        return false;
    strtod(s, &end);
    return *end != '\0' || end == s;
}

void lw_csv_text(FILE *f, const char *s)
{
    bool formula = is_formula(s);

    if (!formula && !strpbrk(s, ",\"\r\n")) {
        fputs(s, f);
        return;
    }
    fputs(formula ? "\"'" : "\"", f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static enum lw_status print_csv(const struct lw_table *t, FILE *f, struct lw_err *err)
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

void lw_table_text(struct lw_table *t, const char *text)
{
    lw_table_cell(t, "%s", text ? text : "-");
}

void lw_table_int(struct lw_table *t, int64_t value)
{
    lw_table_cell(t, "%lld", (long long)value);
}

void lw_table_decimals(struct lw_table *t, struct lw_decimals value)
{
    lw_table_cell(t, "%.*f", value.digits, value.value);
}

void lw_table_maybe(struct lw_table *t, struct lw_maybe value)
{
    lw_table_cell(t, value.known ? "%lld" : "", (long long)value.value);
}

void lw_table_quantity(struct lw_table *t, struct lw_quantity x)
{
    char text[32];

    if (x.as == LW_SHOW_PS || x.as == LW_SHOW_NS)
        lw_table_text(t, x.as == LW_SHOW_PS ? lw_format_ps(text, x.value)
                                            : lw_format_ns(text, x.value));
    else if (x.value < 0)
        lw_table_text(t, NULL);
    else if (x.as == LW_SHOW_BYTES)
        lw_table_text(t, lw_format_bytes(text, x.value));
    else if (x.as == LW_SHOW_MS)
        lw_table_cell(t, "%.3f", (double)x.value / (double)LW_PS_PER_MS);
    else
        lw_table_int(t, x.value);
}

enum lw_status lw_table_end(struct lw_table *t, FILE *f, int indent, struct lw_err *err)
{
    enum lw_status status = indent == LW_TABLE_CSV ? print_csv(t, f, err)
                                                   : lw_table_print(t, f, indent, err);

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
