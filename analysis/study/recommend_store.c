/* Predictions of a search for caps, kept so that pictures and comparisons can be made of them. */
#include "analysis/study/recommend_store.h"

#include "analysis/compare/compare.h"
#include "analysis/store/store.h"
#include "shared/lower/lower.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"

enum { STORED = 32 };

/* Predict one cap again, and keep it. */
static enum lw_status store_cap(const struct lw_recommend_store *s, struct lw_store *db,
                                const struct lw_strategy *strategy, struct lw_err *err)
{
    struct lw_cost cost = lw_sim_cost(s->cluster);
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_timeline t = {0};
    struct lw_summary sum = {0};
    struct lw_sim_stats stats;
    struct lw_plan p;
    int64_t run;

    LW_TRY(lw_plan_build(s->workload, strategy, &cost, &p, err));
    o.n_steps = lw_sim_warmup_steps(&p) + 1;
    struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = &p, .cluster = s->cluster,
                               .workload = s->workload, .command = s->command,
                               .n_warmup = o.n_steps - 1};
    enum lw_status st = lw_sim_run(&p, s->cluster, &o, &t, &stats, err);
    if (st == LW_OK)
        st = lw_timeline_summarize(&t, &p, o.n_steps - 1, &sum, err);
    if (st == LW_OK)
        st = lw_store_begin_run(db, &info, &run, err);
    if (st == LW_OK)
        st = lw_store_finish_run(db, run, &sum, LW_RUN_OK, "", err);
    if (st == LW_OK)
        st = lw_comparison_record(db, run, err);
    lw_summary_free(&sum);
    lw_timeline_free(&t);
    lw_plan_free(&p);
    return st;
}

/* The reference, the best, and a selection of the others: enough for `lapwing plot sweep`. */
enum lw_status lw_recommend_store(const struct lw_recommend_store *s, struct lw_err *err)
{
    const struct lw_recommendation *r = s->r;
    struct lw_strategy strategy = r->reference_strategy;
    struct lw_store *db;
    int32_t stride = r->n_simulated / STORED + 1, k = 0;

    LW_TRY(lw_store_open(s->db, LW_STORE_WRITE, &db, err));
    enum lw_status st = store_cap(s, db, &strategy, err);
    strategy = *s->strategy;
    for (int32_t i = 0; i < r->n_points && st == LW_OK; i++) {
        if (r->points[i].step < 0 || (k++ % stride != 0 && i != r->best))
            continue;
        strategy.bucket_cap_bytes = r->points[i].cap_bytes;
        st = store_cap(s, db, &strategy, err);
    }
    lw_store_close(db);
    return st;
}
