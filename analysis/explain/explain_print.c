/* An explanation as text, JSON and CSV (one line a cause). Text joins neighbours on the critical
 * path that have one rank, cause and kind, and compute of one kind that copies interrupt, and
 * leaves out short pieces where there are many; JSON has all of them. */
#include "analysis/explain/explain_print.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/numbers/largest.h"
#include "shared/plan/op.h"
#include "shared/text/records.h"
#include "shared/plan/plan.h"
#include "shared/timeline/period_figures.h"
#include "shared/timeline/summary_print.h"
#include "shared/text/wrap.h"
#include "sim/predict/sim_print.h"

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

struct charge {
    const char *key, *name;
    lw_ps time, exposed, on_path; /* on_path -1: of a part of a cause */
    double share_pct;
};

#define AT(field) offsetof(struct charge, field)
static const struct lw_column charge_columns[] = {
    {"cause", NULL, LW_COLUMN_STRING, AT(key)},
    {NULL, "cause", LW_COLUMN_STRING, AT(name)},
    {"time_ns", ">ms", LW_COLUMN_MS, AT(time)},
    {"share_pct", NULL, LW_COLUMN_REAL, AT(share_pct), .digits = 3},
    {NULL, ">% of period", LW_COLUMN_REAL, AT(share_pct), .digits = 1},
    {"exposed_comm_ns", NULL, LW_COLUMN_MS, AT(exposed)},
    {"critical_path_ns", ">on the critical path ms", LW_COLUMN_MS, AT(on_path)},
};
#undef AT

static struct charge charge_of(const struct lw_explanation *e, const char *name, lw_ps time,
                               lw_ps on_path)
{
    return (struct charge){.name = name, .time = time, .on_path = on_path,
                           .share_pct = share(time, e->measure.end - e->measure.start)};
}

static void find_charges(const struct lw_explanation *e, struct charge v[LW_N_CAUSES])
{
    for (int i = 0; i < LW_N_CAUSES; i++) {
        enum lw_cause c = (enum lw_cause)i;
        v[i] = charge_of(e, lw_cause_name(c), e->charge[c], e->on_path[c]);
        v[i].key = lw_cause_key(c);
        v[i].exposed = lw_cause_is_exposed(c) ? e->charge[c] : 0;
    }
}

/* The next of parts, of which *sum were there so far, as whole nanoseconds: they add up to their
 * rounded sum. */
static lw_ps whole_part(lw_ps *sum, lw_ps part)
{
    lw_ns before = lw_ps_to_ns(*sum);

    *sum += part;
    return lw_ns_to_ps(lw_ps_to_ns(*sum) - before);
}

/* For JSON and CSV. */
static void round_charges(struct charge v[LW_N_CAUSES])
{
    lw_ps time = 0, on_path = 0;

    for (int i = 0; i < LW_N_CAUSES; i++) {
        v[i].time = whole_part(&time, v[i].time);
        v[i].on_path = whole_part(&on_path, v[i].on_path);
        v[i].exposed = v[i].exposed != 0 ? v[i].time : 0;
    }
}

/* Causes that take time; for whom the rank waited, below the row of all waits; the period. */
static enum lw_status put_charges(const struct lw_explanation *e, FILE *f, struct lw_err *err)
{
    struct charge all[LW_N_CAUSES], v[LW_N_CAUSES + LW_N_WAITS + 1];
    char names[LW_N_WAITS][32];
    int n = 0;

    find_charges(e, all);
    for (int c = 0; c < LW_N_CAUSES; c++) {
        if (all[c].time != 0 || all[c].on_path != 0)
            v[n++] = all[c];
        for (int i = 0; c == LW_CAUSE_WAIT && i < LW_N_WAITS; i++) {
            snprintf(names[i], sizeof names[i], "  %s",
                     lw_period_figure_title(LW_FIGURE_WAIT + i));
            if (e->measure.wait[i] > 0)
                v[n++] = charge_of(e, names[i], e->measure.wait[i], -1);
        }
    }
    v[n++] = charge_of(e, "all", e->measure.end - e->measure.start, e->length);
    return lw_records_text(&LW_RECORDS(NULL, charge_columns, v, n), f, 0, err);
}

/* --- the critical path ------------------------------------------------------------------------ */

static const char *cause_name(int cause)
{
    return lw_cause_name((enum lw_cause)cause);
}

/* Neighbours that read the same: compute or copies of one kind, or one op. */
struct stretch {
    struct lw_path_part first;
    lw_ps to, length; /* length: less what interrupts it */
    int32_t n_ops, last_op;
    bool between, kinds_differ; /* copies that interrupt the compute of the row before */
    const char *text;           /* of those shown */
};

