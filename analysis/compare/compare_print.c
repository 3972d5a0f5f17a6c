/* A comparison as text, CSV and JSON (docs/formats/compare.md), from one table of columns. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare/compare_print.h"
#include "analysis/compare/run_words.h"
#include "analysis/compare/step_work.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/interval_text.h"
#include "shared/numbers/speed_text.h"
#include "shared/text/records.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* Predicted minus measured, or B minus A. */
static lw_ps difference(const struct lw_comparison *c, struct lw_both v)
{
    return c->of_one_kind ? v.measured - v.predicted : v.predicted - v.measured;
}

/* A quantity of both sides. */
struct line {
    const char *what;
    struct lw_both v;
    lw_ps difference;
    double pct;
};

#define AT(field) offsetof(struct line, field)
/* The keys and titles say what the sides are. */
#define COLUMNS(p, m, PCT_KEY, P, M, DIFFERENCE, PCT) \
    { \
        {"what", "", LW_COLUMN_TEXT, AT(what)}, \
        {p "_ns", ">" P " ms", LW_COLUMN_MS, AT(v.predicted), .lacking = "-"}, \
        {m "_ns", ">" M " ms", LW_COLUMN_MS, AT(v.measured), .lacking = "-"}, \
        {"difference_ns", ">" DIFFERENCE " ms", LW_COLUMN_CHANGE_MS, AT(difference)}, \
        {PCT_KEY, ">" PCT " %", LW_COLUMN_CHANGE_PCT, AT(pct), .lacking = "-"}, \
    }
enum { N_SHORT = 4, PCT_COLUMN = 4, N_COLUMNS = 5 };
static const struct lw_column of_prediction[] = COLUMNS(
    "predicted", "measured", "error_pct", "predicted", "measured", "difference", "error");
static const struct lw_column of_one_kind[] = COLUMNS("a", "b", "change_pct", "A", "B", "B - A",
                                                      "change");
#undef AT

static const struct lw_column *columns_of(const struct lw_comparison *c)
{
    return c->of_one_kind ? of_one_kind : of_prediction;
}

static struct line line_of(const struct lw_comparison *c, const char *what, struct lw_both v)
{
    return (struct line){what, v, difference(c, v), lw_comparison_pct(c, v)};
}

static struct lw_records records_of(const struct lw_comparison *c, const char *key,
                                    const struct line *lines, int n, int n_columns)
{
    return (struct lw_records){key, columns_of(c), n_columns, lines, n, sizeof *lines};
}

/* lines[] has room for as many ops as a comparison lists (LW_OPS_SHOWN). */
static int op_lines(const struct lw_comparison *c, struct line *lines)
{
    for (int32_t i = 0; i < c->n_ops; i++)
        lines[i] = line_of(c, c->ops[i].name, c->ops[i].time);
    return c->n_ops;
}

/* --- CSV: one row a number -------------------------------------------------------------------- */

static void csv_row(const struct lw_comparison *c, struct lw_table *t, const char *of,
                    int32_t bucket, const char *what, struct lw_both v, bool is_bytes)
{
    bool p = v.predicted != -1, m = v.measured != -1;
    struct lw_both shown = is_bytes ? v : (struct lw_both){lw_ps_to_ns(v.predicted),
                                                          lw_ps_to_ns(v.measured)};
    double e = p && m ? lw_comparison_pct(c, v) : (double)NAN;

    LW_CELLS(t, of, lw_known(bucket), what, is_bytes ? "bytes" : "ns",
             lw_known_if(p, shown.predicted), lw_known_if(m, shown.measured),
             lw_known_if(p && m, difference(c, shown)));
    lw_table_cell(t, isnan(e) ? "" : "%.3f", e);
}

static const char *const bucket_times[LW_N_BUCKET_TIMES] = {"ready", "launch", "start", "finish"};

