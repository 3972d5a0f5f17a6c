/* Published tables as CSV (RFC 4180): a cell in double quotes may hold commas, and "" for a
 * quote. A quoted cell ends on its line. Numbers are decimal, without exponent words, NaN or
 * infinity. */
#include "shared/io/csv_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/numbers/units.h"

/* --- lines and cells -------------------------------------------------------------------------- */

/* The next line as [*at, *end), without its line break; false after the last. */
static bool next_line(const char **from, const char *limit, const char **at, const char **end)
{
    if (*from >= limit)
        return false;
    const char *stop = memchr(*from, '\n', (size_t)(limit - *from));
    *at = *from;
    *end = stop ? stop : limit;
    *from = stop ? stop + 1 : limit;
    if (*end > *at && (*end)[-1] == '\r')
        --*end;
    return true;
}

/* After the byte order mark that spreadsheets write. */
static const char *begin_of(const struct lw_input *in)
{
    static const char mark[] = "\xef\xbb\xbf";

    return in->text + (in->len >= 3 && memcmp(in->text, mark, 3) == 0 ? 3 : 0);
}

/* Where the cell at `at` ends: at a comma outside quotes, or at the line's end. */
static const char *cell_end(const char *at, const char *end)
{
    bool quoted = false;

    for (; at < end && (quoted || *at != ','); at++)
        quoted ^= *at == '"';
    return at;
}

/* The next cell of a line, trimmed, still with its quotes. */
static bool next_cell(const char **from, const char *end, const char **cell, size_t *len)
{
    if (*from > end)
        return false;
    const char *at = *from, *last = cell_end(at, end);
    *from = last + 1;
    while (at < last && (*at == ' ' || *at == '\t'))
        at++;
    while (last > at && (last[-1] == ' ' || last[-1] == '\t'))
        last--;
    *cell = at;
    *len = (size_t)(last - at);
    return true;
}

/* A quoted cell without its quotes, in place. false: text around the quotes, or none that
 * closes. */
static bool unquote(char *cell)
{
    size_t n = strlen(cell), to = 0;

    if (!strchr(cell, '"'))
        return true;
    if (n < 2 || cell[0] != '"' || cell[n - 1] != '"')
        return false;
    for (size_t i = 1; i < n - 1; i++) {
        if (cell[i] == '"' && (i + 2 >= n || cell[++i] != '"'))
            return false;
        cell[to++] = cell[i];
    }
    cell[to] = '\0';
    return true;
}

static bool blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at == end;
}

static bool line_has(const char *at, const char *end, const char *title, size_t title_len)
{
    const char *cell;
    size_t len;

    while (next_cell(&at, end, &cell, &len)) {
        if (len >= 2 && cell[0] == '"' && cell[len - 1] == '"') {
            cell++;
            len -= 2;
        }
        if (len == title_len && memcmp(cell, title, len) == 0)
            return true;
    }
    return false;
}

bool lw_rows_have(const struct lw_input *in, const char *titles)
{
    const char *from = begin_of(in), *at, *end;

    if (!next_line(&from, in->text + in->len, &at, &end))
        return false;
    while (*titles) {
        size_t n = strcspn(titles, " ");
        if (n > 0 && !line_has(at, end, titles, n))
            return false;
        titles += n + (titles[n] == ' ');
    }
    return true;
}

static int32_t count_cells(const char *at, const char *end)
{
    int32_t n = 1;

    while ((at = cell_end(at, end)) < end) {
        at++;
        n++;
    }
    return n;
}

static enum lw_status take_cells(struct lw_rows *r, const char *at, const char *end, int32_t line,
                                 const char **to, struct lw_err *err)
{
    const char *cell;
    size_t len;

    for (int32_t k = 0; next_cell(&at, end, &cell, &len); k++) {
        char *own = lw_arena_strndup(&r->arena, cell, len);
        if (!own)
            return lw_fail_nomem(err);
        if (!unquote(own))
            return lw_fail_at(err, LW_EFORMAT, r->file, line,
                              "cell %d: found %.*s, expected quotes around the whole cell and \"\" "
                              "for a quote inside", k + 1, len < 40 ? (int)len : 40, cell);
        to[k] = own;
    }
    return LW_OK;
}

static enum lw_status take_titles(struct lw_rows *r, const char *at, const char *end,
                                  struct lw_err *err)
{
    r->n_columns = count_cells(at, end);
    LW_TAKE(&r->arena, r->titles, r->n_columns, err);
    LW_TRY(take_cells(r, at, end, 1, r->titles, err));
    for (int32_t k = 0; k < r->n_columns; k++)
        if (lw_rows_column(r, r->titles[k]) != k)
            return lw_fail_at(err, LW_EFORMAT, r->file, 1, "the column '%s' is given twice",
                              r->titles[k]);
    return LW_OK;
}

static enum lw_status take_row(struct lw_rows *r, const char *at, const char *end, int32_t line,
                               struct lw_err *err)
{
    if (count_cells(at, end) != r->n_columns)
        return lw_fail_at(err, LW_EFORMAT, r->file, line, "found %d cells, expected %d",
                          count_cells(at, end), r->n_columns);
    LW_TRY(take_cells(r, at, end, line, &r->cells[(int64_t)r->n_rows * r->n_columns], err));
    r->line[r->n_rows++] = line;
    return LW_OK;
}

