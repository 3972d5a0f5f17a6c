/* Step over an option: of bucket caps of one prediction and its measurement with the default and
 * the best, of any other as lines (plot_lines.c). */
#include <math.h>
#include <string.h>

#include "analysis/compare/compare.h"
#include "analysis/draw/plot_lines.h"
#include "analysis/draw/plot_style.h"
#include "shared/numbers/interval_text.h"

struct series {
    const char *name;
    bool sim, mixed; /* mixed: no line connects runs of several workloads, clusters, ... */
    int n;
    const struct lw_run *best, *usual; /* usual: with the policy's default cap */
    lw_ps low, high;                   /* of the steps, with the usual one */
};

static bool is_of(const struct series *v, const struct lw_run *r)
{
    return (r->kind == LW_RUN_SIM) == v->sim && r->step >= 0;
}

static void widen(struct series *v, lw_ps step)
{
    v->low = v->low < 0 || step < v->low ? step : v->low;
    v->high = step > v->high ? step : v->high;
}

/* A model has no hash: its name and what a step of it has stand for that. */
static bool is_same_workload(const struct lw_run *a, const struct lw_run *b)
{
    bool same_tokens = a->tokens == b->tokens || (isnan(a->tokens) && isnan(b->tokens));

    return *a->workload_hash || *b->workload_hash
               ? strcmp(a->workload_hash, b->workload_hash) == 0
               : strcmp(a->workload_name, b->workload_name) == 0 && a->samples == b->samples &&
                     same_tokens;
}

static bool is_like(const struct lw_run *a, const struct lw_run *b)
{
    return a->n_ranks == b->n_ranks && is_same_workload(a, b) &&
           strcmp(a->cluster_hash, b->cluster_hash) == 0 && strcmp(a->framework, b->framework) == 0;
}

/* The run without a cap that is most like the best: the same workload on as many ranks of the same
 * cluster under the same framework; of several the last. */
static void find_usual(const struct lw_plot *p, struct series *v)
{
    for (int32_t i = 0; i < p->n_runs && v->best; i++) {
        const struct lw_run *r = &p->runs[i];
        if (is_of(v, r) && r->bucket_cap_bytes < 0 && is_like(r, v->best))
            v->usual = r;
    }
    if (v->usual)
        widen(v, v->usual->step);
}

static bool has_cap(const struct series *v, const struct lw_run *r)
{
    return is_of(v, r) && r->bucket_cap_bytes > 0;
}

static void find_series(const struct lw_plot *p, struct series *v)
{
    for (int32_t i = 0; i < p->n_runs; i++) {
        const struct lw_run *r = &p->runs[i];
        if (!has_cap(v, r))
            continue;
        widen(v, r->step);
        v->mixed = v->mixed || (v->best && !is_like(v->best, r));
        v->n++;
        if (!v->best || r->step < v->best->step)
            v->best = r;
    }
    find_usual(p, v);
}

static enum lw_status put_series(struct lw_store *s, const struct lw_plot *p, FILE *f, double unit,
                                 struct series *v, struct lw_err *err)
{
    find_series(p, v);
    fprintf(f, "$%s << EOD\n", v->name);
    for (int32_t i = 0; i < p->n_runs; i++) {
        const struct lw_run *r = &p->runs[i];
        lw_ps low, high;
        if (!has_cap(v, r))
            continue;
        LW_TRY(plot_quartiles(s, r, &low, &high, err));
        fprintf(f, "%.6g %.6g %.6g %.6g\n", (double)r->bucket_cap_bytes / 1048576.0,
                (double)r->step / unit, (double)low / unit, (double)high / unit);
    }
    fputs("EOD\n", f);
    return LW_OK;
}

/* As `lapwing recommend` decides: a small gain does not justify a change of the default. Without a
 * run of the default the slowest cap is compared with. */
static bool keeps_usual(const struct series *v)
{
    lw_ps step = v->usual ? v->usual->step : v->high;

    return (double)(step - v->best->step) < LW_LEAST_GAIN_PCT / 100 * (double)step;
}

/* The run whose interval is drawn; NULL: it has none. */
static const struct lw_run *with_interval(const struct series *v)
{
    const struct lw_run *r = v->n == 0 ? NULL : v->usual && keeps_usual(v) ? v->usual : v->best;

    return r && r->p90 > 0 ? r : NULL;
}

static void hold_interval(const struct series *v, lw_ps *low, lw_ps *high)
{
    const struct lw_run *r = with_interval(v);

    if (r && r->p10 < *low)
        *low = r->p10;
    if (r && r->p90 > *high)
        *high = r->p90;
}

