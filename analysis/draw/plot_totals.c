/* Pictures of whole runs: what a step is made of, and predicted against measured.
 * A prediction and an execution belong together when they have the same plan; of several the later
 * one counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare/compare.h"
#include "analysis/compare/step_work.h"
#include "analysis/draw/plot_labels.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/sql.h"
#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/median.h"

enum { BAND_PCT = 5 };

enum { N_PARTS = 5, BAR_PX = 46 };

/* The period of the rank with the longest one, cut so that the pieces add up to it. */
struct totals {
    lw_ps part[N_PARTS]; /* of part_style */
    lw_ps p10, p90;      /* of the step; -1 = none */
};

static const struct plot_key part_style[N_PARTS] = {
    {"compute and copies alone", PLOT_FORWARD, -1},
    {"transfers under compute", PLOT_BACKWARD, -1},
    {"exposed communication", PLOT_COMM_ODD, -1},
    {"waiting for pipeline neighbours", PLOT_LIGHT, -1},
    {"idle", 0xEAEAEA, -1},
};

static enum lw_status read_totals(struct lw_store *s, const struct lw_run *r, struct totals *t,
                                  struct lw_err *err)
{
    struct lw_run_parts p;

    LW_TRY(lw_run_read_parts(s, r, -1, &p, err));
    lw_ps hidden = p.figure[LW_FIGURE_HIDDEN];
    lw_ps busy = p.figure[LW_FIGURE_COMPUTE] + p.figure[LW_FIGURE_COPY];
    lw_ps wait = p.figure[LW_FIGURE_WAIT + LW_WAIT_PIPELINE];
    wait = wait > 0 ? wait : 0; /* of an older database: not stored */
    if (hidden < 0)
        hidden = p.figure[LW_FIGURE_COMM_BUSY] - p.figure[LW_FIGURE_EXPOSED_COMM];
    *t = (struct totals){{busy - hidden, hidden, p.figure[LW_FIGURE_EXPOSED_COMM] - wait, wait,
                          p.figure[LW_FIGURE_IDLE]}, r->p10, r->p90};
    return LW_OK;
}

/* Of one token or sample, where the runs' steps train different numbers. */
static enum lw_status scale_totals(const struct lw_plot *p, struct totals *t,
                                   const char **unit, struct lw_err *err)
{
    const struct lw_run **runs;

    LW_NEW(runs, (size_t)p->n_runs + 1, err);
    for (int32_t i = 0; i < p->n_runs; i++)
        runs[i] = &p->runs[i];
    struct lw_step_work work = lw_step_work_of(runs, p->n_runs);
    lw_free(runs);
    *unit = work.unit;
    for (int32_t i = 0; i < p->n_runs && work.unit; i++) {
        double units = lw_step_units(&work, &p->runs[i]);
        for (int k = 0; k < N_PARTS; k++)
            t[i].part[k] = (lw_ps)((double)t[i].part[k] / units + 0.5);
        if (t[i].p90 > 0) {
            t[i].p10 = (lw_ps)((double)t[i].p10 / units + 0.5);
            t[i].p90 = (lw_ps)((double)t[i].p90 / units + 0.5);
        }
    }
    return LW_OK;
}

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

/* --- overlap ---------------------------------------------------------------------------------- */

static lw_ps period_of(const struct totals *t)
{
    lw_ps period = 0;

    for (int k = 0; k < N_PARTS; k++)
        period += t->part[k];
    return period;
}

/* The end of the axis: the longest period, of those that are not DWARFS times the median; then the
 * ends of intervals, of those that are not twice as far. */
enum { DWARFS = 8 };

static enum lw_status find_axis(const struct totals *t, int32_t n, lw_ps *axis,
                                struct lw_err *err)
{
    lw_ps *periods, most = 1;

    LW_NEW(periods, n, err);
    for (int32_t i = 0; i < n; i++)
        periods[i] = period_of(&t[i]);
    lw_sort(periods, n, lw_compare_int64);
    lw_ps median = n > 0 ? periods[(n - 1) / 2] : 0;
    lw_free(periods);
    for (int32_t i = 0; i < n; i++)
        if (period_of(&t[i]) > most && (median == 0 || period_of(&t[i]) / DWARFS <= median))
            most = period_of(&t[i]);
    lw_ps longest = most; /* else the order of the runs would count */
    for (int32_t i = 0; i < n; i++)
        if (t[i].p90 > most && t[i].p90 / 2 <= longest)
            most = t[i].p90;
    *axis = most + most / 33;
    return LW_OK;
}

static bool is_light(int part)
{
    return part != 1;
}

