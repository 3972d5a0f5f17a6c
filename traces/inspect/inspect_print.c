/* The answer of `lapwing inspect`: JSON by the contract of the command line, tables for people.
 * Traces are kept (their rows hold every text), file texts are not. */
#include "traces/inspect/inspect_print.h"

#include <string.h>

#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "traces/inspect/inspect_host_bound.h"
#include "traces/inspect/longest.h"

/* ---- JSON ---- */

static void put_busy(struct lw_jsonout *o, const struct lw_busy *b)
{
    LW_JSON(o, "compute_busy_ns", b->compute_busy_ns, "comm_busy_ns", b->comm_busy_ns,
            "mem_busy_ns", b->mem_busy_ns, "exposed_comm_ns", b->exposed_comm_ns,
            "exposed_mem_ns", b->exposed_mem_ns);
}

static void put_window(struct lw_jsonout *o, const char *key, const struct lw_busy *b)
{
    lw_jsonout_line_object(o, key);
    lw_jsonout_int(o, "window_ns", b->window_ns);
    put_busy(o, b);
    lw_jsonout_int(o, "idle_ns", b->idle_ns);
    lw_jsonout_end(o);
}

static void put_comm(struct lw_jsonout *o, const struct lw_comm_op *c)
{
    LW_JSON_ROW(o, NULL, "op", c->op, "kernel", c->kernel, "stream", lw_known(c->stream),
                "launch_ns", c->launch_ns, "start_ns", c->start_ns, "dur_ns", c->dur_ns,
                "dtype", c->dtype, "bytes", lw_known(c->bytes),
                "group_size", lw_known(c->group_size));
}

static void put_iteration(struct lw_jsonout *o, const struct traces_report_file *f, int64_t k)
{
    const struct lw_iteration *it = &f->device.iterations[k];

    lw_jsonout_object(o, NULL);
    lw_jsonout_string(o, "name", it->name);
    put_window(o, "by_time", &it->by_time);
    if (it->n_gpu_ops == 0) {
        lw_jsonout_null(o, "by_launch");
    } else {
        lw_jsonout_line_object(o, "by_launch");
        put_busy(o, &it->by_launch);
        LW_JSON(o, "span_ns", it->by_launch.window_ns, "idle_within_span_ns", it->by_launch.idle_ns,
                "n_gpu_ops", it->n_gpu_ops);
        lw_jsonout_end(o);
    }
    lw_jsonout_int(o, "n_comm", it->n_comm);
    lw_jsonout_array(o, "comm_ops");
    for (int64_t i = 0; i < it->n_comm; i++)
        put_comm(o, &it->comm[i]);
    lw_jsonout_end(o);
    traces_put_host_use(o, f, k);
    lw_jsonout_end(o);
}

static void put_collective(struct lw_jsonout *o, const struct lw_trace *t, const struct lw_step *s,
                           int64_t row)
{
    const struct lw_row_detail *d = t->detail[row] >= 0 ? &t->details[t->detail[row]] : NULL;

    LW_JSON_ROW(o, NULL, "op", lw_trace_name(t, row) + strlen("gloo:"),
                "start_ns", t->start_ns[row] - s->start_ns, "dur_ns", t->dur_ns[row],
                "dtype", d && d->shape_type >= 0 ? lw_trace_text(t, d->shape_type) : NULL,
                "numel", lw_known(traces_host_numel(t, row)),
                "bytes", lw_known(traces_host_bytes(t, row)));
}

static void put_step(struct lw_jsonout *o, const struct lw_trace *t, const struct lw_step *s)
{
    static const char *const keys[LW_N_PHASES] = {"zero_grad_ns", "forward_ns", "backward_ns",
                                                  "optimizer_ns"};

    lw_jsonout_object(o, NULL);
    LW_JSON(o, "name", s->name, "step_ns", s->end_ns - s->start_ns);
    for (int p = 0; p < LW_N_PHASES; p++)
        LW_JSON(o,
                keys[p], lw_known_if(s->phase[p].found, s->phase[p].end_ns - s->phase[p].start_ns));
    lw_jsonout_int(o, "n_gradients", s->n_gradients);
    lw_jsonout_array(o, "collectives");
    for (int64_t i = 0; i < s->n_collectives; i++)
        put_collective(o, t, s, s->collectives[i]);
    lw_jsonout_end(o);
    lw_jsonout_end(o);
}

/* What has no timeline: the keys of the contract are there, and empty. */
static enum lw_status put_counts(struct lw_jsonout *o, const struct traces_report_file *f,
                                 struct lw_err *err)
{
    lw_jsonout_null(o, "rank");
    lw_jsonout_null(o, "world_size");
    lw_jsonout_null(o, "whole_gpu_span");
    lw_jsonout_array(o, "iterations");
    lw_jsonout_end(o);
    if (f->importer->json)
        LW_TRY(f->importer->json(f->facts, o, err));
    lw_jsonout_end(o);
    return LW_OK;
}

