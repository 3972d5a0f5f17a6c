/* Errors and orders of predictions against measurements.
 *
 * The error of a case is (predicted - measured) / measured. Two cases of a series are a pair when
 * their measured values differ by more than the series' margin, relative to the smaller one; the
 * pair is right when the predicted values differ the same way (equal predictions are wrong).
 *
 * A case without a measurement is shown, counted as a miss, and enters no figure.
 *
 * The reason of a miss is derived from the numbers: where the error is, whether most errors have
 * one sign, what is known about the measurement. It does not prove a cause. */
#include "analysis/validate/validate.h"

#include <math.h>
#include <string.h>

static const char *copy(struct lw_validation *v, const char *text)
{
    return lw_arena_strdup(&v->arena, text ? text : "");
}

/* items[n++] = item, in the arena. */
#define APPEND(v, items, n, item, err)                                                             \
    do {                                                                                           \
        void *room = lw_arena_more(&(v)->arena, (v)->items, (v)->n, sizeof *(v)->items);           \
        if (!room)                                                                                 \
            return lw_fail_nomem(err);                                                             \
        (v)->items = room;                                                                         \
        (v)->items[(v)->n++] = (item);                                                             \
    } while (0)

bool lw_validation_goes_on(const struct lw_validation *v, const char *file, int32_t i, int32_t n)
{
    double done = v->n_done + (n > 0 ? (double)i / n : 0);

    lw_progress_report(v->progress, file, v->n_files > 0 ? done / v->n_files : 0);
    return !lw_progress_stopped(v->progress);
}

enum lw_status lw_validation_family(struct lw_validation *v, const char *name, struct lw_bars bars,
                                    bool overall, int32_t *out, struct lw_err *err)
{
    for (int32_t i = 0; i < v->n_families; i++) {
        if (strcmp(v->families[i].name, name) == 0) {
            *out = i;
            return LW_OK;
        }
    }
    struct lw_family f = {.name = copy(v, name), .bars = bars, .overall = overall, .worst = -1};
    if (!f.name)
        return lw_fail_nomem(err);
    *out = v->n_families;
    APPEND(v, families, n_families, f, err);
    return LW_OK;
}

enum lw_status lw_validation_series(struct lw_validation *v, int32_t family, const char *name,
                                    double margin_pct, int32_t *out, struct lw_err *err)
{
    struct lw_series s = {.name = copy(v, name), .family = family, .margin_pct = margin_pct};

    if (!s.name)
        return lw_fail_nomem(err);
    *out = v->n_series;
    APPEND(v, series, n_series, s, err);
    return LW_OK;
}

enum lw_status lw_validation_sweep(struct lw_validation *v, int32_t family, const char *name,
                                   int32_t *out, struct lw_err *err)
{
    for (int32_t i = 0; i < v->n_series; i++) {
        if (v->series[i].family == family && strcmp(v->series[i].name, name) == 0) {
            *out = i;
            return LW_OK;
        }
    }
    LW_TRY(lw_validation_series(v, family, name, 0, out, err));
    v->series[*out].sweep = true;
    return LW_OK;
}

enum lw_status lw_validation_skip(struct lw_validation *v, int32_t family, const char *id,
                                  const char *reason, struct lw_err *err)
{
    struct lw_skip s = {family, copy(v, id), copy(v, reason)};

    if (!s.id || !s.reason)
        return lw_fail_nomem(err);
    APPEND(v, skips, n_skips, s, err);
    v->families[family].n_skipped++;
    return LW_OK;
}

enum lw_status lw_validation_refuse(struct lw_validation *v, const struct lw_refusal *given,
                                    struct lw_err *err)
{
    struct lw_refusal r = {copy(v, given->file), copy(v, given->column), copy(v, given->text),
                           given->line};

    if (!r.file || !r.column || !r.text)
        return lw_fail_nomem(err);
    APPEND(v, refusals, n_refusals, r, err);
    return LW_OK;
}

enum lw_status lw_validation_case(struct lw_validation *v, const struct lw_case *given,
                                  struct lw_err *err)
{
    struct lw_case c = *given;

