/* The summary of an import: sizes, times, how much of the recorded step the workload covers, every
 * assumption, and the measured tables of a cluster. */
#include "traces/import/import_print.h"

#include <string.h>

#include "shared/cluster/measured.h"
#include "shared/device/device_kind.h"
#include "shared/files/files.h"
#include "shared/io/output.h"
#include "shared/show/cluster_show.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

static double percent(int64_t part, int64_t whole)
{
    return lw_percent((double)part, (double)whole);
}

static void put_time(FILE *f, const char *what, lw_ps t)
{
    char text[32];

    fprintf(f, "  %-12s %s\n", what, lw_format_ps(text, t));
}

static enum lw_status put_recorded(const struct lw_recorded *r, FILE *f, struct lw_err *err)
{
    char text[32];

    if (r->world_size == 0)
        return LW_OK;
    struct lw_paragraph line;
    FILE *out = lw_paragraph_open(&line, f, NULL);
    fprintf(out, "  recorded     world size %d", r->world_size);
    if (r->step_ps >= 0)
        fprintf(out, ", step %s", lw_format_ps(text, r->step_ps));
    for (int32_t i = 0; i < r->n_limits; i++)
        fprintf(out, "%s %lld", i ? "," : ", bucket limits", (long long)r->limit_bytes[i]);
    if (r->n_buckets > 0)
        fprintf(out, ", %d bucket%s:", r->n_buckets, lw_plural(r->n_buckets));
    for (int32_t i = 0; i < r->n_buckets; i++)
        fprintf(out, "%s %lld%s", i ? "," : "", (long long)r->bucket_bytes[i],
                i + 1 == r->n_buckets ? " bytes" : "");
    return lw_paragraph_close(&line, err);
}

static enum lw_status put_coverage(const struct traces_coverage *c, FILE *out, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *f = lw_paragraph_open(&line, out, "  coverage     ");

    if (c->scaled)
        fprintf(f,
                "%.2f %% of the step measured without the profiler (%.3f ms, %.3f ms left out)",
                percent(c->workload_ns, c->measured_ns - c->excluded_ns),
                (double)c->measured_ns / 1e6, (double)c->excluded_ns / 1e6);
    else if (c->measured_ns >= 0)
        fprintf(f, "%.2f %% of the step measured without the profiler (%.3f ms)",
                percent(c->workload_ns, c->measured_ns), (double)c->measured_ns / 1e6);
    else
        fprintf(f, "%.2f %% of the recorded step (%.3f ms, %.3f ms left out)",
                percent(c->workload_ns, c->traced_ns - c->excluded_ns), (double)c->traced_ns / 1e6,
                (double)c->excluded_ns / 1e6);
    return lw_paragraph_close(&line, err);
}

static enum lw_status workload_text(const struct lw_workload *w, const struct traces_coverage *c,
                                    const char *output, FILE *f, struct lw_err *err)
{
    lw_ps gaps = 0;

    for (int g = 0; g < LW_N_GAPS; g++)
        gaps += w->gap_ps[g];
    lw_printf_paragraph(
        f, "%s: %s, %d modules, %d parameters of %lld elements, %d buffers, %d gradients", output,
        w->name, w->n_modules, w->n_params, (long long)lw_workload_numel(w, false), w->n_buffers,
        w->n_ready);
    put_time(f, "step", lw_workload_step_ps(w));
    put_time(f, "forward", lw_workload_forward_ps(w));
    put_time(f, "backward", lw_workload_backward_ps(w));
    put_time(f, "optimizer", w->optimizer_ps);
    put_time(f, "gaps", gaps);
    LW_TRY(put_coverage(c, f, err));
    LW_TRY(put_recorded(&w->recorded, f, err));
    for (int32_t i = 0; i < w->n_notes; i++)
        lw_put_paragraph(f, "  note: ", w->notes[i]);
    return LW_OK;
}

enum { FITS = 86 }; /* characters of a source in a line of the table */

static enum lw_status cluster_text(const struct lw_cluster *c, const char *output, FILE *f,
                                   struct lw_err *err)
{
    static const char *const titles[] = {"op", "dtype", ">ranks", ">nodes", ">at once", ">rows",
                                         ">smallest", ">takes", ">largest", ">takes", "source"};
    struct lw_table *t = lw_table_new(11, titles);
    char buf[32];