enum lw_status lw_comparison_csv(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"of", "bucket", "what", "unit", "predicted", "measured",
                                         "difference", "error %"};
    static const char *const one_kind[] = {"of", "bucket", "what", "unit", "A", "B", "B - A",
                                           "change %"};
    struct lw_table *t = lw_table_new(8, c->of_one_kind ? one_kind : titles);

    csv_row(c, t, "step", -1, "step", c->step, false);
    if (c->predicted.p90 > 0 || c->measured.p90 > 0) {
        struct lw_both low = {c->predicted.p10, c->measured.p10};
        struct lw_both high = {c->predicted.p90, c->measured.p90};
        csv_row(c, t, "step", -1, "p10", low, false);
        csv_row(c, t, "step", -1, "p90", high, false);
    }
    for (int i = 0; i < LW_N_PARTS; i++)
        csv_row(c, t, "part", -1, lw_part_name(i), lw_comparison_part(c, i), false);
    for (int k = LW_FIGURE_COMPUTE; k <= LW_FIGURE_COMM_BUSY; k++)
        csv_row(c, t, "busy", -1, lw_period_figure_title(k), c->figure[k], false);
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        csv_row(c, t, "bucket", b->bucket, "size", b->bytes, true);
        for (int k = 0; k < LW_N_BUCKET_TIMES; k++)
            csv_row(c, t, "bucket", b->bucket, bucket_times[k], b->time[k], false);
    }
    for (int32_t i = 0; i < c->n_ops; i++)
        csv_row(c, t, "op", -1, c->ops[i].name, c->ops[i].time, false);
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_ns(struct lw_table *t, lw_ps time, double units)
{
    char ns[LW_UNIT_NS_TEXT];

    lw_table_text(t, time < 0 ? "-" : lw_unit_ns_text((double)time * 1e-3 / units, ns));
}

/* Steps that train different numbers of tokens: what one token takes. */
static enum lw_status put_per_unit(struct lw_per_unit u, const struct line *lines, int n, FILE *f,
                                   struct lw_err *err)
{
    char of_a[32], of_b[32];
    const char *titles[] = {"", ">A ms", ">B ms", of_a, of_b, ">change %"};
    struct lw_table *t = lw_table_new(6, titles);

    snprintf(of_a, sizeof of_a, ">A ns a %s", u.unit);
    snprintf(of_b, sizeof of_b, ">B ns a %s", u.unit);
    for (int i = 0; i < n; i++) {
        double pct = lw_per_unit_pct(u, lines[i].v);
        LW_CELLS(t, lines[i].what, LW_MS(lines[i].v.predicted), LW_MS(lines[i].v.measured));
        put_ns(t, lines[i].v.predicted, u.a);
        put_ns(t, lines[i].v.measured, u.b);
        lw_table_cell(t, isnan(pct) ? "-" : "%+.1f", pct);
    }
    return lw_table_end(t, f, 0, err);
}

static enum lw_status put_totals(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    struct line lines[LW_N_PARTS + 2] = {line_of(c, "step", c->step)};
    char names[LW_N_PARTS][64];
    int n = 1;

    for (int i = 0; i < LW_N_PARTS; i++) {
        struct lw_both v = lw_comparison_part(c, i);
        if (v.predicted == 0 && v.measured == 0)
            continue;
        snprintf(names[i], sizeof names[i], "  %s", lw_part_name(i));
        lines[n++] = line_of(c, names[i], v);
    }
    lines[n++] = line_of(c, "communication busy", c->figure[LW_FIGURE_COMM_BUSY]);
    if (lw_comparison_per_unit(c).unit)
        return put_per_unit(lw_comparison_per_unit(c), lines, n, f, err);
    struct lw_records r = records_of(c, NULL, lines, n, N_COLUMNS);
    return lw_records_text(&r, f, 0, err);
}

enum { BUCKETS_SHOWN = 10 };

/* How far apart the ends of a bucket are; -1: one is not known. */
static lw_ps apart(const struct lw_bucket_line *b)
{
    struct lw_both v = b->time[LW_BUCKET_FINISH];

    return v.predicted < 0 || v.measured < 0 ? -1 : llabs(v.predicted - v.measured);
}

/* The buckets that differ most, of equals the first, in the order of the list: how many. */
static int32_t most_apart(const struct lw_comparison *c, int32_t shown[BUCKETS_SHOWN])
{
    int32_t n = 0;

    for (int32_t i = 0; i < c->n_buckets; i++) {
        int32_t least = 0;
        for (int32_t k = 1; k < n; k++)
            if (apart(&c->buckets[shown[k]]) <= apart(&c->buckets[shown[least]]))
                least = k;
        if (n == BUCKETS_SHOWN) {
            if (apart(&c->buckets[i]) <= apart(&c->buckets[shown[least]]))
                continue;
            memmove(shown + least, shown + least + 1,
                    (size_t)(n - least - 1) * sizeof *shown);
            n--;
        }
        shown[n++] = i;
    }
    return n;
}

static void bucket_row(struct lw_table *t, const struct lw_comparison *c,
                       const struct lw_bucket_line *b)
{
    struct lw_both ready = b->time[LW_BUCKET_READY], start = b->time[LW_BUCKET_START],
                   finish = b->time[LW_BUCKET_FINISH];
    double pct = lw_comparison_pct(c, finish);

    LW_CELLS(t, b->bucket, b->kind, LW_BYTES(b->bytes.predicted), LW_MS(ready.predicted),
             LW_MS(ready.measured), LW_MS(start.predicted), LW_MS(start.measured),
             LW_MS(finish.predicted), LW_MS(finish.measured));
    lw_table_cell(t, isnan(pct) ? "-" : "%+.1f", pct);
}

