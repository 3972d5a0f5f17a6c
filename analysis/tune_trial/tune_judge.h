#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/numbers/units.h"

/* How good a search was that was measured: strategies with a predicted step and several measured
 * ones each. See docs/design/tune.md. */

enum { LW_TUNE_REPEATS = 16 };

struct lw_tune_measured {
    lw_ps predicted;
    lw_ps repeat[LW_TUNE_REPEATS]; /* [n_repeats] measured steps, in the order of the runs */
    lw_ps at_speed[LW_TUNE_REPEATS]; /* the same with compute at the speed that is assumed in its
                                      * prediction; 0 = not known */
    int n_repeats;                 /* 0: it was not measured and counts for nothing */
    /* found by lw_tune_judge: */
    lw_ps measured;                /* the median of the repeats */
    lw_ps measured_at_speed;       /* the median of at_speed; -1: one is not known */
    double error_pct;              /* of the prediction */
    int tie;                       /* 1 = the fastest and those tied with it, 2 = the next, ... */
};

struct lw_tune_verdict {
    int n_measured;
    double spread_pct;   /* standard deviation of repeats about their strategy's mean, in percent of
                          * it, over all strategies; NAN: none has two repeats */
    double spread_at_speed_pct; /* the same of at_speed; NAN: also where one of them is not known */
    double tied_pct;     /* steps that differ by less are tied: twice the spread */
    double rank_correlation; /* Spearman's, tied ones sharing a rank; NAN: all are tied */
    int64_t n_pairs, n_apart; /* pairs of strategies, and those of them that are not tied */
    double pair_correlation; /* of those apart: right less wrong ones, over all; NAN: none is */
    int chosen, fastest; /* of v: predicted fastest, measured fastest; -1: nothing was measured */
    double longer_pct;   /* what the chosen one takes beyond the fastest */
    double regret_pct;   /* the same, 0 where the two are tied */
};

/* What of the squared spread goes with the machine's speed, in percent; below 0 where the spread is
 * larger without it; NAN = not known. */
double lw_tune_machine_spread_pct(const struct lw_tune_verdict *v);
void lw_tune_judge(struct lw_tune_measured *v, int n, struct lw_tune_verdict *out);
