/* Strategies of a search: step against memory of a device, with the best and the Pareto set. */
#include "analysis/draw/plot_tune.h"

#include <math.h>
#include <string.h>

#include "analysis/draw/plot_labels.h"
#include "analysis/store/store.h"

enum { WIDTH = 1000, HEIGHT = 640, MOST_NAMED = 4, NAME = 160 };

bool plot_search_value(const struct lw_searched *v, const char *option, char out[PLOT_SEARCH_WORD])
{
    size_t n = strlen(option);

    for (const char *at = v->strategy; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, option, n) == 0 && at[n] == '=') {
            snprintf(out, PLOT_SEARCH_WORD, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
            return true;
        }
    if (strcmp(option, "devices") != 0)
        return false;
    if (v->n_devices < 0)
        return plot_search_value(v, "ranks", out);
    snprintf(out, PLOT_SEARCH_WORD, "%lld", (long long)v->n_devices);
    return true;
}

bool plot_search_fits(const struct lw_searched *v)
{
    return v->outcome == LW_SEARCHED_SIMULATED && v->missing_bytes <= 0;
}

const char *plot_search_ranked(const struct plot_search *s)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->v[i].step_p90 >= 0)
            return "p90 of the step";
    return "step";
}

void plot_search_title(const struct plot_search *s, const char *what, char *out, size_t size)
{
    snprintf(out, size, "%s of %.60s on %.60s, %lld samples a step", what, s->search->model,
             s->search->cluster, (long long)s->search->global_batch);
}

/* --- step against memory --- */

struct axes {
    bool log; /* of steps */
    double left, right, bottom, top;
    struct plot_unit unit;
};

static bool is_drawn(const struct lw_searched *v)
{
    return v->outcome == LW_SEARCHED_SIMULATED && v->memory_bytes >= 0;
}

static double gib(const struct lw_searched *v)
{
    return (double)v->memory_bytes / 1073741824;
}

static enum lw_status axes_of(const struct lw_plot *p, const struct plot_search *s,
                              struct axes *out, struct lw_err *err)
{
    double least = INFINITY, most = 0, low = INFINITY, high = 0;
    int64_t n = 0;

    for (int64_t i = 0; i < s->n; i++)
        if (is_drawn(&s->v[i])) {
            least = fmin(least, (double)lw_searched_rank_by(&s->v[i]));
            most = fmax(most, (double)lw_searched_rank_by(&s->v[i]));
            low = fmin(low, gib(&s->v[i]));
            high = fmax(high, gib(&s->v[i]));
            n++;
        }
    if (n == 0)
        return lw_fail(err, LW_EINVAL, "search %lld has no strategy with a step and a memory%s",
                       (long long)p->search->id,
                       p->search->n_simulated > 0 ? ": the workload does not say what activations "
                                                    "it keeps (kept_bytes)" : "");
    bool log = most >= 4 * least;
    double room = fmax((most - least) * 0.06, least * 0.005), more = fmax((high - low) * 0.12, 0.1);
    *out = (struct axes){.log = log, .unit = plot_unit_for((lw_ps)most),
                         .left = log ? least / 1.15 : fmax(least - room, 0),
                         .right = log ? most * 1.15 : most + room, .bottom = fmax(low - more, 0),
                         .top = high + 2 * more}; /* the key is there */
    return LW_OK;
}

static double across(const struct axes *a, const struct lw_searched *v)
{
    double x = (double)lw_searched_rank_by(v);

    return a->log ? log(x / a->left) / log(a->right / a->left)
                  : (x - a->left) / (a->right - a->left);
}

static double up(const struct axes *a, const struct lw_searched *v)
{
    return (gib(v) - a->bottom) / (a->top - a->bottom);
}

static void put_point(const struct lw_searched *x, const struct axes *a, FILE *f)
{
    fprintf(f, "%.6g %.6g\n", (double)lw_searched_rank_by(x) / a->unit.ps, gib(x));
}

typedef bool chooses(const struct lw_searched *v);

static bool is_plain(const struct lw_searched *v)
{
    return is_drawn(v) && plot_search_fits(v) && v->front == 0 && v->place == 0;
}

