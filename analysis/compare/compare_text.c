/* A comparison as text and CSV. */
#include <math.h>

#include "analysis/compare/compare_show.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* Milliseconds with microseconds after the point; a difference carries its sign. */
static void ms_cell(struct lw_table *t, lw_ps v, bool known, bool sign)
{
    if (known)
        lw_table_cell(t, sign ? "%+.3f" : "%.3f", (double)v / (double)LW_PS_PER_MS);
    else
        lw_table_cell(t, "-");
}

static void pct_cell(struct lw_table *t, double e)
{
    if (isnan(e))
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%+.1f", e);
}

/* Predicted minus measured, or B minus A. */
static lw_ps difference(const struct lw_comparison *c, struct lw_both v)
{
    return c->of_one_kind ? v.measured - v.predicted : v.predicted - v.measured;
}

static void total_row(const struct lw_comparison *c, struct lw_table *t, const char *name,
                      struct lw_both v)
{
    lw_table_cell(t, "%s", name);
    ms_cell(t, v.predicted, true, false);
    ms_cell(t, v.measured, true, false);
    ms_cell(t, difference(c, v), true, true);
    pct_cell(t, lw_comparison_pct(c, v));
}

static enum lw_status put_totals(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"", ">predicted ms", ">measured ms", ">difference ms",
                                         ">error %"};
    static const char *const of_one_kind[] = {"", ">A ms", ">B ms", ">B - A ms", ">change %"};
    struct lw_table *t = lw_table_new(5, c->of_one_kind ? of_one_kind : titles);

    total_row(c, t, "step", c->step);
    for (int i = 0; i < LW_N_PARTS; i++) {
        char name[64];
        if (c->part[i].predicted == 0 && c->part[i].measured == 0)
            continue;
        snprintf(name, sizeof name, "  %s", lw_part_name((enum lw_part)i));
        total_row(c, t, name, c->part[i]);
    }
    total_row(c, t, "communication busy", c->comm_busy);
    enum lw_status st = lw_table_print(t, f, 0, err);
    lw_table_free(t);
    return st;
}

/* --- one flat table ----------------------------------------------------------------------------- */

static void number_cell(struct lw_table *t, int64_t v, bool known)
{
    if (known)
        lw_table_cell(t, "%lld", (long long)v);
    else
        lw_table_cell(t, "%s", "");
}

static void csv_row(const struct lw_comparison *c, struct lw_table *t, const char *of,
                    int32_t bucket, const char *what, struct lw_both v, bool is_bytes)
{
    bool p = v.predicted != -1, m = v.measured != -1;
    struct lw_both shown = is_bytes ? v : (struct lw_both){lw_ps_to_ns(v.predicted),
                                                          lw_ps_to_ns(v.measured)};
    double e = p && m ? lw_comparison_pct(c, v) : (double)NAN;

    lw_table_cell(t, "%s", of);
    number_cell(t, bucket, bucket >= 0);
    lw_table_cell(t, "%s", what);
    lw_table_cell(t, "%s", is_bytes ? "bytes" : "ns");
    number_cell(t, shown.predicted, p);
    number_cell(t, shown.measured, m);
    number_cell(t, difference(c, shown), p && m);
    if (isnan(e))
        lw_table_cell(t, "%s", "");
    else
        lw_table_cell(t, "%.3f", e);
}

static void csv_bucket(const struct lw_comparison *c, struct lw_table *t,
                       const struct lw_bucket_line *b)
{
    csv_row(c, t, "bucket", b->bucket, "size", b->bytes, true);
    csv_row(c, t, "bucket", b->bucket, "ready", b->ready, false);
    csv_row(c, t, "bucket", b->bucket, "launch", b->launch, false);
    csv_row(c, t, "bucket", b->bucket, "start", b->start, false);
    csv_row(c, t, "bucket", b->bucket, "finish", b->finish, false);
}

enum lw_status lw_comparison_csv(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"of", "bucket", "what", "unit", "predicted", "measured",
                                         "difference", "error %"};
    static const char *const of_one_kind[] = {"of", "bucket", "what", "unit", "A", "B", "B - A",
                                              "change %"};
    struct lw_table *t = lw_table_new(8, c->of_one_kind ? of_one_kind : titles);

    csv_row(c, t, "step", -1, "step", c->step, false);
    for (int i = 0; i < LW_N_PARTS; i++)
        csv_row(c, t, "part", -1, lw_part_name((enum lw_part)i), c->part[i], false);
    csv_row(c, t, "busy", -1, "compute", c->part[LW_PART_COMPUTE], false);
    csv_row(c, t, "busy", -1, "copies", c->copy_busy, false);
    csv_row(c, t, "busy", -1, "communication", c->comm_busy, false);
    for (int32_t i = 0; i < c->n_buckets; i++)
        csv_bucket(c, t, &c->buckets[i]);
    for (int32_t i = 0; i < c->n_ops; i++)
        csv_row(c, t, "op", -1, c->ops[i].name, c->ops[i].time, false);
    enum lw_status st = lw_table_print_csv(t, f, err);
    lw_table_free(t);
    return st;
}

