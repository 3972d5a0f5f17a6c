/* The spans of runs into the database: rows of span_block for each (step, pass, rank), and the
 * spans themselves in span_data, as text that plain SQLite reads, and in span_alike, whose rows the
 * texts of a run name by number. Blocks whose codes are equal share their data: ranks that are
 * alike, and steps that are as the one before but for when they begin, are stored once. Equal codes
 * are found by their 128-bit hash, and equal text may name codes that an earlier one wrote out. */
#include "analysis/store/store_spans.h"

#include <string.h>

#include "analysis/store/span_alike.h"
#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "analysis/store/store_plan.h"
#include "shared/base/hash.h"
#include "shared/plan/op.h"
#include "shared/timeline/timeline.h"

enum { ROWS_PER_TRANSACTION = 10000 };

struct span_writer {
    struct lw_store *store;
    struct lw_sql *find, *add_data, *add_alike, *add_block, *range;
    int64_t run, n_stored, n_open; /* rows stored; rows of the open transaction */
    bool own, open;                /* transactions are the writer's; one is open */
    int64_t at[3], n;              /* of the block */
    int64_t (*rows)[SPAN_N_VALUES]; /* [SPAN_BLOCK] */
    struct span_coder coder;
    char *text;                    /* [SPAN_MOST_TEXT + 1] */
};

static enum lw_status prepare(struct span_writer *w, struct lw_err *err)
{
    struct lw_store *s = w->store;

