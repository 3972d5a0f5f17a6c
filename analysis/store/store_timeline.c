/* The spans of a stored run as a timeline again, to the picosecond. */
#include <stdbool.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "shared/plan/op.h"

enum { MOST_ROWS = 5000000 }; /* of a timeline in memory: about 400 MB, and twice that to explain */

/* Steps and ranks are counted from 0 on, which needs the number after the largest too. */
static enum lw_status check_span(struct lw_store *s, const struct lw_run *run, struct lw_sql *q,
                                 struct lw_err *err)
{
    static const struct {
        const char *name;
        int column, least;
    } numbers[] = {{"step", 0, 0}, {"pass", 1, -1},   {"rank", 2, 0},
                   {"op", 3, -1},  {"stream", 5, -1}, {"comm", 6, -1}};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t v = lw_sql_int(q, numbers[i].column);
        bool is_rank = numbers[i].column == 2;
        int32_t n = is_rank && run->n_ranks > 0 ? run->n_ranks : INT32_MAX;
        if (v < numbers[i].least || v >= n)
            return lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                              "span %lld of run %lld has %s %lld, expected %d to %d: the file is "
                              "damaged; delete the run (lapwing runs %lld --delete) and run it "
                              "again", (long long)lw_sql_int(q, 12), (long long)run->id,
                              numbers[i].name, (long long)v, numbers[i].least, n - 1,
                              (long long)run->id);
    }
    return LW_OK;
}

static enum lw_status add_span(struct lw_sql *q, struct lw_timeline *t, struct lw_err *err)
{
    struct lw_span v = {
        .step = (int32_t)lw_sql_int(q, 0), .pass = (int32_t)lw_sql_int(q, 1),
        .rank = (int32_t)lw_sql_int(q, 2), .op = (int32_t)lw_sql_int(q, 3),
        .stream = (int32_t)lw_sql_int(q, 5), .comm = (int32_t)lw_sql_int(q, 6),
        .ready = lw_sql_int(q, 7), .issue = lw_sql_int(q, 8), .start = lw_sql_int(q, 9),
        .all_in = lw_sql_int(q, 10), .end = lw_sql_int(q, 11),
    };

    enum lw_op_kind kind;
    LW_TRY(lw_op_parse(lw_sql_text(q, 4), &kind, err));
    v.kind = (uint8_t)kind;
    return lw_timeline_add(t, &v, err);
}

/* Spans with the ranks that have their rows (lw_store_rows_of_ranks), where these are stored.
 * SQLite reads a grouped subquery once and indexes it by a column with the type of span.rank:
 * without the GROUP BY or the cast each span would be compared with every rank. */
#define SPANS_WITH(ranks, grouped_by)                                                         \
    " FROM run JOIN span_rows AS span ON span.run = run.id"                                   \
    " LEFT JOIN (SELECT cast(value AS INTEGER) AS rows_of, " ranks " FROM metric"             \
    "  WHERE run = ?1 AND name = 'rows_of_rank' GROUP BY " grouped_by ") AS stands"           \
    "  ON rows_of = span.rank"                                                                \
    " JOIN op_kind ON op_kind.id = span.kind WHERE run.id = ?1"

enum lw_status lw_store_rows_of_ranks(struct lw_store *s, int64_t run, const int32_t *rows_of,
                                      int32_t n, struct lw_err *err)
{
    enum lw_status st = lw_sql_begin(s, err);

    for (int32_t r = 0; r < n && st == LW_OK; r++)
        st = lw_store_metric_int(s, run, "rows_of_rank", -1, r, rows_of[r], err);
    return lw_sql_commit(s, st, err);
}

/* q: one row, of the spans that a run was stored with, those of them that are found, and the rows
 * of its timeline. Ends q. One statement: of a run that is being written all are of one moment. */
static enum lw_status take_counts(struct lw_store *s, struct lw_sql *q, int64_t run, int64_t *rows,
                                  struct lw_err *err)
{
    bool found = lw_sql_next(q);
    long long stored = found ? lw_sql_int(q, 0) : 0, there = found ? lw_sql_int(q, 1) : 0;

    *rows = found ? lw_sql_int(q, 2) : 0;
    LW_TRY(lw_sql_finish(q, err));
    if (there == stored)
        return LW_OK;
    return lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                      "run %lld was stored with %lld spans, %lld of which can be read: the file is "
                      "damaged; delete the run (lapwing runs %lld --delete) and run it again",
                      (long long)run, stored, there, (long long)run);
}

#define N_STORED "(SELECT n_spans FROM run WHERE id = ?1)"

enum lw_status lw_store_check_spans(struct lw_store *s, int64_t run, struct lw_err *err)
{
    struct lw_sql *q;
    int64_t rows;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT " N_STORED ", count(*), 0 FROM span_rows AS span"
                        " JOIN op_kind ON op_kind.id = span.kind WHERE span.run = ?1", "l", run));
    return take_counts(s, q, run, &rows, err);
}

enum lw_status lw_store_check_blocks(struct lw_store *s, int64_t run, struct lw_err *err)
{
    struct lw_sql *q;
    int64_t rows;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT " N_STORED ", sum(b.n), 0 FROM span_block AS b"
                        " JOIN span_data AS d ON d.id = b.data AND d.run = b.run WHERE b.run = ?1",
                        "l", run));
    return take_counts(s, q, run, &rows, err);
}

/* *n: the rows of the run's timeline. */
static enum lw_status count_rows(struct lw_store *s, int64_t run, int64_t *n, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT " N_STORED ", count(*), sum(ifnull(n_alike, 1))"
                        SPANS_WITH("count(*) AS n_alike", "value"), "l", run));
    LW_TRY(take_counts(s, q, run, n, err));
    if (*n > MOST_ROWS)
        return lw_fail_at(err, LW_ENOTSUP, lw_store_file(s), 0,
                          "run %lld has %lld ops over all ranks, this reads up to %d: take fewer "
                          "ranks or steps, or look at 'lapwing plot timeline'", (long long)run,
                          (long long)*n, MOST_ROWS);
    return LW_OK;
}

enum lw_status lw_store_load_timeline(struct lw_store *s, const struct lw_run *run,
                                      struct lw_timeline *t, struct lw_err *err)
{
    struct lw_timeline loaded = {0};
    struct lw_sql *q;
    enum lw_status st = LW_OK;
    int64_t n;

    if (run->n_spans == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          run->kind == LW_RUN_EXEC
                              ? "run %lld has no spans: it ended before a step was measured "
                                "(`lapwing runs` says why)"
                              : "run %lld was stored without spans (lapwing sim stores them with "
                                "--spans)", (long long)run->id);
    LW_TRY(count_rows(s, run->id, &n, err));
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT span.step, pass, ifnull(stands.rank, span.rank), op, op_kind.name,"
                        " stream, comm, ready_ps, issue_ps, start_ps, all_in_ps, end_ps,"
                        " span.id" SPANS_WITH("rank", "value, rank")
                        " ORDER BY span.step, pass, 3, span.id",
                        "l", run->id));
    while (st == LW_OK && lw_sql_next(q)) {
        st = check_span(s, run, q, err);
        st = st == LW_OK ? add_span(q, &loaded, err) : st;
    }
    st = lw_sql_end(q, st, err);
    if (st != LW_OK) {
        lw_timeline_free(&loaded);
        return st;
    }
    *t = loaded;
    return LW_OK;
}
