/* Deleting runs, and taking over those of another database.
 *
 * A deleted run takes its spans, measures and comparisons with it, and its plan where no other
 * run has it. A merged run gets the next id; a plan that is here already, by its hashes, is not
 * copied. Every table of a plan begins with the column "plan", so rows move with a new number in
 * its place. Searches are copied with their strategies. */
#include "analysis/store/store.h"

#include <stdio.h>
#include <sys/stat.h>

#include "analysis/store/sql.h"
#include "analysis/store/store_cluster.h"
#include "analysis/store/store_memory.h"
#include "analysis/store/store_ops.h"
#include "analysis/store/store_search.h"
#include "analysis/store/store_spans.h"

static const char *const plan_tables[] = {
    "plan_option", "plan_note", "plan_rank", "stream", "comm", "comm_rank", "param", "bucket",
    "slot", "pass", "program", "op_alike", "operand", "dep", "ready", "plan_file",
};
/* Those of this version, whatever the other database has. */
static const char *const piece_tables[] = {"op_order", "op_piece"};

enum { N_PLAN_TABLES = sizeof plan_tables / sizeof *plan_tables };

/* ---- deleting ---- */

static enum lw_status delete_plan(struct lw_store *s, int64_t plan, struct lw_err *err)
{
    char text[96];
    int64_t n_runs;

    LW_TRY(lw_sql_number(s, &n_runs, err, "SELECT count(*) FROM run WHERE plan = ?", "l", plan));
    if (n_runs > 0)
        return LW_OK;
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "DELETE FROM %s WHERE plan = ?", piece_tables[i]);
        LW_TRY(lw_sql_do(s, err, text, "l", plan));
    }
    for (int i = N_PLAN_TABLES - 1; i >= 0; i--) {
        snprintf(text, sizeof text, "DELETE FROM %s WHERE plan = ?", plan_tables[i]);
        LW_TRY(lw_sql_do(s, err, text, "l", plan));
    }
    return lw_sql_do(s, err, "DELETE FROM plan WHERE id = ?", "l", plan);
}

static enum lw_status delete_run(struct lw_store *s, const struct lw_run *r, struct lw_err *err)
{
    static const char *const parts[] = {
        "DELETE FROM span_block WHERE run = ?1",
        "DELETE FROM span_data WHERE run = ?1",
        "DELETE FROM span_alike WHERE run = ?1",
        "DELETE FROM metric WHERE run = ?1",
        "DELETE FROM memory_piece WHERE run = ?1",
        "DELETE FROM memory_order WHERE run = ?1",
        "DELETE FROM run_process WHERE run = ?1",
        "DELETE FROM comparison WHERE predicted = ?1 OR measured = ?1",
        "UPDATE searched SET run = NULL WHERE run = ?1",
        "DELETE FROM run WHERE id = ?1",
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        LW_TRY(lw_sql_do(s, err, parts[i], "l", r->id));
    return r->plan >= 0 ? delete_plan(s, r->plan, err) : LW_OK;
}

enum lw_status lw_store_delete_runs(struct lw_store *s, const struct lw_run *runs, int32_t n,
                                    struct lw_err *err)
{
    enum lw_status status = LW_OK;

    LW_TRY(lw_sql_begin(s, err));
    for (int32_t i = 0; i < n && status == LW_OK; i++)
        status = delete_run(s, &runs[i], err);
    if (status == LW_OK)
        status = lw_store_drop_clusters(s, err);
    return lw_sql_commit(s, status, err);
}

/* ---- merging ---- */

/* The rows of the other database where `where` = from, with `to` as their `set` (-1: NULL, of which
 * SQLite makes the next id). Ids and ranges of spans are not copied, nor columns that its schema
 * does not have yet. */
static enum lw_status copy_rows(struct lw_store *s, const char *table, const char *set,
                                const char *where, int64_t from, int64_t to, struct lw_err *err)
{
    char columns[1024], text[2400];
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT group_concat(name) FROM pragma_table_info(?1, 'main')"
                        " WHERE name NOT IN (?2, 'id', 'first_span', 'last_span') AND name IN"
                        " (SELECT name FROM pragma_table_info(?1, 'other'))",
                        "tt", table, set));
    lw_sql_next(q);
    snprintf(columns, sizeof columns, "%s", lw_sql_text(q, 0));
    LW_TRY(lw_sql_finish(q, err));
    snprintf(text, sizeof text,
             "INSERT INTO main.%s (%s, %s) SELECT nullif(?1, -1), %s FROM other.%s WHERE %s = ?2",
             table, set, columns, columns, table, where);
    return lw_sql_do(s, err, text, "ll", to, from);
}

