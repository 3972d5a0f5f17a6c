/* Predicted against measured steps. A prediction and an execution belong together when they have
 * the same plan; of several the later one counts. */
#include <math.h>
#include <string.h>

#include "analysis/compare/compare.h"
#include "analysis/draw/plot_labels.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/sql.h"

enum { BAND_PCT = 5 };

enum lw_status plot_quartiles(struct lw_store *s, const struct lw_run *r, lw_ps *low, lw_ps *high,
                              struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "WITH v AS (SELECT value, row_number() OVER (ORDER BY value) - 1 AS i,"
                        "  count(*) OVER () - 1 AS n FROM metric"
                        "  WHERE run = ?1 AND name = 'step_ps' AND step >= 0 AND rank = -1)"
                        " SELECT (SELECT value FROM v WHERE i = n / 4),"
                        "  (SELECT value FROM v WHERE i = n - n / 4)",
                        "l", r->id));
    lw_sql_next(q);
    *low = lw_sql_is_null(q, 0) ? r->step : lw_sql_int(q, 0);
    *high = lw_sql_is_null(q, 1) ? r->step : lw_sql_int(q, 1);
    return lw_sql_finish(q, err);
}

lw_ps plot_longest_step(const struct lw_plot *p)
{
    lw_ps most = 0;
    for (int32_t i = 0; i < p->n_runs; i++)
        most = p->runs[i].step > most ? p->runs[i].step : most;
    return most;
}

static void widen(lw_ps v, lw_ps *low, lw_ps *high)
{
    *low = *low < 0 || v < *low ? v : *low;
    *high = v > *high ? v : *high;
}

/* One execution and its prediction, with the quartiles of its steps. */
struct pair {
    const struct lw_run *m, *q;
    lw_ps from, to;
    double error_pct;
};

enum { MOST_LABELS = 12 };

/* Pairs whose error is larger; of equal ones the earlier first. */
static int n_worse(const struct pair *v, int n, int i)
{
    int worse = 0;

    for (int k = 0; k < n; k++)
        worse += fabs(v[k].error_pct) > fabs(v[i].error_pct) ||
                 (fabs(v[k].error_pct) == fabs(v[i].error_pct) && k < i);
    return worse;
}

/* What tells pairs apart: their plans' names, or the cap where these are all alike. */
static void pair_text(char *buf, size_t size, const struct pair *v, int n, int i)
{
    int64_t bytes = v[i].m->bucket_cap_bytes;
    char cap[32];
    bool alike = true;

    for (int k = 1; k < n; k++)
        alike = alike && strcmp(v[k].m->plan_name, v[0].m->plan_name) == 0;
    snprintf(buf, size, "%.60s, %+.1f %%%s",
             !alike      ? v[i].m->plan_name
             : bytes < 0 ? "default cap"
                         : lw_format_bytes(cap, bytes),
             v[i].error_pct, lw_run_under_load(v[i].m) ? ", under load" : "");
}

/* Beside each point, of many the farthest off, its name and error, where nothing else is; a thin
 * line where that is farther away. Sizes are shares of the square inside the axes. */
static enum lw_status put_pair_labels(const struct pair *v, int n, FILE *f, int width, double low,
                                      double high, double unit, struct lw_err *err)
{
    const double side = 0.8 * width, char_width = 7 / side, height = 17 / side, span = high - low;
    struct plot_labels l = {0};
    char text[96];
    enum lw_status st = plot_labels_block(&l, (struct plot_box){0, 150 / side, 1 - 60 / side, 1},
                                          err); /* key */

    for (int i = 0; i < n && st == LW_OK; i++) {
        double y = ((double)v[i].q->step / unit - low) / span, x[3];
        const lw_ps at[] = {v[i].from, v[i].to, v[i].m->step};
        for (int k = 0; k < 3; k++)
            x[k] = ((double)at[k] / unit - low) / span;
        st = plot_labels_block(&l, (struct plot_box){x[0], x[1], y - 0.008, y + 0.008}, err);
        if (st == LW_OK)
            st = plot_labels_block(&l, (struct plot_box){x[2] - 0.01, x[2] + 0.01, y - 0.01,
                                                         y + 0.01}, err);
    }
    for (int i = 0; i < n && st == LW_OK; i++) {
        double x = ((double)v[i].m->step / unit - low) / span;
        double y = ((double)v[i].q->step / unit - low) / span, at_x, at_y;
        bool right;
        if (n_worse(v, n, i) >= MOST_LABELS)
            continue;
        pair_text(text, sizeof text, v, n, i);
        st = plot_labels_place(&l, x, y, char_width * (double)strlen(text), height, &at_x, &at_y,
                               &right, err);
        fputs("set label ", f);
        plot_text(f, text);
        fprintf(f, " at graph %.4f,%.4f %s front\n", at_x, at_y, right ? "left" : "right");
        if (fabs(at_y - y) > 1.5 * height)
            fprintf(f, "set arrow from graph %.4f,%.4f to graph %.4f,%.4f nohead front linewidth "
                       "0.6 linecolor rgb '#808080'\n", x, y, at_x, at_y);
    }
    plot_labels_free(&l);
    return st;
}

