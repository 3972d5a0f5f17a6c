/* Figures of measured runs beyond the error of their step: memory, whether a run fits its device,
 * and the order of the runs of a sweep.
 *
 * A run fits when what its fullest rank needs is within the device's memory. Order is Spearman's
 * rank correlation of predicted and measured steps; equal values share the mean of their ranks.
 *
 * A choice is judged by times per token, so that runs of larger batches are no other choices:
 * pairs of runs that differ by LW_APART_PCT or more, the right ones less the wrong ones over all
 * (Kendall, Biometrika 30, 1938, of these pairs); and the regret, what the run that is predicted
 * fastest takes beyond the fastest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/validate/validate.h"
#include "shared/numbers/rank_correlation.h"

enum { LEAST_RANKED = 4 };

int lw_case_fits(const struct lw_case *c)
{
    if (c->refused)
        return 0;
    return c->needed_bytes > 0 && c->capacity_bytes > 0 ? c->needed_bytes <= c->capacity_bytes : -1;
}

static void judge_memory(struct lw_validation *v)
{
    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        struct lw_family *f = &v->families[c->family];
        if (!f->runs)
            continue;
        if (lw_case_fits(c) >= 0) {
            struct lw_fits *fits = c->failed ? &f->failed : &f->ran;
            fits->n++;
            fits->n_right += (lw_case_fits(c) == 0) == c->failed;
        }
        if (c->predicted_bytes <= 0 || c->measured_bytes <= 0)
            continue;
        double error = 100 * (c->predicted_bytes / c->measured_bytes - 1);
        f->memory_mean_pct = (f->memory_mean_pct * f->n_memory + fabs(error)) / (f->n_memory + 1);
        f->memory_bias_pct = (f->memory_bias_pct * f->n_memory + error) / (f->n_memory + 1);
        f->n_memory++;
    }
}

/* --- ranks ------------------------------------------------------------------------------------ */

/* Time per token where a run's tokens are known, else its step. */
static double per_token(const struct lw_case *c, double step)
{
    double tokens = c->tokens_per_s_device * c->predicted;

    return tokens > 0 ? step / tokens : step;
}

static bool ranks(const struct lw_case *c, int32_t k)
{
    return c->series == k && c->measured > 0;
}

static void count_pair(struct lw_series *s, const struct lw_case *a, const struct lw_case *b,
                       int64_t *right)
{
    double measured = per_token(a, a->measured) / per_token(b, b->measured);
    double predicted = per_token(a, a->predicted) / per_token(b, b->predicted);

    if (measured * 100 < 100 + LW_APART_PCT && measured * (100 + LW_APART_PCT) > 100)
        return;
    s->n_apart++;
    *right += predicted == 1 ? 0 : (predicted > 1) == (measured > 1) ? 1 : -1;
}

static void judge_choice(struct lw_validation *v, int32_t k)
{
    const struct lw_case *chosen = NULL;
    struct lw_series *s = &v->series[k];
    double fastest = INFINITY;
    int64_t right = 0;

    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        if (!ranks(c, k))
            continue;
        if (!chosen || per_token(c, c->predicted) < per_token(chosen, chosen->predicted))
            chosen = c;
        fastest = fmin(fastest, per_token(c, c->measured));
        for (int32_t j = 0; j < i; j++)
            if (ranks(&v->cases[j], k))
                count_pair(s, c, &v->cases[j], &right);
    }
    s->order = s->n_apart > 0 ? (double)right / (double)s->n_apart : (double)NAN;
    s->regret_pct = chosen ? 100 * (per_token(chosen, chosen->measured) / fastest - 1) : 0;
}

static enum lw_status judge_sweep(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    double *predicted = lw_calloc((size_t)v->n_cases + 1, 2 * sizeof *predicted);
    double *measured = predicted + v->n_cases;
    int32_t n = 0;

    if (!predicted)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        if (c->series != k || c->measured <= 0)
            continue;
        predicted[n] = c->predicted;
        measured[n++] = c->measured;
    }
    v->series[k].rank =
        n < LEAST_RANKED ? (double)NAN : lw_rank_correlation(predicted, measured, n);
    v->series[k].order = v->series[k].regret_pct = (double)NAN;
    if (n >= LEAST_RANKED)
        judge_choice(v, k);
    lw_free(predicted);
    return LW_OK;
}

/* --- bars ------------------------------------------------------------------------------------- */

static enum lw_status miss_ranks(struct lw_validation *v, int32_t k, struct lw_err *err)
{
    const struct lw_series *worst = NULL;
    int32_t n = 0, low = 0;
    char text[256];

    for (int32_t i = 0; i < v->n_series; i++) {
        const struct lw_series *s = &v->series[i];
        if (s->family != k || !s->sweep || isnan(s->rank))
            continue;
        n++;
        low += s->rank < v->families[k].rank_bar;
        if (!worst || s->rank < worst->rank)
            worst = s;
    }
    if (low == 0)
        return LW_OK;
    snprintf(text, sizeof text, "%d of %d sweeps are below %.2f; %.80s has %.3f", low, n,
             v->families[k].rank_bar, worst->name, worst->rank);
    return lw_validation_miss(v, k, "rank", 100 * worst->rank, 100 * v->families[k].rank_bar, text,
                              err);
}

enum lw_status lw_validation_judge_runs(struct lw_validation *v, struct lw_err *err)
{
    judge_memory(v);
    for (int32_t i = 0; i < v->n_series; i++)
        if (v->series[i].sweep)
            LW_TRY(judge_sweep(v, i, err));
    for (int32_t k = 0; k < v->n_families; k++) {
        const struct lw_family *f = &v->families[k];
        if (f->memory_bar_pct > 0 && f->memory_mean_pct > f->memory_bar_pct)
            LW_TRY(lw_validation_miss(v, k, "memory", f->memory_mean_pct, f->memory_bar_pct,
                                      f->memory_bias_pct > 0 ? "the model counts too much"
                                                             : "the model leaves something out",
                                      err));
        if (f->rank_bar > 0)
            LW_TRY(miss_ranks(v, k, err));
    }
    return LW_OK;
}
