/* The options of a prediction: those of its plan, of the engine, of a replay and of what is stored.
 * `sim` and `explain --memory` have the same. */
#include "analysis/study/prediction.h"

#include "shared/cli/cli.h"
#include "traces/goal/goal.h"
#include "traces/models/model_workload.h"

/* What is wrong with the options of a plan's prediction, or of a replay, whose times and steps are
 * recorded, where the other one is asked for; NULL: nothing. */
static const char *misplaced(const struct lw_prediction *s)
{
    const struct lw_sim_options *o = &s->options;
    const struct sim_replay *r = &s->replay;
    const struct {
        bool given, of_replay;
        const char *why;
    } each[] = {
        {r->force, true, "--force needs --replay"},
        {r->as_traced, true, "--as-traced needs --replay"},
        {r->kernels_file, true, "--kernel-classes needs --replay"},
        {r->loggops, true, "--loggops needs --replay"},
        {s->run, false, "--run has a plan: leave out --replay"},
        {s->n_operands == 0, false, "--replay needs traces"},
        {s->must_fit, false, "--must-fit is for a plan: a replay does not know its memory"},
        {s->source.interference, false,
         "--interference is for a plan: a replay has recorded times"},
        {s->published, false,
         "--published-interference is for a plan: a replay has recorded times"},
        {s->n_samples > 0, false, "--samples is for a plan: a replay has the steps of its traces"},
        {s->steps > 1, false, "--steps: a replay has the steps of its traces"},
        {o->sigma > 0 || o->rank_sigma > 0 || o->jitter_ps > 0 || o->start_skew_ps > 0 ||
             s->seed >= 0, false,
         "--noise, --rank-noise, --jitter, --start-skew and --seed go with a plan: a replay has "
         "the recorded times, noise included"},
        {s->source.node_gbps > 0, false,
         "--node-gbps is for a plan: a replay has the transfers of its traces; give -c CLUSTER "
         "with a file that states the rate (lapwing cluster NAME -o FILE)"},
        {s->source.device_spread, false,
         "--device-spread is for a plan: a replay has recorded times"},
        {s->source.max_ops > 0, false,
         "--max-ops limits a plan that is made: a replay has the ops of its traces"},
        {s->budget.price > 0, false,
         "--price is for a plan: a replay does not know the tokens of a step"},
        {o->detail != LW_SIM_COLLECTIVE || o->buffered, false,
         "--detail chunk and --buffered go with a plan: a replay has recorded transfers"},
    };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i].given && each[i].of_replay != r->on)
            return each[i].why;
    return NULL;
}

/* *s is zeroed, but for whether it is silent. */
static void set_defaults(struct lw_prediction *s)
{
    s->options = lw_sim_options_default();
    s->db = "lapwing.db";
    s->seed = -1;
    s->row.id = -1;
    s->source.make_model = traces_model_workload;
    s->source.predicts = true;
}

static enum lw_status is_tokens(const char *text, struct lw_err *err)
{
    double tokens;

    return lw_parse_tokens(text, &tokens, err);
}

/* --- the table: in the order of the help ------------------------------------------------------ */

/* How steps are simulated. */
#define ENGINE_OPTIONS(s, words)                                                                 \
    {"steps", 0, LW_OPT_INT, &(s)->steps, "N", "optimizer steps to measure (1)", 1, 1000000},    \
    {"detail", 0, LW_OPT_CALL, (words), "collective|chunk", "what is simulated (collective)"},   \
    {"ring", 0, LW_OPT_CALL, (words), "auto|events|recurrence",                                  \
     "chunk detail: how rings are simulated (auto)"},                                            \
    {"buffered", 0, LW_OPT_FLAG, &(s)->options.buffered, NULL,                                   \
     "sends do not wait for their receives (rendezvous)"},                                       \
    {"seed", 0, LW_OPT_INT, &(s)->seed, "N",                                                     \
     "draw noise, jitter and skew from this seed (no noise of the cluster; else 0)", 0,          \
     INT64_MAX},                                                                                 \
    {"noise", 0, LW_OPT_DOUBLE, &(s)->options.sigma, "X",                                        \
     "standard deviation of compute and transfers, a share (the cluster's, with --seed)", 0, 1}, \
    {"rank-noise", 0, LW_OPT_DOUBLE, &(s)->options.rank_sigma, "X",                              \
     "standard deviation of each rank's speed, for the whole run (0)", 0, 1},                    \
    {"samples", 0, LW_OPT_INT, &(s)->n_samples, "N",                                             \
     "draw N times, on all cores: p50, p90, p99 of the step", 1, 1000000},                       \
    {"jitter", 0, LW_OPT_TIME, &(s)->options.jitter_ps, "TIME",                                  \
     "chunk detail: up to this much more for each message (0)"},                                 \
    {"start-skew", 0, LW_OPT_TIME, &(s)->options.start_skew_ps, "TIME",                          \
     "each rank enters each step up to this much later (0)"},                                    \
    {"no-fold", 0, LW_OPT_FLAG, &(s)->options.no_fold, NULL,                                     \
     "simulate every rank, also those that are alike"},                                          \
    {"no-merge", 0, LW_OPT_FLAG, &(s)->options.no_merge, NULL,                                   \
     "an event for every op, also of ops that nothing joins or leaves between"}

