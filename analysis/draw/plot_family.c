/* One family of a validation (`lapwing validate --format json`): predicted over measured with
 * logarithmic axes, coloured by model, the worst cases named. The model of a case is its id up to
 * the first of "__", ":" or "/". */
#include <math.h>
#include <string.h>

#include "analysis/draw/plot_labels.h"
#include "analysis/draw/plot_style.h"
#include "shared/io/input.h"
#include "shared/json/json.h"

enum { MOST_MODELS = 8, MOST_NAMED = 5 };

struct point {
    const char *id;
    double predicted, measured; /* of one unit */
    int model;                  /* MOST_MODELS - 1: of those that have no colour of their own */
};

struct family {
    struct lw_arena arena;
    const char *name, *unit;
    struct point *v;
    int64_t n, capacity;
    const char *models[MOST_MODELS];
    int n_models;
};

static const int32_t colours[MOST_MODELS] = {PLOT_BACKWARD, PLOT_COMM_ODD, PLOT_MEASURED,
                                             PLOT_OPTIMIZER, PLOT_COMM_EVEN, PLOT_FORWARD, 0x7B5EA7,
                                             PLOT_OTHER};

static int model_of(struct family *x, const char *id)
{
    char name[64];
    const char *two = strstr(id, "__");
    size_t n = strcspn(id, ":/");
    int k = 0;

    n = two && (size_t)(two - id) < n ? (size_t)(two - id) : n;
    snprintf(name, sizeof name, "%.*s", (int)n, id);
    while (k < x->n_models && strcmp(x->models[k], name) != 0)
        k++;
    if (k == x->n_models && k < MOST_MODELS)
        x->models[x->n_models++] = lw_arena_strdup(&x->arena,
                                                   k < MOST_MODELS - 1 ? name : "others");
    return k < MOST_MODELS ? k : MOST_MODELS - 1;
}

/* One case; the first decides which family when none was requested. */
static enum lw_status read_case(struct lw_json *j, const char *wanted, struct family *x,
                                struct lw_err *err)
{
    char id[256] = "", name[128] = "";
    double predicted = 0, measured = 0;
    bool ns = false;

    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "id"))
            snprintf(id, sizeof id, "%s", lw_json_string(j, NULL));
        else if (lw_json_key_is(j, "family"))
            snprintf(name, sizeof name, "%s", lw_json_string(j, NULL));
        else if (lw_json_key_is(j, "predicted_ns") || lw_json_key_is(j, "predicted"))
            predicted = lw_json_double(j);
        else if (lw_json_key_is(j, "measured_ns")) {
            measured = lw_json_double(j);
            ns = true;
        } else if (lw_json_key_is(j, "measured"))
            measured = lw_json_double(j);
        else if (lw_json_key_is(j, "unit") && !x->unit)
            x->unit = lw_arena_strdup(&x->arena, lw_json_string(j, NULL));
    }
    if (!wanted && !x->name)
        x->name = lw_arena_strdup(&x->arena, name);
    if (strcmp(name, wanted ? wanted : x->name) != 0 || predicted <= 0 || measured <= 0)
        return LW_OK;
    LW_ROOM(x->v, x->capacity, x->n + 1, err);
    double unit = ns ? 1e6 : 1; /* milliseconds */
    x->unit = ns ? "ms" : x->unit;
    x->v[x->n++] = (struct point){lw_arena_strdup(&x->arena, id), predicted / unit,
                                  measured / unit, model_of(x, id)};
    return LW_OK;
}

static enum lw_status read_cases(struct lw_json *j, const char *wanted, struct family *x,
                                 struct lw_err *err)
{
    enum lw_status st = LW_OK;

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return lw_json_done(j, err);
    while (lw_json_next(j))
        if (lw_json_key_is(j, "cases") && lw_json_enter(j, LW_JSON_ARRAY))
            while (lw_json_next(j))
                if (st == LW_OK && lw_json_enter(j, LW_JSON_OBJECT))
                    st = read_case(j, wanted, x, err);
    return st == LW_OK ? lw_json_done(j, err) : st;
}

static enum lw_status read_family(const struct lw_plot *p, struct family *x, struct lw_err *err)
{
    struct lw_input in;
    struct lw_json *j;

    LW_TRY(lw_input_read(p->validation, 0, &in, err));
    enum lw_status st = lw_json_open(p->validation, in.text, in.len, &j, err);
    if (st == LW_OK) {
        st = read_cases(j, p->family, x, err);
        lw_json_close(j);
    }
    lw_input_free(&in);
    if (st == LW_OK && x->n == 0)
        st = lw_fail_at(err, LW_EINVAL, p->validation, 0,
                        "no case of family '%s' with a prediction and a measurement; write the "
                        "file with 'lapwing validate FILE... --format json'",
                        p->family ? p->family : x->name ? x->name : "");
    x->name = p->family ? p->family : x->name;
    return st;
}

static double error_of(const struct point *v)
{
    return v->predicted / v->measured - 1;
}

/* Points whose error is larger; of equal ones the earlier first. */
static int n_worse(const struct family *x, int64_t i)
{
    double mine = fabs(error_of(&x->v[i]));
    int worse = 0;

    for (int64_t k = 0; k < x->n; k++) {
        double e = fabs(error_of(&x->v[k]));
        worse += e > mine || (e == mine && k < i);
    }
    return worse;
}

struct axes {
    double low, high; /* of both, in decades */
};

static double place(const struct axes *a, double v)
{
    return (log10(v) - a->low) / (a->high - a->low);
}

