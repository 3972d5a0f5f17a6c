/* lapwing exec: run a plan for real, check what it computed, store what it did. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/study/execution.h"
#include "exec/backend/backend.h"
#include "exec/launch/rendezvous.h"
#include "exec/launch/spawn.h"
#include "exec/run/exec_print.h"
#include "shared/base/hash.h"
#include "shared/base/progress.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "traces/models/model_workload.h"

static const struct lw_usage usage = {
    .command = "exec",
    .synopsis = "PLAN.json | --run RUN | -w WORKLOAD.json [-c CLUSTER] [strategy options]",
    .about =
        "Runs a plan for real: every op takes its recorded time, gradients are real memory, "
        "reduced in the plan's buckets and order, and updated. At the end every parameter must "
        "equal a one-rank run of the same steps bit by bit (exit status 3 if not). A run that "
        "cannot be stored is printed all the same (exit status 1).",
    .max_operands = 1,
};

/* --nccl-env: before the backend is loaded, so that NCCL finds it. */
static enum lw_status set_nccl_env(void *session, const char *name, const char *value,
                                   struct lw_err *err)
{
    struct lw_execution *s = session;
    const char *is = strchr(value, '=');
    char variable[64];

    if (strncmp(value, "NCCL_", 5) != 0 || !is || is - value >= (ptrdiff_t)sizeof variable)
        return lw_fail(err, LW_EINVAL, "--%s %s: expected NCCL_NAME=VALUE", name, value);
    snprintf(variable, sizeof variable, "%.*s", (int)(is - value), value);
    if (variable[5] == '\0' || setenv(variable, is + 1, 1) != 0)
        return lw_fail(err, LW_EINVAL, "--%s %s: cannot be set", name, value);
    struct lw_hash *all = lw_hash_new(); /* all ranks must be given the same */
    if (!all)
        return lw_fail_nomem(err);
    lw_hash_string(all, s->options.nccl_env);
    lw_hash_string(all, value);
    lw_hash_finish(all, s->options.nccl_env);
    return LW_OK;
}

static void only_rank_0_prints(void)
{
    struct exec_identity id = {0};
    bool found = false;

    if (exec_identity_read(&id, &found, NULL) == LW_OK && found && id.rank > 0)
        lw_cli_no_json();
}

/* Options whose value is one of some words. */
struct words {
    const char *optimizer, *compute, *fault;
    double momentum;
};

static enum lw_status take_words(const struct words *w, struct lw_execution *s, struct lw_err *err)
{
    LW_TRY(exec_compute_parse(w->compute, &s->options.compute, err));
    if (w->fault)
        LW_TRY(lw_exec_fault_parse(w->fault, &s->options.fault, err));
    s->optimizer_given = w->optimizer || w->momentum >= 0;
    return exec_optimizer_choose(w->optimizer, w->momentum, &s->options.optimizer, err);
}

static enum lw_status is_fault(const char *text, struct lw_err *err)
{
    struct lw_exec_fault f;

    return lw_exec_fault_parse(text, &f, err);
}

static enum lw_status is_address(const char *text, struct lw_err *err)
{
    struct exec_identity id;

    return exec_identity_address(&id, text, err);
}

