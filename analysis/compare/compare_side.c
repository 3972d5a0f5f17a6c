/* Runs beside each other: only what every kind of run has, the step and the parts of its slowest
 * rank's period. Buckets and ops are compared in pairs (compare.c). */
#include "analysis/compare/compare_side.h"
#include "analysis/compare/run_words.h"

#include <math.h>

#include "shared/json/jsonout.h"
#include "shared/numbers/interval_text.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

enum { STEP = -1 };

static enum lw_status read_all(struct lw_store *s, char **names, int32_t n, struct lw_sides *x,
                               struct lw_err *err)
{
    if (n > LW_SIDES_MOST)
        return lw_fail(err, LW_EINVAL, "found %d runs, expected at most %d", n, LW_SIDES_MOST);
    const struct lw_run *all[LW_SIDES_MOST];

    for (; x->n < n; x->n++) {
        LW_TRY(lw_store_find_run(s, names[x->n], &x->arena, &x->run[x->n], err));
        LW_TRY(lw_run_read_parts(s, &x->run[x->n], -1, &x->parts[x->n], err));
        all[x->n] = &x->run[x->n];
    }
    x->work = lw_step_work_of(all, n);
    return LW_OK;
}

enum lw_status lw_sides_read(struct lw_store *s, char **names, int32_t n, struct lw_sides *out,
                             struct lw_err *err)
{
    struct lw_sides x = {0};
    enum lw_status status = read_all(s, names, n, &x, err);

    LW_GIVE(status, out, x, lw_sides_free(&x));
}

LW_FREE_BY_ARENA(lw_sides_free, struct lw_sides)

lw_ps lw_sides_time(const struct lw_sides *x, int32_t side, int part)
{
    if (part == STEP)
        return x->run[side].step;
    return part == LW_PART_SKEW ? x->parts[side].skew
                                : x->parts[side].figure[lw_period_parts[part]];
}

/* A prediction over the measured run that it is compared with; else the side over the first. */
static bool first_is_over(const struct lw_sides *x, int32_t side)
{
    return x->run[0].kind == LW_RUN_SIM && x->run[side].kind != LW_RUN_SIM;
}

double lw_sides_pct(const struct lw_sides *x, int32_t side, int part)
{
    lw_ps first = lw_sides_time(x, 0, part), it = lw_sides_time(x, side, part);
    double of_first = (double)first / lw_step_units(&x->work, &x->run[0]);
    double of_it = (double)it / lw_step_units(&x->work, &x->run[side]);
    bool error = first_is_over(x, side);

    if (first < 0 || it < 0 || (error ? it : first) == 0)
        return NAN;
    return 100 * (error ? of_first / of_it - 1 : of_it / of_first - 1);
}

static const char *name_of(int part)
{
    return part == STEP ? "step" : lw_part_name(part);
}

/* A part that no run has is left out. */
static bool is_shown(const struct lw_sides *x, int part)
{
    for (int32_t i = 0; i < x->n; i++)
        if (lw_sides_time(x, i, part) != 0)
            return true;
    return part == STEP;
}

static void put_unit_row(const struct lw_sides *x, struct lw_table *t)
{
    char ns[LW_UNIT_NS_TEXT];

    lw_table_cell(t, "  ns a %s", x->work.unit);
    for (int32_t i = 0; i < x->n; i++) {
        lw_table_text(t, lw_unit_ns_text((double)x->run[i].step * 1e-3 /
                                             lw_step_units(&x->work, &x->run[i]), ns));
        if (i > 0)
            lw_table_text(t, "");
    }
}

static enum lw_status put_table(const struct lw_sides *x, bool csv, FILE *f, struct lw_err *err)
{
    char text[2 * LW_SIDES_MOST][48];
    const char *titles[2 * LW_SIDES_MOST] = {""};
    int32_t n = 1;

