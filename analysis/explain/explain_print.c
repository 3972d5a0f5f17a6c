/* An explanation as text, JSON and CSV (one line a cause). Text joins neighbours on the critical
 * path that have one rank, cause and kind, and leaves out short pieces where there are many;
 * JSON has all of them. */
#include "analysis/explain/explain_print.h"

#include <stdlib.h>
#include <string.h>

#include "shared/text/table.h"
#include "shared/plan/plan.h"
#include "shared/timeline/period_figures.h"
#include "shared/timeline/summary_print.h"
#include "shared/text/wrap.h"

enum { PIECES_SHOWN = 10 };

static double ms(lw_ps t)
{
    return (double)t / (double)LW_PS_PER_MS;
}

static double share(lw_ps part, lw_ps whole)
{
    return lw_percent((double)part, (double)whole);
}

/* --- charges ---------------------------------------------------------------------------------- */

static enum lw_status charge_csv(const struct lw_explanation *e, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"cause", "time_ns", "share_pct", "exposed_comm_ns",
                                         "critical_path_ns"};
    struct lw_table *t = lw_table_new(5, titles);

    for (int c = 0; c < LW_N_CAUSES; c++) {
        lw_ns time = lw_ps_to_ns(e->charge[c]);
        LW_CELLS(t, lw_cause_key((enum lw_cause)c), time,
                 lw_decimals(share(e->charge[c], e->measure.end - e->measure.start), 3),
                 lw_cause_is_exposed((enum lw_cause)c) ? time : 0, lw_ps_to_ns(e->on_path[c]));
    }
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}

static void charge_row(struct lw_table *t, const struct lw_explanation *e, const char *name,
                       lw_ps time, lw_ps on_path)
{
    LW_CELLS(t, name, lw_decimals(ms(time), 3),
             lw_decimals(share(time, e->measure.end - e->measure.start), 1));
    lw_table_cell(t, on_path < 0 ? "" : "%.3f", ms(on_path));
}

/* For whom the rank waited, below the row of all waits. */
static void wait_rows(struct lw_table *t, const struct lw_explanation *e)
{
    char name[32];

    for (int i = 0; i < LW_N_WAITS; i++) {
        snprintf(name, sizeof name, "  %s", lw_period_figure_title(LW_FIGURE_WAIT + i));
        if (e->measure.wait[i] > 0)
            charge_row(t, e, name, e->measure.wait[i], -1);
    }
}

static enum lw_status put_charges(const struct lw_explanation *e, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"cause", ">ms", ">% of period",
                                         ">on the critical path ms"};
    struct lw_table *t = lw_table_new(4, titles);

    for (int c = 0; c < LW_N_CAUSES; c++) {
        if (e->charge[c] == 0 && e->on_path[c] == 0)
            continue;
        charge_row(t, e, lw_cause_name((enum lw_cause)c), e->charge[c], e->on_path[c]);
        if (c == LW_CAUSE_WAIT)
            wait_rows(t, e);
    }
    charge_row(t, e, "all", e->measure.end - e->measure.start, e->length);
    return lw_table_end(t, f, 0, err);
}

/* --- the critical path ------------------------------------------------------------------------ */

/* Neighbours that read the same: compute of one kind with the copies between, or one op. */
struct stretch {
    struct lw_path_part first;
    lw_ps to;
    int32_t n_ops, n_copies, last_op;
    bool shown;
};

static enum lw_op_kind kind_of(const struct lw_explain_report *r, const struct lw_path_part *p)
{
    return r->plan->ops[p->op].kind;
}

static bool continues(const struct lw_explain_report *r, const struct stretch *s,
                      const struct lw_path_part *p)
{
    if (s->first.rank != p->rank)
        return false;
    if (s->first.cause == LW_CAUSE_COMPUTE)
        return p->cause == LW_CAUSE_COPY ||
               (p->cause == LW_CAUSE_COMPUTE && kind_of(r, &s->first) == kind_of(r, p));
    return s->first.cause == p->cause && (p->cause == LW_CAUSE_COPY || s->last_op == p->op);
}

