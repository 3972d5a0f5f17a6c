/* op_rows: the ops of a plan as a table of SQLite (a table-valued virtual table, sqlite.org/
 * vtab.html), while the file has pieces (store_ops.c). The view op_row of the file does the same in
 * SQL for other programs; it finds no op by its number, as joins of spans with their ops need, and
 * Lapwing does not evaluate views, which a stranger may have written. Pieces are checked before
 * they are unpacked: a small file may claim any number of ops. */
#include "analysis/store/op_row_table.h"

#include <stdbool.h>
#include <stdint.h>

#include "analysis/store/row_table.h"
#include "shared/base/arena.h"

enum column { PLAN, OP, MICRO_BATCH, ALIKE };
static const char declared[] =
    "CREATE TABLE x (plan INTEGER, op INTEGER, micro_batch INTEGER, alike INTEGER)";

struct row {
    int64_t op, micro_batch, alike;
};

struct cursor {
    sqlite3_vtab_cursor base;
    int64_t plan; /* whose rows these are */
    bool held;
    struct row *v; /* ascending by op */
    int64_t n, room;
    int64_t at, to; /* rows that the query sees: [at, to) */
};

/* Bits of idxNum: which bounds of op are given after the plan, in this order. */
enum { FROM = 1, AFTER = 2, UP_TO = 4, BEFORE = 8, EQUAL = 16 };
static const struct {
    unsigned char op;
    int bit;
} bounds[] = {
    {SQLITE_INDEX_CONSTRAINT_GE, FROM}, {SQLITE_INDEX_CONSTRAINT_GT, AFTER},
    {SQLITE_INDEX_CONSTRAINT_LE, UP_TO}, {SQLITE_INDEX_CONSTRAINT_LT, BEFORE},
    {SQLITE_INDEX_CONSTRAINT_EQ, EQUAL},
};
enum { N_BOUNDS = sizeof bounds / sizeof *bounds };

/* The usable constraint, which becomes argument n; false: there is none. SQLite checks them again,
 * as values of other types may be given. */
static bool use(sqlite3_index_info *x, int column, unsigned char op, int n)
{
    for (int i = 0; i < x->nConstraint; i++)
        if (x->aConstraint[i].usable && x->aConstraint[i].op == op &&
            x->aConstraint[i].iColumn == column) {
            x->aConstraintUsage[i].argvIndex = n;
            return true;
        }
    return false;
}