    if (!(c.predicted > 0) && !c.refused)
        return lw_fail(err, LW_EFORMAT, "case %s: predicted %g %s: it must be above 0", c.id,
                       c.predicted, c.unit);
    for (int32_t i = 0; i < v->n_cases; i++)
        if (v->cases[i].family == c.family && strcmp(v->cases[i].id, c.id) == 0)
            return lw_fail(err, LW_EFORMAT, "case %s is given twice: give each file once", c.id);
    c.id = copy(v, c.id);
    c.unit = copy(v, c.unit);
    c.remark = copy(v, c.remark);
    c.command = copy(v, c.command);
    c.memory_kind = copy(v, c.memory_kind);
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        c.key.part[k] = copy(v, c.key.part[k]);
        if (!c.key.part[k])
            return lw_fail_nomem(err);
    }
    c.measured = c.measured > 0 ? c.measured : 0;
    c.error_pct = c.measured > 0 ? 100 * (c.predicted - c.measured) / c.measured : 0;
    if (!c.id || !c.unit || !c.remark || !c.command || !c.memory_kind)
        return lw_fail_nomem(err);
    APPEND(v, cases, n_cases, c, err);
    return LW_OK;
}

enum lw_status lw_validation_fit(struct lw_validation *v, const struct lw_fit *given,
                                 struct lw_err *err)
{
    struct lw_fit f = *given;

    for (int32_t i = 0; i < v->n_fits; i++)
        if (v->fits[i].family == f.family && strcmp(v->fits[i].name, f.name) == 0)
            return LW_OK;
    f.name = copy(v, f.name);
    f.unit = copy(v, f.unit);
    f.fitted_on = copy(v, f.fitted_on);
    if (!f.name || !f.unit || !f.fitted_on)
        return lw_fail_nomem(err);
    APPEND(v, fits, n_fits, f, err);
    v->families[f.family].n_fitted++;
    if (f.n_rows > v->families[f.family].fit_rows)
        v->families[f.family].fit_rows = f.n_rows;
    return LW_OK;
}

enum lw_status lw_validation_note(struct lw_validation *v, int32_t family, const char *about,
                                  const char *text, struct lw_err *err)
{
    for (int32_t i = 0; i < v->n_notes; i++)
        if (v->notes[i].family == family && strcmp(v->notes[i].about, about) == 0)
            return LW_OK;
    struct lw_note n = {family, copy(v, about), copy(v, text)};
    if (!n.about || !n.text)
        return lw_fail_nomem(err);
    APPEND(v, notes, n_notes, n, err);
    return LW_OK;
}

/* --- figures --- */

static void add_error(double error, int32_t *n, double *mean_abs, double *max_abs, double *bias)
{
    double a = fabs(error);

    *mean_abs = (*mean_abs * *n + a) / (*n + 1);
    *bias = (*bias * *n + error) / (*n + 1);
    *max_abs = a > *max_abs ? a : *max_abs;
    ++*n;
}

static bool beyond(const struct lw_case *c)
{
    return c->allowed > 0 && c->measured > 0 && !(fabs(c->predicted - c->measured) <= c->allowed);
}

static void add_errors(struct lw_validation *v)
{
    int32_t n = 0;
    double unused = 0;

    v->mean_abs_pct = v->max_abs_pct = 0;
    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        struct lw_family *f = &v->families[c->family];
        struct lw_series *s = c->series >= 0 ? &v->series[c->series] : NULL;
        if (c->measured == 0) {
            f->n_unmeasured += !f->runs;
            continue;
        }
        f->n_asked += c->allowed > 0;
        f->n_beyond += beyond(c);
        if (f->worst < 0 || fabs(c->error_pct) > fabs(v->cases[f->worst].error_pct))
            f->worst = i;
        add_error(c->error_pct, &f->n, &f->mean_abs_pct, &f->max_abs_pct, &f->bias_pct);
        if (s)
            add_error(c->error_pct, &s->n, &s->mean_abs_pct, &s->max_abs_pct, &s->bias_pct);
        if (f->overall)
            add_error(c->error_pct, &n, &v->mean_abs_pct, &v->max_abs_pct, &unused);
    }
    if (n == 0)
        v->mean_abs_pct = v->max_abs_pct = -1;
}

/* 1: right, 0: wrong, -1: too near to have an order. */
static int pair_is_right(const struct lw_case *a, const struct lw_case *b, double margin_pct)
{
    if (a->measured == 0 || b->measured == 0)
        return -1;
    double gap = a->measured - b->measured;
    double smaller = a->measured < b->measured ? a->measured : b->measured;

    if (!(100 * fabs(gap) > margin_pct * smaller))
        return -1;
    return gap > 0 ? a->predicted > b->predicted : a->predicted < b->predicted;
}