    for (int32_t i = 0; i < x->n; i++) {
        snprintf(text[n], sizeof text[n], ">run %lld ms", (long long)x->run[i].id);
        titles[n] = text[n];
        n++;
        if (i == 0)
            continue;
        bool first = first_is_over(x, i);
        snprintf(text[n], sizeof text[n], ">%lld over %lld %%",
                 (long long)x->run[first ? 0 : i].id, (long long)x->run[first ? i : 0].id);
        titles[n] = text[n];
        n++;
    }
    struct lw_table *t = lw_table_new(n, titles);
    for (int part = STEP; part < LW_N_PARTS; part++) {
        if (!csv && !is_shown(x, part))
            continue;
        if (part == STEP + 1 && x->work.unit && !csv)
            put_unit_row(x, t);
        lw_table_cell(t, "%s%s", part == STEP ? "" : "  ", name_of(part));
        for (int32_t i = 0; i < x->n; i++) {
            double pct = lw_sides_pct(x, i, part);
            LW_CELLS(t, LW_MS(lw_sides_time(x, i, part)));
            if (i > 0)
                lw_table_cell(t, isnan(pct) ? (csv ? "" : "-") : "%+.1f", pct);
        }
    }
    return lw_table_end(t, f, csv ? LW_TABLE_CSV : 0, err);
}

static enum lw_status put_text(const struct lw_sides *x, FILE *f, struct lw_err *err)
{
    char interval[LW_INTERVAL_TEXT];

    for (int32_t i = 0; i < x->n; i++) {
        const struct lw_run *r = &x->run[i];
        lw_printf_paragraph(f, "run %lld (%s%s%s%s), plan %.8s, rank %d: %s", (long long)r->id,
                            lw_run_kind_name(r->kind), r->backend[0] ? " " : "", r->backend,
                            lw_run_misfit(r),
                            r->plan_hash[0] ? r->plan_hash : "none", x->parts[i].rank, r->name);
        if (r->p90 > 0)
            lw_printf_paragraph(f, "  step: %s",
                                lw_interval_text(interval, r->p10, r->p90, r->interval_of));
    }
    if (x->work.unit)
        lw_printf_paragraph(f, "steps train different numbers of %ss: percentages are of the time "
                               "of a %s", x->work.unit, x->work.unit);
    fprintf(f, "\n");
    return put_table(x, false, f, err);
}

static void put_json(const struct lw_sides *x, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "runs");
    for (int32_t i = 0; i < x->n; i++) {
        const struct lw_run *r = &x->run[i];
        lw_jsonout_object(&o, NULL);
        LW_JSON(&o, "run", r->id, "kind", lw_run_kind_name(r->kind), "backend",
                r->backend[0] ? r->backend : NULL, "plan", r->plan_hash[0] ? r->plan_hash : NULL,
                "name", r->name, "rank", x->parts[i].rank, "tokens",
                lw_known_if(r->tokens > 0, (int64_t)(r->tokens > 0 ? r->tokens : 0)), "samples",
                lw_known(r->samples),
                "p10_ns", lw_known_if(r->p90 > 0, lw_ps_to_ns(r->p10)),
                "p90_ns", lw_known_if(r->p90 > 0, lw_ps_to_ns(r->p90)),
                "interval_of", r->p90 > 0 ? r->interval_of : NULL);
        if (r->fits < 0)
            lw_jsonout_null(&o, "fits");
        else
            lw_jsonout_bool(&o, "fits", r->fits != 0);
        lw_jsonout_array(&o, "parts");
        for (int part = STEP; part < LW_N_PARTS; part++) {
            lw_ps t = lw_sides_time(x, i, part);
            double pct = lw_sides_pct(x, i, part);
            lw_jsonout_line_object(&o, NULL);
            LW_JSON(&o, "what", name_of(part), "ns", lw_known_if(t >= 0, lw_ps_to_ns(t)));
            if (i > 0 && !isnan(pct))
                LW_JSON(&o, first_is_over(x, i) ? "error_pct" : "change_pct", lw_decimals(pct, 3));
            lw_jsonout_end(&o);
        }
        lw_jsonout_end(&o);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

enum lw_status lw_sides_print(const struct lw_sides *x, enum lw_format format, FILE *f,
                              struct lw_err *err)
{
    if (format == LW_FORMAT_JSON) {
        put_json(x, f);
        return LW_OK;
    }
    return format == LW_FORMAT_CSV ? put_table(x, true, f, err) : put_text(x, f, err);
}
