/* Tables of runs: coverage, memory, fits, ranks, and the rows passed over. */
#include "analysis/validate/validate_runs_print.h"

#include <math.h>
#include <string.h>

#include "shared/numbers/checked.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* --- json --- */

void lw_validation_json_runs(const struct lw_validation *v, int32_t family, struct lw_jsonout *o)
{
    const struct lw_family *f = &v->families[family];

    lw_jsonout_int(o, "n_skipped", f->n_skipped);
    lw_jsonout_object(o, "memory");
    LW_JSON(o, "n", f->n_memory, "mean_abs_error_pct", lw_decimals(f->memory_mean_pct, 4),
            "bias_pct", lw_decimals(f->memory_bias_pct, 4));
    lw_jsonout_end(o);
    lw_jsonout_object(o, "fits");
    LW_JSON(o, "n_ran", f->ran.n, "n_ran_fit", f->ran.n_right, "n_failed", f->failed.n,
            "n_failed_do_not_fit", f->failed.n_right);
    lw_jsonout_end(o);
}

static struct lw_maybe whole_bytes(double bytes)
{
    return lw_known_if(bytes > 0, lw_round_sat(bytes));
}

void lw_validation_json_run(const struct lw_case *c, struct lw_jsonout *o)
{
    LW_JSON(o, "predicted_bytes", whole_bytes(c->predicted_bytes), "needed_bytes",
            whole_bytes(c->needed_bytes), "measured_bytes", whole_bytes(c->measured_bytes),
            "memory_kind", *c->memory_kind ? c->memory_kind : NULL, "tokens_per_s_device",
            lw_decimals(c->tokens_per_s_device, 2), "measured_mfu_pct",
            lw_decimals_if(c->measured_mfu_pct > 0, c->measured_mfu_pct, 2));
    if (lw_case_fits(c) < 0)
        lw_jsonout_null(o, "fits");
    else
        lw_jsonout_bool(o, "fits", lw_case_fits(c) != 0);
    if (*c->key.part[1]) {
        lw_jsonout_object(o, "like");
        for (int k = 0; k < LW_ALIKE_PARTS; k++)
            lw_jsonout_string(o, lw_alike_part_name(k), c->key.part[k]);
        lw_jsonout_end(o);
    }
    lw_jsonout_string(o, "command", c->command);
    if (c->failed)
        lw_jsonout_string(o, "status", "failed");
}

/* Rows passed over with the reason and the family of row i; 0: a row before it has them too. */
static int32_t n_alike(const struct lw_validation *v, int32_t i)
{
    int32_t n = 0;

    for (int32_t j = 0; j < v->n_skips; j++) {
        if (v->skips[j].family != v->skips[i].family ||
            strcmp(v->skips[j].reason, v->skips[i].reason) != 0)
            continue;
        if (j < i)
            return 0;
        n++;
    }
    return n;
}

void lw_validation_json_skips(const struct lw_validation *v, struct lw_jsonout *o)
{
    lw_jsonout_array(o, "skipped");
    for (int32_t i = 0; i < v->n_skips; i++)
        LW_JSON_ROW(o, NULL, "id", v->skips[i].id, "reason", v->skips[i].reason);
    lw_jsonout_end(o);
    lw_jsonout_array(o, "skip_reasons");
    for (int32_t i = 0; i < v->n_skips; i++) {
        if (n_alike(v, i) > 0)
            LW_JSON_ROW(o, NULL, "family", v->families[v->skips[i].family].name,
                        "reason", v->skips[i].reason, "n", n_alike(v, i));
    }
    lw_jsonout_end(o);
}

void lw_validation_json_refusals(const struct lw_validation *v, struct lw_jsonout *o)
{
    lw_jsonout_array(o, "refused");
    for (int32_t i = 0; i < v->n_refusals; i++) {
        const struct lw_refusal *r = &v->refusals[i];
        LW_JSON_ROW(o, NULL, "file", r->file, "line", r->line, "column",
                    *r->column ? r->column : NULL, "error", r->text);
    }
    lw_jsonout_end(o);
}

/* --- text --- */

