/* What the step of each run is made of: a bar of its parts, with the interval of a prediction
 * below; in the terminal a letter for each part. */
#include <string.h>

#include "analysis/compare/compare.h"
#include "analysis/compare/step_work.h"
#include "analysis/draw/plot_style.h"
#include "shared/base/sort.h"
#include "shared/numbers/median.h"

enum { N_PARTS = 6, BAR_PX = 46 };

/* The period of the rank with the longest one, cut so that the pieces add up to it. */
struct totals {
    lw_ps part[N_PARTS]; /* of part_style */
    lw_ps p10, p90;      /* of the step; -1 = none */
};

static const struct plot_key part_style[N_PARTS] = {
    {"compute and copies alone", PLOT_FORWARD, -1},
    {"transfers under compute", PLOT_BACKWARD, -1},
    {"updates by the host", PLOT_OPTIMIZER, -1},
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
    lw_ps host = p.figure[LW_FIGURE_HOST_UPDATE];
    if (hidden < 0)
        hidden = p.figure[LW_FIGURE_COMM_BUSY] - p.figure[LW_FIGURE_EXPOSED_COMM];
    lw_ps under_host = hidden > busy ? hidden - busy : 0; /* at least */
    *t = (struct totals){{busy - (hidden - under_host), hidden, host - under_host,
                          p.figure[LW_FIGURE_EXPOSED_COMM] - wait, wait,
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
    fprintf(f, "set lmargin at screen %.4f\nset rmargin at screen %.4f\nset xtics %g\n",
            (double)px / width, 1 - 26.0 / width, plot_tick(most, (width - px - 26) / 60 + 1));
    fputs("set ytics (", f);
    for (int32_t i = 0; i < p->n_runs; i++)
        plot_tic(f, i == 0, plot_cut_parts(cut, sizeof cut, names->runs[i], (px - 24) / 7), -i);
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
          "linecolor rgb variable notitle\n", f);
}

/* --- in the terminal -------------------------------------------------------------------------- */

static const char letters[N_PARTS] = {'c', 'h', 'u', '!', 'p', '.'};

struct sheet {
    FILE *f;
    int label, columns; /* characters */
    struct plot_unit unit;
    lw_ps axis;
};

static int column_of(const struct sheet *s, lw_ps at)
{
    double column = (double)at / (double)s->axis * s->columns + 0.5;

    return column < s->columns ? (int)column : s->columns;
}

/* The name, the parts, the period; under it the interval. */
static void put_text_row(const struct sheet *s, const struct totals *t, const char *name)
{
    char cut[256];
    lw_ps at = 0, period = period_of(t);
    bool beyond = period > s->axis;
    struct plot_unit unit = beyond ? plot_unit_for(period) : s->unit;
    int column = 0;

    plot_cut_parts(cut, sizeof cut, name, s->label);
    fprintf(s->f, "%*s%s |", s->label - plot_characters_of(cut), "", cut);
    for (int k = 0; k < N_PARTS; k++)
        for (at += t->part[k]; column < column_of(s, at); column++)
            fputc(letters[k], s->f);
    fprintf(s->f, "%s %.4g%s%s\n", beyond ? ">" : "", (double)period / unit.ps,
            beyond ? " " : "", beyond ? unit.name : "");
    if (t->p90 <= 0 || t->p10 >= s->axis)
        return;
    int from = column_of(s, t->p10), to = column_of(s, t->p90);
    fprintf(s->f, "%*s |%*s|", s->label, "", from, "");
    for (int i = from + 1; i < to; i++)
        fputc('-', s->f);
    fputs(t->p90 < s->axis ? "|\n" : ">\n", s->f);
}

static void put_text_axis(const struct sheet *s, const struct totals *t, int32_t n)
{
    char end[32];
    const char *comma = "";

    fprintf(s->f, "%*s +", s->label, "");
    for (int i = 0; i < s->columns; i++)
        fputc('-', s->f);
    snprintf(end, sizeof end, "%.4g %s", (double)s->axis / s->unit.ps, s->unit.name);
    fprintf(s->f, "\n%*s 0%*s\n", s->label, "", s->columns, end);
    for (int k = 0; k < N_PARTS; k++)
        for (int32_t i = 0; i < n; i++)
            if (t[i].part[k] > 0) {
                fprintf(s->f, "%s%c %s", comma, letters[k], part_style[k].name);
                comma = ", ";
                break;
            }
    for (int32_t i = 0; i < n; i++)
        if (t[i].p90 > 0) {
            fputs("; |-| p10-p90 of the predicted step", s->f);
            break;
        }
    fputc('\n', s->f);
}

/* The names of the runs take the room that the longest needs, at most half. */
static void put_text(const struct lw_plot *p, const struct plot_names *names,
                     const struct totals *t, const char *per, lw_ps axis, FILE *f)
{
    enum { USUAL = 100, LEAST = 40, NUMBER = 10 };
    struct sheet s = {.f = f, .unit = plot_unit_for(axis), .axis = axis};
    int width = plot_width(p, USUAL), longest = 0;

    (void)per; /* the title has it */
    width = width < LEAST ? LEAST : width;
    for (int32_t i = 0; i < p->n_runs; i++) {
        int n = plot_characters_of(names->runs[i]);
        longest = n > longest ? n : longest;
    }
    s.label = longest < width / 2 ? longest : width / 2;
    s.columns = width - s.label - 2 - NUMBER;
    fprintf(f, "%s\n", names->title);
    for (int32_t i = 0; i < p->n_runs; i++)
        put_text_row(&s, &t[i], names->runs[i]);
    put_text_axis(&s, t, p->n_runs);
}

/* --- both ------------------------------------------------------------------------------------- */

typedef void put_bars(const struct lw_plot *p, const struct plot_names *names,
                      const struct totals *t, const char *per, lw_ps axis, FILE *f);

static enum lw_status draw(struct lw_store *s, const struct lw_plot *p, put_bars *put, FILE *f,
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
        put(p, &names, t, unit, axis, f);
    plot_names_free(&names);
    lw_free(t);
    return st;
}

static enum lw_status draw_overlap(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                   struct lw_err *err)
{
    return draw(s, p, put_overlap, f, err);
}

static enum lw_status draw_overlap_text(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                        struct lw_err *err)
{
    return draw(s, p, put_text, f, err);
}

const struct plot_kind plot_kind_overlap = {
    .name = "overlap",
    .about = "what a step is made of",
    .needs = "finished runs",
    .script = draw_overlap,
    .characters = draw_overlap_text,
    .runs_per_page = 30,
};
