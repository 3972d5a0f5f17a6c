/* Which bucket cap is best: every bucketing between one gradient a bucket and one bucket for all,
 * planned and simulated.
 *
 * Each policy says from which larger cap on its buckets may be others (lw_bucketing.next_cap): the
 * walk from 0 to there, and on in this way, meets every bucketing, without looking at sums of runs.
 * There are fewer than n^2 / 2 for n gradients; beyond SIMULATED_ALL of them a grid is simulated
 * first and then the neighbourhood of its best places, which is not exhaustive. The output says so.
 * Beyond LISTED the walk takes steps of a thousandth, which may pass over bucketings. Beyond
 * FULL_PARAMS parameters a plan takes long: all these numbers shrink as that grows, the steps by
 * its square, because each decides the buckets anew; so the work stays within a bound. Two modules
 * count as a parameter.
 *
 * Of equally fast caps the largest wins (fewer collectives); the reference keeps its place
 * unless it is beaten. Not searched: first bucket, policy, launch order. */
#include "analysis/study/recommend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "shared/bucket/policy.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework.h"
#include "shared/framework/memory_figures.h"
#include "shared/lower/lower.h"
#include "shared/timeline/timeline.h"
#include "sim/cost/cost_model.h"

enum { SIMULATED_ALL = 400, GRID = 128, NEAR = 64, N_PEAKS = 3, LISTED = 3000 };
enum { FULL_PARAMS = 1500, LEAST = 16, LARGE = 20000, LEAST_OF_ALL = 4, STEPS = 1000 };

struct search {
    const struct lw_workload *w;
    const struct lw_cluster *cluster;
    const struct lw_framework *framework;
    const struct lw_progress *progress;
    struct lw_cost cost;
    struct lw_strategy strategy;
    struct lw_recommendation *r;
    int64_t capacity;
    int32_t most; /* points that will be simulated; 0 = not known yet */
    struct lw_err *err;
};

const char *lw_cap_source_name(enum lw_cap_source s)
{
    static const char *const names[] = {"given", "recorded", "default"};
    return names[s];
}

void lw_recommendation_free(struct lw_recommendation *r)
{
    lw_free(r->points);
    *r = (struct lw_recommendation){0};
}

lw_ps lw_recommendation_gain(const struct lw_recommendation *r)
{
    return r->best < 0 ? 0 : r->reference.step - r->points[r->best].step;
}

/* How far the current candidate is, as how far the search is. */
static void report_part(void *ctx, const char *what, double share)
{
    const struct search *s = ctx;

    (void)what;
    lw_progress_report(s->progress, "simulating bucket caps",
                       s->most > 0 ? (s->r->n_simulated + share) / s->most : 0);
}

static void put_memory(const struct search *s, const struct lw_sim_classes *c,
                       const struct lw_summary *sum, struct lw_cap_point *point)
{
    struct lw_memory_figures m;

    lw_memory_figures_of(sum, &c->plan, s->framework, s->cluster, &m);
    point->peak_memory_bytes = m.peak_bytes;
    point->device_bytes = m.peak_bytes < 0 ? -1 : lw_memory_device_bytes(&m);
    point->needed_bytes = m.peak_bytes < 0 ? -1 : lw_memory_least_bytes(&m);
}

static enum lw_status simulate(const struct search *s, const struct lw_plan *p,
                               struct lw_cap_point *point)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes c = {0};
    struct lw_summary sum = {0};
    struct lw_sim_stats stats;
    struct lw_progress part = {.report = report_part, .ctx = (void *)s,
                               .stop = s->progress ? s->progress->stop : NULL};

    o.n_steps = lw_sim_warmup_steps(p) + 1;
    o.progress = &part;
    enum lw_status st = lw_sim_run_classes(p, s->cluster, &o, &c, &stats, s->err);
    if (st == LW_OK && point == &s->r->reference) {
        s->r->n_remarks = stats.n_remarks;
        memcpy(s->r->remarks, stats.remarks, sizeof s->r->remarks);
    }
    if (st == LW_OK)
        st = lw_timeline_summarize(&c.rows, &c.plan, o.n_steps - 1, &sum, s->err);
    if (st == LW_OK) {
        point->step = sum.step;
        point->exposed_comm = sum.ranks[sum.worst].exposed_comm;
        put_memory(s, &c, &sum, point);
    }
    lw_summary_free(&sum);
    lw_sim_classes_free(&c);
    return st;
}