static enum lw_status find_pairs(struct lw_store *s, const struct lw_plot *p, struct pair *v,
                                 int *n, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_runs; i++) {
        struct pair x = {.m = &p->runs[i], .q = lw_prediction_of(p->runs, p->n_runs, &p->runs[i])};
        if (!x.q)
            continue;
        LW_TRY(plot_quartiles(s, x.m, &x.from, &x.to, err));
        x.error_pct = 100.0 * (double)(x.q->step - x.m->step) / (double)x.m->step;
        v[(*n)++] = x;
    }
    if (*n == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          "no execution among these runs has a prediction of the same plan there");
    return LW_OK;
}

static int count_plans(const struct pair *v, int n)
{
    int n_plans = 0;

    for (int i = 0; i < n; i++) {
        int k = 0;
        while (strcmp(v[k].m->plan_hash, v[i].m->plan_hash) != 0)
            k++;
        n_plans += k == i;
    }
    return n_plans;
}

/* A step that was measured under load judges no prediction. */
static void write_title(const struct pair *v, int n, char *buf, size_t size)
{
    double sum = 0, most = 0;
    int n_loaded = 0;

    for (int i = 0; i < n; i++) {
        double error = lw_run_under_load(v[i].m) ? 0 : fabs(v[i].error_pct);
        n_loaded += lw_run_under_load(v[i].m);
        sum += error;
        most = fmax(most, error);
    }
    int n_plans = count_plans(v, n), at = snprintf(buf, size, "Predicted against measured: ");
    if (n_plans < n)
        at += snprintf(buf + at, size - (size_t)at, "%d executions of ", n);
    at += snprintf(buf + at, size - (size_t)at, "%d plan%s", n_plans, lw_plural(n_plans));
    if (n_loaded > 0)
        at += snprintf(buf + at, size - (size_t)at, ", %d measured under load", n_loaded);
    if (n_loaded < n)
        snprintf(buf + at, size - (size_t)at, ", error %.1f %% in the mean, %.1f %% at most",
                 sum / (n - n_loaded), most);
}

/* The dumb terminal fills no area of another character: its band has edges. */
static void put_curves(const struct lw_plot *p, const char *point, FILE *f)
{
    double low = 1 - BAND_PCT / 100.0, high = 1 + BAND_PCT / 100.0;

    if (p->terminal == LW_TERMINAL_DUMB)
        fprintf(f, "plot x*%.2f with lines title 'within %d %%', x*%.2f with lines linetype 1 "
                   "notitle", low, BAND_PCT, high);
    else
        fprintf(f, "plot '+' using 1:($1*%.2f):($1*%.2f) with filledcurves linecolor rgb "
                   "'#e4eef6' title 'within %d %%'", low, high, BAND_PCT);
    fprintf(f, ", \\\n  x with lines linecolor rgb '#404040' linewidth 1.5 title 'equal', \\\n"
               "  $pairs using 1:2:3:4:5:6 with xyerrorbars pointtype 7 pointsize 1.4 "
               "linecolor rgb '#%06x' title '%s'\n", PLOT_COMM_ODD, point);
}

