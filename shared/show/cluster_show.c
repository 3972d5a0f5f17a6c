/* The known systems, and one system with every figure, its unit and its source. */
#include "shared/show/cluster_show.h"

#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/cluster/measured.h"
#include "shared/plan/op.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* Figures in ps are shown in ns, as in files. */
static const char *shown_unit(const struct lw_cluster_figure *f, double *value)
{
    bool ps = strcmp(f->unit, "ps") == 0;

    *value = ps ? f->figure.value / 1e3 : f->figure.value;
    return ps ? "ns" : f->unit;
}

void lw_cluster_tables_json(const struct lw_cluster *c, struct lw_jsonout *o)
{
    lw_jsonout_array(o, "tables");
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        LW_JSON_ROW(o, NULL, "op", lw_op_name(t->op), "dtype", lw_dtype_name(t->dtype),
                    "n_ranks", t->n_ranks, "n_nodes", t->n_nodes, "n_in_flight", t->n_in_flight,
                    "n_rows", t->n_rows, "least_bytes", t->bytes[0],
                    "most_bytes", t->bytes[t->n_rows - 1], "source", t->source);
    }
    lw_jsonout_end(o);
}

#define AT(field) offsetof(struct lw_pair_rate, field)
static const struct lw_column pair_columns[] = {
    {"op", NULL, LW_COLUMN_WORD, AT(op), .word = lw_activity_word},
    {"beside", NULL, LW_COLUMN_WORD, AT(beside), .word = lw_activity_word},
    {"rate", NULL, LW_COLUMN_DOUBLE, AT(rate)},
    {"source", NULL, LW_COLUMN_STRING, AT(source)},
};
#undef AT

static void put_json(const struct lw_cluster *c)
{
    struct lw_jsonout o = {.file = stdout};
    const struct lw_device *d = &c->device;
    struct lw_cluster_figure f;
    double value;

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "name", c->name, "about", c->about, "calibrated", c->calibrated,
            "n_nodes", c->n_nodes, "devices_per_node", c->devices_per_node,
            "device_kind", d->kind, "library", c->library, "library_version", c->library_version);
    lw_jsonout_array(&o, "figures");
    for (int k = 0; lw_cluster_figure(c, k, &f); k++) {
        const char *unit = shown_unit(&f, &value);
        if (lw_figure_is_set(f.figure))
            LW_JSON_ROW(&o, NULL, "name", f.name, "value", value, "unit", unit,
                        "source", f.figure.source);
    }
    lw_jsonout_end(&o);
    lw_jsonout_array(&o, "work");
    for (int32_t i = 0; i < d->n_work; i++) {
        const struct lw_work_table *t = &d->work[i];
        LW_JSON_ROW(&o, NULL, "kind", lw_work_name(t->kind), "dtype", lw_dtype_name(t->dtype),
                    "from", lw_dtype_name(t->from), "n_rows", t->n_rows,
                    "least_size", t->size[0], "most_size", t->size[t->n_rows - 1],
                    "source", t->source);
    }
    lw_jsonout_end(&o);
    lw_cluster_tables_json(c, &o);
    lw_records_json(&o, &LW_RECORDS("pairs", pair_columns, c->pairs, c->n_pairs));
    lw_jsonout_end(&o);
}

static void put_heading(const struct lw_cluster *c)
{
    char nodes[64] = "as many nodes as a plan needs, each";

    lw_put_wrapped(stdout, c->about, printf("%s: ", c->name), LW_TEXT_COLUMNS);
    if (c->n_nodes)
        snprintf(nodes, sizeof nodes, "%d node%s", c->n_nodes, lw_plural(c->n_nodes));
    lw_printf_paragraph(stdout, "%s of %d x %s; %s", nodes, c->devices_per_node, c->device.kind,
                        c->calibrated ? "measured on the machine itself" : "not calibrated");
    if (*c->library)
        printf("collectives by %s%s%s\n", c->library, *c->library_version ? " " : "",
               c->library_version);
    if (c->nccl.algo && *c->nccl.algo)
        printf("NCCL_ALGO=%s\n", c->nccl.algo);
    if (c->nccl.proto && *c->nccl.proto)
        printf("NCCL_PROTO=%s\n", c->nccl.proto);
    for (int32_t i = 0; i < c->n_links; i++)
        printf("links[%d]: %s\n", i, c->links[i].name);
}

