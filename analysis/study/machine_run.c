/* The prediction of a plan for this machine, and its execution there. A prediction is made before
 * its run, from a calibration that has not run the plan. */
#include "analysis/study/machine_run.h"

#include <math.h>

#include "analysis/compare/compare.h"
#include "analysis/store/store.h"
#include "analysis/study/store_exec_run.h"
#include "shared/cluster/calibrated_probe.h"
#include "shared/plan/grid_rule.h"
#include "shared/timeline/run_sources.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"

enum { TRIES = 3 };

enum lw_status lw_machine_predict(const struct lw_machine *m, struct lw_machine_run *x,
                                  struct lw_err *err)
{
    struct lw_sim_options options = lw_sim_options_default();
    struct lw_cluster cluster = *m->cluster; /* borrows everything */
    struct lw_sim_stats stats;
    int32_t before = lw_sim_warmup_steps(&x->plan);

    options.n_steps = before + 1;
    if (x->plan.n_ranks > cluster.devices_per_node)
        cluster.devices_per_node = x->plan.n_ranks;
    LW_TRY(lw_sim_run(&x->plan, &cluster, &options, &x->predicted, &stats, err));
    return lw_timeline_summarize(&x->predicted, &x->plan, before, &x->expected, err);
}

/* Keeps *x's run unless this one was disturbed less. */
static enum lw_status run_once(const struct lw_machine *m, struct lw_machine_run *x,
                               struct lw_err *err)
{
    struct lw_exec_options options = lw_exec_options_default();
    struct lw_exec_team team = {.run = -1};
    struct lw_exec_result made = {0};

    options.signal = m->stop;
    options.backend = m->backend;
    options.loop = m->loop;
    options.n_steps = m->n_steps;
    options.n_warmup = LW_MACHINE_WARMUP;
    options.ranks_per_node = lw_sim_cost(m->cluster).ranks_per_node;
    LW_TRY(lw_plan_write_tables(&x->plan, err));
    enum lw_status s = m->id ? lw_exec_team_run(&x->plan, &options, m->id, &team, &made, err)
                             : lw_exec_run(&x->plan, &options, &made, err);
    exec_rendezvous_close(team.rendezvous);
    if (s == LW_OK && (x->result.n_steps == 0 || made.others_share < x->result.others_share)) {
        struct lw_exec_result other = x->result;
        x->result = made;
        made = other;
    }
    lw_exec_result_free(&made);
    return s;
}

enum lw_status lw_machine_execute(const struct lw_machine *m, struct lw_machine_run *x,
                                  struct lw_err *err)
{
    int tries = 0;

    do
        LW_TRY(run_once(m, x, err));
    while (++tries < TRIES && x->result.others_share > LW_DISTURBED);
    return LW_OK;
}

enum lw_status lw_machine_summarize(const struct lw_machine *m, struct lw_machine_run *x,
                                    struct lw_err *err)
{
    LW_TRY(lw_exec_find_speed(
        &x->plan, lw_calibrated_probe(m->cluster, x->result.compute, x->plan.n_ranks), &x->result,
        err));
    return lw_timeline_summarize(&x->result.timeline, &x->plan, x->result.n_warmup, &x->measured,
                                 err);
}

double lw_machine_compute_speed(const struct lw_machine_run *x)
{
    const struct lw_summary *s = &x->measured;
    int32_t rank = s->n_steps > 0 ? s->ranks[s->worst].rank : -1;

    return rank >= 0 && rank < x->result.n_compute_speeds ? x->result.compute_speed[rank]
                                                          : (double)NAN;
}

lw_ps lw_machine_step_at_speed(const struct lw_machine_run *x)
{
    const struct lw_summary *s = &x->measured;
    double speed = lw_machine_compute_speed(x);

    if (isnan(speed))
        return 0;
    return s->step - (lw_ps)llround((double)s->ranks[s->worst].compute_busy * (1 - speed));
}

void lw_machine_run_clear(struct lw_machine_run *x)
{
    lw_summary_free(&x->measured);
    lw_exec_result_free(&x->result);
    x->measured = (struct lw_summary){0};
    x->result = (struct lw_exec_result){0};
}

void lw_machine_run_free(struct lw_machine_run *x)
{
    lw_machine_run_clear(x);
    lw_summary_free(&x->expected);
    lw_timeline_free(&x->predicted);
    lw_plan_free(&x->plan);
    *x = (struct lw_machine_run){0};
}

bool lw_machine_is_loaded(const struct lw_machine_run *x)
{
    return 100 * x->result.others_share > LW_LOADED_PCT;
}

static enum lw_status put_prediction(struct lw_store *db, const struct lw_run_info *info,
                                     const struct lw_machine_run *x, int64_t *run,
                                     struct lw_err *err)
{
    LW_TRY(lw_store_begin_run(db, info, run, err));
    LW_TRY(lw_store_spans(db, *run, &x->predicted, err));
    LW_TRY(lw_store_memory(db, *run, &x->predicted, info->plan, err));
    LW_TRY(lw_store_finish_run(db, *run, &x->expected, LW_RUN_OK, "", err));
    return lw_comparison_record(db, *run, err);
}

enum lw_status lw_machine_store_prediction(const struct lw_machine *m,
                                           const struct lw_machine_run *x, const char *db,
                                           const char *command, const struct lw_workload *workload,
                                           int64_t *run, struct lw_err *err)
{
    const struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = &x->plan, .cluster = m->cluster,
                                     .workload = workload, .command = command,
                                     .n_warmup = lw_sim_warmup_steps(&x->plan)};
    struct lw_store *store;

    LW_TRY(lw_store_open(db, LW_STORE_WRITE, &store, err));
    enum lw_status s = put_prediction(store, &info, x, run, err);
    lw_store_close(store);
    return s;
}

enum lw_status lw_machine_store_execution(const struct lw_machine *m,
                                          const struct lw_machine_run *x, const char *db,
                                          const char *command, const struct lw_workload *workload,
                                          int64_t *run, struct lw_err *err)
{
    struct lw_run_info info = {.kind = LW_RUN_EXEC, .plan = &x->plan, .cluster = m->cluster,
                               .workload = workload, .command = command,
                               .backend = m->backend->name, .n_warmup = x->result.n_warmup};
    char sources[LW_RUN_SOURCES];

    info.honesty = lw_run_sources_text(sources, NULL, exec_honesty_name(x->result.honesty));
    *run = -1; /* a new row */
    return cmd_exec_store(db, &info, &x->result, &x->measured, LW_OK, "", run, &(bool){false},
                          err);
}
