/* Predictions beside measurements, for people and for programs. */
#include "analysis/validate/validate.h"

#include <math.h>
#include <string.h>

#include "analysis/validate/validate_runs_print.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/checked.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

static bool is_time(const struct lw_case *c)
{
    return strcmp(c->unit, "ns") == 0;
}

/* --- text --- */

static void value_cell(struct lw_table *t, const struct lw_case *c, double value)
{
    char buf[32];

    if (value <= 0)
        lw_table_cell(t, "-");
    else if (is_time(c))
        lw_table_cell(t, "%s", lw_format_ns(buf, lw_round_sat(value)));
    else
        lw_table_cell(t, "%.5g %s", value, c->unit);
}

static bool has_speed(const struct lw_validation *v)
{
    for (int32_t i = 0; i < v->n_cases; i++)
        if (v->cases[i].machine_speed > 0)
            return true;
    return false;
}

static enum lw_status put_cases(const struct lw_validation *v, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"case", "family", ">predicted", ">measured", ">error",
                                         ">machine speed"};
    bool with_speed = has_speed(v);
    struct lw_table *t = lw_table_new(with_speed ? 6 : 5, titles);

    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        LW_CELLS(t, c->id, v->families[c->family].name);
        value_cell(t, c, c->predicted);
        value_cell(t, c, c->measured);
        if (c->measured > 0)
            lw_table_cell(t, "%+.1f %%", c->error_pct);
        else
            lw_table_cell(t, "-");
        if (with_speed)
            lw_table_cell(t, c->machine_speed > 0 ? "%.3f" : "-", c->machine_speed);
    }
    return lw_table_end(t, f, 0, err);
}

static void summary_cells(struct lw_table *t, const char *name, int32_t n, double mean,
                          double worst, double bias, int64_t right, int64_t pairs)
{
    LW_CELLS(t, name, n);
    lw_table_cell(t, "%.2f %%", mean);
    lw_table_cell(t, "%.2f %%", worst);
    lw_table_cell(t, "%+.2f %%", bias);
    if (pairs > 0)
        lw_table_cell(t, "%lld of %lld", (long long)right, (long long)pairs);
    else
        lw_table_cell(t, "-");
}

static enum lw_status put_summary(const struct lw_validation *v, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"family, series", ">cases", ">mean error", ">worst",
                                         ">bias", ">order right"};
    struct lw_table *t = lw_table_new(6, titles);
    char name[256];

    for (int32_t k = 0; k < v->n_families; k++) {
        const struct lw_family *x = &v->families[k];
        summary_cells(t, x->name, x->n, x->mean_abs_pct, x->max_abs_pct, x->bias_pct, x->n_right,
                      x->n_pairs);
        for (int32_t i = 0; i < v->n_series; i++) {
            const struct lw_series *s = &v->series[i];
            if (s->family != k || s->sweep)
                continue;
            snprintf(name, sizeof name, "  %s", s->name);
            summary_cells(t, name, s->n, s->mean_abs_pct, s->max_abs_pct, s->bias_pct, s->n_right,
                          s->n_pairs);
        }
    }
    return lw_table_end(t, f, 0, err);
}

static void text_family(const struct lw_validation *v, int32_t k, FILE *f)
{
    const struct lw_family *x = &v->families[k];

    fprintf(f, "\n%s: fitted figures: %d\n", x->name, x->n_fitted);
    for (int32_t i = 0; i < v->n_fits; i++)
        if (v->fits[i].family == k)
            lw_printf_paragraph(f, "  %s = %g%s%s, on %d row%s (%s)", v->fits[i].name,
                                v->fits[i].value, *v->fits[i].unit ? " " : "", v->fits[i].unit,
                                v->fits[i].n_rows, lw_plural(v->fits[i].n_rows),
                                v->fits[i].fitted_on);
    for (int32_t i = 0; i < v->n_notes; i++)
        if (v->notes[i].family == k)
            lw_printf_paragraph(f, "  %s", v->notes[i].text);
    if (x->n_asked > 0)
        lw_printf_paragraph(f, "  %d of %d cases agree to their printed digits",
                            x->n_asked - x->n_beyond, x->n_asked);
    if (x->bars.mean_pct > 0)
        fprintf(f, "  bars: mean error <= %g %%", x->bars.mean_pct);
    if (x->bars.mean_pct > 0 && x->bars.worst_pct > 0)
        fprintf(f, ", worst <= %g %%", x->bars.worst_pct);
    if (x->bars.mean_pct > 0 && x->table_bar_pct > 0)
        fprintf(f, ", of each table <= %g %%", x->table_bar_pct);
    if (x->bars.mean_pct > 0 && x->has_base)
        fprintf(f, ", no table worse than in %s", v->families[x->base].name);
    if (x->bars.order_pct > 0)
        fprintf(f, ", order right in >= %g %% of pairs", x->bars.order_pct);
    if (x->bars.mean_pct > 0)
        fputc('\n', f);
}

