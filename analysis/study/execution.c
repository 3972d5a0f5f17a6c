/* An execution from its request to its output: plan, ranks (in this process, in several, or started
 * by it), run, row of the database, and what is printed. The row is in the database before anything
 * can end the run. A run that cannot be stored is still printed. */
#include "analysis/study/execution.h"

#include <string.h>

#include "analysis/store/store.h"
#include "analysis/study/store_exec_run.h"
#include "analysis/study/stored_plan.h"
#include "exec/run/exec_print.h"
#include "exec/run/memory_fit.h"
#include "shared/cli/cli.h"
#include "shared/cluster/calibrated_backend.h"
#include "shared/cluster/calibrated_probe.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework_memory.h"
#include "shared/plan/grid_rule.h"
#include "shared/text/wrap.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/memory_predict.h"

static enum lw_status load(struct lw_execution *s, const char *plan_file, struct lw_err *err)
{
    if (s->no_check && (s->source.workload_file || s->source.strategy_file || s->source.n_given))
        return lw_fail(err, LW_EUSAGE, "--no-check runs a plan file unchanged: leave out -w and "
                                       "strategy options");
    LW_TRY(lw_stored_plan(s->db, s->run, !s->no_db, plan_file, &s->source, err));
    LW_TRY(lw_plan_source_cluster(&s->source, &s->cluster, err));
    struct lw_cost cost = lw_sim_cost(&s->cluster);

    s->options.ranks_per_node = cost.ranks_per_node;

    if (!s->no_check || (!plan_file && !s->run)) {
        LW_TRY(lw_plan_source_load(&s->source, plan_file, &cost, &s->cluster, &s->plan, err));
        return lw_plan_write_tables(&s->plan, err);
    }
    return lw_plan_source_read(&s->source, plan_file, true, &s->cluster, &s->plan, err);
}

static bool is_first(const struct lw_execution *s)
{
    return !s->several || s->id.rank == 0;
}

/* The plan's times are those of the cluster's device, or are said to be. */
static bool is_of_cluster(const struct lw_execution *s)
{
    const char *device = s->plan.device;

    return s->source.cluster_file ||
           (device && device[0] && lw_device_same_kind(device, s->cluster.device.kind));
}

/* What sim predicts, before the run, once for all ranks; nothing where the cluster is not the
 * times' own, or the plan was not checked. */
static void predict_memory(struct lw_execution *s)
{
    lw_framework_hold(&s->source.framework, &s->plan);
    if (!is_of_cluster(s) || s->no_check || !is_first(s))
        return;
    s->has_memory = lw_memory_predict(&s->plan, &s->source.framework, &s->cluster, &s->memory,
                                      &s->no_memory) == LW_OK;
}

static enum lw_status run(struct lw_execution *s, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, s->quiet);

    s->options.progress = &progress;
    if (!is_first(s))
        s->options.progress = NULL;
    enum lw_status status =
        s->several ? lw_exec_team_run(&s->plan, &s->options, &s->id, &s->team, &s->result, err)
                   : lw_exec_run(&s->plan, &s->options, &s->result, err);
    lw_progress_bar_end(&bar);
    return status;
}

static struct lw_run_info info_of(struct lw_execution *s, bool over)
{
    lw_exec_sources(&s->result, s->options.compute, s->sources);
    return (struct lw_run_info){.kind = LW_RUN_EXEC, .plan = &s->plan, .cluster = &s->cluster,
                                .workload = s->source.has_workload ? &s->source.workload : NULL,
                                .backend = s->options.backend->name,
                                .honesty = s->sources,
                                .command = s->command, .name = s->name,
                                .n_warmup = s->result.n_warmup,
                                .over = over};
}

static void record_cause(void *context, const char *why)
{
    struct lw_execution *s = context;

    if (s->team.run >= 0)
        cmd_exec_blame(s->db, s->team.run, why);
}

/* The run is in the database before anything can end it. Where that fails, storing is tried
 * again at the end, which then reports why. */
static void begin_row(struct lw_execution *s)
{
    struct lw_run_info info = info_of(s, false);
    struct lw_err unused;

    s->team.run = -1;
    s->team.stopped = record_cause;
    s->team.context = s;
    if (s->several && s->id.rank == 0)
        s->team.run = exec_spawned_run();
    if (s->team.run < 0 && !s->no_db && is_first(s))
        (void)cmd_exec_begin(s->db, &info, &s->team.run, &unused);
}