/* Rows that no device can have run as they say, of each family. */
static void text_beyond(const struct lw_validation *v, FILE *f)
{
    for (int32_t k = 0; k < v->n_families; k++) {
        const struct lw_case *first = NULL;
        int32_t n = 0;
        for (int32_t i = v->n_cases - 1; i >= 0; i--)
            if (v->cases[i].family == k && v->cases[i].measured_mfu_pct > 100) {
                first = &v->cases[i];
                n++;
            }
        if (n > 0)
            lw_printf_paragraph(f, "\nmarked: %d row%s of %s whose measured step alone implies an "
                                   "MFU above 100 %%, first %s (%.4g %%): check %s cells",
                                n, lw_plural(n), v->families[k].name, first->id,
                                first->measured_mfu_pct, n == 1 ? "its" : "their");
    }
}

static double of_rank(const struct lw_series *s)
{
    return s->rank;
}

static double of_order(const struct lw_series *s)
{
    return s->order;
}

static double of_regret(const struct lw_series *s)
{
    return s->regret_pct;
}

/* Of the sweeps of a family: the mean, and the worst of how many. */
static void sweep_cell(struct lw_table *t, const struct lw_validation *v, int32_t k,
                       double (*figure)(const struct lw_series *), bool is_regret)
{
    double worst = NAN, sum = 0;
    int32_t n = 0;

    for (int32_t i = 0; i < v->n_series; i++) {
        const struct lw_series *s = &v->series[i];
        double x = s->family == k && s->sweep ? figure(s) : (double)NAN;
        if (isnan(x))
            continue;
        sum += x;
        n++;
        worst = isnan(worst) || (is_regret ? x > worst : x < worst) ? x : worst;
    }
    if (n == 0)
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%.*f%s (%.*f of %d)", is_regret ? 1 : 2, sum / n, is_regret ? " %" : "",
                      is_regret ? 1 : 2, worst, n);
}

static void family_cells(struct lw_table *t, const struct lw_validation *v, int32_t k,
                         int32_t n_rows)
{
    const struct lw_family *f = &v->families[k];

    lw_table_cell(t, "%s", f->name);
    lw_table_cell(t, "%d of %d", n_rows - f->n_skipped, n_rows);
    if (f->n > 0)
        lw_table_cell(t, "%.1f %% (%+.1f)", f->mean_abs_pct, f->bias_pct);
    else
        lw_table_cell(t, "-");
    sweep_cell(t, v, k, of_rank, false);
    sweep_cell(t, v, k, of_order, false);
    sweep_cell(t, v, k, of_regret, true);
    if (f->n_memory > 0)
        lw_table_cell(t, "%.1f %% (%+.1f) of %d", f->memory_mean_pct, f->memory_bias_pct,
                      f->n_memory);
    else
        lw_table_cell(t, "-");
    lw_table_cell(t, "%d of %d", f->ran.n_right, f->ran.n);
    lw_table_cell(t, "%d of %d", f->failed.n_right, f->failed.n);
}

static struct lw_table *runs_table(const struct lw_validation *v, int *n_families)
{
    static const char *const titles[] = {"runs", ">predicted rows", ">step error (bias)",
                                         ">rank: mean (least)", ">pairs: mean (least)",
                                         ">regret: mean (worst)", ">memory error (bias)",
                                         ">ran: fit", ">failed: do not fit"};
    struct lw_table *t = lw_table_new(9, titles);

    for (int32_t k = 0; t && k < v->n_families; k++) {
        int32_t n = v->families[k].n_skipped;
        if (!v->families[k].runs)
            continue;
        for (int32_t i = 0; i < v->n_cases; i++)
            n += v->cases[i].family == k;
        family_cells(t, v, k, n);
        ++*n_families;
    }
    return t;
}

enum lw_status lw_validation_text_runs(const struct lw_validation *v, FILE *f, struct lw_err *err)
{
    int n = 0;
    struct lw_table *t = runs_table(v, &n);
    enum lw_status s = LW_OK;

    if (!t)
        return lw_fail_nomem(err);
    if (n > 0) {
        fputc('\n', f);
        s = lw_table_print(t, f, 0, err);
    }
    lw_table_free(t);
    if (s == LW_OK)
        text_beyond(v, f);
    for (int32_t i = 0; s == LW_OK && i < v->n_skips; i++)
        if (n_alike(v, i) > 0)
            lw_printf_paragraph(f, "%snot predicted: %d row%s of %s: %s", i ? "" : "\n",
                                n_alike(v, i), lw_plural(n_alike(v, i)),
                                v->families[v->skips[i].family].name,
                                v->skips[i].reason);
    return s;
}