    LW_TRY(lw_sql_prepare(s, "SELECT id FROM main.span_data WHERE run = ? AND hash = ?", &w->find,
                          err));
    LW_TRY(lw_sql_prepare(s, "INSERT INTO main.span_data (run, hash, text) VALUES (?,?,?)",
                          &w->add_data, err));
    LW_TRY(lw_sql_prepare(s,
                          "INSERT INTO main.span_alike (run, alike, op, kind, stream, comm, start,"
                          " ready, issue, all_in, length, held) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                          &w->add_alike, err));
    LW_TRY(lw_sql_prepare(s,
                          "INSERT INTO main.span_block (run, first, n, step, pass, rank, base_op,"
                          " base_ps, data) VALUES (?,?,?,?,?,?,?,?,?)",
                          &w->add_block, err));
    return lw_sql_prepare(s,
                          "UPDATE main.run SET first_span = 1, last_span = ?1, n_spans = ?1"
                          " WHERE id = ?2",
                          &w->range, err);
}

enum lw_status span_writer_new(struct lw_store *s, int64_t run, bool own, struct span_writer **out,
                               struct lw_err *err)
{
    struct span_writer *w;

    LW_NEW(w, 1, err);
    *w = (struct span_writer){.store = s, .run = run, .own = own};
    w->rows = lw_alloc(SPAN_BLOCK * sizeof *w->rows);
    w->text = lw_alloc(SPAN_MOST_TEXT + 1);
    enum lw_status st = w->rows && w->text ? span_coder_init(&w->coder, err) : lw_fail_nomem(err);
    if (st == LW_OK)
        st = prepare(w, err);
    if (st != LW_OK)
        return span_writer_end(w, st, err);
    *out = w;
    return LW_OK;
}

static void put_alike(struct span_writer *w, int64_t number)
{
    const struct span_code *c = &w->coder.shared.v[number];
    struct lw_sql_value v[2 + SPAN_N_CODED] = {{.number = w->run}, {.number = number}};

    for (int k = 0; k < SPAN_N_CODED; k++)
        v[2 + k] = (struct lw_sql_value){.number = c->v[k], .null = c->unknown >> k & 1};
    lw_sql_run_values(w->add_alike, v, 2 + SPAN_N_CODED);
}

static enum lw_status hash_codes(const struct span_coder *c, int64_t n, char hash[33],
                                 struct lw_err *err)
{
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    lw_hash_ints(h, c->codes[0].v, n * (int64_t)(sizeof *c->codes / sizeof(int64_t)));
    lw_hash_finish(h, hash);
    return LW_OK;
}

/* *id: of the data with the codes of the block, which is inserted when it is new. */
static enum lw_status put_data(struct span_writer *w, int64_t *id, struct lw_err *err)
{
    struct span_coder *c = &w->coder;
    int64_t first_new;
    char hash[33];

    *id = 0;
    LW_TRY(span_coder_encode(c, (const int64_t(*)[SPAN_N_VALUES])w->rows, w->n, err));
    LW_TRY(hash_codes(c, w->n, hash, err));
    lw_sql_bind(w->find, "lt", w->run, hash);
    while (lw_sql_next(w->find))
        *id = lw_sql_int(w->find, 0);
    if (*id > 0 || lw_sql_failed(w->find))
        return LW_OK;
    LW_TRY(span_coder_number(c, w->n, &first_new, err));
    for (int64_t k = first_new; k < c->shared.n; k++)
        put_alike(w, k);
    w->text[span_write(c->codes, w->n, c->numbers, w->text)] = '\0';
    lw_sql_run(w->add_data, "ltt", w->run, hash, w->text);
    *id = lw_sql_last_id(w->store);
    return LW_OK;
}

static bool failed(const struct span_writer *w)
{
    return lw_sql_failed(w->find) || lw_sql_failed(w->add_data) ||
           lw_sql_failed(w->add_alike) || lw_sql_failed(w->add_block) || lw_sql_failed(w->range);
}

static enum lw_status flush_transaction(struct span_writer *w, struct lw_err *err)
{
    lw_sql_run(w->range, "ll", w->n_stored, w->run);
    if (failed(w))
        return LW_EIO; /* the statement holds the words */
    w->n_open = 0;
    if (!w->open)
        return LW_OK;
    w->open = false;
    return lw_sql_commit(w->store, LW_OK, err);
}

static enum lw_status flush_block(struct span_writer *w, struct lw_err *err)
{
    if (w->n == 0)
        return LW_OK;
    if (w->own && !w->open)
        LW_TRY(lw_sql_begin(w->store, err));
    w->open = w->own;
    int64_t data;
    LW_TRY(put_data(w, &data, err));
    lw_sql_run(w->add_block, "lllllllll", w->run, w->n_stored + 1, w->n, w->at[0], w->at[1],
               w->at[2], w->rows[0][SPAN_OP], w->rows[0][SPAN_START], data);
    if (failed(w))
        return LW_EIO;
    w->n_stored += w->n;
    w->n_open += w->n;
    w->n = 0;
    return w->n_open >= ROWS_PER_TRANSACTION ? flush_transaction(w, err) : LW_OK;
}

enum lw_status span_writer_add(struct span_writer *w, const int64_t at[3],
                               const int64_t row[SPAN_N_VALUES], struct lw_err *err)
{
    if (w->n == SPAN_BLOCK || (w->n > 0 && memcmp(at, w->at, sizeof w->at) != 0))
        LW_TRY(flush_block(w, err));
    memcpy(w->at, at, sizeof w->at);
    memcpy(w->rows[w->n++], row, sizeof *w->rows);
    return LW_OK;
}

enum lw_status span_writer_end(struct span_writer *w, enum lw_status st, struct lw_err *err)
{
    if (!w)
        return st;
    if (st == LW_OK)
        st = flush_block(w, err);
    if (st == LW_OK && w->n_open > 0)
        st = flush_transaction(w, err);
    struct lw_sql *const all[] = {w->find, w->add_data, w->add_alike, w->add_block, w->range};
    bool told = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        enum lw_status finished = lw_sql_finish(all[i], told ? NULL : err);
        st = finished != LW_OK && !told ? finished : st;
        told = told || finished != LW_OK;
    }
    if (w->open)
        lw_sql_rollback(w->store);
    span_coder_free(&w->coder);
    lw_free(w->rows);
    lw_free(w->text);
    lw_free(w);
    return st;
}

/* --- of a timeline --------------------------------------------------------------------------- */

/* kind_id[kind] = its number in this database, which may know kinds in another order. */
static enum lw_status kind_ids(struct lw_store *s, int64_t kind_id[LW_N_OP_KINDS],
                               struct lw_err *err)
{
    struct lw_sql *add;

    LW_TRY(lw_sql_prepare(s, "INSERT OR IGNORE INTO op_kind (name, letter, class) VALUES (?,?,?)",
                          &add, err));
    for (int k = 0; k < LW_N_OP_KINDS; k++)
        lw_sql_run(add, "ttt", lw_op_name((enum lw_op_kind)k), lw_op_letter((enum lw_op_kind)k),
                   lw_store_class_name((enum lw_op_kind)k));
    LW_TRY(lw_sql_finish(add, err));
    for (int k = 0; k < LW_N_OP_KINDS; k++)
        LW_TRY(lw_sql_number(s, &kind_id[k], err, "SELECT id FROM op_kind WHERE name = ?", "t",
                             lw_op_name((enum lw_op_kind)k)));
    return LW_OK;
}

enum lw_status lw_store_spans(struct lw_store *s, int64_t run, const struct lw_timeline *t,
                              struct lw_err *err)
{
    int64_t kind_id[LW_N_OP_KINDS];
    struct span_writer *w = NULL;
    enum lw_status st = LW_OK;

