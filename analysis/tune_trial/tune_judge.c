/* Rank correlation and regret of measured strategies. A difference of two steps counts only where
 * it is at least twice what repeats of one strategy differ by: below that another series of
 * measurements may well order them the other way. */
#include "analysis/tune_trial/tune_judge.h"

#include <math.h>
#include <stdbool.h>

#include "shared/base/sort.h"
#include "shared/numbers/median.h"
#include "shared/numbers/order.h"
#include "shared/numbers/rank_correlation.h"

enum { MOST = 64 };

static lw_ps median_of(const lw_ps *repeat, int n)
{
    int64_t v[LW_TUNE_REPEATS];

    for (int i = 0; i < n; i++)
        v[i] = repeat[i];
    return lw_median(v, n);
}

static bool all_known(const lw_ps *repeat, int n)
{
    for (int i = 0; i < n; i++)
        if (repeat[i] <= 0)
            return false;
    return true;
}

/* Sum of squared relative deviations from the mean. */
static double deviations(const lw_ps *repeat, int n)
{
    double mean = 0, sum = 0;

    for (int i = 0; i < n; i++)
        mean += (double)repeat[i] / n;
    for (int i = 0; i < n; i++)
        sum += ((double)repeat[i] / mean - 1) * ((double)repeat[i] / mean - 1);
    return sum;
}

static double spread_of(const struct lw_tune_measured *v, int n, bool at_speed)
{
    double sum = 0;
    int free = 0;

    for (int i = 0; i < n; i++) {
        const lw_ps *repeat = at_speed ? v[i].at_speed : v[i].repeat;
        if (v[i].n_repeats < 2)
            continue;
        if (at_speed && !all_known(repeat, v[i].n_repeats))
            return NAN;
        sum += deviations(repeat, v[i].n_repeats);
        free += v[i].n_repeats - 1;
    }
    return free > 0 ? 100 * sqrt(sum / free) : (double)NAN;
}

/* NAN as allowed: nothing is known of repeats, and equal steps alone are tied. */
static bool tied(lw_ps a, lw_ps b, double allowed_pct)
{
    lw_ps low = a < b ? a : b, high = a < b ? b : a;

    return a == b || 100 * ((double)high / (double)low - 1) < allowed_pct;
}

struct place {
    lw_ps measured;
    int at;
};

LW_COMPARATOR(by_measured, struct place, a->measured, b->measured, a->at, b->at)

/* From the fastest on: a group ends before the first that is not tied with its fastest. */
static void put_ties(struct lw_tune_measured *v, int n, double allowed_pct)
{
    struct place p[MOST];
    int m = 0, tie = 0;
    lw_ps first = 0;

    for (int i = 0; i < n; i++)
        if (v[i].n_repeats > 0)
            p[m++] = (struct place){v[i].measured, i};
    lw_sort(p, m, by_measured);
    for (int i = 0; i < m; i++) {
        if (i == 0 || !tied(p[i].measured, first, allowed_pct)) {
            first = p[i].measured;
            tie++;
        }
        v[p[i].at].tie = tie;
    }
}

static void count_pairs(const struct lw_tune_measured *v, int n, struct lw_tune_verdict *out)
{
    int64_t right = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            if (v[i].n_repeats == 0 || v[k].n_repeats == 0)
                continue;
            out->n_pairs++;
            if (tied(v[i].measured, v[k].measured, out->tied_pct))
                continue;
            out->n_apart++;
            int measured = v[i].measured > v[k].measured ? 1 : -1;
            right += measured * LW_ORDER(v[i].predicted, v[k].predicted);
        }
    out->pair_correlation =
        out->n_apart > 0 ? (double)right / (double)out->n_apart : (double)NAN;
}

static double correlation(const struct lw_tune_measured *v, int n)
{
    double predicted[MOST], measured[MOST];
    int m = 0;

    for (int i = 0; i < n; i++)
        if (v[i].n_repeats > 0) {
            predicted[m] = (double)v[i].predicted;
            measured[m++] = v[i].tie;
        }
    return lw_rank_correlation(predicted, measured, m);
}

/* Of equally good ones the first. */
static void choose(const struct lw_tune_measured *v, int n, struct lw_tune_verdict *out)
{
    for (int i = 0; i < n; i++) {
        if (v[i].n_repeats == 0)
            continue;
        if (out->chosen < 0 || v[i].predicted < v[out->chosen].predicted)
            out->chosen = i;
        if (out->fastest < 0 || v[i].measured < v[out->fastest].measured)
            out->fastest = i;
    }
    if (out->chosen < 0)
        return;
    lw_ps a = v[out->chosen].measured, b = v[out->fastest].measured;
    out->longer_pct = 100 * ((double)a / (double)b - 1);
    out->regret_pct = tied(a, b, out->tied_pct) ? 0 : out->longer_pct;
}

double lw_tune_machine_spread_pct(const struct lw_tune_verdict *v)
{
    double share = v->spread_at_speed_pct / v->spread_pct;

    return v->spread_pct > 0 ? 100 * (1 - share * share) : (double)NAN;
}

void lw_tune_judge(struct lw_tune_measured *v, int n, struct lw_tune_verdict *out)
{
    n = n < MOST ? n : MOST;
    *out = (struct lw_tune_verdict){.chosen = -1, .fastest = -1};
    for (int i = 0; i < n; i++) {
        v[i].tie = 0;
        if (v[i].n_repeats == 0)
            continue;
        out->n_measured++;
        v[i].measured = median_of(v[i].repeat, v[i].n_repeats);
        v[i].measured_at_speed = all_known(v[i].at_speed, v[i].n_repeats)
                                     ? median_of(v[i].at_speed, v[i].n_repeats)
                                     : -1;
        v[i].error_pct = 100 * ((double)v[i].predicted / (double)v[i].measured - 1);
    }
    out->spread_pct = spread_of(v, n, false);
    out->spread_at_speed_pct = spread_of(v, n, true);
    out->tied_pct = 2 * out->spread_pct;
    put_ties(v, n, out->tied_pct);
    count_pairs(v, n, out);
    out->rank_correlation = correlation(v, n);
    choose(v, n, out);
}
