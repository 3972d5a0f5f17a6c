#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/study/prediction.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/numbers/units.h"

/* A search in which each strategy's step is drawn n_samples times, and strategies are ranked by the
 * p90 of these samples. See docs/design/tune.md and docs/design/noise.md. */
struct lw_tune_noise {
    bool on;
    double sigma, rank_sigma; /* of `sim`: 0 = the cluster's, and none */
    bool zero, rank_zero;     /* they are given, as 0 */
    int64_t n_samples;
    int64_t seed;             /* -1 = not given */
};

enum { LW_TUNE_SAMPLES = 50 }; /* where --samples is not given */

/* No option is given. */
#define LW_TUNE_NO_NOISE {.sigma = -1, .rank_sigma = -1, .seed = -1}

/* Whether it is on, and what is not given: the options as they were typed, n_samples 0 and the
 * others -1 where they were not. */
void lw_tune_noise_complete(struct lw_tune_noise *n);
/* LW_EINVAL: nothing is drawn on this cluster. */
enum lw_status lw_tune_noise_check(const struct lw_tune_noise *n, const struct lw_cluster *c,
                                   struct lw_err *err);
/* " --noise 0.02 --samples 50": what `sim` takes for the same samples; "" where it is not on. */
enum lw_status lw_tune_noise_words(const struct lw_tune_noise *n, struct lw_arena *a,
                                   const char **out, struct lw_err *err);

/* At most the step of any sample, of a lower bound of the step without noise. most_ops: at least as
 * many operations as follow each other in what the bound adds up. The bound itself without noise.
 */
lw_ps lw_tune_noise_bound(const struct lw_tune_noise *n, const struct lw_cluster *c, lw_ps bound,
                          int64_t most_ops);

/* The prediction's options, as `sim` sets them. */
void lw_tune_noise_set(const struct lw_tune_noise *n, struct lw_prediction *p);
/* The p90 of the samples of a prediction that was made; -1: it exceeds `most`. LW_EFAILED: stop
 * asked to. */
enum lw_status lw_tune_noise_p90(const struct lw_tune_noise *n, const struct lw_prediction *p,
                                 lw_ps most, const struct lw_progress *stop, lw_ps *p90,
                                 struct lw_err *err);