static enum lw_status plan_and_simulate(const struct search *s, const struct lw_strategy *strategy,
                                        struct lw_cap_point *point)
{
    struct lw_plan p;

    LW_TRY(lw_plan_build(s->w, strategy, &s->cost, &p, s->err));
    lw_framework_hold(s->framework, &p);
    enum lw_status st = simulate(s, &p, point);
    lw_plan_free(&p);
    return st;
}

/* So many of `most` for a workload of this size, but no fewer than LEAST, and of the largest ones
 * than LEAST_OF_ALL. */
static int32_t share_of(const struct search *s, int32_t most)
{
    int64_t size = (int64_t)s->w->n_params + s->w->n_modules / 2;
    int64_t least = LEAST * LARGE / (size > LARGE ? size : LARGE);
    int64_t n = size > FULL_PARAMS ? most * FULL_PARAMS / size : most;

    least = least > LEAST_OF_ALL ? least : LEAST_OF_ALL;
    n = n > least ? n : least;
    return n < most ? (int32_t)n : most;
}

/* --- the bucketings --------------------------------------------------------------------------- */

/* The multiple of the largest power of two between low and high. */
static int64_t roundest(int64_t low, int64_t high)
{
    for (int shift = 62; shift > 0; shift--) {
        int64_t v = (high >> shift) << shift;
        if (v >= low && v > 0)
            return v;
    }
    return high;
}

static int64_t all_bytes(const struct search *s)
{
    int64_t bytes = 0;

    for (int32_t i = 0; i < s->w->n_params; i++)
        if (lw_param_has_gradient(&s->w->params[i]))
            bytes += s->w->params[i].numel *
                     lw_dtype_size(lw_strategy_grad_dtype(&s->strategy, s->w->params[i].dtype));
    return bytes;
}

static enum lw_status list_points(struct search *s)
{
    struct lw_recommendation *r = s->r;
    struct lw_strategy strategy = s->strategy;
    int64_t whole = all_bytes(s);

    for (int64_t cap = 0; cap < INT64_MAX && !lw_progress_stopped(s->progress);) {
        struct lw_cap_point point = {.low_bytes = cap, .step = -1, .exposed_comm = -1,
                                     .peak_memory_bytes = -1, .device_bytes = -1,
                                     .needed_bytes = -1};
        struct lw_settled_buckets b;
        strategy.bucket_cap_bytes = cap;
        report_part(s, "", 0);
        LW_TRY(lw_plan_settled_buckets(s->w, &strategy, &s->cost, &b, s->err));
        assert(b.next_cap_bytes > cap);
        int64_t next = b.next_cap_bytes;
        point.n_buckets = b.n;
        if (next < INT64_MAX)
            point.high_bytes = next - 1;
        else /* any larger cap: one beyond all bytes */
            point.high_bytes = whole > cap ? whole : cap;
        if (r->n_points > share_of(s, LISTED) && next < INT64_MAX &&
            next < cap + cap / share_of(s, share_of(s, STEPS))) {
            next = cap + cap / share_of(s, share_of(s, STEPS));
            r->exhaustive = false;
        }
        point.cap_bytes = roundest(point.low_bytes, point.high_bytes);
        if (lw_reserve(&r->points, &s->capacity, r->n_points + 1, sizeof *r->points) != 0)
            return lw_fail_nomem(s->err);
        r->points[r->n_points++] = point;
        cap = next;
    }
    return LW_OK;
}

static enum lw_status run_point(struct search *s, int32_t i)
{
    struct lw_strategy strategy = s->strategy;
    struct lw_cap_point *p = &s->r->points[i];

