/* Strategies of a search by their options: tokens per second of the best of each value, and the
 * best step of each pair of values. Where no strategy was simulated, since bounds exclude all, the
 * least bound is shown as what it is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot_tune.h"

enum { MOST_VALUES = 64 };

/* The values of an option, in their order. */
struct values {
    char word[MOST_VALUES][PLOT_SEARCH_WORD];
    int n;
    bool numbers;
};

static double number(const char *word)
{
    char *end;
    double x = strtod(word, &end);

    return end == word || *end ? NAN : x;
}

static int find(const struct values *v, const char *word)
{
    int i = 0;

    while (i < v->n && strcmp(v->word[i], word) != 0)
        i++;
    return i;
}

static void sort(struct values *v)
{
    for (int i = 1; i < v->n; i++)
        for (int k = i; k > 0 && number(v->word[k]) < number(v->word[k - 1]); k--) {
            char word[PLOT_SEARCH_WORD];
            memcpy(word, v->word[k], sizeof word);
            memcpy(v->word[k], v->word[k - 1], sizeof word);
            memcpy(v->word[k - 1], word, sizeof word);
        }
}

static enum lw_status no_option(const struct plot_search *s, const char *option, struct lw_err *err)
{
    char names[256] = "";
    size_t n = 0;
    const char *at = s->n > 0 ? s->v[0].strategy : "";

    for (; *at && n < sizeof names; at += strcspn(at, " "), at += *at == ' ')
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%.*s", n ? ", " : "",
                              (int)strcspn(at, "="), at);
    return lw_fail(err, LW_EINVAL,
                   "search %lld: no strategy has an option '%s', expected one that was searched, "
                   "as %s, or devices", (long long)s->search->id, option, names);
}

static enum lw_status values_of(const struct plot_search *s, const char *option, struct values *out,
                                struct lw_err *err)
{
    char word[PLOT_SEARCH_WORD];

    *out = (struct values){.numbers = true};
    for (int64_t i = 0; i < s->n; i++) {
        if (s->v[i].outcome == LW_SEARCHED_INVALID || !plot_search_value(&s->v[i], option, word))
            continue;
        int at = find(out, word);
        if (at == MOST_VALUES)
            return lw_fail(err, LW_EINVAL, "search %lld: '%s' has more than %d values",
                           (long long)s->search->id, option, MOST_VALUES);
        if (at == out->n)
            snprintf(out->word[out->n++], PLOT_SEARCH_WORD, "%s", word);
        out->numbers &= !isnan(number(word));
    }
    if (out->n == 0)
        return no_option(s, option, err);
    if (out->numbers)
        sort(out);
    return LW_OK;
}

/* What is known of the strategies of a value, or of a pair. */
struct cell {
    const struct lw_searched *best; /* NULL: none that fits was simulated */
    lw_ps bound;                    /* the least of those that were not; -1 = none */
    bool unfit;                     /* some do not fit */
};

static void add(struct cell *c, const struct lw_searched *v)
{
    if (plot_search_fits(v) && (!c->best || lw_searched_rank_by(v) < lw_searched_rank_by(c->best)))
        c->best = v;
    if (v->outcome == LW_SEARCHED_BOUNDED && (c->bound < 0 || v->bound < c->bound))
        c->bound = v->bound;
    c->unfit |= v->outcome == LW_SEARCHED_NO_ROOM ||
                (v->outcome == LW_SEARCHED_SIMULATED && !plot_search_fits(v));
}

/* (*out)[i * y->n + k] of value i of p->x and value k of p->y; y NULL: of p->x alone. */
static enum lw_status make_cells(const struct lw_plot *p, struct plot_search *s,
                                 const struct values *x, const struct values *y, struct cell **out,
                                 struct lw_err *err)
{
    int rows = y ? y->n : 1;
    char word[PLOT_SEARCH_WORD];

    LW_TAKE(&s->arena, *out, x->n * rows, err);
    for (int i = 0; i < x->n * rows; i++)
        (*out)[i].bound = -1;
    for (int64_t i = 0; i < s->n; i++) {
        if (!plot_search_value(&s->v[i], p->x, word))
            continue;
        int at = find(x, word), k = 0;
        if (y && !plot_search_value(&s->v[i], p->y, word))
            continue;
        k = y ? find(y, word) : 0;
        if (at < x->n && k < rows)
            add(&(*out)[at * rows + k], &s->v[i]);
    }
    return LW_OK;
}

static const struct lw_searched *fastest(const struct plot_search *s)
{
    const struct lw_searched *best = NULL;

    for (int64_t i = 0; i < s->n; i++)
        if (plot_search_fits(&s->v[i]) &&
            (!best || lw_searched_rank_by(&s->v[i]) < lw_searched_rank_by(best)))
            best = &s->v[i];
    return best;
}

