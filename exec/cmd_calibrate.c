/* lapwing calibrate: measure this machine and write it as a cluster file. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "exec/calibrate/calibrate.h"
#include "exec/launch/multi_process.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/json/jsonout.h"
#include "shared/text/table.h"

static void put_work_json(struct lw_jsonout *o, const struct lw_device *d)
{
    lw_jsonout_array(o, "work");
    for (int32_t i = 0; i < d->n_work; i++)
        for (int32_t k = 0; k < d->work[i].n_rows; k++) {
            const struct lw_work_table *t = &d->work[i];
            lw_jsonout_line_object(o, NULL);
            lw_jsonout_string(o, "kind", lw_work_name(t->kind));
            lw_jsonout_string(o, "dtype", lw_dtype_name(t->dtype));
            lw_jsonout_string(o, "from", lw_dtype_name(t->from));
            lw_jsonout_int(o, "size", t->size[k]);
            lw_jsonout_ns(o, "time_ns", t->time_ps[k]);
            lw_jsonout_ns(o, "spread_ns", t->spread_ps[k]);
            lw_jsonout_end(o);
        }
    lw_jsonout_end(o);
}

/* One rank has nothing to measure it with. */
static void put_rate(struct lw_jsonout *o, const char *name, struct lw_figure f)
{
    if (f.source)
        lw_jsonout_double(o, name, f.value);
    else
        lw_jsonout_null(o, name);
}

static void put_json(const struct lw_cluster *c, const char *file)
{
    struct lw_jsonout o = {.file = stdout};
    const struct lw_interference *f = &c->interference;

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "file", file);
    lw_jsonout_string(&o, "cluster", c->name);
    lw_jsonout_int(&o, "n_ranks", c->devices_per_node);
    lw_jsonout_double(&o, "gemm_flops_per_s", c->device.peak_flops[LW_F32].value);
    lw_jsonout_double(&o, "copy_bytes_per_s", c->device.copy_bytes_per_s.value);
    lw_jsonout_ns(&o, "launch_ns", (lw_ps)c->device.launch_ps.value);
    put_rate(&o, "compute_rate_under_comm", f->compute_rate_under_comm);
    put_rate(&o, "comm_rate_under_compute", f->comm_rate_under_compute);
    put_work_json(&o, &c->device);
    lw_jsonout_array(&o, "tables");
    for (int32_t i = 0; i < c->n_tables; i++)
        for (int32_t k = 0; k < c->tables[i].n_rows; k++) {
            const struct lw_cost_table *t = &c->tables[i];
            lw_jsonout_line_object(&o, NULL);
            lw_jsonout_string(&o, "op", lw_op_name(t->op));
            lw_jsonout_int(&o, "n_ranks", t->n_ranks);
            lw_jsonout_int(&o, "n_in_flight", t->n_in_flight);
            lw_jsonout_int(&o, "bytes", t->bytes[k]);
            lw_jsonout_ns(&o, "time_ns", t->time_ps[k]);
            lw_jsonout_ns(&o, "spread_ns", t->spread_ps[k]);
            lw_jsonout_end(&o);
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
    lw_table_cell(t, "%s", unit);
    lw_table_cell(t, "%s", f.source);
}