/* The k-th wrong pair of a family (from 0), or false. Pairs go by the numbers of their cases. */
static bool wrong_pair(const struct lw_validation *v, int32_t family, int64_t k,
                       const struct lw_case **a, const struct lw_case **b)
{
    for (int32_t i = 0; i < v->n_cases; i++) {
        for (int32_t j = i + 1; j < v->n_cases; j++) {
            *a = &v->cases[i];
            *b = &v->cases[j];
            if ((*a)->family != family || (*a)->series < 0 || (*a)->series != (*b)->series)
                continue;
            if (pair_is_right(*a, *b, v->series[(*a)->series].margin_pct) == 0 && k-- == 0)
                return true;
        }
    }
    return false;
}

static void add_pairs(struct lw_validation *v)
{
    for (int32_t i = 0; i < v->n_cases; i++) {
        for (int32_t j = i + 1; j < v->n_cases; j++) {
            const struct lw_case *a = &v->cases[i], *b = &v->cases[j];
            if (a->series < 0 || a->series != b->series)
                continue;
            struct lw_series *s = &v->series[a->series];
            if (s->sweep)
                break;
            int right = pair_is_right(a, b, s->margin_pct);
            if (right < 0)
                continue;
            s->n_pairs++;
            s->n_right += right;
        }
    }
    for (int32_t i = 0; i < v->n_series; i++) {
        struct lw_family *f = &v->families[v->series[i].family];
        f->n_pairs += v->series[i].n_pairs;
        f->n_right += v->series[i].n_right;
        if (f->overall) {
            v->n_pairs += v->series[i].n_pairs;
            v->n_right += v->series[i].n_right;
        }
    }
}

/* --- misses --- */

enum lw_status lw_validation_miss(struct lw_validation *v, int32_t family, const char *bar,
                                  double value, double allowed, const char *reason,
                                  struct lw_err *err)
{
    struct lw_miss m = {family, bar, value, allowed, copy(v, reason)};

    if (!m.reason)
        return lw_fail_nomem(err);
    APPEND(v, misses, n_misses, m, err);
    return LW_OK;
}

static const char *side(double bias, double mean_abs)
{
    if (fabs(bias) < 0.8 * mean_abs)
        return "on both sides";
    return bias > 0 ? "nearly all too slow: the model charges too much"
                    : "nearly all too fast: the model leaves something out";
}

static enum lw_status miss_mean(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    const struct lw_family *f = &v->families[k];
    const struct lw_series *most = NULL;
    char text[320];

    for (int32_t i = 0; i < v->n_series; i++)
        if (v->series[i].family == k && (!most || v->series[i].mean_abs_pct > most->mean_abs_pct))
            most = &v->series[i];
    if (most)
        snprintf(text, sizeof text, "errors are %s; most of it in %s (mean %.1f %%, %s)",
                 side(f->bias_pct, f->mean_abs_pct), most->name, most->mean_abs_pct,
                 side(most->bias_pct, most->mean_abs_pct));
    else
        snprintf(text, sizeof text, "errors are %s", side(f->bias_pct, f->mean_abs_pct));
    return lw_validation_miss(v, k, "mean", f->mean_abs_pct, f->bars.mean_pct, text, err);
}

/* Their names are equal before the comma. */
static bool same_table(const struct lw_series *a, const struct lw_series *b)
{
    size_t n = strcspn(a->name, ",");

    return strncmp(a->name, b->name, n) == 0 && b->name[n] == ',';
}

/* Mean error and rows of the series of a family that are of s's table. */
static double table_mean(const struct lw_validation *v, int32_t family, const struct lw_series *s,
                         int32_t *n)
{
    double sum = 0;

    *n = 0;
    for (int32_t j = 0; j < v->n_series; j++) {
        const struct lw_series *x = &v->series[j];
        if (x->family != family || !same_table(s, x))
            continue;
        *n += x->n;
        sum += x->n * x->mean_abs_pct;
    }
    return *n > 0 ? sum / *n : 0;
}

static bool is_first_of_table(const struct lw_validation *v, int32_t i)
{
    for (int32_t j = 0; j < i; j++)
        if (v->series[j].family == v->series[i].family &&
            same_table(&v->series[i], &v->series[j]))
            return false;
    return true;
}

/* Each table of a family: within its bar where there are several, no worse than in the family that
 * it is held against. */
