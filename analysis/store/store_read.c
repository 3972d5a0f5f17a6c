/* Runs out of the database: list, look up, past errors. */
#include "analysis/store/store.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/store/run_name.h"
#include "analysis/store/run_process.h"
#include "analysis/store/sql.h"
#include "shared/numbers/order.h"

static const char run_columns[] =
    "SELECT run.id, run.kind, run.status, ifnull(run.plan, -1), plan.hash, plan.name,"
    " ifnull(plan.n_ranks, 0),"
    " (SELECT count(*) FROM bucket WHERE bucket.plan = run.plan AND set_name = (SELECT set_name"
    "   FROM bucket WHERE bucket.plan = run.plan ORDER BY bucket DESC LIMIT 1)),"
    " ifnull(plan.bucket_cap_bytes, -1),"
    " run.workload_name, run.workload_hash, run.workload_from, run.cluster_name, run.cluster_hash,"
    " run.backend, run.honesty, run.command, run.message, run.version, run.seed, run.started_at,"
    " run.n_spans, run.n_warmup,"
    " (SELECT value FROM metric m WHERE m.run = run.id AND m.name = 'step_ps'"
    "   AND m.step = -1 AND m.rank = -1),"
    " (SELECT value FROM metric m WHERE m.run = run.id AND m.name = 'exposed_comm_ps'"
    "   AND m.step = -1 AND m.rank = -1),"
    " (SELECT value FROM metric m WHERE m.run = run.id AND m.name = 'compute_busy_ps'"
    "   AND m.step = -1 AND m.rank = -1),"
    " (SELECT value FROM metric m WHERE m.run = run.id AND m.name = 'comm_busy_ps'"
    "   AND m.step = -1 AND m.rank = -1),"
    " run.name, (SELECT group_concat(name || '=' || value, char(10)) FROM plan_option"
    "   WHERE plan_option.plan = run.plan),"
    " (SELECT value FROM metric m WHERE m.run = run.id AND m.name = 'samples')"
    " FROM run LEFT JOIN plan ON plan.id = run.plan ";

/* Copy a text column; NULL only without memory. */
static const char *keep(struct lw_arena *a, struct lw_sql *q, int column)
{
    return lw_arena_strdup(a, lw_sql_text(q, column));
}

/* The schema allows no other word; an unread row ("") counts as the first. */
static int word_index(const char *text, const char *(*name)(int), int n)
{
    int i = n - 1;
    while (i > 0 && strcmp(text, name(i)) != 0)
        i--;
    return i;
}

static enum lw_status name_run(struct lw_arena *a, struct lw_run *r, struct lw_err *err)
{
    const char **text;

    LW_TRY(lw_run_texts(r, 1, LW_RUN_NAMES, a, &text, err));
    r->name = text[0];
    return LW_OK;
}

static enum lw_status read_strings(struct lw_sql *q, struct lw_arena *a, struct lw_run *r,
                                   struct lw_err *err)
{
    const char **const fields[] = {
        &r->workload_name, &r->workload_hash, &r->workload_from, &r->cluster_name,
        &r->cluster_hash,  &r->backend,       &r->honesty,       &r->command,
        &r->message,       &r->version,
    };

    r->plan_hash = keep(a, q, 4);
    r->plan_name = keep(a, q, 5);
    if (!r->plan_hash || !r->plan_name)
        return lw_fail_nomem(err);
    for (int i = 0; i < 10; i++) {
        *fields[i] = keep(a, q, 9 + i);
        if (!*fields[i])
            return lw_fail_nomem(err);
    }
    r->options = keep(a, q, 28);
    r->named = !lw_sql_is_null(q, 27);
    r->name = keep(a, q, 27);
    if (!r->options || !r->name)
        return lw_fail_nomem(err);
    return r->named ? LW_OK : name_run(a, r, err);
}

static int64_t measure(struct lw_sql *q, int column)
{
    return lw_sql_is_null(q, column) ? -1 : lw_sql_int(q, column);
}

static enum lw_status read_run(struct lw_sql *q, struct lw_arena *a, struct lw_run *r,
                               struct lw_err *err)
{
    *r = (struct lw_run){
        .id = lw_sql_int(q, 0),
        .kind = (enum lw_run_kind)word_index(lw_sql_text(q, 1), lw_run_kind_name, 3),
        .status = (enum lw_run_status)word_index(lw_sql_text(q, 2), lw_run_status_name, 4),
        .plan = lw_sql_int(q, 3),
        .n_ranks = (int32_t)lw_sql_int(q, 6),
        .n_buckets = (int32_t)lw_sql_int(q, 7),
        .bucket_cap_bytes = lw_sql_int(q, 8),
        .seed = lw_sql_int(q, 19),
        .started_at = lw_sql_int(q, 20),
        .n_spans = lw_sql_int(q, 21),
        .n_warmup = (int32_t)lw_sql_int(q, 22),
        .step = measure(q, 23),
        .exposed_comm = measure(q, 24),
        .compute_busy = measure(q, 25),
        .comm_busy = measure(q, 26),
        .samples = measure(q, 29),
    };
    return read_strings(q, a, r, err);
}