/* From the lowest to the highest that is drawn with some room, not below zero. */
static void put_step_range(FILE *f, const struct series *a, const struct series *b, double unit)
{
    lw_ps low = a->n == 0 || (b->n > 0 && b->low < a->low) ? b->low : a->low;
    lw_ps high = a->high > b->high ? a->high : b->high;

    hold_interval(a, &low, &high);
    hold_interval(b, &low, &high);
    lw_ps span = high - low > high / 10 ? high - low : high / 10;

    fprintf(f, "set yrange [%.6g:%.6g]\n", (double)(low > span / 4 ? low - span / 4 : 0) / unit,
            (double)(high + span / 2) / unit);
}

/* The least cap above `above`; 0 = there is none. */
static int64_t next_cap(const struct lw_plot *p, int64_t above)
{
    int64_t next = 0;

    for (int32_t i = 0; i < p->n_runs; i++) {
        int64_t cap = p->runs[i].step >= 0 ? p->runs[i].bucket_cap_bytes : 0;
        if (cap > above && (next == 0 || cap < next))
            next = cap;
    }
    return next;
}

/* A cap of 1/FAR of the next is left of the axis, unless it is the best; one more has to stay. */
enum { FAR = 16 };

static int64_t first_cap(const struct lw_plot *p, const struct series *a, const struct series *b)
{
    int64_t cap = next_cap(p, 0), second = next_cap(p, cap);
    bool best = (a->n > 0 && !keeps_usual(a) && a->best->bucket_cap_bytes == cap) ||
                (b->n > 0 && !keeps_usual(b) && b->best->bucket_cap_bytes == cap);

    return second / FAR >= cap && !best && next_cap(p, second) > 0 ? second : cap;
}