static enum lw_status store(struct lw_execution *s, enum lw_status ran, const char *message,
                            int64_t *run, bool *mine, struct lw_err *err)
{
    struct lw_run_info info = info_of(s, true);
    int64_t id = s->team.run;

    LW_TRY(cmd_exec_store(s->db, &info, &s->result, &s->summary, ran, message, &id, mine, err));
    *run = id;
    return LW_OK;
}

/* Rank 0; where it is lost, the process that stored the run instead. Without a database that is
 * rank 1. Of spawned processes the parent sees that rank 0 is lost. */
static bool prints(const struct lw_execution *s, bool mine)
{
    return !s->several || s->id.rank == 0 ||
           (s->result.speaks && mine && !s->spawn && (s->id.rank == 1 || !s->no_db));
}

/* Who runs the ranks: this process alone, this one of several, or copies of it (--spawn). */
static enum lw_status find_ranks(struct lw_execution *s, struct lw_err *err)
{
    bool found = false;

    LW_TRY(exec_identity_read(&s->id, &found, err));
    s->id.signal = s->options.signal;
    if (s->rendezvous)
        LW_TRY(exec_identity_address(&s->id, s->rendezvous, err));
    s->several = found && s->id.n_ranks > 1;
    if (s->spawn && found && !exec_is_spawned())
        return lw_fail(err, LW_EINVAL,
                       "--spawn starts the ranks, and %s says that this is rank %d of "
                       "%d: use one of them",
                       s->id.source, s->id.rank, s->id.n_ranks);
    LW_TRY(lw_exec_fits(&s->plan, &s->options, s->several ? s->id.n_here : s->plan.n_ranks, err));
    s->spawns = s->spawn && !found && s->plan.n_ranks > 1;
    return s->spawns ? exec_can_spawn(s->options.backend, err) : LW_OK;
}

/* The row is this process's. Where no rank finished it, it says how they ended. */
static enum lw_status spawn(struct lw_execution *s, struct lw_err *err)
{
    begin_row(s);
    struct exec_spawning spawning = {.backend = s->options.backend, .n_ranks = s->plan.n_ranks,
                                     .grace_ns = s->options.timeout_ns,
                                     .rendezvous = s->rendezvous, .signal = s->options.signal,
                                     .run = s->team.run};
    struct lw_err own = {0};
    enum lw_status status = exec_spawn(&spawning, &s->spawned, err);

    if (s->team.run >= 0)
        (void)store(s, status == LW_OK ? LW_EFAILED : status,
                    status == LW_OK ? "no rank stored the run" : err->msg, &(int64_t){0},
                    &(bool){false}, &own);
    if (s->team.run >= 0 && s->spawned.first >= 0)
        cmd_exec_name_cause(s->db, s->team.run, s->spawned.first, s->spawned.how,
                            s->spawned.signal_no != 0);
    if (s->spawned.printed)
        lw_cli_no_json();
    return status;
}

/* What the run was: into the database, and on `out` by rank 0, also when it could not be
 * stored. `why` is how it ended. */
static enum lw_status store_and_print(struct lw_execution *s, enum lw_status ran,
                                      const struct lw_err *why, FILE *out, FILE *notes,
                                      struct lw_err *err)
{
    bool mine = true;
    enum lw_status stored = LW_OK;
    struct lw_exec_report r = {.plan = &s->plan, .options = &s->options, .result = &s->result,
                               .summary = &s->summary, .message = why->msg, .run = -1,
                               .status = cmd_exec_status_name(ran),
                               .verify = s->options.verify, .cluster = &s->cluster,
                               .of_cluster = is_of_cluster(s),
                               .workload = s->source.has_workload ? &s->source.workload : NULL,
                               .framework = &s->source.choice,
                               .memory = s->has_memory ? &s->memory : NULL,
                               .no_memory = s->no_memory.msg,
                               .cost = lw_sim_cost(&s->cluster)};

    LW_TRY(lw_exec_measure_calls(&s->plan, &s->result, err));
    LW_TRY(lw_exec_find_speed(
        &s->plan, lw_calibrated_probe(&s->cluster, s->result.compute, s->plan.n_ranks), &s->result,
        err));
    if (s->result.n_steps > 0)
        LW_TRY(lw_timeline_summarize(&s->result.timeline, &s->plan, s->result.n_warmup, &s->summary,
                                     err));
    if (!s->no_db)
        stored = store(s, ran, why->msg, &r.run, &mine, err);
    if (ran == LW_OK && stored != LW_OK && s->format == LW_FORMAT_JSON) {
        r.status = "failed";
        r.message = err->msg;
    }
    lw_exec_print_stop(&r, notes);
    if (prints(s, mine) && (ran == LW_OK || ran == LW_ENO || s->format == LW_FORMAT_JSON))
        LW_TRY(lw_exec_print(&r, s->format, out, stored == LW_OK ? err : NULL));
    return stored;
}

