/* What a recommendation starts from: a workload out of traces or a file, the ranks, and the errors
 * of earlier predictions. */
#include "analysis/study/recommend_inputs.h"

#include <string.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "traces/import/convert.h"
#include "traces/import/read_traces.h"
#include "traces/import/trace_names.h"

/* What the traces show of the strategy, where no option says it. */
static void plan_as_recorded(struct lw_strategy *s, const struct traces_coverage *c)
{
    if (c->n_passes > 1 && !lw_strategy_given(s, lw_strategy_find("no-sync")))
        s->no_sync = c->n_passes - 1;
    if (c->sharded && !lw_strategy_given(s, lw_strategy_find("zero")))
        s->zero = 3;
}

/* n: ranks of the recording; 0 = of none. */
static void choose_ranks(struct lw_recommend_inputs *s, int64_t n,
                         struct lw_recommend_report *report)
{
    const char *from = " as recorded";
    bool said = s->source->ranks > 0 || lw_strategy_ranks(&s->strategy) > 1;

    if (!said && n < 2) {
        n = (int64_t)s->cluster.devices_per_node *
            (s->cluster.n_nodes > 0 ? s->cluster.n_nodes : 1);
        from = " (all devices of the cluster)";
    }
    if (!said && n > 1)
        s->strategy.dp = n;
    report->ranks_from = said ? "" : from;
    report->n_ranks = lw_strategy_ranks(&s->strategy);
}

/* A model, or a workload file. A model is made for the ranks, and a framework's usual options
 * depend on them: they are taken from the file first, which is kept as read. A model has no ranks
 * of a recording. */
static enum lw_status find_workload(const struct lw_recommend_inputs *s, const char *file,
                                    bool *is, int64_t *ranks, struct lw_err *err)
{
    struct lw_workload *w;
    char kind[16] = "workload"; /* standard input cannot be looked at first */

    *ranks = 0;
    *is = !lw_names_file(file) || lw_plan_source_is_model(s->source, file);
    if (*is)
        return LW_OK;
    enum lw_status st = strcmp(file, "-") == 0 ? LW_OK : lw_file_kind(file, kind, NULL);
    if (st == LW_ENOMEM)
        return lw_fail_nomem(err);
    *is = st == LW_OK && strcmp(kind, "workload") == 0;
    if (!*is)
        return LW_OK;
    LW_NEW(w, 1, err);
    st = lw_workload_read(file, w, err);
    if (st != LW_OK) {
        lw_free(w);
        return st;
    }
    if (!lw_model_is_set(&w->from.model))
        *ranks = w->recorded.world_size;
    s->source->read_before = w;
    return LW_OK;
}

static enum lw_status read_traces(struct lw_recommend_inputs *s, char **files, int n,
                                  struct lw_err *err)
{
    struct traces_wanted want = {.workload = true, .choice = {.step = -1}};
    struct traces_reading reading = {NULL, false, NULL};
    struct traces_converted c = {0};

    LW_TRY(lw_plan_source_recorded(s->source, err));
    LW_TRY(lw_plan_source_no_model(s->source, "traces", err));
    struct traces_names names = {0};
    LW_TRY(traces_names_find(files, n, &names, err));
    n = names.n;
    struct traces_file *v = lw_calloc((size_t)n, sizeof *v);
    enum lw_status st = traces_names_once(&names, err);
    if (st == LW_OK)
        st = v ? traces_files_read(&reading, names.names, &n, v, err) : lw_fail_nomem(err);
    if (st == LW_OK) {
        st = traces_convert(v, n, &want, &c, err);
        traces_files_free(v, n);
    }
    if (st == LW_OK) {
        s->workload = c.workload;
        plan_as_recorded(&s->strategy, &c.coverage);
        c.has_workload = false;
    }
    traces_converted_free(&c);
    lw_free(v);
    traces_names_free(&names);
    return st;
}

enum lw_status lw_recommend_read(struct lw_recommend_inputs *s, struct lw_recommend_report *report,
                                 char **files, int n, struct lw_err *err)
{
    bool is_workload = false;
    int64_t ranks = 0;

    for (int i = 0; n > 1 && i < n; i++)
        if (strcmp(files[i], "-") == 0)
            return lw_fail(err, LW_EUSAGE, "'-' is one workload, and traces are files: give files");
    if (n == 1)
        LW_TRY(find_workload(s, files[0], &is_workload, &ranks, err));
    if (is_workload) {
        choose_ranks(s, ranks, report);
        return lw_plan_source_workload(s->source, files[0], &s->strategy, &s->cluster,
                                       &s->workload, err);
    }
    LW_TRY(read_traces(s, files, n, err));
    choose_ranks(s, s->workload.recorded.world_size, report);
    return LW_OK;
}

enum lw_status lw_recommend_take_ranks(struct lw_recommend_inputs *s, struct lw_err *err)
{
    if (s->source->ranks > 0 && s->strategy.dp == 1)
        s->strategy.dp = s->source->ranks;
    if (s->source->global_batch > 0 && s->source->ranks == 0 &&
        lw_strategy_ranks(&s->strategy) == 1)
        return lw_fail(err, LW_EUSAGE, "--global-batch is divided among the ranks: give --dp");
    return LW_OK;
}

enum lw_status lw_recommend_past_errors(const char *file, const struct lw_cluster *cluster,
                                        struct lw_recommend_report *report, struct lw_err *err)
{
    struct lw_past_errors past = {0};
    struct lw_store *db;

    if (access(file, F_OK) != 0)
        return LW_OK; /* nothing was ever stored */
    LW_TRY(lw_store_open(file, LW_STORE_READ, &db, err));
    enum lw_status st = lw_store_past_errors(db, cluster, &past, err);
    lw_store_close(db);
    report->n_past = past.n;
    report->mean_past_pct = past.mean_abs_pct;
    report->max_past_pct = past.max_abs_pct;
    return st;
}
