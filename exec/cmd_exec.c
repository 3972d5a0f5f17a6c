/* lapwing exec: run a plan for real, check what it computed, store what it did. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/store.h"
#include "analysis/study/store_exec_run.h"
#include "exec/run/exec_print.h"
#include "exec/run/memory_fit.h"
#include "exec/run/run.h"
#include "exec/launch/multi_process.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/cli/plan_source.h"
#include "sim/cost/cost_model.h"

static const struct lw_usage usage = {
    .command = "exec",
    .synopsis = "PLAN.json | -w WORKLOAD.json [-c CLUSTER] [strategy options]",
    .about =
        "Runs a plan for real: every op takes its recorded time, gradients are real memory, "
        "reduced in the plan's buckets and order, and updated. At the end every parameter must "
        "equal a one-rank run of the same steps bit by bit (exit status 3 if not). A run that "
        "cannot be stored is printed all the same (exit status 1).",
    .min_operands = 0,
    .max_operands = 1,
};

/* The number of the signal that asks this process to end; a handler has no other place for it. */
static volatile sig_atomic_t asked_to_end;

static void note_signal(int signal)
{
    asked_to_end = signal;
}

/* The first one stops the run, which is then stored; a second one ends the process. Launchers send
 * SIGTERM when another process of the run has died. */
static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};

    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
}

struct session {
    struct lw_plan_source source;
    struct lw_exec_options options;
    const char *optimizer, *backend, *compute, *db, *name, *transport, *rendezvous, *fault;
    char command[1024];
    bool no_check, no_verify, no_pin, no_db, list, spawn, quiet, nccl_env;
    int64_t steps, warmup, link_bytes_per_s, consolidate;
    struct exec_identity id; /* this process, where ranks are processes (several) */
    bool several;
    bool spawns;             /* this one only starts them */
    struct lw_exec_team team; /* of several; closed at the end: the others wait for it */
    struct exec_spawned spawned; /* how the spawned processes ended */
    lw_ps link_latency;
    double momentum, timeout_s; /* momentum -1: the optimizer's own */
    enum lw_format format;
    struct lw_plan plan;
    struct lw_cluster cluster;
    struct lw_exec_result result;
    struct lw_summary summary;
};

static enum lw_status load(struct session *s, const char *plan_file, struct lw_err *err)
{
    LW_TRY(lw_plan_source_cluster(&s->source, &s->cluster, err));
    struct lw_cost cost = lw_sim_cost(&s->cluster);

    s->options.ranks_per_node = cost.ranks_per_node;

    if (!s->no_check || !plan_file)
        return lw_plan_source_load(&s->source, plan_file, &cost, &s->plan, err);
    if (s->source.workload_file || s->source.n_given > 0)
        return lw_fail(err, LW_EINVAL, "--no-check runs a plan file as it is: no -w, no strategy");
    return lw_plan_read(plan_file, true, &s->plan, err);
}

static enum lw_status run(struct session *s, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, s->quiet);

    s->options.progress = &progress;
    if (s->several && s->id.rank > 0)
        s->options.progress = NULL;
    enum lw_status status =
        s->several ? lw_exec_team_run(&s->plan, &s->options, &s->id, &s->team, &s->result, err)
                   : lw_exec_run(&s->plan, &s->options, &s->result, err);
    lw_progress_bar_end(&bar);
    return status;
}

static struct lw_run_info info_of(const struct session *s, bool over)
{
    return (struct lw_run_info){.kind = LW_RUN_EXEC, .plan = &s->plan, .cluster = &s->cluster,
                                .workload = s->source.has_workload ? &s->source.workload : NULL,
                                .backend = s->options.backend->name,
                                .honesty = exec_honesty_name(s->result.honesty),
                                .command = s->command, .name = s->name,
                                .n_warmup = s->result.n_warmup,
                                .over = over};
}

static void blame(void *context, const char *why)
{
    struct session *s = context;

    if (s->team.run >= 0)
        cmd_exec_blame(s->db, s->team.run, why);
}

/* The run is in the database before anything can end it. Where that fails, storing is tried
 * again at the end, which then reports why. */
static void begin_row(struct session *s)
{
    struct lw_run_info info = info_of(s, false);
    struct lw_err unused;

    s->team.run = -1;
    s->team.stopped = blame;
    s->team.context = s;
    if (!s->no_db && !(s->several && s->id.rank > 0))
        (void)cmd_exec_begin(s->db, &info, &s->team.run, &unused);
}