/* How a run ended, and whether it was stored: the run's own status comes first. */
static enum lw_status join_errors(enum lw_status ran, const struct lw_err *why,
                                  enum lw_status stored, struct lw_err *err)
{
    struct lw_err what = *err;

    if (ran == LW_OK || stored == LW_OK) {
        *err = ran == LW_OK ? what : *why;
        return ran == LW_OK ? stored : ran;
    }
    return lw_fail(err, ran, "%.330s; nor could this be stored: %.140s", why->msg, what.msg);
}

/* What is asked for in the executor's own terms. */
static void fill_options(struct lw_execution *s)
{
    s->options.loop = s->transport && strcmp(s->transport, "loop") == 0;
    s->options.n_steps = (int32_t)s->steps;
    s->options.n_warmup = (int32_t)s->warmup;
    s->options.timeout_ns = (int64_t)(s->timeout_s * 1e9);
    s->options.consolidate = (int32_t)s->consolidate;
    s->options.verify = !s->no_verify;
    s->options.pin = !s->no_pin;
    s->options.link_bytes_per_s = (double)s->link_bytes_per_s;
    s->options.link_latency_ns = lw_ps_to_ns(s->link_latency);
}

/* Its prediction has the times of another backend. */
static void note_calibration(const struct lw_execution *s, FILE *notes)
{
    char name[LW_CALIBRATED_BACKEND];

    if (notes && is_first(s) && lw_calibrated_for_another(&s->cluster, s->backend))
        lw_printf_paragraph(notes,
                            "lapwing: cluster '%s' was calibrated with backend %s, and this run is "
                            "of backend %s: the difference from its prediction is not the model's "
                            "alone (lapwing calibrate --backend %s)", s->cluster.name,
                            lw_calibrated_backend(&s->cluster, name), s->backend, s->backend);
}

/* What runs in the place of the plan's optimizer is the user's choice where it cannot run. */
static enum lw_status check_optimizer(const struct lw_execution *s, struct lw_err *err)
{
    const char *muon = lw_optimizer_name(LW_OPTIMIZER_MUON);

    return s->plan.optimizer && strcmp(s->plan.optimizer, muon) == 0 && !s->optimizer_given
               ? lw_fail(err, LW_ENOTSUP,
                         "plan '%s' has the optimizer %s, which is not executed: --optimizer sgd, "
                         "momentum or adam runs another in its place", s->plan.name, muon)
               : LW_OK;
}

enum lw_status lw_execution_run(struct lw_execution *s, const char *plan_file, FILE *out,
                                FILE *notes, struct lw_err *err)
{
    struct lw_err why = {0};

    fill_options(s);
    LW_TRY(load(s, plan_file, err));
    LW_TRY(check_optimizer(s, err));
    LW_TRY(exec_backend_find(s->backend, &s->options.backend, err));
    if (s->options.nccl_env[0] && (s->options.loop ||
                        !(s->options.backend->capabilities & EXEC_CAN_REGISTER)))
        return lw_fail(err, LW_ENOTSUP, "--nccl-env: %s '%s' communicates without NCCL",
                       s->options.loop ? "a loop of backend" : "backend", s->backend);
    LW_TRY(find_ranks(s, err));
    if (!s->no_db && !exec_is_spawned() && is_first(s))
        LW_TRY(lw_store_usable(s->db, err));
    if (s->spawns)
        return spawn(s, err);
    predict_memory(s);
    note_calibration(s, notes);
    begin_row(s);
    enum lw_status ran = run(s, &why);
    bool has_row = s->team.run >= 0 && is_first(s);
    if (!has_row && (!cmd_exec_ran(ran) || (s->several && !s->result.speaks))) {
        *err = why;
        return ran;
    }
    if (!cmd_exec_ran(ran)) { /* nothing was measured */
        if (!s->no_db)
            (void)store(s, ran, why.msg, &(int64_t){0}, &(bool){false}, err);
        *err = why;
        return ran;
    }
    return join_errors(ran, &why, store_and_print(s, ran, &why, out, notes, err), err);
}

void lw_execution_free(struct lw_execution *s)
{
    lw_summary_free(&s->summary);
    lw_exec_result_free(&s->result);
    lw_plan_free(&s->plan);
    lw_cluster_free(&s->cluster);
    lw_plan_source_free(&s->source);
    exec_rendezvous_close(s->team.rendezvous);
}