#define AT(field) offsetof(struct stretch, field)
static const struct lw_column stretch_columns[] = {
    {NULL, ">from ms", LW_COLUMN_MS, AT(first.from)},
    {NULL, ">to ms", LW_COLUMN_MS, AT(to)},
    {NULL, ">ms", LW_COLUMN_MS, AT(length)},
    {NULL, ">rank", LW_COLUMN_INT32, AT(first.rank)},
    {NULL, "cause", LW_COLUMN_WORD, AT(first.cause), .word = cause_name},
    {NULL, "op", LW_COLUMN_STRING, AT(text)},
};

static enum lw_op_kind kind_of(const struct lw_explain_report *r, const struct lw_path_part *p)
{
    return lw_op_at(r->plan, p->op).kind;
}

/* The piece goes on with what the stretch has. */
static bool continues(const struct lw_explain_report *r, const struct stretch *s,
                      const struct lw_path_part *p)
{
    if (s->between || s->first.rank != p->rank || s->first.cause != p->cause)
        return false;
    if (p->cause == LW_CAUSE_COMPUTE || p->cause == LW_CAUSE_COPY)
        return kind_of(r, &s->first) == kind_of(r, p);
    return s->last_op == p->op;
}

static void append(struct stretch *s, const struct lw_path_part *p)
{
    s->n_ops += s->last_op != p->op;
    s->length += p->to - p->from;
    s->to = p->to;
    s->last_op = p->op;
}

/* The compute that the piece continues after copies, which are the rows that follow it in v[n]; -1:
 * none. */
static int64_t interrupted(const struct lw_explain_report *r, const struct stretch *v, int64_t n,
                           const struct lw_path_part *p)
{
    int64_t k = n - 1;

    while (k >= 0 && v[k].first.cause == LW_CAUSE_COPY)
        k--;
    return p->cause == LW_CAUSE_COMPUTE && k >= 0 && continues(r, &v[k], p) &&
                   v[n - 1].first.rank == p->rank
               ? k
               : -1;
}

/* Rows k + 1 to n - 1 become one: copies that interrupt row k. Returns the number of rows. */
static int64_t join_copies(const struct lw_explain_report *r, struct stretch *v, int64_t k,
                           int64_t n)
{
    struct stretch *s = &v[k + 1];

    for (const struct stretch *c = s + 1; c < v + n; c++) {
        s->n_ops += c->n_ops;
        s->kinds_differ |= kind_of(r, &s->first) != kind_of(r, &c->first);
        s->length += c->length;
        s->to = c->to;
    }
    s->between = true;
    return k + 2;
}

/* Each row has the time of one cause. Compute that copies interrupt is one row, and they are the
 * next: the buckets of a backward would take two for each otherwise. */
static int64_t join(const struct lw_explain_report *r, struct stretch *out)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->e->n_path; i++) {
        const struct lw_path_part *p = &r->e->path[i];
        int64_t k = interrupted(r, out, n, p);
        if (k >= 0) {
            n = k < n - 1 ? join_copies(r, out, k, n) : n;
            append(&out[k], p);
        } else if (n > 0 && continues(r, &out[n - 1], p)) {
            append(&out[n - 1], p);
        } else {
            out[n++] = (struct stretch){.first = *p, .to = p->to, .length = p->to - p->from,
                                        .n_ops = 1, .last_op = p->op};
        }
    }
    return n;
}

static enum lw_status describe(const struct lw_explain_report *r, struct stretch *s,
                               struct lw_arena *room, struct lw_err *err)
{
    const struct lw_op *op = LW_OP(r->plan, s->first.op);
    const char *kind = s->kinds_differ ? "copies" : lw_op_name(op->kind);
    char text[320];

    if (s->between)
        snprintf(text, sizeof text, "%s, %d op%s in between", kind, s->n_ops,
                 lw_plural(s->n_ops));
    else if (s->n_ops > 1)
        snprintf(text, sizeof text, "%s, %d ops", kind, s->n_ops);
    else if (op->bucket >= 0)
        snprintf(text, sizeof text, "%s of bucket %d", kind, op->bucket);
    else if (op->kind == LW_OP_KERNEL && op->name[0]) /* "ops of the host" */
        snprintf(text, sizeof text, "%s", op->name);
    else
        snprintf(text, sizeof text, "%s%s%s", kind, op->name[0] ? " " : "", op->name);
    s->text = lw_arena_strdup(room, text);
    return s->text ? LW_OK : lw_fail_nomem(err);
}