static enum lw_status store(struct session *s, enum lw_status ran, const char *message,
                            int64_t *run, struct lw_err *err)
{
    struct lw_run_info info = info_of(s, true);
    int64_t id = s->team.run;

    LW_TRY(cmd_exec_store(s->db, &info, &s->result, &s->summary, ran, message, &id, err));
    *run = id;
    return LW_OK;
}

/* Who runs the ranks: this process alone, this one of several, or copies of it (--spawn). */
static enum lw_status find_ranks(struct session *s, struct lw_err *err)
{
    bool found = false;

    LW_TRY(exec_identity_read(&s->id, &found, err));
    if (s->rendezvous)
        LW_TRY(exec_identity_address(&s->id, s->rendezvous, err));
    s->several = found && s->id.n_ranks > 1;
    if (s->spawn && found && strncmp(s->id.source, "lapwing", 7) != 0)
        return lw_fail(err, LW_EUSAGE,
                       "--spawn starts the ranks, and %s says that this is rank %d of "
                       "%d: use one of them",
                       s->id.source, s->id.rank, s->id.n_ranks);
    LW_TRY(lw_exec_fits(&s->plan, &s->options, s->several ? s->id.n_here : s->plan.n_ranks, err));
    s->spawns = s->spawn && !found && s->plan.n_ranks > 1;
    if (!s->spawns)
        return LW_OK;
    if (!(s->options.backend->capabilities & EXEC_CAN_PROCESS))
        return lw_fail(err, LW_ENOTSUP, "--spawn: backend '%s' has all ranks in one process",
                       s->options.backend->name);
    if (!(s->options.backend->capabilities & EXEC_CAN_SPAWN))
        return lw_fail(err, LW_ENOTSUP, "--spawn: processes of backend '%s' are started by its own "
                                        "launcher: mpirun -n %d lapwing exec ..., or srun",
                       s->options.backend->name, s->plan.n_ranks);
    return LW_OK;
}

static enum lw_status spawn(struct session *s, struct lw_err *err)
{
    enum lw_status status = exec_spawn(s->plan.n_ranks, s->options.timeout_ns, s->rendezvous,
                                       &asked_to_end, &s->spawned, err);

    if (!s->no_db)
        cmd_exec_find_dead(s->db);
    if (s->spawned.rank_0_ended)
        lw_cli_no_json();
    return status;
}

/* What the run was: into the database, and on stdout by rank 0, also when it could not be
 * stored. `why` is how it ended. */
static enum lw_status tell(struct session *s, enum lw_status ran, const struct lw_err *why,
                           struct lw_err *err)
{
    bool silent = s->several && s->id.rank > 0;
    enum lw_status stored = LW_OK;
    struct lw_exec_report r = {.plan = &s->plan, .options = &s->options, .result = &s->result,
                               .summary = &s->summary, .message = why->msg, .run = -1,
                               .status = cmd_exec_status_name(ran),
                               .verify = s->options.verify, .cluster = &s->cluster,
                               .workload = s->source.has_workload ? &s->source.workload : NULL,
                               .cost = lw_sim_cost(&s->cluster)};

    LW_TRY(lw_exec_measure_calls(&s->plan, &s->result, err));
    if (s->result.n_steps > 0)
        LW_TRY(lw_timeline_summarize(&s->result.timeline, &s->plan, s->result.n_warmup, &s->summary,
                                     err));
    if (!s->no_db)
        stored = store(s, ran, why->msg, &r.run, err);
    lw_exec_print_stop(&r, stderr);
    if (!silent && (ran == LW_OK || ran == LW_ENO || s->format == LW_FORMAT_JSON))
        LW_TRY(lw_exec_print(&r, s->format, stdout, stored == LW_OK ? err : NULL));
    return stored;
}

/* How a run ended, and what came of telling it: the run's own status comes first. */
static enum lw_status both(enum lw_status ran, const struct lw_err *why, enum lw_status told,
                           struct lw_err *err)
{
    struct lw_err what = *err;

    if (ran == LW_OK || told == LW_OK) {
        *err = ran == LW_OK ? what : *why;
        return ran == LW_OK ? told : ran;
    }
    return lw_fail(err, ran, "%.330s; nor could this be stored: %.140s", why->msg, what.msg);
}

static enum lw_status work(struct session *s, const char *plan_file, struct lw_err *err)
{
    struct lw_err why = {0};