    LW_TRY(kind_ids(s, kind_id, err));
    LW_TRY(span_writer_new(s, run, true, &w, err));
    for (int64_t i = 0; i < t->n && st == LW_OK; i++) {
        const struct lw_span x = lw_timeline_get(t, i);
        const int64_t at[] = {x.step, x.pass, x.rank};
        const int64_t row[SPAN_N_VALUES] = {
            [SPAN_OP] = x.op, [SPAN_KIND] = kind_id[x.kind], [SPAN_STREAM] = x.stream,
            [SPAN_COMM] = x.comm, [SPAN_START] = x.start, [SPAN_READY] = x.ready,
            [SPAN_ISSUE] = x.issue, [SPAN_ALL_IN] = x.all_in, [SPAN_END] = x.end};
        st = span_writer_add(w, at, row, err);
    }
    return span_writer_end(w, st, err);
}

/* --- of rows that a database has ------------------------------------------------------------- */

#define ROW_TEXT                                                                                   \
    "step, pass, rank, op, kind, stream, comm, start_ps, ready_ps, issue_ps, all_in_ps, end_ps"

/* Numbers of kinds in the other database, and here. */
struct kind_map {
    int64_t from[LW_N_OP_KINDS * 4], to[LW_N_OP_KINDS * 4];
    int n;
};

static enum lw_status map_kind(struct lw_store *s, struct lw_store *other, struct kind_map *m,
                               int64_t *kind, struct lw_err *err)
{
    const int most = (int)(sizeof m->from / sizeof *m->from);
    struct lw_sql *q;

    for (int i = 0; i < m->n; i++)
        if (m->from[i] == *kind) {
            *kind = m->to[i];
            return LW_OK;
        }
    LW_TRY(lw_sql_query(other, &q, err, "SELECT name FROM op_kind WHERE id = ?", "l", *kind));
    enum lw_status st = LW_OK;
    if (!lw_sql_next(q) || m->n == most)
        st = lw_fail_at(err, LW_EFORMAT, lw_store_file(other), 0,
                        "spans of kind %lld, which table op_kind does not have: the file is "
                        "damaged; delete the run in it (lapwing runs N --delete --db %s)",
                        (long long)*kind, lw_store_file(other));
    else
        st = lw_sql_number(s, &m->to[m->n], err, "SELECT id FROM main.op_kind WHERE name = ?", "t",
                           lw_sql_text(q, 0));
    LW_TRY(lw_sql_end(q, st, err));
    m->from[m->n] = *kind;
    *kind = m->to[m->n++];
    return LW_OK;
}

/* Rows of q, which has the columns of ROW_TEXT, into the run. */
static enum lw_status write_rows(struct lw_store *s, int64_t run, struct lw_store *other,
                                 struct lw_sql *q, struct lw_err *err)
{
    struct kind_map kinds = {.n = 0};
    struct span_writer *w = NULL;

    LW_TRY(span_writer_new(s, run, false, &w, err));
    enum lw_status st = LW_OK;
    while (st == LW_OK && lw_sql_next(q)) {
        int64_t at[3], row[SPAN_N_VALUES];
        for (int k = 0; k < 3; k++)
            at[k] = lw_sql_int(q, k);
        for (int k = 0; k < SPAN_N_VALUES; k++)
            row[k] = lw_sql_int(q, 3 + k);
        if (other)
            st = map_kind(s, other, &kinds, &row[SPAN_KIND], err);
        if (st == LW_OK)
            st = span_writer_add(w, at, row, err);
    }
    return span_writer_end(w, st, err); /* what failed in q is told by its end */
}

enum lw_status lw_store_copy_spans(struct lw_store *s, int64_t to, struct lw_store *other,
                                   int64_t from, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_store_check_spans(other, from, err));
    LW_TRY(lw_sql_query(other, &q, err, "SELECT " ROW_TEXT " FROM span_rows WHERE run = ?", "l",
                        from));
    return lw_sql_end(q, write_rows(s, to, other, q, err), err);
}

static enum lw_status pack_run(struct lw_store *s, int64_t run, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT " ROW_TEXT " FROM span_before WHERE run = ?1 AND id BETWEEN"
                        " (SELECT first_span FROM run WHERE id = ?1) AND"
                        " (SELECT last_span FROM run WHERE id = ?1) ORDER BY id",
                        "l", run));
    return lw_sql_end(q, write_rows(s, run, NULL, q, err), err);
}

enum lw_status lw_store_pack_spans(struct lw_store *s, struct lw_err *err)
{
    for (int64_t run = 0;;) {
        LW_TRY(lw_sql_number(s, &run, err,
                             "SELECT min(id) FROM run WHERE id > ? AND first_span NOT NULL", "l",
                             run));
        if (run <= 0)
            return lw_sql_exec(s, "DROP TABLE span_before", err);
        LW_TRY(pack_run(s, run, err));
    }
}