    if (p->step >= 0)
        return LW_OK;
    strategy.bucket_cap_bytes = p->cap_bytes;
    report_part(s, "", 0);
    enum lw_status st = plan_and_simulate(s, &strategy, p);
    if (st == LW_OK)
        s->r->n_simulated++;
    return st != LW_OK && lw_progress_stopped(s->progress) ? LW_OK : st; /* without this point */
}

/* Points [from, to] at no more than n evenly spaced places, both ends included. */
static enum lw_status run_some(struct search *s, int32_t from, int32_t to, int32_t n)
{
    int64_t span = to - from;

    for (int64_t k = 0; k < n && !lw_progress_stopped(s->progress); k++)
        LW_TRY(run_point(s, (int32_t)(from + (n > 1 ? span * k / (n - 1) : 0))));
    return LW_OK;
}

/* The best simulated point that is not `taken`; of equal ones the largest cap. */
static int32_t best_point(const struct lw_recommendation *r, const bool *taken)
{
    int32_t best = -1;

    for (int32_t i = 0; i < r->n_points; i++)
        if (r->points[i].step >= 0 && !(taken && taken[i]) &&
            (best < 0 || r->points[i].step <= r->points[best].step))
            best = i;
    return best;
}

/* Look closer around the best places of the grid, between their neighbours. */
static enum lw_status refine(struct search *s)
{
    struct lw_recommendation *r = s->r;
    int32_t stride = r->n_points / (share_of(s, GRID) - 1) + 1, near = share_of(s, NEAR);
    bool *taken = lw_calloc((size_t)r->n_points, sizeof *taken);

    if (!taken)
        return lw_fail_nomem(s->err);
    enum lw_status st = LW_OK;
    for (int k = 0; k < N_PEAKS && st == LW_OK; k++) {
        int32_t at = best_point(r, taken);
        if (at < 0)
            break;
        int32_t from = at > stride ? at - stride : 0;
        int32_t to = at + stride < r->n_points ? at + stride : r->n_points - 1;
        st = run_some(s, from, to, to - from < near ? to - from + 1 : near);
        memset(taken + from, true, (size_t)(to - from + 1) * sizeof *taken);
    }
    lw_free(taken);
    return st;
}

/* --- the reference ---------------------------------------------------------------------------- */

enum { DEFAULT_FIRST = 1 << 20, DEFAULT_CAP = 25 << 20, DOUBTFUL_PCT = 25 };

/* Recorded limits are those of c10d: of policies that take a limit for the first bucket. */
static void choose_reference(struct search *s, enum lw_bucket_policy_id policy)
{
    bool has_recorded_rule = lw_bucket_policy(policy)->takes & LW_TAKES_FIRST;
    struct lw_recommendation *r = s->r;
    const struct lw_recorded *rec = &s->w->recorded;
    struct lw_strategy *ref = &r->reference_strategy;

    *ref = s->strategy;
    r->source = ref->bucket_cap_bytes >= 0 ? LW_CAP_GIVEN : LW_CAP_DEFAULT;
    if (r->source == LW_CAP_DEFAULT && has_recorded_rule &&
        (rec->n_limits == 1 || rec->n_limits == 2)) {
        const int64_t *v = rec->limit_bytes;
        r->source = LW_CAP_RECORDED;
        bool usual = rec->n_limits == 2 && v[0] == DEFAULT_FIRST && v[1] == DEFAULT_CAP;
        if (rec->n_limits == 2 && !usual)
            ref->first_bucket_bytes = v[0];
        if (!usual)
            ref->bucket_cap_bytes = v[rec->n_limits - 1];
    }
    r->reference = (struct lw_cap_point){.cap_bytes = ref->bucket_cap_bytes,
                                         .low_bytes = ref->bucket_cap_bytes,
                                         .high_bytes = ref->bucket_cap_bytes};
}