static int64_t join(const struct lw_explain_report *r, struct stretch *out)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->e->n_path; i++) {
        const struct lw_path_part *p = &r->e->path[i];
        struct stretch *s = n > 0 ? &out[n - 1] : NULL;
        if (s && continues(r, s, p)) {
            bool copy = p->cause == LW_CAUSE_COPY && s->first.cause == LW_CAUSE_COMPUTE;
            s->n_copies += copy;
            s->n_ops += !copy && s->last_op != p->op;
            s->to = p->to;
            s->last_op = p->op;
        } else {
            out[n++] = (struct stretch){*p, p->to, 1, 0, p->op, false};
        }
    }
    return n;
}

static void describe(const struct lw_explain_report *r, const struct stretch *s, char *buf,
                     size_t size)
{
    const struct lw_op *op = &r->plan->ops[s->first.op];
    const char *kind = lw_op_name(op->kind);

    if (s->n_copies > 0)
        snprintf(buf, size, "%s, %d op%s, %d cop%s between", kind, s->n_ops,
                 lw_plural(s->n_ops), s->n_copies, s->n_copies == 1 ? "y" : "ies");
    else if (s->n_ops > 1)
        snprintf(buf, size, "%s, %d ops", kind, s->n_ops);
    else if (op->bucket >= 0)
        snprintf(buf, size, "%s of bucket %d", kind, op->bucket);
    else if (op->kind == LW_OP_KERNEL && op->name[0]) /* "ops of the host" */
        snprintf(buf, size, "%s", op->name);
    else
        snprintf(buf, size, "%s%s%s", kind, op->name[0] ? " " : "", op->name);
}

static int by_length(const void *pa, const void *pb)
{
    const struct stretch *a = *(const struct stretch *const *)pa;
    const struct stretch *b = *(const struct stretch *const *)pb;
    lw_ps x = a->to - a->first.from, y = b->to - b->first.from;

    return x != y ? (x < y) - (x > y) : (a > b) - (a < b);
}

/* The longest pieces, of equals the earlier. */
static enum lw_status choose_shown(struct stretch *v, int64_t n, bool all, struct lw_err *err)
{
    int64_t n_shown = all || n < PIECES_SHOWN ? n : PIECES_SHOWN;
    struct stretch **order;

    LW_NEW(order, n, err);
    for (int64_t i = 0; i < n; i++)
        order[i] = &v[i];
    qsort(order, (size_t)n, sizeof *order, by_length);
    for (int64_t i = 0; i < n_shown; i++)
        order[i]->shown = true;
    lw_free(order);
    return LW_OK;
}

static enum lw_status put_path(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {">from ms", ">to ms", ">ms", ">rank", "cause", "op"};
    struct stretch *v;
    lw_ps hidden = 0;
    int64_t n_hidden = 0;
    char text[320];

    LW_NEW(v, r->e->n_path, err);
    int64_t n = join(r, v);
    enum lw_status st = choose_shown(v, n, r->all, err);
    struct lw_table *t = lw_table_new(6, titles);
    for (int64_t i = 0; i < n && st == LW_OK; i++) {
        lw_ps length = v[i].to - v[i].first.from;
        if (!v[i].shown) {
            hidden += length;
            n_hidden++;
            continue;
        }
        describe(r, &v[i], text, sizeof text);
        LW_CELLS(t, lw_decimals(ms(v[i].first.from), 3), lw_decimals(ms(v[i].to), 3),
                 lw_decimals(ms(length), 3), v[i].first.rank, lw_cause_name(v[i].first.cause),
                 text);
    }
    if (st == LW_OK) {
        fprintf(f, "\ncritical path over all ranks\n");
        st = lw_table_print(t, f, 0, err);
    }
    if (st == LW_OK && n_hidden > 0)
        fprintf(f, "the %d longest of %lld pieces; the others take %.3f ms; --all prints every "
                   "one\n", PIECES_SHOWN, (long long)n, ms(hidden));
    lw_table_free(t);
    lw_free(v);
    return st;
}

/* --- text ------------------------------------------------------------------------------------- */

static enum lw_status put_what_ifs(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"what if", ">step ms", ">change ms", ">change %",
                                         ">exposed ms"};

    if (r->n_what_ifs == 0) {
        lw_printf_paragraph(f, "\nwhat-ifs are not simulated: %s", r->why);
        return LW_OK;
    }
    struct lw_table *t = lw_table_new(5, titles);
    lw_ps base = r->what_ifs[0].step;
    for (int i = 0; i < r->n_what_ifs; i++) {
        const struct lw_what_if *w = &r->what_ifs[i];
        LW_CELLS(t, w->name, lw_decimals(ms(w->step), 3));
        lw_table_cell(t, i ? "%+.3f" : "-", ms(w->step - base));
        lw_table_cell(t, i ? "%+.1f" : "-", share(w->step - base, base));
        LW_CELLS(t, lw_decimals(ms(w->exposed_comm), 3));
    }
    fprintf(f, "\nwhat if, simulated\n");
    enum lw_status st = lw_table_end(t, f, 0, err);
    if (r->why[0])
        lw_printf_paragraph(f, "note: %s", r->why);
    return st;
}

