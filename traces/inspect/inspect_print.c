/* The answer of `lapwing inspect`: JSON by the contract of the command line, tables for people.
 * Traces are kept (their rows hold every text), file texts are not. */
#include "traces/inspect/inspect_print.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/json/jsonout.h"
#include "shared/text/wrap.h"
#include "traces/inspect/inspect_host_bound.h"
#include "traces/inspect/inspect_profile.h"
#include "traces/inspect/inspect_rows.h"

/* Several files of one format that has something to say of them together. */
static bool compared(const struct traces_report *r)
{
    for (int64_t i = 1; i < r->n; i++)
        if (r->files[i].importer != r->files[0].importer)
            return false;
    return r->n > 1 && r->files[0].importer->compare_text;
}

static const void **all_facts(const struct traces_report *r)
{
    const void **facts = lw_alloc((size_t)r->n * sizeof *facts);

    for (int64_t i = 0; facts && i < r->n; i++)
        facts[i] = r->files[i].facts;
    return facts;
}

/* ---- JSON ---- */

static void put_window(struct lw_jsonout *o, const char *key, const struct lw_busy *b)
{
    lw_jsonout_line_object(o, key);
    inspect_json_busy(o, b, true);
    lw_jsonout_end(o);
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
        inspect_json_busy(o, &it->by_launch, false);
        LW_JSON(o, "span_ns", it->by_launch.window_ns, "idle_within_span_ns", it->by_launch.idle_ns,
                "n_gpu_ops", it->n_gpu_ops);
        lw_jsonout_end(o);
    }
    lw_jsonout_int(o, "n_comm", it->n_comm);
    lw_jsonout_array(o, "comm_ops");
    for (int64_t i = 0; i < it->n_comm; i++) {
        lw_jsonout_line_object(o, NULL);
        inspect_json_comm(o, &it->comm[i]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    traces_put_host_use(o, f, k);
    lw_jsonout_end(o);
}

static void put_step(struct lw_jsonout *o, const struct lw_trace *t, const struct lw_step *s)
{
    lw_jsonout_object(o, NULL);
    LW_JSON(o, "name", s->name, "step_ns", s->end_ns - s->start_ns);
    inspect_json_step(o, s);
    lw_jsonout_array(o, "collectives");
    for (int64_t i = 0; i < s->n_collectives; i++)
        inspect_json_collective(o, t, s, s->collectives[i]);
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

/* What the format itself counts, by its own names. */
static void put_trace_counts(struct lw_jsonout *o, const struct lw_trace *t)
{
    if (t->n_counts == 0)
        return;
    lw_jsonout_object(o, "counts");
    for (int64_t i = 0; i < t->n_counts; i++) {
        const struct lw_trace_count *c = &t->counts[i];
        if (!c->values) {
            lw_jsonout_maybe(o, c->key, lw_known(c->value));
            continue;
        }
        lw_jsonout_line_array(o, c->key);
        for (int64_t k = 0; k < c->n; k++)
            lw_jsonout_int(o, NULL, c->values[k]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static enum lw_status put_file(struct lw_jsonout *o, const struct traces_report_file *f,
                               bool reported, struct lw_err *err)
{
    lw_jsonout_object(o, NULL);
    LW_JSON(o, "file", f->name, "format", f->importer->name);
    if (!f->importer->timeline)
        return put_counts(o, f, err);
    LW_JSON(o, "damage", f->trace.damage >= 0 ? lw_trace_text(&f->trace, f->trace.damage) : NULL,
            "rank", lw_known(f->trace.rank), "world_size", lw_known(f->trace.world_size),
            "n_events", f->trace.n_events, "n_gpu_ops", f->device.n_device_rows,
            "n_gpu_ops_with_launch", f->device.n_resolved, "n_lost_launches", f->device.n_lost,
            "n_repeated_gpu_ops", f->device.n_repeated, "n_repaired_bytes",
            f->trace.n_repaired, "n_timeless_events", f->trace.n_timeless);
    if (f->trace.joined >= 0)
        LW_JSON(o, "execution_trace", lw_trace_text(&f->trace, f->trace.joined));
    if (f->device.has_device)
        put_window(o, "whole_gpu_span", &f->device.whole);
    else
        lw_jsonout_null(o, "whole_gpu_span");
    lw_jsonout_array(o, "iterations");
    for (int64_t i = 0; i < f->device.n_iterations; i++)
        put_iteration(o, f, i);
    lw_jsonout_end(o);
    put_trace_counts(o, &f->trace);
    lw_jsonout_array(o, "host_steps");
    for (int64_t i = 0; i < f->steps.n; i++)
        put_step(o, &f->trace, &f->steps.steps[i]);
    lw_jsonout_end(o);
    traces_put_host_bound(o, f);
    if (reported)
        traces_put_profile(o, f);
    lw_jsonout_end(o);
    return LW_OK;
}

enum lw_status traces_report_json(const struct traces_report *r, FILE *f, struct lw_err *err)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "files");
    for (int64_t i = 0; i < r->n; i++)
        LW_TRY(put_file(&o, &r->files[i], r->report, err));
    lw_jsonout_end(&o);
    if (compared(r)) {
        const void **facts = all_facts(r);
        enum lw_status status =
            facts ? r->files[0].importer->compare_json(facts, (int)r->n, &o, err)
                  : lw_fail_nomem(err);
        lw_free(facts);
        LW_TRY(status);
    }
    traces_put_cross_rank(&o, r);
    traces_put_profiles(&o, r);
    lw_jsonout_end(&o);
    return LW_OK;
}

/* ---- text ---- */

static enum lw_status text_head(const struct traces_report_file *file, FILE *out,
                                struct lw_err *err)
{
    const struct lw_trace *t = &file->trace;
    struct lw_paragraph head;
    FILE *f = lw_paragraph_open(&head, out, NULL);

    fprintf(f, "%s: %s, %lld events", file->name, file->importer->name,
            (long long)t->n_events);
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
    if (t->joined >= 0)
        lw_printf_paragraph(out, "  %s", lw_trace_text(t, t->joined));
    if (t->n_repaired > 0)
        lw_printf_paragraph(out,
                            "  note: names hold %lld raw control characters, quotes or backslashes "
                            "that JSON does not allow; they were replaced",
                            (long long)t->n_repaired);
    if (t->n_timeless > 0)
        lw_printf_paragraph(out, "  note: %lld event%s with ts 0 set aside",
                            (long long)t->n_timeless, lw_plural(t->n_timeless));
    if (file->device.n_repeated > 0)
        lw_printf_paragraph(out,
                            "  note: %lld device op%s there twice, with the same launch, stream, "
                            "start and length: sums count both; write the trace again",
                            (long long)file->device.n_repeated,
                            file->device.n_repeated == 1 ? " is" : "s are");
    if (file->device.n_lost > 0)
        lw_printf_paragraph(out,
                            "  note: %lld launch%s without a device op: the recorder lost their "
                            "kernels, so the device's times are too short",
                            (long long)file->device.n_lost, file->device.n_lost == 1 ? "" : "es");
    if (t->n_devices > 1)
        lw_printf_paragraph(out,
                            "  note: ops of %d devices; streams of the k-th further one are "
                            "numbered from k * %d",
                            t->n_devices, LW_DEVICE_STREAMS);
    if (t->n_negative > 0)
        fprintf(out, "  note: %lld negative durations taken as 0\n", (long long)t->n_negative);
    return LW_OK;
}

static enum lw_status text_file(const struct traces_report *r,
                                const struct traces_report_file *file, FILE *f,
                                struct lw_err *err)
{
    if (!file->importer->timeline)
        return file->importer->text(file->facts, file->name, f, err);
    LW_TRY(text_head(file, f, err));
    struct inspect_rows rows = {0};
    char buf[32];
    enum lw_status status = inspect_rows_add(&rows, file, err);
    if (status == LW_OK)
        status = inspect_rows_text(&rows, r->all, f, err);
    lw_free(rows.v);
    LW_TRY(status);
    if (file->device.whole.barrier_ns > 0)
        lw_printf_paragraph(f,
                            "  barriers: %s in the whole file, waiting for other ranks: idle time, "
                            "not communication",
                            lw_format_ps(buf, lw_ns_to_ps(file->device.whole.barrier_ns)));
    LW_TRY(traces_text_host_bound(file, r->all, f, err));
    return r->report ? traces_text_profile(file, f, err) : LW_OK;
}

enum lw_status traces_report_text(const struct traces_report *r, FILE *f, struct lw_err *err)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (i > 0)
            fputc('\n', f);
        LW_TRY(text_file(r, &r->files[i], f, err));
    }
    if (compared(r)) {
        const void **facts = all_facts(r);
        fputc('\n', f);
        enum lw_status status =
            facts ? r->files[0].importer->compare_text(facts, (int)r->n, f, err)
                  : lw_fail_nomem(err);
        lw_free(facts);
        LW_TRY(status);
    }
    LW_TRY(traces_text_cross_rank(r, f, err));
    return traces_text_profiles(r, f, err);
}

/* ---- what cannot be shown ---- */

enum lw_status traces_report_check(const struct traces_report *r, bool csv, struct lw_err *err)
{
    bool reports = r->n == 0;

    for (int64_t i = 0; i < r->n; i++) {
        const struct lw_importer *m = r->files[i].importer;
        if (csv && !m->timeline && !m->measured)
            return lw_fail(err, LW_ENOTSUP,
                           "%s: --format csv has rows of timelines and of measured collectives, a "
                           "file of format %s holds neither: --format json has all that is shown",
                           r->files[i].name, m->name);
        reports = reports || m->timeline || m->reports;
    }
    if (r->report && !reports)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: --report is about recorded times of a device, a file of format %s "
                       "holds none: without it inspect shows what the file holds%s%s%s",
                       r->files[0].name, r->files[0].importer->name,
                       r->files[0].importer->plan ? "; 'lapwing sim --replay " : "",
                       r->files[0].importer->plan ? r->files[0].name : "",
                       r->files[0].importer->plan ? "' and then 'lapwing explain last' or 'lapwing "
                                                    "report last' show its step" : "");
    return LW_OK;
}

/* ---- CSV ---- */

enum lw_status traces_report_csv(const struct traces_report *r, FILE *f, struct lw_err *err)
{
    struct inspect_rows rows = {0};
    enum lw_status status = LW_OK;

    for (int64_t i = 0; i < r->n && status == LW_OK; i++)
        status = inspect_rows_add(&rows, &r->files[i], err);
    if (status == LW_OK)
        status = inspect_rows_csv(&rows, f, err);
    lw_free(rows.v);
    return status;
}