static enum lw_status check(const struct plot_search *s, struct lw_err *err)
{
    return fastest(s) ? LW_OK
                      : lw_fail(err, LW_EINVAL, "search %lld: no strategy that fits was simulated",
                                (long long)s->search->id);
}

static void put_tics(const struct values *v, const char *axis, FILE *f)
{
    fprintf(f, "set %stics (", axis);
    for (int i = 0; i < v->n; i++)
        plot_tic(f, i == 0, v->word[i], i);
    fprintf(f, ")\nset %srange [-0.5:%g]\n", axis, v->n - 0.5);
}

/* --- over one option --- */

static bool is_devices(const char *option)
{
    return strcmp(option, "devices") == 0 || strcmp(option, "ranks") == 0;
}

/* tokens of text models, else samples, of a step: from any strategy, all train the same samples. */
static double work_of(const struct lw_searched *v)
{
    bool text = !isnan(v->tokens_per_s) && v->tokens_per_s > 0;

    return (text ? v->tokens_per_s : v->samples_per_s) * (double)v->step;
}

static double rate_of(const struct lw_searched *v)
{
    return work_of(v) / (double)lw_searched_rank_by(v);
}

/* Numbers of devices lie at their logarithms, so that a rate in proportion to them is a line. */
static double place(const struct lw_plot *p, const struct values *v, int i)
{
    return is_devices(p->x) && v->numbers ? number(v->word[i]) : i;
}

static void put_axis(const struct lw_plot *p, const struct values *v, FILE *f)
{
    if (!is_devices(p->x) || !v->numbers) {
        put_tics(v, "x", f);
        fputs("set yrange [0:*]\nset offsets 0, 0, graph 0.08, 0\n", f);
        return;
    }
    fputs("set logscale xy\nset xtics (", f);
    for (int i = 0; i < v->n; i++)
        plot_tic(f, i == 0, v->word[i], number(v->word[i]));
    fprintf(f, ")\nset xrange [%.6g:%.6g]\n", number(v->word[0]) / 1.2,
            number(v->word[v->n - 1]) * 1.2);
}

static void put_rates(const struct lw_plot *p, const struct plot_search *s, const struct values *v,
                      const struct cell *cells, FILE *f)
{
    const struct lw_searched *any = fastest(s);
    double first = NAN, first_at = NAN;

    fputs("$rate << EOD\n", f);
    for (int i = v->n - 1; i >= 0; i--)
        if (cells[i].best) {
            fprintf(f, "%.6g %.6g\n", place(p, v, i), rate_of(cells[i].best));
            first = rate_of(cells[i].best);
            first_at = number(v->word[i]);
        }
    fputs("EOD\n$most << EOD\n", f);
    for (int i = 0; i < v->n; i++)
        if (!cells[i].best && cells[i].bound > 0)
            fprintf(f, "%.6g %.6g\n", place(p, v, i), work_of(any) / (double)cells[i].bound);
    fputs("EOD\n$linear << EOD\n", f);
    for (int i = 0; i < v->n && is_devices(p->x) && v->numbers; i++)
        fprintf(f, "%.6g %.6g\n", place(p, v, i), first * number(v->word[i]) / first_at);
    fputs("EOD\n", f);
}

static bool any_bounded(const struct cell *cells, int n)
{
    for (int i = 0; i < n; i++)
        if (!cells[i].best && cells[i].bound > 0)
            return true;
    return false;
}

enum lw_status plot_search_line(const struct lw_plot *p, struct plot_search *s, FILE *f,
                                struct lw_err *err)
{
    struct values v;
    struct cell *cells;
    char title[320], what[96];

    LW_TRY(values_of(s, p->x, &v, err));
    LW_TRY(check(s, err));
    LW_TRY(make_cells(p, s, &v, NULL, &cells, err));
    snprintf(what, sizeof what, "Best strategies by --%.40s", p->x);
    plot_search_title(s, what, title, sizeof title);
    plot_begin(p, f, 1000, 640, title, NULL, 0);
    put_rates(p, s, &v, cells, f);
    put_axis(p, &v, f);
    fputs("set xlabel ", f);
    plot_text(f, p->x);
    fprintf(f, "\nset ylabel '%s per second'\nset format y '%%.0s%%c'\n"
               "set key bottom right spacing 1.4\n"
               "plot $rate using 1:2 with linespoints pointtype 7 pointsize 1.4 linewidth 2 "
               "linecolor rgb '#%06x' title 'the best strategy'",
            isnan(fastest(s)->tokens_per_s) ? "samples" : "tokens", PLOT_BACKWARD);
    if (is_devices(p->x) && v.numbers && v.n > 1)
        fprintf(f, ", \\\n  $linear using 1:2 with lines dashtype 3 linewidth 1.5 linecolor rgb "
                   "'#%06x' title 'in proportion to the devices'", PLOT_OTHER);
    if (any_bounded(cells, v.n))
        fprintf(f, ", \\\n  $most using 1:2 with points pointtype 10 pointsize 1.6 linewidth 2 "
                   "linecolor rgb '#%06x' title 'at most: by the bound'", PLOT_COMM_ODD);
    fputs("\n", f);
    return LW_OK;
}