static enum lw_status put_text(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    const struct lw_explanation *e = r->e;
    const struct lw_run *run = r->run;
    lw_ps period = e->measure.end - e->measure.start;

    bool differ = lw_periods_differ(period, e->length);
    char own[48] = "";
    if (differ)
        snprintf(own, sizeof own, " of %.3f ms", ms(period));
    lw_printf_paragraph(f,
                        "run %lld (%s%s%s), plan %.8s, step %d: %.3f ms; every moment of rank %d's "
                        "period%s charged to one cause%s",
                        (long long)run->id, lw_run_kind_name(run->kind), run->backend[0] ? " " : "",
                        run->backend, run->plan_hash, e->step, ms(e->length), e->rank, own,
                        differ ? "" : "\n");
    if (differ)
        lw_printf_paragraph(f, LW_PERIOD_AND_STEP "\n");
    LW_TRY(put_charges(e, f, err));
    LW_TRY(put_path(r, f, err));
    return put_what_ifs(r, f, err);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_charges(struct lw_jsonout *o, const struct lw_explanation *e)
{
    lw_jsonout_array(o, "charges");
    for (int c = 0; c < LW_N_CAUSES; c++) {
        lw_jsonout_line_object(o, NULL);
        LW_JSON(o, "cause", lw_cause_key((enum lw_cause)c), "time_ns", LW_EXACT_NS(e->charge[c]),
                "exposed_comm_ns",
                LW_EXACT_NS(lw_cause_is_exposed((enum lw_cause)c) ? e->charge[c] : 0),
                "critical_path_ns", LW_EXACT_NS(e->on_path[c]));
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void json_path(struct lw_jsonout *o, const struct lw_explain_report *r)
{
    lw_jsonout_array(o, "critical_path");
    for (int64_t i = 0; i < r->e->n_path; i++) {
        const struct lw_path_part *p = &r->e->path[i];
        const struct lw_op *op = &r->plan->ops[p->op];
        LW_JSON_ROW(o, NULL, "from_ns", LW_EXACT_NS(p->from), "to_ns", LW_EXACT_NS(p->to),
                    "rank", p->rank, "cause", lw_cause_key(p->cause), "op", p->op,
                    "kind", lw_op_name(op->kind), "name", op->name, "bucket", op->bucket);
    }
    lw_jsonout_end(o);
}

static void put_json(const struct lw_explain_report *r, FILE *f)
{
    struct lw_jsonout o = {.file = f};
    const struct lw_explanation *e = r->e;

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "run", r->run->id, "kind", lw_run_kind_name(r->run->kind),
            "plan_hash", r->run->plan_hash, "step", e->step, "rank", e->rank,
            "step_ns", LW_EXACT_NS(e->length));
    lw_summary_json_measure(&o, &e->measure);
    json_charges(&o, e);
    json_path(&o, r);
    lw_jsonout_array(&o, "what_ifs");
    for (int i = 0; i < r->n_what_ifs; i++) {
        const struct lw_what_if *w = &r->what_ifs[i];
        LW_JSON_ROW(&o, NULL, "change", w->key, "step_ns", lw_ps_to_ns(w->step),
                    "exposed_comm_ns", lw_ps_to_ns(w->exposed_comm));
    }
    lw_jsonout_end(&o);
    lw_jsonout_string(&o, "what_ifs_note", r->why[0] ? r->why : NULL);
    lw_jsonout_end(&o);
}

enum lw_status lw_explain_print(const struct lw_explain_report *r, enum lw_format format, FILE *f,
                                struct lw_err *err)
{
    if (format == LW_FORMAT_TEXT)
        return put_text(r, f, err);
    if (format == LW_FORMAT_JSON) {
        put_json(r, f);
        return LW_OK;
    }
    return charge_csv(r->e, f, err);
}
