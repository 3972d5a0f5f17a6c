/* lapwing cluster: the known systems, or one system with every figure, its unit and its source. */
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/text/wrap.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/json/jsonout.h"
#include "shared/text/table.h"

/* Figures in ps are shown in ns, as in files. */
static const char *shown_unit(const struct lw_cluster_figure *f, double *value)
{
    bool ps = strcmp(f->unit, "ps") == 0;

    *value = ps ? f->figure.value / 1e3 : f->figure.value;
    return ps ? "ns" : f->unit;
}

static void put_work_json(struct lw_jsonout *o, const struct lw_device *d)
{
    lw_jsonout_array(o, "work");
    for (int32_t i = 0; i < d->n_work; i++) {
        const struct lw_work_table *t = &d->work[i];
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_string(o, "kind", lw_work_name(t->kind));
        lw_jsonout_string(o, "dtype", lw_dtype_name(t->dtype));
        lw_jsonout_string(o, "from", lw_dtype_name(t->from));
        lw_jsonout_int(o, "n_rows", t->n_rows);
        lw_jsonout_int(o, "least_size", t->size[0]);
        lw_jsonout_int(o, "most_size", t->size[t->n_rows - 1]);
        lw_jsonout_string(o, "source", t->source);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void put_json(const struct lw_cluster *c)
{
    struct lw_jsonout o = {.file = stdout};
    struct lw_cluster_figure f;
    double value;

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "name", c->name);
    lw_jsonout_string(&o, "about", c->about);
    lw_jsonout_bool(&o, "calibrated", c->calibrated);
    lw_jsonout_int(&o, "n_nodes", c->n_nodes);
    lw_jsonout_int(&o, "devices_per_node", c->devices_per_node);
    lw_jsonout_string(&o, "device_kind", c->device.kind);
    lw_jsonout_string(&o, "library", c->library);
    lw_jsonout_string(&o, "library_version", c->library_version);
    lw_jsonout_array(&o, "figures");
    for (int k = 0; lw_cluster_figure(c, k, &f); k++) {
        if (!lw_figure_is_set(f.figure))
            continue;
        lw_jsonout_line_object(&o, NULL);
        lw_jsonout_string(&o, "name", f.name);
        const char *unit = shown_unit(&f, &value);
        lw_jsonout_double(&o, "value", value);
        lw_jsonout_string(&o, "unit", unit);
        lw_jsonout_string(&o, "source", f.figure.source);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    put_work_json(&o, &c->device);
    lw_jsonout_array(&o, "tables");
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        lw_jsonout_line_object(&o, NULL);
        lw_jsonout_string(&o, "op", lw_op_name(t->op));
        lw_jsonout_string(&o, "dtype", lw_dtype_name(t->dtype));
        lw_jsonout_int(&o, "n_ranks", t->n_ranks);
        lw_jsonout_int(&o, "n_nodes", t->n_nodes);
        lw_jsonout_int(&o, "n_in_flight", t->n_in_flight);
        lw_jsonout_int(&o, "n_rows", t->n_rows);
        lw_jsonout_int(&o, "least_bytes", t->bytes[0]);
        lw_jsonout_int(&o, "most_bytes", t->bytes[t->n_rows - 1]);
        lw_jsonout_string(&o, "source", t->source);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

static void put_heading(const struct lw_cluster *c)
{
    lw_put_wrapped(stdout, c->about, printf("%s: ", c->name), 100);
    if (c->n_nodes)
        printf("%d node%s of", c->n_nodes, c->n_nodes == 1 ? "" : "s");
    else
        printf("as many nodes as a plan needs, each of");
    printf(" %d x %s; %s\n", c->devices_per_node, c->device.kind,
           c->calibrated ? "measured on the machine itself" : "not calibrated");
    if (*c->library)
        printf("collectives by %s%s%s\n", c->library, *c->library_version ? " " : "",
               c->library_version);
    for (int32_t i = 0; i < c->n_links; i++)
        printf("links[%d]: %s\n", i, c->links[i].name);
}

static void put_work(struct lw_table *t, const struct lw_device *d)
{
    for (int32_t i = 0; i < d->n_work; i++) {
        const struct lw_work_table *m = &d->work[i];
        lw_table_cell(t, "device.work[%d]: %s %s", i, lw_work_name(m->kind),
                      lw_dtype_name(m->dtype));
        lw_table_cell(t, "%d", m->n_rows);
        lw_table_cell(t, "rows");
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
        lw_table_cell(t, "%s", unit);
        lw_table_cell(t, "%s", f.figure.source);
    }
    put_work(t, &c->device);
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *m = &c->tables[i];
        lw_table_cell(t, "tables[%d]: %s", i, lw_op_name(m->op));
        lw_table_cell(t, "%d", m->n_rows);
        lw_table_cell(t, "rows");
        snprintf(range, sizeof range, "%d ranks, %lld to %lld B, %d in flight", m->n_ranks,
                 (long long)m->bytes[0], (long long)m->bytes[m->n_rows - 1], m->n_in_flight);
        lw_table_cell(t, "%s: %s", m->source, range);
    }
    enum lw_status s = csv ? lw_table_print_csv(t, stdout, err) : lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return s;
}

/* GB/s one way of a device inside a node, or of a node to others; blank where the file has none. */
static void put_rate(struct lw_table *t, const struct lw_cluster *c, enum lw_link_level level)
{
    const struct lw_link *l = lw_cluster_link(c, level);

    if (!l || !lw_figure_is_set(l->bytes_per_s)) {
        lw_table_cell(t, "%s", "");
        return;
    }
    double n = lw_figure_is_set(l->n_links) ? l->n_links.value : 1;
    lw_table_cell(t, "%.4g", l->bytes_per_s.value * n / 1e9);
}

enum { LIST_COLUMNS = 100 };

static enum lw_status put_known(enum lw_format format, struct lw_err *err)
{
    static const char *const titles[] = {"name",          "device",  ">per node", ">inside GB/s",
                                         ">between GB/s", "library", "about"};
    struct lw_table *t = lw_table_new(7, titles);
    struct lw_jsonout o = {.file = stdout};
    enum lw_status s = LW_OK;

    if (format == LW_FORMAT_JSON) {
        lw_jsonout_object(&o, NULL);
        lw_jsonout_array(&o, "clusters");
    }
    for (int k = 0; s == LW_OK && lw_cluster_known(k); k++) {
        struct lw_cluster c;
        s = lw_cluster_find(lw_cluster_known(k), &c, err);
        if (s != LW_OK)
            break;
        lw_table_cell(t, "%s", c.name);
        lw_table_cell(t, "%s", c.device.kind);
        lw_table_cell(t, "%d", c.devices_per_node);
        put_rate(t, &c, LW_LINK_INTRA);
        put_rate(t, &c, LW_LINK_INTER);
        lw_table_cell(t, "%s", c.library);
        lw_table_cell(t, "%s", c.about);
        if (format == LW_FORMAT_JSON) {
            lw_jsonout_line_object(&o, NULL);
            lw_jsonout_string(&o, "name", c.name);
            lw_jsonout_string(&o, "device_kind", c.device.kind);
            lw_jsonout_int(&o, "devices_per_node", c.devices_per_node);
            lw_jsonout_string(&o, "about", c.about);
            lw_jsonout_end(&o);
        }
        lw_cluster_free(&c);
    }
    if (format == LW_FORMAT_JSON) {
        lw_jsonout_end(&o);
        lw_jsonout_end(&o);
    } else if (s == LW_OK) {
        s = format == LW_FORMAT_CSV ? lw_table_print_csv(t, stdout, err)
                                    : lw_table_print_within(t, stdout, 0, LIST_COLUMNS, err);
    }
    lw_table_free(t);
    return s;
}

static enum lw_status show(const char *name, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_cluster c;

    LW_TRY(lw_cluster_find(name, &c, err));
    enum lw_status s = LW_OK;
    if (output) {
        s = lw_cluster_write(&c, output, err);
    } else if (format == LW_FORMAT_JSON) {
        put_json(&c);
    } else {
        if (format == LW_FORMAT_TEXT)
            put_heading(&c);
        s = put_figures(&c, format == LW_FORMAT_CSV, err);
    }
    lw_cluster_free(&c);
    return s;
}

int cmd_cluster(int argc, char **argv)
{
    const char *output = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        {"output", 'o', LW_OPT_STRING, &output, "FILE", "write the cluster file instead", 0, 0},
        LW_OPTION_FORCE,
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "cluster", "[options] [NAME|FILE]",
        "List the systems that are known by name, or show one (or a cluster file) with every "
        "figure, "
        "its unit and where it comes from. -o writes it as a file, to be edited.",
        0, 1};
    struct lw_err err = {0};
    int n, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    if (n == 0 && output)
        return lw_cli_usage("cluster", "-o needs a name or a file");
    enum lw_status s = n ? show(argv[1], output, format, &err) : put_known(format, &err);
    return lw_cli_end("cluster", s, &err);
}
