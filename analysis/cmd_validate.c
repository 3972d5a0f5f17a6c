/* lapwing validate: predictions beside what was measured, with bars. */
#include <string.h>

#include "analysis/alike/alike_coverage.h"
#include "analysis/netbench/netbench_fit.h"
#include "analysis/validate/validate_here.h"
#include "analysis/validate/validate_kinds.h"
#include "exec/backend/backend.h"
#include "exec/launch/spawn.h"
#include "shared/base/progress.h"
#include "shared/base/shown_text.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"

static const struct lw_usage usage = {
    .command = "validate",
    .synopsis = "FILE... | --here [WORKLOAD.json...] | --coverage [FILE.csv...]",
    .about =
        "Predicts what the files measured, from what was known before the run, and says how far "
        "apart the two are: by case, by family, and in the order of choices such as bucket caps. "
        "Runs of your own are a CSV file whose columns are options of `lapwing sim` and what was "
        "measured (docs/formats/runs.md); all of its cells are checked before the first "
        "prediction. "
        "With --here it calibrates this machine, then predicts and executes a grid of caps, "
        "policies, ZeRO stages and schedules on it. If a bar (the limit for a family's errors) is "
        "missed, the exit status is 3 and a reason is printed.",
    .max_operands = -1,
};

/* The faults from `from` on, a line each; returns how many there are. */
static int32_t say_faults(const struct lw_validation *v, int32_t from)
{
    char shown[1200];

    for (; from < v->n_refusals; from++)
        fprintf(stderr, "lapwing validate: %s\n",
                lw_shown_text(shown, sizeof shown, v->refusals[from].text));
    return from;
}

/* Of the files, or of this machine where `here` is given. */
static enum lw_status collect(struct lw_validate_here *here, const struct lw_validate_file *files,
                              int n, bool quiet, struct lw_validation *v, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, quiet || here);
    enum lw_status status = LW_OK;

    progress.stop = lw_catch_signals();
    v->progress = &progress;
    v->n_files = n;
    if (here) {
        here->stop = progress.stop;
        status = lw_validate_this_machine(here, v, err);
    }
    for (; !here && status == LW_OK && v->n_done < n && !lw_progress_stopped(&progress);
         v->n_done++)
        if (files[v->n_done].kind)
            status = lw_validate_add(&files[v->n_done], v, err);
    lw_progress_bar_end(&bar);
    v->progress = NULL;
    v->interrupted = lw_progress_stopped(&progress);
    if (v->interrupted && v->n_cases > 0) /* the current run may have failed */
        return LW_OK;
    return status == LW_OK && v->interrupted
               ? lw_fail(err, LW_EFAILED, "interrupted before the first case")
               : status;
}

/* Rows that were refused: their lines are printed already. */
static enum lw_status refused(const struct lw_validation *v, struct lw_err *err)
{
    int32_t n = v->n_refusals;

    return lw_fail(err, LW_EFORMAT, "%d fault%s in the files of runs; the other rows are predicted",
                   n, lw_plural(n));
}

static enum lw_status report(struct lw_validation *v, enum lw_format format, struct lw_err *err)
{
    if (v->n_refusals > 0 && v->n_cases == 0 && v->n_skips == 0)
        return lw_fail(err, LW_EFORMAT, "no row is left to predict; faults: %d, first: %s",
                       v->n_refusals, v->refusals[0].text);
    LW_TRY(lw_validation_judge(v, err));
    LW_TRY(lw_validation_print(v, format, stdout, err));
    if (v->interrupted)
        return lw_fail(err, LW_EFAILED, "interrupted: %d case%s done, the others are missing",
                       v->n_cases, v->n_cases == 1 ? " is" : "s are");
    if (v->n_refusals > 0)
        return refused(v, err);
    if (v->n_misses > 0 && v->n_loaded > 0)
        return lw_fail(err, LW_ELOAD,
                       "measured under load: repeat; beside %d of %d runs other programs took more "
                       "than 5 %% of the processors, and %d bar%s missed", v->n_loaded, v->n_cases,
                       v->n_misses, lw_plural(v->n_misses));
    if (v->n_misses > 0)
        return lw_fail(err, LW_ENO, "%d bar%s missed; first: %s %.2f %%, allowed %g %%: %s",
                       v->n_misses, lw_plural(v->n_misses), v->misses[0].bar,
                       v->misses[0].value_pct, v->misses[0].allowed_pct, v->misses[0].reason);
    return LW_OK;
}

/* Every file is read and its cells are checked before the first prediction. Of several files one
 * that cannot be read is a fault like that of a row. */
