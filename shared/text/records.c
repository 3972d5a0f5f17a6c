/* Rows of structs as text, JSON and CSV, by a table of their members. */
#include "shared/text/records.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/numbers/largest.h"
#include "shared/text/table.h"

enum { MAX_COLUMNS = 64 };

static int64_t number_of(const struct lw_column *x, const void *field)
{
    if (x->kind == LW_COLUMN_INT32 || x->kind == LW_COLUMN_KNOWN)
        return *(const int32_t *)field;
    return *(const int64_t *)field;
}

static const char *text_of(const struct lw_column *x, const void *field)
{
    int value;

    if (x->kind == LW_COLUMN_CHARS)
        return field;
    if (x->kind == LW_COLUMN_TEXT || x->kind == LW_COLUMN_STRING)
        return *(const char *const *)field;
    memcpy(&value, field, sizeof value);
    return x->word(value);
}

static bool is_text(const struct lw_column *x)
{
    return x->kind == LW_COLUMN_TEXT || x->kind == LW_COLUMN_CHARS ||
           x->kind == LW_COLUMN_WORD || x->kind == LW_COLUMN_STRING;
}

static bool is_time(const struct lw_column *x)
{
    return x->kind == LW_COLUMN_PS || x->kind == LW_COLUMN_MS ||
           x->kind == LW_COLUMN_CHANGE_MS;
}

static bool is_flag(const struct lw_column *x)
{
    return x->kind == LW_COLUMN_FLAG || x->kind == LW_COLUMN_KNOWN;
}

static bool is_on(const struct lw_column *x, const void *field)
{
    return x->kind == LW_COLUMN_FLAG ? *(const bool *)field : number_of(x, field) != 0;
}

static bool is_real(const struct lw_column *x)
{
    return x->kind == LW_COLUMN_REAL || x->kind == LW_COLUMN_EXACT;
}

static bool is_lacking(const struct lw_column *x, const void *field)
{
    if (is_text(x)) {
        const char *text = text_of(x, field);
        return !text || (!*text && x->kind != LW_COLUMN_STRING);
    }
    if (x->kind == LW_COLUMN_CHANGE_PCT || x->kind == LW_COLUMN_DOUBLE)
        return isnan(*(const double *)field);
    if (x->kind == LW_COLUMN_MS || x->kind == LW_COLUMN_NS || x->kind == LW_COLUMN_KNOWN)
        return number_of(x, field) == -1;
    if (x->kind == LW_COLUMN_CHANGE_MS)
        return number_of(x, field) == INT64_MIN;
    if (!x->lacking || x->kind == LW_COLUMN_FLAG)
        return false;
    return is_real(x) ? !(*(const double *)field >= 0) : number_of(x, field) < 0;
}

static void json_member(struct lw_jsonout *o, const struct lw_column *x, const void *field)
{
    if (is_lacking(x, field))
        lw_jsonout_null(o, x->key);
    else if (is_text(x))
        lw_jsonout_string(o, x->key, text_of(x, field));
    else if (is_flag(x))
        lw_jsonout_bool(o, x->key, is_on(x, field));
    else if (x->kind == LW_COLUMN_DOUBLE || x->kind == LW_COLUMN_EXACT)
        lw_jsonout_double(o, x->key, *(const double *)field);
    else if (x->kind == LW_COLUMN_REAL || x->kind == LW_COLUMN_CHANGE_PCT)
        LW_JSON(o,
                x->key,
                lw_decimals(*(const double *)field, x->kind == LW_COLUMN_REAL ? x->digits : 3));
    else if (is_time(x))
        LW_JSON(o, x->key, LW_PS(number_of(x, field)));
    else
        lw_jsonout_int(o, x->key, number_of(x, field));
}

void lw_record_json(struct lw_jsonout *o, const struct lw_column *columns, int n_columns,
                    const void *row)
{
    for (int i = 0; i < n_columns; i++)
        if (columns[i].key)
            json_member(o, &columns[i], (const char *)row + columns[i].at);
}

static const char *row_of(const struct lw_records *r, int64_t i)
{
    return r->make ? r->make(r->from, i) : (const char *)r->rows + (size_t)i * r->size;
}