static const char *cap_name(double bytes, char buf[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int u = 0;

    for (; u < 3 && bytes >= 1024; u++)
        bytes /= 1024;
    snprintf(buf, 32, "%.4g %s", bytes, units[u]);
    return buf;
}

/* The ends of the axis, as exponents of two, in bytes. */
struct cap_range {
    double from, to;
};

static struct cap_range range_from(const struct lw_plot *p, int64_t first)
{
    int64_t last = first;

    for (int64_t cap = first; cap > 0; cap = next_cap(p, cap))
        last = cap;
    double from = log2((double)first), to = log2((double)last), room = fmax((to - from) / 20, 0.5);
    return (struct cap_range){from - room, to + room};
}

/* Powers of two, as many as have room. */
static void put_cap_axis(const struct lw_plot *p, int64_t first, struct cap_range axis, FILE *f)
{
    double from = axis.from, to = axis.to;
    int64_t least = next_cap(p, 0);
    char name[32];

    int width = p->terminal == LW_TERMINAL_DUMB ? plot_width(p, 100) * 7 : plot_width(p, 1000);
    int step = (int)ceil((to - from) * 64 / fmax(width - 120, 64));
    fprintf(f, "set logscale x 2\nset xrange [%.6g:%.6g]\nset xtics (", exp2(from - 20),
            exp2(to - 20));
    int begin = (int)ceil(from);
    for (int k = begin; k <= to; k += step)
        plot_tic(f, k == begin, cap_name(exp2(k), name), exp2(k - 20));
    fputs(")\n", f);
    if (least < first)
        fprintf(f, "set label 1 'left of the axis: cap %s' at graph 0.01,0.03 left\n",
                cap_name((double)least, name));
}

/* In MiB: at the run's cap; the default has none, and stands at the right edge. */
static double interval_at(const struct lw_run *r, struct cap_range axis)
{
    return r->bucket_cap_bytes > 0 ? (double)r->bucket_cap_bytes / 1048576.0
                                   : exp2(axis.to - (axis.to - axis.from) / 100 - 20);
}

/* A circle around the best, or a line at the default where that is to be kept. */
static void put_best(FILE *f, const struct series *v, struct plot_unit u, struct cap_range axis,
                     int32_t colour, bool text)
{
    int mark = !text ? 6 : v->sim ? 16 : 13; /* in the terminal P and M */
    const struct lw_run *r = with_interval(v);
    double unit = u.ps;
    char kept[48] = "", interval[LW_INTERVAL_TEXT];

    if (v->usual && keeps_usual(v))
        snprintf(kept, sizeof kept, ": none is %g %% faster", LW_LEAST_GAIN_PCT);
    if (v->usual)
        fprintf(f, ", \\\n  %.6g with lines dashtype 3 linewidth 1.5 linecolor rgb '#%06x' title "
                   "'default cap, %s%s'", (double)v->usual->step / unit, (unsigned)colour, v->name,
                kept);
    if (r)
        fprintf(f, ", \\\n  '+' using (%.6g):(%.6g):(%.6g):(%.6g) every ::0::0 with yerrorbars "
                   "pointtype 0 linewidth 1.5 linecolor rgb '#%06x' "
                   "title '%s: %s'",
                interval_at(r, axis), (double)r->step / unit,
                (double)r->p10 / unit, (double)r->p90 / unit, (unsigned)colour,
                r == v->best ? "best" : "default cap",
                lw_interval_text(interval, r->p10, r->p90, NULL));
    if (v->n > 0 && !keeps_usual(v))
        fprintf(f, ", \\\n  '+' using (%.6g):(%.6g) every ::0::0 with points pointtype %d "
                   "pointsize 3.2 linewidth 2 linecolor rgb '#%06x' title 'best %s'",
                (double)v->best->bucket_cap_bytes / 1048576.0, (double)v->best->step / unit, mark,
                (unsigned)colour, v->name);
}

static enum lw_status draw_caps(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                struct lw_err *err)
{
    struct plot_unit unit = plot_unit_for(plot_longest_step(p));
    struct series predicted = {.name = "predicted", .sim = true, .low = -1};
    struct series measured = {.name = "measured", .low = -1};

    struct plot_names names;
    LW_TRY(plot_names_make(p->runs, p->n_runs, "Step over bucket cap", &names, err));
    plot_begin(p, f, 1000, 640, names.title, NULL, 0);
    plot_names_free(&names);
    LW_TRY(put_series(s, p, f, unit.ps, &predicted, err));
    LW_TRY(put_series(s, p, f, unit.ps, &measured, err));
    if (predicted.n + measured.n < 2)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          "a sweep needs two or more runs with a step and a --bucket-cap");
    put_step_range(f, &predicted, &measured, unit.ps);
    int64_t first = first_cap(p, &predicted, &measured);
    struct cap_range axis = range_from(p, first);
    put_cap_axis(p, first, axis, f);
    fprintf(f, "set xlabel 'bucket cap'\nset ylabel 'step [%s]'\n"
               "set key top right spacing 1.9\nset samples 2\nplot \\\n"
               "  $predicted using 1:2 %s pointtype 5 linewidth 2 linecolor rgb '#%06x' "
               "title 'predicted', \\\n",
            unit.name, predicted.mixed ? "with points" : "smooth unique with linespoints",
            PLOT_BACKWARD);
    if (!measured.mixed)
        fprintf(f, "  $measured using 1:2 smooth unique with lines dashtype 2 linewidth 2 "
                   "linecolor rgb '#%06x' notitle, \\\n", PLOT_COMM_ODD);
    fprintf(f, "  $measured using 1:2:3:4 with yerrorbars pointtype 7 pointsize 1.3 linewidth 1.5 "
               "linecolor rgb '#%06x' title 'measured (median, quartiles)'",
            PLOT_COMM_ODD);
    bool text = p->terminal == LW_TERMINAL_DUMB;
    put_best(f, &predicted, unit, axis, PLOT_BACKWARD, text);
    put_best(f, &measured, unit, axis, PLOT_COMM_ODD, text);
    fputs("\n", f);
    return LW_OK;
}

static enum lw_status draw_sweep(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                 struct lw_err *err)
{
    struct plot_lines l;

    LW_TRY(plot_lines_find(p->runs, p->n_runs, p->x, lw_store_file(s), &l, err));
    enum lw_status status = plot_lines_are_caps(&l) ? draw_caps(s, p, f, err)
                                                    : plot_lines_draw(p, &l, f, err);
    plot_lines_free(&l);
    return status;
}

static int32_t count_caps(const struct lw_plot *p)
{
    struct series each[] = {{.sim = true, .low = -1}, {.low = -1}};
    int32_t n = 0;

    for (int k = 0; k < 2; k++) {
        find_series(p, &each[k]);
        n += each[k].n + (each[k].usual != NULL);
    }
    return n;
}

static enum lw_status count_sweep(const struct lw_plot *p, int32_t *n_drawn, struct lw_err *err)
{
    struct plot_lines l;
    int32_t n = 0;

    LW_TRY(plot_lines_find(p->runs, p->n_runs, p->x, "", &l, err));
    for (int32_t i = 0; i < l.n; i++)
        n += l.points[i].line >= 0;
    *n_drawn = plot_lines_are_caps(&l) ? count_caps(p) : n;
    plot_lines_free(&l);
    return LW_OK;
}

const struct plot_kind plot_kind_sweep = {
    .name = "sweep",
    .about = "step over an option (--x)",
    .needs = "two runs that differ only in it",
    .script = draw_sweep,
    .count = count_sweep,
};
