/* Samples of a step, over all cores. A pool of threads takes the next sample until none is left; a
 * sample is a run of its own, without rows, and writes to its own place. Which thread ran it leaves
 * no trace: seeds count by sample, and what failed is reported by the lowest sample. */
#include "sim/predict/samples.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/numbers/order.h"
#include "sim/timing/device.h"
#include "sim/timing/random_draws.h"

enum { MAX_THREADS = 256 };

struct pool {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    struct lw_sim_options options;
    int32_t first_step, n;
    lw_ps *step;
    _Atomic int32_t next, n_done;
    pthread_mutex_t lock; /* of what failed */
    int32_t failed;       /* lowest sample that did; n = none */
    enum lw_status status;
    struct lw_err err;
};

LW_COMPARATOR(compare_ps, lw_ps, *a, *b)

/* The p-th of 100 parts by nearest rank; v ascends. */
static lw_ps percentile(const lw_ps *v, int64_t n, int64_t p)
{
    return v[(n * p + 99) / 100 - 1];
}

static enum lw_status one(const struct pool *p, int32_t i, lw_ps *lengths, struct lw_err *err)
{
    struct lw_sim_options o = p->options;
    struct lw_sim_stats unused;
    int32_t n = o.n_steps - p->first_step;

    o.seed = sim_seed_of(p->options.seed, (uint64_t)i);
    o.noise = true;
    o.progress = NULL;
    LW_TRY(lw_sim_run_steps(p->plan, p->cluster, &o, lengths, &unused, err));
    qsort(lengths + p->first_step, (size_t)n, sizeof *lengths, compare_ps);
    lw_ps low = lengths[p->first_step + (n - 1) / 2], high = lengths[p->first_step + n / 2];
    p->step[i] = low + (high - low) / 2;
    return LW_OK;
}

static void fail(struct pool *p, int32_t i, enum lw_status status, const struct lw_err *err)
{
    pthread_mutex_lock(&p->lock);
    if (i < p->failed) {
        p->failed = i;
        p->status = status;
        p->err = *err;
    }
    pthread_mutex_unlock(&p->lock);
}

/* Samples until none is left; `reports`: tells how far all are. */
static void work(struct pool *p, bool reports)
{
    lw_ps *lengths = lw_alloc((size_t)p->options.n_steps * sizeof *lengths);
    struct lw_err err = {0};
    int32_t i;

    while ((i = atomic_fetch_add(&p->next, 1)) < p->n) {
        enum lw_status status = lengths ? one(p, i, lengths, &err) : lw_fail_nomem(&err);
        if (status != LW_OK) {
            fail(p, i, status, &err);
            break;
        }
        int32_t done = atomic_fetch_add(&p->n_done, 1) + 1;
        if (reports)
            lw_progress_report(p->options.progress, "sampling", (double)done / p->n);
    }
    lw_free(lengths);
}

static void *thread(void *ctx)
{
    work(ctx, false);
    return NULL;
}

/* Threads that cannot be had are done without: the caller is one of them. */
static void run_pool(struct pool *p, int32_t n_threads)
{
    pthread_t threads[MAX_THREADS];
    int32_t n = 0;

    while (n + 1 < n_threads && pthread_create(&threads[n], NULL, thread, p) == 0)
        n++;
    work(p, true);
    for (int32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static int32_t choose_threads(int32_t n_threads, int32_t n)
{
    int32_t k = n_threads > 0 ? n_threads : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);

    k = k < n ? k : n;
    k = k < MAX_THREADS ? k : MAX_THREADS;
    return k > 1 ? k : 1;
}

static enum lw_status summarize(const struct pool *p, struct lw_sim_samples *out,
                                struct lw_err *err)
{
    lw_ps *v = lw_alloc((size_t)p->n * sizeof *v);

    if (!v)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < p->n; i++)
        v[i] = p->step[i];
    qsort(v, (size_t)p->n, sizeof *v, compare_ps);
    *out = (struct lw_sim_samples){.n = p->n,
                                   .step = p->step,
                                   .p50 = percentile(v, p->n, 50),
                                   .p90 = percentile(v, p->n, 90),
                                   .p99 = percentile(v, p->n, 99),
                                   .least = v[0],
                                   .most = v[p->n - 1]};
    lw_free(v);
    return LW_OK;
}

static bool draws(const struct lw_cluster *c, struct lw_sim_options o)
{
    o.noise = true;
    return sim_compute_sigma(c, &o) > 0 || sim_comm_sigma(c, &o) > 0 || o.jitter_ps > 0 ||
           o.start_skew_ps > 0 || o.rank_sigma > 0;
}

static enum lw_status check(const struct lw_cluster *c, const struct lw_sim_options *o,
                            int32_t first_step, int32_t n, struct lw_err *err)
{
    if (n < 1)
        return lw_fail(err, LW_EINVAL, "--samples: found %d, expected at least 1", n);
    if (first_step < 0 || first_step >= o->n_steps)
        return lw_fail(err, LW_EINVAL,
                       "%d steps, of which the first %d are warm-up: nothing to "
                       "measure",
                       o->n_steps, first_step);
    if (!draws(c, *o))
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
    struct pool p = {.plan = plan,
                     .cluster = cluster,
                     .options = *options,
                     .first_step = first_step,
                     .n = n,
                     .failed = n};

    LW_TRY(check(cluster, options, first_step, n, err));
    p.step = lw_alloc((size_t)n * sizeof *p.step);
    if (!p.step)
        return lw_fail_nomem(err);
    if (pthread_mutex_init(&p.lock, NULL) != 0) {
        lw_free(p.step);
        return lw_fail_nomem(err);
    }
    run_pool(&p, choose_threads(n_threads, n));
    pthread_mutex_destroy(&p.lock);
    enum lw_status status = p.failed < n ? p.status : summarize(&p, out, err);
    if (p.failed < n)
        *err = p.err;
    if (status != LW_OK)
        lw_free(p.step);
    return status;
}

void lw_sim_samples_free(struct lw_sim_samples *s)
{
    lw_free(s->step);
    *s = (struct lw_sim_samples){0};
}