static bool is_best(const struct lw_searched *v)
{
    return is_drawn(v) && v->place > 0;
}

static bool is_unfit(const struct lw_searched *v)
{
    return is_drawn(v) && !plot_search_fits(v);
}

static int64_t put_points(const struct plot_search *s, const struct axes *a, const char *name,
                          chooses *is, FILE *f)
{
    int64_t n = 0;

    fprintf(f, "$%s << EOD\n", name);
    for (int64_t i = 0; i < s->n; i++)
        if (is(&s->v[i])) {
            put_point(&s->v[i], a, f);
            n++;
        }
    fputs("EOD\n", f);
    return n;
}

static const struct lw_searched *of_front(const struct plot_search *s, int64_t place)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->v[i].front == place && is_drawn(&s->v[i]))
            return &s->v[i];
    return NULL;
}

static int64_t n_front(const struct plot_search *s)
{
    int64_t n = 0;

    while (of_front(s, n + 1))
        n++;
    return n;
}

/* Least memory first. Prices and numbers of devices may make a point of it that is neither fastest
 * nor smallest: the line, the least memory of steps up to x, has only those that are faster than
 * all with less. */
static void put_front(const struct plot_search *s, const struct axes *a, FILE *f)
{
    fputs("$front << EOD\n", f);
    for (int64_t k = 1; of_front(s, k); k++)
        put_point(of_front(s, k), a, f);
    fputs("EOD\n$line << EOD\n", f);
    lw_ps least = INT64_MAX;
    for (int64_t k = 1; of_front(s, k); k++) {
        if (lw_searched_rank_by(of_front(s, k)) >= least)
            continue;
        least = lw_searched_rank_by(of_front(s, k));
        put_point(of_front(s, k), a, f);
    }
    fputs("EOD\n", f);
}

/* --- names of the front --- */

static bool is_common(const struct plot_search *s, const char *word, size_t n)
{
    for (int64_t k = 1; of_front(s, k); k++) {
        const char *at = of_front(s, k)->strategy;
        while (*at && !(strncmp(at, word, n) == 0 && (at[n] == ' ' || !at[n]))) {
            at += strcspn(at, " ");
            at += *at == ' ';
        }
        if (!*at)
            return false;
    }
    return true;
}

/* The options in which it differs from others of the front. */
static void name_of(const struct plot_search *s, const struct lw_searched *v, char out[NAME])
{
    bool alone = n_front(s) < 2;
    size_t n = 0;

    out[0] = '\0';
    for (const char *at = v->strategy; *at && n < NAME; at += strcspn(at, " "), at += *at == ' ') {
        size_t len = strcspn(at, " "), key = strcspn(at, "=");
        if (strncmp(at, "dp=", 3) == 0) /* follows from the others */
            continue;
        if (alone ? n + len < 50 : !is_common(s, at, len))
            n += (size_t)snprintf(out + n, NAME - n, "%s%.*s %.*s", n ? ", " : "", (int)key, at,
                                  (int)(len - key - (key < len)), at + key + (key < len));
    }
}

static enum lw_status block_points(const struct plot_search *s, const struct axes *a,
                                   struct plot_labels *l, struct lw_err *err)
{
    for (int64_t i = 0; i < s->n; i++)
        if (is_drawn(&s->v[i])) {
            double x = across(a, &s->v[i]), y = up(a, &s->v[i]);
            LW_TRY(plot_labels_block(l, (struct plot_box){x - 0.006, x + 0.006, y - 0.01, y + 0.01},
                                     err));
        }
    return LW_OK;
}

static enum lw_status put_name(const struct plot_search *s, const struct axes *a, int64_t place,
                               int width, struct plot_labels *l, FILE *f, struct lw_err *err)
{
    const struct lw_searched *v = of_front(s, place);
    double x = across(a, v), y = up(a, v), at_x, at_y;
    char name[NAME], cut[NAME];
    bool right;

    name_of(s, v, name);
    plot_cut_parts(cut, sizeof cut, name, 44);
    LW_TRY(plot_labels_place(l, x, y, plot_text_px(cut, 9) / (width * 0.85), 0.035, &at_x, &at_y,
                             &right, err));
    fprintf(f, "set arrow %lld from graph %.4f,%.4f to graph %.4f,%.4f nohead linewidth 0.5 "
               "linecolor rgb '#808080'\nset label %lld ", (long long)place + 100, x, y, at_x,
            at_y, (long long)place + 100);
    plot_text(f, cut);
    fprintf(f, " at graph %.4f,%.4f %s font ',9' front\n", at_x, at_y, right ? "left" : "right");
    return LW_OK;
}

