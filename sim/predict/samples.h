#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/predict/sim.h"

/* How a step's length is spread when everything that a seed decides is drawn again and again.
 * Sample i is the run with the seed sim_seed_of(options->seed, i), so sample 0 is the run itself;
 * the numbers are the same for any number of threads. */
struct lw_sim_samples {
    int32_t n;
    lw_ps *step;         /* [n]: median over the measured steps, by sample; owned */
    lw_ps p50, p90, p99; /* the smallest step that so many percent of the samples do not exceed */
    lw_ps least, most;
};

/* Whether lw_sim_sample can begin. LW_EINVAL: as below. */
enum lw_status lw_sim_sample_check(const struct lw_cluster *c, const struct lw_sim_options *options,
                                   int32_t first_step, int32_t n, struct lw_err *err);

/* first_step: steps before it are warm-up. n_threads: 0 = as many as there are cores.
 * LW_EINVAL: n is not positive, or the options and the cluster draw nothing. Else as lw_sim_run; of
 * several samples that fail, the first one's words. */
enum lw_status lw_sim_sample(const struct lw_plan *plan, const struct lw_cluster *cluster,
                             const struct lw_sim_options *options, int32_t first_step, int32_t n,
                             int32_t n_threads, struct lw_sim_samples *out, struct lw_err *err);
/* The p90 of lw_sim_sample alone, on this thread; -1 where it exceeds `most`, which is certain
 * before all samples are drawn. progress: NULL, or what may ask to stop (LW_EFAILED). */
enum lw_status lw_sim_sample_within(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                    const struct lw_sim_options *options, int32_t first_step,
                                    int32_t n, lw_ps most, const struct lw_progress *progress,
                                    lw_ps *p90, struct lw_err *err);

/* Whether a seed decides anything: the options or the cluster have noise, jitter or skew. */
bool lw_sim_draws(const struct lw_cluster *c, const struct lw_sim_options *options);
void lw_sim_samples_free(struct lw_sim_samples *s);