static enum lw_status take_bad(struct lw_rows *r, int32_t line, const char *text,
                               struct lw_err *err)
{
    r->bad_line[r->n_bad] = line;
    r->bad[r->n_bad] = lw_arena_strdup(&r->arena, text);
    return r->bad[r->n_bad++] ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status take_rows(struct lw_rows *r, const char *from, const char *limit, bool good,
                                struct lw_err *err)
{
    const char *scan = from, *at, *end;
    int32_t line = 1, n = 0;

    while (next_line(&scan, limit, &at, &end))
        n += !blank(at, end);
    LW_TAKE(&r->arena, r->line, n, err);
    LW_TAKE(&r->arena, r->cells, (int64_t)n * r->n_columns, err);
    if (good) {
        LW_TAKE(&r->arena, r->bad_line, n, err);
        LW_TAKE(&r->arena, r->bad, n, err);
    }
    while (next_line(&from, limit, &at, &end)) {
        struct lw_err why = {0};
        line++;
        enum lw_status s = blank(at, end) ? LW_OK : take_row(r, at, end, line, &why);
        if (s == LW_OK)
            continue;
        if (!good || s != LW_EFORMAT) {
            lw_fail(err, s, "%s", why.msg);
            return s;
        }
        LW_TRY(take_bad(r, line, why.msg, err));
    }
    if (r->n_rows == 0 && r->n_bad == 0)
        return lw_fail_at(err, LW_EFORMAT, r->file, 1, "found titles and no row");
    return LW_OK;
}

static enum lw_status read_rows(const struct lw_input *in, bool good, struct lw_rows *out,
                                struct lw_err *err)
{
    struct lw_rows r = {.file = in->name};
    const char *from = begin_of(in), *limit = in->text + in->len, *at, *end;
    enum lw_status s = LW_OK;

    if (!next_line(&from, limit, &at, &end))
        return lw_fail(err, LW_EFORMAT, "%s: an empty file", in->name);
    r.file = lw_arena_strdup(&r.arena, in->name);
    s = r.file ? take_titles(&r, at, end, err) : lw_fail_nomem(err);
    if (s == LW_OK)
        s = take_rows(&r, from, limit, good, err);
    if (s == LW_OK)
        *out = r;
    else
        lw_rows_free(&r);
    return s;
}

enum lw_status lw_rows_read(const struct lw_input *in, struct lw_rows *out, struct lw_err *err)
{
    return read_rows(in, false, out, err);
}

enum lw_status lw_rows_read_good(const struct lw_input *in, struct lw_rows *out,
                                 struct lw_err *err)
{
    return read_rows(in, true, out, err);
}

LW_FREE_BY_ARENA(lw_rows_free, struct lw_rows)

/* --- values ----------------------------------------------------------------------------------- */

int32_t lw_rows_column(const struct lw_rows *r, const char *title)
{
    for (int32_t k = 0; k < r->n_columns; k++)
        if (strcmp(r->titles[k], title) == 0)
            return k;
    return -1;
}

const char *lw_rows_cell(const struct lw_rows *r, int32_t row, const char *title)
{
    int32_t k = lw_rows_column(r, title);

    return k < 0 ? "" : r->cells[(int64_t)row * r->n_columns + k];
}

enum lw_status lw_rows_int(const struct lw_rows *r, int32_t row, const char *title, int64_t least,
                           int64_t most, int64_t *v, struct lw_err *err)
{
    const char *text = lw_rows_cell(r, row, title);
    int64_t found;

    if (lw_parse_int(text, least, most, &found, NULL) != LW_OK)
        return lw_fail_at(err, LW_EFORMAT, r->file, r->line[row],
                          "%s: found '%s', allowed: whole numbers from %" PRId64 " to %" PRId64,
                          title, text, least, most);
    *v = found;
    return LW_OK;
}

enum lw_status lw_rows_real(const struct lw_rows *r, int32_t row, const char *title, double least,
                            double *v, struct lw_err *err)
{
    const char *text = lw_rows_cell(r, row, title);
    char *end = NULL;
    bool plain = *text && strspn(text, "0123456789.-") == strlen(text);
    double found = plain ? strtod(text, &end) : 0;

    if (!plain || *end || !isfinite(found) || found < least)
        return lw_fail_at(err, LW_EFORMAT, r->file, r->line[row],
                          "%s: found '%s', allowed: decimal numbers of %g or more", title, text,
                          least);
    *v = found;
    return LW_OK;
}

enum lw_status lw_rows_printed(const struct lw_rows *r, int32_t row, const char *title, double *v,
                               double *unit, struct lw_err *err)
{
    LW_TRY(lw_rows_real(r, row, title, 0, v, err));
    const char *point = strchr(lw_rows_cell(r, row, title), '.');

    *unit = 1;
    for (size_t n = point ? strlen(point + 1) : 0; n > 0; n--)
        *unit /= 10;
    return LW_OK;
}
