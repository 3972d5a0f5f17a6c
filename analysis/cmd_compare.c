/* lapwing compare: how far apart two stored runs are, and what makes up the difference. */
#include <math.h>
#include <stdio.h>

#include "analysis/compare.h"
#include "shared/cli.h"
#include "shared/command.h"
#include "shared/jsonout.h"
#include "shared/table.h"

static void json_ns(struct lw_jsonout *o, const char *key, lw_ps v, bool known)
{
    if (known)
        lw_jsonout_ns(o, key, v);
    else
        lw_jsonout_null(o, key);
}

static void json_both(struct lw_jsonout *o, const char *key, struct lw_both v)
{
    lw_jsonout_line_object(o, key);
    json_ns(o, "predicted_ns", v.predicted, v.predicted != -1);
    json_ns(o, "measured_ns", v.measured, v.measured != -1);
    lw_jsonout_fixed(o, "error_pct", lw_both_error_pct(v), 3);
    lw_jsonout_end(o);
}

static void json_run(struct lw_jsonout *o, const char *key, const struct lw_run *r)
{
    lw_jsonout_object(o, key);
    lw_jsonout_int(o, "id", r->id);
    lw_jsonout_string(o, "kind", lw_run_kind_name(r->kind));
    lw_jsonout_string(o, "backend", r->backend);
    lw_jsonout_string(o, "honesty", r->honesty);
    lw_jsonout_string(o, "plan_hash", r->plan_hash[0] ? r->plan_hash : NULL);
    lw_jsonout_string(o, "cluster", r->cluster_name);
    lw_jsonout_end(o);
}

