/* Runs of one source resemble each other: an interval is held against a source that it was not
 * made from. */
#include "analysis/alike/alike_coverage.h"

#include <math.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/median.h"

#define ALL "all"

static void finish(struct lw_alike_coverage *c, double *widths)
{
    int64_t n = c->n_known;

    c->inside_pct = c->width = NAN;
    if (n == 0)
        return;
    lw_sort(widths, n, lw_compare_double);
    c->width = round(50 * (widths[(n - 1) / 2] + widths[n / 2])) / 100;
    c->inside_pct = round(1000.0 * (double)c->n_inside / (double)n) / 10;
}

/* table NULL: of all, each run without its own table. */
static enum lw_status cover(const struct lw_alike_runs *r, const char *table,
                            struct lw_alike_coverage *out, struct lw_err *err)
{
    struct lw_alike_coverage c = {.table = table ? table : ALL};
    struct lw_alike a;
    double *widths;

    LW_NEW(widths, r->n + 1, err);
    for (int32_t i = 0; i < r->n; i++) {
        const struct lw_alike_run *x = &r->runs[i];
        if (table && strcmp(x->table, table) != 0)
            continue;
        c.n++;
        lw_alike_find(r, &x->key, x->table, &a);
        if (a.of == LW_ALIKE_OF_NONE)
            continue;
        widths[c.n_known++] = a.high / a.low;
        c.n_inside += x->judged >= a.low && x->judged <= a.high;
    }
    finish(&c, widths);
    lw_free(widths);
    *out = c;
    return LW_OK;
}

enum lw_status lw_alike_cover(const struct lw_alike_runs *r, const char *table,
                              struct lw_alike_coverage *out, struct lw_err *err)
{
    return cover(r, table, out, err);
}

/* --- output ----------------------------------------------------------------------------------- */

/* The first name after `last` in the order of letters; NULL: none. */
static const char *next_table(const struct lw_alike_runs *r, const char *last)
{
    const char *next = NULL;

    for (int32_t i = 0; i < r->n; i++) {
        const char *name = r->runs[i].table;
        if ((!last || strcmp(name, last) > 0) && (!next || strcmp(name, next) < 0))
            next = name;
    }
    return next;
}

static enum lw_status fill(const struct lw_alike_runs *r, struct lw_alike_coverage *rows,
                           int64_t *n, struct lw_err *err)
{
    for (const char *t = next_table(r, NULL); t; t = next_table(r, t))
        LW_TRY(cover(r, t, &rows[(*n)++], err));
    return cover(r, NULL, &rows[(*n)++], err);
}

enum lw_status lw_alike_print_coverage(const struct lw_alike_runs *r, enum lw_format format,
                                       FILE *f, struct lw_err *err)
{
#define AT(field) offsetof(struct lw_alike_coverage, field)
    static const struct lw_column columns[] = {
        {"table", "table", LW_COLUMN_TEXT, AT(table)},
        {"n", ">runs", LW_COLUMN_INT, AT(n)},
        {"n_with_interval", ">with an interval of other tables", LW_COLUMN_INT, AT(n_known)},
        {"n_inside", ">inside", LW_COLUMN_INT, AT(n_inside)},
        {"inside_pct", ">inside %", LW_COLUMN_DOUBLE, AT(inside_pct), .lacking = "-"},
        {"median_width", ">width p90/p10", LW_COLUMN_DOUBLE, AT(width), .lacking = "-"},
    };
#undef AT
    struct lw_alike_coverage *rows;
    int64_t n = 0;

    LW_NEW(rows, r->n + 1, err);
    enum lw_status s = fill(r, rows, &n, err);
    if (s == LW_OK)
        s = lw_records_print(&LW_RECORDS("coverage", columns, rows, n), format, f, err);
    lw_free(rows);
    return s;
}
