/* lapwing sim: predict a plan's timeline on a cluster. */
#include <stdio.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/cli/plan_source.h"
#include "analysis/store/store.h"
#include "analysis/study/replay_predict.h"
#include "analysis/study/store_sim_run.h"
#include "analysis/validate/run_errors.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/samples.h"
#include "sim/predict/sim_print.h"

static const struct lw_usage usage = {
    .command = "sim",
    .synopsis = "PLAN.json | -w WORKLOAD.json [-c CLUSTER] [strategy options] | --replay TRACE...",
    .about =
        "Predicts what a plan does on a cluster: step time, busy and exposed times, buckets. "
        "Every term of the model that slows one thing beside another is off unless the "
        "cluster gives it, and is listed with its source. Steps that only lead up to the "
        "steady state (first buckets) are simulated and not measured. With --replay recorded "
        "traces (one per rank) are run again: only durations, the host's own time and "
        "dependencies are taken from them, and every step is compared with the recorded one. A "
        "prediction that cannot be stored is printed all the same (exit status 1).",
    .min_operands = 0,
    .max_operands = -1,
};

/* What the command line says, and all that the command makes of it. */
struct session {
    struct lw_plan_source source;
    struct sim_replay replay;
    char **operands;
    int n_operands;
    struct lw_sim_options options;
    const char *db, *name;
    char command[1024];
    bool no_db, spans, all, quiet, published;
    int64_t steps, seed, n_samples;
    enum lw_format format;
    struct lw_plan plan;
    struct lw_cluster cluster;
    struct lw_sim_classes classes;
    struct lw_summary summary;
    struct lw_sim_stats stats;
    struct lw_sim_samples samples;
    int32_t n_warmup;
    double wall_s;
    struct lw_sim_row row;
};

/* What leads up to the steady state is warm-up. A replay has the steps of its traces. */
static void choose_steps(struct session *s)
{
    s->n_warmup = s->replay.on ? 0 : lw_sim_warmup_steps(&s->plan);
    s->options.n_steps = s->n_warmup + (int32_t)(s->steps > 0 ? s->steps : 1);
}

static enum lw_status load_replay(struct session *s, struct lw_err *err)
{
    const struct lw_plan_source *p = &s->source;

    if (p->workload_file || p->strategy_file)
        return lw_fail(err, LW_EUSAGE,
                       "a replay takes its plan from the traces: %s does not go with "
                       "--replay",
                       p->workload_file ? "-w" : "-s");
    LW_TRY(sim_replay_buckets(&s->replay, p, err));
    s->replay.whatif.network = p->cluster_file;
    s->replay.whatif.ranks = p->ranks;
    return sim_replay_load(&s->replay, s->operands, s->n_operands, &s->plan, &s->cluster, err);
}

static enum lw_status load(struct session *s, struct lw_err *err)
{
    if (s->replay.on)
        return load_replay(s, err);
    LW_TRY(lw_plan_source_cluster(&s->source, &s->cluster, err));
    if (s->published)
        LW_TRY(lw_cluster_use_published(&s->cluster, err));
    struct lw_cost cost = lw_sim_cost(&s->cluster);
    return lw_plan_source_load(&s->source, s->n_operands > 0 ? s->operands[0] : NULL, &cost,
                               &s->plan, err);
}

static enum lw_status run(struct session *s, struct lw_err *err)
{
    double began = lw_now_s();
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, s->quiet);

    s->options.progress = &progress;
    s->options.no_fold |= s->replay.on; /* its ranks differ */
    enum lw_status status = lw_sim_run_classes(&s->plan, &s->cluster, &s->options, &s->classes,
                                               &s->stats, err);
    s->wall_s = lw_now_s() - began;
    if (status == LW_OK && s->n_samples > 0)
        status = lw_sim_sample(&s->plan, &s->cluster, &s->options, s->n_warmup,
                               (int32_t)s->n_samples, 0, &s->samples, err);
    s->options.progress = NULL;
    lw_progress_bar_end(&bar);
    return status;
}