static int run_command(int argc, char **argv)
{
    struct lw_execution s = {
        .options = lw_exec_options_default(), .backend = "threads", .db = "lapwing.db", .steps = 20,
        .warmup = 3, .timeout_s = 30, .team = {.run = -1}, .consolidate = -1,
        .source.make_model = traces_model_workload,
        .source.simulates_nothing = true,
        .source.silent = exec_is_spawned()}; /* the command that spawned it has said it */
    struct words words = {.compute = "gemm", .momentum = -1};
    bool list = false;
    const struct lw_opt_call env = {set_nccl_env, &s};
    const struct lw_opt own[] = {
        {"backend", 0, LW_OPT_STRING, &s.backend, "NAME", "threads (threads)",
         .check = exec_backend_known},
        {"list-backends", 0, LW_OPT_FLAG, &list, NULL, "list the backends, whether each can run, "
                                                       "and what is missing"},
        {"transport", 0, LW_OPT_STRING, &s.transport, "nccl|loop",
         "backend nccl: nccl = one process and GPU per rank, loop = all ranks on one GPU (nccl)"},
        {"nccl-env", 0, LW_OPT_CALL, (void *)&env, "NCCL_NAME=VALUE",
         "set a variable of NCCL before it starts; may be repeated (none)"},
        {"nccl-register", 0, LW_OPT_FLAG, &s.options.registered, NULL,
         "register buffers with NCCL, which then sends them without an internal copy"},
        {"graph", 0, LW_OPT_FLAG, &s.options.graph, NULL,
         "nccl: submit each measured step as one CUDA graph"},
        {"spawn", 0, LW_OPT_FLAG, &s.spawn, NULL, "start one process per rank on this machine"},
        {"rendezvous", 0, LW_OPT_STRING, &s.rendezvous, "HOST:PORT",
         "where rank 0 listens, [IPv6]:PORT too (127.0.0.1, or the launcher's)",
         .check = is_address},
        {"fault", 0, LW_OPT_STRING, &words.fault, "RANK:STEP:OP:KIND",
         "inject a fault, to test stopping and verification: fail|hang|memory|flip|exit|kill|stop "
         "(none)", .check = is_fault},
        {"steps", 0, LW_OPT_INT, &s.steps, "N", "measured optimizer steps (20)", 1, 100000},
        {"warmup", 0, LW_OPT_INT, &s.warmup, "K", "warm-up steps; below 2 the measured steps begin "
                                                  "cold (3)",
         0, 100000},
        {"compute", 0, LW_OPT_STRING, &words.compute, "gemm|spin|sleep",
         "work of a compute op (gemm)"},
        {"timeout", 0, LW_OPT_DOUBLE, &s.timeout_s, "SECONDS",
         "stop when no op has ended for this long (30)", 0, 1000000, .check = lw_cli_above_0},
        {"no-check", 0, LW_OPT_FLAG, &s.no_check, NULL, "run a plan file without proving it"},
        {"no-verify", 0, LW_OPT_FLAG, &s.no_verify, NULL, "do not compare with a one-rank run"},
        {"no-pin", 0, LW_OPT_FLAG, &s.no_pin, NULL, "leave threads on any core"},
        {"link-rate", 0, LW_OPT_SIZE, &s.link_bytes_per_s, "BYTES",
         "pace links between nodes, or all on one node, to this many bytes per second"},
        {"link-latency", 0, LW_OPT_TIME, &s.link_latency, "TIME", "of a paced link (0)",
         .needs = "link-rate"},
        {"optimizer", 0, LW_OPT_STRING, &words.optimizer, "sgd|momentum|adam",
         "what updates the weights (sgd)"},
        {"momentum", 0, LW_OPT_DOUBLE, &words.momentum, "M",
         "of momentum, beta1 of adam (0.9); alone: --optimizer momentum", 0, 1},
        {"consolidate", 0, LW_OPT_INT, &s.consolidate, "RANK",
         "gather the optimizer state of this rank's data group on it (none)", 0, INT32_MAX},
        {"run", 0, LW_OPT_STRING, &s.run, "RUN",
         "the plan of a stored run: an id or 'last' (none)", .check = lw_cli_run},
        LW_OPTIONS_OF_RUNS(s),
        {0},
    };
    struct lw_err err = {0};
    int n;

    only_rank_0_prints();
    lw_cli_join(argc, argv, s.command, sizeof s.command);
    int rc = lw_plan_source_begin(&s.source, &usage, own, argc, argv, &n);
    if (rc >= 0)
        return rc;
    if (list)
        return lw_cli_end("exec", lw_exec_print_backends(s.format, stdout, &err), &err);
    enum lw_status status = take_words(&words, &s, &err);
    if (status != LW_OK)
        return lw_cli_end("exec", status, &err);
    s.source.model_optimizer = words.optimizer;
    s.options.signal = lw_catch_signals(); /* a run that a launcher or user ends is stored */
    status = lw_execution_run(&s, n > 0 ? argv[1] : NULL, stdout, stderr, &err);
    lw_execution_free(&s);
    return status == LW_OK && s.spawned.exit_status ? s.spawned.exit_status
                                                    : lw_cli_end("exec", status, &err);
}

int cmd_exec(int argc, char **argv)
{
    int rc = run_command(argc, argv);

    if (rc != LW_EXIT_OK)
        exec_rendezvous_not_coming(rc);
    return rc;
}