    LW_TRY(load(s, plan_file, err));
    LW_TRY(exec_backend_find(s->backend, &s->options.backend, err));
    if (s->nccl_env && (s->options.loop ||
                        !(s->options.backend->capabilities & EXEC_CAN_REGISTER)))
        return lw_fail(err, LW_ENOTSUP, "--nccl-env: %s '%s' communicates without NCCL",
                       s->options.loop ? "a loop of backend" : "backend", s->backend);
    LW_TRY(find_ranks(s, err));
    if (s->spawns)
        return spawn(s, err);
    begin_row(s);
    enum lw_status ran = run(s, &why);
    bool has_row = s->team.run >= 0 && !(s->several && s->id.rank > 0);
    if (!has_row && (!cmd_exec_ran(ran) || (s->several && !s->result.speaks))) {
        *err = why;
        return ran;
    }
    if (!cmd_exec_ran(ran)) { /* nothing was measured */
        if (!s->no_db)
            (void)store(s, ran, why.msg, &(int64_t){0}, err);
        *err = why;
        return ran;
    }
    return both(ran, &why, tell(s, ran, &why, err), err);
}

/* --nccl-env: before the backend is loaded, so that NCCL finds it. */
static enum lw_status set_nccl_env(void *session, const char *name, const char *value,
                                   struct lw_err *err)
{
    struct session *s = session;
    const char *is = strchr(value, '=');
    char variable[64];

    if (strncmp(value, "NCCL_", 5) != 0 || !is || is - value >= (ptrdiff_t)sizeof variable)
        return lw_fail(err, LW_EINVAL, "--%s %s: expected NCCL_NAME=VALUE", name, value);
    snprintf(variable, sizeof variable, "%.*s", (int)(is - value), value);
    s->nccl_env = variable[5] != '\0' && setenv(variable, is + 1, 1) == 0;
    return s->nccl_env ? LW_OK : lw_fail(err, LW_EINVAL, "--%s %s: cannot be set", name, value);
}

static enum lw_status choose_optimizer(struct session *s, struct lw_err *err)
{
    enum exec_optimizer_kind kind = s->momentum >= 0 ? EXEC_MOMENTUM : EXEC_SGD;

    if (s->optimizer)
        LW_TRY(exec_optimizer_parse(s->optimizer, &kind, err));
    if (kind == EXEC_SGD && s->momentum > 0)
        return lw_fail(err, LW_EUSAGE, "--momentum %g: --optimizer sgd has none (momentum, adam)",
                       s->momentum);
    s->options.optimizer = exec_optimizer_of(kind);
    if (kind == EXEC_ADAM && s->momentum >= 0 && (float)s->momentum >= 1)
        return lw_fail(err, LW_EUSAGE,
                       "--momentum %.12g: beta1 of adam must be below 1 as an f32 (its steps "
                       "are divided by 1 - beta1)",
                       s->momentum);
    if (s->momentum >= 0)
        s->options.optimizer.momentum = (float)s->momentum;
    return LW_OK;
}

static void only_rank_0_prints(void)
{
    struct exec_identity id = {0};
    bool found = false;

    if (exec_identity_read(&id, &found, NULL) == LW_OK && found && id.rank > 0)
        lw_cli_no_json();
}

static void session_free(struct session *s)
{
    lw_summary_free(&s->summary);
    lw_exec_result_free(&s->result);
    lw_plan_free(&s->plan);
    lw_cluster_free(&s->cluster);
    lw_plan_source_free(&s->source);
    exec_rendezvous_close(s->team.rendezvous);
}