static enum lw_status put_file(struct lw_jsonout *o, const struct traces_report_file *f,
                               struct lw_err *err)
{
    lw_jsonout_object(o, NULL);
    LW_JSON(o, "file", f->name, "format", f->importer->name);
    if (!f->importer->timeline)
        return put_counts(o, f, err);
    LW_JSON(o, "damage", f->trace.damage >= 0 ? lw_trace_text(&f->trace, f->trace.damage) : NULL,
            "rank", lw_known(f->trace.rank), "world_size", lw_known(f->trace.world_size),
            "n_events", f->trace.n_events, "n_gpu_ops", f->device.n_device_rows,
            "n_gpu_ops_with_launch", f->device.n_resolved);
    if (f->device.has_device)
        put_window(o, "whole_gpu_span", &f->device.whole);
    else
        lw_jsonout_null(o, "whole_gpu_span");
    lw_jsonout_array(o, "iterations");
    for (int64_t i = 0; i < f->device.n_iterations; i++)
        put_iteration(o, f, i);
    lw_jsonout_end(o);
    lw_jsonout_array(o, "host_steps");
    for (int64_t i = 0; i < f->steps.n; i++)
        put_step(o, &f->trace, &f->steps.steps[i]);
    lw_jsonout_end(o);
    traces_put_host_bound(o, f);
    lw_jsonout_end(o);
    return LW_OK;
}

enum lw_status traces_report_json(const struct traces_report *r, FILE *f, struct lw_err *err)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "files");
    for (int64_t i = 0; i < r->n; i++)
        LW_TRY(put_file(&o, &r->files[i], err));
    lw_jsonout_end(&o);
    traces_put_cross_rank(&o, r);
    lw_jsonout_end(&o);
    return LW_OK;
}

/* ---- text ---- */

static void busy_row(struct lw_table *t, const char *name, const char *window,
                     const struct lw_busy *b)
{
    LW_CELLS(t, name, window, LW_NS(b->window_ns), LW_NS(b->compute_busy_ns),
             LW_NS(b->comm_busy_ns), LW_NS(b->exposed_comm_ns), LW_NS(b->exposed_mem_ns),
             LW_NS(b->idle_ns));
}

static enum lw_status text_device(const struct lw_inspection *d, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"device", "window", ">length", ">compute", ">comm",
                                         ">exposed comm", ">exposed copies", ">idle"};
    struct lw_table *t = lw_table_new(8, titles);

    busy_row(t, "whole file", "all", &d->whole);
    for (int64_t i = 0; i < d->n_iterations; i++) {
        const struct lw_iteration *it = &d->iterations[i];
        busy_row(t, it->name, "by time", &it->by_time);
        if (it->n_gpu_ops > 0)
            busy_row(t, it->name, "by launch", &it->by_launch);
    }
    return lw_table_end(t, f, 2, err);
}

static enum lw_status text_comm(const struct lw_inspection *d, bool all, FILE *f,
                                struct lw_err *err)
{
    static const char *const titles[] = {"communication in", "op", ">bytes", "dtype", ">group",
                                         ">stream", ">launch", ">start", ">length"};
    struct lw_table *t = lw_table_new(9, titles);
    struct traces_longest shown = {.all = all};

    for (int64_t i = 0; i < d->n_iterations; i++)
        for (int64_t k = 0; k < d->iterations[i].n_comm; k++)
            traces_longest_add(&shown, d->iterations[i].comm[k].dur_ns);
    for (int64_t i = 0; i < d->n_iterations; i++)
        for (int64_t k = 0; k < d->iterations[i].n_comm; k++) {
            const struct lw_comm_op *c = &d->iterations[i].comm[k];
            if (!traces_longest_shows(&shown, c->dur_ns))
                continue;
            LW_CELLS(t, d->iterations[i].name, c->op ? c->op : c->kernel, LW_COUNT(c->bytes),
                     c->dtype, LW_COUNT(c->group_size), LW_COUNT(c->stream), LW_NS(c->launch_ns),
                     LW_NS(c->start_ns), LW_NS(c->dur_ns));
        }
    LW_TRY(lw_table_end(t, f, 2, err));
    traces_longest_note(&shown, f);
    return LW_OK;
}