void lw_records_json(struct lw_jsonout *o, const struct lw_records *r)
{
    lw_jsonout_array(o, r->key);
    for (int64_t i = 0; i < r->n; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_record_json(o, r->columns, r->n_columns, row_of(r, i));
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void real_cell(struct lw_table *t, const struct lw_column *x, double value, bool csv)
{
    if (x->kind == LW_COLUMN_DOUBLE)
        lw_table_cell(t, "%g", value);
    else if (is_real(x) || csv)
        lw_table_cell(t, "%.*f", is_real(x) ? x->digits : 3, value);
    else
        lw_table_cell(t, "%+.1f", value);
}

static void table_cell(struct lw_table *t, const struct lw_column *x, const void *field, bool csv)
{
    char buf[32];

    if (is_lacking(x, field))
        lw_table_cell(t, "%s", csv || !x->lacking ? "" : x->lacking);
    else if (is_text(x))
        lw_table_cell(t, "%.*s", csv || x->digits == 0 ? INT_MAX : x->digits, text_of(x, field));
    else if (is_flag(x))
        lw_table_cell(t, "%s", is_on(x, field) ? "yes" : "no");
    else if (is_real(x) || x->kind == LW_COLUMN_DOUBLE ||
             x->kind == LW_COLUMN_CHANGE_PCT)
        real_cell(t, x, *(const double *)field, csv);
    else if (is_time(x) && csv)
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(number_of(x, field)));
    else if (x->kind == LW_COLUMN_PS)
        lw_table_cell(t, "%s", lw_format_ps(buf, number_of(x, field)));
    else if (x->kind == LW_COLUMN_NS && !csv)
        lw_table_cell(t, "%s", lw_format_ns(buf, number_of(x, field)));
    else if (is_time(x))
        lw_table_cell(t, x->kind == LW_COLUMN_CHANGE_MS ? "%+.3f" : "%.3f",
                      (double)number_of(x, field) / (double)LW_PS_PER_MS);
    else if (x->kind == LW_COLUMN_BYTES && !csv)
        lw_table_cell(t, "%s", lw_format_bytes(buf, number_of(x, field)));
    else
        lw_table_cell(t, "%lld", (long long)number_of(x, field));
}

static bool is_column(const struct lw_column *x, bool csv)
{
    return (csv ? x->key : x->title) != NULL;
}

/* titles[MAX_COLUMNS] must outlive the table. */
static struct lw_table *new_table(const struct lw_records *r, bool csv, const char **titles)
{
    int n = 0;

    assert(r->n_columns <= MAX_COLUMNS);
    for (int k = 0; k < r->n_columns; k++)
        if (is_column(&r->columns[k], csv))
            titles[n++] = csv ? r->columns[k].key : r->columns[k].title;
    return lw_table_new(n, titles);
}

static void add_row(struct lw_table *t, const struct lw_records *r, int64_t i, bool csv)
{
    const char *row = row_of(r, i);

    for (int k = 0; k < r->n_columns; k++)
        if (is_column(&r->columns[k], csv))
            table_cell(t, &r->columns[k], row + r->columns[k].at, csv);
}

static int64_t size_of(const struct lw_records *r, int64_t i)
{
    return *(const int64_t *)(const void *)(row_of(r, i) + r->largest);
}

/* Those that `most` and `largest` choose. */
static enum lw_status add_largest(struct lw_table *t, const struct lw_records *r,
                                  struct lw_err *err)
{
    int64_t *sizes;

    LW_NEW(sizes, r->n, err);
    for (int64_t i = 0; i < r->n; i++)
        sizes[i] = size_of(r, i);
    struct lw_largest l = lw_largest_of(sizes, r->n, r->most);
    lw_free(sizes);
    for (int64_t i = 0; i < r->n; i++)
        if (lw_largest_takes(&l, size_of(r, i)))
            add_row(t, r, i, false);
    return LW_OK;
}

static enum lw_status add_rows(struct lw_table *t, const struct lw_records *r, bool csv,
                               struct lw_err *err)
{
    if (!t)
        return lw_fail_nomem(err);
    if (!csv && r->most > 0 && r->n > r->most)
        return add_largest(t, r, err);
    for (int64_t i = 0; i < r->n; i++)
        add_row(t, r, i, csv);
    return LW_OK;
}

static enum lw_status print_table(const struct lw_records *r, FILE *f, int indent,
                                  struct lw_err *err)
{
    const char *titles[MAX_COLUMNS];
    struct lw_table *t = new_table(r, indent == LW_TABLE_CSV, titles);
    enum lw_status s = add_rows(t, r, indent == LW_TABLE_CSV, err);

    if (s == LW_OK)
        return lw_table_end(t, f, indent, err);
    lw_table_free(t);
    return s;
}

enum lw_status lw_records_text(const struct lw_records *r, FILE *f, int indent, struct lw_err *err)
{
    return print_table(r, f, indent, err);
}

enum lw_status lw_records_csv(const struct lw_records *r, FILE *f, struct lw_err *err)
{
    return print_table(r, f, LW_TABLE_CSV, err);
}

enum lw_status lw_records_print(const struct lw_records *r, enum lw_format format, FILE *f,
                                struct lw_err *err)
{
    struct lw_jsonout o = {.file = f};

    if (format == LW_FORMAT_CSV)
        return lw_records_csv(r, f, err);
    if (format == LW_FORMAT_TEXT)
        return lw_records_text(r, f, 0, err);
    lw_jsonout_object(&o, NULL);
    lw_records_json(&o, r);
    lw_jsonout_end(&o);
    return LW_OK;
}