/* Launches are left to JSON and CSV: the table fits 100 columns. */
static enum lw_status put_buckets(const struct lw_comparison *c, bool all, FILE *f,
                                  struct lw_err *err)
{
    static const char *const titles[] = {">bucket", "op", ">size", ">ready p", ">m", ">start p",
                                         ">m", ">finish p", ">m", ">error %"};
    static const char *const one_kind[] = {">bucket", "op", ">size", ">ready A", ">B", ">start A",
                                           ">B", ">finish A", ">B", ">change %"};
    struct lw_table *t = lw_table_new(10, c->of_one_kind ? one_kind : titles);

    fprintf(f, "\nbuckets: ms from the start of the step to the last rank's event%s\n",
            c->of_one_kind ? "" : ", p predicted, m measured");
    int32_t shown[BUCKETS_SHOWN], n = all ? c->n_buckets : most_apart(c, shown);

    if (n < c->n_buckets)
        fprintf(f, "  the %d that differ most of %d; --all prints every one\n", n, c->n_buckets);
    for (int32_t i = 0; i < n; i++)
        bucket_row(t, c, &c->buckets[all ? i : shown[i]]);
    return lw_table_end(t, f, 0, err);
}

/* An interval is of training programs on GPUs: other executions of the plan have no place in it. */
static void put_place(const struct lw_comparison *c, FILE *f)
{
    const struct lw_run *m = &c->measured;

    if (m->kind == LW_RUN_EXEC &&
        (strcmp(m->backend, "nccl") != 0 || strcmp(m->honesty, "real") != 0))
        lw_printf_paragraph(f, "it is of training on such devices, and is not compared with run "
                               "%lld, which executed the plan with exec %s, %s", (long long)m->id,
                            m->backend, m->honesty);
    else
        lw_printf_paragraph(f, "the measured step is %s it",
                            c->step.measured < c->predicted.p10   ? "below"
                            : c->step.measured > c->predicted.p90 ? "above"
                                                                  : "inside");
}

/* Where measured steps would be, for the runs that have it. */
static void put_intervals(const struct lw_comparison *c, FILE *f)
{
    const struct lw_run *both[] = {&c->predicted, &c->measured};
    bool one = c->predicted.p90 > 0, other = c->measured.p90 > 0;
    char interval[LW_INTERVAL_TEXT];

    for (int i = 0; i < 2; i++)
        if (both[i]->p90 > 0)
            lw_printf_paragraph(f, "%sstep of run %lld: %s", i == 0 || !one ? "\n" : "",
                                (long long)both[i]->id,
                                lw_interval_text(interval, both[i]->p10, both[i]->p90,
                                                 both[i]->interval_of));
    if (one && !other && lw_run_is_measured(&c->measured))
        put_place(c, f);
    if (!one || !other)
        return;
    struct lw_per_unit u = lw_comparison_per_unit(c);
    bool overlap = (double)c->predicted.p10 / u.a <= (double)c->measured.p90 / u.b &&
                   (double)c->measured.p10 / u.b <= (double)c->predicted.p90 / u.a;
    char of[32] = "";
    if (u.unit)
        snprintf(of, sizeof of, " of a %s", u.unit);
    if (overlap)
        lw_printf_paragraph(f,
                            "the two intervals%s overlap: they do not tell which %s. Errors that "
                            "both predictions share cancel in the difference, and how much of an "
                            "error is shared was not measured",
                            of, u.unit ? "run is faster" : "step is shorter");
    else
        lw_printf_paragraph(f, "the two intervals%s do not overlap", of);
}

/* One sentence: which part of the step holds most of the difference. */
static void put_verdict_per_unit(const struct lw_comparison *c, struct lw_per_unit u, FILE *f)
{
    char in_a[LW_UNIT_NS_TEXT], in_b[LW_UNIT_NS_TEXT], by[LW_UNIT_NS_TEXT];
    double best = 0, whole = lw_per_unit_pct(u, c->step);
    int part = 0;

    for (int i = 0; i < LW_N_PARTS; i++) {
        struct lw_both v = lw_comparison_part(c, i);
        double d = (double)v.measured / u.b - (double)v.predicted / u.a;
        if (v.predicted >= 0 && v.measured >= 0 && fabs(d) > fabs(best)) {
            best = d;
            part = i;
        }
    }
    if (!isnan(whole))
        lw_printf_paragraph(f,
                            "\na %s takes %s ns in B and %s ns in A: B is %.1f %% %s; the "
                            "largest part of it is %s, %s ns %s",
                            u.unit, lw_unit_ns_text((double)c->step.measured * 1e-3 / u.b, in_b),
                            lw_unit_ns_text((double)c->step.predicted * 1e-3 / u.a, in_a),
                            fabs(whole), whole < 0 ? "faster" : "slower", lw_part_name(part),
                            lw_unit_ns_text(fabs(best) * 1e-3, by),
                            best < 0 ? "shorter" : "longer");
}

