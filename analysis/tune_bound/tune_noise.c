/* Samples of a search. Every draw of sim/timing/random_draws.c is at least 6 sigma below 1, and a
 * bound is a sum of durations, so with noise it is at least that part of itself.
 *
 * A step is the difference of two ends, not a sum of durations of its own: the step without noise
 * is no lower bound of the step with it, nor of the median, and nothing here takes it for one. */
#include "analysis/tune_bound/tune_noise.h"

#include <math.h>
#include <stdlib.h>

#include "sim/predict/samples.h"
#include "sim/timing/device.h"

void lw_tune_noise_complete(struct lw_tune_noise *n)
{
    n->zero = n->sigma == 0;
    n->rank_zero = n->rank_sigma == 0;
    n->sigma = n->sigma > 0 ? n->sigma : 0;
    n->rank_sigma = n->rank_sigma > 0 ? n->rank_sigma : 0;
    n->on = n->sigma > 0 || n->rank_sigma > 0 || n->n_samples > 0 || n->seed >= 0;
    n->n_samples = n->on && n->n_samples == 0 ? LW_TUNE_SAMPLES : n->n_samples;
}

static struct lw_sim_options options_of(const struct lw_tune_noise *n)
{
    struct lw_sim_options o = lw_sim_options_default();

    o.noise = true;
    o.sigma = n->sigma;
    o.rank_sigma = n->rank_sigma;
    return o;
}

enum lw_status lw_tune_noise_check(const struct lw_tune_noise *n, const struct lw_cluster *c,
                                   struct lw_err *err)
{
    const struct lw_sim_options o = options_of(n);
    const char *lacks = n->zero && n->rank_zero ? "--noise and --rank-noise are 0"
                        : n->zero               ? "--noise is 0"
                        : n->rank_zero          ? "--rank-noise is 0"
                                                : "no --noise or --rank-noise is given";

    if (!n->on || lw_sim_draws(c, &o))
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "cluster '%s' has no noise, and %s: all samples would be the "
                                   "same; give --noise X above 0, or leave out --samples and "
                                   "--seed",
                   c->name, lacks);
}

/* The shortest text of at most 17 digits that is the number. */
static enum lw_status put_share(const char *option, double x, struct lw_arena *a, const char **out,
                                struct lw_err *err)
{
    char text[40];

    if (x <= 0)
        return LW_OK;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) >= x && strtod(text, NULL) <= x)
            break;
    }
    LW_PRINT(a, *out, err, "%s %s %s", *out, option, text);
    return LW_OK;
}

enum lw_status lw_tune_noise_words(const struct lw_tune_noise *n, struct lw_arena *a,
                                   const char **out, struct lw_err *err)
{
    *out = "";
    if (!n->on)
        return LW_OK;
    LW_TRY(put_share("--noise", n->sigma, a, out, err));
    LW_TRY(put_share("--rank-noise", n->rank_sigma, a, out, err));
    LW_PRINT(a, *out, err, "%s --samples %lld", *out, (long long)n->n_samples);
    if (n->seed >= 0)
        LW_PRINT(a, *out, err, "%s --seed %lld", *out, (long long)n->seed);
    return LW_OK;
}

/* The least part of its time that an operation takes. */
static double least_factor(const struct lw_tune_noise *n, const struct lw_cluster *c)
{
    const struct lw_sim_options o = options_of(n);
    double sigma = fmax(sim_compute_sigma(c, &o), sim_comm_sigma(c, &o));

    return fmax(0, 1 - 6 * sigma) * fmax(0.01, 1 - 6 * n->rank_sigma);
}

/* Each operation is rounded to the nearest picosecond once; 1e-8 of all is left for the rounding of
 * a rank's speed, which is counted in 1e-9, and of the product. */
lw_ps lw_tune_noise_bound(const struct lw_tune_noise *n, const struct lw_cluster *c, lw_ps bound,
                          int64_t most_ops)
{
    double least;

    if (!n->on)
        return bound;
    least = (double)bound * (least_factor(n, c) - 1e-8) - (double)most_ops;
    return least > 0 ? (lw_ps)least : 0;
}

void lw_tune_noise_set(const struct lw_tune_noise *n, struct lw_prediction *p)
{
    if (!n->on)
        return;
    p->options.sigma = n->sigma;
    p->options.rank_sigma = n->rank_sigma;
    p->seed = n->seed;
}

enum lw_status lw_tune_noise_p90(const struct lw_tune_noise *n, const struct lw_prediction *p,
                                 lw_ps most, const struct lw_progress *stop, lw_ps *p90,
                                 struct lw_err *err)
{
    return lw_sim_sample_within(&p->plan, &p->cluster, &p->options, p->n_warmup,
                                (int32_t)n->n_samples, most, stop, p90, err);
}
