/* Runs and measures into the database. A run is inserted with the status "running" before
 * its engine starts, or as a failure "not stored whole" when it is over already, and ended by
 * one transaction; while it runs it names its process (run_process.h); spans go in between
 * (store_spans.c). */
#include "analysis/store/store.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/store/run_process.h"
#include "analysis/store/sql.h"
#include "analysis/store/store_cluster.h"
#include "analysis/store/store_plan.h"
#include "shared/timeline/period_figures.h"
#include "shared/timeline/throughput.h"

static const char *const kind_name[] = {"sim", "exec", "import"};
static const char *const status_name[] = {"running", "ok", "failed", "timeout"};

const char *lw_run_kind_name(int kind)
{
    return kind_name[kind];
}

const char *lw_run_status_name(int status)
{
    return status_name[status];
}

/* "torch 2.11.0, gpt6__local.trace.json.gz" */
static void describe_origin(const struct lw_workload *w, char *buf, size_t size)
{
    const char *who = w->from.producer ? w->from.producer : "";
    const char *file = w->from.file ? w->from.file : "";
    snprintf(buf, size, "%s%s%s", who, who[0] && file[0] ? ", " : "", file);
}

static enum lw_status insert_run(struct lw_store *s, const struct lw_run_info *info, int64_t plan,
                                 int64_t *run, struct lw_err *err)
{
    const struct lw_workload *w = info->workload;
    char cluster_hash[33] = "", origin[512] = "";

    if (info->cluster)
        LW_TRY(lw_cluster_hash(info->cluster, cluster_hash, err));
    if (w)
        describe_origin(w, origin, sizeof origin);
    LW_TRY(lw_sql_do(s, err,
                     "INSERT INTO run (kind, status, message, plan, workload_name, workload_hash,"
                     " workload_from, cluster_name, cluster_hash, backend, honesty, seed,"
                     " n_warmup, command, version, started_at, name)"
                     " VALUES (?,?,?,nullif(?,-1),?,?,?,?,?,?,?,?,?,?,?,?,nullif(?,''))",
                     "tttltttttttlittlt", kind_name[info->kind],
                     status_name[info->over ? LW_RUN_FAILED : LW_RUN_RUNNING],
                     info->over ? "not stored whole" : "", plan, w ? w->name : NULL,
                     w ? w->from.hash : NULL, w ? origin : NULL,
                     info->cluster ? info->cluster->name : NULL,
                     info->cluster ? cluster_hash : NULL, info->backend, info->honesty, info->seed,
                     info->n_warmup, info->command ? info->command : "", LW_VERSION,
                     (int64_t)time(NULL), info->name));
    *run = lw_sql_last_id(s);
    return LW_OK;
}

/* A plan without one is a replay's, or of an older file. */
static enum lw_status put_framework(struct lw_store *s, const struct lw_run_info *info, int64_t run,
                                    struct lw_err *err)
{
    const struct lw_plan *p = info->plan;
    const char *hash = p && p->framework_hash && *p->framework_hash ? p->framework_hash : NULL;

    if (!p || !p->framework || !p->framework[0])
        return LW_OK;
    return lw_sql_do(s, err, "UPDATE run SET framework = ?, framework_hash = ? WHERE id = ?", "ttl",
                     p->framework, hash, run);
}

/* Steps of runs compare only where they train the same samples, or tokens. */
static enum lw_status put_samples(struct lw_store *s, const struct lw_run_info *info, int64_t run,
                                  struct lw_err *err)
{
    if (info->plan && info->plan->yield.tokens > 0)
        LW_TRY(lw_store_metric_int(s, run, "tokens", -1, -1, info->plan->yield.tokens, err));
    if (!info->plan || !info->workload || info->workload->batch <= 0)
        return LW_OK;
    return lw_store_metric_int(s, run, "samples", -1, -1,
                               lw_plan_samples(info->plan, info->workload->batch), err);
}

