/* Lines of runs over an option. The value of an option of the strategy is that of the plan; of any
 * other that of the run's command. Two runs are of one line where their commands are equal in all
 * else, or their plans, on one cluster. */
#include "analysis/draw/plot_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare/run_words.h"
#include "analysis/compare/step_work.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/run_name.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/strategy/strategy.h"

static const char cap[] = "bucket-cap";

static bool is_option(const void *ctx, const char *name)
{
    const char *option = ctx;
    bool workload = strcmp(option, "workload") == 0, cluster = strcmp(option, "cluster") == 0;

    return strcmp(name, option) == 0 || (workload && strcmp(name, "w") == 0) ||
           (cluster && strcmp(name, "c") == 0);
}

/* Where the value of "name=value" begins among the lines; NULL: there is none. */
static const char *of_plan(const char *lines, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = lines; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (strncmp(p, name, n) == 0 && p[n] == '=')
            return p + n + 1;
    return NULL;
}

static bool line_without(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncmp(line, name, n) != 0 || line[n] != '=';
}

/* Do two plans differ at most in the option? */
static bool same_plan_but(const struct lw_run *a, const struct lw_run *b, const char *option)
{
    const char *p = a->options, *q = b->options;

    if (!*p || !*q)
        return false;
    while (*p && *q) {
        size_t np = strcspn(p, "\n"), nq = strcspn(q, "\n");
        if (line_without(p, option) && (np != nq || strncmp(p, q, np) != 0))
            return false;
        p += np + (p[np] == '\n');
        q += nq + (q[nq] == '\n');
    }
    return !*p && !*q;
}