/* Moves the PIECES_SHOWN longest of v[n], of equal ones the first, to the front, in their order;
 * *others: the time of those left out. */
static enum lw_status keep_longest(struct stretch *v, int64_t n, lw_ps *others, struct lw_err *err)
{
    int64_t *lengths, n_kept = 0;

    LW_NEW(lengths, n, err);
    for (int64_t i = 0; i < n; i++)
        lengths[i] = v[i].length;
    struct lw_largest longest = lw_largest_of(lengths, n, PIECES_SHOWN);
    lw_free(lengths);
    *others = 0;
    for (int64_t i = 0; i < n; i++) {
        if (lw_largest_takes(&longest, v[i].length))
            v[n_kept++] = v[i];
        else
            *others += v[i].length;
    }
    return LW_OK;
}

static enum lw_status put_pieces(const struct lw_explain_report *r, struct stretch *v, int64_t n,
                                 struct lw_arena *room, FILE *f, struct lw_err *err)
{
    bool all = r->all || n <= PIECES_SHOWN;
    struct lw_records rows = LW_RECORDS(NULL, stretch_columns, v, all ? n : PIECES_SHOWN);
    lw_ps others;

    if (!all)
        LW_TRY(keep_longest(v, n, &others, err));
    for (int64_t i = 0; i < rows.n; i++)
        LW_TRY(describe(r, &v[i], room, err));
    fprintf(f, "\ncritical path over all ranks\n");
    LW_TRY(lw_records_text(&rows, f, 0, err));
    if (!all)
        fprintf(f, "the %d longest of %lld pieces; the others take %.3f ms; --all prints every "
                   "one\n", PIECES_SHOWN, (long long)n, ms(others));
    return LW_OK;
}
#undef AT

static enum lw_status put_path(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct stretch *v = lw_arena_alloc(&room, r->e->n_path, sizeof *v);
    enum lw_status st = v ? put_pieces(r, v, join(r, v), &room, f, err) : lw_fail_nomem(err);

    lw_arena_free(&room);
    return st;
}

/* --- bounds of the path ----------------------------------------------------------------------- */

struct bound_row {
    const char *name;
    lw_ps time;
    double share_pct;
};

#define AT(field) offsetof(struct bound_row, field)
static const struct lw_column bound_columns[] = {
    {NULL, "bound by", LW_COLUMN_STRING, AT(name)},
    {NULL, ">ms", LW_COLUMN_MS, AT(time)},
    {NULL, ">% of step", LW_COLUMN_REAL, AT(share_pct), .digits = 1},
};
#undef AT

static enum lw_status put_bounds(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    struct bound_row v[LW_N_PATH_BOUNDS];
    int n = 0;

    for (int k = 0; k < LW_N_PATH_BOUNDS; k++)
        if (r->bounds->ps[k] > 0)
            v[n++] = (struct bound_row){lw_path_bound_name(k), r->bounds->ps[k],
                                        share(r->bounds->ps[k], r->e->length)};
    fprintf(f, "\ntime on the critical path, by what bounds it\n");
    return lw_records_text(&LW_RECORDS(NULL, bound_columns, v, n), f, 0, err);
}

/* A row of a resource that is a tenth faster. */
struct faster_row {
    struct lw_faster x;
    const char *work, *kind, *name; /* kind, name: NULL of all works */
    int32_t op, module, bucket;     /* -1 = none */
    double shorter_pct;
};

static const char *how_text(int how)
{
    return how == LW_FASTER_SIMULATED ? "simulated" : "at most";
}

#define AT(field) offsetof(struct faster_row, field)
static const struct lw_column faster_columns[] = {
    {"resource", "faster", LW_COLUMN_WORD, AT(x.resource), .word = lw_resource_name},
    {"op", NULL, LW_COLUMN_INT32, AT(op), .lacking = "-"},
    {"kind", NULL, LW_COLUMN_STRING, AT(kind)},
    {"name", NULL, LW_COLUMN_STRING, AT(name)},
    {"module", NULL, LW_COLUMN_INT32, AT(module), .lacking = "-"},
    {"bucket", NULL, LW_COLUMN_INT32, AT(bucket), .lacking = "-"},
    {NULL, "work", LW_COLUMN_STRING, AT(work)},
    {"n_ops", ">ops", LW_COLUMN_INT32, AT(x.n_ops)},
    {"path_ns", ">on path ms", LW_COLUMN_MS, AT(x.time)},
    {"bound_ns", ">bound ms", LW_COLUMN_MS, AT(x.bound)},
    {"shorter_ns", ">saves ms", LW_COLUMN_MS, AT(x.shorter)},
    {"shorter_pct", ">%", LW_COLUMN_REAL, AT(shorter_pct), .digits = 2},
    {NULL, "how", LW_COLUMN_WORD, AT(x.how), .word = how_text},
    {"how", NULL, LW_COLUMN_WORD, AT(x.how), .word = lw_faster_word},
};
#undef AT