/* --- text --------------------------------------------------------------------------------------- */

static enum lw_status put_buckets(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {">bucket", "op", ">size", ">ready p", ">m", ">launch p",
        ">m", ">start p", ">m", ">finish p", ">m", ">error %"};
    static const char *const of_one_kind[] = {">bucket", "op", ">size", ">ready A", ">B",
        ">launch A", ">B", ">start A", ">B", ">finish A", ">B", ">change %"};
    struct lw_table *t = lw_table_new(12, c->of_one_kind ? of_one_kind : titles);
    char size[32];

    fprintf(f, "\nbuckets: ms from the start of the step to the last rank's event%s\n",
            c->of_one_kind ? "" : ", p predicted, m measured");
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        const struct lw_both *const times[] = {&b->ready, &b->launch, &b->start, &b->finish};
        lw_table_cell(t, "%d", b->bucket);
        lw_table_cell(t, "%s", b->kind);
        lw_table_cell(t, "%s", lw_format_bytes(size, b->bytes.predicted));
        for (int k = 0; k < 4; k++) {
            ms_cell(t, times[k]->predicted, times[k]->predicted >= 0, false);
            ms_cell(t, times[k]->measured, times[k]->measured >= 0, false);
        }
        pct_cell(t, lw_comparison_pct(c, b->finish));
    }
    enum lw_status st = lw_table_print(t, f, 0, err);
    lw_table_free(t);
    return st;
}

/* One sentence: which part of the step holds most of the difference. */
static void put_verdict(const struct lw_comparison *c, FILE *f)
{
    lw_ps whole = difference(c, c->step), best = 0;
    int part = 0;
    char a[32], b[32];

    for (int i = 0; i < LW_N_PARTS; i++) {
        lw_ps d = difference(c, c->part[i]);
        if ((d < 0 ? -d : d) > (best < 0 ? -best : best)) {
            best = d;
            part = i;
        }
    }
    lw_format_ps(a, whole < 0 ? -whole : whole);
    lw_format_ps(b, best < 0 ? -best : best);
    if (whole == 0 && best == 0)
        fprintf(f, "\nthe steps are equal, part by part\n");
    else if (whole == 0)
        fprintf(f, "\nthe steps are equally long; the largest difference is in %s: %s\n",
                lw_part_name((enum lw_part)part), b);
    else if (c->of_one_kind)
        fprintf(f, "\nB is %s %s than A; the largest part of it is %s, %s %s\n", a,
                whole < 0 ? "shorter" : "longer", lw_part_name((enum lw_part)part), b,
                best < 0 ? "shorter" : "longer");
    else
        fprintf(f, "\nthe prediction is %s too %s; the largest part of it is %s, predicted %s too "
                   "%s\n", a, whole < 0 ? "short" : "long", lw_part_name((enum lw_part)part), b,
                best < 0 ? "short" : "long");
}

static void put_side(const struct lw_comparison *c, int side, FILE *f)
{
    const struct lw_run *r = side ? &c->measured : &c->predicted;

    lw_printf_paragraph(f, "%c = run %lld (%s%s%s), plan %.8s%s%s", 'A' + side, (long long)r->id,
            lw_run_kind_name(r->kind), r->backend[0] ? " " : "", r->backend, r->plan_hash,
            c->label[side][0] ? ": " : "", c->label[side]);
}

/* A shorter step is no gain where it trains fewer samples. */
static void put_samples(const struct lw_comparison *c, FILE *f)
{
    int64_t a = c->predicted.samples, b = c->measured.samples;

    if (!c->of_one_kind || a <= 0 || b <= 0 || a == b)
        return;
    if (c->step.predicted <= 0 || c->step.measured < 0)
        return;
    double of_a = (double)c->step.predicted * 1e-9 / (double)a;
    double of_b = (double)c->step.measured * 1e-9 / (double)b;
    fprintf(f, "A step trains %lld samples in A and %lld in B: a sample takes %.3f ms and %.3f ms "
            "(%+.1f %%)\n\n", (long long)a, (long long)b, of_a, of_b, 100 * (of_b - of_a) / of_a);
}