/* Clusters of several values of the option have hashes of their own. */
static bool is_of_cluster(const char *option)
{
    static const char *const names[] = {"cluster", "node-gbps", "interference",
                                        "device-spread"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

static bool of_one_line(const struct lw_run *a, const struct lw_run *b, const char *rest_a,
                        const char *rest_b, const char *option)
{
    bool cluster = strcmp(a->cluster_hash, b->cluster_hash) == 0;

    if ((a->kind == LW_RUN_SIM) != (b->kind == LW_RUN_SIM))
        return false;
    if (strcmp(rest_a, rest_b) == 0 && (cluster || is_of_cluster(option)) &&
        (a->n_ranks == b->n_ranks || strcmp(option, cap) != 0))
        return true;
    /* a model has no hash, and its sizes are in the command alone */
    return cluster && *a->workload_hash && strcmp(a->workload_hash, b->workload_hash) == 0 &&
           strcmp(a->framework, b->framework) == 0 && same_plan_but(a, b, option);
}

static double number(const char *text)
{
    struct lw_err unused;
    int64_t bytes;
    char *end;
    double x = strtod(text, &end);

    if (end != text && !*end)
        return x;
    return lw_parse_size(text, &bytes, &unused) == LW_OK ? (double)bytes : NAN;
}

/* --- the option ------------------------------------------------------------------------------- */

/* How many values an option has among the runs; 0: not all are numbers. */
static enum lw_status count_values(const struct lw_run *runs, int32_t n, struct lw_arena *a,
                                   const char *option, int32_t *out, struct lw_err *err)
{
    const char **seen;
    bool numbers = true;
    int32_t k = 0;

    LW_TAKE(a, seen, n, err);
    for (int32_t i = 0; i < n; i++) {
        struct lw_divided d;
        int32_t j = 0;
        if (runs[i].step < 0)
            continue;
        LW_TRY(lw_run_divide(&runs[i], is_option, option, false, a, &d, err));
        if (!*d.value)
            continue;
        numbers &= !isnan(number(d.value));
        while (j < k && strcmp(seen[j], d.value) != 0)
            j++;
        if (j == k)
            seen[k++] = d.value;
    }
    *out = numbers ? k : 0;
    return LW_OK;
}

static bool has_several_caps(const struct lw_run *runs, int32_t n)
{
    int64_t first = -1;

    for (int32_t i = 0; i < n; i++) {
        int64_t c = runs[i].step >= 0 ? runs[i].bucket_cap_bytes : -1;
        if (c > 0 && first > 0 && c != first)
            return true;
        first = c > 0 ? c : first;
    }
    return false;
}

/* The options of all commands, each once, in the order in which they come. */
static enum lw_status list_options(const struct lw_run *runs, int32_t n, struct lw_arena *a,
                                   const char ***names, int32_t *n_names, struct lw_err *err)
{
    const char **list = NULL;
    int32_t k = 0;

    for (int32_t i = 0; i < n; i++) {
        struct lw_command_word w;
        const char *p = lw_command_words(runs[i].command);
        while (lw_command_next(&p, &w)) {
            int32_t j = 0;
            if (!w.name[0] || (w.hidden && strcmp(w.name, "ranks") != 0))
                continue;
            while (j < k && strcmp(list[j], w.name) != 0)
                j++;
            if (j < k)
                continue;
            if (!(list = lw_arena_more(a, list, k, sizeof *list)) ||
                !(list[k] = lw_arena_strdup(a, w.name)))
                return lw_fail_nomem(err);
            k++;
        }
    }
    *names = list;
    *n_names = k;
    return LW_OK;
}

static enum lw_status choose_option(const struct lw_run *runs, int32_t n, struct lw_arena *a,
                                    const char **out, struct lw_err *err)
{
    const char **names;
    int32_t most = 1, n_names, values;

    *out = cap;
    if (has_several_caps(runs, n))
        return LW_OK;
    LW_TRY(list_options(runs, n, a, &names, &n_names, err));
    for (int32_t k = 0; k < n_names; k++) {
        if (strcmp(names[k], cap) == 0)
            continue;
        LW_TRY(count_values(runs, n, a, names[k], &values, err));
        if (values > most) {
            most = values;
            *out = names[k];
        }
    }
    return LW_OK;
}

/* --- the lines -------------------------------------------------------------------------------- */

static enum lw_status value_of(struct plot_lines *l, const struct lw_run *r,
                               const char *in_command, const char **out, struct lw_err *err)
{
    const char *line = lw_strategy_find(l->option) >= 0 ? of_plan(r->options, l->option) : NULL;

    *out = in_command;
    if (strcmp(l->option, cap) == 0 && r->bucket_cap_bytes <= 0)
        *out = "";
    else if (line && !(*out = lw_arena_strndup(&l->arena, line, strcspn(line, "\n"))))
        return lw_fail_nomem(err);
    return LW_OK;
}

static double x_of(const struct plot_lines *l, const struct plot_point *v)
{
    return strcmp(l->option, cap) == 0 ? (double)v->run->bucket_cap_bytes : number(v->value);
}

/* The usual framework depends on the strategy: runs of one command that have several are parted,
 * and each names its own. */
static enum lw_status part_frameworks(struct plot_lines *l, const char **rest, struct lw_err *err)
{
    for (int32_t i = 0; i < l->n && strcmp(l->option, "framework") != 0; i++)
        for (int32_t j = 0; j < l->n && !l->points[i].parted; j++)
            l->points[i].parted =
                strcmp(rest[i], rest[j]) == 0 &&
                strcmp(l->points[i].run->framework, l->points[j].run->framework) != 0;
    for (int32_t i = 0; i < l->n; i++)
        if (l->points[i].parted)
            LW_PRINT(&l->arena, rest[i], err, "%s, framework %s", rest[i],
                     l->points[i].run->framework);
    return LW_OK;
}

/* A parted point is a line also where it is alone. */
static enum lw_status join(struct plot_lines *l, const char **rest, struct lw_err *err)
{
    const char **first;

    LW_TAKE(&l->arena, first, l->n, err);
    for (int32_t i = 0; i < l->n; i++) {
        struct plot_point *v = &l->points[i];
        int32_t other = -1;
        for (int32_t j = 0; j < l->n && v->line < 0; j++)
            if (j != i && strcmp(l->points[j].value, v->value) != 0 &&
                of_one_line(v->run, l->points[j].run, rest[i], rest[j], l->option))
                other = other < 0 || l->points[j].line >= 0 ? j : other;
        if (v->line < 0 && (other >= 0 || v->parted))
            v->line = other >= 0 && l->points[other].line >= 0 ? l->points[other].line : l->n_lines;
        if (v->line == l->n_lines) {
            first[l->n_lines++] = rest[i];
            if (other >= 0)
                l->points[other].line = v->line;
        }
    }
    LW_TAKE(&l->arena, l->names, l->n_lines, err);
    for (int32_t i = 0; i < l->n_lines; i++)
        LW_TRY(lw_rest_short(first, l->n_lines, i, &l->arena, &l->names[i], err));
    return LW_OK;
}

static enum lw_status find(const struct lw_run *runs, int32_t n, const char *option,
                           struct plot_lines *l, struct lw_err *err)
{
    const char **rest;

    LW_TAKE(&l->arena, l->points, n, err);
    LW_TAKE(&l->arena, rest, n, err);
    if (!option)
        LW_TRY(choose_option(runs, n, &l->arena, &l->option, err));
    for (int32_t i = 0; i < n; i++) {
        struct plot_point *v = &l->points[l->n];
        struct lw_divided d;
        if (runs[i].step < 0)
            continue;
        LW_TRY(lw_run_divide(&runs[i], is_option, l->option, false, &l->arena, &d, err));
        *v = (struct plot_point){.run = &runs[i], .line = -1};
        LW_TRY(value_of(l, &runs[i], d.value, &v->value, err));
        v->x = x_of(l, v);
        rest[l->n] = d.rest;
        l->n += *v->value != '\0';
    }
    LW_TRY(part_frameworks(l, rest, err));
    return join(l, rest, err);
}

/* Of each kind of run one line, or one point alone. */
bool plot_lines_are_caps(const struct plot_lines *l)
{
    const struct plot_point *first[2] = {NULL, NULL};

    for (int32_t i = 0; i < l->n; i++) {
        const struct plot_point *v = &l->points[i], **f = &first[v->run->kind == LW_RUN_SIM];
        if (*f && ((*f)->line < 0 || (*f)->line != v->line))
            return false;
        *f = *f ? *f : v;
    }
    return strcmp(l->option, cap) == 0;
}

static enum lw_status check(const struct plot_lines *l, const char *file, struct lw_err *err)
{
    if (l->n < 2)
        return lw_fail_at(err, LW_EINVAL, file, 0,
                          "a sweep needs two or more runs with a step and a --%s; --x names "
                          "another option", l->option);
    if (l->n_lines == 0 && !plot_lines_are_caps(l))
        return lw_fail_at(err, LW_EINVAL, file, 0,
                          "no two of %d runs differ only in --%s, so nothing is a line; name runs, "
                          "or another option with --x", l->n, l->option);
    return l->n_lines <= PLOT_LINES_MOST
               ? LW_OK
               : lw_fail_at(err, LW_EINVAL, file, 0,
                            "%d lines over --%s, expected at most %d: name the runs to draw",
                            l->n_lines, l->option, PLOT_LINES_MOST);
}

enum lw_status plot_lines_find(const struct lw_run *runs, int32_t n, const char *option,
                               const char *file, struct plot_lines *out, struct lw_err *err)
{
    struct plot_lines l = {.option = option};
    enum lw_status status = find(runs, n, option, &l, err);

    if (status == LW_OK)
        status = check(&l, file, err);
    LW_GIVE(status, out, l, plot_lines_free(&l));
}

void plot_lines_free(struct plot_lines *l)
{
    lw_arena_free(&l->arena);
    *l = (struct plot_lines){.option = NULL};
}

/* --- the picture ------------------------------------------------------------------------------ */

static const int32_t colours[] = {PLOT_BACKWARD, PLOT_COMM_ODD, PLOT_MEASURED, PLOT_OPTIMIZER,
                                  PLOT_COMM_EVEN, PLOT_FORWARD};
enum { N_COLOURS = sizeof colours / sizeof *colours };
static const int shapes[] = {5, 7, 9, 11, 13, 4, 6, 8, 10, 12, 1, 3};

struct axis {
    bool numbers, log;
    const char **words; /* of values that are no numbers, in the order of the runs */
    int32_t n_words;
};

static enum lw_status make_axis(struct plot_lines *l, struct axis *a, struct lw_err *err)
{
    double low = INFINITY, high = 0;

    *a = (struct axis){.numbers = true};
    LW_TAKE(&l->arena, a->words, l->n, err);
    for (int32_t i = 0; i < l->n; i++) {
        const struct plot_point *v = &l->points[i];
        int32_t k = 0;
        if (v->line < 0)
            continue;
        a->numbers &= !isnan(v->x);
        low = fmin(low, v->x);
        high = fmax(high, v->x);
        while (k < a->n_words && strcmp(a->words[k], v->value) != 0)
            k++;
        if (k == a->n_words)
            a->words[a->n_words++] = v->value;
    }
    a->log = a->numbers && low > 0 && high >= 4 * low;
    return LW_OK;
}

static double place(const struct axis *a, const struct plot_point *v)
{
    int32_t k = 0;

    if (a->numbers)
        return v->x;
    while (strcmp(a->words[k], v->value) != 0)
        k++;
    return k;
}

static void put_axis(const struct plot_lines *l, const struct axis *a, FILE *f)
{
    if (a->log)
        fputs("set logscale x 2\n", f);
    fprintf(f, "set xtics (");
    for (int32_t k = 0; k < a->n_words; k++) {
        struct plot_point v = {.value = a->words[k], .x = number(a->words[k])};
        char text[32];
        bool size = strcmp(l->option, cap) == 0; /* other words may be no numbers */
        plot_tic(f, k == 0, size ? lw_format_bytes(text, (int64_t)v.x) : v.value, place(a, &v));
    }
    fputs(")\nset offsets graph 0.05, graph 0.05, graph 0.1, graph 0.02\n", f);
}

LW_COMPARATOR(by_line, struct plot_point, a->line, b->line, a->x, b->x)

static double y_of(const struct plot_point *v, const struct lw_step_work *w, double unit)
{
    return w->unit ? (double)v->run->step * 1e-3 / lw_step_units(w, v->run)
                   : (double)v->run->step / unit;
}

/* Steps of several models have no best. */
static bool has_one_workload(const struct plot_lines *l)
{
    const char *first = NULL;

    for (int32_t i = 0; i < l->n; i++) {
        const struct lw_run *r = l->points[i].run;
        if (l->points[i].line < 0)
            continue;
        if (first && strcmp(first, r->workload_name) != 0)
            return false;
        first = r->workload_name;
    }
    return true;
}

static const struct plot_point *best_of(const struct plot_lines *l, const struct lw_step_work *w)
{
    const struct plot_point *best = NULL;

    for (int32_t i = 0; i < l->n && has_one_workload(l); i++) {
        const struct plot_point *v = &l->points[i];
        if (v->line >= 0 && v->run->fits != 0 && (!best || y_of(v, w, 1) < y_of(best, w, 1)))
            best = v;
    }
    return best;
}

static void put_data(const struct plot_lines *l, const struct axis *a,
                     const struct lw_step_work *w, double unit, FILE *f)
{
    for (int32_t line = 0; line < l->n_lines; line++) {
        fprintf(f, "$line%d << EOD\n", line);
        for (int32_t i = 0; i < l->n; i++)
            if (l->points[i].line == line)
                fprintf(f, "%.10g %.6g %d\n", place(a, &l->points[i]),
                        y_of(&l->points[i], w, unit), l->points[i].run->fits == 0);
        fputs("EOD\n", f);
    }
}

static bool any_lacks(const struct plot_lines *l)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->points[i].line >= 0 && l->points[i].run->fits == 0)
            return true;
    return false;
}