enum lw_status lw_store_begin_run(struct lw_store *s, const struct lw_run_info *info, int64_t *run,
                                  struct lw_err *err)
{
    int64_t plan = -1, id = -1;

    LW_TRY(lw_sql_begin(s, err));
    enum lw_status st = info->plan ? lw_store_put_plan(s, info->plan, &plan, err) : LW_OK;
    if (st == LW_OK)
        st = insert_run(s, info, plan, &id, err);
    if (st == LW_OK && info->cluster && !lw_cluster_is_recorded(info->cluster->name))
        st = lw_store_put_cluster(s, id, info->cluster, err);
    if (st == LW_OK)
        st = put_framework(s, info, id, err);
    if (st == LW_OK)
        st = put_samples(s, info, id, err);
    if (st == LW_OK && !info->over)
        st = lw_run_process_note(s, id, err);
    LW_TRY(lw_sql_commit(s, st, err));
    *run = id;
    return LW_OK;
}

enum lw_status lw_store_blame(struct lw_store *s, int64_t run, const char *why, struct lw_err *err)
{
    return lw_sql_do(s, err,
                     "UPDATE run SET status = 'failed', message = ? WHERE id = ?"
                     " AND ended_at IS NULL", "tl", why, run);
}

enum lw_status lw_store_name_cause(struct lw_store *s, int64_t run, int rank, const char *cause,
                                   bool sure, struct lw_err *err)
{
    char who[24] = "%", gone[64], gave_up[64], ended[64];

    if (sure)
        snprintf(who, sizeof who, "%d", rank);
    snprintf(gone, sizeof gone, "%%rank %s is gone%%", who);
    snprintf(gave_up, sizeof gave_up, "%%rank %s gave up%%", who);
    snprintf(ended, sizeof ended, "%%rank %s was ended%%", who);
    return lw_sql_do(s, err,
                     "UPDATE run SET message = ? || '; ' || message WHERE id = ?"
                     " AND status IN ('failed', 'timeout') AND message NOT LIKE ?"
                     " AND message NOT LIKE ? AND message NOT LIKE ?",
                     "tlttt", cause, run, gone, gave_up, ended);
}

enum lw_status lw_store_end_of_run(struct lw_store *s, int64_t run, const char *why,
                                   const char *honesty, int32_t n_warmup, bool *mine,
                                   struct lw_err *err)
{
    enum lw_status st =
        lw_sql_do(s, err,
                  "UPDATE run SET status = 'failed',"
                  " message = ltrim(ifnull(nullif(message, ''), ?) || '; not stored whole', '; '),"
                  " honesty = ?, n_warmup = ?, ended_at = ? WHERE id = ? AND ended_at IS NULL",
                  "ttill", why ? why : "", honesty, n_warmup, (int64_t)time(NULL), run);
    *mine = st == LW_OK && lw_sql_changed(s) == 1;
    return st;
}

enum lw_status lw_store_settings(struct lw_store *s, int64_t run, const char *settings,
                                 struct lw_err *err)
{
    return lw_sql_do(s, err, "UPDATE run SET settings = ? WHERE id = ?", "tl", settings, run);
}

enum lw_status lw_store_interval(struct lw_store *s, int64_t run, lw_ps p10, lw_ps p90,
                                 const char *of, struct lw_err *err)
{
    return lw_sql_do(s, err,
                     "UPDATE run SET step_p10_ps = ?, step_p90_ps = ?, interval_of = ?"
                     " WHERE id = ?", "lltl", p10, p90, of, run);
}

static const char metric_text[] =
    "INSERT OR REPLACE INTO metric (run, name, step, rank, value) VALUES (?,?,?,?,?)";

enum lw_status lw_store_metric_int(struct lw_store *s, int64_t run, const char *name, int32_t step,
                                   int32_t rank, int64_t value, struct lw_err *err)
{
    return lw_sql_do(s, err, metric_text, "ltiil", run, name, step, rank, value);
}