static bool has_bar(const struct lw_validation *v)
{
    for (int32_t k = 0; k < v->n_families; k++) {
        const struct lw_family *x = &v->families[k];
        if (x->bars.mean_pct > 0 || x->bars.worst_pct > 0 || x->bars.order_pct > 0 ||
            x->memory_bar_pct > 0 || x->rank_bar > 0 || x->n_asked > 0)
            return true;
    }
    return false;
}

static enum lw_status print_text(const struct lw_validation *v, FILE *f, struct lw_err *err)
{
    LW_TRY(put_cases(v, f, err));
    fputc('\n', f);
    LW_TRY(put_summary(v, f, err));
    LW_TRY(lw_validation_text_runs(v, f, err));
    for (int32_t k = 0; k < v->n_families; k++)
        text_family(v, k, f);
    fputc('\n', f);
    for (int32_t i = 0; i < v->n_misses; i++) {
        const struct lw_miss *m = &v->misses[i];
        lw_printf_paragraph(f, "missed: %s: %s %.2f %%, allowed %g %%: %s",
                            v->families[m->family].name, m->bar, m->value_pct, m->allowed_pct,
                            v->n_loaded > 0 ? "measured under load, repeat" : m->reason);
    }
    if (v->interrupted)
        fputs("interrupted: the cases above are those that were done\n", f);
    if (v->n_misses == 0)
        fputs(has_bar(v) ? "every bar is reached\n" : "no bar is set for these tables\n", f);
    return LW_OK;
}

/* --- json --- */

static void json_errors(struct lw_jsonout *o, double mean, double worst)
{
    LW_JSON(o, "mean_abs_error_pct", lw_decimals(mean, 4),
            "max_abs_error_pct", lw_decimals(worst, 4));
}

static void json_order(struct lw_jsonout *o, int64_t n_right, int64_t n_pairs)
{
    LW_JSON_ROW(o, "cap_order", "n_pairs", n_pairs, "right_pct",
                lw_decimals_if(n_pairs > 0, lw_percent((double)n_right, (double)n_pairs), 4));
}