/* Beside the axes, or, where it would take more than two fifths of the width, below them. */
enum { HEIGHT = 640, KEY_LINE = 24, MARK_PX = 60 };

struct key {
    bool lacks;
    const struct plot_point *best;
    int below; /* pixels under the axes; 0: beside */
};

static struct key find_key(const struct lw_plot *p, const struct plot_lines *l,
                           const struct lw_step_work *work)
{
    struct key k = {.lacks = any_lacks(l), .best = best_of(l, work)};
    int px = 0;

    for (int32_t line = 0; line < l->n_lines; line++) {
        int name = plot_text_px(l->names[line], 10);
        px = name > px ? name : px;
    }
    if (px + MARK_PX > plot_width(p, 1000) * 2 / 5)
        k.below = KEY_LINE * (l->n_lines + k.lacks + (k.best != NULL)) + 8;
    return k;
}

static void put_key(const struct lw_plot *p, const struct key *k, FILE *f)
{
    double height = p->height > 0 ? p->height : HEIGHT + k->below;

    if (k->below > 0)
        fprintf(f, "set bmargin at screen %.4f\n"
                   "set key at screen 0.5, screen %.4f center bottom vertical maxcols 1 "
                   "spacing 1.5\n", (84 + k->below) / height, 24 / height);
    else
        fputs("set key outside top right spacing 1.5\n", f);
}

