/* A comparison as text and CSV (docs/formats/compare.md). */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare/compare_lines.h"
#include "analysis/compare/compare_print.h"
#include "analysis/compare/run_words.h"
#include "analysis/compare/step_work.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/interval_text.h"
#include "shared/numbers/speed_text.h"
#include "shared/text/records.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

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
             lw_known_if(p && m, lw_compared_difference(c, shown)));
    lw_table_cell(t, isnan(e) ? "" : "%.3f", e);
}

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
            csv_row(c, t, "bucket", b->bucket, lw_bucket_times[k], b->time[k], false);
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
static enum lw_status put_per_unit(struct lw_per_unit u, const struct lw_compared *lines, int n,
                                   FILE *f, struct lw_err *err)
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
    struct lw_compared lines[LW_N_PARTS + 2] = {lw_compared_of(c, "step", c->step)};
    char names[LW_N_PARTS][64];
    int n = 1;

    for (int i = 0; i < LW_N_PARTS; i++) {
        struct lw_both v = lw_comparison_part(c, i);
        if (v.predicted == 0 && v.measured == 0)
            continue;
        snprintf(names[i], sizeof names[i], "  %s", lw_part_name(i));
        lines[n++] = lw_compared_of(c, names[i], v);
    }
    lines[n++] = lw_compared_of(c, "communication busy", c->figure[LW_FIGURE_COMM_BUSY]);
    if (lw_comparison_per_unit(c).unit)
        return put_per_unit(lw_comparison_per_unit(c), lines, n, f, err);
    struct lw_records r = lw_compared_records(c, NULL, lines, n, LW_COMPARED_COLUMNS);
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
        lw_ps d = compute ? c->split.left : lw_compared_difference(c, lw_comparison_part(c, i));
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
    lw_ps whole = lw_compared_difference(c, c->step), best;
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
    struct lw_compared ops[LW_OPS_SHOWN];
    int n_ops = lw_compared_ops(c, ops);
    struct lw_records r = lw_compared_records(c, NULL, ops, n_ops, LW_COMPARED_SHORT);

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
