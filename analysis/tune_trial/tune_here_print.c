/* What a trial measured, beside what was predicted. */
#include <math.h>
#include <stddef.h>

#include "analysis/tune_trial/tune_here.h"
#include "analysis/tune/tune_print.h"
#include "shared/text/wrap.h"
#include "shared/timeline/timeline.h"

#define AT(field) offsetof(struct lw_tune_here_row, field)
static const struct lw_column columns[] = {
    {"of", "of", LW_COLUMN_TEXT, AT(of)},
    {"place", "place", LW_COLUMN_INT, AT(place)},
    {"predicted_ns", "predicted ms", LW_COLUMN_MS, AT(predicted)},
    {"measured_ns", "measured ms", LW_COLUMN_MS, AT(measured), .lacking = "-"},
    {"least_ns", NULL, LW_COLUMN_PS, AT(least), .lacking = ""},
    {"most_ns", NULL, LW_COLUMN_PS, AT(most), .lacking = ""},
    {"at_speed_ns", "at assumed speed ms", LW_COLUMN_MS, AT(at_speed), .lacking = "-"},
    {"machine_speed", "machine speed", LW_COLUMN_REAL, AT(machine_speed), 3, .lacking = "-"},
    {"error_pct", "error %", LW_COLUMN_CHANGE_PCT, AT(error_pct)},
    {"tie", "tie", LW_COLUMN_INT, AT(tie)},
    {"others_pct", NULL, LW_COLUMN_REAL, AT(others_pct), 1},
    {"predicted_run", "run", LW_COLUMN_INT, AT(predicted_run), .lacking = "-"},
    {"measured_run", "measured run", LW_COLUMN_INT, AT(measured_run), .lacking = "-"},
    {NULL, "strategy", LW_COLUMN_TEXT, AT(differs)},
    {"strategy", NULL, LW_COLUMN_TEXT, AT(strategy)},
    {"reason", NULL, LW_COLUMN_TEXT, AT(reason)},
};
#undef AT

static struct lw_records records_of(const struct lw_tune_here_result *r)
{
    return LW_RECORDS("strategies", columns, r->row, r->n_rows);
}

static enum lw_status put_head(const struct lw_tune_report *p,
                               const struct lw_tune_here_request *q,
                               const struct lw_tune_here_result *r, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    fprintf(o, "%s on %s, %lld samples a step; %lld strategies of %lld combinations, all predicted",
            p->model, p->cluster, (long long)p->global_batch, (long long)p->r->n_valid,
            (long long)p->r->n_combinations);
    LW_TRY(lw_paragraph_close(&line, err));
    o = lw_paragraph_open(&line, f, NULL);
    fprintf(o,
            "executed: the best %d and %d others (seed %lld), %lld runs of each, %lld step%s each",
            LW_TUNE_HERE_BEST, LW_TUNE_HERE_OTHERS, (long long)q->seed, (long long)q->n_repeats,
            (long long)q->n_steps, lw_plural(q->n_steps));
    if (r->n_alike > 0)
        fprintf(o, "; %lld of the best passed over, whose steps are predicted to be equal to one "
                   "that is there", (long long)r->n_alike);
    LW_TRY(lw_paragraph_close(&line, err));
    fputc('\n', f);
    return LW_OK;
}

static enum lw_status put_common(const struct lw_tune_here_result *r, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    fprintf(o, "all with %s", r->common);
    return lw_paragraph_close(&line, err);
}

static enum lw_status put_refused(const struct lw_tune_here_result *r, FILE *f, struct lw_err *err)
{
    for (int i = 0; i < r->n_rows; i++) {
        struct lw_paragraph line;
        if (!r->row[i].reason[0])
            continue;
        FILE *o = lw_paragraph_open(&line, f, NULL);
        fprintf(o, "not executed: %s: %s", r->row[i].strategy, r->row[i].reason);
        LW_TRY(lw_paragraph_close(&line, err));
    }
    return LW_OK;
}