static enum lw_status name_work(const struct lw_op *op, struct lw_arena *room, const char **out,
                                struct lw_err *err)
{
    char text[320];
    int n = snprintf(text, sizeof text, "%s%s%.200s", lw_op_name((enum lw_op_kind)op->kind),
                     op->name[0] ? " " : "", op->name);

    if (op->bucket >= 0)
        snprintf(text + n, sizeof text - (size_t)n, " of bucket %d", op->bucket);
    else if (op->module >= 0 && lw_op_class((enum lw_op_kind)op->kind) != LW_CLASS_COMPUTE)
        snprintf(text + n, sizeof text - (size_t)n, " of module %d", op->module);
    else if (op->module >= 0 && op->kind == LW_OP_KERNEL)
        snprintf(text + n, sizeof text - (size_t)n, " of module %d", op->module);
    *out = lw_arena_strdup(room, text);
    return *out ? LW_OK : lw_fail_nomem(err);
}

/* Of the path's time, what nothing is known about. */
static lw_ps not_known(const struct lw_explain_report *r)
{
    return r->bounds->ps[LW_BOUND_MEASURED] + r->bounds->ps[LW_BOUND_UNKNOWN];
}

/* v holds LW_MAX_FASTER. What bounds nothing that is known is left out where all is not known. */
static enum lw_status make_faster(const struct lw_explain_report *r, struct lw_arena *room,
                                  struct faster_row *v, int *n, struct lw_err *err)
{
    *n = 0;
    for (int i = 0; i < r->n_faster; i++) {
        const struct lw_faster *x = &r->faster[i];
        const struct lw_op *op = x->op >= 0 ? LW_OP(r->plan, x->op) : NULL;
        struct faster_row row = {.x = *x, .work = "all", .op = x->op, .module = -1, .bucket = -1,
                                 .shorter_pct = share(x->shorter, r->e->length)};
        if (x->bound == 0 && not_known(r) > 0)
            continue;
        if (op) {
            row.kind = lw_op_name((enum lw_op_kind)op->kind);
            row.name = op->name;
            row.module = op->module;
            row.bucket = op->bucket;
            LW_TRY(name_work(op, room, &row.work, err));
        }
        v[(*n)++] = row;
    }
    return LW_OK;
}

static enum lw_status put_faster(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    struct faster_row v[LW_MAX_FASTER];
    struct lw_arena room = {0};
    int n;

    if (r->run->kind != LW_RUN_SIM) {
        lw_printf_paragraph(f,
                            "\nthe run is measured: what bounds its ops is not known; 'lapwing "
                            "sim --run %lld' predicts its plan",
                            (long long)r->run->id);
        return LW_OK;
    }
    enum lw_status st = make_faster(r, &room, v, &n, err);
    if (st == LW_OK && n > 0) {
        fputs("\nthe step with a resource that is 10 % faster: what it bounds, divided by 1.1\n",
              f);
        st = lw_records_text(&LW_RECORDS(NULL, faster_columns, v, n), f, 0, err);
    }
    lw_arena_free(&room);
    if (st == LW_OK && not_known(r) > 0)
        lw_printf_paragraph(f,
                            "%s%.3f ms of the path are of times that are measured or given: what "
                            "bounds them is not known%s",
                            n > 0 ? "" : "\n", ms(not_known(r)),
                            n > 0 ? ", and no row has them" : "");
    return st;
}

