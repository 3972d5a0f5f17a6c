/* Rows of structs as text, JSON and CSV, by a table of their members. */
#include "shared/text/record.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "shared/text/table.h"

enum { MAX_COLUMNS = 32 };

static int64_t number_of(const struct lw_column *x, const void *field)
{
    if (x->kind == LW_COLUMN_INT32)
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
    return x->kind == LW_COLUMN_PS || x->kind == LW_COLUMN_MS || x->kind == LW_COLUMN_CHANGE_MS;
}

static bool is_lacking(const struct lw_column *x, const void *field)
{
    if (is_text(x)) {
        const char *text = text_of(x, field);
        return !text || (!*text && x->kind != LW_COLUMN_STRING);
    }
    if (x->kind == LW_COLUMN_CHANGE_PCT || x->kind == LW_COLUMN_DOUBLE)
        return isnan(*(const double *)field);
    if (x->kind == LW_COLUMN_MS)
        return number_of(x, field) == -1;
    if (!x->lacking || x->kind == LW_COLUMN_FLAG || x->kind == LW_COLUMN_CHANGE_MS)
        return false;
    return x->kind == LW_COLUMN_REAL ? !(*(const double *)field >= 0) : number_of(x, field) < 0;
}

static void json_member(struct lw_jsonout *o, const struct lw_column *x, const void *field)
{
    if (is_lacking(x, field))
        lw_jsonout_null(o, x->key);
    else if (is_text(x))
        lw_jsonout_string(o, x->key, text_of(x, field));
    else if (x->kind == LW_COLUMN_FLAG)
        lw_jsonout_bool(o, x->key, *(const bool *)field);
    else if (x->kind == LW_COLUMN_DOUBLE)
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

void lw_records_json(struct lw_jsonout *o, const struct lw_records *r)
{
    lw_jsonout_array(o, r->key);
    for (int64_t i = 0; i < r->n; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_record_json(o, r->columns, r->n_columns, (const char *)r->rows + (size_t)i * r->size);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void real_cell(struct lw_table *t, const struct lw_column *x, double value, bool csv)
{
    if (x->kind == LW_COLUMN_DOUBLE)
        lw_table_cell(t, "%g", value);
    else if (x->kind == LW_COLUMN_REAL || csv)
        lw_table_cell(t, "%.*f", x->kind == LW_COLUMN_REAL ? x->digits : 3, value);
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
    else if (x->kind == LW_COLUMN_FLAG)
        lw_table_cell(t, "%s", *(const bool *)field ? "yes" : "no");
    else if (x->kind == LW_COLUMN_REAL || x->kind == LW_COLUMN_DOUBLE ||
             x->kind == LW_COLUMN_CHANGE_PCT)
        real_cell(t, x, *(const double *)field, csv);
    else if (is_time(x) && csv)
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(number_of(x, field)));
    else if (x->kind == LW_COLUMN_PS)
        lw_table_cell(t, "%s", lw_format_ps(buf, number_of(x, field)));
    else if (is_time(x))
        lw_table_cell(t, x->kind == LW_COLUMN_MS ? "%.3f" : "%+.3f",
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
static struct lw_table *table_of(const struct lw_records *r, bool csv, const char **titles)
{
    int n = 0;

    assert(r->n_columns <= MAX_COLUMNS);
    for (int k = 0; k < r->n_columns; k++)
        if (is_column(&r->columns[k], csv))
            titles[n++] = csv ? r->columns[k].key : r->columns[k].title;
    struct lw_table *t = lw_table_new(n, titles);
    for (int64_t i = 0; t && i < r->n; i++)
        for (int k = 0; k < r->n_columns; k++)
            if (is_column(&r->columns[k], csv))
                table_cell(t, &r->columns[k],
                            (const char *)r->rows + (size_t)i * r->size + r->columns[k].at, csv);
    return t;
}

enum lw_status lw_records_text(const struct lw_records *r, FILE *f, int indent, struct lw_err *err)
{
    const char *titles[MAX_COLUMNS];
    struct lw_table *t = table_of(r, false, titles);
    enum lw_status s = t ? lw_table_print(t, f, indent, err) : lw_fail_nomem(err);

    lw_table_free(t);
    return s;
}

enum lw_status lw_records_csv(const struct lw_records *r, FILE *f, struct lw_err *err)
{
    const char *titles[MAX_COLUMNS];
    struct lw_table *t = table_of(r, true, titles);
    enum lw_status s = t ? lw_table_print_csv(t, f, err) : lw_fail_nomem(err);

    lw_table_free(t);
    return s;
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