enum { SIGNED_PS = 40 };

/* "-80.000 us"; returns buf. */
static const char *signed_ps(char buf[SIGNED_PS], lw_ps v)
{
    char text[32];

    snprintf(buf, SIGNED_PS, "%s%s", v < 0 ? "-" : "+", lw_format_ps(text, llabs(v)));
    return buf;
}

/* A step beside other programs is too long by an unknown part: neither prediction nor change. */
static bool put_load(const struct lw_comparison *c, FILE *f)
{
    const struct lw_run *both[] = {&c->predicted, &c->measured};
    bool any = false;

    for (int i = 0; i < 2; i++)
        if (lw_run_under_load(both[i])) {
            lw_printf_paragraph(f,
                                "%srun %lld was measured under load: other programs took %.1f %% "
                                "of the processors, so its step says nothing about %s; repeat it",
                                any ? "" : "\n", (long long)both[i]->id, both[i]->others_pct,
                                c->of_one_kind ? "the other run" : "the prediction");
            any = true;
        }
    return any;
}

static void put_calibration(const struct lw_comparison *c, FILE *f)
{
    if (c->other_calibration)
        lw_printf_paragraph(f,
                            "\nrun %lld is of backend %s, and its cluster was calibrated with "
                            "another: the times of communication are not predicted for %s (lapwing "
                            "calibrate --backend %s)", (long long)c->measured.id,
                            c->measured.backend, c->measured.backend, c->measured.backend);
}

/* How fast the machine was during the measured runs, and what that makes of a prediction. */
static void put_speed(const struct lw_comparison *c, FILE *f)
{
    const struct lw_run *both[] = {&c->predicted, &c->measured};
    char text[LW_SPEED_TEXT], by[SIGNED_PS], left[SIGNED_PS];
    bool any = false;

    for (int i = 0; i < 2; i++)
        if (!isnan(both[i]->machine_speed)) {
            lw_printf_paragraph(f, "%sin run %lld the machine ran at %s of the calibrated speed",
                                any ? "" : "\n", (long long)both[i]->id,
                                lw_speed_text(text, both[i]->machine_speed,
                                              both[i]->machine_speed_p10,
                                              both[i]->machine_speed_p90));
            any = true;
        }
    if (!isnan(c->split.compute_speed))
        lw_printf_paragraph(f,
                            "%scompute of rank %d ran at %.3f of the speed that its prediction "
                            "assumes: of its difference %s is the machine's, %s is left to the "
                            "model", any ? "" : "\n", c->rank[1], c->split.compute_speed,
                            signed_ps(by, c->split.by_speed), signed_ps(left, c->split.left));
}

/* What of a difference is largest: a part, of which the speed of the machine is one of its own. */
static const char *largest_part(const struct lw_comparison *c, lw_ps *best)
{
    bool split = !isnan(c->split.compute_speed);
    const char *name = lw_part_name(0);

    *best = 0;
    for (int i = 0; i < LW_N_PARTS; i++) {
        bool compute = split && i == LW_PERIOD_COMPUTE;
        lw_ps d = compute ? c->split.left : difference(c, lw_comparison_part(c, i));
        if (llabs(d) > llabs(*best)) {
            *best = d;
            name = compute ? "compute beyond the machine's speed" : lw_part_name(i);
        }
    }
    if (split && llabs(c->split.by_speed) > llabs(*best)) {
        *best = c->split.by_speed;
        name = "the machine's speed in compute";
    }
    return name;
}

static void put_verdict(const struct lw_comparison *c, FILE *f)
{
    put_calibration(c, f);
    put_speed(c, f);
    if (put_load(c, f))
        return;
    if (lw_comparison_per_unit(c).unit) {
        put_verdict_per_unit(c, lw_comparison_per_unit(c), f);
        return;
    }
    lw_ps whole = difference(c, c->step), best;
    const char *part = largest_part(c, &best);
    char a[32], b[32];

    lw_format_ps(a, whole < 0 ? -whole : whole);
    lw_format_ps(b, best < 0 ? -best : best);
    if (whole == 0 && best == 0)
        fprintf(f, "\nthe steps are equal, part by part\n");
    else if (whole == 0)
        lw_printf_paragraph(f, "\nthe steps are equally long; the largest difference is in %s: %s",
                            part, b);
    else if (c->of_one_kind)
        lw_printf_paragraph(f, "\nB is %s %s than A; the largest part of it is %s, %s %s", a,
                            whole < 0 ? "shorter" : "longer", part, b,
                            best < 0 ? "shorter" : "longer");
    else
        lw_printf_paragraph(
            f, "\nthe prediction is %s too %s; the largest part of it is %s, predicted %s too %s",
            a, whole < 0 ? "short" : "long", part, b, best < 0 ? "short" : "long");
}