/* --- over two --- */

static const char *text_of(const struct cell *c, double ps, char out[32])
{
    if (c->best)
        snprintf(out, 32, "%.4g", (double)lw_searched_rank_by(c->best) / ps);
    else if (c->bound >= 0)
        snprintf(out, 32, "> %.4g", (double)c->bound / ps);
    else
        snprintf(out, 32, "%s", c->unfit ? "no room" : "");
    return out;
}

/* Colours of steps from the fastest on; what is slower than twice that has the last. */
static int32_t colour_of(const struct cell *c, lw_ps least)
{
    if (!c->best)
        return 0xF2F2F2;
    double slower = fmin((double)lw_searched_rank_by(c->best) / (double)least - 1, 1);
    return (0x56 + (int)(slower * 144)) << 16 | (0xB4 + (int)(slower * 60)) << 8 |
           (0xE9 + (int)(slower * 17));
}

static void put_cells(const struct plot_search *s, const struct values *x, const struct values *y,
                      const struct cell *cells, double ps, FILE *f)
{
    const struct lw_searched *least = fastest(s);
    char text[32];

    for (int i = 0; i < x->n * y->n; i++)
        if (*text_of(&cells[i], ps, text))
            fprintf(f, "set object %d rectangle from %g,%g to %g,%g behind fillcolor rgb '#%06x' "
                       "fillstyle solid 1.0 border linecolor rgb '#ffffff'\n", i + 1,
                    i / y->n - 0.5, i % y->n - 0.5, i / y->n + 0.5, i % y->n + 0.5,
                    (unsigned)colour_of(&cells[i], lw_searched_rank_by(least)));
    fputs("$cell << EOD\n", f);
    for (int i = 0; i < x->n * y->n; i++)
        fprintf(f, "%d %d \"%s\"\n", i / y->n, i % y->n, text_of(&cells[i], ps, text));
    fputs("EOD\n$fastest << EOD\n", f);
    for (int i = 0; i < x->n * y->n; i++)
        if (cells[i].best == least)
            fprintf(f, "%d %d\n", i / y->n, i % y->n);
    fputs("EOD\n", f);
}

static lw_ps slowest(const struct plot_search *s)
{
    lw_ps most = 0;

    for (int64_t i = 0; i < s->n; i++)
        if (plot_search_fits(&s->v[i]) && lw_searched_rank_by(&s->v[i]) > most)
            most = lw_searched_rank_by(&s->v[i]);
    return most;
}

enum lw_status plot_search_heat(const struct lw_plot *p, struct plot_search *s, FILE *f,
                                struct lw_err *err)
{
    struct values x, y;
    struct cell *cells;
    char title[320], what[128];

    LW_TRY(values_of(s, p->x, &x, err));
    LW_TRY(values_of(s, p->y, &y, err));
    LW_TRY(check(s, err));
    LW_TRY(make_cells(p, s, &x, &y, &cells, err));
    struct plot_unit unit = plot_unit_for(slowest(s));
    snprintf(what, sizeof what, "Best %s [%s] by --%.40s and --%.40s", plot_search_ranked(s),
             unit.name, p->x, p->y);
    plot_search_title(s, what, title, sizeof title);
    plot_begin(p, f, 1000, 640, title, NULL, 0);
    put_cells(s, &x, &y, cells, unit.ps, f);
    put_tics(&x, "x", f);
    put_tics(&y, "y", f);
    fputs("unset grid\nset xlabel ", f);
    plot_text(f, p->x);
    fputs("\nset ylabel ", f);
    plot_text(f, p->y);
    fputs("\nunset key\nplot $cell using 1:2:3 with labels", f);
    if (p->terminal != LW_TERMINAL_DUMB)
        fprintf(f, ", \\\n  $fastest using 1:2 with points pointtype 4 pointsize 8 linewidth 2 "
                   "linecolor rgb '#%06x'", PLOT_COMM_ODD);
    fputs("\n", f);
    return LW_OK;
}
