/* Classes, waits, host-bound stretches and collectives over ranks, as JSON and as text. */
#include "traces/inspect/inspect_host_bound.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/median.h"

#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "traces/inspect/inspect_rows.h"

static const char *source_name(enum traces_wait_source s)
{
    static const char *const names[] = {"unknown", "recorded", "inferred"};

    return names[s];
}

/* ---- JSON ---- */

void traces_put_host_use(struct lw_jsonout *o, const struct traces_report_file *f, int64_t k)
{
    const struct traces_host_use *u = &f->host_bound.host[k];

    lw_jsonout_object(o, "host");
    LW_JSON(o, "n_launches", u->n_launches, "launch_ns", u->launch_ns, "n_blocking", u->n_blocking,
            "blocking_ns", u->blocking_ns, "host_bound_ns", u->host_bound_ns);
    lw_jsonout_array(o, "host_bound");
    for (int64_t i = 0; i < u->n_stretches; i++) {
        const struct traces_stretch *s = &u->stretches[i];
        LW_JSON_ROW(o, NULL, "start_ns", s->start_ns, "end_ns", s->end_ns,
                    "launch_ns", s->launch_ns, "next", lw_trace_name(&f->trace, s->row));
    }
    lw_jsonout_end(o);
    lw_jsonout_end(o);
}

static void put_wait(struct lw_jsonout *o, const struct traces_report_file *f,
                     const struct traces_call *c)
{
    const struct lw_trace *t = &f->trace;
    int64_t base = t->n > 0 ? t->start_ns[0] : 0;
    int64_t upto = c->upto >= 0 ? t->start_ns[f->host_bound.calls.calls[c->upto].row] - base : 0;

    LW_JSON_ROW(o, NULL, "kind", traces_call_kind_name(c->kind),
                "at_ns", t->start_ns[c->row] - base,
                "stream", lw_known(c->kind == TRACES_CALL_STREAM_WAIT ? c->stream : -1),
                "on_stream", lw_known(c->on_stream), "upto_ns", lw_known_if(c->upto >= 0, upto),
                "source", source_name(c->source));
}

void traces_put_host_bound(struct lw_jsonout *o, const struct traces_report_file *f)
{
    const struct traces_host_bound *m = &f->host_bound;

    lw_jsonout_object(o, "kernel_classes");
    for (int c = 0; c < LW_N_KERNEL_CLASSES; c++)
        LW_JSON_ROW(o, lw_kernel_class_name((enum lw_kernel_class)c), "n", m->classes[c].n,
                    "total_ns", m->classes[c].total_ns);
    lw_jsonout_end(o);
    lw_jsonout_array(o, "waits");
    for (int64_t i = 0; i < m->calls.n; i++)
        if (m->calls.calls[i].kind >= TRACES_CALL_STREAM_WAIT)
            put_wait(o, f, &m->calls.calls[i]);
    lw_jsonout_end(o);
}

#define AT(field) offsetof(struct traces_matched, field)
static const struct lw_column matched_columns[] = {
    {"kernel", "collective", LW_COLUMN_STRING, AT(kernel), .digits = 40},
    {"same_kernel", NULL, LW_COLUMN_FLAG, AT(same_kernel)},
    {"transfer_ns", ">transfer", LW_COLUMN_NS, AT(transfer_ns)},
    {"longest_ns", ">longest", LW_COLUMN_NS, AT(longest_ns)},
    {"start_skew_ns", ">start skew", LW_COLUMN_NS, AT(start_skew_ns)},
    {"end_skew_ns", ">end skew", LW_COLUMN_NS, AT(end_skew_ns)},
    {"last_start_to_last_end_ns", NULL, LW_COLUMN_NS, AT(last_start_to_last_end_ns)},
};

static void put_class(struct lw_jsonout *o, const struct traces_report *r,
                      const struct traces_comm_class *c)
{
    lw_jsonout_object(o, NULL);
    lw_jsonout_string(o, "group", c->name);
    lw_jsonout_line_array(o, "ranks");
    for (int32_t k = 0; k < c->n_members; k++)
        lw_jsonout_int(o, NULL, r->files[c->members[k]].trace.rank);
    lw_jsonout_end(o);
    LW_JSON(o, "matched", c->matched, "why_not", c->matched ? NULL : c->why);
    lw_records_json(o, &LW_RECORDS("ops", matched_columns, c->ops, c->matched ? c->n : 0));
    lw_jsonout_end(o);
}

void traces_put_cross_rank(struct lw_jsonout *o, const struct traces_report *r)
{
    if (r->apart)
        lw_jsonout_string(o, "not_one_run", r->apart);
    if (!r->one_run)
        return;
    lw_jsonout_object(o, "cross_rank");
    lw_jsonout_array(o, "clocks");
    for (int64_t k = 0; k < r->n; k++)
        LW_JSON_ROW(o, NULL, "rank", r->files[k].trace.rank,
                    "ends_later_ns", lw_known_if(r->cross.clock_known[k], r->cross.clock_ns[k]));
    lw_jsonout_end(o);
    lw_jsonout_array(o, "groups");
    for (int32_t c = 0; c < r->cross.n_classes; c++)
        put_class(o, r, &r->cross.classes[c]);
    lw_jsonout_end(o);
    lw_jsonout_end(o);
}

/* ---- text ---- */

/* The steps whose host used most time in launches and waiting: at least as much as the last of
 * those that are shown. */