static void json_lists(struct lw_jsonout *o, const struct lw_comparison *c)
{
    lw_jsonout_array(o, "parts");
    for (int i = 0; i < LW_N_PARTS; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_string(o, "what", lw_part_name((enum lw_part)i));
        lw_jsonout_ns(o, "predicted_ns", c->part[i].predicted);
        lw_jsonout_ns(o, "measured_ns", c->part[i].measured);
        lw_jsonout_ns(o, "difference_ns", c->part[i].predicted - c->part[i].measured);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    lw_jsonout_array(o, "buckets");
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        lw_jsonout_object(o, NULL);
        lw_jsonout_int(o, "bucket", b->bucket);
        lw_jsonout_string(o, "op", b->kind);
        lw_jsonout_int(o, "predicted_bytes", b->bytes.predicted);
        lw_jsonout_int(o, "measured_bytes", b->bytes.measured);
        json_both(o, "ready", b->ready);
        json_both(o, "launch", b->launch);
        json_both(o, "start", b->start);
        json_both(o, "finish", b->finish);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    lw_jsonout_array(o, "ops");
    for (int32_t i = 0; i < c->n_ops; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_string(o, "what", c->ops[i].name);
        lw_jsonout_ns(o, "predicted_ns", c->ops[i].time.predicted);
        lw_jsonout_ns(o, "measured_ns", c->ops[i].time.measured);
        lw_jsonout_ns(o, "difference_ns",
                      c->ops[i].time.predicted - c->ops[i].time.measured);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void put_json(const struct lw_comparison *c, double tolerance, bool within)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    json_run(&o, "predicted", &c->predicted);
    json_run(&o, "measured", &c->measured);
    lw_jsonout_bool(&o, "same_plan", c->predicted.plan >= 0 &&
                                         c->predicted.plan == c->measured.plan);
    lw_jsonout_string(&o, "joined_by", lw_joined_name(c->joined));
    lw_jsonout_string(&o, "note", c->note);
    json_both(&o, "step", c->step);
    json_both(&o, "compute_busy", c->compute_busy);
    json_both(&o, "copy_busy", c->copy_busy);
    json_both(&o, "comm_busy", c->comm_busy);
    json_both(&o, "exposed_comm", c->part[LW_PART_EXPOSED]);
    json_both(&o, "idle", c->part[LW_PART_IDLE]);
    json_lists(&o, c);
    if (tolerance < 0) {
        lw_jsonout_null(&o, "tolerance_pct");
        lw_jsonout_null(&o, "within_tolerance");
    } else {
        lw_jsonout_double(&o, "tolerance_pct", tolerance);
        lw_jsonout_bool(&o, "within_tolerance", within);
    }
    lw_jsonout_end(&o);
}

/* Milliseconds with microseconds behind the point; a difference carries its sign. */
static void ms_cell(struct lw_table *t, lw_ps v, bool known, bool sign)
{
    if (known)
        lw_table_cell(t, sign ? "%+.3f" : "%.3f", (double)v / (double)LW_PS_PER_MS);
    else
        lw_table_cell(t, "-");
}

static void pct_cell(struct lw_table *t, struct lw_both v)
{
    double e = lw_both_error_pct(v);
    if (isnan(e))
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%+.1f", e);
}

static void total_row(struct lw_table *t, const char *name, struct lw_both v)
{
    lw_table_cell(t, "%s", name);
    ms_cell(t, v.predicted, true, false);
    ms_cell(t, v.measured, true, false);
    ms_cell(t, v.predicted - v.measured, true, true);
    pct_cell(t, v);
}

static enum lw_status put_totals(const struct lw_comparison *c, bool csv, struct lw_err *err)
{
    static const char *const titles[] = {"", ">predicted ms", ">measured ms", ">difference ms",
                                         ">error %"};
    struct lw_table *t = lw_table_new(5, titles);

    total_row(t, "step", c->step);
    for (int i = 0; i < LW_N_PARTS; i++) {
        char name[64];
        snprintf(name, sizeof name, csv ? "%s" : "  %s", lw_part_name((enum lw_part)i));
        total_row(t, name, c->part[i]);
    }
    total_row(t, "compute busy", c->compute_busy);
    total_row(t, "communication busy", c->comm_busy);
    enum lw_status st = csv ? lw_table_print_csv(t, stdout, err)
                            : lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return st;
}

static enum lw_status put_buckets(const struct lw_comparison *c, struct lw_err *err)
{
    static const char *const titles[] = {">bucket", "op", ">size", ">ready p", ">m", ">launch p",
        ">m", ">start p", ">m", ">finish p", ">m", ">error %"};
    struct lw_table *t = lw_table_new(12, titles);
    char size[32];

    printf("\nbuckets: ms from the start of the step to the last rank's event, "
           "p predicted, m measured\n");
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
        pct_cell(t, b->finish);
    }
    enum lw_status st = lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return st;
}

/* One sentence: which part of the step holds most of the difference. */
static void put_verdict(const struct lw_comparison *c)
{
    lw_ps whole = c->step.predicted - c->step.measured, best = 0;
    int part = 0;
    char a[32], b[32];

    for (int i = 0; i < LW_N_PARTS; i++) {
        lw_ps d = c->part[i].predicted - c->part[i].measured;
        if ((d < 0 ? -d : d) > (best < 0 ? -best : best)) {
            best = d;
            part = i;
        }
    }
    if (whole == 0 && best == 0) {
        printf("\nthe steps are equal, part by part\n");
        return;
    }
    printf("\nthe prediction is %s too %s; the largest part of it is %s, predicted %s too %s\n",
           lw_format_ps(a, whole < 0 ? -whole : whole), whole < 0 ? "short" : "long",
           lw_part_name((enum lw_part)part), lw_format_ps(b, best < 0 ? -best : best),
           best < 0 ? "short" : "long");
}

static enum lw_status put_text(const struct lw_comparison *c, struct lw_err *err)
{
    static const char *const titles[] = {"op", ">predicted ms", ">measured ms", ">difference ms"};
    const struct lw_run *p = &c->predicted, *m = &c->measured;

    printf("run %lld (%s) against run %lld (%s%s%s%s%s), plan %.8s%s%.8s\n\n", (long long)p->id,
           lw_run_kind_name(p->kind), (long long)m->id, lw_run_kind_name(m->kind),
           m->backend[0] ? " " : "", m->backend, m->honesty[0] ? ", " : "", m->honesty,
           p->plan_hash, p->plan == m->plan ? "" : " against ",
           p->plan == m->plan ? "" : m->plan_hash);
    if (c->note[0])
        printf("note: %s\n\n", c->note);
    LW_TRY(put_totals(c, false, err));
    put_verdict(c);
    if (c->n_buckets > 0)
        LW_TRY(put_buckets(c, err));
    if (c->n_ops == 0)
        return LW_OK;
    struct lw_table *t = lw_table_new(4, titles);
    printf("\nops that differ most (each alone; they overlap and do not add up)\n");
    for (int32_t i = 0; i < c->n_ops; i++) {
        lw_table_cell(t, "%s", c->ops[i].name);
        ms_cell(t, c->ops[i].time.predicted, true, false);
        ms_cell(t, c->ops[i].time.measured, true, false);
        ms_cell(t, c->ops[i].time.predicted - c->ops[i].time.measured, true, true);
    }
    enum lw_status st = lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return st;
}

/* The comparison is kept for later predictions; a database that cannot be written does not spoil
 * the answer, but that is said. */
static void keep(const char *db, const struct lw_comparison *c, double tolerance)
{
    struct lw_store *store = NULL;
    struct lw_err err = {0};

    if (lw_store_open(db, LW_STORE_WRITE, &store, &err) != LW_OK ||
        lw_comparison_store(store, c, tolerance, &err) != LW_OK)
        fprintf(stderr, "lapwing compare: the comparison is not kept: %s\n", err.msg);
    lw_store_close(store);
}

static enum lw_status judge(const struct lw_comparison *c, double tolerance, bool *within,
                            struct lw_err *err)
{
    double e = lw_both_error_pct(c->step);

    *within = !isnan(e) && fabs(e) <= tolerance;
    if (tolerance < 0 || *within)
        return LW_OK;
    return lw_fail(err, LW_ENO, "the step is %+.2f %% off, beyond the tolerance of %g %%", e,
                   tolerance);
}

int cmd_compare(int argc, char **argv)
{
    const char *db = "lapwing.db";
    enum lw_format format = LW_FORMAT_TEXT;
    double tolerance = -1;
    const struct lw_opt options[] = {
        {"tolerance", 0, LW_OPT_DOUBLE, &tolerance, "PCT",
         "exit with 3 when the steps differ by more percent of the measured one", 0, 1000000},
        {"db", 0, LW_OPT_STRING, &db, "FILE", "results database (lapwing.db)", 0, 0},
        {"format", 0, LW_OPT_FORMAT, &format, "text|json|csv", "output format (text)", 0, 0},
        {0},
    };
    const struct lw_usage usage = {
        "compare", "RUN RUN [options]",
        "Compare two stored runs: step, parts of it, buckets and ops. Of a simulation and an "
        "execution the simulation is the prediction; else the first. RUN is a number or 'last'.",
        2, 2};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_comparison c = {0};
    int n_operands, rc;
    bool within = false;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    enum lw_status st = lw_store_open(db, LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = lw_compare(store, argv[1], argv[2], &c, &err);
    lw_store_close(store);
    if (st == LW_OK) {
        enum lw_status verdict = judge(&c, tolerance, &within, &err);
        if (format == LW_FORMAT_JSON)
            put_json(&c, tolerance, within);
        else
            st = format == LW_FORMAT_CSV ? put_totals(&c, true, &err) : put_text(&c, &err);
        keep(db, &c, tolerance);
        st = st == LW_OK ? verdict : st;
    }
    lw_comparison_free(&c);
    return lw_cli_end("compare", st, &err);
}