/* The reference is what ran in the recording, on a device of its kind. */
static bool is_the_recorded_run(const struct search *s)
{
    const struct lw_recorded *rec = &s->w->recorded;
    const struct lw_recommendation *r = s->r;
    bool same_cap = r->source == LW_CAP_RECORDED ||
                    (r->source == LW_CAP_GIVEN && rec->n_limits == 1 &&
                     rec->limit_bytes[0] == r->reference.cap_bytes);

    return same_cap && rec->step_ps > 0 && rec->world_size == s->strategy.dp &&
           lw_device_same_kind(s->w->from.device, s->cluster->device.kind);
}

/* Gains of a prediction that misses its own recording are not to be relied on. */
static void compare_with_recorded(struct search *s)
{
    struct lw_recommendation *r = s->r;
    double recorded = (double)s->w->recorded.step_ps;
    double off = 100 * ((double)r->reference.step / recorded - 1);
    char step[32], was[32];

    if (!is_the_recorded_run(s) || (off <= DOUBTFUL_PCT && off >= -DOUBTFUL_PCT))
        return;
    int32_t last = r->n_remarks < LW_SIM_MAX_REMARKS ? r->n_remarks++ : r->n_remarks - 1;
    snprintf(r->remarks[last], sizeof r->remarks[last],
             "the reference is predicted at %s, but a step of %s was recorded with it (%+.1f %%): "
             "do not rely on the gain before the cluster is calibrated or measured",
             lw_format_ps(step, r->reference.step), lw_format_ps(was, s->w->recorded.step_ps), off);
}

static enum lw_status search(struct search *s)
{
    struct lw_recommendation *r = s->r;
    struct lw_settled_buckets b;

    LW_TRY(lw_plan_settled_buckets(s->w, &s->strategy, &s->cost, &b, s->err));
    choose_reference(s, b.policy);
    LW_TRY(lw_plan_settled_buckets(s->w, &r->reference_strategy, &s->cost, &b, s->err));
    r->reference.n_buckets = b.n;
    LW_TRY(plan_and_simulate(s, &r->reference_strategy, &r->reference));
    compare_with_recorded(s);
    LW_TRY(list_points(s));
    s->most = r->n_points <= share_of(s, SIMULATED_ALL)
                  ? r->n_points
                  : share_of(s, GRID) + N_PEAKS * share_of(s, NEAR);
    if (r->n_points == 0) {
        /* stopped before the first */
    } else if (r->n_points <= share_of(s, SIMULATED_ALL)) {
        LW_TRY(run_some(s, 0, r->n_points - 1, r->n_points));
    } else {
        r->exhaustive = false;
        LW_TRY(run_some(s, 0, r->n_points - 1, share_of(s, GRID)));
        LW_TRY(refine(s));
    }
    r->interrupted = lw_progress_stopped(s->progress);
    r->exhaustive &= !r->interrupted;
    r->best = best_point(r, NULL);
    if (r->best >= 0 && r->points[r->best].step >= r->reference.step)
        r->best = -1;
    return LW_OK;
}

enum lw_status lw_recommend(const struct lw_workload *w, const struct lw_strategy *strategy,
                            const struct lw_cluster *cluster, const struct lw_framework *framework,
                            const struct lw_progress *progress, struct lw_recommendation *out,
                            struct lw_err *err)
{
    static const struct lw_framework ideal;
    struct lw_recommendation r = {.exhaustive = true};
    struct search s = {.w = w, .cluster = cluster, .progress = progress, .r = &r, .err = err,
                       .framework = framework ? framework : &ideal, .cost = lw_sim_cost(cluster),
                       .strategy = *strategy};

    if (strategy->dp < 2)
        return lw_fail(err, LW_EINVAL,
                       "one data-parallel rank reduces nothing: choose --dp N, N at least 2");
    if (strategy->zero == 3)
        return lw_fail(err, LW_EINVAL,
                       "--zero 3: no bucket cap changes the units that it reduces: choose --zero "
                       "0, 1 or 2");
    enum lw_status st = search(&s);
    if (st != LW_OK) {
        lw_recommendation_free(&r);
        return st;
    }
    *out = r;
    return LW_OK;
}