static void put_side(const struct lw_comparison *c, int side, FILE *f)
{
    const struct lw_run *r = side ? &c->measured : &c->predicted;

    lw_printf_paragraph(f, "%c = run %lld (%s%s%s%s), plan %.8s%s%s", 'A' + side,
            (long long)r->id,
            lw_run_kind_name(r->kind), r->backend[0] ? " " : "", r->backend, lw_run_misfit(r),
            r->plan_hash, c->label[side][0] ? ": " : "", c->label[side]);
}

/* A shorter step that trains fewer samples is not an improvement. */
static void put_samples(const struct lw_comparison *c, FILE *f)
{
    struct lw_per_unit u = lw_comparison_per_unit(c);

    if (u.unit)
        lw_printf_paragraph(f, "A step trains %.0f %ss in A and %.0f in B: they compare by %s\n",
                            u.a, u.unit, u.b, u.unit);
}

static void put_heading(const struct lw_comparison *c, FILE *f)
{
    const struct lw_run *p = &c->predicted, *m = &c->measured;

    if (c->of_one_kind) {
        put_side(c, 0, f);
        put_side(c, 1, f);
        return;
    }
    lw_printf_paragraph(
        f, "run %lld (%s%s) against run %lld (%s%s%s%s%s), plan %.8s%s%.8s", (long long)p->id,
        lw_run_kind_name(p->kind), lw_run_misfit(p), (long long)m->id, lw_run_kind_name(m->kind),
        m->backend[0] ? " " : "", m->backend, m->honesty[0] ? ", " : "", m->honesty, p->plan_hash,
        c->same_decisions ? "" : " against ", c->same_decisions ? "" : m->plan_hash);
    fprintf(f, "  run %lld: %s\n  run %lld: %s\n", (long long)p->id, p->name, (long long)m->id,
            m->name);
}

/* "megatron-lm (0291874f)"; of a run without one "none". */
static void put_framework(const struct lw_run *r, FILE *f)
{
    if (!r->framework || !*r->framework)
        fputs("none (a replay, or stored by an older lapwing)", f);
    else if (r->framework_hash && *r->framework_hash)
        fprintf(f, "%s (%.8s)", r->framework, r->framework_hash);
    else
        fputs(r->framework, f);
}

static void put_facts(const struct lw_framework_difference *d, FILE *f)
{
    if (!d->known)
        fputs("; a run does not store the facts, so what differs is not known", f);
    for (int32_t i = 0; i < d->n_facts; i++)
        fprintf(f, "%s%s", i ? ", " : "; they differ in ", d->facts[i]);
}

static enum lw_status put_frameworks(const struct lw_comparison *c, FILE *out, struct lw_err *err)
{
    const struct lw_run *p = &c->predicted, *m = &c->measured;
    bool has = p->framework && *p->framework, other = m->framework && *m->framework;
    struct lw_paragraph line;

    if (!has && !other)
        return LW_OK;
    FILE *f = lw_paragraph_open(&line, out, NULL);
    fputs("framework ", f);
    put_framework(has ? p : m, f);
    if (has != other || c->framework.differ) {
        fprintf(f, " of run %lld, ", (long long)(has ? p->id : m->id));
        put_framework(has ? m : p, f);
        fprintf(f, " of run %lld", (long long)(has ? m->id : p->id));
    }
    if (c->framework.differ)
        put_facts(&c->framework, f);
    return lw_paragraph_close(&line, err);
}

/* And what may be the reason: decisions by times. */
static enum lw_status put_difference(const struct lw_comparison *c, FILE *f, struct lw_err *err)
{
    const struct lw_run *runs[2] = {&c->predicted, &c->measured};

    lw_printf_paragraph(f, "first difference of the plans: %s", c->difference);
    for (int side = 0; side < 2; side++) {
        struct lw_paragraph line;
        if (c->n_from_times[side] == 0)
            continue;
        FILE *to = lw_paragraph_open(&line, f, NULL);
        fprintf(to, "decided by times in run %lld:", (long long)runs[side]->id);
        for (int32_t i = 0; i < c->n_from_times[side]; i++)
            fprintf(to, "%s %s", i > 0 ? "," : "", c->from_times[side][i]);
        LW_TRY(lw_paragraph_close(&line, err));
    }
    fputc('\n', f);
    return LW_OK;
}