static void begin_row(struct session *s)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = &s->plan, .cluster = &s->cluster,
                               .workload = s->source.has_workload ? &s->source.workload : NULL,
                               .command = s->command, .name = s->name,
                               .seed = s->seed > 0 ? s->seed : 0,
                               .n_warmup = s->n_warmup};

    if (!s->no_db)
        lw_sim_row_begin(&s->row, s->db, &info);
}

static enum lw_status predict(struct session *s, struct lw_err *err)
{
    LW_TRY(load(s, err));
    choose_steps(s);
    begin_row(s);
    s->options.noise = s->seed >= 0 || s->options.sigma > 0;
    s->options.seed = s->seed >= 0 ? (uint64_t)s->seed : 0;
    LW_TRY(run(s, err));
    if (s->replay.on)
        LW_TRY(sim_replay_compare(&s->replay, &s->classes.rows, &s->n_warmup, err));
    return lw_sim_summarize(&s->classes, s->n_warmup, &s->summary, err);
}

static enum lw_status store(struct session *s, struct lw_err *err)
{
    struct lw_sim_end end = {.plan = &s->plan, .classes = &s->classes, .stats = &s->stats,
                             .summary = &s->summary, .n_warmup = s->n_warmup,
                             .wall_s = s->wall_s, .spans = s->spans};

    return s->no_db ? LW_OK : lw_sim_row_end(&s->row, &end, err);
}

/* How far earlier predictions on this cluster were off. */
static enum lw_status find_past(struct session *s, struct lw_sim_report *r, struct lw_err *err)
{
    struct lw_past_errors past = {0};

    LW_TRY(lw_store_past_errors(s->row.store, &s->cluster, &past, err));
    r->n_past = past.n;
    r->mean_past_pct = past.mean_abs_pct;
    r->max_past_pct = past.max_abs_pct;
    return LW_OK;
}

/* How far predictions of published runs on such a device were off. Only for models timed by kernel
 * shape, as those were. */
static void find_like(const struct session *s, char *what, size_t size, struct lw_sim_report *r)
{
    const struct lw_workload *w = &s->source.workload;
    bool split = s->source.given.tp > 1 || s->source.given.pp > 1;
    const struct lw_run_errors *e = lw_run_errors_of(s->cluster.device.kind, split);

    if (!s->source.has_workload || !e || !w->from.format || strcmp(w->from.format, "model") != 0 ||
        !lw_figure_is_set(s->cluster.device.gemm_sustained))
        return;
    snprintf(what, size, "%s, %s", e->device,
             split ? "tensor or pipeline groups" : "data parallel");
    r->like = what;
    r->n_like = e->n;
    r->mean_like_pct = e->mean_abs_pct;
    r->p90_like_pct = e->p90_abs_pct;
}

static enum lw_status work(struct session *s, struct lw_err *err)
{
    char like[80];
    struct lw_sim_report r = {.plan = &s->plan, .cluster = &s->cluster, .options = &s->options,
                              .timeline = &s->classes.rows, .summary = &s->summary,
                              .stats = &s->stats, .samples = &s->samples, .run = -1, .n_past = -1,
                              .replayed = s->replay.on ? &s->replay.shown : NULL,
                              .all = s->all};
    struct lw_err why = {0}, unused;
    enum lw_status status = predict(s, &why);

    if (status != LW_OK) {
        lw_sim_row_fail(&s->row, status, why.msg, s->n_warmup);
        *err = why;
        return status;
    }
    enum lw_status stored = store(s, err);
    if (stored == LW_OK && !s->no_db)
        stored = find_past(s, &r, err);
    r.run = stored == LW_OK ? s->row.id : -1;
    r.wall_s = s->wall_s;
    r.workload = s->source.has_workload ? &s->source.workload : NULL;
    find_like(s, like, sizeof like, &r);
    LW_TRY(lw_sim_print(&r, s->format, stdout, stored == LW_OK ? err : &unused));
    return stored;
}

static void session_free(struct session *s)
{
    lw_sim_row_close(&s->row);
    lw_summary_free(&s->summary);
    lw_sim_classes_free(&s->classes);
    lw_sim_samples_free(&s->samples);
    lw_plan_free(&s->plan);
    lw_cluster_free(&s->cluster);
    sim_replay_free(&s->replay);
    lw_plan_source_free(&s->source);
}

