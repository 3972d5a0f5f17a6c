/* The known frameworks, and one framework with every fact, its meaning and its source. */
#include "shared/show/framework_show.h"

#include <stdio.h>
#include <string.h>

#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* Figures in ps are shown in ns, as in files. */
static double shown(const struct lw_framework_fact *f)
{
    return strcmp(f->unit, "ns") == 0 ? f->figure.value / 1e3 : f->figure.value;
}

static enum lw_status put_json(const struct lw_framework *f, struct lw_err *err)
{
    struct lw_jsonout o = {.file = stdout};
    struct lw_framework_fact fact;
    char hash[33];

    LW_TRY(lw_framework_hash(f, hash, err));
    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "name", f->name, "about", f->about, "version", f->version, "framework_hash", hash);
    lw_jsonout_array(&o, "facts");
    for (int k = 0; lw_framework_fact(f, k, &fact); k++)
        if (lw_figure_is_set(fact.figure))
            LW_JSON_ROW(&o, NULL, "group", fact.group, "name", fact.name, "value", shown(&fact),
                        "unit", fact.unit, "meaning", fact.help, "source", fact.figure.source);
    lw_jsonout_end(&o);
    lw_jsonout_array(&o, "usual");
    for (int32_t i = 0; i < f->n_usual; i++)
        LW_JSON_ROW(&o, NULL, "option", f->usual[i].option, "value", f->usual[i].value,
                    "device", f->usual[i].device ? f->usual[i].device : "", "source",
                    f->usual[i].source);
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
    return LW_OK;
}

static enum lw_status put_facts(const struct lw_framework *f, bool csv, struct lw_err *err)
{
    static const char *const titles[] = {"fact", ">value", "meaning", "source"};
    struct lw_table *t = lw_table_new(4, titles);
    struct lw_framework_fact fact;

    for (int k = 0; lw_framework_fact(f, k, &fact); k++) {
        if (!lw_figure_is_set(fact.figure))
            continue;
        lw_table_cell(t, "%s.%s", fact.group, fact.name);
        lw_table_cell(t, "%.15g%s%s", shown(&fact), *fact.unit ? " " : "", fact.unit);
        LW_CELLS(t, fact.help, fact.figure.source);
    }
    for (int32_t i = 0; i < f->n_usual; i++) {
        lw_table_cell(t, "usual --%s", f->usual[i].option);
        LW_CELLS(t, f->usual[i].value,
                 f->usual[i].device && f->usual[i].device[0] ? "set on CPUs unless given"
                                                             : "set unless given",
                 f->usual[i].source);
    }
    return lw_table_end(t, stdout, csv ? LW_TABLE_CSV : 0, err);
}

enum lw_status lw_framework_print(const struct lw_framework *f, enum lw_format format,
                                  struct lw_err *err)
{
    if (format == LW_FORMAT_JSON)
        return put_json(f, err);
    if (format == LW_FORMAT_TEXT) {
        lw_put_wrapped(stdout, f->about, printf("%s: ", f->name), LW_TEXT_COLUMNS);
        if (f->version[0])
            printf("facts of %s\n", f->version);
    }
    return put_facts(f, format == LW_FORMAT_CSV, err);
}

/* --- the list --------------------------------------------------------------------------------- */

struct listed {
    char name[64];
    struct lw_framework f;
    int32_t n_facts;
};

static int32_t n_facts_of(const struct lw_framework *f)
{
    struct lw_framework_fact fact;
    int32_t n = f->n_usual;

    for (int k = 0; lw_framework_fact(f, k, &fact); k++)
        n += lw_figure_is_set(fact.figure);
    return n;
}

#define AT(field) offsetof(struct listed, field)
static const struct lw_column listed_columns[] = {
    {"name", "name", LW_COLUMN_CHARS, AT(name)},
    {"n_facts", ">facts", LW_COLUMN_INT32, AT(n_facts)},
    {"about", "about", LW_COLUMN_STRING, AT(f.about)},
    {"version", "version", LW_COLUMN_STRING, AT(f.version)},
};
#undef AT

enum lw_status lw_frameworks_list(enum lw_format format, struct lw_err *err)
{
    enum lw_status s = LW_OK;
    char name[64];
    int n = 0;

    while (lw_framework_known(n, name))
        n++;
    struct listed *rows;

    LW_NEW(rows, n, err);
    for (int k = 0; s == LW_OK && k < n; k++) {
        lw_framework_known(k, rows[k].name);
        s = lw_framework_find(rows[k].name, &rows[k].f, err);
        rows[k].n_facts = s == LW_OK ? n_facts_of(&rows[k].f) : 0;
    }
    if (s == LW_OK)
        s = lw_records_print(&LW_RECORDS("frameworks", listed_columns, rows, n), format, stdout,
                             err);
    for (int k = 0; k < n; k++)
        lw_framework_free(&rows[k].f);
    lw_free(rows);
    return s;
}