static enum lw_status collect_runs(struct lw_sql *q, struct lw_arena *a, struct lw_run *v,
                                   int64_t room, int32_t *n, struct lw_err *err)
{
    int32_t k = 0;

    while (k < room && lw_sql_next(q))
        LW_TRY(read_run(q, a, &v[k++], err));
    *n = k;
    return LW_OK;
}

enum lw_status lw_store_runs(struct lw_store *s, struct lw_arena *a, struct lw_run **runs,
                             int32_t *n, struct lw_err *err)
{
    char text[sizeof run_columns + 32];
    struct lw_sql *q;
    struct lw_run *v;
    int64_t room;
    int32_t k = 0;

    LW_TRY(lw_sql_number(s, &room, err, "SELECT count(*) FROM run", ""));
    LW_TAKE(a, v, room, err);
    strcat(strcpy(text, run_columns), "ORDER BY run.id");
    LW_TRY(lw_sql_prepare(s, text, &q, err));
    LW_TRY(lw_sql_end(q, collect_runs(q, a, v, room, &k, err), err));
    for (int32_t i = 0; i < k; i++)
        LW_TRY(lw_run_process_judge(s, a, &v[i], err));
    *runs = v;
    *n = k;
    return LW_OK;
}

static enum lw_status run_id(struct lw_store *s, const char *text, int64_t *id, struct lw_err *err)
{
    struct lw_sql *q;
    struct lw_err bad;

    LW_TRY(lw_sql_prepare(s, "SELECT count(*), ifnull(min(id), 0), ifnull(max(id), 0) FROM run", &q,
                          err));
    lw_sql_next(q);
    int64_t n = lw_sql_int(q, 0), low = lw_sql_int(q, 1), high = lw_sql_int(q, 2);
    LW_TRY(lw_sql_finish(q, err));
    if (n == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0, "holds no run yet");
    *id = high;
    if (strcmp(text, "last") == 0 ||
        (lw_parse_int(text, low, high, id, &bad) == LW_OK && *id >= low))
        return LW_OK;
    return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                      "no run '%s'; there are runs %lld to %lld, or 'last'", text, (long long)low,
                      (long long)high);
}

enum lw_status lw_store_find_run(struct lw_store *s, const char *text, struct lw_arena *a,
                                 struct lw_run *run, struct lw_err *err)
{
    char sql[sizeof run_columns + 32];
    struct lw_sql *q;
    int64_t id;

    LW_TRY(run_id(s, text, &id, err));
    strcat(strcpy(sql, run_columns), "WHERE run.id = ?");
    LW_TRY(lw_sql_query(s, &q, err, sql, "l", id));
    bool found = lw_sql_next(q);
    LW_TRY(lw_sql_end(q, found ? read_run(q, a, run, err) : LW_OK, err));
    return found ? LW_OK
                 : lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0, "no run '%s'", text);
}

LW_COMPARATOR(by_id, struct lw_run, a->id, b->id)

enum lw_status lw_store_select_runs(struct lw_store *s, char **names, int n_names,
                                    struct lw_arena *a, struct lw_run **runs, int32_t *n,
                                    struct lw_err *err)
{
    struct lw_run *v;
    int32_t n_all = n_names, k = 0;

    if (n_names == 0) {
        LW_TRY(lw_store_runs(s, a, &v, &n_all, err));
    } else {
        LW_TAKE(a, v, n_names, err);
        for (int i = 0; i < n_names; i++)
            LW_TRY(lw_store_find_run(s, names[i], a, &v[i], err));
        qsort(v, (size_t)n_names, sizeof *v, by_id);
    }
    for (int32_t i = 0; i < n_all; i++)
        if (n_names > 0 ? k == 0 || v[k - 1].id != v[i].id : v[i].status == LW_RUN_OK)
            v[k++] = v[i];
    if (k == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0, "holds no finished run");
    *runs = v;
    *n = k;
    return LW_OK;
}

enum lw_status lw_store_past_errors(struct lw_store *s, const struct lw_cluster *c,
                                    struct lw_past_errors *out, struct lw_err *err)
{
    char hash[33];
    struct lw_sql *q;

    LW_TRY(lw_cluster_hash(c, hash, err));
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT count(*), ifnull(avg(abs(error_pct)), 0),"
                        " ifnull(max(abs(error_pct)), 0)"
                        " FROM comparison"
                        " JOIN run AS p ON p.id = comparison.predicted AND p.kind = 'sim'"
                        " JOIN run AS m ON m.id = comparison.measured AND m.kind = 'exec'"
                        " WHERE comparison.cluster_hash = ?1 AND comparison.predicted ="
                        "  (SELECT max(c.predicted) FROM comparison AS c"
                        "   JOIN run AS r ON r.id = c.predicted AND r.kind = 'sim'"
                        "   WHERE c.measured = comparison.measured AND c.cluster_hash = ?1)",
                        "t", hash));
    struct lw_past_errors e = {0};
    if (lw_sql_next(q))
        e = (struct lw_past_errors){.n = (int32_t)lw_sql_int(q, 0),
                                    .mean_abs_pct = lw_sql_real(q, 1),
                                    .max_abs_pct = lw_sql_real(q, 2)};
    LW_TRY(lw_sql_finish(q, err));
    *out = e;
    return LW_OK;
}