static enum lw_status text_steps(const struct lw_steps *s, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"host",      ">step",      ">zero_grad", ">forward",
                                         ">backward", ">optimizer", ">gradients"};
    struct lw_table *t = lw_table_new(7, titles);

    for (int64_t i = 0; i < s->n; i++) {
        const struct lw_step *step = &s->steps[i];
        LW_CELLS(t, step->name, LW_NS(step->end_ns - step->start_ns));
        for (int p = 0; p < LW_N_PHASES; p++) {
            if (step->phase[p].found)
                LW_CELLS(t, LW_NS(step->phase[p].end_ns - step->phase[p].start_ns));
            else
                lw_table_cell(t, "-");
        }
        lw_table_int(t, step->n_gradients);
    }
    return lw_table_end(t, f, 2, err);
}

static enum lw_status text_collectives(const struct traces_report_file *file, bool all, FILE *f,
                                       struct lw_err *err)
{
    static const char *const titles[] = {"host collective in", "op", ">elements", ">bytes",
                                         ">start", ">length"};
    struct lw_table *t = lw_table_new(6, titles);
    struct traces_longest shown = {.all = all};

    for (int64_t i = 0; i < file->steps.n; i++)
        for (int64_t k = 0; k < file->steps.steps[i].n_collectives; k++)
            traces_longest_add(&shown, file->trace.dur_ns[file->steps.steps[i].collectives[k]]);
    for (int64_t i = 0; i < file->steps.n; i++)
        for (int64_t k = 0; k < file->steps.steps[i].n_collectives; k++) {
            const struct lw_step *s = &file->steps.steps[i];
            int64_t row = s->collectives[k];
            if (!traces_longest_shows(&shown, file->trace.dur_ns[row]))
                continue;
            LW_CELLS(t, s->name, lw_trace_name(&file->trace, row) + strlen("gloo:"),
                     LW_COUNT(traces_host_numel(&file->trace, row)),
                     LW_COUNT(traces_host_bytes(&file->trace, row)),
                     LW_NS(file->trace.start_ns[row] - s->start_ns),
                     LW_NS(file->trace.dur_ns[row]));
        }
    LW_TRY(lw_table_end(t, f, 2, err));
    traces_longest_note(&shown, f);
    return LW_OK;
}

static enum lw_status text_head(const struct traces_report_file *file, FILE *out,
                                struct lw_err *err)
{
    const struct lw_trace *t = &file->trace;
    struct lw_paragraph head;
    FILE *f = lw_paragraph_open(&head, out, NULL);

    fprintf(f, "%s: kineto, %lld events", file->name, (long long)t->n_events);
    if (t->rank >= 0)
        fprintf(f, ", rank %d", t->rank);
    if (t->world_size >= 0)
        fprintf(f, " of %d", t->world_size);
    if (t->device >= 0)
        fprintf(f, ", %s", lw_trace_text(t, t->device));
    if (file->device.has_device)
        fprintf(f, ", %lld device ops (%lld with their launch)",
                (long long)file->device.n_device_rows, (long long)file->device.n_resolved);
    else
        fprintf(f, ", host only");
    fprintf(f, ", %lld step%s by %s", (long long)file->steps.n, lw_plural(file->steps.n),
            file->steps.found_by);
    LW_TRY(lw_paragraph_close(&head, err));
    if (t->damage >= 0)
        lw_printf_paragraph(out, "  salvaged: the events before %s", lw_trace_text(t, t->damage));
    if (t->n_negative > 0)
        fprintf(out, "  note: %lld negative durations taken as 0\n", (long long)t->n_negative);
    return LW_OK;
}

static bool any_comm(const struct lw_inspection *d)
{
    for (int64_t i = 0; i < d->n_iterations; i++)
        if (d->iterations[i].n_comm > 0)
            return true;
    return false;
}

static bool any_collective(const struct lw_steps *s)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->steps[i].n_collectives > 0)
            return true;
    return false;
}

static enum lw_status text_file(const struct traces_report_file *file, bool all, FILE *f,
                                struct lw_err *err)
{
    if (!file->importer->timeline)
        return file->importer->text(file->facts, file->name, f, err);
    LW_TRY(text_head(file, f, err));
    if (file->device.has_device)
        LW_TRY(text_device(&file->device, f, err));
    if (any_comm(&file->device))
        LW_TRY(text_comm(&file->device, all, f, err));
    if (file->steps.n > 0)
        LW_TRY(text_steps(&file->steps, f, err));
    if (any_collective(&file->steps))
        LW_TRY(text_collectives(file, all, f, err));
    return traces_text_host_bound(file, f, err);
}

enum lw_status traces_report_text(const struct traces_report *r, FILE *f, struct lw_err *err)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (i > 0)
            fputc('\n', f);
        LW_TRY(text_file(&r->files[i], r->all, f, err));
    }
    return traces_text_cross_rank(r, f, err);
}
