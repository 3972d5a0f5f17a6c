/* span_rows: the blocks of spans as a table of SQLite (a table-valued virtual table, sqlite.org/
 * vtab.html), so that queries join spans by name while the file has them packed. Views of the file
 * do the same in SQL for other programs; Lapwing does not evaluate those, which a stranger may have
 * written. What a block says of itself is checked before it is unpacked. */
#include "analysis/store/span_rows.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "analysis/store/row_table.h"
#include "analysis/store/span_pack.h"
#include "shared/base/arena.h"

enum column {
    ID, RUN, STEP, PASS, RANK, FIRST_VALUE, /* then as enum span_value */
};
static const char declared[] = "CREATE TABLE x (id INTEGER, run INTEGER, step INTEGER,"
                               " pass INTEGER, rank INTEGER, op INTEGER, kind INTEGER,"
                               " stream INTEGER, comm INTEGER, start_ps INTEGER, ready_ps INTEGER,"
                               " issue_ps INTEGER, all_in_ps INTEGER, end_ps INTEGER)";

struct cursor {
    sqlite3_vtab_cursor base;
    sqlite3_stmt *blocks;
    int64_t run, step, pass, rank, first; /* of the block */
    int64_t n, row;                       /* its rows; the one that is shown */
    int64_t data, data_op, data_start;    /* what `rows` holds, from which op and start */
    int64_t more_op, shift;               /* added to ops and times */
    bool held;                            /* `rows` holds data */
    struct span_code *codes;              /* [n_codes] that texts of the run codes_of name; NULL: of
                                             no run */
    int64_t n_codes, codes_of;
    int64_t (*rows)[SPAN_N_VALUES];       /* [SPAN_BLOCK] */
    bool end;
};

/* Bits of idxNum: which of run, step and rank are given, in this order. Reading is never cheap: a
 * plan that reads the blocks again for each row of another table is not chosen. */