enum lw_status lw_store_metric_real(struct lw_store *s, int64_t run, const char *name,
                                    int32_t step, int32_t rank, double value, struct lw_err *err)
{
    return lw_sql_do(s, err, metric_text, "ltiid", run, name, step, rank, value);
}

static void put_figures(struct lw_sql *q, int64_t run, int32_t rank,
                        const lw_ps figure[LW_N_FIGURES])
{
    char name[32];

    for (int k = 0; k < LW_N_FIGURES; k++)
        lw_sql_run(q, "ltiil", run, lw_period_figure_metric(k, name), -1, rank, figure[k]);
}

/* Many ranks: those alike once, as the schema says. */
static void put_ranks(struct lw_sql *q, int64_t run, const struct lw_summary *m)
{
    lw_ps figures[2][LW_N_FIGURES];
    bool all = m->n_ranks <= LW_RANKS_STORED_EACH;
    int at = 0;

    for (int32_t i = 0; i < m->n_ranks; at = !at) {
        lw_ps *now = figures[at], *before = figures[!at];
        struct lw_measure x = lw_summary_of(m, i);
        lw_period_figures(&x, now);
        if (all || i == 0 || memcmp(now, before, sizeof figures[0]) != 0)
            put_figures(q, run, x.rank, now);
        i = all ? i + 1 : lw_alike_end(&m->alike, i, m->n_ranks);
    }
}

static void put_summary(struct lw_sql *q, int64_t run, const struct lw_summary *m)
{
    lw_sql_run(q, "ltiil", run, "step_ps", -1, -1, m->step);
    for (int32_t i = 0; i < m->n_steps; i++)
        lw_sql_run(q, "ltiil", run, "step_ps", i, -1, m->steps[i]);
    put_ranks(q, run, m);
    if (m->worst >= 0 && m->worst < m->n_ranks) {
        lw_ps worst[LW_N_FIGURES];
        lw_period_figures(&m->ranks[m->worst], worst);
        put_figures(q, run, -1, worst);
        lw_sql_run(q, "ltiii", run, "worst_rank", -1, -1, m->ranks[m->worst].rank);
        lw_sql_run(q, "ltiii", run, "shown_step", -1, -1, m->ranks[m->worst].step);
    }
    lw_sql_run(q, "ltiil", run, "span_ps", -1, -1, m->span);
    lw_sql_run(q, "ltiid", run, "bubble_ratio", -1, -1, m->bubble_ratio);
    lw_sql_run(q, "ltiid", run, "compute_share", -1, -1, m->compute_share);
    if (m->peak_memory_bytes >= 0)
        lw_sql_run(q, "ltiil", run, "peak_memory_bytes", -1, -1, m->peak_memory_bytes);
    lw_sql_run(q, "ltiil", run, "n_ops", -1, -1, m->n_ops);
}

static enum lw_status end_run(struct lw_store *s, int64_t run, const struct lw_summary *summary,
                              enum lw_run_status status, const char *message, struct lw_err *err)
{
    struct lw_sql *q;

    if (summary) {
        LW_TRY(lw_sql_prepare(s, metric_text, &q, err));
        put_summary(q, run, summary);
        LW_TRY(lw_sql_finish(q, err));
    }
    return lw_sql_do(s, err, "UPDATE run SET status = ?, message = ?, ended_at = ? WHERE id = ?",
                     "ttll", status_name[status], message, (int64_t)time(NULL), run);
}

enum lw_status lw_store_finish_run(struct lw_store *s, int64_t run,
                                   const struct lw_summary *summary, enum lw_run_status status,
                                   const char *message, struct lw_err *err)
{
    LW_TRY(lw_sql_begin(s, err));
    return lw_sql_commit(s, end_run(s, run, summary, status, message ? message : "", err), err);
}
