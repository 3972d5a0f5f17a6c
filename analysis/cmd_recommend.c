/* lapwing recommend: the best bucket cap for a recording on a cluster, in one line. */
#include "shared/cli/cli.h"
#include "shared/device/device_kind.h"
#include "shared/cli/command.h"
#include "shared/cli/plan_source.h"
#include "analysis/store/store.h"
#include "analysis/study/recommend_inputs.h"
#include "analysis/study/recommend_print.h"
#include "analysis/study/recommend_store.h"
#include "traces/models/model_workload.h"

static const struct lw_usage usage = {
    .command = "recommend",
    .synopsis = "TRACE...|WORKLOAD.json [-c CLUSTER] [strategy options]",
    .about = "Prints in one line the best bucket cap, its gain over the recorded cap (or that of "
             "--bucket-cap), and how certain this is, from the errors of earlier predictions for "
             "the cluster. It simulates every bucketing that a cap can make. If there are too "
             "many, it simulates evenly spaced ones and those near the best.",
    .max_operands = -1,
};

struct session {
    struct lw_plan_source source;
    struct lw_recommend_inputs in;
    struct lw_recommendation r;
    struct lw_recommend_report report;
    struct lw_alike_step alike;
    const char *db;
    char command[1024];
    bool store, quiet;
    enum lw_format format;
};

static enum lw_status read_inputs(struct session *s, char **files, int n, struct lw_err *err)
{
    LW_TRY(lw_plan_source_cluster(&s->source, &s->in.cluster, err));
    LW_TRY(lw_plan_source_strategy(&s->source, &s->in.strategy, err));
    LW_TRY(lw_recommend_take_ranks(&s->in, err));
    LW_TRY(lw_recommend_read(&s->in, &s->report, files, n, err));
    LW_TRY(lw_plan_source_fit(&s->source, &s->in.workload, &s->in.cluster, err));
    LW_TRY(lw_plan_source_stages(&s->source, &s->in.workload, &s->in.cluster, &s->in.strategy,
                                 err));
    lw_cluster_place(&s->in.cluster, lw_strategy_ranks(&s->in.strategy));
    return LW_OK;
}

/* Of models; no measured run is like a recording. */
static enum lw_status find_alike(struct session *s, struct lw_err *err)
{
    const struct lw_alike_job job = {&s->in.strategy, lw_strategy_ranks(&s->in.strategy),
                                     s->in.workload.dims.layers > 0,
                                     lw_workload_has_experts(&s->in.workload)};
    struct lw_alike_key key = lw_alike_key_of(&job, &s->in.cluster, &s->source.framework);

    s->report.alike = &s->alike;
    return lw_model_is_set(&s->in.workload.from.model)
               ? lw_alike_step_of(&key, s->source.framework.name, &s->alike, err)
               : LW_OK;
}

static enum lw_status store(struct session *s, const struct lw_progress *progress,
                            struct lw_err *err)
{
    if (!s->store)
        return LW_OK;
    return lw_recommend_store(
        &(struct lw_recommend_store){s->db, s->command, &s->in.workload, &s->in.cluster,
                                     &s->in.strategy, &s->source.framework, &s->r, progress,
                                     &s->alike},
        err);
}

/* The answer is printed before predictions are stored: an interrupt of the latter leaves it. */
static enum lw_status work(struct session *s, char **files, int n, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, s->quiet);

    progress.stop = lw_catch_signals();
    LW_TRY(read_inputs(s, files, n, err));
    if (s->store)
        LW_TRY(lw_store_usable(s->db, err));
    enum lw_status st =
        lw_recommend(&s->in.workload, &s->in.strategy, &s->in.cluster, &s->source.framework,
                     &progress, &s->r, err);
    lw_progress_bar_end(&bar);
    LW_TRY(st);
    LW_TRY(lw_recommend_past_errors(s->db, &s->in.cluster, &s->report, err));
    LW_TRY(find_alike(s, err));
    LW_TRY(lw_recommend_print(&s->report, s->format, stdout, err));
    fflush(stdout);
    if (s->r.interrupted)
        return lw_fail(err, LW_EFAILED, "interrupted: the search is not complete%s",
                       s->store ? ", no prediction was stored" : "");
    st = store(s, &progress, err);
    lw_progress_bar_end(&bar);
    return st;
}

int cmd_recommend(int argc, char **argv)
{
    struct session s = {.db = "lapwing.db", .source.make_model = traces_model_workload,
                        .source.predicts = true};
    const struct lw_opt own[] = {
        {"store", 0, LW_OPT_FLAG, &s.store, NULL,
         "store predictions of about 32 caps, for `lapwing plot sweep`"},
        LW_OPTION_DB(&s.db),
        LW_OPTION_QUIET(&s.quiet),
        LW_OPTION_FORMAT(&s.format),
        {0},
    };
    struct lw_err err = {0};
    int n;

    s.in.source = &s.source;
    s.report.r = &s.r;
    s.report.workload = &s.in.workload;
    s.report.cluster = &s.in.cluster;
    s.report.framework = &s.source.choice;
    lw_cli_join(argc, argv, s.command, sizeof s.command);
    int rc = lw_plan_source_begin(&s.source, &usage, own, argc, argv, &n);
    if (rc >= 0)
        return rc;
    if ((n > 0) == (s.source.workload_file != NULL))
        return lw_cli_usage("recommend", "needs traces or one workload file");
    char *workload[] = {(char *)s.source.workload_file};
    enum lw_status status = n > 0 ? work(&s, argv + 1, n, &err) : work(&s, workload, 1, &err);
    lw_recommendation_free(&s.r);
    lw_workload_free(&s.in.workload);
    lw_cluster_free(&s.in.cluster);
    lw_plan_source_free(&s.source);
    return lw_cli_end("recommend", status, &err);
}