static double spread_pct(lw_ps spread, lw_ps time)
{
    return time > 0 ? 100.0 * (double)spread / (double)time : 0.0;
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

static enum lw_status put_figures(const struct lw_cluster *c, bool csv, struct lw_err *err)
{
    static const char *const titles[] = {"figure", ">value", "unit", "how"};
    struct lw_table *t = lw_table_new(4, titles);
    struct lw_figure gemm = c->device.peak_flops[LW_F32], copy = c->device.copy_bytes_per_s;
    struct lw_figure compute = c->interference.compute_rate_under_comm;
    struct lw_figure comm = c->interference.comm_rate_under_compute;

    figure_row(t, "GEMM", gemm.value * 1e-9, "Gflop/s per rank", gemm);
    figure_row(t, "copy", copy.value * 1e-9, "GB/s per rank", copy);
    figure_row(t, "launch", c->device.launch_ps.value * 1e-3, "ns", c->device.launch_ps);
    figure_row(t, "compute under communication", compute.value, "of its speed", compute);
    figure_row(t, "communication under compute", comm.value, "of its speed", comm);
    put_work(t, &c->device);
    for (int32_t i = 0; i < c->n_tables; i++)
        for (int32_t k = 0; k < c->tables[i].n_rows; k++) {
            const struct lw_cost_table *m = &c->tables[i];
            char bytes[32], name[64], group[16] = "";
            if (m->op != LW_OP_SEND && m->n_ranks != c->devices_per_node)
                snprintf(group, sizeof group, " of %d", m->n_ranks);
            snprintf(name, sizeof name, "%s%s%s %s",
                     m->n_in_flight == 1   ? ""
                     : m->op == LW_OP_SEND ? "both ways: "
                                           : "two at once: ",
                     lw_op_name(m->op), group, lw_format_bytes(bytes, m->bytes[k]));
            lw_table_cell(t, "%s", name);
            lw_table_cell(t, "%.4g", (double)m->time_ps[k] * 1e-6);
            lw_table_cell(t, "us");
            lw_table_cell(t, "spread %.1f %%", spread_pct(m->spread_ps[k], m->time_ps[k]));
        }
    enum lw_status s = csv ? lw_table_print_csv(t, stdout, err) : lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return s;
}

/* One plan after the other takes hundreds of MiB: what one gave back serves the next, instead of
 * being fetched from the system page by page. */
static void keep_memory(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

static enum lw_status calibrate(struct lw_calibrate_options *o, const char *file, bool quiet,
                                enum lw_format format, struct lw_err *err)
{
    struct lw_cluster c = {0};
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, quiet || (o->id && o->id->rank > 0));

    o->progress = &progress;
    keep_memory();
    enum lw_status s = lw_calibrate(o, &c, err);
    lw_progress_bar_end(&bar);
    if (o->id && o->id->rank > 0) { /* rank 0 writes */
        lw_cluster_free(&c);
        return s;
    }
    if (s == LW_OK)
        s = lw_cluster_write(&c, file, err);
    if (s == LW_OK && format == LW_FORMAT_JSON)
        put_json(&c, file);
    else if (s == LW_OK)
        s = put_figures(&c, format == LW_FORMAT_CSV, err);
    if (s == LW_OK && format == LW_FORMAT_TEXT)
        printf("\nwrote %s: use it with -c %s\n", file, file);
    lw_cluster_free(&c);
    return s;
}

int cmd_calibrate(int argc, char **argv)
{
    struct lw_calibrate_options o = lw_calibrate_options_default();
    const char *backend = "threads", *file = NULL, *transport = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    bool quiet = false, spawn = false;
    struct exec_ranks ranks = {0};
    int64_t n_ranks = 0, n_rounds = o.n_rounds, max_side = o.max_side;
    int64_t link_rate = 0, link_latency = 0;
    const struct lw_opt options[] = {
        {"backend", 0, LW_OPT_STRING, &backend, "NAME", "what to measure with (threads)", 0, 0},
        {"transport", 0, LW_OPT_STRING, &transport, "loop", "nccl: all ranks as streams of one GPU",
         0, 0},
        {"ranks", 0, LW_OPT_INT, &n_ranks, "N",
         "size of the measured groups (2, or what a launcher started)", 1, 64},
        {"spawn", 0, LW_OPT_FLAG, &spawn, NULL, "start one process per rank on this machine", 0, 0},
        {"rounds", 0, LW_OPT_INT, &n_rounds, "N", "repetitions of the whole series (3)", 1, 100},
        {"max-bytes", 0, LW_OPT_SIZE, &o.max_bytes, "BYTES",
         "largest message, 16MiB to 1GiB (256MiB)", 0, 0},
        {"max-side", 0, LW_OPT_INT, &max_side, "N",
         "rows of the largest matrix product (1024; a GPU wants more)", 32, 8192},
        {"link-rate", 0, LW_OPT_SIZE, &link_rate, "BYTES",
         "pace links to this many bytes per second, as exec --link-rate does", 0, 0},
        {"link-latency", 0, LW_OPT_TIME, &link_latency, "TIME", "of a paced link (0)", 0, 0},
        {"output", 'o', LW_OPT_STRING, &file, "FILE", "cluster file to write (needed)", 0, 0},
        LW_OPTION_FORCE,
        LW_OPTION_QUIET(&quiet),
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "calibrate", "-o cluster.json [options]",
        "Measure this machine as `lapwing exec` uses it: matrix products, copies, casts and "
        "optimizer "
        "steps over sizes, dispatch, collectives and messages over sizes, and how much compute and "
        "communication of a rank slow each other down. Writes a cluster file for `lapwing sim -c`. "
        "Leave the machine alone meanwhile.",
        0, 0};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (!file)
        return lw_cli_usage("calibrate", "needs -o FILE");
    if (transport && strcmp(transport, "loop") != 0)
        return lw_cli_usage("calibrate", "--transport %s: calibrate knows 'loop'", transport);
    o.loop = transport != NULL;
    o.link_bytes_per_s = (double)link_rate;
    o.link_latency_ns = lw_ps_to_ns(link_latency);
    o.n_rounds = (int32_t)n_rounds;
    o.max_side = (int32_t)max_side;
    enum lw_status status = exec_backend_find(backend, &o.backend, &err);
    if (status == LW_OK)
        status = exec_ranks_find(&ranks, &n_ranks, 2, spawn, &err);
    if (ranks.printed)
        lw_cli_no_json();
    if (status == LW_OK && ranks.over)
        return ranks.exit_status;
    o.n_ranks = (int32_t)n_ranks;
    o.id = ranks.several ? &ranks.id : NULL;
    if (status == LW_OK)
        status = calibrate(&o, file, quiet, format, &err);
    return lw_cli_end("calibrate", status, &err);
}