    if (c->n_nodes > 0)
        snprintf(buf, sizeof buf, "%d node%s", c->n_nodes, lw_plural(c->n_nodes));
    else
        snprintf(buf, sizeof buf, "nodes"); /* as many as needed */
    lw_printf_paragraph(f, "%s: %s, %s of %d x %s, %d measured table%s", output, c->name, buf,
                        c->devices_per_node, c->device.kind, c->n_tables,
                        lw_plural(c->n_tables));
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *m = &c->tables[i];
        LW_CELLS(t, lw_op_name(m->op), lw_dtype_name(m->dtype), m->n_ranks, m->n_nodes,
                 m->n_in_flight, m->n_rows, LW_BYTES(m->bytes[0]), LW_PS(m->time_ps[0]),
                 LW_BYTES(m->bytes[m->n_rows - 1]), LW_PS(m->time_ps[m->n_rows - 1]), m->source);
    }
    LW_TRY(lw_table_end(t, f, 2, err));
    for (int32_t i = 0; i < c->n_tables; i++) /* what the table has no room for */
        if (strlen(c->tables[i].source) > FITS &&
            (i == 0 || strcmp(c->tables[i].source, c->tables[i - 1].source) != 0))
            lw_printf_paragraph(f, "  %s %s: %s", lw_op_name(c->tables[i].op),
                                lw_dtype_name(c->tables[i].dtype), c->tables[i].source);
    return LW_OK;
}

static void workload_json(const struct lw_workload *w, const struct traces_coverage *c,
                          const char *output, struct lw_jsonout *o)
{
    int64_t covered = c->scaled             ? c->measured_ns - c->excluded_ns
                      : c->measured_ns >= 0 ? c->measured_ns
                                            : c->traced_ns - c->excluded_ns;

    LW_JSON(o, "output", output, "name", w->name, "format", w->from.format,
            "n_modules", w->n_modules, "n_params", w->n_params,
            "numel", lw_workload_numel(w, false), "n_gradients", w->n_ready,
            "step_ns", lw_ps_to_ns(lw_workload_step_ps(w)));
    LW_JSON(o, "forward_ns", lw_ps_to_ns(lw_workload_forward_ps(w)),
            "backward_ns", lw_ps_to_ns(lw_workload_backward_ps(w)),
            "optimizer_ns", lw_ps_to_ns(w->optimizer_ps), "traced_step_ns", c->traced_ns,
            "excluded_ns", c->excluded_ns, "measured_step_ns", lw_known(c->measured_ns),
            "coverage_pct", lw_decimals(percent(c->workload_ns, covered), 3));
    lw_jsonout_strings(o, "notes", w->notes, w->n_notes);
}

static void cluster_json(const struct lw_cluster *c, const char *output, struct lw_jsonout *o)
{
    lw_jsonout_object(o, "cluster");
    LW_JSON(o, "output", output, "name", c->name, "device_kind", c->device.kind,
            "n_nodes", c->n_nodes, "devices_per_node", c->devices_per_node);
    lw_cluster_tables_json(c, o);
    lw_jsonout_end(o);
}

static enum lw_status print_json(const struct traces_import_summary *s, FILE *f)
{
    const struct traces_converted *c = s->converted;
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    if (s->workload_file)
        workload_json(&c->workload, &c->coverage, s->workload_file, &o);
    if (s->plan_file) {
        LW_JSON(&o, "output", s->plan_file, "n_ranks", c->plan.n_ranks, "n_ops", c->plan.n_ops);
        lw_jsonout_strings(&o, "notes", c->plan.notes, c->plan.n_notes);
    }
    if (s->cluster_file)
        cluster_json(&c->cluster, s->cluster_file, &o);
    if (s->run > 0)
        lw_jsonout_int(&o, "run", s->run);
    lw_jsonout_end(&o);
    return LW_OK;
}

/* A row per module of the workload, or per measured size of the cluster. */
static enum lw_status modules_csv(const struct lw_workload *w, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"module", "name", "forward_ns", "backward_ns",
                                         "output_bytes", "n_params", "numel", "last_ready_ns"};
    struct lw_table *t = lw_table_new(8, titles);

    for (int32_t m = 0; m < w->n_modules; m++) {
        const struct lw_module *v = &w->modules[m];
        int64_t n = 0, numel = 0;
        lw_ps ready = -1;
        for (int32_t i = 0; i < w->n_params; i++)
            if (w->params[i].module == m) {
                n++;
                numel += w->params[i].numel;
                ready = w->params[i].ready_ps > ready ? w->params[i].ready_ps : ready;
            }
        LW_CELLS(t, m, v->name, lw_ps_to_ns(v->forward_ps),
                 lw_ps_to_ns(v->backward_input_ps + v->backward_weight_ps),
                 lw_known(v->output_bytes), n, numel, lw_known_if(ready >= 0, lw_ps_to_ns(ready)));
    }
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}

static enum lw_status tables_csv(const struct lw_cluster *c, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"op",          "dtype", "n_ranks", "n_nodes",
                                         "n_in_flight", "bytes", "time_ns", "source"};
    struct lw_table *t = lw_table_new(8, titles);

    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *m = &c->tables[i];
        for (int32_t k = 0; k < m->n_rows; k++)
            LW_CELLS(t, lw_op_name(m->op), lw_dtype_name(m->dtype), m->n_ranks, m->n_nodes,
                     m->n_in_flight, m->bytes[k], lw_ps_to_ns(m->time_ps[k]), m->source);
    }
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}