static void json_series(struct lw_jsonout *o, const struct lw_validation *v, int32_t k)
{
    lw_jsonout_array(o, "series");
    for (int32_t i = 0; i < v->n_series; i++) {
        const struct lw_series *s = &v->series[i];
        if (s->family != k)
            continue;
        lw_jsonout_line_object(o, NULL);
        LW_JSON(o, "name", s->name, "n", s->n);
        json_errors(o, s->mean_abs_pct, s->max_abs_pct);
        LW_JSON(o, "bias_pct", lw_decimals(s->bias_pct, 4));
        if (s->sweep) {
            LW_JSON(o, "rank_correlation", lw_decimals(s->rank, 4), "n_pairs_apart", s->n_apart,
                    "pair_correlation", lw_decimals(s->order, 4),
                    "regret_pct", lw_decimals(s->regret_pct, 4));
        } else {
            LW_JSON(o, "order_margin_pct", lw_decimals(s->margin_pct, 1));
            json_order(o, s->n_right, s->n_pairs);
        }
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void json_family(struct lw_jsonout *o, const struct lw_validation *v, int32_t k)
{
    const struct lw_family *f = &v->families[k];

    lw_jsonout_object(o, NULL);
    LW_JSON(o, "name", f->name, "n", f->n);
    json_errors(o, f->mean_abs_pct, f->max_abs_pct);
    LW_JSON(o, "bias_pct", lw_decimals(f->bias_pct, 4));
    if (f->n_asked > 0)
        lw_jsonout_int(o, "n_beyond_digits", f->n_beyond);
    LW_JSON(o, "fitted_scalars", f->n_fitted, "fit_rows", f->fit_rows);
    lw_jsonout_array(o, "fitted");
    for (int32_t i = 0; i < v->n_fits; i++) {
        const struct lw_fit *x = &v->fits[i];
        if (x->family != k)
            continue;
        LW_JSON_ROW(o, NULL, "name", x->name, "value", x->value, "unit", x->unit,
                    "n_rows", x->n_rows, "fitted_on", x->fitted_on);
    }
    lw_jsonout_end(o);
    lw_jsonout_array(o, "notes");
    for (int32_t i = 0; i < v->n_notes; i++)
        if (v->notes[i].family == k)
            lw_jsonout_string(o, NULL, v->notes[i].text);
    lw_jsonout_end(o);
    json_series(o, v, k);
    if (f->runs)
        lw_validation_json_runs(v, k, o);
    lw_jsonout_end(o);
}

static void json_case(struct lw_jsonout *o, const struct lw_validation *v, const struct lw_case *c)
{
    lw_jsonout_line_object(o, NULL);
    LW_JSON(o, "id", c->id, "family", v->families[c->family].name);
    if (is_time(c))
        LW_JSON(o, "predicted_ns", lw_round_sat(c->predicted), "measured_ns",
                lw_known_if(c->measured > 0, lw_round_sat(c->measured)));
    else
        LW_JSON(o, "predicted", c->predicted, "measured", c->measured > 0 ? c->measured : NAN,
                "unit", c->unit);
    if (c->allowed > 0)
        lw_jsonout_double(o, "allowed_difference", c->allowed);
    LW_JSON(o, "error_pct", lw_decimals_if(c->measured > 0, c->error_pct, 4));
    if (c->machine_speed > 0)
        LW_JSON(o, "machine_speed", lw_decimals(c->machine_speed, 4));
    if (*c->remark)
        lw_jsonout_string(o, "remark", c->remark);
    if (v->families[c->family].runs)
        lw_validation_json_run(c, o);
    else if (*c->command)
        lw_jsonout_string(o, "command", c->command);
    lw_jsonout_end(o);
}

static void print_json(const struct lw_validation *v, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_bool(&o, "interrupted", v->interrupted);
    lw_jsonout_array(&o, "families");
    for (int32_t k = 0; k < v->n_families; k++)
        json_family(&o, v, k);
    lw_jsonout_end(&o);
    lw_jsonout_array(&o, "cases");
    for (int32_t i = 0; i < v->n_cases; i++)
        json_case(&o, v, &v->cases[i]);
    lw_jsonout_end(&o);
    lw_validation_json_skips(v, &o);
    lw_validation_json_refusals(v, &o);
    bool overall = v->mean_abs_pct >= 0;
    json_errors(&o, overall ? v->mean_abs_pct : NAN, overall ? v->max_abs_pct : NAN);
    json_order(&o, v->n_right, v->n_pairs);
    lw_jsonout_array(&o, "missed");
    for (int32_t i = 0; i < v->n_misses; i++) {
        const struct lw_miss *m = &v->misses[i];
        lw_jsonout_object(&o, NULL);
        LW_JSON(&o, "family", v->families[m->family].name, "bar", m->bar,
                "value_pct", lw_decimals(m->value_pct, 4),
                "allowed_pct", lw_decimals(m->allowed_pct, 4), "reason", m->reason);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

/* --- csv: the cases --- */

/* Empty without a measurement. */
static void number_cell(struct lw_table *t, const struct lw_case *c, int digits, double value)
{
    if (c->measured > 0)
        lw_table_cell(t, "%.*g", digits, value);
    else
        lw_table_cell(t, "%s", "");
}

static enum lw_status print_csv(const struct lw_validation *v, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"id", "family", "predicted", "measured", "unit",
                                         "error_pct"};
    struct lw_table *t = lw_table_new(6, titles);

    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        LW_CELLS(t, c->id, v->families[c->family].name);
        lw_table_cell(t, "%.10g", c->predicted);
        number_cell(t, c, 10, c->measured);
        lw_table_cell(t, "%s", c->unit);
        number_cell(t, c, 6, c->error_pct);
    }
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}

enum lw_status lw_validation_print(const struct lw_validation *v, enum lw_format format, FILE *f,
                                   struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return print_csv(v, f, err);
    if (format == LW_FORMAT_TEXT)
        return print_text(v, f, err);
    print_json(v, f);
    return LW_OK;
}
