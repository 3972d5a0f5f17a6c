/* Deleting runs, and taking over those of another database.
 *
 * A deleted run takes its spans, measures and comparisons with it, and its plan where no other
 * run has it. A merged run gets the next id; a plan that is here already, by its hash, is not
 * copied. Every table of a plan begins with the column "plan", so rows move with a new number in
 * its place. */
#include "analysis/store/store.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/store/sql.h"

static const char *const plan_tables[] = {
    "plan_option", "plan_note", "plan_rank", "stream", "comm", "comm_rank", "param", "bucket",
    "slot", "pass", "program", "op", "operand", "dep", "ready",
};

enum { N_PLAN_TABLES = sizeof plan_tables / sizeof *plan_tables };

static enum lw_status run_sql(struct lw_store *s, const char *text, int64_t a, int64_t b,
                              struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_prepare(s, text, &q, err));
    lw_sql_run(q, strchr(text, '?') == strrchr(text, '?') ? "l" : "ll", a, b);
    return lw_sql_finish(q, err);
}

/* Inside one transaction: what `change` did stands whole or not at all. */
static enum lw_status in_transaction(struct lw_store *s, enum lw_status status, struct lw_err *err)
{
    if (status == LW_OK)
        return lw_sql_commit(s, err);
    lw_sql_rollback(s);
    return status;
}

/* ---- deleting ---- */

static enum lw_status delete_plan(struct lw_store *s, int64_t plan, struct lw_err *err)
{
    char text[96];
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err, "SELECT count(*) FROM run WHERE plan = ?", "l", plan));
    bool used = lw_sql_next(q) && lw_sql_int(q, 0) > 0;
    LW_TRY(lw_sql_finish(q, err));
    for (int i = N_PLAN_TABLES - 1; i >= 0 && !used; i--) {
        snprintf(text, sizeof text, "DELETE FROM %s WHERE plan = ?", plan_tables[i]);
        LW_TRY(run_sql(s, text, plan, 0, err));
    }
    return used ? LW_OK : run_sql(s, "DELETE FROM plan WHERE id = ?", plan, 0, err);
}

static enum lw_status delete_run(struct lw_store *s, const struct lw_run *r, struct lw_err *err)
{
    static const char *const parts[] = {
        "DELETE FROM span WHERE id BETWEEN (SELECT first_span FROM run WHERE id = ?1)"
        " AND (SELECT last_span FROM run WHERE id = ?1) AND run = ?1",
        "DELETE FROM metric WHERE run = ?1",
        "DELETE FROM memory WHERE run = ?1",
        "DELETE FROM run_process WHERE run = ?1",
        "DELETE FROM comparison WHERE predicted = ?1 OR measured = ?1",
        "DELETE FROM run WHERE id = ?1",
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct lw_sql *q;
        LW_TRY(lw_sql_prepare(s, parts[i], &q, err));
        lw_sql_run(q, "l", r->id);
        LW_TRY(lw_sql_finish(q, err));
    }
    return r->plan >= 0 ? delete_plan(s, r->plan, err) : LW_OK;
}

enum lw_status lw_store_delete_runs(struct lw_store *s, const struct lw_run *runs, int32_t n,
                                    struct lw_err *err)
{
    enum lw_status status = LW_OK;

    LW_TRY(lw_sql_begin(s, err));
    for (int32_t i = 0; i < n && status == LW_OK; i++)
        status = delete_run(s, &runs[i], err);
    return in_transaction(s, status, err);
}

/* ---- merging ---- */

static enum lw_status copy_table(struct lw_store *s, const char *table, int64_t from, int64_t to,
                                 struct lw_err *err)
{
    char columns[1024], text[2400];
    struct lw_sql *q;

    snprintf(text, sizeof text,
             "SELECT group_concat(name) FROM pragma_table_info('%s') WHERE name <> 'plan'", table);
    LW_TRY(lw_sql_prepare(s, text, &q, err));
    lw_sql_next(q);
    snprintf(columns, sizeof columns, "%s", lw_sql_text(q, 0));
    LW_TRY(lw_sql_finish(q, err));
    snprintf(text, sizeof text,
             "INSERT INTO main.%s (plan, %s) SELECT ?1, %s FROM other.%s WHERE plan = ?2", table,
             columns, columns, table);
    return run_sql(s, text, to, from, err);
}

/* The id here of a plan of the other database. */
static enum lw_status copy_plan(struct lw_store *s, int64_t from, int64_t *to, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT id FROM main.plan WHERE hash ="
                        " (SELECT hash FROM other.plan WHERE id = ?)", "l", from));
    bool here = lw_sql_next(q);
    *to = here ? lw_sql_int(q, 0) : -1;
    LW_TRY(lw_sql_finish(q, err));
    if (here)
        return LW_OK;
    LW_TRY(run_sql(s,
                   "INSERT INTO main.plan (hash, name, n_ranks, n_stages, n_params, n_buckets,"
                   " n_ops, bucket_cap_bytes, repeat_from, workload_hash, cluster_name)"
                   " SELECT hash, name, n_ranks, n_stages, n_params, n_buckets, n_ops,"
                   " bucket_cap_bytes, repeat_from, workload_hash, cluster_name"
                   " FROM other.plan WHERE id = ?", from, 0, err));
    *to = lw_sql_last_id(s);
    for (int i = 0; i < N_PLAN_TABLES; i++)
        LW_TRY(copy_table(s, plan_tables[i], from, *to, err));
    return LW_OK;
}