/* A line whose runs have no option but the x axis's. */
static const char *name_of(const struct plot_lines *l, int32_t line)
{
    return l->names[line][0] ? l->names[line] : l->n_lines > 1 ? "defaults" : "step";
}

static void put_curves(const struct plot_lines *l, const struct key *k, double x, double y, FILE *f)
{
    for (int32_t line = 0; line < l->n_lines; line++) {
        fprintf(f, "%s  $line%d using 1:2 with linespoints pointtype %d pointsize 1.3 linewidth 2 "
                   "dashtype %d linecolor rgb '#%06x' title ", line ? ", \\\n" : "", line,
                shapes[line], line / N_COLOURS + 1, (unsigned)colours[line % N_COLOURS]);
        plot_text(f, name_of(l, line));
    }
    for (int32_t line = 0; line < l->n_lines && k->lacks; line++)
        fprintf(f, ", \\\n  $line%d using 1:($3 > 0 ? $2 : NaN) with points pointtype 2 pointsize "
                   "2.6 linewidth 2.5 linecolor rgb '#000000' %s", line,
                line ? "notitle" : "title 'does not fit'");
    if (k->best)
        fprintf(f, ", \\\n  '+' using (%.10g):(%.6g) every ::0::0 with points pointtype 6 "
                   "pointsize 3.2 linewidth 2 linecolor rgb '#000000' title 'best: run %lld'",
                x, y, (long long)k->best->run->id);
    fputs("\n", f);
}