static enum lw_status open_files(char **names, int n, struct lw_validation *v,
                                 struct lw_validate_file *files, struct lw_err *err)
{
    for (int i = 0; i < n; i++) {
        struct lw_err why = {0};
        enum lw_status status = lw_validate_open(names[i], v, &files[i], &why);
        if (status == LW_OK)
            continue;
        *err = why;
        if (n == 1 || (status != LW_EFORMAT && status != LW_EIO))
            return status;
        LW_TRY(lw_validation_refuse(v, &(struct lw_refusal){names[i], "", why.msg, 0}, err));
    }
    return LW_OK;
}

static enum lw_status validate(struct lw_validate_here *here, char **names, int n, bool quiet,
                               struct lw_validation *v, struct lw_err *err)
{
    struct lw_validate_file *files = NULL;
    int32_t said = 0;

    LW_NEW(files, n + 1, err);
    enum lw_status status = here ? LW_OK : open_files(names, n, v, files, err);
    said = say_faults(v, said);
    if (status == LW_OK)
        status = collect(here, files, n, quiet, v, err);
    if (status == LW_OK && v->framework_file && v->n_framework_rows == 0 && !v->interrupted)
        status = lw_fail(err, LW_EINVAL, "--framework %s: no row has the framework '%s', or names "
                                         "none", v->framework_file, v->framework_name);
    say_faults(v, said);
    for (int i = 0; i < n; i++)
        if (files[i].kind)
            lw_validate_close(&files[i]);
    lw_free(files);
    return status;
}

static enum lw_status work(struct lw_validate_here *here, char **files, int n, bool quiet,
                           const char *framework, double tolerance_pct, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_framework own = {0};

    if (framework)
        LW_TRY(lw_err_context(err, lw_framework_find(framework, &own, err), "--framework"));
    struct lw_validation v = {
        .framework_file = framework, .framework_name = own.name, .tolerance_pct = tolerance_pct};
    enum lw_status status = validate(here, files, n, quiet, &v, err);
    if (status == LW_OK && !(here && here->id && here->id->rank > 0)) /* rank 0 judges */
        status = report(&v, format, err);
    lw_validation_free(&v);
    lw_framework_free(&own);
    return status;
}

/* What the command line asks for. */
struct request {
    struct lw_validate_here here;
    bool on, spawn, coverage; /* --here, --spawn, --coverage */
    char command[1024];
    const char *curves, *framework, *backend, *transport;
    double tolerance_pct;
    enum lw_format format;
};

/* *exit_status: of the processes that --spawn started, where they did the work; else -1. */
static enum lw_status validate_here(struct request *r, int *exit_status, struct lw_err *err)
{
    struct lw_validate_here *here = &r->here;
    struct exec_ranks ranks = {0};

    here->command = r->command;
    here->loop = r->transport != NULL;
    LW_TRY(exec_backend_find(r->backend, &here->backend, err));
    bool alone = here->backend != &exec_backend_threads && !here->loop && !r->spawn;
    enum lw_status status = exec_ranks_find(&ranks, here->backend, &here->n_ranks, alone ? 1 : 2,
                                            r->spawn, err);
    here->id = ranks.several ? &ranks.id : NULL;
    if (ranks.printed)
        lw_cli_no_json();
    LW_TRY(status);
    *exit_status = ranks.over ? ranks.exit_status : -1;
    return ranks.over ? LW_OK
                      : work(here, here->workload_files, here->n_workload_files, here->quiet,
                             r->framework, r->tolerance_pct, r->format, err);
}

/* Of the results that the program carries, or of files like them. */
static enum lw_status print_coverage(char **files, int n, enum lw_format format, struct lw_err *err)
{
    struct lw_alike_runs runs = {.n = 0};
    enum lw_status status = n == 0 ? lw_alike_known(&runs, err) : LW_OK;

    for (int i = 0; status == LW_OK && i < n; i++) {
        struct lw_input in;
        status = lw_input_read(files[i], 0, &in, err);
        if (status != LW_OK)
            break;
        status = lw_alike_add(&in, &runs, err);
        lw_input_free(&in);
    }
    if (status == LW_OK)
        status = lw_alike_print_coverage(&runs, format, stdout, err);
    lw_alike_free(&runs);
    return status;
}

/* An option given of those that concern this machine; NULL: none is. */
static const char *needs_here(const struct request *r)
{
    const struct lw_validate_here *h = &r->here;

    return h->cluster_file  ? "-c"
           : h->only        ? "--only"
           : h->db          ? "--db"
           : r->backend     ? "--backend"
           : r->transport   ? "--transport"
           : r->spawn       ? "--spawn"
           : h->n_ranks > 0 ? "--ranks"
           : h->n_steps > 0 ? "--steps"
                            : NULL;
}

