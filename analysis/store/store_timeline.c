/* The spans of a stored run as a timeline again, to the picosecond. */
#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "shared/plan/op.h"

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

enum lw_status lw_store_load_timeline(struct lw_store *s, const struct lw_run *run,
                                      struct lw_timeline *t, struct lw_err *err)
{
    struct lw_timeline loaded = {0};
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    if (run->n_spans == 0)
        return lw_fail_at(
            err, LW_EINVAL, lw_store_file(s), 0,
            "run %lld was stored without spans (lapwing sim stores them with --spans)",
            (long long)run->id);
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT step, pass, rank, op, op_kind.name, stream, comm, ready_ps,"
                        " issue_ps, start_ps, all_in_ps, end_ps FROM run"
                        " JOIN span ON span.id BETWEEN run.first_span AND run.last_span"
                        "  AND span.run = run.id"
                        " JOIN op_kind ON op_kind.id = span.kind"
                        " WHERE run.id = ? ORDER BY span.id",
                        "l", run->id));
    while (st == LW_OK && lw_sql_next(q))
        st = add_span(q, &loaded, err);
    enum lw_status end = lw_sql_finish(q, st == LW_OK ? err : NULL);
    if (st == LW_OK)
        st = end;
    if (st != LW_OK) {
        lw_timeline_free(&loaded);
        return st;
    }
    *t = loaded;
    return LW_OK;
}