static int best_index(sqlite3_vtab *t, sqlite3_index_info *x)
{
    int n = 1;

    (void)t;
    if (!use(x, PLAN, SQLITE_INDEX_CONSTRAINT_EQ, n))
        return SQLITE_CONSTRAINT;
    for (int k = 0; k < N_BOUNDS; k++)
        if (use(x, OP, bounds[k].op, n + 1)) {
            x->idxNum |= bounds[k].bit;
            n++;
        }
    bool one = x->idxNum & EQUAL, some = x->idxNum != 0;
    x->estimatedCost = one ? 10 : some ? 1e4 : 1e5;
    x->estimatedRows = one ? 1 : some ? 10000 : 100000;
    x->orderByConsumed =
        x->nOrderBy == 1 && x->aOrderBy[0].iColumn == OP && !x->aOrderBy[0].desc;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
    struct cursor *c = sqlite3_malloc(sizeof *c);

    if (!c)
        return SQLITE_NOMEM;
    *c = (struct cursor){.base.pVtab = t};
    *out = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;

    lw_free(c->v);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* --- the rows of a plan ----------------------------------------------------------------------- */

static int damaged(struct cursor *c)
{
    return row_table_damaged(&c->base, "the ops of plan %lld are damaged: delete its runs (lapwing "
                                       "runs N --delete) and run them again", (long long)c->plan);
}

static int add(struct cursor *c, struct row row)
{
    if (lw_reserve(&c->v, &c->room, c->n + 1, sizeof *c->v) != 0)
        return SQLITE_NOMEM;
    c->v[c->n++] = row;
    return SQLITE_OK;
}

typedef int take_fn(struct cursor *c, sqlite3_stmt *q, void *ctx);

/* Each row of a statement, whose first parameter is the plan. */
static int each(struct cursor *c, const char *sql, take_fn *fn, void *ctx)
{
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(row_table_db(&c->base), sql, -1, &q, NULL);

    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int64(q, 1, c->plan);
    for (rc = SQLITE_OK; rc == SQLITE_OK;) {
        rc = sqlite3_step(q);
        if (rc == SQLITE_ROW)
            rc = fn(c, q, ctx);
    }
    sqlite3_finalize(q);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int take_row(struct cursor *c, sqlite3_stmt *q, void *ctx)
{
    (void)ctx;
    if (sqlite3_column_type(q, 3) == SQLITE_NULL)
        return damaged(c);
    return add(c, (struct row){sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1),
                               sqlite3_column_int64(q, 2)});
}

struct order {
    int64_t *v, n, room;
};

/* Every set that an op is of must have its row in op_alike. */
static int take_order(struct cursor *c, sqlite3_stmt *q, void *ctx)
{
    struct order *o = ctx;

    if (sqlite3_column_int64(q, 0) != o->n || sqlite3_column_type(q, 2) == SQLITE_NULL)
        return damaged(c);
    if (lw_reserve(&o->v, &o->room, o->n + 1, sizeof *o->v) != 0)
        return SQLITE_NOMEM;
    o->v[o->n++] = sqlite3_column_int64(q, 1);
    return SQLITE_OK;
}

static int take_piece(struct cursor *c, sqlite3_stmt *q, void *ctx)
{
    const struct order *o = ctx;
    int64_t op = sqlite3_column_int64(q, 0), n = sqlite3_column_int64(q, 1);
    int64_t micro_batch = sqlite3_column_int64(q, 2), place = sqlite3_column_int64(q, 3);
    int64_t n_ops = sqlite3_column_int64(q, 4), least = c->n > 0 ? c->v[c->n - 1].op + 1 : 0;
    int rc = SQLITE_OK;

    if (n_ops > INT32_MAX || op < least || n < 1 || n > n_ops || op > n_ops - n || place < 0 ||
        place > o->n - n)
        return damaged(c);
    for (int64_t i = 0; i < n && rc == SQLITE_OK; i++)
        rc = add(c, (struct row){op + i, micro_batch, o->v[place + i]});
    return rc;
}

/* A plan has as many ops as its row says. */
static int take_number(struct cursor *c, sqlite3_stmt *q, void *ctx)
{
    (void)ctx;
    return sqlite3_column_int64(q, 0) == c->n ? SQLITE_OK : damaged(c);
}

static int read_plan(struct cursor *c, int64_t plan)
{
    sqlite3 *db = row_table_db(&c->base);
    struct order o = {.n = 0};

    c->held = false;
    c->plan = plan;
    c->n = 0;
    int rc = sqlite3_table_column_metadata(db, "main", "op_piece", NULL, NULL, NULL, NULL, NULL,
                                           NULL);
    if (rc != SQLITE_OK) { /* of an older version */
        rc = each(c, "SELECT r.op, r.micro_batch, r.alike, a.alike FROM main.op_row AS r"
                     " LEFT JOIN main.op_alike AS a ON a.plan = r.plan AND a.alike = r.alike"
                     " WHERE r.plan = ? ORDER BY r.op", take_row, NULL);
    } else {
        rc = each(c, "SELECT o.place, o.alike, a.alike FROM main.op_order AS o"
                     " LEFT JOIN main.op_alike AS a ON a.plan = o.plan AND a.alike = o.alike"
                     " WHERE o.plan = ? ORDER BY o.place", take_order, &o);
        if (rc == SQLITE_OK)
            rc = each(c, "SELECT p.op, p.n, p.micro_batch, p.place, plan.n_ops"
                         " FROM main.op_piece AS p JOIN main.plan AS plan ON plan.id = p.plan"
                         " WHERE p.plan = ? ORDER BY p.op", take_piece, &o);
        lw_free(o.v);
    }
    if (rc == SQLITE_OK)
        rc = each(c, "SELECT n_ops FROM main.plan WHERE id = ?", take_number, NULL);
    c->held = rc == SQLITE_OK;
    return rc;
}

/* --- queries ---------------------------------------------------------------------------------- */

/* The first row from this op on. Most numbers are places. */
static int64_t from_op(const struct cursor *c, int64_t op)
{
    int64_t low = 0, high = c->n;

    if (op >= 0 && op < c->n && c->v[op].op == op)
        return op;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (c->v[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first row after this op. */
static int64_t after_op(const struct cursor *c, int64_t op)
{
    return op == INT64_MAX ? c->n : from_op(c, op + 1);
}

static void narrow(struct cursor *c, int bit, int64_t op)
{
    int64_t from = bit & (FROM | EQUAL) ? from_op(c, op) : bit == AFTER ? after_op(c, op) : 0;
    int64_t to = bit & (UP_TO | EQUAL) ? after_op(c, op) : bit == BEFORE ? from_op(c, op) : c->n;

    c->at = from > c->at ? from : c->at;
    c->to = to < c->to ? to : c->to;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *text, int argc,
                  sqlite3_value **argv)
{
    struct cursor *c = (struct cursor *)base;
    int next = 1;

    (void)text;
    c->at = c->to = 0;
    if (argc == 0 || sqlite3_value_numeric_type(argv[0]) != SQLITE_INTEGER)
        return SQLITE_OK; /* no plan */
    int64_t plan = sqlite3_value_int64(argv[0]);
    int rc = c->held && c->plan == plan ? SQLITE_OK : read_plan(c, plan);
    if (rc != SQLITE_OK)
        return rc;
    c->to = c->n;
    for (int k = 0; k < N_BOUNDS && next < argc; k++) {
        if (!(given & bounds[k].bit))
            continue;
        sqlite3_value *v = argv[next++]; /* another type than of an op is left to SQLite */
        if (sqlite3_value_type(v) == SQLITE_INTEGER)
            narrow(c, bounds[k].bit, sqlite3_value_int64(v));
    }
    return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *base)
{
    ((struct cursor *)base)->at++;
    return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base)
{
    const struct cursor *c = (const struct cursor *)base;

    return c->at >= c->to;
}

static int show_column(sqlite3_vtab_cursor *base, sqlite3_context *to, int column)
{
    const struct cursor *c = (const struct cursor *)base;
    const struct row *v = &c->v[c->at];
    const int64_t all[] = {c->plan, v->op, v->micro_batch, v->alike};

    sqlite3_result_int64(to, all[column]);
    return SQLITE_OK;
}

static int show_id(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    const struct cursor *c = (const struct cursor *)base;

    *id = c->v[c->at].op;
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

int op_row_table_register(sqlite3 *db)
{
    return sqlite3_create_module(db, "op_rows", &module, (void *)declared);
}