static int best_index(sqlite3_vtab *t, sqlite3_index_info *x)
{
    static const int by[] = {RUN, STEP, RANK};
    int n = 0;

    (void)t;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < x->nConstraint; i++) {
            const struct sqlite3_index_constraint *c = &x->aConstraint[i];
            if (!c->usable || c->op != SQLITE_INDEX_CONSTRAINT_EQ || c->iColumn != by[k])
                continue;
            x->idxNum |= 1 << k;
            x->aConstraintUsage[i].argvIndex = ++n;
            break;
        }
    x->estimatedCost = x->idxNum & 1 ? 1e7 : 1e9;
    x->estimatedRows = x->idxNum & 1 ? 1000000 : 100000000;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
    struct cursor *c = sqlite3_malloc(sizeof *c);

    if (!c)
        return SQLITE_NOMEM;
    *c = (struct cursor){.base.pVtab = t, .end = true};
    *out = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;

    sqlite3_finalize(c->blocks);
    lw_free(c->rows);
    lw_free(c->codes);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int damaged(struct cursor *c)
{
    return row_table_damaged(&c->base,
                             "spans of run %lld from row %lld on are damaged: delete the run "
                             "(lapwing runs %lld --delete) and run it again",
                             (long long)c->run, (long long)c->first, (long long)c->run);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static bool take_code(sqlite3_stmt *q, struct span_code *c)
{
    int64_t may_lack = 1 << SPAN_READY | 1 << SPAN_ISSUE | 1 << SPAN_ALL_IN | 1 << SPAN_HELD;

    *c = (struct span_code){.unknown = 0};
    for (int k = 0; k < SPAN_N_CODED; k++) {
        if (sqlite3_column_type(q, 1 + k) == SQLITE_NULL)
            c->unknown |= 1 << k;
        else
            c->v[k] = sqlite3_column_int64(q, 1 + k);
    }
    return (c->unknown & ~may_lack) == 0 &&
           (c->unknown >> SPAN_READY & 1) != (c->unknown >> SPAN_HELD & 1);
}

/* Rows are numbered from 0 on. Returns a code of SQLite: SQLITE_CORRUPT where they are not. */
static int take_codes(struct cursor *c, sqlite3_stmt *q)
{
    int64_t room = 0;
    int rc;

    lw_free(c->codes);
    c->codes = NULL;
    c->n_codes = 0;
    do {
        if (lw_reserve(&c->codes, &room, c->n_codes + 1, sizeof *c->codes) != 0)
            return SQLITE_NOMEM;
        rc = sqlite3_step(q);
        if (rc == SQLITE_ROW &&
            (sqlite3_column_int64(q, 0) != c->n_codes || !take_code(q, &c->codes[c->n_codes++])))
            return SQLITE_CORRUPT;
    } while (rc == SQLITE_ROW);
    c->codes_of = c->run;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The codes that texts of the cursor's run name; none where the table is of a later version. */
static int read_codes(struct cursor *c)
{
    static const char query[] =
        "SELECT alike, op, kind, stream, comm, start, ready, issue, all_in, length, held"
        " FROM main.span_alike WHERE run = ?1 ORDER BY alike";
    static const char none[] = "SELECT 1 WHERE ?1 IS NULL";
    sqlite3 *db = row_table_db(&c->base);
    sqlite3_stmt *q;

    if (c->codes && c->codes_of == c->run)
        return SQLITE_OK;
    int rc = sqlite3_table_column_metadata(db, "main", "span_alike", NULL, NULL, NULL, NULL,
                                           NULL, NULL);
    rc = sqlite3_prepare_v2(db, rc == SQLITE_OK ? query : none, -1, &q, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int64(q, 1, c->run);
    rc = take_codes(c, q);
    sqlite3_finalize(q);
    return rc;
}

/* The rows of the block that the statement is at. Blocks one after the other often share their
 * data, which is then read once. */
static int unpack(struct cursor *c)
{
    int64_t op = sqlite3_column_int64(c->blocks, 6), start = sqlite3_column_int64(c->blocks, 7);
    int64_t data = sqlite3_column_int64(c->blocks, 8);
    const char *text = (const char *)sqlite3_column_text(c->blocks, 9);
    int64_t size = sqlite3_column_bytes(c->blocks, 9);

    c->more_op = c->shift = 0;
    if (c->n <= 0 || c->n > SPAN_BLOCK || c->first > INT64_MAX - c->n)
        return damaged(c);
    if (c->held && data == c->data) {
        c->more_op = minus(op, c->data_op);
        c->shift = minus(start, c->data_start);
        return SQLITE_OK;
    }
    c->held = false;
    if (!c->rows)
        c->rows = lw_alloc(SPAN_BLOCK * sizeof *c->rows);
    if (!c->rows)
        return SQLITE_NOMEM;
    int rc = read_codes(c);
    if (rc != SQLITE_OK)
        return rc == SQLITE_CORRUPT ? damaged(c) : rc;
    struct span_codes known = {c->codes, c->n_codes};
    if (!text || !span_read(text, (size_t)size, known, op, start, c->rows, c->n))
        return damaged(c);
    c->held = true;
    c->data = data;
    c->data_op = op;
    c->data_start = start;
    return SQLITE_OK;
}

static int next_block(struct cursor *c)
{
    int64_t before = c->n;
    int rc = sqlite3_step(c->blocks);

    c->end = rc != SQLITE_ROW;
    if (rc != SQLITE_ROW)
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
    c->run = sqlite3_column_int64(c->blocks, 0);
    c->first = sqlite3_column_int64(c->blocks, 1);
    c->n = sqlite3_column_int64(c->blocks, 2);
    c->step = sqlite3_column_int64(c->blocks, 3);
    c->pass = sqlite3_column_int64(c->blocks, 4);
    c->rank = sqlite3_column_int64(c->blocks, 5);
    c->row = 0;
    if (c->n != before)
        c->held = false;
    rc = unpack(c);
    c->end = rc != SQLITE_OK;
    return rc;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *text, int argc,
                  sqlite3_value **argv)
{
    static const char query[] =
        "SELECT b.run, b.first, b.n, b.step, b.pass, b.rank, b.base_op, b.base_ps, d.id, d.text"
        " FROM main.span_block AS b JOIN main.span_data AS d ON d.id = b.data AND d.run = b.run"
        " WHERE %s AND (?2 IS NULL OR b.step = ?2) AND (?3 IS NULL OR b.rank = ?3)"
        " ORDER BY b.run, b.first";
    struct cursor *c = (struct cursor *)base;
    sqlite3 *db = row_table_db(&c->base);
    int rc, next = 0;

    (void)text, (void)argc;
    sqlite3_finalize(c->blocks);
    c->blocks = NULL;
    char *sql = sqlite3_mprintf(query, given & 1 ? "b.run = ?1" : "?1 IS NULL");
    if (!sql)
        return SQLITE_NOMEM;
    rc = sqlite3_prepare_v2(db, sql, -1, &c->blocks, NULL);
    sqlite3_free(sql);
    for (int k = 0; k < 3 && rc == SQLITE_OK; k++)
        if (given & 1 << k)
            rc = sqlite3_bind_value(c->blocks, k + 1, argv[next++]);
    return rc == SQLITE_OK ? next_block(c) : rc;
}

static int next_row(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;

    return ++c->row < c->n ? SQLITE_OK : next_block(c);
}

static int at_end(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->end;
}

static int64_t value_at(const struct cursor *c, enum span_value k)
{
    int64_t v = c->rows[c->row][k];
    bool is_time = k >= SPAN_START;
    bool unknown = (k == SPAN_ISSUE || k == SPAN_ALL_IN) && v == -1;

    if (k == SPAN_OP)
        return (int64_t)((uint64_t)v + (uint64_t)c->more_op);
    return is_time && !unknown ? (int64_t)((uint64_t)v + (uint64_t)c->shift) : v;
}

static int show_column(sqlite3_vtab_cursor *base, sqlite3_context *to, int column)
{
    const struct cursor *c = (const struct cursor *)base;
    const int64_t of_block[] = {c->first + c->row, c->run, c->step, c->pass, c->rank};

    sqlite3_result_int64(to, column < FIRST_VALUE
                                 ? of_block[column]
                                 : value_at(c, (enum span_value)(column - FIRST_VALUE)));
    return SQLITE_OK;
}

static int show_id(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct cursor *c = (const struct cursor *)base;

    *id = c->first + c->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = row_table_connect,
    .xBestIndex = best_index,
    .xDisconnect = row_table_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next_row,
    .xEof = at_end,
    .xColumn = show_column,
    .xRowid = show_id,
};

int span_rows_register(sqlite3 *db)
{
    return sqlite3_create_module(db, "span_rows", &module, (void *)declared);
}
