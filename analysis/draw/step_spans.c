/* Spans are joined with their ops here, where both are arrays in order, and not by SQLite: a report
 * of many runs reads a million spans. */
#include "analysis/draw/step_spans.h"

#include <stdio.h>
#include <string.h>

#include "analysis/store/sql.h"

/* The kinds of ops as the file numbers them. */
struct kind_number {
    int64_t number;
    int kind; /* -1: this version does not know it */
};
struct kinds {
    struct kind_number *v;
    int64_t n, capacity;
};


/* The place in `items`, which ascend by a first field of int64_t, of the one with this number; -1:
 * none. Most numbers are places. */
static int64_t find(const void *items, int64_t n, size_t size, int64_t number)
{
    const char *v = items;
    int64_t from = 0, to = n;

    if (number >= 0 && number < n && *(const int64_t *)(v + (size_t)number * size) == number)
        return number;
    while (from < to) {
        int64_t middle = from + (to - from) / 2;
        if (*(const int64_t *)(v + (size_t)middle * size) < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from < n && *(const int64_t *)(v + (size_t)from * size) == number ? from : -1;
}
#define FIND(items, n, number) find(items, n, sizeof *(items), number)

/* All rows of a query, which it ends. */
typedef enum lw_status add_row(struct lw_sql *q, void *to, struct lw_err *err);

static enum lw_status add_rows(struct lw_sql *q, add_row *add, void *to, struct lw_err *err)
{
    enum lw_status st = LW_OK;

    while (st == LW_OK && lw_sql_next(q))
        st = add(q, to, err);
    return lw_sql_end(q, st, err);
}

static enum lw_status add_kind(struct lw_sql *q, void *to, struct lw_err *err)
{
    struct kinds *k = to;
    enum lw_op_kind kind;
    bool known = lw_op_parse(lw_sql_text(q, 1), &kind, NULL) == LW_OK;

    LW_ROOM(k->v, k->capacity, k->n + 1, err);
    k->v[k->n++] = (struct kind_number){lw_sql_int(q, 0), known ? (int)kind : -1};
    return LW_OK;
}

static enum lw_status read_kinds(struct lw_store *s, struct kinds *k, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err, "SELECT id, name FROM op_kind ORDER BY id", ""));
    return add_rows(q, add_kind, k, err);
}

static enum lw_status add_rank(struct lw_sql *q, void *to, struct lw_err *err)
{
    struct step_spans *x = to;

    LW_ROOM(x->ranks, x->rank_capacity, x->n_ranks + 1, err);
    x->ranks[x->n_ranks++] = (struct step_rank){.rank = (int32_t)lw_sql_int(q, 0),
                                                .stage = (int32_t)lw_sql_int(q, 1)};
    return LW_OK;
}

/* By place in the stage, then stage: the order of the rows of a picture. */
static enum lw_status read_ranks(struct lw_store *s, int64_t run, int64_t step,
                                 struct step_spans *x, struct lw_err *err)
{
    struct lw_sql *q;

    /* The ranks of a plan are grouped so that SQLite indexes them: it does not index what a window
     * function returns. */
    LW_TRY(lw_sql_query(
        s, &q, err,
        WITH_ALIKE_RANKS "SELECT one.rank, ifnull(at.pp, -1)"
        " FROM (SELECT DISTINCT first AS rank FROM alike) AS one"
        " LEFT JOIN (SELECT rank, pp, place FROM"
        "   (SELECT rank, pp, row_number() OVER (PARTITION BY pp ORDER BY rank) AS place"
        "    FROM plan_rank WHERE plan = (SELECT plan FROM run WHERE id = ?1))"
        "  GROUP BY rank) AS at ON at.rank = one.rank"
        " ORDER BY ifnull(at.place, one.rank), at.pp, one.rank",
        "ll", run, step));
    return add_rows(q, add_rank, x, err);
}

static enum lw_status add_span(struct lw_store *s, int64_t run, struct lw_sql *q,
                               const struct kinds *kinds, struct step_spans *x,
                               struct lw_err *err)
{
    int64_t number = lw_sql_int(q, 1), at = FIND(kinds->v, kinds->n, number);

    if (at < 0)
        return lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                          "run %lld has spans of kind %lld, which table op_kind does not have: "
                          "the file is damaged; delete the run (lapwing runs %lld --delete) and "
                          "run it again", (long long)run, (long long)number, (long long)run);
    if (kinds->v[at].kind < 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          "operation %lld of its table op_kind is unknown: a later lapwing stored "
                          "it, read it with that", (long long)number);
    LW_ROOM(x->spans, x->span_capacity, x->n_spans + 1, err);
    x->spans[x->n_spans++] = (struct step_span){
        .op = lw_sql_int(q, 0),
        .kind = (uint8_t)kinds->v[at].kind,
        .stream = (int32_t)lw_sql_int(q, 2),
        .ready = lw_sql_int(q, 3),
        .start = lw_sql_int(q, 4),
        .all_in = lw_sql_int(q, 5),
        .end = lw_sql_int(q, 6),
    };
    return LW_OK;
}