/* A word of a command line; quoted where a shell would cut it or change it. */
static void put_word(FILE *f, const char *before, const char *word)
{
    bool plain = word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-./+:@%,=")] == '\0';

    fprintf(f, " %s %s", before, plain ? "" : "'");
    for (const char *c = word; *c; c++)
        fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, f);
    fputs(plain ? "" : "'", f);
}

/* The command that predicts with what was written. Its cluster: the file that was written; else a
 * known system with the recorded device, or with one of its family; for an unknown device a server
 * with PCIe; for a processor the host (no -c). */
static enum lw_status next_text(const struct traces_import_summary *s, FILE *f, struct lw_err *err)
{
    const struct lw_workload *w = &s->converted->workload;
    struct lw_cluster known = {0};
    const char *device = w->from.device ? w->from.device : "";
    bool nameless = lw_device_is_nameless(device), to_file;
    bool on_host = !nameless && lw_device_same_kind(device, "cpu core");

    if (lw_output_is_stdout(s->workload_file))
        return LW_OK;
    to_file = s->cluster_file && !lw_output_is_stdout(s->cluster_file);
    if (!to_file && !on_host && !nameless)
        LW_TRY(lw_cluster_find_recorded(device, &known, err));
    bool unknown = !to_file && !on_host && !known.name;
    if (unknown)
        LW_TRY(lw_cluster_find("pcie-box", &known, err));
    fputs("next: lapwing sim", f);
    put_word(f, "-w", s->workload_file);
    if (to_file || known.name)
        put_word(f, "-c", to_file ? s->cluster_file : known.name);
    if (unknown || (known.name && !lw_device_same_kind(device, known.device.kind)))
        fputs(" --as-recorded", f);
    if (w->recorded.world_size > 1 && !s->converted->coverage.is_stage)
        fprintf(f, " --dp %d%s", w->recorded.world_size,
                s->converted->coverage.fsdp2     ? " --zero 3 --framework torch-fsdp2"
                : s->converted->coverage.sharded ? " --zero 3"
                                                 : "");
    if (w->recorded.world_size > 1 && w->recorded.n_limits == 1) /* given to DDP: no default */
        fprintf(f, " --bucket-cap %lld", (long long)w->recorded.limit_bytes[0]);
    if (s->converted->coverage.n_passes > 1) /* the workload is one of them */
        fprintf(f, " --no-sync %d", s->converted->coverage.n_passes - 1);
    fputc('\n', f);
    if (unknown || (known.name && w->recorded.world_size > 1))
        fprintf(f, "  the network of cluster '%s' is assumed: -c names another\n", known.name);
    lw_cluster_free(&known);
    return LW_OK;
}

static void plan_text(const struct traces_import_summary *s, FILE *f)
{
    const struct lw_plan *p = &s->converted->plan;

    fprintf(f, "%s: plan of %d rank%s, %d ops on %d streams, %d communicator%s\n", s->plan_file,
            p->n_ranks, lw_plural(p->n_ranks), p->n_ops, p->n_streams, p->n_comms,
            lw_plural(p->n_comms));
    for (int32_t i = 0; i < p->n_notes; i++)
        lw_printf_paragraph(f, "  note: %s", p->notes[i]);
    if (!lw_output_is_stdout(s->plan_file)) {
        fputs("next: lapwing", f);
        put_word(f, "sim", s->plan_file);
        fputs("\n  sim repeats it, and a step may begin before the last has ended on every rank;\n"
              "  sim --replay of what was imported runs it once\n", f);
    }
}

enum lw_status traces_import_print(const struct traces_import_summary *s, enum lw_format format,
                                   FILE *f, struct lw_err *err)
{
    const struct traces_converted *c = s->converted;

    if (format == LW_FORMAT_JSON)
        return print_json(s, f);
    if (format == LW_FORMAT_CSV)
        return s->workload_file ? modules_csv(&c->workload, f, err)
               : s->cluster_file ? tables_csv(&c->cluster, f, err)
                                 : LW_OK;
    if (s->workload_file)
        LW_TRY(workload_text(&c->workload, &c->coverage, s->workload_file, f, err));
    if (s->plan_file)
        plan_text(s, f);
    if (s->cluster_file)
        LW_TRY(cluster_text(&c->cluster, s->cluster_file, f, err));
    if (s->workload_file)
        LW_TRY(next_text(s, f, err));
    if (s->run > 0)
        fprintf(f, "stored as run %lld\n", (long long)s->run);
    return LW_OK;
}