static enum lw_status name_worst(const struct family *x, const struct axes *a, int width, FILE *f,
                                 struct lw_err *err)
{
    struct plot_labels l = {0};
    char text[96], cut[64];
    enum lw_status st = plot_labels_block(&l, (struct plot_box){0, 0.4, 1 - 0.035 * x->n_models, 1},
                                          err); /* key */

    for (int64_t i = 0; i < x->n && st == LW_OK; i++) {
        double px = place(a, x->v[i].measured), py = place(a, x->v[i].predicted);
        struct plot_box mark = {px - 0.008, px + 0.008, py - 0.008, py + 0.008};
        st = plot_labels_block(&l, mark, err);
    }
    for (int64_t i = 0; i < x->n && st == LW_OK; i++) {
        double px = place(a, x->v[i].measured), py = place(a, x->v[i].predicted), at_x, at_y;
        bool right;
        if (n_worse(x, i) >= MOST_NAMED)
            continue;
        snprintf(text, sizeof text, "%s, %+.1f %%", plot_cut(cut, sizeof cut, x->v[i].id, 40),
                 100 * error_of(&x->v[i]));
        st = plot_labels_place(&l, px, py, plot_text_px(text, 9) / (width * 0.8), 0.028, &at_x,
                               &at_y, &right, err);
        fputs("set label ", f);
        plot_text(f, text);
        fprintf(f, " at graph %.4f,%.4f %s front font ',9'\n", at_x, at_y,
                right ? "left" : "right");
        fprintf(f, "set arrow from graph %.4f,%.4f to graph %.4f,%.4f nohead front linewidth 0.6 "
                   "linecolor rgb '#808080'\n", px, py, at_x, at_y);
    }
    plot_labels_free(&l);
    return st;
}

static void put_points(const struct family *x, FILE *f)
{
    for (int m = 0; m < x->n_models; m++) {
        fprintf(f, "$model%d << EOD\n", m);
        for (int64_t i = 0; i < x->n; i++)
            if (x->v[i].model == m)
                fprintf(f, "%.6g %.6g\n", x->v[i].measured, x->v[i].predicted);
        fputs("EOD\n", f);
    }
}

static struct axes axes_of(const struct family *x)
{
    struct axes a = {INFINITY, -INFINITY};

    for (int64_t i = 0; i < x->n; i++) {
        a.low = fmin(a.low, fmin(log10(x->v[i].measured), log10(x->v[i].predicted)));
        a.high = fmax(a.high, fmax(log10(x->v[i].measured), log10(x->v[i].predicted)));
    }
    double room = fmax(0.08 * (a.high - a.low), 0.03);
    a.low -= room;
    a.high += room;
    return a;
}

/* 1, 2 and 5 of each decade; of more than three decades the powers of ten. */
static void put_ticks(const struct axes *a, char axis, FILE *f)
{
    static const double steps[] = {1, 2, 5};
    int n = a->high - a->low > 3 ? 1 : 3;
    bool first = true;
    char label[32];

    fprintf(f, "set %ctics (", axis);
    for (int d = (int)floor(a->low); d <= a->high; d++)
        for (int k = 0; k < n; k++) {
            double v = steps[k] * pow(10, d);
            if (log10(v) < a->low || log10(v) > a->high)
                continue;
            snprintf(label, sizeof label, "%.6g", v);
            plot_tic(f, first, label, v);
            first = false;
        }
    fputs(")\n", f);
}

static void put_axes(const struct family *x, const struct axes *a, FILE *f)
{
    fprintf(f, "set logscale xy 10\nset xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n",
            pow(10, a->low), pow(10, a->high), pow(10, a->low), pow(10, a->high));
    fputs("set xlabel ", f);
    plot_text(f, "measured");
    fputs(" . ' [' . ", f);
    plot_text(f, x->unit ? x->unit : "");
    fputs(" . ']'\nset ylabel 'predicted [' . ", f);
    plot_text(f, x->unit ? x->unit : "");
    fputs(" . ']'\nset size ratio 1\n", f);
    put_ticks(a, 'x', f);
    put_ticks(a, 'y', f);
}

enum lw_status plot_family(const struct lw_plot *p, FILE *f, struct lw_err *err)
{
    struct family x = {.n = 0};
    char title[320];
    double sum = 0, most = 0;

    enum lw_status st = read_family(p, &x, err);
    if (st == LW_OK) {
        for (int64_t i = 0; i < x.n; i++) {
            sum += fabs(error_of(&x.v[i]));
            most = fmax(most, fabs(error_of(&x.v[i])));
        }
        snprintf(title, sizeof title, "%s: %lld cases, error %.1f %% in the mean, %.1f %% at most",
                 x.name, (long long)x.n, 100 * sum / (double)x.n, 100 * most);
        struct axes a = axes_of(&x);
        plot_begin(p, f, 900, plot_width(p, 900), title, NULL, 0);
        put_axes(&x, &a, f);
        put_points(&x, f);
        st = name_worst(&x, &a, plot_width(p, 900), f, err);
        fputs("set key top left Left reverse samplen 1\n"
              "plot x with lines linecolor rgb '#404040' linewidth 1.5 title 'equal'", f);
        for (int m = 0; m < x.n_models; m++) {
            fprintf(f, ", \\\n  $model%d using 1:2 with points pointtype %d pointsize 1.1 "
                       "linecolor rgb '#%06x' title ", m, 4 + m, (unsigned)colours[m]);
            plot_text(f, x.models[m]);
        }
        fputs("\n", f);
    }
    lw_free(x.v);
    lw_arena_free(&x.arena);
    return st;
}