static enum lw_status read_spans(struct lw_store *s, int64_t run, int64_t step,
                                 const struct kinds *kinds, struct step_spans *x,
                                 struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    LW_TRY(lw_sql_prepare(s,
                          "SELECT op, kind, stream, ready_ps, start_ps, all_in_ps, end_ps"
                          " FROM span_rows WHERE run = ?1 AND step = ?2 AND rank = ?3",
                          &q, err));
    for (int64_t r = 0; r < x->n_ranks && st == LW_OK; r++) {
        lw_sql_bind(q, "lll", run, step, (int64_t)x->ranks[r].rank);
        x->ranks[r].from = x->n_spans;
        while (st == LW_OK && lw_sql_next(q))
            st = add_span(s, run, q, kinds, x, err);
        x->ranks[r].to = x->n_spans;
    }
    return lw_sql_end(q, st, err);
}

enum lw_status step_spans_read(struct lw_store *s, int64_t run, int64_t step,
                               struct step_spans *out, struct lw_err *err)
{
    struct kinds kinds = {0};
    enum lw_status st = lw_store_check_blocks(s, run, err);

    if (st == LW_OK)
        st = read_kinds(s, &kinds, err);
    if (st == LW_OK)
        st = read_ranks(s, run, step, out, err);
    if (st == LW_OK)
        st = read_spans(s, run, step, &kinds, out, err);
    lw_free(kinds.v);
    return st;
}

/* --- their ops ------------------------------------------------------------------------------- */

static enum lw_status add_stream(struct lw_sql *q, void *to, struct lw_err *err)
{
    struct step_spans *x = to;
    struct step_stream v = {.number = lw_sql_int(q, 0), .comm = lw_sql_int(q, 2) != 0};

    snprintf(v.name, sizeof v.name, "%.*s", (int)sizeof v.name - 1, lw_sql_text(q, 1));
    LW_ROOM(x->streams, x->stream_capacity, x->n_streams + 1, err);
    x->streams[x->n_streams++] = v;
    return LW_OK;
}

static enum lw_status read_streams(struct lw_store *s, int64_t plan, struct step_spans *x,
                                   struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT stream,"
                        " name || iif(class = 'comm' AND name <> 'comm', ' comm', ''),"
                        " class = 'comm' FROM stream WHERE plan = ? ORDER BY stream",
                        "l", plan));
    return add_rows(q, add_stream, x, err);
}

static enum lw_status add_alike(struct lw_sql *q, void *to, struct lw_err *err)
{
    struct step_spans *x = to;
    const char *name = lw_arena_strdup(&x->arena, lw_sql_text(q, 3));

    if (!name)
        return lw_fail_nomem(err);
    LW_ROOM(x->alike, x->alike_capacity, x->n_alike + 1, err);
    x->alike[x->n_alike++] = (struct step_alike){
        .number = lw_sql_int(q, 0), .bucket = (int32_t)lw_sql_int(q, 1), .bytes = lw_sql_int(q, 2),
        .name = name, .recorded = lw_sql_int(q, 4) != 0};
    return LW_OK;
}

static enum lw_status read_alike(struct lw_store *s, int64_t plan, struct step_spans *x,
                                 struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT alike, op.bucket, op.bytes, op.name,"
                        " ifnull(comm.purpose = 'recorded data', 0) FROM op_alike AS op"
                        " LEFT JOIN comm ON comm.plan = op.plan AND comm.comm = op.comm"
                        " WHERE op.plan = ? ORDER BY alike",
                        "l", plan));
    return add_rows(q, add_alike, x, err);
}

static enum lw_status add_op(struct lw_sql *q, void *to, struct lw_err *err)
{
    struct step_spans *x = to;
    struct step_op v = {.op = lw_sql_int(q, 0),
                        .alike = FIND(x->alike, x->n_alike, lw_sql_int(q, 1)),
                        .micro_batch = (int32_t)lw_sql_int(q, 2)};

    x->several |= v.micro_batch > 0;
    LW_ROOM(x->ops, x->op_capacity, x->n_ops + 1, err);
    x->ops[x->n_ops++] = v;
    return LW_OK;
}

static enum lw_status read_ops(struct lw_store *s, int64_t plan, struct step_spans *x,
                               struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT op, alike, micro_batch FROM op_rows WHERE plan = ? ORDER BY op",
                        "l", plan));
    return add_rows(q, add_op, x, err);
}

enum lw_status step_spans_read_ops(struct lw_store *s, const struct lw_run *run,
                                   struct step_spans *out, struct lw_err *err)
{
    LW_TRY(read_streams(s, run->plan, out, err));
    LW_TRY(read_alike(s, run->plan, out, err));
    return read_ops(s, run->plan, out, err);
}

const struct step_op *step_op_of(const struct step_spans *x, const struct step_span *v)
{
    int64_t at = FIND(x->ops, x->n_ops, v->op);

    return at < 0 ? NULL : &x->ops[at];
}

const struct step_alike *step_alike_of(const struct step_spans *x, const struct step_op *op)
{
    return op && op->alike >= 0 ? &x->alike[op->alike] : NULL;
}

const struct step_stream *step_stream_of(const struct step_spans *x, const struct step_span *v)
{
    int64_t at = FIND(x->streams, x->n_streams, v->stream);

    return at < 0 ? NULL : &x->streams[at];
}

void step_spans_free(struct step_spans *x)
{
    lw_free(x->spans);
    lw_free(x->ranks);
    lw_free(x->streams);
    lw_free(x->alike);
    lw_free(x->ops);
    lw_arena_free(&x->arena);
    *x = (struct step_spans){0};
}
