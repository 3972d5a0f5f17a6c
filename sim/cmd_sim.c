/* lapwing sim: predict a plan's timeline on a cluster. */
#include "analysis/study/prediction.h"
#include "analysis/study/sweep.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

static const struct lw_usage usage = {
    .command = "sim",
    .synopsis = "PLAN.json | --run RUN | -w WORKLOAD.json|MODEL [-c CLUSTER] [strategy options] | "
                "--replay TRACE...",
    .about =
        "Predicts what a plan does on a cluster: step time, busy and exposed times, buckets. Terms "
        "of interference are what the cluster file sets and what --interference adds; each is "
        "listed with its source. Steps before the steady state (first buckets) are simulated and "
        "not measured. "
        "With --replay, recorded traces (one per rank) are simulated again: only durations, the "
        "host's own time and dependencies are taken from them, and every step is compared with the "
        "recorded one. A list in an option of the model, the strategy, the framework or the "
        "cluster (--dp 8,16 -c dgx-a100,dgx-h100) predicts every combination, each as a run of its "
        "own, and prints a row for each. An item of a list may be a range that doubles (--pp 1..8, "
        "--bucket-cap 1MiB..1GiB; from 0 every number: --zero 0..3; with a step: --tp 2..6+2) or "
        "'all' words of an option (--recompute all). "
        "A prediction that cannot be stored is printed all the same (exit status 1).",
    .max_operands = -1,
};

/* The prediction that a command line asks for: -1, or the exit status. */
static int begin(struct lw_prediction *s, int argc, char **argv)
{
    int rc = lw_prediction_begin(s, &usage, argc, argv);

    if (rc < 0 && s->per_rank && s->format != LW_FORMAT_CSV)
        return lw_cli_usage("sim", "--per-rank makes rows of CSV: give --format csv too, or leave "
                                   "it out");
    return rc;
}

/* That of a row of lists of values. */
static int begin_row(struct lw_prediction *s, int argc, char **argv)
{
    int rc = begin(s, argc, argv);

    return rc < 0 && s->per_rank
               ? lw_cli_usage("sim", "--per-rank makes rows of one prediction: lists of values "
                                     "have a row for each of them; leave it out")
               : rc;
}

static int predict_one(int argc, char **argv)
{
    struct lw_prediction s = {0};
    struct lw_err err = {0};
    int rc = begin(&s, argc, argv);

    if (rc >= 0)
        return rc;
    enum lw_status status = lw_prediction_run(&s, stdout, &err);
    lw_prediction_free(&s);
    return lw_cli_end("sim", status, &err);
}

int cmd_sim(int argc, char **argv)
{
    struct lw_option_lists lists;
    struct lw_err err = {0};
    int rc = -1;

    if (lw_option_lists_find(argc, argv, LW_OPTION_COMBINATIONS, &lists, &err) != LW_OK)
        rc = lw_cli_usage("sim", "%s", err.msg);
    else if (lists.n == 0)
        rc = predict_one(argc, argv);
    else {
        enum lw_status status = lw_sweep(&lists, begin_row, stdout, &rc, &err);
        rc = rc >= 0 ? rc : lw_cli_end("sim", status, &err);
    }
    lw_option_lists_free(&lists);
    return rc;
}