int cmd_sim(int argc, char **argv)
{
    struct session s = {.options = lw_sim_options_default(), .db = "lapwing.db", .seed = -1,
                        .row.id = -1};
    struct lw_opt_call words = {lw_sim_options_set, &s.options};
    const struct lw_opt own[] = {
        {"steps", 0, LW_OPT_INT, &s.steps, "N", "optimizer steps to measure (1)", 1, 1000000},
        {"detail", 0, LW_OPT_CALL, &words, "LEVEL", "collective|chunk (collective)", 0, 0},
        {"ring", 0, LW_OPT_CALL, &words, "HOW", "chunk detail: auto|events|recurrence (auto)", 0,
         0},
        {"buffered", 0, LW_OPT_FLAG, &s.options.buffered, NULL,
         "a send costs its sender nothing (rendezvous)", 0, 0},
        {"seed", 0, LW_OPT_INT, &s.seed, "N",
         "draw noise, jitter and skew from this seed (no noise of the cluster; else 0)", 0,
         INT64_MAX},
        {"noise", 0, LW_OPT_DOUBLE, &s.options.sigma, "X",
         "standard deviation of compute and transfers, a share (the cluster's, with --seed)", 0, 1},
        {"rank-noise", 0, LW_OPT_DOUBLE, &s.options.rank_sigma, "X",
         "the same of each rank's speed, for the whole run (0)", 0, 1},
        {"samples", 0, LW_OPT_INT, &s.n_samples, "N",
         "draw N times, on all cores: p50, p90, p99 of the step", 1, 1000000},
        {"jitter", 0, LW_OPT_TIME, &s.options.jitter_ps, "TIME",
         "chunk detail: up to this much more for each message (0)", 0, 0},
        {"start-skew", 0, LW_OPT_TIME, &s.options.start_skew_ps, "TIME",
         "each rank enters each step up to this much later (0)", 0, 0},
        {"no-fold", 0, LW_OPT_FLAG, &s.options.no_fold, NULL,
         "simulate every rank, also those that are alike", 0, 0},
        {"replay", 0, LW_OPT_FLAG, &s.replay.on, NULL,
         "the operands are recorded traces, one per rank: run them again", 0, 0},
        {"kernel-classes", 0, LW_OPT_STRING, &s.replay.kernels_file, "FILE",
         "with --replay: what kernels are, before the built-in table", 0, 0},
        {"from-device", 0, LW_OPT_STRING, &s.replay.whatif.from_device, "KIND",
         "with --device: the device that was recorded (what the trace names)", 0, 0},
        {"published-interference", 0, LW_OPT_FLAG, &s.published, NULL,
         "turn on the cluster's interference terms from publications", 0, 0},
        {"spans", 0, LW_OPT_FLAG, &s.spans, NULL,
         "store every op, however many there are (up to 20,000 of a run)", 0, 0},
        {"all", 0, LW_OPT_FLAG, &s.all, NULL, "print every bucket (the ten that take longest)", 0,
         0},
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

    lw_cli_join(argc, argv, s.command, sizeof s.command);
    int rc = lw_plan_source_begin(&s.source, &usage, own, argc, argv, &n);
    if (rc >= 0)
        return rc;
    s.operands = argv + 1;
    s.n_operands = n;
    s.replay.whatif.device = s.replay.on ? s.source.device : NULL;
    if (!s.replay.on && (s.replay.whatif.from_device || s.replay.kernels_file))
        return lw_cli_usage("sim", "--from-device and --kernel-classes go with --replay");
    if (!s.replay.on && n > 1)
        return lw_cli_usage("sim", "one plan at a time, got %d operands", n);
    if (s.replay.on && n == 0)
        return lw_cli_usage("sim", "--replay needs traces");
    if (s.replay.on && s.published)
        return lw_cli_usage(
            "sim", "--published-interference goes with a plan: a replay has recorded times");
    if (s.replay.on && s.steps > 1)
        return lw_cli_usage("sim", "--steps: a replay has the steps of its traces");
    enum lw_status status = work(&s, &err);
    session_free(&s);
    return lw_cli_end("sim", status, &err);
}
