/* Predictions of a search for caps, kept so that pictures and comparisons can be made of them. */
#include "analysis/study/recommend_store.h"

#include "analysis/compare/compare.h"
#include "analysis/store/store.h"
#include "shared/framework/framework_memory.h"
#include "shared/lower/lower.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"

enum { STORED = 32 };

/* Of the cap that is predicted again at the moment, as a share of all that are stored. */
struct storing {
    const struct lw_recommend_store *of;
    struct lw_store *db;
    int32_t n_done, n;
};

static void report(void *ctx, const char *what, double share)
{
    const struct storing *s = ctx;

    (void)what;
    lw_progress_report(s->of->progress, "storing predictions", (s->n_done + share) / s->n);
}

static enum lw_status predict(const struct storing *s, const struct lw_plan *p, int32_t n_warmup,
                              struct lw_summary *sum, struct lw_err *err)
{
    const struct lw_progress *whole = s->of->progress;
    struct lw_progress part = {.report = report, .ctx = (void *)s,
                               .stop = whole ? whole->stop : NULL};
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes c = {0};
    struct lw_sim_stats stats;

    o.n_steps = n_warmup + 1;
    o.progress = &part;
    LW_TRY(lw_sim_run_classes(p, s->of->cluster, &o, &c, &stats, err));
    enum lw_status st = lw_sim_summarize(&c, n_warmup, sum, err);
    lw_sim_classes_free(&c);
    return st;
}

static enum lw_status keep(const struct storing *s, const struct lw_plan *p, int32_t n_warmup,
                           const struct lw_summary *sum, struct lw_err *err)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = p, .cluster = s->of->cluster,
                               .workload = s->of->workload, .command = s->of->command,
                               .n_warmup = n_warmup};
    int64_t run;
    lw_ps p10, p90;

    LW_TRY(lw_store_begin_run(s->db, &info, &run, err));
    if (s->of->alike && lw_alike_step_interval(s->of->alike, sum->step, &p10, &p90))
        LW_TRY(lw_store_interval(s->db, run, p10, p90, s->of->alike->of, err));
    LW_TRY(lw_store_finish_run(s->db, run, sum, LW_RUN_OK, "", err));
    return lw_comparison_record(s->db, run, err);
}

/* Predict one cap again, and keep it. */
static enum lw_status store_cap(struct storing *s, const struct lw_strategy *strategy,
                                struct lw_err *err)
{
    struct lw_cost cost = lw_sim_cost(s->of->cluster);
    struct lw_summary sum = {0};
    struct lw_plan p;

    report(s, "", 0);
    LW_TRY(lw_plan_build(s->of->workload, strategy, &cost, &p, err));
    if (s->of->framework)
        lw_framework_hold(s->of->framework, &p);
    int32_t n_warmup = lw_sim_warmup_steps(&p);
    enum lw_status st = predict(s, &p, n_warmup, &sum, err);
    if (st == LW_OK)
        st = keep(s, &p, n_warmup, &sum, err);
    if (st == LW_OK)
        s->n_done++;
    lw_summary_free(&sum);
    lw_plan_free(&p);
    return st;
}

/* Every so-many-th of those that were simulated, and the best. */
static bool is_stored(const struct lw_recommendation *r, int32_t point, int32_t *k)
{
    int32_t stride = r->n_simulated / STORED + 1;

    return r->points[point].step >= 0 && ((*k)++ % stride == 0 || point == r->best);
}

static enum lw_status store_all(struct storing *s, struct lw_err *err)
{
    const struct lw_recommendation *r = s->of->r;
    struct lw_strategy strategy = *s->of->strategy;

    LW_TRY(store_cap(s, &r->reference_strategy, err));
    for (int32_t i = 0, k = 0; i < r->n_points; i++) {
        if (!is_stored(r, i, &k))
            continue;
        strategy.bucket_cap_bytes = r->points[i].cap_bytes;
        LW_TRY(store_cap(s, &strategy, err));
        if (lw_progress_stopped(s->of->progress))
            break;
    }
    return LW_OK;
}

/* The reference, the best, and a selection of the others: enough for `lapwing plot sweep`. */
enum lw_status lw_recommend_store(const struct lw_recommend_store *s, struct lw_err *err)
{
    struct storing storing = {.of = s, .n = 1};

    for (int32_t i = 0, k = 0; i < s->r->n_points; i++)
        storing.n += is_stored(s->r, i, &k);
    LW_TRY(lw_store_open(s->db, LW_STORE_WRITE, &storing.db, err));
    enum lw_status st = lw_progress_stopped(s->progress) ? LW_OK : store_all(&storing, err);
    lw_store_close(storing.db);
    if (storing.n_done < storing.n && lw_progress_stopped(s->progress))
        return lw_fail(err, LW_EFAILED, "interrupted: %d of %d predictions were stored",
                       storing.n_done, storing.n);
    return st;
}