static enum lw_status shown_from(const struct traces_report_file *f, bool all, int64_t *least,
                                 struct lw_err *err)
{
    int64_t n = f->device.n_iterations, *v;

    *least = INT64_MIN;
    if (all || n <= INSPECT_STEPS_SHOWN)
        return LW_OK;
    LW_NEW(v, n, err);
    for (int64_t k = 0; k < n; k++)
        v[k] = f->host_bound.host[k].host_bound_ns;
    lw_sort(v, n, lw_compare_int64);
    *least = v[n - INSPECT_STEPS_SHOWN];
    lw_free(v);
    return LW_OK;
}

static enum lw_status text_host(const struct traces_report_file *f, bool all, FILE *out,
                                struct lw_err *err)
{
    int64_t least, n_shown = 0;

    LW_TRY(shown_from(f, all, &least, err));
    static const char *const titles[] = {
        "host in",  ">launches",   ">in them", ">blocking",
        ">in them", ">host-bound", ">longest", "waiting for the launch of"};
    struct lw_table *t = lw_table_new(8, titles);

    for (int64_t k = 0; k < f->device.n_iterations; k++) {
        const struct traces_host_use *u = &f->host_bound.host[k];
        const struct traces_stretch *longest = NULL;
        if (u->host_bound_ns < least || (!all && n_shown == INSPECT_STEPS_SHOWN))
            continue;
        n_shown++;
        for (int64_t i = 0; i < u->n_stretches; i++)
            if (!longest || u->stretches[i].end_ns - u->stretches[i].start_ns >
                                longest->end_ns - longest->start_ns)
                longest = &u->stretches[i];
        LW_CELLS(t, f->device.iterations[k].name, u->n_launches, LW_NS(u->launch_ns),
                 u->n_blocking, LW_NS(u->blocking_ns), LW_NS(u->host_bound_ns),
                 LW_NS(longest ? longest->end_ns - longest->start_ns : 0));
        lw_table_cell(t, "%.40s", longest ? lw_trace_name(&f->trace, longest->row) : "-");
    }
    LW_TRY(lw_table_end(t, out, 2, err));
    if (n_shown < f->device.n_iterations)
        fprintf(out, "  the %lld most host-bound of %lld steps; --all prints every one\n",
                (long long)n_shown, (long long)f->device.n_iterations);
    return LW_OK;
}

enum lw_status traces_text_host_bound(const struct traces_report_file *f, bool all, FILE *out,
                                      struct lw_err *err)
{
    const struct traces_host_bound *m = &f->host_bound;
    struct lw_paragraph kernels;
    char text[32];

    if (!f->device.has_device)
        return LW_OK;
    FILE *line = lw_paragraph_open(&kernels, out, NULL);
    fprintf(line, "  kernels:");
    for (int c = 0; c < LW_N_KERNEL_CLASSES; c++)
        fprintf(line, "%s %lld %s (%s)", c ? "," : "", (long long)m->classes[c].n,
                lw_kernel_class_name((enum lw_kernel_class)c),
                lw_format_ns(text, m->classes[c].total_ns));
    fprintf(line, "; waits: %lld recorded, %lld inferred, %lld unknown",
            (long long)m->n_waits[TRACES_WAIT_RECORDED],
            (long long)m->n_waits[TRACES_WAIT_INFERRED],
            (long long)m->n_waits[TRACES_WAIT_UNKNOWN]);
    LW_TRY(lw_paragraph_close(&kernels, err));
    return f->device.n_iterations > 0 ? text_host(f, all, out, err) : LW_OK;
}

static enum lw_status text_class(const struct traces_comm_class *c, bool all, FILE *out,
                                 struct lw_err *err)
{
    struct lw_records r = LW_RECORDS(NULL, matched_columns, c->ops, c->n);

    r.most = all ? 0 : INSPECT_SHOWN;
    r.largest = AT(transfer_ns);
    LW_TRY(lw_records_text(&r, out, 2, err));
    inspect_left_out(&r, "collectives", out);
    return LW_OK;
}

/* Names of files are of any length. */
static enum lw_status text_apart(const char *apart, FILE *out, struct lw_err *err)
{
    struct lw_paragraph p;

    fputc('\n', out);
    fprintf(lw_paragraph_open(&p, out, NULL), "not of one run, so ranks are not compared: %s",
            apart);
    return lw_paragraph_close(&p, err);
}

enum lw_status traces_text_cross_rank(const struct traces_report *r, FILE *out, struct lw_err *err)
{
    char text[32];

    if (r->apart)
        LW_TRY(text_apart(r->apart, out, err));
    if (!r->one_run)
        return LW_OK;
    lw_printf_paragraph(
        out,
        "\nranks of one run: collectives matched by order, transfer is the shortest of the ranks'");
    for (int64_t k = 0; k < r->n; k++)
        if (r->cross.clock_known[k] && k > 0)
            lw_printf_paragraph(
                out, "  ends of rank %d are %s later than those of rank %d (median)",
                r->files[k].trace.rank, lw_format_ns(text, r->cross.clock_ns[k]),
                r->files[0].trace.rank);
    for (int32_t c = 0; c < r->cross.n_classes; c++) {
        const struct traces_comm_class *x = &r->cross.classes[c];
        lw_printf_paragraph(out, "  group '%s', %d ranks%s%s", x->name, x->n_members,
                            x->matched ? "" : ": not matched, ", x->why);
        if (x->matched)
            LW_TRY(text_class(x, r->all, out, err));
    }
    return LW_OK;
}