static void put_work(struct lw_table *t, const struct lw_device *d)
{
    for (int32_t i = 0; i < d->n_work; i++) {
        const struct lw_work_table *m = &d->work[i];
        lw_table_cell(t, "device.work[%d]: %s %s", i, lw_work_name(m->kind),
                      lw_dtype_name(m->dtype));
        LW_CELLS(t, m->n_rows, "rows");
        lw_table_cell(t, "%s: %s%s%s%lld to %lld %s", m->source, m->from != m->dtype ? "from " : "",
                      m->from != m->dtype ? lw_dtype_name(m->from) : "",
                      m->from != m->dtype ? ", " : "", (long long)m->size[0],
                      (long long)m->size[m->n_rows - 1], m->kind == LW_WORK_GEMM ? "FLOPs" : "B");
    }
}

static enum lw_status put_figures(const struct lw_cluster *c, bool csv, struct lw_err *err)
{
    static const char *const titles[] = {"figure", ">value", "unit", "source"};
    struct lw_table *t = lw_table_new(4, titles);
    struct lw_cluster_figure f;
    char range[96];
    double value;

    for (int k = 0; lw_cluster_figure(c, k, &f); k++) {
        if (!lw_figure_is_set(f.figure))
            continue;
        const char *unit = shown_unit(&f, &value);
        lw_table_cell(t, "%s", f.name);
        lw_table_cell(t, "%.15g", value);
        LW_CELLS(t, unit, f.figure.source);
    }
    put_work(t, &c->device);
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *m = &c->tables[i];
        lw_table_cell(t, "tables[%d]: %s", i, lw_op_name(m->op));
        LW_CELLS(t, m->n_rows, "rows");
        snprintf(range, sizeof range, "%d ranks, %lld to %lld B, %d in flight", m->n_ranks,
                 (long long)m->bytes[0], (long long)m->bytes[m->n_rows - 1], m->n_in_flight);
        lw_table_cell(t, "%s: %s", m->source, range);
    }
    for (int32_t i = 0; i < c->n_pairs; i++) {
        const struct lw_pair_rate *p = &c->pairs[i];
        lw_table_cell(t, "pairs[%d]: %s beside %s", i, lw_activity_word((int)p->op),
                      lw_activity_word((int)p->beside));
        lw_table_cell(t, "%.15g", p->rate);
        LW_CELLS(t, "of its speed alone", p->source);
    }
    return lw_table_end(t, stdout, csv ? LW_TABLE_CSV : 0, err);
}

enum lw_status lw_cluster_print(const struct lw_cluster *c, enum lw_format format,
                                struct lw_err *err)
{
    if (format == LW_FORMAT_JSON) {
        put_json(c);
        return LW_OK;
    }
    if (format == LW_FORMAT_TEXT)
        put_heading(c);
    return put_figures(c, format == LW_FORMAT_CSV, err);
}

/* --- the list --------------------------------------------------------------------------------- */

struct listed {
    struct lw_cluster c;
    char inside[16], between[16]; /* GB/s one way of a device, of a node; "" = not in the file */
};

static void find_rate(const struct lw_cluster *c, enum lw_link_level level, char text[16])
{
    const struct lw_link *l = lw_cluster_link(c, level);

    if (l && lw_figure_is_set(l->bytes_per_s))
        snprintf(text, 16, "%.4g", lw_link_bytes_per_s(l) / 1e9);
}

#define AT(field) offsetof(struct listed, field)
static const struct lw_column listed_columns[] = {
    {"name", "name", LW_COLUMN_STRING, AT(c.name)},
    {"device_kind", "device", LW_COLUMN_STRING, AT(c.device.kind)},
    {"devices_per_node", ">per node", LW_COLUMN_INT32, AT(c.devices_per_node)},
    {"inside_gb_per_s", ">inside GB/s", LW_COLUMN_CHARS, AT(inside)},
    {"between_gb_per_s", ">between GB/s", LW_COLUMN_CHARS, AT(between)},
    {"library", "library", LW_COLUMN_STRING, AT(c.library)},
    {"about", "about", LW_COLUMN_STRING, AT(c.about)},
};
#undef AT

enum lw_status lw_clusters_list(enum lw_format format, struct lw_err *err)
{
    enum lw_status s = LW_OK;
    int n = 0;

    while (lw_cluster_known(n))
        n++;
    struct listed *rows;

    LW_NEW(rows, n, err);
    for (int k = 0; s == LW_OK && k < n; k++) {
        s = lw_cluster_find(lw_cluster_known(k), &rows[k].c, err);
        if (s == LW_OK) {
            find_rate(&rows[k].c, LW_LINK_INTRA, rows[k].inside);
            find_rate(&rows[k].c, LW_LINK_INTER, rows[k].between);
        }
    }
    if (s == LW_OK)
        s = lw_records_print(&LW_RECORDS("clusters", listed_columns, rows, n), format, stdout, err);
    for (int k = 0; k < n; k++)
        lw_cluster_free(&rows[k].c);
    lw_free(rows);
    return s;
}