/* A bar longer than the axis ends with it, and says how long it is. */
static void put_cut(FILE *f, const struct totals *t, int32_t row, double unit, lw_ps axis)
{
    struct plot_unit whole = plot_unit_for(period_of(t));
    lw_ps end = 0;
    int last = 0;

    for (int i = 0; i < N_PARTS && end < axis; end += t->part[i], i++)
        last = i;
    fprintf(f, "set label 'goes on to %.4g %s >' at %.6g,%d right front textcolor rgb '%s'\n",
            (double)period_of(t) / whole.ps, whole.name, (double)axis / unit, (int)-row,
            is_light(last) ? "black" : "white");
}

/* Numbers where they fit: as labels, because gnuplot cannot draw an empty set of them. */
static void put_part_numbers(FILE *f, const struct totals *t, int32_t row, double unit, lw_ps axis,
                             lw_ps fits)
{
    const lw_ps *part = t->part;
    lw_ps at = 0;

    if (period_of(t) > axis) {
        put_cut(f, t, row, unit, axis);
        return;
    }
    for (int i = 0; i < N_PARTS; at += part[i], i++)
        if (part[i] > fits)
            fprintf(f, "set label '%.4g' at %.6g,%d center front textcolor rgb '%s'\n",
                    (double)part[i] / unit, (double)(at + part[i] / 2) / unit, (int)-row,
                    is_light(i) ? "black" : "white");
}

static void put_part_bars(FILE *f, const struct totals *t, int32_t row, double unit, lw_ps axis)
{
    const lw_ps *part = t->part;
    lw_ps at = 0;

    for (int i = 0; i < N_PARTS && at < axis; at += part[i], i++)
        if (part[i] > 0)
            fprintf(f, "%.6g %.6g %.3f %.3f %d\n", (double)at / unit,
                    (double)(at + part[i] < axis ? at + part[i] : axis) / unit, -row - 0.34,
                    -row + 0.34, (int)part_style[i].colour);
}

/* The labels of the runs take the room that the longest needs, at most half. */
static void put_overlap_rows(const struct lw_plot *p, const struct plot_names *names, FILE *f,
                             int width, double most)
{
    char cut[256];
    int px = 0;

    for (int32_t i = 0; i < p->n_runs; i++) {
        int label = plot_text_px(names->runs[i], 10);
        px = label > px ? label : px;
    }
    px = px + 24 < width / 2 ? px + 24 : width / 2;
    if (p->terminal == LW_TERMINAL_DUMB)
        fputs("set lmargin 30\n", f);
    else
        fprintf(f, "set lmargin at screen %.4f\nset rmargin at screen %.4f\nset xtics %g\n",
                (double)px / width, 1 - 26.0 / width, plot_tick(most, (width - px - 26) / 60 + 1));
    fputs("set ytics (", f);
    for (int32_t i = 0; i < p->n_runs; i++) {
        int room = p->terminal == LW_TERMINAL_DUMB ? 24 : (px - 24) / 7;
        plot_tic(f, i == 0, plot_cut_parts(cut, sizeof cut, names->runs[i], room), -i);
    }
    fputs(")\nset grid noytics\n", f);
}

/* The parts that any run has. */
static int keys_of(const struct totals *t, int32_t n, struct plot_key keys[N_PARTS])
{
    int n_keys = 0;

    for (int k = 0; k < N_PARTS; k++)
        for (int32_t i = 0; i < n; i++)
            if (t[i].part[k] > 0) {
                keys[n_keys++] = part_style[k];
                break;
            }
    return n_keys;
}

/* Where measured runs would end: below the bar, whose numbers it would strike through. */
#define UNDER 0.42
static bool put_interval(FILE *f, const struct totals *t, int32_t row, double unit, lw_ps axis)
{
    double y = -row - UNDER;

    if (t->p90 <= 0 || t->p10 >= axis)
        return false;
    fprintf(f, "set arrow from %.6g,%.2f to %.6g,%.2f %s size graph 0.004,90 front linewidth 1.6 "
               "linecolor rgb '#202020'\n",
            (double)t->p10 / unit, y, (double)(t->p90 < axis ? t->p90 : axis) / unit, y,
            t->p90 < axis ? "heads" : "backhead");
    return true;
}

/* Its middle is that of the axis, which is the right half at least: it may be twice as wide as from
 * there to the edge. */
static void put_overlap_name(FILE *f, int width, const char *per, const char *unit, bool intervals)
{
    static const struct {
        const char *of, *interval;
    } each[] = {
        {", of the rank with the longest period", "; |-| p10-p90 of the predicted step"},
        {", of the slowest rank", "; |-| p10-p90 of the step"},
        {", slowest rank", "; |-| p10-p90"},
    };
    char text[160] = "";

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        snprintf(text, sizeof text, "time%s%s%s [%s]%s", per ? " of a " : "", per ? per : "",
                 each[i].of, unit, intervals ? each[i].interval : "");
        if (plot_text_px(text, 10) < width * 0.54)
            break;
    }
    fprintf(f, "set xlabel '%s'\n", text);
}

