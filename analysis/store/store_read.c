/* Runs out of the database: list, look up, past errors. */
#include "analysis/store/store.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/run_name.h"
#include "analysis/store/run_numbers.h"
#include "analysis/store/run_process.h"
#include "analysis/store/sql.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/timeline/run_sources.h"

#define METRIC(name)                                                                               \
    "(SELECT value FROM metric m WHERE m.run = run.id AND m.name = '" name "'"                     \
    " AND m.step = -1 AND m.rank = -1)"

/* Where each field of a run comes from. Not stored: MEASURE and KNOWN32 -1, REAL NAN. */
enum kind { INT, INT32, MEASURE, REAL, KNOWN32, TEXT };
#define AT(field) offsetof(struct lw_run, field)
static const struct {
    const char *from;
    enum kind kind;
    size_t at;
} columns[] = {
    {"run.id", INT, AT(id)},
    {"run.plan", MEASURE, AT(plan)},
    {"plan.hash", TEXT, AT(plan_hash)},
    {"plan.times", TEXT, AT(plan_times)},
    {"plan.name", TEXT, AT(plan_name)},
    {"plan.n_ranks", INT32, AT(n_ranks)},
    /* of gradients, in the last of their sets: those of the steady state */
    {"(SELECT count(*) FROM bucket WHERE bucket.plan = run.plan AND set_name = (SELECT set_name"
     " FROM bucket WHERE bucket.plan = run.plan AND set_name NOT IN ('weights', 'tied', 'norm')"
     " ORDER BY bucket DESC LIMIT 1))",
     INT32, AT(n_buckets)},
    {"plan.bucket_cap_bytes", MEASURE, AT(bucket_cap_bytes)},
    {"workload_name", TEXT, AT(workload_name)},
    {"run.workload_hash", TEXT, AT(workload_hash)},
    {"workload_from", TEXT, AT(workload_from)},
    {"run.cluster_name", TEXT, AT(cluster_name)},
    {"cluster_hash", TEXT, AT(cluster_hash)},
    {"run.framework", TEXT, AT(framework)},
    {"run.framework_hash", TEXT, AT(framework_hash)},
    {"backend", TEXT, AT(backend)},
    {"honesty", TEXT, AT(honesty)},
    {"command", TEXT, AT(command)},
    {"message", TEXT, AT(message)},
    {"version", TEXT, AT(version)},
    {"seed", INT, AT(seed)},
    {"started_at", INT, AT(started_at)},
    {"n_spans", INT, AT(n_spans)},
    {"n_warmup", INT32, AT(n_warmup)},
    {METRIC("step_ps"), MEASURE, AT(step)},
    {METRIC("exposed_comm_ps"), MEASURE, AT(exposed_comm)},
    {METRIC("compute_busy_ps"), MEASURE, AT(compute_busy)},
    {METRIC("comm_busy_ps"), MEASURE, AT(comm_busy)},
    {METRIC("samples"), MEASURE, AT(samples)},
    {METRIC("tokens"), REAL, AT(tokens)},
    {METRIC("tokens_per_s"), REAL, AT(tokens_per_s)},
    {METRIC("mfu_pct"), REAL, AT(mfu_pct)},
    {METRIC("overlap_pct"), REAL, AT(overlap_pct)},
    {METRIC("price_per_device_hour"), REAL, AT(price_per_device_hour)},
    {METRIC("cost_per_trillion_tokens"), REAL, AT(cost_per_trillion_tokens)},
    {METRIC("memory_bytes"), MEASURE, AT(memory_bytes)},
    {METRIC("device_memory_bytes"), MEASURE, AT(device_memory_bytes)},
    {METRIC("fits"), KNOWN32, AT(fits)},
    {METRIC("others_pct"), REAL, AT(others_pct)},
    {METRIC("machine_speed"), REAL, AT(machine_speed)},
    {METRIC("machine_speed_p10"), REAL, AT(machine_speed_p10)},
    {METRIC("machine_speed_p90"), REAL, AT(machine_speed_p90)},
    {"step_p10_ps", MEASURE, AT(p10)},
    {"step_p90_ps", MEASURE, AT(p90)},
    {"interval_of", TEXT, AT(interval_of)},
    {"run.name", TEXT, AT(name)},
    {"(SELECT group_concat(replace(name, 'reducer', 'collective-algorithm') || '=' || value,"
     " char(10)) FROM plan_option WHERE plan_option.plan = run.plan)",
     TEXT, AT(options)},
};
#undef AT

enum { N_COLUMNS = sizeof columns / sizeof *columns, KIND = N_COLUMNS, STATUS, NAMED };