static void put_heading(const struct lw_comparison *c, FILE *f)
{
    const struct lw_run *p = &c->predicted, *m = &c->measured;

    if (c->of_one_kind) {
        put_side(c, 0, f);
        put_side(c, 1, f);
        fprintf(f, "\n");
        return;
    }
    fprintf(f, "run %lld (%s) against run %lld (%s%s%s%s%s), plan %.8s%s%.8s\n", (long long)p->id,
           lw_run_kind_name(p->kind), (long long)m->id, lw_run_kind_name(m->kind),
           m->backend[0] ? " " : "", m->backend, m->honesty[0] ? ", " : "", m->honesty,
           p->plan_hash, p->plan == m->plan ? "" : " against ",
           p->plan == m->plan ? "" : m->plan_hash);
    fprintf(f, "  run %lld: %s\n  run %lld: %s\n\n", (long long)p->id, p->name, (long long)m->id,
            m->name);
}

enum lw_status lw_comparison_text(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"op", ">predicted ms", ">measured ms", ">difference ms"};
    static const char *const of_one_kind[] = {"op", ">A ms", ">B ms", ">B - A ms"};

    put_heading(c, f);
    if (c->note[0])
        fprintf(f, "note: %s\n\n", c->note);
    put_samples(c, f);
    fprintf(f, "parts of the period of rank %d", c->rank[0]);
    if (c->rank[0] != c->rank[1])
        fprintf(f, " against rank %d", c->rank[1]);
    fprintf(f, "\n");
    LW_TRY(put_totals(c, f, err));
    put_verdict(c, f);
    if (c->n_buckets > 0)
        LW_TRY(put_buckets(c, f, err));
    if (c->n_ops == 0)
        return LW_OK;
    struct lw_table *t = lw_table_new(4, c->of_one_kind ? of_one_kind : titles);
    fprintf(f, "\nops that differ most (each alone; they overlap and do not add up)\n");
    for (int32_t i = 0; i < c->n_ops; i++) {
        lw_table_cell(t, "%s", c->ops[i].name);
        ms_cell(t, c->ops[i].time.predicted, true, false);
        ms_cell(t, c->ops[i].time.measured, true, false);
        ms_cell(t, difference(c, c->ops[i].time), true, true);
    }
    enum lw_status st = lw_table_print(t, f, 0, err);
    lw_table_free(t);
    return st;
}

static void pair_row(struct lw_table *t, const struct lw_run *p, const struct lw_run *m)
{
    char cap[32];

    lw_table_cell(t, "%lld, %lld", (long long)p->id, (long long)m->id);
    lw_table_cell(t, "%s", m->bucket_cap_bytes < 0 ? "default"
                               : lw_format_bytes(cap, m->bucket_cap_bytes));
    lw_table_cell(t, "%d", m->n_buckets);
    ms_cell(t, p->step, true, false);
    ms_cell(t, m->step, true, false);
    pct_cell(t, lw_both_error_pct((struct lw_both){p->step, m->step}));
    ms_cell(t, p->exposed_comm, p->exposed_comm >= 0, false);
    ms_cell(t, m->exposed_comm, m->exposed_comm >= 0, false);
    lw_table_cell(t, "%s%s%s", m->backend, m->honesty[0] ? ", " : "", m->honesty);
}

enum lw_status lw_pairs_text(const struct lw_run *runs, int32_t n, bool csv, FILE *f,
                             struct lw_err *err)
{
    static const char *const titles[] = {"runs", ">bucket cap", ">buckets", ">predicted step ms",
        ">measured step ms", ">error %", ">predicted exposed ms", ">measured exposed ms",
        "measured on"};
    struct lw_table *t = lw_table_new(9, titles);

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_run_is_measured(&runs[i])
                                     ? lw_prediction_of(runs, n, &runs[i]) : NULL;
        if (p)
            pair_row(t, p, &runs[i]);
    }
    enum lw_status st = csv ? lw_table_print_csv(t, f, err) : lw_table_print(t, f, 0, err);
    lw_table_free(t);
    for (int32_t i = 0; st == LW_OK && !csv && i < n; i++)
        if (lw_run_is_measured(&runs[i]) && !lw_prediction_of(runs, n, &runs[i]))
            fprintf(f, "run %lld has no prediction: store one of its plan with lapwing sim\n",
                    (long long)runs[i].id);
    return st;
}
