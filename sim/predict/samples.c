/* Samples of a step, over all cores. A sample is a run of its own, without rows, and writes to its
 * own place. Which thread ran it leaves no trace: seeds count by sample. */
#include "sim/predict/samples.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/parallel.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "sim/timing/device.h"
#include "sim/timing/random_draws.h"

struct sampling {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    const struct lw_sim_options *options;
    int32_t first_step;
    lw_ps *step;
};

LW_COMPARATOR(compare_ps, lw_ps, *a, *b)

/* The p-th of 100 parts by nearest rank; v ascends. */
static lw_ps percentile(const lw_ps *v, int64_t n, int64_t p)
{
    return v[(n * p + 99) / 100 - 1];
}

/* The step of sample i: the median over the measured steps of a run of its own. */
static enum lw_status draw(const struct sampling *p, int32_t i, lw_ps *step, struct lw_err *err)
{
    struct lw_sim_options o = *p->options;
    struct lw_sim_stats unused;
    int32_t n = o.n_steps - p->first_step;
    lw_ps *lengths;

    o.seed = sim_seed_of(o.seed, (uint64_t)i);
    o.noise = true;
    o.progress = NULL;
    LW_NEW(lengths, o.n_steps, err);
    enum lw_status status = lw_sim_run_steps(p->plan, p->cluster, &o, lengths, &unused, err);
    if (status == LW_OK) {
        lw_sort(lengths + p->first_step, n, compare_ps);
        lw_ps low = lengths[p->first_step + (n - 1) / 2], high = lengths[p->first_step + n / 2];
        *step = low + (high - low) / 2;
    }
    lw_free(lengths);
    return status;
}

static enum lw_status one(void *ctx, int i, const struct lw_progress *progress, struct lw_err *err)
{
    const struct sampling *p = ctx;

    (void)progress;
    return draw(p, i, &p->step[i], err);
}

static enum lw_status summarize(int32_t n, lw_ps *step, struct lw_sim_samples *out,
                                struct lw_err *err)
{
    lw_ps *v;

    LW_NEW(v, n, err);
    memcpy(v, step, (size_t)n * sizeof *v);
    lw_sort(v, n, compare_ps);
    *out = (struct lw_sim_samples){.n = n, .step = step, .p50 = percentile(v, n, 50),
                                   .p90 = percentile(v, n, 90), .p99 = percentile(v, n, 99),
                                   .least = v[0], .most = v[n - 1]};
    lw_free(v);
    return LW_OK;
}

bool lw_sim_draws(const struct lw_cluster *c, const struct lw_sim_options *options)
{
    struct lw_sim_options o = *options;

    o.noise = true;
    return sim_compute_sigma(c, &o) > 0 || sim_comm_sigma(c, &o) > 0 || o.jitter_ps > 0 ||
           o.start_skew_ps > 0 || o.rank_sigma > 0;
}

enum lw_status lw_sim_sample_check(const struct lw_cluster *c, const struct lw_sim_options *o,
                                   int32_t first_step, int32_t n, struct lw_err *err)
{
    if (n < 1)
        return lw_fail(err, LW_EINVAL, "--samples: found %d, expected at least 1", n);
    if (first_step < 0 || first_step >= o->n_steps)
        return lw_fail(err, LW_EINVAL,
                       "%d steps, of which the first %d are warm-up: nothing to "
                       "measure",
                       o->n_steps, first_step);
    if (!lw_sim_draws(c, o))
        return lw_fail(err, LW_EINVAL,
                       "cluster '%s' has no noise, and no --noise, --rank-noise, --jitter or "
                       "--start-skew is given: all samples would be the same",
                       c->name);
    return LW_OK;
}

enum lw_status lw_sim_sample(const struct lw_plan *plan, const struct lw_cluster *cluster,
                             const struct lw_sim_options *options, int32_t first_step, int32_t n,
                             int32_t n_threads, struct lw_sim_samples *out, struct lw_err *err)
{
    struct sampling p = {plan, cluster, options, first_step, NULL};
    const struct lw_parallel_work work = {one, &p, n, "sampling", options->progress, n_threads};

    LW_TRY(lw_sim_sample_check(cluster, options, first_step, n, err));
    LW_NEW(p.step, n, err);
    enum lw_status status = lw_parallel(&work, err);
    if (status == LW_OK)
        status = summarize(n, p.step, out, err);
    if (status != LW_OK)
        lw_free(p.step);
    return status;
}

/* Samples in their order. p90 exceeds `most` if, and only if, more samples than the largest tenth
 * do. */
static enum lw_status draw_within(struct sampling *p, int32_t n, lw_ps most,
                                  const struct lw_progress *progress, lw_ps *p90,
                                  struct lw_err *err)
{
    int64_t may_exceed = n - (n * INT64_C(90) + 99) / 100, exceeding = 0;

    for (int32_t i = 0; i < n; i++) {
        if (lw_progress_stopped(progress))
            return lw_fail(err, LW_EFAILED, "interrupted");
        LW_TRY(draw(p, i, &p->step[i], err));
        exceeding += p->step[i] > most;
        if (exceeding > may_exceed) {
            *p90 = -1;
            return LW_OK;
        }
    }
    lw_sort(p->step, n, compare_ps);
    *p90 = percentile(p->step, n, 90);
    return LW_OK;
}

enum lw_status lw_sim_sample_within(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                    const struct lw_sim_options *options, int32_t first_step,
                                    int32_t n, lw_ps most, const struct lw_progress *progress,
                                    lw_ps *p90, struct lw_err *err)
{
    struct sampling p = {plan, cluster, options, first_step, NULL};

    LW_TRY(lw_sim_sample_check(cluster, options, first_step, n, err));
    LW_NEW(p.step, n, err);
    enum lw_status status = draw_within(&p, n, most, progress, p90, err);
    lw_free(p.step);
    return status;
}

void lw_sim_samples_free(struct lw_sim_samples *s)
{
    lw_free(s->step);
    *s = (struct lw_sim_samples){0};
}