/* `rest`: which runs, in which order. */
static enum lw_status select_runs(struct lw_store *s, struct lw_sql **q, const char *rest,
                                  const char *types, int64_t id, struct lw_err *err)
{
    char text[8192] = "SELECT ";
    size_t n = strlen(text);

    for (int i = 0; i < N_COLUMNS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s, ", columns[i].from);
    snprintf(text + n, sizeof text - n,
             "run.kind, run.status, run.name IS NOT NULL"
             " FROM run LEFT JOIN plan ON plan.id = run.plan %s",
             rest);
    return lw_sql_query(s, q, err, text, types, id);
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

bool lw_run_under_load(const struct lw_run *r)
{
    return r->kind == LW_RUN_EXEC && r->others_pct > LW_LOADED_PCT;
}

/* What measured runs, and those of older versions, have only by its parts. */
static void derive(struct lw_run *r)
{
    if (isnan(r->tokens_per_s) && r->tokens > 0 && r->step > 0)
        r->tokens_per_s = r->tokens / ((double)r->step * 1e-12);
    if (isnan(r->overlap_pct) && r->comm_busy > 0 && r->exposed_comm >= 0)
        r->overlap_pct = 100 * (double)(r->comm_busy - r->exposed_comm) / (double)r->comm_busy;
}

static void split_sources(struct lw_run *r)
{
    struct lw_run_sources from = lw_run_sources_of(r->honesty);

    r->compute_source = from.compute;
    r->network = from.network;
    r->honesty = from.last;
}

static enum lw_status read_run(struct lw_sql *q, struct lw_arena *a, struct lw_run *r,
                               struct lw_err *err)
{
    *r = (struct lw_run){
        .kind = (enum lw_run_kind)word_index(lw_sql_text(q, KIND), lw_run_kind_name, 3),
        .status = (enum lw_run_status)word_index(lw_sql_text(q, STATUS), lw_run_status_name, 4),
        .named = lw_sql_int(q, NAMED) != 0,
    };
    for (int i = 0; i < N_COLUMNS; i++) {
        void *to = (char *)r + columns[i].at;
        if (columns[i].kind == INT32 || columns[i].kind == KNOWN32)
            *(int32_t *)to = columns[i].kind == KNOWN32 && lw_sql_is_null(q, i)
                                 ? -1 : (int32_t)lw_sql_int(q, i);
        else if (columns[i].kind == REAL)
            *(double *)to = lw_sql_is_null(q, i) ? NAN : lw_sql_real(q, i);
        else if (columns[i].kind != TEXT)
            *(int64_t *)to =
                columns[i].kind == MEASURE && lw_sql_is_null(q, i) ? -1 : lw_sql_int(q, i);
        else if (!(*(const char **)to = lw_arena_strdup(a, lw_sql_text(q, i))))
            return lw_fail_nomem(err);
    }
    derive(r);
    split_sources(r);
    return r->named ? LW_OK : name_run(a, r, err);
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
    struct lw_sql *q;
    struct lw_run *v;
    int64_t room;
    int32_t k = 0;

    LW_TRY(lw_sql_number(s, &room, err, "SELECT count(*) FROM run", ""));
    LW_TAKE(a, v, room, err);
    LW_TRY(select_runs(s, &q, "ORDER BY run.id", "", 0, err));
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
    struct lw_sql *q;
    int64_t id;

    LW_TRY(run_id(s, text, &id, err));
    LW_TRY(select_runs(s, &q, "WHERE run.id = ?", "l", id, err));
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
    int32_t n_all, k = 0;

    LW_TRY(lw_store_run_numbers(s, names, n_names, a, &names, &n_names, err));
    n_all = n_names;
    if (n_names == 0) {
        LW_TRY(lw_store_runs(s, a, &v, &n_all, err));
    } else {
        LW_TAKE(a, v, n_names, err);
        for (int i = 0; i < n_names; i++)
            LW_TRY(lw_store_find_run(s, names[i], a, &v[i], err));
        lw_sort(v, n_names, by_id);
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
                        " WHERE comparison.cluster_hash = ?1 AND NOT EXISTS"
                        "  (SELECT 1 FROM metric WHERE metric.run = m.id AND name = 'others_pct'"
                        "   AND step = -1 AND rank = -1 AND value > ?2)"
                        " AND comparison.predicted ="
                        "  (SELECT max(c.predicted) FROM comparison AS c"
                        "   JOIN run AS r ON r.id = c.predicted AND r.kind = 'sim'"
                        "   WHERE c.measured = comparison.measured AND c.cluster_hash = ?1)",
                        "td", hash, LW_LOADED_PCT));
    struct lw_past_errors e = {0};
    if (lw_sql_next(q))
        e = (struct lw_past_errors){.n = (int32_t)lw_sql_int(q, 0),
                                    .mean_abs_pct = lw_sql_real(q, 1),
                                    .max_abs_pct = lw_sql_real(q, 2)};
    LW_TRY(lw_sql_finish(q, err));
    *out = e;
    return LW_OK;
}