/* --- text ------------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct lw_what_if, field)
static const struct lw_column what_if_columns[] = {
    {"change", NULL, LW_COLUMN_STRING, AT(key)},
    {NULL, "what if", LW_COLUMN_STRING, AT(name)},
    {"step_ns", ">step ms", LW_COLUMN_MS, AT(step)},
    {NULL, ">change ms", LW_COLUMN_CHANGE_MS, AT(change), .lacking = "-"},
    {NULL, ">change %", LW_COLUMN_CHANGE_PCT, AT(change_pct), .lacking = "-"},
    {"exposed_comm_ns", ">exposed ms", LW_COLUMN_MS, AT(exposed_comm)},
};
#undef AT

static enum lw_status put_what_ifs(const struct lw_explain_report *r, FILE *f, struct lw_err *err)
{
    if (r->n_what_ifs == 0) {
        lw_printf_paragraph(f, "\nwhat-ifs are not simulated: %s", r->why);
        return LW_OK;
    }
    fprintf(f, "\nwhat if, simulated\n");
    LW_TRY(lw_records_text(&LW_RECORDS(NULL, what_if_columns, r->what_ifs, r->n_what_ifs), f, 0,
                           err));
    lw_sim_print_comm(r->stats, f);
    if (r->why[0])
        lw_printf_paragraph(f, "note: %s", r->why);
    return LW_OK;
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
                        "run %lld (%s%s%s%s), plan %.8s, step %d: %.3f ms; every moment of rank "
                        "%d's period%s charged to one cause%s",
                        (long long)run->id, lw_run_kind_name(run->kind), run->backend[0] ? " " : "",
                        run->backend, run->fits == 0 ? ", does not fit" : "", run->plan_hash,
                        e->step, ms(e->length), e->rank, own,
                        differ ? "" : "\n");
    if (differ)
        lw_printf_paragraph(f, LW_PERIOD_AND_STEP "\n");
    LW_TRY(put_charges(e, f, err));
    LW_TRY(put_bounds(r, f, err));
    LW_TRY(put_path(r, f, err));
    LW_TRY(put_faster(r, f, err));
    return put_what_ifs(r, f, err);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_path(struct lw_jsonout *o, const struct lw_explain_report *r)
{
    lw_jsonout_array(o, "critical_path");
    for (int64_t i = 0; i < r->e->n_path; i++) {
        const struct lw_path_part *p = &r->e->path[i];
        const struct lw_op *op = LW_OP(r->plan, p->op);
        LW_JSON_ROW(o, NULL, "from_ns", LW_PS(p->from), "to_ns", LW_PS(p->to),
                    "rank", p->rank, "cause", lw_cause_key(p->cause), "op", p->op,
                    "kind", lw_op_name(op->kind), "name", op->name, "bucket", op->bucket);
    }
    lw_jsonout_end(o);
}

/* Of the critical path: sums to step_ns exactly. */
static void json_bounds(struct lw_jsonout *o, const struct lw_explain_report *r)
{
    lw_ps sum = 0;

    lw_jsonout_object(o, "bounds");
    for (int k = 0; k < LW_N_PATH_BOUNDS; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ns", lw_path_bound_key(k));
        LW_JSON(o, key, LW_PS(whole_part(&sum, r->bounds->ps[k])));
    }
    lw_jsonout_end(o);
}

static enum lw_status put_json(const struct lw_explain_report *r, const struct lw_records *charges,
                               FILE *f, struct lw_err *err)
{
    struct lw_jsonout o = {.file = f};
    const struct lw_explanation *e = r->e;
    struct faster_row faster[LW_MAX_FASTER];
    struct lw_arena room = {0};
    int n;

    LW_TRY(make_faster(r, &room, faster, &n, err));

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "run", r->run->id, "kind", lw_run_kind_name(r->run->kind),
            "plan_hash", r->run->plan_hash, "step", e->step, "rank", e->rank,
            "step_ns", LW_PS(e->length));
    lw_summary_json_measure(&o, &e->measure);
    lw_records_json(&o, charges);
    json_bounds(&o, r);
    json_path(&o, r);
    lw_records_json(&o, &LW_RECORDS("faster", faster_columns, faster, n));
    lw_records_json(&o, &LW_RECORDS("what_ifs", what_if_columns, r->what_ifs, r->n_what_ifs));
    lw_jsonout_string(&o, "what_ifs_note", r->why[0] ? r->why : NULL);
    lw_sim_json_timed(&o, r->stats);
    lw_jsonout_end(&o);
    lw_arena_free(&room);
    return LW_OK;
}

enum lw_status lw_explain_print(const struct lw_explain_report *r, enum lw_format format, FILE *f,
                                struct lw_err *err)
{
    struct charge v[LW_N_CAUSES];
    const struct lw_records charges = LW_RECORDS("charges", charge_columns, v, LW_N_CAUSES);

    if (format == LW_FORMAT_TEXT)
        return put_text(r, f, err);
    find_charges(r->e, v);
    round_charges(v);
    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&charges, f, err);
    return put_json(r, &charges, f, err);
}