enum lw_status lw_comparison_text(const struct lw_comparison *c, bool all, FILE *f,
                                  struct lw_err *err)
{
    struct line ops[LW_OPS_SHOWN];
    struct lw_records r = records_of(c, NULL, ops, op_lines(c, ops), N_SHORT);

    put_heading(c, f);
    LW_TRY(put_frameworks(c, f, err));
    fputc('\n', f);
    if (c->note[0])
        lw_printf_paragraph(f, "note: %s\n", c->note);
    if (c->difference[0])
        LW_TRY(put_difference(c, f, err));
    put_samples(c, f);
    fprintf(f, "parts of the period of rank %d", c->rank[0]);
    if (c->rank[0] != c->rank[1])
        fprintf(f, " against rank %d", c->rank[1]);
    fprintf(f, "\n");
    LW_TRY(put_totals(c, f, err));
    put_verdict(c, f);
    put_intervals(c, f);
    if (c->n_buckets > 0)
        LW_TRY(put_buckets(c, all, f, err));
    if (c->n_ops == 0)
        return LW_OK;
    fprintf(f, "\nops that differ most (each alone; they overlap and do not add up)\n");
    return lw_records_text(&r, f, 0, err);
}

/* The last columns of the table of pairs. */
struct pair_columns {
    bool framework, speed;
    const char *one_framework; /* of all pairs; NULL: they differ */
};

static const char *framework_of(const struct lw_run *r)
{
    return r->framework && *r->framework ? r->framework : "-";
}

/* In text a speed is shown where one is known, and then a framework that all share is left out: the
 * table fits 100 columns. */
static struct pair_columns pair_columns(const struct lw_run *runs, int32_t n, bool csv)
{
    struct pair_columns k = {.framework = true, .speed = csv};
    bool differ = false;

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (!p)
            continue;
        k.speed = k.speed || !isnan(runs[i].machine_speed);
        differ = differ || (k.one_framework && strcmp(framework_of(p), k.one_framework) != 0);
        k.one_framework = framework_of(p);
    }
    k.framework = csv || !k.speed || differ;
    return k;
}

static void pair_row(struct lw_table *t, const struct lw_run *p, const struct lw_run *m,
                     struct pair_columns k)
{
    char cap[32];

    lw_table_cell(t, "%lld, %lld", (long long)p->id, (long long)m->id);
    LW_CELLS(t, m->bucket_cap_bytes < 0 ? "default" : lw_format_bytes(cap, m->bucket_cap_bytes),
             m->n_buckets, LW_MS(p->step), LW_MS(m->step));
    lw_table_cell(t, "%+.1f", lw_both_error_pct((struct lw_both){p->step, m->step}));
    LW_CELLS(t, LW_MS(p->exposed_comm), LW_MS(m->exposed_comm));
    lw_table_cell(t, "%s%s%s%s", lw_run_under_load(m) ? "under load: " : "", m->backend,
                  m->honesty[0] ? ", " : "", m->honesty);
    if (k.framework)
        LW_CELLS(t, framework_of(p));
    if (k.speed)
        lw_table_cell(t, isnan(m->machine_speed) ? "-" : "%.3f", m->machine_speed);
}

enum lw_status lw_pairs_text(const struct lw_run *runs, int32_t n, bool csv, FILE *f,
                             struct lw_err *err)
{
    const struct pair_columns k = pair_columns(runs, n, csv);
    const char *titles[] = {"runs", ">bucket cap", ">buckets", ">predicted step ms",
        ">measured step ms", ">error %", ">predicted exposed ms", ">measured exposed ms",
        "measured on", k.framework ? "framework" : ">machine speed", ">machine speed"};
    struct lw_table *t = lw_table_new(9 + k.framework + k.speed, titles);
    int32_t n_measured = 0;

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (p)
            pair_row(t, p, &runs[i], k);
        n_measured += lw_run_is_measured(&runs[i]);
    }
    enum lw_status st = lw_table_end(t, f, csv ? LW_TABLE_CSV : 0, err);
    if (st == LW_OK && !k.framework && strcmp(k.one_framework, "-") != 0)
        fprintf(f, "framework of all: %s\n", k.one_framework);
    if (st == LW_OK && !csv && n_measured == 0)
        fputs("no run is measured: lapwing exec stores one of a plan, lapwing sim its prediction\n",
              f);
    for (int32_t i = 0; st == LW_OK && !csv && i < n; i++)
        if (lw_run_under_load(&runs[i]) && lw_prediction_of(runs, n, &runs[i]))
            lw_printf_paragraph(f,
                                "run %lld was measured under load (%.1f %% of the processors): its "
                                "error is not the model's; repeat it", (long long)runs[i].id,
                                runs[i].others_pct);
    for (int32_t i = 0; st == LW_OK && !csv && i < n; i++)
        if (lw_run_is_measured(&runs[i]) && !lw_prediction_of(runs, n, &runs[i]))
            fprintf(f, "run %lld has no prediction: store one of its plan with lapwing sim\n",
                    (long long)runs[i].id);
    return st;
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Both sides and how far they are apart in percent. */
static void json_both(struct lw_jsonout *o, const struct lw_column *columns, const char *key,
                      struct lw_both v, double pct)
{
    struct line line = {.v = v, .pct = pct};