int cmd_validate(int argc, char **argv)
{
    struct request r = {.tolerance_pct = 0};
    struct lw_validate_here *here = &r.here;
    const struct lw_opt table[] = {
        {"here", 0, LW_OPT_FLAG, &r.on, NULL,
         "predict and execute a grid of strategies on this machine"},
        {"cluster", 'c', LW_OPT_STRING, &here->cluster_file, "FILE",
         "with --here: a calibration of this machine (calibrate first)"},
        {"backend", 0, LW_OPT_STRING, &r.backend, "NAME", "with --here: backend (threads)",
         .check = exec_backend_known},
        {"transport", 0, LW_OPT_STRING, &r.transport, "loop",
         "with --here, nccl: all ranks as streams of one GPU"},
        {"spawn", 0, LW_OPT_FLAG, &r.spawn, NULL, "with --here: start one process per rank"},
        {"ranks", 0, LW_OPT_INT, &here->n_ranks, "N",
         "with --here: ranks of a row (2, what a launcher started, or 1 on a GPU)", 1, 64},
        {"steps", 0, LW_OPT_INT, &here->n_steps, "N", "with --here: measured steps of a row (20)",
         1, 100000},
        {"only", 0, LW_OPT_STRING, &here->only, "TEXT",
         "with --here: only rows whose name "
         "contains TEXT"},
        {"db", 0, LW_OPT_STRING, &here->db, "FILE",
         "with --here: store both runs of each row (none)"},
        {"coverage", 0, LW_OPT_FLAG, &r.coverage, NULL,
         "instead: whether the intervals of `lapwing sim` hold for the published runs (or for "
         "files as docs/results/evidence has them), each left out with its table"},
        {"fit-curves", 0, LW_OPT_STRING, &r.curves, "OUT",
         "nccl-tests tables: write the curves of NCCL's model as C "
         "(analysis/netbench/fit_curves.sh)"},
        {"framework", 0, LW_OPT_STRING, &r.framework, "NAME|FILE",
         "tables of runs: the framework of rows that name none; a file takes the place of the "
         "known framework of its name"},
        {"tolerance", 0, LW_OPT_DOUBLE, &r.tolerance_pct, "PCT",
         "files of runs: exit status 3 where the mean error of a family's steps or memory is "
         "larger (no bar)"},
        LW_OPTION_FORCE,
        LW_OPTION_QUIET(&here->quiet),
        LW_OPTION_FORMAT(&r.format),
        {0},
    };
    struct lw_err err = {0};
    int n, exit_status = -1;

    lw_cli_join(argc, argv, r.command, sizeof r.command);
    int rc = lw_cli_begin(&usage, table, argc, argv, &n);
    if (rc >= 0)
        return rc;
    if (!r.on && n == 0 && !r.coverage)
        return lw_cli_usage("validate", "needs files of measurements, or --here");
    if (r.coverage && (r.on || r.curves || r.framework || r.tolerance_pct > 0))
        return lw_cli_usage("validate", "--coverage goes with files of results and --format only");
    const char *lost = r.on ? NULL : needs_here(&r);
    if (lost)
        return lw_cli_usage("validate",
                            "%s goes with --here, which runs on this machine: leave %s out, or "
                            "give --here in place of the files", lost, lost);
    if (r.tolerance_pct > 0 && (r.on || r.curves))
        return lw_cli_usage("validate", "--tolerance goes with files of runs: not with %s",
                            r.on ? "--here" : "--fit-curves");
    if (r.framework && (r.on || r.curves))
        return lw_cli_usage("validate",
                            "--framework does not go with %s: %s", r.on ? "--here" : "--fit-curves",
                            r.on ? "the rows run in Lapwing's own executor, with measured times"
                                 : "collectives run without a training program");
    if (r.curves && r.on)
        return lw_cli_usage("validate", "--fit-curves needs files, not --here");
    r.backend = r.backend ? r.backend : "threads";
    here->n_steps = here->n_steps ? here->n_steps : 20;
    here->workload_files = argv + 1;
    here->n_workload_files = n;
    enum lw_status status =
        r.coverage ? print_coverage(argv + 1, n, r.format, &err)
        : r.curves ? netbench_fit(argv + 1, n, r.curves, &err)
        : r.on     ? validate_here(&r, &exit_status, &err)
               : work(NULL, argv + 1, n, here->quiet, r.framework, r.tolerance_pct, r.format, &err);
    return exit_status >= 0 ? exit_status : lw_cli_end("validate", status, &err);
}
