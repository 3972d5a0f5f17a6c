/* The figures and tables of a cluster that calibrate wrote, as a table or as JSON. */
#include "exec/calibrate/calibrate_print.h"

#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/cluster/measured.h"
#include "shared/json/jsonout.h"
#include "shared/plan/op.h"
#include "shared/text/table.h"

static void put_work_json(struct lw_jsonout *o, const struct lw_device *d)
{
    lw_jsonout_array(o, "work");
    for (int32_t i = 0; i < d->n_work; i++)
        for (int32_t k = 0; k < d->work[i].n_rows; k++) {
            const struct lw_work_table *t = &d->work[i];
            LW_JSON_ROW(o, NULL, "kind", lw_work_name(t->kind), "dtype", lw_dtype_name(t->dtype),
                        "from", lw_dtype_name(t->from), "size", t->size[k],
                        "time_ns", lw_ps_to_ns(t->time_ps[k]),
                        "spread_ns", lw_ps_to_ns(t->spread_ps[k]));
        }
    lw_jsonout_end(o);
}

/* Rates: one rank has nothing to measure them with. */
static void put_known(struct lw_jsonout *o, const char *name, double value, struct lw_figure f)
{
    if (f.source)
        lw_jsonout_double(o, name, value);
    else
        lw_jsonout_null(o, name);
}

void exec_calibrate_print_json(const struct lw_cluster *c, const char *file, FILE *to)
{
    struct lw_jsonout o = {.file = to};
    const struct lw_interference *f = &c->interference;

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "file", file, "cluster", c->name, "n_ranks", c->devices_per_node * c->n_nodes,
            "n_nodes", c->n_nodes, "gemm_flops_per_s", c->device.peak_flops[LW_F32].value,
            "copy_bytes_per_s", c->device.copy_bytes_per_s.value,
            "launch_ns", lw_ps_to_ns((lw_ps)c->device.launch_ps.value));
    put_known(&o, "probe_ns", c->device.probe_ps.value / LW_PS_PER_NS, c->device.probe_ps);
    put_known(&o, "compute_rate_under_comm", f->compute_rate_under_comm.value,
              f->compute_rate_under_comm);
    put_known(&o, "comm_rate_under_compute", f->comm_rate_under_compute.value,
              f->comm_rate_under_compute);
    put_work_json(&o, &c->device);
    lw_jsonout_array(&o, "tables");
    for (int32_t i = 0; i < c->n_tables; i++)
        for (int32_t k = 0; k < c->tables[i].n_rows; k++) {
            const struct lw_cost_table *t = &c->tables[i];
            LW_JSON_ROW(&o, NULL, "op", lw_op_name(t->op), "n_ranks", t->n_ranks,
                        "n_in_flight", t->n_in_flight, "bytes", t->bytes[k],
                        "time_ns", lw_ps_to_ns(t->time_ps[k]),
                        "spread_ns", lw_ps_to_ns(t->spread_ps[k]), "n_nodes", t->n_nodes);
        }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

static void figure_row(struct lw_table *t, const char *name, double value, const char *unit,
                       struct lw_figure f)
{
    if (!f.source)
        return;
    lw_table_cell(t, "%s", name);
    lw_table_cell(t, "%.4g", value);
    LW_CELLS(t, unit, f.source);
}

static double spread_pct(lw_ps spread, lw_ps time)
{
    return lw_percent((double)spread, (double)time);
}

/* FLOPs or bytes per ps are 1e12 a second. */
static void put_work(struct lw_table *t, const struct lw_device *d)
{
    for (int32_t i = 0; i < d->n_work; i++)
        for (int32_t k = 0; k < d->work[i].n_rows; k++) {
            const struct lw_work_table *m = &d->work[i];
            bool products = m->kind == LW_WORK_GEMM;
            char size[32], from[16] = "";
            if (products)
                snprintf(size, sizeof size, "%.4g MFLOP", (double)m->size[k] * 1e-6);
            if (m->from != m->dtype)
                snprintf(from, sizeof from, " from %s", lw_dtype_name(m->from));
            lw_table_cell(t, "%s %s%s %s", lw_work_name(m->kind), lw_dtype_name(m->dtype), from,
                          products ? size : lw_format_bytes(size, m->size[k]));
            lw_table_cell(t, "%.4g", (double)m->time_ps[k] * 1e-6);
            lw_table_cell(t, "us");
            lw_table_cell(t, "spread %.1f %%, %.4g %s", spread_pct(m->spread_ps[k], m->time_ps[k]),
                          m->time_ps[k] > 0 ? (double)m->size[k] / (double)m->time_ps[k] * 1e3
                                            : 0.0,
                          products ? "Gflop/s" : "GB/s");
        }
}

enum lw_status exec_calibrate_print(const struct lw_cluster *c, bool csv, FILE *to,
                                    struct lw_err *err)
{
    static const char *const titles[] = {"figure", ">value", "unit", "how"};
    struct lw_table *t = lw_table_new(4, titles);
    struct lw_figure gemm = c->device.peak_flops[LW_F32], copy = c->device.copy_bytes_per_s;
    struct lw_figure compute = c->interference.compute_rate_under_comm;
    struct lw_figure comm = c->interference.comm_rate_under_compute;

    figure_row(t, "GEMM", gemm.value * 1e-9, "Gflop/s per rank", gemm);
    figure_row(t, "copy", copy.value * 1e-9, "GB/s per rank", copy);
    figure_row(t, "speed probe", c->device.probe_ps.value * 1e-6, "us", c->device.probe_ps);
    figure_row(t, "launch", c->device.launch_ps.value * 1e-3, "ns", c->device.launch_ps);
    figure_row(t, "compute under communication", compute.value, "of its speed", compute);
    figure_row(t, "communication under compute", comm.value, "of its speed", comm);
    put_work(t, &c->device);
    for (int32_t i = 0; i < c->n_tables; i++)
        for (int32_t k = 0; k < c->tables[i].n_rows; k++) {
            const struct lw_cost_table *m = &c->tables[i];
            char bytes[32], name[96], group[48] = "";
            if (m->op != LW_OP_SEND && m->n_ranks != c->devices_per_node * c->n_nodes)
                snprintf(group, sizeof group, " of %d", m->n_ranks);
            if (c->n_nodes > 1)
                snprintf(group + strlen(group), sizeof group - strlen(group), " on %d node%s",
                         m->n_nodes, m->n_nodes > 1 ? "s" : "");
            snprintf(name, sizeof name, "%s%s%s %s",
                     m->n_in_flight == 1   ? ""
                     : m->op == LW_OP_SEND ? "both ways: "
                                           : "two at once: ",
                     lw_op_name(m->op), group, lw_format_bytes(bytes, m->bytes[k]));
            lw_table_text(t, name);
            lw_table_cell(t, "%.4g", (double)m->time_ps[k] * 1e-6);
            lw_table_cell(t, "us");
            lw_table_cell(t, "spread %.1f %%", spread_pct(m->spread_ps[k], m->time_ps[k]));
        }
    return lw_table_end(t, to, csv ? LW_TABLE_CSV : 0, err);
}