    lw_jsonout_line_object(o, key);
    lw_record_json(o, columns + 1, 2, &line);
    lw_record_json(o, columns + PCT_COLUMN, 1, &line);
    lw_jsonout_end(o);
}

static void json_figure(struct lw_jsonout *o, const struct lw_comparison *c, const char *key,
                        struct lw_both v)
{
    json_both(o, columns_of(c), key, v, lw_comparison_pct(c, v));
}

/* "predicted_rank", "b_rank": the key of a member that each side has. */
static const char *side_key(const struct lw_comparison *c, int side, const char *after,
                            char buf[32])
{
    static const char *const names[2][2] = {{"predicted", "measured"}, {"a", "b"}};

    snprintf(buf, 32, "%s%s", names[c->of_one_kind][side], after);
    return buf;
}

static const char *text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static void json_speed(struct lw_jsonout *o, const struct lw_run *r)
{
    bool known = !isnan(r->machine_speed);

    LW_JSON(o, "machine_speed", lw_decimals_if(known, r->machine_speed, 4),
            "machine_speed_p10", lw_decimals_if(known, r->machine_speed_p10, 4),
            "machine_speed_p90", lw_decimals_if(known, r->machine_speed_p90, 4));
}

static void json_split(struct lw_jsonout *o, const struct lw_speed_split *s)
{
    if (isnan(s->compute_speed))
        lw_jsonout_null(o, "compute_split");
    else
        LW_JSON_ROW(o, "compute_split", "compute_speed", lw_decimals(s->compute_speed, 4),
                    "by_speed_ns", lw_ps_to_ns(s->by_speed), "left_ns",
                    lw_ps_to_ns(s->by_speed + s->left) - lw_ps_to_ns(s->by_speed));
}

static void json_run(struct lw_jsonout *o, const struct lw_comparison *c, int side)
{
    const struct lw_run *r = side ? &c->measured : &c->predicted;
    char key[32];

    lw_jsonout_object(o, side_key(c, side, "", key));
    LW_JSON(o, "id", r->id, "name", r->name, "kind", lw_run_kind_name(r->kind),
            "backend", r->backend, "compute_source", r->compute_source, "network", r->network,
            "honesty", r->honesty,
            "plan_hash", r->plan_hash && *r->plan_hash ? r->plan_hash : NULL,
            "cluster", r->cluster_name, "framework", text_or_null(r->framework),
            "framework_hash", text_or_null(r->framework_hash));
    if (r->fits < 0)
        lw_jsonout_null(o, "fits");
    else
        lw_jsonout_bool(o, "fits", r->fits != 0);
    LW_JSON(o, "p10_ns", lw_known_if(r->p90 > 0, lw_ps_to_ns(r->p10)),
            "p90_ns", lw_known_if(r->p90 > 0, lw_ps_to_ns(r->p90)),
            "interval_of", text_or_null(r->interval_of),
            "samples", lw_known(r->samples), "others_pct",
            lw_decimals_if(!isnan(r->others_pct), r->others_pct, 2), "under_load",
            lw_run_under_load(r), "label", c->label[side]);
    json_speed(o, r);
    lw_jsonout_end(o);
}

/* null: the facts of one are not known. */
static void json_frameworks(struct lw_jsonout *o, const struct lw_framework_difference *d)
{
    if (d->differ && !d->known)
        lw_jsonout_null(o, "framework_differs_in");
    else
        lw_jsonout_strings(o, "framework_differs_in", d->facts, d->n_facts);
}