static enum lw_status put_ties(const struct lw_tune_verdict *v, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    if (isnan(v->spread_pct))
        fputs("spread of repeats: not known, no strategy was run twice", o);
    else
        fprintf(o, "spread of repeats %.2f %%: measured steps that differ by less than %.2f %% are "
                   "tied", v->spread_pct, v->tied_pct);
    LW_TRY(lw_paragraph_close(&line, err));
    if (!isnan(v->spread_at_speed_pct))
        lw_printf_paragraph(f, "with the compute of each run at the speed that its prediction "
                               "assumes the spread is %.2f %%: the speed of the machine explains "
                               "%.0f %% of the squared spread", v->spread_at_speed_pct,
                            lw_tune_machine_spread_pct(v));
    o = lw_paragraph_open(&line, f, NULL);
    if (isnan(v->rank_correlation))
        fputs("rank correlation: none, all are tied", o);
    else
        fprintf(o, "rank correlation %.3f", v->rank_correlation);
    fprintf(o, "; %lld of %lld pairs are not tied", (long long)v->n_apart, (long long)v->n_pairs);
    if (v->n_apart > 0)
        fprintf(o, ", pair correlation %.3f", v->pair_correlation);
    return lw_paragraph_close(&line, err);
}

static enum lw_status put_regret(const struct lw_tune_here_result *r, FILE *f, struct lw_err *err)
{
    const struct lw_tune_verdict *v = &r->verdict;
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    fprintf(o, "regret %.2f %% (allowed %g %%): ", v->regret_pct, LW_TUNE_REGRET_PCT);
    if (v->chosen == v->fastest)
        fputs("what is predicted fastest was measured fastest", o);
    else
        fprintf(o, "what is predicted fastest takes %.2f %% longer than '%s'%s", v->longer_pct,
                r->row[v->fastest].strategy, v->regret_pct > 0 ? "" : ", and the two are tied");
    LW_TRY(lw_paragraph_close(&line, err));
    if (r->n_loaded == 0)
        return LW_OK;
    o = lw_paragraph_open(&line, f, NULL);
    fprintf(o, "measured under load: beside %d runs other programs took more than %.0f %% of the "
               "processors", r->n_loaded, LW_LOADED_PCT);
    return lw_paragraph_close(&line, err);
}

static enum lw_status print_text(const struct lw_tune_report *p,
                                 const struct lw_tune_here_request *q,
                                 const struct lw_tune_here_result *r, FILE *f, struct lw_err *err)
{
    const struct lw_records rows = records_of(r);

    LW_TRY(put_head(p, q, r, f, err));
    LW_TRY(lw_records_text(&rows, f, 0, err));
    LW_TRY(put_common(r, f, err));
    LW_TRY(put_refused(r, f, err));
    fputc('\n', f);
    LW_TRY(put_ties(&r->verdict, f, err));
    LW_TRY(put_regret(r, f, err));
    if (p->db)
        fprintf(f, "stored: %s\n", p->db);
    return LW_OK;
}

static void print_json(const struct lw_tune_report *p, const struct lw_tune_here_request *q,
                       const struct lw_tune_here_result *r, FILE *f)
{
    const struct lw_tune_verdict *v = &r->verdict;
    const struct lw_records rows = records_of(r);
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "model", p->model, "cluster", p->cluster, "global_batch", p->global_batch,
            "n_combinations", p->r->n_combinations, "n_valid", p->r->n_valid);
    LW_JSON(&o, "seed", q->seed, "n_steps", q->n_steps, "n_repeats", q->n_repeats, "n_measured",
            (int64_t)v->n_measured, "n_alike", r->n_alike, "n_loaded", (int64_t)r->n_loaded,
            "interrupted", r->interrupted);
    lw_jsonout_double(&o, "spread_pct", v->spread_pct);
    lw_jsonout_double(&o, "spread_at_speed_pct", v->spread_at_speed_pct);
    lw_jsonout_double(&o, "machine_spread_pct", lw_tune_machine_spread_pct(v));
    lw_jsonout_double(&o, "tied_pct", v->tied_pct);
    lw_jsonout_double(&o, "rank_correlation", v->rank_correlation);
    LW_JSON(&o, "n_pairs", v->n_pairs, "n_pairs_apart", v->n_apart);
    lw_jsonout_double(&o, "pair_correlation", v->pair_correlation);
    lw_jsonout_double(&o, "longer_pct", v->longer_pct);
    lw_jsonout_double(&o, "regret_pct", v->regret_pct);
    lw_jsonout_double(&o, "allowed_regret_pct", LW_TUNE_REGRET_PCT);
    lw_records_json(&o, &rows);
    lw_jsonout_end(&o);
}

enum lw_status lw_tune_here_print(const struct lw_tune_report *p,
                                  const struct lw_tune_here_request *request,
                                  const struct lw_tune_here_result *r, enum lw_format format,
                                  FILE *f, struct lw_err *err)
{
    const struct lw_records rows = records_of(r);

    if (format == LW_FORMAT_TEXT)
        return print_text(p, request, r, f, err);
    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&rows, f, err);
    print_json(p, request, r, f);
    return LW_OK;
}