static void put_overlap(const struct lw_plot *p, const struct plot_names *names,
                        const struct totals *t, const char *per, lw_ps axis, FILE *f)
{
    struct plot_key keys[N_PARTS];
    int width = plot_width(p, 1200), n_keys = keys_of(t, p->n_runs, keys);
    struct plot_unit unit = plot_unit_for(axis);
    bool any = false;

    plot_begin(p, f, 1200, 70 + plot_bottom(p, width, keys, n_keys) + BAR_PX * p->n_runs,
               names->title, keys, n_keys);
    if (p->terminal != LW_TERMINAL_DUMB)
        for (int32_t i = 0; i < p->n_runs; i++)
            put_part_numbers(f, &t[i], i, unit.ps, axis, axis / (width / 2 / 45));
    for (int32_t i = 0; i < p->n_runs; i++)
        any |= put_interval(f, &t[i], i, unit.ps, axis);
    fputs("$parts << EOD\n", f);
    for (int32_t i = 0; i < p->n_runs; i++)
        put_part_bars(f, &t[i], i, unit.ps, axis);
    fputs("EOD\n", f);
    put_overlap_name(f, width, per, unit.name, any);
    fprintf(f, "set xrange [0:%.6g]\nset yrange [%.2f:0.6]\n", (double)axis / unit.ps,
            -p->n_runs + 0.4);
    put_overlap_rows(p, names, f, width, (double)axis / unit.ps);
    fputs("plot $parts using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle", f);
    plot_key_curves(p, f, keys, n_keys);
    fputs("\n", f);
}

static enum lw_status draw_overlap(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                   struct lw_err *err)
{
    struct totals *t = lw_calloc((size_t)p->n_runs + 1, sizeof *t);
    struct plot_names names = {.title = NULL};
    enum lw_status st = t ? LW_OK : lw_fail_nomem(err);
    const char *unit = NULL;
    char what[48];
    lw_ps axis;

    for (int32_t i = 0; i < p->n_runs && st == LW_OK; i++)
        st = read_totals(s, &p->runs[i], &t[i], err);
    if (st == LW_OK)
        st = scale_totals(p, t, &unit, err);
    snprintf(what, sizeof what, "What a %s is made of", unit ? unit : "step");
    if (st == LW_OK)
        st = plot_names_make(p->runs, p->n_runs, what, &names, err);
    if (st == LW_OK)
        st = find_axis(t, p->n_runs, &axis, err);
    if (st == LW_OK)
        put_overlap(p, &names, t, unit, axis, f);
    plot_names_free(&names);
    lw_free(t);
    return st;
}

const struct plot_kind plot_kind_overlap = {
    .name = "overlap",
    .about = "what a step is made of",
    .needs = "finished runs",
    .script = draw_overlap,
    .runs_per_page = 30,
};

/* --- predicted against measured --------------------------------------------------------------- */

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
    snprintf(buf, size, "%.60s, %+.1f %%",
             !alike      ? v[i].m->plan_name
             : bytes < 0 ? "default cap"
                         : lw_format_bytes(cap, bytes),
             v[i].error_pct);
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

static void write_title(const struct pair *v, int n, char *buf, size_t size)
{
    double sum = 0, most = 0;

    for (int i = 0; i < n; i++) {
        sum += fabs(v[i].error_pct);
        most = fmax(most, fabs(v[i].error_pct));
    }
    snprintf(buf, size, "Predicted against measured: %d plan%s, error %.1f %% in the mean, %.1f %% "
                        "at most", n, lw_plural(n), sum / n, most);
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
               "set ylabel 'predicted step [%s]%s'\n"
               "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n"
               "set size ratio 1\nset key top left\n", unit.name, unit.name,
            any ? "  (p10, p90)" : "", from, to, from, to);
    fprintf(f, "plot '+' using 1:($1*%.2f):($1*%.2f) with filledcurves linecolor rgb '#e4eef6' "
               "title 'within %d %%', \\\n"
               "  x with lines linecolor rgb '#404040' linewidth 1.5 title 'equal', \\\n"
               "  $pairs using 1:2:3:4:5:6 with xyerrorbars pointtype 7 pointsize 1.4 "
               "linecolor rgb '#%06x' title 'a plan'\n",
            1 - BAND_PCT / 100.0, 1 + BAND_PCT / 100.0, BAND_PCT, PLOT_COMM_ODD);
    return LW_OK;
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
        st = put_pairs(p, v, n, f, err);
    lw_free(v);
    return st;
}

const struct plot_kind plot_kind_predicted = {
    .name = "predicted",
    .about = "predicted against measured steps",
    .needs = "a prediction and an execution of one plan, or --validation",
    .script = draw_predicted,
};