/* The id here of a plan of the other database. */
static enum lw_status copy_plan(struct lw_store *s, struct lw_store *other, int64_t from,
                                int64_t *to, struct lw_err *err)
{
    LW_TRY(lw_sql_number(s, to, err,
                         "SELECT mine.id FROM main.plan AS mine JOIN other.plan AS theirs"
                         " ON theirs.hash = mine.hash AND theirs.times IS mine.times"
                         " WHERE theirs.id = ?",
                         "l", from));
    if (*to > 0)
        return LW_OK;
    LW_TRY(copy_rows(s, "plan", "id", "id", from, -1, err));
    *to = lw_sql_last_id(s);
    for (int i = 0; i < N_PLAN_TABLES; i++)
        LW_TRY(copy_rows(s, plan_tables[i], "plan", "plan", from, *to, err));
    return lw_store_copy_ops(s, *to, other, from, err);
}

static enum lw_status copy_run(struct lw_store *s, struct lw_store *other, int64_t from,
                               int64_t plan, struct lw_err *err)
{
    LW_TRY(copy_rows(s, "run", "plan", "id", from, plan, err));
    int64_t to = lw_sql_last_id(s);
    LW_TRY(copy_rows(s, "metric", "run", "run", from, to, err));
    LW_TRY(lw_store_copy_memory(s, to, other, from, err));
    LW_TRY(lw_sql_do(s, err, "INSERT INTO temp.merged VALUES (?1, ?2)", "ll", from, to));
    return lw_store_copy_spans(s, to, other, from, err);
}

/* With its strategies, whose runs are here already, under their new numbers. */
static enum lw_status copy_search(struct lw_store *s, int64_t from, struct lw_err *err)
{
    LW_TRY(copy_rows(s, "search", "id", "id", from, -1, err));
    int64_t to = lw_sql_last_id(s);
    LW_TRY(copy_rows(s, "searched", "search", "search", from, to, err));
    LW_TRY(copy_rows(s, "search_reason", "search", "search", from, to, err));
    return lw_sql_do(s, err,
                     "UPDATE main.searched SET run = (SELECT to_id FROM temp.merged"
                     " WHERE from_id = run) WHERE search = ?", "l", to);
}

static enum lw_status copy_searches(struct lw_store *s, struct lw_store *from, int64_t *n,
                                    struct lw_err *err)
{
    struct lw_arena a = {0};
    struct lw_search *v;
    enum lw_status st = lw_store_searches(from, &a, &v, n, err);

    for (int64_t i = 0; st == LW_OK && i < *n; i++)
        st = copy_search(s, v[i].id, err);
    lw_arena_free(&a);
    return st;
}

static enum lw_status copy_all(struct lw_store *s, struct lw_store *from, int32_t *n,
                               int64_t *n_searches, struct lw_err *err)
{
    struct lw_arena a = {0};
    struct lw_run *runs;
    enum lw_status status = lw_store_runs(from, &a, &runs, n, err);

    for (int32_t i = 0; status == LW_OK && i < *n; i++) {
        int64_t plan = -1;
        if (runs[i].plan >= 0)
            status = copy_plan(s, from, runs[i].plan, &plan, err);
        if (status == LW_OK)
            status = copy_run(s, from, runs[i].id, plan, err);
    }
    lw_arena_free(&a);
    if (status == LW_OK)
        status = copy_searches(s, from, n_searches, err);
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
                            int64_t *n_searches, struct lw_err *err)
{
    static const char prepare[] =
        "CREATE TEMP TABLE merged (from_id INTEGER, to_id INTEGER);"
        "INSERT OR IGNORE INTO main.op_kind (name, letter, class)"
        " SELECT name, letter, class FROM other.op_kind;";

    LW_TRY(lw_sql_begin(s, err));
    enum lw_status status = lw_sql_exec(s, prepare, err);
    if (status == LW_OK)
        status = lw_store_copy_clusters(s, from, err);
    if (status == LW_OK)
        status = copy_all(s, from, n, n_searches, err);
    status = lw_sql_commit(s, status, err);
    lw_sql_exec(s, "DROP TABLE IF EXISTS temp.merged", NULL);
    return status;
}

static bool is_one_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

enum lw_status lw_store_merge(struct lw_store *s, const char *file, int32_t *n,
                              int64_t *n_searches, struct lw_err *err)
{
    struct lw_store *from;

    if (is_one_file(lw_store_file(s), file))
        return lw_fail(err, LW_EINVAL, "%s is the database itself: --merge takes over another one",
                       file);
    LW_TRY(lw_store_open(file, LW_STORE_READ, &from, err)); /* ours, and of this schema */
    enum lw_status status = lw_sql_do(s, err, "ATTACH ? AS other", "t", file);
    if (status == LW_OK) {
        status = merge(s, from, n, n_searches, err);
        lw_sql_exec(s, "DETACH other", NULL);
    }
    lw_store_close(from);
    return status;
}