static enum lw_status put_pairs(const struct lw_plot *p, const struct pair *v, int n, FILE *f,
                                struct lw_err *err)
{
    struct plot_unit unit = plot_unit_for(plot_longest_step(p));
    lw_ps low = -1, high = -1;
    bool any = false; /* has an interval */

    int width = plot_width(p, 900);
    char title[160];

    write_title(v, n, title, sizeof title);
    plot_begin(p, f, 900, width * 82 / 90, title, NULL, 0);
    fputs("$pairs << EOD\n", f);
    for (int i = 0; i < n; i++) {
        widen(v[i].from, &low, &high);
        widen(v[i].to, &low, &high);
        widen(v[i].m->step, &low, &high);
        widen(v[i].q->step, &low, &high);
        bool known = v[i].q->p90 > 0;
        lw_ps p10 = known ? v[i].q->p10 : v[i].q->step, p90 = known ? v[i].q->p90 : v[i].q->step;
        widen(p10, &low, &high);
        widen(p90, &low, &high);
        any |= known;
        fprintf(f, "%.6g %.6g %.6g %.6g %.6g %.6g\n", (double)v[i].m->step / unit.ps,
                (double)v[i].q->step / unit.ps, (double)v[i].from / unit.ps,
                (double)v[i].to / unit.ps, (double)p10 / unit.ps, (double)p90 / unit.ps);
    }
    fputs("EOD\n", f);
    double room = fmax(0.07 * (double)(high - low), 0.05 * (double)low) / unit.ps;
    double from = (double)low / unit.ps - room, to = (double)high / unit.ps + room;
    LW_TRY(put_pair_labels(v, n, f, width, from, to, unit.ps, err));
    fprintf(f, "set xlabel 'measured step [%s]  (median, quartiles)'\n"
               "set ylabel 'predicted%s [%s]%s'\n"
               "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n"
               "set size ratio 1\nset key top left\n", unit.name,
            p->terminal == LW_TERMINAL_DUMB ? "" : " step", unit.name,
            any ? "  (p10, p90)" : "", from, to, from, to);
    put_curves(p, count_plans(v, n) < n ? "an execution" : "a plan", f);
    return LW_OK;
}

/* As if only the runs of these pairs were there: they alone choose the unit and are named. */
static enum lw_status put_pairs_alone(const struct lw_plot *p, const struct pair *v, int n, FILE *f,
                                      struct lw_err *err)
{
    struct lw_plot alone = *p;
    struct lw_run *runs;

    LW_NEW(runs, (size_t)n * 2, err);
    for (int i = 0; i < n; i++) {
        runs[2 * i] = *v[i].m;
        runs[2 * i + 1] = *v[i].q;
    }
    alone.runs = runs;
    alone.n_runs = n * 2;
    enum lw_status st = put_pairs(&alone, v, n, f, err);
    lw_free(runs);
    return st;
}

static enum lw_status draw_predicted(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                     struct lw_err *err)
{
    if (p->validation)
        return plot_family(p, f, err);
    struct pair *v;
    int n = 0;

    LW_NEW(v, (size_t)p->n_runs + 1, err);
    enum lw_status st = find_pairs(s, p, v, &n, err);
    if (st == LW_OK)
        st = put_pairs_alone(p, v, n, f, err);
    lw_free(v);
    return st;
}

static enum lw_status count_predicted(const struct lw_plot *p, int32_t *n_drawn,
                                      struct lw_err *err)
{
    bool *drawn;
    int32_t n = 0;

    LW_NEW(drawn, (size_t)p->n_runs + 1, err);
    for (int32_t i = 0; i < p->n_runs; i++) {
        const struct lw_run *q = lw_prediction_of(p->runs, p->n_runs, &p->runs[i]);
        if (q)
            drawn[i] = drawn[q - p->runs] = true;
    }
    for (int32_t i = 0; i < p->n_runs; i++)
        n += drawn[i];
    lw_free(drawn);
    *n_drawn = n;
    return LW_OK;
}

const struct plot_kind plot_kind_predicted = {
    .name = "predicted",
    .about = "predicted against measured steps",
    .needs = "a prediction and an execution of one plan, or --validation",
    .script = draw_predicted,
    .count = count_predicted,
};