static void json_lists(struct lw_jsonout *o, const struct lw_comparison *c)
{
    struct line parts[LW_N_PARTS], ops[LW_OPS_SHOWN];
    char key[32];

    for (int i = 0; i < LW_N_PARTS; i++)
        parts[i] = line_of(c, lw_part_name(i), lw_comparison_part(c, i));
    struct lw_records r = records_of(c, "parts", parts, LW_N_PARTS, N_SHORT);
    lw_records_json(o, &r);
    lw_jsonout_array(o, "buckets");
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        lw_jsonout_object(o, NULL);
        LW_JSON(o, "bucket", b->bucket, "op", b->kind,
                side_key(c, 0, "_bytes", key), b->bytes.predicted,
                side_key(c, 1, "_bytes", key), b->bytes.measured);
        for (int k = 0; k < LW_N_BUCKET_TIMES; k++)
            json_figure(o, c, bucket_times[k], b->time[k]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    r = records_of(c, "ops", ops, op_lines(c, ops), N_SHORT);
    lw_records_json(o, &r);
}

static void json_per_unit(struct lw_jsonout *o, const struct lw_comparison *c)
{
    struct lw_per_unit u = lw_comparison_per_unit(c);
    double pct = lw_per_unit_pct(u, c->step);

    if (u.unit)
        LW_JSON_ROW(o, "per_unit", "unit", u.unit, "a_per_step", u.a, "b_per_step", u.b, "a_ns",
                    lw_decimals((double)c->step.predicted * 1e-3 / u.a, 3), "b_ns",
                    lw_decimals((double)c->step.measured * 1e-3 / u.b, 3), "change_pct",
                    lw_decimals_if(!isnan(pct), pct, 3));
    else
        lw_jsonout_null(o, "per_unit");
}

void lw_comparison_json(const struct lw_comparison *c, double tolerance, bool within, FILE *f)
{
    static const enum lw_period_figure shown[] = {LW_FIGURE_COMPUTE, LW_FIGURE_COPY_BUSY,
                                                  LW_FIGURE_COMM_BUSY, LW_FIGURE_EXPOSED_COMM,
                                                  LW_FIGURE_IDLE};
    struct lw_jsonout o = {.file = f};
    char key[32];

    lw_jsonout_object(&o, NULL);
    json_run(&o, c, 0);
    json_run(&o, c, 1);
    json_frameworks(&o, &c->framework);
    LW_JSON(&o, "same_plan",
            c->same_decisions, "first_difference", c->difference[0] ? c->difference : NULL,
            "joined_by", lw_joined_name(c->joined), "note", c->note);
    for (int side = 0; side < 2; side++)
        lw_jsonout_strings(&o, side_key(c, side, "_from_times", key), c->from_times[side],
                           c->n_from_times[side]);
    json_figure(&o, c, "step", c->step);
    json_per_unit(&o, c);
    LW_JSON(&o, side_key(c, 0, "_rank", key), c->rank[0], side_key(c, 1, "_rank", key), c->rank[1]);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const char *name = lw_period_columns[LW_PERIOD_FIRST_COLUMN + shown[i]].key;
        snprintf(key, sizeof key, "%.*s", (int)strlen(name) - 3, name); /* without its "_ns" */
        json_figure(&o, c, key, c->figure[shown[i]]);
    }
    json_split(&o, &c->split);
    json_lists(&o, c);
    if (tolerance < 0) {
        lw_jsonout_null(&o, "tolerance_pct");
        lw_jsonout_null(&o, "within_tolerance");
    } else {
        LW_JSON(&o, "tolerance_pct", tolerance, "within_tolerance", within);
    }
    lw_jsonout_end(&o);
}

static void json_pair(struct lw_jsonout *o, const struct lw_run *p, const struct lw_run *m)
{
    lw_jsonout_object(o, NULL);
    LW_JSON(o, "predicted_run", p->id, "measured_run", m->id, "plan_hash", m->plan_hash,
            "framework", text_or_null(p->framework),
            "framework_hash", text_or_null(p->framework_hash),
            "bucket_cap_bytes", m->bucket_cap_bytes, "n_buckets", m->n_buckets,
            "backend", m->backend, "compute_source", m->compute_source, "network", m->network,
            "honesty", m->honesty, "under_load", lw_run_under_load(m));
    json_speed(o, m);
    struct lw_both step = {p->step, m->step}, exposed = {p->exposed_comm, m->exposed_comm};
    LW_JSON(o, "p10_ns", lw_known_if(p->p90 > 0, lw_ps_to_ns(p->p10)),
            "p90_ns", lw_known_if(p->p90 > 0, lw_ps_to_ns(p->p90)));
    json_both(o, of_prediction, "step", step, lw_both_error_pct(step));
    json_both(o, of_prediction, "exposed_comm", exposed, lw_both_error_pct(exposed));
    lw_jsonout_end(o);
}

void lw_pairs_json(const struct lw_run *runs, int32_t n, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "pairs");
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (p)
            json_pair(&o, p, &runs[i]);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}