/* In the terminal a letter for each line, from A (gnuplot numbers them so), with 'x' after a point
 * that does not fit and '*' after the best. */
static void put_letters(const struct plot_lines *l, const struct key *k, double x, double y,
                        FILE *f)
{
    for (int32_t line = 0; line < l->n_lines; line++) {
        fprintf(f, "%s  $line%d using 1:2 with points pointtype %d title ", line ? ", \\\n" : "",
                line, line + 1);
        plot_text(f, name_of(l, line));
    }
    for (int32_t line = 0; line < l->n_lines && k->lacks; line++)
        fprintf(f, ", \\\n  $line%d using 1:($3 > 0 ? $2 : NaN):('x') with labels offset 1,0 "
                   "notitle", line);
    if (k->best)
        fprintf(f, ", \\\n  '+' using (%.10g):(%.6g):('*') every ::0::0 with labels offset 1,0 "
                   "notitle", x, y);
    fputs("\n", f);
}

static void write_title(const struct lw_plot *p, const struct plot_lines *l, const struct key *k,
                        const char *unit, int32_t n, char *buf, size_t size)
{
    char best[48] = "";
    bool text = p->terminal == LW_TERMINAL_DUMB;

    if (k->best)
        snprintf(best, sizeof best, "; * best: run %lld", (long long)k->best->run->id);
    snprintf(buf, size, "%s over --%.60s: %d runs%s%s",
             unit ? unit[0] == 't' ? "Time of a token" : "Time of a sample" : "Step", l->option, n,
             text && k->lacks ? "; x does not fit" : "", text ? best : "");
}

/* l: the caller's, with points of its own to sort and an arena that the caller frees. */
static enum lw_status draw(const struct lw_plot *p, struct plot_lines *l, FILE *f,
                           struct lw_err *err)
{
    struct plot_unit unit = plot_unit_for(plot_longest_step(p));
    bool text = p->terminal == LW_TERMINAL_DUMB;
    const struct lw_run **runs;
    struct axis axis;
    int32_t n = 0;
    char title[200];

    LW_TAKE(&l->arena, runs, l->n, err);
    for (int32_t i = 0; i < l->n; i++)
        if (l->points[i].line >= 0)
            runs[n++] = l->points[i].run;
    struct lw_step_work work = lw_step_work_of(runs, n);
    LW_TRY(make_axis(l, &axis, err));
    lw_sort(l->points, l->n, by_line);
    struct key key = find_key(p, l, &work);
    write_title(p, l, &key, work.unit, n, title, sizeof title);
    plot_begin(p, f, 1000, HEIGHT + key.below, title, NULL, 0);
    put_data(l, &axis, &work, unit.ps, f);
    put_axis(l, &axis, f);
    fprintf(f, "set xlabel '%s'\nset ylabel '%s%s%s'\n", l->option, work.unit ? "ns a " : "step [",
            work.unit ? work.unit : unit.name, work.unit ? "" : "]");
    if (text)
        fputs("set key outside bottom left vertical maxcols 1 Left reverse samplen 1\n", f);
    else
        put_key(p, &key, f);
    fputs("set samples 2\nset yrange [0:*]\nplot \\\n", f);
    double x = key.best ? place(&axis, key.best) : 0;
    double y = key.best ? y_of(key.best, &work, unit.ps) : 0;
    (text ? put_letters : put_curves)(l, &key, x, y, f);
    return LW_OK;
}

enum lw_status plot_lines_draw(const struct lw_plot *p, const struct plot_lines *given, FILE *f,
                               struct lw_err *err)
{
    struct plot_lines l = *given;
    enum lw_status status = LW_OK;

    l.arena = (struct lw_arena){.head = NULL};
    l.points = lw_arena_alloc(&l.arena, given->n, sizeof *l.points);
    if (l.points) {
        memcpy(l.points, given->points, (size_t)given->n * sizeof *l.points);
        status = draw(p, &l, f, err);
    } else {
        status = lw_fail_nomem(err);
    }
    lw_arena_free(&l.arena);
    return status;
}