static enum lw_status copy_spans(struct lw_store *s, int64_t from, int64_t to, struct lw_err *err)
{
    LW_TRY(run_sql(s,
                   "INSERT INTO main.span (run, step, pass, rank, op, kind, stream, comm, ready_ps,"
                   " issue_ps, start_ps, all_in_ps, end_ps)"
                   " SELECT ?1, step, pass, rank, op, mine.id, stream, comm, ready_ps, issue_ps,"
                   " start_ps, all_in_ps, end_ps FROM other.span"
                   " JOIN other.op_kind AS theirs ON theirs.id = span.kind"
                   " JOIN main.op_kind AS mine ON mine.name = theirs.name"
                   " WHERE span.run = ?2 ORDER BY span.id", to, from, err));
    return run_sql(
        s,
        "UPDATE main.run SET first_span = (SELECT min(id) FROM main.span WHERE run = ?1),"
        " last_span = (SELECT max(id) FROM main.span WHERE run = ?1) WHERE id = ?2",
        to, to, err);
}

static enum lw_status copy_run(struct lw_store *s, int64_t from, int64_t plan, struct lw_err *err)
{
    int64_t to;

    LW_TRY(
        run_sql(s,
                "INSERT INTO main.run (kind, status, message, plan, workload_name, workload_hash,"
                " workload_from, cluster_name, cluster_hash, backend, honesty, seed, n_warmup,"
                " command, version, started_at, ended_at, n_spans, name, settings)"
                " SELECT kind, status, message, nullif(?1, -1), workload_name, workload_hash,"
                " workload_from, cluster_name, cluster_hash, backend, honesty, seed, n_warmup,"
                " command, version, started_at, ended_at, n_spans, name, settings"
                " FROM other.run WHERE id = ?2",
                plan, from, err));
    to = lw_sql_last_id(s);
    LW_TRY(run_sql(s,
                   "INSERT INTO main.metric (run, name, step, rank, value)"
                   " SELECT ?1, name, step, rank, value FROM other.metric WHERE run = ?2",
                   to, from, err));
    LW_TRY(run_sql(s,
                   "INSERT INTO main.memory (run, change, rank, at_ps, category, bytes)"
                   " SELECT ?1, change, rank, at_ps, category, bytes FROM other.memory"
                   " WHERE run = ?2", to, from, err));
    LW_TRY(run_sql(s, "INSERT INTO temp.merged VALUES (?1, ?2)", from, to, err));
    return copy_spans(s, from, to, err);
}

static enum lw_status copy_all(struct lw_store *s, struct lw_store *from, int32_t *n,
                               struct lw_err *err)
{
    struct lw_arena a = {0};
    struct lw_run *runs;
    enum lw_status status = lw_store_runs(from, &a, &runs, n, err);

    for (int32_t i = 0; status == LW_OK && i < *n; i++) {
        int64_t plan = -1;
        if (runs[i].plan >= 0)
            status = copy_plan(s, runs[i].plan, &plan, err);
        if (status == LW_OK)
            status = copy_run(s, runs[i].id, plan, err);
    }
    lw_arena_free(&a);
    if (status != LW_OK)
        return status;
    return lw_sql_exec(s,
                       "INSERT INTO main.comparison (predicted, measured, cluster_hash, joined_by,"
                       " predicted_step_ps, measured_step_ps, error_pct, predicted_exposed_ps,"
                       " measured_exposed_ps, tolerance_pct, made_at)"
                       " SELECT p.to_id, m.to_id, cluster_hash, joined_by, predicted_step_ps,"
                       " measured_step_ps, error_pct, predicted_exposed_ps, measured_exposed_ps,"
                       " tolerance_pct, made_at FROM other.comparison"
                       " JOIN temp.merged AS p ON p.from_id = predicted"
                       " JOIN temp.merged AS m ON m.from_id = measured", err);
}

static enum lw_status merge(struct lw_store *s, struct lw_store *from, int32_t *n,
                            struct lw_err *err)
{
    static const char prepare[] =
        "CREATE TEMP TABLE merged (from_id INTEGER, to_id INTEGER);"
        "INSERT OR IGNORE INTO main.op_kind (name, letter, class)"
        " SELECT name, letter, class FROM other.op_kind;";

    LW_TRY(lw_sql_begin(s, err));
    enum lw_status status = lw_sql_exec(s, prepare, err);
    if (status == LW_OK)
        status = copy_all(s, from, n, err);
    status = in_transaction(s, status, err);
    lw_sql_exec(s, "DROP TABLE IF EXISTS temp.merged", NULL);
    return status;
}

static bool is_one_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

enum lw_status lw_store_merge(struct lw_store *s, const char *file, int32_t *n, struct lw_err *err)
{
    struct lw_store *from;
    struct lw_sql *q;

    if (is_one_file(lw_store_file(s), file))
        return lw_fail(err, LW_EINVAL, "%s is the database itself: --merge takes over another one",
                       file);
    LW_TRY(lw_store_open(file, LW_STORE_READ, &from, err)); /* ours, and of this schema */
    enum lw_status status = lw_sql_prepare(s, "ATTACH ? AS other", &q, err);
    if (status == LW_OK) {
        lw_sql_run(q, "t", file);
        status = lw_sql_finish(q, err);
    }
    if (status == LW_OK) {
        status = merge(s, from, n, err);
        lw_sql_exec(s, "DETACH other", NULL);
    }
    lw_store_close(from);
    return status;
}