/* What the words say in the executor's own terms. */
static void fill_options(struct session *s)
{
    s->options.signal = &asked_to_end;
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

int cmd_exec(int argc, char **argv)
{
    struct session s = {.options = lw_exec_options_default(), .backend = "threads",
                        .compute = "gemm", .db = "lapwing.db", .steps = 20, .warmup = 3,
                        .timeout_s = 30, .team = {.run = -1}, .momentum = -1, .consolidate = -1};
    const struct lw_opt_call env = {set_nccl_env, &s};
    const struct lw_opt own[] = {
        {"backend", 0, LW_OPT_STRING, &s.backend, "NAME", "threads (threads)", 0, 0},
        {"list-backends", 0, LW_OPT_FLAG, &s.list, NULL, "say which backends can run, and why not",
         0, 0},
        {"transport", 0, LW_OPT_STRING, &s.transport, "HOW",
         "nccl|loop: how ranks of backend nccl meet; loop = all on one GPU (nccl)", 0, 0},
        {"nccl-env", 0, LW_OPT_CALL, (void *)&env, "NCCL_NAME=VALUE",
         "set a variable of NCCL before it starts; may be repeated (none)", 0, 0},
        {"nccl-register", 0, LW_OPT_FLAG, &s.options.registered, NULL,
         "register buffers with NCCL: it moves them without a copy of its own", 0, 0},
        {"graph", 0, LW_OPT_FLAG, &s.options.graph, NULL,
         "nccl: submit each measured step as one CUDA graph", 0, 0},
        {"spawn", 0, LW_OPT_FLAG, &s.spawn, NULL, "start one process per rank on this machine", 0,
         0},
        {"rendezvous", 0, LW_OPT_STRING, &s.rendezvous, "HOST:PORT",
         "where rank 0 listens, [IPv6]:PORT too (127.0.0.1, or the launcher's)", 0, 0},
        {"fault", 0, LW_OPT_STRING, &s.fault, "RANK:STEP:OP:KIND",
         "tests of stopping, verification: fail|hang|memory|flip|exit|kill|stop (none)", 0, 0},
        {"steps", 0, LW_OPT_INT, &s.steps, "N", "measured optimizer steps (20)", 1, 100000},
        {"warmup", 0, LW_OPT_INT, &s.warmup, "K", "steps before them; below 2 they begin cold (3)",
         0, 100000},
        {"compute", 0, LW_OPT_STRING, &s.compute, "HOW", "gemm|spin|sleep (gemm)", 0, 0},
        {"timeout", 0, LW_OPT_DOUBLE, &s.timeout_s, "SECONDS",
         "longest time without an op that ends (30)", 0, 1000000},
        {"no-check", 0, LW_OPT_FLAG, &s.no_check, NULL, "run a plan file without proving it", 0, 0},
        {"no-verify", 0, LW_OPT_FLAG, &s.no_verify, NULL, "do not compare with a one-rank run", 0,
         0},
        {"no-pin", 0, LW_OPT_FLAG, &s.no_pin, NULL, "leave threads on any core", 0, 0},
        {"link-rate", 0, LW_OPT_SIZE, &s.link_bytes_per_s, "BYTES",
         "pace links between nodes, or all on one node, to this many bytes per second", 0, 0},
        {"link-latency", 0, LW_OPT_TIME, &s.link_latency, "TIME", "of a paced link (0)", 0, 0},
        {"optimizer", 0, LW_OPT_STRING, &s.optimizer, "NAME",
         "sgd|momentum|adam: what updates the weights (sgd)", 0, 0},
        {"momentum", 0, LW_OPT_DOUBLE, &s.momentum, "M",
         "of momentum, beta1 of adam (0.9); alone: --optimizer momentum", 0, 1},
        {"consolidate", 0, LW_OPT_INT, &s.consolidate, "RANK",
         "put the optimizer state of this rank's data group together on it (none)", 0, INT32_MAX},
        LW_OPTION_DB(&s.db),
        {"name", 0, LW_OPT_STRING, &s.name, "TEXT", "what to call the run (made from its options)",
         0, 0},
        LW_OPTION_QUIET(&s.quiet),
        LW_OPTION_NO_DB(&s.no_db),
        LW_OPTION_FORMAT(&s.format),
        {0},
    };
    struct lw_err err = {0};
    int n;

    only_rank_0_prints();
    lw_cli_join(argc, argv, s.command, sizeof s.command);
    int rc = lw_plan_source_begin(&s.source, &usage, own, argc, argv, &n);
    if (rc >= 0)
        return rc;
    if (s.list)
        return lw_cli_end("exec", lw_exec_print_backends(s.format, stdout, &err), &err);
    if (exec_compute_parse(s.compute, &s.options.compute, &err) != LW_OK)
        return lw_cli_usage("exec", "%s", err.msg);
    if (s.transport && strcmp(s.transport, "nccl") != 0 && strcmp(s.transport, "loop") != 0)
        return lw_cli_usage("exec", "--transport %s (nccl, loop)", s.transport);
    if (!(s.timeout_s > 0))
        return lw_cli_usage("exec", "--timeout %g: must be more than 0 seconds", s.timeout_s);
    if (s.fault && lw_exec_fault_parse(s.fault, &s.options.fault, &err) != LW_OK)
        return lw_cli_usage("exec", "%s", err.msg);
    catch_signals();
    fill_options(&s);
    if (choose_optimizer(&s, &err) != LW_OK)
        return lw_cli_usage("exec", "%s", err.msg);
    enum lw_status status = work(&s, n > 0 ? argv[1] : NULL, &err);
    session_free(&s);
    return status == LW_OK && s.spawned.exit_status ? s.spawned.exit_status
                                                    : lw_cli_end("exec", status, &err);
}
