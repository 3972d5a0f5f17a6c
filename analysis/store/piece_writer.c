/* What a piece coder gives, into the tables of a database. */
#include "analysis/store/piece_writer.h"

#include "analysis/store/sql.h"

static void put_item(void *ctx, int64_t place, const int64_t *item)
{
    struct piece_writer *w = ctx;

    w->tables->put_item(w->ctx, w->add_item, w->owner, place, item);
}

static void put_piece(void *ctx, const struct piece *p)
{
    struct piece_writer *w = ctx;

    lw_sql_run(w->add_piece, "lllll", w->owner, p->first, p->n, p->key, p->place);
}

enum lw_status piece_writer_begin(struct piece_writer *w, struct lw_store *s,
                                  const struct piece_tables *tables, int64_t owner, void *ctx,
                                  struct lw_err *err)
{
    *w = (struct piece_writer){.tables = tables, .ctx = ctx, .owner = owner};
    w->coder = (struct piece_coder){.n_numbers = tables->n_numbers,
                                    .sink = {w, put_item, put_piece}};
    LW_TRY(lw_sql_prepare(s, tables->add_item, &w->add_item, err));
    return lw_sql_prepare(s, tables->add_piece, &w->add_piece, err);
}

enum lw_status piece_writer_end(struct piece_writer *w, enum lw_status st, struct lw_err *err)
{
    if (st == LW_OK)
        st = piece_coder_end(&w->coder, err);
    piece_coder_free(&w->coder);
    st = lw_sql_end(w->add_item, st, err);
    st = lw_sql_end(w->add_piece, st, err);
    *w = (struct piece_writer){.tables = NULL};
    return st;
}
