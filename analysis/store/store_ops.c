/* The ops of plans into the database: pieces of a list of sets of alike ops (pieces.c). The ops of
 * a piece have one micro-batch, so a forward or a backward of a micro-batch is a piece, and the
 * list has those of one micro-batch of each stage. */
#include "analysis/store/store_ops.h"

#include "analysis/store/piece_writer.h"
#include "analysis/store/sql.h"
#include "shared/base/arena.h"

struct op_writer {
    struct piece_writer pieces;
};

static void put_order(void *ctx, struct lw_sql *add, int64_t plan, int64_t place,
                      const int64_t *alike)
{
    (void)ctx;
    lw_sql_run(add, "lll", plan, place, *alike);
}

enum lw_status op_writer_new(struct lw_store *s, int64_t plan, struct op_writer **out,
                             struct lw_err *err)
{
    static const struct piece_tables tables = {
        "INSERT INTO main.op_order (plan, place, alike) VALUES (?,?,?)",
        "INSERT INTO main.op_piece (plan, op, n, micro_batch, place) VALUES (?,?,?,?,?)", 1,
        put_order};
    struct op_writer *w;

    LW_NEW(w, 1, err);
    enum lw_status st = piece_writer_begin(&w->pieces, s, &tables, plan, NULL, err);
    if (st != LW_OK)
        return op_writer_end(w, st, err);
    *out = w;
    return LW_OK;
}

enum lw_status op_writer_add(struct op_writer *w, int64_t op, int64_t micro_batch, int64_t alike,
                             struct lw_err *err)
{
    return piece_coder_add(&w->pieces.coder, op, micro_batch, &alike, err);
}

enum lw_status op_writer_end(struct op_writer *w, enum lw_status st, struct lw_err *err)
{
    if (w)
        st = piece_writer_end(&w->pieces, st, err);
    lw_free(w);
    return st;
}

/* --- of rows that a database has ------------------------------------------------------------- */

/* Rows of q: op, micro-batch, set. */
static enum lw_status write_rows(struct lw_store *s, int64_t plan, struct lw_sql *q,
                                 struct lw_err *err)
{
    struct op_writer *w = NULL;

    LW_TRY(op_writer_new(s, plan, &w, err));
    enum lw_status st = LW_OK;
    while (st == LW_OK && lw_sql_next(q))
        st = op_writer_add(w, lw_sql_int(q, 0), lw_sql_int(q, 1), lw_sql_int(q, 2), err);
    return op_writer_end(w, st, err); /* what failed in q is told by its end */
}

enum lw_status lw_store_copy_ops(struct lw_store *s, int64_t to, struct lw_store *other,
                                 int64_t from, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(other, &q, err,
                        "SELECT op, micro_batch, alike FROM op_rows WHERE plan = ? ORDER BY op",
                        "l", from));
    return lw_sql_end(q, write_rows(s, to, q, err), err);
}

static enum lw_status pack_plan(struct lw_store *s, int64_t plan, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT op, micro_batch, alike FROM op_row_before WHERE plan = ?"
                        " ORDER BY op",
                        "l", plan));
    return lw_sql_end(q, write_rows(s, plan, q, err), err);
}

enum lw_status lw_store_pack_ops(struct lw_store *s, struct lw_err *err)
{
    for (int64_t plan = 0;;) {
        LW_TRY(lw_sql_number(s, &plan, err,
                             "SELECT min(plan) FROM op_row_before WHERE plan > ?", "l", plan));
        if (plan <= 0)
            return lw_sql_exec(s, "DROP TABLE op_row_before", err);
        LW_TRY(pack_plan(s, plan, err));
    }
}