static enum lw_status miss_tables(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    const struct lw_family *f = &v->families[k];
    char text[320];
    int32_t n, n_base;

    for (int32_t i = 0; i < v->n_series; i++) {
        const struct lw_series *s = &v->series[i];
        if (s->family != k || !is_first_of_table(v, i))
            continue;
        double mean = table_mean(v, k, s, &n);
        double base = f->has_base ? table_mean(v, f->base, s, &n_base) : mean;
        snprintf(text, sizeof text, "%.*s alone, rows: %d", (int)strcspn(s->name, ","), s->name,
                 n);
        if (n > 0 && n < f->n && mean > f->table_bar_pct)
            LW_TRY(lw_validation_miss(v, k, "table", mean, f->table_bar_pct, text, err));
        if (n > 0 && mean > base) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "; allowed is the error of %s",
                     v->families[f->base].name);
            LW_TRY(lw_validation_miss(v, k, f->base_bar, mean, round(base * 100) / 100, text, err));
        }
    }
    return LW_OK;
}

static enum lw_status miss_worst(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    const struct lw_family *f = &v->families[k];
    const struct lw_case *c = &v->cases[f->worst];
    const struct lw_series *s = c->series >= 0 ? &v->series[c->series] : NULL;
    char text[512];

    snprintf(text, sizeof text, "%s is %.1f %% off%s%s", c->id, c->error_pct,
             *c->remark ? ": " : "", c->remark);
    if (!*c->remark && s)
        snprintf(text, sizeof text,
                 "%s is %.1f %% off; nothing known about its measurement explains it; the %d cases "
                 "of %s are off by %.1f %% in the mean, %s", c->id, c->error_pct, s->n, s->name,
                 s->mean_abs_pct, side(s->bias_pct, s->mean_abs_pct));
    return lw_validation_miss(v, k, "worst", f->max_abs_pct, f->bars.worst_pct, text, err);
}

static enum lw_status miss_order(struct lw_validation *v, int32_t k, double right_pct,
                                 struct lw_err *err)
{
    const struct lw_family *f = &v->families[k];
    const struct lw_case *a, *b;
    char text[512] = "wrong pairs:";

    for (int64_t i = 0; i < 4 && wrong_pair(v, k, i, &a, &b); i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s %s (%+.1f %%) and %s (%+.1f %%)",
                 i ? "," : "", a->id, a->error_pct, b->id, b->error_pct);
    }
    return lw_validation_miss(v, k, "order", right_pct, f->bars.order_pct, text, err);
}

static enum lw_status miss_measured(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    const struct lw_family *f = &v->families[k];
    char text[320];
    int32_t i = 0;

    while (v->cases[i].family != k || v->cases[i].measured > 0)
        i++;
    snprintf(text, sizeof text, "%d of %d cases have no measured value, %s is the first",
             f->n_unmeasured, f->n + f->n_unmeasured, v->cases[i].id);
    return lw_validation_miss(v, k, "measured", 100.0 * f->n / (f->n + f->n_unmeasured), 100, text,
                              err);
}

static enum lw_status miss_digits(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    const struct lw_family *f = &v->families[k];
    char text[512];
    int32_t i = 0;

    while (v->cases[i].family != k || !beyond(&v->cases[i]))
        i++;
    const struct lw_case *c = &v->cases[i];
    snprintf(text, sizeof text,
             "%d of %d cases differ by more than their printed digits allow; %s: %.6g %s, printed "
             "%.6g%s%s", f->n_beyond, f->n_asked, c->id, c->predicted, c->unit, c->measured,
             *c->remark ? ": " : "", c->remark);
    return lw_validation_miss(v, k, "digits", 100.0 * (f->n_asked - f->n_beyond) / f->n_asked, 100,
                              text, err);
}

enum lw_status lw_validation_judge(struct lw_validation *v, struct lw_err *err)
{
    add_errors(v);
    add_pairs(v);
    for (int32_t k = 0; k < v->n_families; k++) {
        const struct lw_family *f = &v->families[k];
        double right = f->n_pairs > 0 ? 100.0 * (double)f->n_right / (double)f->n_pairs : 100;
        if (f->n_unmeasured > 0)
            LW_TRY(miss_measured(v, k, err));
        if (f->n_beyond > 0)
            LW_TRY(miss_digits(v, k, err));
        if (f->bars.mean_pct > 0 && f->mean_abs_pct > f->bars.mean_pct)
            LW_TRY(miss_mean(v, k, err));
        if (f->table_bar_pct > 0)
            LW_TRY(miss_tables(v, k, err));
        if (f->bars.worst_pct > 0 && f->max_abs_pct > f->bars.worst_pct)
            LW_TRY(miss_worst(v, k, err));
        if (f->bars.order_pct > 0 && right < f->bars.order_pct)
            LW_TRY(miss_order(v, k, right, err));
    }
    return lw_validation_judge_runs(v, err);
}

LW_FREE_BY_ARENA(lw_validation_free, struct lw_validation)
