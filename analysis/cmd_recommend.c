/* lapwing recommend: the best bucket cap for a recording on a cluster, in one line. */
#include <string.h>
#include <unistd.h>

#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/cli/plan_source.h"
#include "analysis/store/store.h"
#include "analysis/study/recommend_print.h"
#include "analysis/study/recommend_store.h"
#include "traces/models/models.h"
#include "traces/import/convert.h"
#include "traces/import/read_traces.h"

static const struct lw_usage usage = {
    .command = "recommend",
    .synopsis = "TRACE...|WORKLOAD.json [-c CLUSTER] [strategy options]",
    .about = "Says in one line which bucket cap is best, what it gains against the recorded (or, "
             "with --bucket-cap, the given) one, and how sure that is from the errors of earlier "
             "predictions for the cluster. Every bucketing that a cap can make is simulated, or a "
             "grid of them and all near its best where there are too many.",
    .max_operands = -1,
};

struct session {
    struct lw_plan_source source;
    struct lw_strategy strategy;
    struct lw_workload workload;
    struct lw_cluster cluster;
    struct lw_recommendation r;
    struct lw_recommend_report report;
    const char *db;
    char command[1024];
    bool store, quiet;
    enum lw_format format;
};

/* Traces, or one workload file. */
static enum lw_status read_workload(struct session *s, char **files, int n, struct lw_err *err)
{
    struct traces_wanted want = {.workload = true, .choice = {.step = -1}};
    struct traces_reading reading = {NULL, false, NULL};
    struct traces_converted c = {0};
    char kind[16] = "";

    bool model = n == 1 && !lw_names_file(files[0]);
    if (model ||
        (n == 1 && lw_file_kind(files[0], kind, err) == LW_OK && strcmp(kind, "workload") == 0))
        return lw_plan_source_workload(&s->source, files[0], &s->strategy, &s->cluster,
                                       &s->workload, err);
    struct traces_file *v;

    LW_NEW(v, n, err);
    enum lw_status st = traces_files_read(&reading, files, n, v, err);
    if (st == LW_OK)
        st = traces_convert(v, n, &want, &c, err);
    if (st == LW_OK) {
        s->workload = c.workload;
        c.has_workload = false;
    }
    traces_converted_free(&c);
    traces_files_free(v, n);
    lw_free(v);
    return st;
}

/* As many ranks as were asked for, were recorded, or the cluster has (one node of an open one). */
static void choose_ranks(struct session *s)
{
    int64_t n = s->workload.recorded.world_size;
    const char *from = " as recorded";
    bool said = s->source.ranks > 0 || lw_strategy_ranks(&s->strategy) > 1;

    if (s->source.ranks > 0 && s->strategy.dp == 1)
        s->strategy.dp = s->source.ranks;
    if (!said && n < 2) {
        n = (int64_t)s->cluster.devices_per_node *
            (s->cluster.n_nodes > 0 ? s->cluster.n_nodes : 1);
        from = " (all devices of the cluster)";
    }
    if (!said && n > 1)
        s->strategy.dp = n;
    s->report.ranks_from = said ? "" : from;
    s->report.n_ranks = lw_strategy_ranks(&s->strategy);
}

static enum lw_status past_errors(struct session *s, struct lw_err *err)
{
    struct lw_past_errors past = {0};
    struct lw_store *db;

    if (access(s->db, F_OK) != 0)
        return LW_OK; /* nothing was ever stored */
    LW_TRY(lw_store_open(s->db, LW_STORE_READ, &db, err));
    enum lw_status st = lw_store_past_errors(db, &s->cluster, &past, err);
    lw_store_close(db);
    s->report.n_past = past.n;
    s->report.mean_past_pct = past.mean_abs_pct;
    s->report.max_past_pct = past.max_abs_pct;
    return st;
}

static enum lw_status work(struct session *s, char **files, int n, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, s->quiet);

    progress.stop = lw_catch_signals();
    LW_TRY(lw_plan_source_cluster(&s->source, &s->cluster, err));
    LW_TRY(lw_plan_source_strategy(&s->source, &s->strategy, err));
    LW_TRY(read_workload(s, files, n, err));
    LW_TRY(lw_plan_source_fit(&s->source, &s->workload, &s->cluster, err));
    choose_ranks(s);
    enum lw_status st =
        lw_recommend(&s->workload, &s->strategy, &s->cluster, &progress, &s->r, err);
    lw_progress_bar_end(&bar);
    LW_TRY(st);
    LW_TRY(past_errors(s, err));
    if (s->store)
        LW_TRY(lw_recommend_store(&(struct lw_recommend_store){s->db, s->command, &s->workload,
                                                               &s->cluster, &s->strategy, &s->r},
                                  err));
    LW_TRY(lw_recommend_print(&s->report, s->format, stdout, err));
    return !s->r.interrupted
               ? LW_OK
               : lw_fail(err, LW_EFAILED, "interrupted: the search is not complete");
}

int cmd_recommend(int argc, char **argv)
{
    struct session s = {.db = "lapwing.db", .source.make_model = traces_model_for,
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

    s.report.r = &s.r;
    s.report.workload = &s.workload;
    s.report.cluster = &s.cluster;
    lw_cli_join(argc, argv, s.command, sizeof s.command);
    int rc = lw_plan_source_begin(&s.source, &usage, own, argc, argv, &n);
    if (rc >= 0)
        return rc;
    if ((n > 0) == (s.source.workload_file != NULL))
        return lw_cli_usage("recommend", "needs traces or one workload file");
    char *workload[] = {(char *)s.source.workload_file};
    enum lw_status status = n > 0 ? work(&s, argv + 1, n, &err) : work(&s, workload, 1, &err);
    lw_recommendation_free(&s.r);
    lw_workload_free(&s.workload);
    lw_cluster_free(&s.cluster);
    lw_plan_source_free(&s.source);
    return lw_cli_end("recommend", status, &err);
}