/* Of a replay. */
#define REPLAY_OPTIONS(s)                                                                        \
    {"replay", 0, LW_OPT_FLAG, &(s)->replay.on, NULL,                                            \
     "the operands are recorded traces, one per rank: run them again"},                          \
    {"kernel-classes", 0, LW_OPT_STRING, &(s)->replay.kernels_file, "FILE",                      \
     "with --replay: classes of kernels, which precede the built-in table"},                     \
    {"loggops", 0, LW_OPT_STRING, &(s)->replay.loggops, "L=..,o=..,g=..,G=..,O=..,S=..",         \
     "with --replay, of GOAL schedules: parameters in ns and bytes (the file's, else "           \
     "L=2500,o=1500,g=1000,G=6,"                                                                 \
     "O=0,S=65535)", .check = traces_goal_network_check},                                        \
    {"force", 0, LW_OPT_FLAG, &(s)->replay.force, NULL,                                          \
     "with --replay: answer what-ifs on a replay that is more than 1 % off too"},                \
    {"as-traced", 0, LW_OPT_FLAG, &(s)->replay.as_traced, NULL,                                  \
     "with --replay: what-ifs on the profiled step, where the sidecar has the step without the " \
     "profiler"}

/* What is asked of a prediction, and what is printed and stored of it. */
#define RESULT_OPTIONS(s, tokens)                                                                \
    {"published-interference", 0, LW_OPT_FLAG, &(s)->published, NULL,                            \
     "the same as --interference published"},                                                    \
    {"must-fit", 0, LW_OPT_FLAG, &(s)->must_fit, NULL,                                           \
     "exit status 3 where the memory of a rank is more than its device has; of lists of "        \
     "values, where that is so of any row"},                                                     \
    {"spans", 0, LW_OPT_FLAG, &(s)->spans, NULL,                                                 \
     "store the spans of every rank (default: up to 50,000: of every rank, else of one of each " \
     "set of equal ranks, else none)", .idle_with = "no-db"},                                    \
    {"tokens", 0, LW_OPT_STRING, (tokens), "N",                                                  \
     "tokens of the whole training, as 300B or 1T: days, device-hours and, with a price, cost",  \
     .check = is_tokens},                                                                        \
    {"price", 0, LW_OPT_DOUBLE, &(s)->budget.price, "P",                                         \
     "price of a device-hour, in any currency (the cluster's price_per_device_hour)", 0,         \
     1000000, .check = lw_cli_above_0},                                                          \
    {"per-rank", 0, LW_OPT_FLAG, &(s)->per_rank, NULL, "CSV: a row for each rank"},              \
    {"all", 0, LW_OPT_FLAG, &(s)->all, NULL,                                                     \
     "print every bucket and replayed step (ten of each)"},                                      \
    {"run", 0, LW_OPT_STRING, &(s)->run, "RUN",                                                  \
     "the plan of a stored run: an id or 'last' (none)", .check = lw_cli_run}

/* What was read, as it is predicted; -1, or the exit status of a refusal. */
static int settle(struct lw_prediction *s, const char *command, const char *tokens)
{
    const char *refused = misplaced(s);
    struct lw_err err = {0};

    s->replay.whatif.device = s->replay.on ? s->source.device : NULL;
    s->replay.whatif.from_device = s->replay.on ? s->source.from_device : NULL;
    if (s->published && s->source.interference)
        return lw_cli_usage(command, "--published-interference is --interference published: give "
                                     "only one of them");
    if (refused)
        return lw_cli_usage(command, "%s", refused);
    s->source.interference = s->published ? "published" : s->source.interference;
    if (!s->replay.on && s->n_operands > 1)
        return lw_cli_usage(command, "one plan at a time, got %d operands", s->n_operands);
    return tokens && lw_parse_tokens(tokens, &s->budget.tokens, &err) != LW_OK
               ? lw_cli_usage(command, "--tokens: %s", err.msg)
               : -1;
}

int lw_prediction_begin(struct lw_prediction *s, const struct lw_usage *usage, int argc,
                        char **argv)
{
    struct lw_opt_call words = {lw_sim_options_set, &s->options};
    const char *tokens = NULL;
    const struct lw_opt own[] = {
        ENGINE_OPTIONS(s, &words),
        REPLAY_OPTIONS(s),
        RESULT_OPTIONS(s, &tokens),
        LW_OPTIONS_OF_RUNS(*s),
        {0},
    };

    set_defaults(s);
    lw_cli_join(argc, argv, s->command, sizeof s->command);
    int rc = lw_plan_source_begin(&s->source, usage, own, argc, argv, &s->n_operands);
    if (rc >= 0)
        return rc;
    s->operands = argv + 1;
    return settle(s, usage->command, tokens);
}