/* Of many a few, evenly, with both ends. */
static enum lw_status name_front(const struct lw_plot *p, const struct plot_search *s,
                                 const struct axes *a, FILE *f, struct lw_err *err)
{
    struct plot_labels l = {0};
    int64_t n = n_front(s), most = n < MOST_NAMED ? n : MOST_NAMED;
    enum lw_status st = p->terminal == LW_TERMINAL_DUMB ? LW_OK : block_points(s, a, &l, err);

    for (int64_t k = 0; st == LW_OK && p->terminal != LW_TERMINAL_DUMB && k < most; k++)
        st = put_name(s, a, most > 1 ? 1 + k * (n - 1) / (most - 1) : 1, plot_width(p, WIDTH), &l,
                      f, err);
    plot_labels_free(&l);
    return st;
}

static enum lw_status draw_points(const struct lw_plot *p, struct plot_search *s, FILE *f,
                                  struct lw_err *err)
{
    struct axes a = {0};
    char title[320];

    LW_TRY(axes_of(p, s, &a, err));
    plot_search_title(s, "Strategies", title, sizeof title);
    plot_begin(p, f, WIDTH, HEIGHT, title, NULL, 0);
    fprintf(f, "set xlabel '%s [%s]'\nset ylabel 'memory of a device [GiB]'\n"
               "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n%s", plot_search_ranked(s),
            a.unit.name,
            a.left / a.unit.ps, a.right / a.unit.ps, a.bottom, a.top,
            a.log ? "set logscale x 10\n" : "");
    put_points(s, &a, "others", is_plain, f);
    put_points(s, &a, "best", is_best, f);
    int64_t n_unfit = put_points(s, &a, "unfit", is_unfit, f);
    put_front(s, &a, f);
    LW_TRY(name_front(p, s, &a, f, err));
    fputs("set key top right horizontal samplen 2\n", f);
    fprintf(f, "plot $others using 1:2 with points pointtype 7 pointsize 0.7 linecolor rgb "
               "'#%06x' title 'simulated', \\\n"
               "  $line using 1:2 with fsteps linewidth 1.5 linecolor rgb '#%06x' notitle, \\\n"
               "  $best using 1:2 with points pointtype 5 pointsize 1 linecolor rgb '#%06x' "
               "title 'the best %lld', \\\n"
               "  $front using 1:2 with points pointtype 6 pointsize 1.8 linewidth 2 linecolor rgb "
               "'#%06x' title 'Pareto set'",
            PLOT_FORWARD, PLOT_COMM_ODD, PLOT_BACKWARD, (long long)s->search->n_best,
            PLOT_COMM_ODD);
    if (n_unfit > 0)
        fputs(", \\\n  $unfit using 1:2 with points pointtype 2 pointsize 1.2 linecolor rgb "
              "'#000000' title 'does not fit'", f);
    fputs("\n", f);
    return LW_OK;
}

/* --- which picture --- */

static enum lw_status draw_tune(struct lw_store *store, const struct lw_plot *p, FILE *f,
                                struct lw_err *err)
{
    struct plot_search s = {.search = p->search};
    enum lw_status st = lw_store_searched(store, p->search->id, &s.arena, &s.v, &s.n, err);

    if (st == LW_OK)
        st = p->y   ? plot_search_heat(p, &s, f, err)
             : p->x ? plot_search_line(p, &s, f, err)
                    : draw_points(p, &s, f, err);
    lw_arena_free(&s.arena);
    return st;
}

const struct plot_kind plot_kind_tune = {
    .name = "tune",
    .about = "strategies of a search: step over memory; --x: tokens/s over an option; --x --y: "
             "best step of each pair",
    .needs = "a search of `lapwing tune`",
    .script = draw_tune,
    .source = LW_PLOT_FROM_SEARCH,
};
