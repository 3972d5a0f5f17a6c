/* The bars of one step, from the spans of the database. Exposed communication is found by a sweep
 * over starts and ends of one rank's bars, by the definition of shared/timeline/timeline.h. */
#include "analysis/draw/step_bars.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/draw/equal_ranks.h"
#include "analysis/store/sql.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

/* alike(rank, first): of each rank that has spans in step ?2 of run ?1, the lowest rank of its
 * stage whose blocks are the same data from the same times on. One of them is read for all. */
#define WITH_ALIKE                                                                               \
    "WITH alike AS (SELECT blocks.rank, min(blocks.rank) OVER (PARTITION BY text, pp) AS first"  \
    "  FROM (SELECT rank, group_concat(pass || ' ' || base_op || ' ' || base_ps || ' ' || data)" \
    "   AS text FROM"                                                                            \
    "   (SELECT rank, pass, base_op, base_ps, data FROM span_block WHERE run = ?1 AND step = ?2" \
    "    ORDER BY first) GROUP BY rank) AS blocks"                                               \
    "  LEFT JOIN plan_rank AS at ON at.plan = (SELECT plan FROM run WHERE id = ?1)"              \
    "   AND at.rank = blocks.rank) "
#define FROM_SPANS                                                                               \
    " FROM run CROSS JOIN (SELECT DISTINCT first AS rank FROM alike) AS one"                     \
    " CROSS JOIN span_rows AS span ON span.run = run.id AND span.step = ?2"                      \
    "  AND span.rank = one.rank"                                                                 \
    " JOIN op_kind ON op_kind.id = span.kind"

/* The ranks of a plan are grouped, each alone, so that SQLite indexes them: it does not index what
 * a window function returns, and would compare each span with every rank. */
static const char bars_text[] =
    WITH_ALIKE "SELECT span.rank, ifnull(at.pp, -1), span.stream,"
    " coalesce(stream.name || iif(stream.class = 'comm' AND stream.name <> 'comm', ' comm', ''),"
    "  'stream ' || span.stream), op_kind.name, op_kind.class, ifnull(op.bucket, -1),"
    " ifnull(op.bytes, 0), ready_ps - ?3, max(start_ps - ?3, 0),"
    " iif(all_in_ps < ?3, -1, all_in_ps - ?3), end_ps - ?3,"
    " iif(?4 > 0, ifnull(op_row.micro_batch, -1), -1), ifnull(op.name, ''),"
    " ifnull(comm.purpose = 'recorded data', 0)"
    FROM_SPANS
    " LEFT JOIN op_row ON op_row.plan = run.plan AND op_row.op = span.op"
    " LEFT JOIN op_alike AS op ON op.plan = op_row.plan AND op.alike = op_row.alike"
    " LEFT JOIN comm ON comm.plan = run.plan AND comm.comm = op.comm"
    " LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream"
    " LEFT JOIN (SELECT rank, pp, place FROM"
    "   (SELECT rank, pp, row_number() OVER (PARTITION BY pp ORDER BY rank) AS place"
    "    FROM plan_rank WHERE plan = (SELECT plan FROM run WHERE id = ?1))"
    "  GROUP BY rank) AS at ON at.rank = span.rank"
    " WHERE run.id = ?1 AND end_ps > max(start_ps, ?3)"
    "  AND (op_kind.class IN ('compute', 'copy', 'collective', 'p2p') OR op_kind.name = 'host')"
    " ORDER BY ifnull(at.place, span.rank), at.pp, span.rank,"
    "  coalesce(stream.class, '') = 'comm', span.stream, start_ps, span.id";

/* Buckets of a recording are known by the names of their all-reduces alone (traces/replay/
 * bucket_names.c). */
static int32_t bucket_of(int32_t bucket, const char *name)
{
    int number;

    return bucket < 0 && sscanf(name, "bucket %9d", &number) == 1 ? number : bucket;
}

static enum lw_status read_bar(struct lw_sql *q, struct equal_bar *b, struct lw_err *err)
{
    const char *class = lw_sql_text(q, 5);
    enum lw_op_kind kind;

    LW_TRY(lw_op_parse(lw_sql_text(q, 4), &kind, err));
    int32_t bucket = bucket_of((int32_t)lw_sql_int(q, 6), lw_sql_text(q, 13));
    *b = (struct equal_bar){
        .rank = (int32_t)lw_sql_int(q, 0), .stage = (int32_t)lw_sql_int(q, 1),
        .stream = (int32_t)lw_sql_int(q, 2),
        .bar = {.bucket = bucket, .bytes = lw_sql_int(q, 7), .ready = lw_sql_int(q, 8),
                .start = lw_sql_int(q, 9), .all_in = lw_sql_int(q, 10), .end = lw_sql_int(q, 11),
                .micro_batch = (int32_t)lw_sql_int(q, 12),
                .comm = strcmp(class, "collective") == 0 || strcmp(class, "p2p") == 0,
                .work = strcmp(class, "compute") == 0 || strcmp(class, "copy") == 0,
                .n_ops = 1, .kind = (uint8_t)kind,
                .look = (uint8_t)look_of(kind, lw_sql_int(q, 14) ? 0 : bucket,
                                         lw_sql_text(q, 13))},
    };
    snprintf(b->stream_name, sizeof b->stream_name, "%.*s", (int)sizeof b->stream_name - 1,
             lw_sql_text(q, 3));
    return LW_OK;
}

static const char *work_name(const struct picture_bar *b)
{
    return b->look == LOOK_RECOMPUTE ? "recompute" : lw_op_name((enum lw_op_kind)b->kind);
}

char picture_letter(const struct picture_bar *b)
{
    return b->look == LOOK_RECOMPUTE ? 'r' : lw_op_letter((enum lw_op_kind)b->kind)[0];
}

const char *picture_name(const struct picture_bar *b, char buf[PICTURE_TEXT])
{
    char size[32];

    if (b->n_ops > 1 && b->comm)
        snprintf(buf, PICTURE_TEXT, "%d ops", b->n_ops);
    else if (b->bucket >= 0 && b->comm)
        snprintf(buf, PICTURE_TEXT, "bucket %d, %s", b->bucket, lw_format_bytes(size, b->bytes));
    else if (b->micro_batch >= 0)
        snprintf(buf, PICTURE_TEXT, "%s %d", work_name(b), b->micro_batch);
    else
        snprintf(buf, PICTURE_TEXT, "%s", work_name(b));
    return buf;
}

const char *picture_text(const struct picture_bar *b, int64_t n, char buf[PICTURE_TEXT])
{
    if ((int64_t)strlen(picture_name(b, buf)) <= n)
        return buf;
    buf[0] = '\0';
    if (b->comm && b->bucket >= 0 && b->n_ops == 1)
        snprintf(buf, PICTURE_TEXT, "b%d", b->bucket);
    else if (b->work && b->micro_batch >= 0) {
        snprintf(buf, PICTURE_TEXT, "%c%d", picture_letter(b), b->micro_batch);
        if ((int64_t)strlen(buf) > n)
            snprintf(buf, PICTURE_TEXT, "%d", b->micro_batch);
    }
    return (int64_t)strlen(buf) <= n ? buf : "";
}

static bool is_odd(const struct picture_bar *b)
{
    return b->comm ? b->bucket % 2 == 1 : b->micro_batch % 2 == 1;
}

int32_t picture_colour(const struct picture_bar *b)
{
    return look_colour((enum picture_look)b->look, is_odd(b));
}

bool picture_text_place(const struct picture_bar *b, lw_ps *from, lw_ps *to)
{
    lw_ps moves = b->comm && b->all_in > b->start ? b->all_in : b->start;
    bool pale = moves - b->start > b->end - moves;

    *from = pale ? b->start : moves;
    *to = pale ? moves : b->end;
    return !pale && look_is_dark((enum picture_look)b->look, is_odd(b));
}

int picture_keys(const struct picture *pic, struct plot_key keys[N_LOOKS])
{
    bool even[N_LOOKS] = {[LOOK_EXPOSED] = pic->n_strips > 0}, odd[N_LOOKS] = {false};
    int n = 0;

    for (int64_t i = 0; i < pic->n_bars; i++) {
        const struct picture_bar *b = &pic->bars[i];
        *(is_odd(b) ? &odd[b->look] : &even[b->look]) = true;
        even[LOOK_WAIT] |= b->comm && b->all_in > b->start;
    }
    for (int k = 0; k < N_LOOKS; k++) {
        enum picture_look look = (enum picture_look)k;
        bool both = even[k] && odd[k] && look_colour(look, false) != look_colour(look, true);
        if (even[k] || odd[k])
            keys[n++] = (struct plot_key){look_name(look), look_colour(look, !even[k]),
                                          both ? look_colour(look, true) : -1};
    }
    return n;
}

enum lw_status picture_find_step(struct lw_store *s, const struct lw_run *run, int32_t wanted,
                                 struct picture_step *out, struct lw_err *err)
{
    struct lw_sql *q;

    *out = (struct picture_step){.step = wanted};
    if (wanted < 0)
        LW_TRY(lw_sql_number(s, &out->step, err,
                             "SELECT coalesce((SELECT value FROM metric WHERE run = ?1 AND"
                             " name = 'shown_step'), (SELECT n_warmup FROM run WHERE id = ?1))",
                             "l", run->id));
    LW_TRY(lw_sql_query(s, &q, err,
                        WITH_ALIKE "SELECT count(*),"
                        " coalesce(min(iif(class = 'p2p', NULL, start_ps)), min(start_ps), 0),"
                        " ifnull(max(end_ps), 0), ifnull(min(start_ps), 0)"
                        FROM_SPANS " WHERE run.id = ?1",
                        "ll", run->id, out->step));
    lw_sql_next(q);
    int64_t n = lw_sql_int(q, 0);
    out->from = lw_sql_int(q, 1);
    out->length = lw_sql_int(q, 2) - out->from;
    out->span = lw_sql_int(q, 2) - lw_sql_int(q, 3);
    LW_TRY(lw_sql_finish(q, err));
    if (n > 0)
        return LW_OK;
    return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                      run->n_spans > 0 ? "run %lld has no spans of step %lld"
                                       : "run %lld was stored without spans (lapwing sim stores "
                                         "them with --spans); step %lld cannot be drawn",
                      (long long)run->id, (long long)out->step);
}

/* Ranks whose spans were read, ascending. */
struct read_ranks {
    int32_t *v;
    int64_t n, capacity;
};

LW_COMPARATOR(by_rank, int32_t, *a, *b)

static bool was_read(const struct read_ranks *r, int32_t rank)
{
    return r->n > 0 && bsearch(&rank, r->v, (size_t)r->n, sizeof *r->v, by_rank);
}

/* The ranks that the rows of others are those of: by their blocks, of those that have a bar, and
 * those that have no spans of their own. */
static enum lw_status add_alike(struct lw_store *s, int64_t run, int64_t step, struct read_ranks *r,
                                struct equal_ranks *alike, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    lw_sort(r->v, r->n, by_rank);
    LW_TRY(lw_sql_query(s, &q, err,
                        WITH_ALIKE
                        "SELECT rank, first, 1 FROM alike WHERE first <> rank UNION ALL "
                        "SELECT metric.rank, ifnull(first, value), 0 FROM metric"
                        " LEFT JOIN alike ON alike.rank = CAST(value AS INTEGER)"
                        " WHERE run = ?1 AND name = 'rows_of_rank' AND value <> metric.rank"
                        " ORDER BY 1",
                        "ll", run, step));
    while (st == LW_OK && lw_sql_next(q)) {
        int32_t first = (int32_t)lw_sql_int(q, 1);
        if (lw_sql_int(q, 2) == 0 || was_read(r, first))
            st = equal_ranks_same(alike, (int32_t)lw_sql_int(q, 0), first, err);
    }
    return lw_sql_end(q, st, err);
}

static enum lw_status read_bars(struct lw_sql *q, struct equal_ranks *alike, struct read_ranks *r,
                                struct lw_err *err)
{
    struct equal_bar bar;

    while (lw_sql_next(q)) {
        LW_TRY(read_bar(q, &bar, err));
        LW_TRY(equal_ranks_add(alike, &bar, err));
        if (r->n > 0 && r->v[r->n - 1] == bar.rank)
            continue;
        LW_ROOM(r->v, r->capacity, r->n + 1, err);
        r->v[r->n++] = bar.rank;
    }
    return LW_OK;
}

static enum lw_status read_run(struct lw_store *s, const struct picture_view *p, int32_t run,
                               struct picture *pic, struct lw_err *err)
{
    struct equal_ranks alike = {.max_groups = p->max_ranks};
    struct picture_step *step = &pic->step[run];
    struct read_ranks ranks = {0};
    int64_t several; /* the ops belong to several micro-batches */
    struct lw_sql *q;

    LW_TRY(picture_find_step(s, &p->runs[run], p->step, step, err));
    LW_TRY(lw_sql_number(s, &several, err,
                         "SELECT ifnull(max(micro_batch), 0) > 0 FROM op WHERE plan = ?", "l",
                         p->runs[run].plan));
    pic->most = step->length > pic->most ? step->length : pic->most;
    LW_TRY(lw_sql_query(s, &q, err, bars_text, "llll", p->runs[run].id, step->step,
                        step->from, several));
    enum lw_status st = lw_sql_end(q, read_bars(q, &alike, &ranks, err), err);
    if (st == LW_OK)
        st = add_alike(s, p->runs[run].id, step->step, &ranks, &alike, err);
    if (st == LW_OK)
        st = equal_ranks_finish(&alike, run, pic, err);
    equal_ranks_free(&alike);
    lw_free(ranks.v);
    return st;
}

struct edge {
    lw_ps at;
    int32_t comm, work; /* +1 opens, -1 closes */
};

LW_COMPARATOR(by_time, struct edge, a->at, b->at)

static enum lw_status add_strip(struct picture *pic, int32_t row, lw_ps start, lw_ps end,
                                struct lw_err *err)
{
    LW_ROOM(pic->strips, pic->strip_capacity, pic->n_strips + 1, err);
    pic->strips[pic->n_strips++] = (struct picture_strip){row, start, end, end - start};
    return LW_OK;
}

/* Strips of the bars [from, to), which are those of one rank; edges has room for two a bar. */
static enum lw_status expose(struct picture *pic, int64_t from, int64_t to, struct edge *edges,
                             struct lw_err *err)
{
    int64_t n = 0, comm = 0, work = 0;
    int32_t row = -1;
    lw_ps since = -1;

    for (int64_t i = from; i < to; i++) {
        const struct picture_bar *b = &pic->bars[i];
        if (!b->comm && !b->work)
            continue;
        edges[n++] = (struct edge){b->start, b->comm, b->work};
        edges[n++] = (struct edge){b->end, -(int)b->comm, -(int)b->work};
        row = b->comm ? b->row : row;
    }
    lw_sort(edges, n, by_time);
    for (int64_t i = 0; i < n; i++) {
        comm += edges[i].comm;
        work += edges[i].work;
        if (i + 1 < n && edges[i + 1].at == edges[i].at)
            continue;
        bool exposed = comm > 0 && work == 0;
        if (exposed && since < 0)
            since = edges[i].at;
        if (!exposed && since >= 0) {
            LW_TRY(add_strip(pic, row, since, edges[i].at, err));
            since = -1;
        }
    }
    return LW_OK;
}

static enum lw_status expose_all(struct picture *pic, struct lw_err *err)
{
    struct edge *edges;
    enum lw_status st = LW_OK;

    LW_NEW(edges, (size_t)pic->n_bars * 2 + 1, err);
    for (int64_t i = 0, from = 0; i < pic->n_bars && st == LW_OK; i++) {
        const struct picture_row *row = &pic->rows[pic->bars[i].row];
        const struct picture_row *next =
            i + 1 < pic->n_bars ? &pic->rows[pic->bars[i + 1].row] : NULL;
        if (next && next->run == row->run && next->rank == row->rank)
            continue;
        st = expose(pic, from, i + 1, edges, err);
        from = i + 1;
    }
    lw_free(edges);
    return st;
}

enum lw_status picture_read(struct lw_store *s, const struct picture_view *p, struct picture *out,
                            struct lw_err *err)
{
    struct picture pic = {.step = lw_calloc((size_t)p->n_runs, sizeof *pic.step),
                          .left_out = lw_calloc((size_t)p->n_runs, sizeof *pic.left_out)};
    enum lw_status st = pic.step && pic.left_out ? LW_OK : lw_fail_nomem(err);

    for (int32_t i = 0; i < p->n_runs && st == LW_OK; i++)
        st = read_run(s, p, i, &pic, err);
    if (st == LW_OK)
        st = expose_all(&pic, err);
    if (st != LW_OK) {
        picture_free(&pic);
        return st;
    }
    *out = pic;
    return LW_OK;
}

void picture_free(struct picture *pic)
{
    lw_free(pic->bars);
    lw_free(pic->rows);
    lw_free(pic->strips);
    lw_free(pic->step);
    lw_free(pic->left_out);
    *pic = (struct picture){0};
}

static bool look_alike(const struct picture_bar *a, const struct picture_bar *b)
{
    return !a->comm && !b->comm && a->look == b->look && a->kind == b->kind &&
           a->micro_batch == b->micro_batch;
}

/* Bar i is too short to be seen, and the one after it continues `a`. */
static bool is_speck(const struct picture *pic, const struct picture_bar *a, int64_t i, lw_ps gap)
{
    const struct picture_bar *b = &pic->bars[i], *next = b + 1;

    return i + 1 < pic->n_bars && b->end - b->start <= gap && !b->comm && next->row == a->row &&
           next->start <= b->end + gap && look_alike(a, next);
}

int64_t picture_join(const struct picture *pic, int64_t i, lw_ps gap, struct picture_bar *out)
{
    lw_ps longest = pic->bars[i].end - pic->bars[i].start;

    *out = pic->bars[i];
    for (i++; i < pic->n_bars; i++) {
        const struct picture_bar *b = &pic->bars[i];
        lw_ps length = b->end - b->start;
        bool tiny = out->end - out->start <= gap && length <= gap;
        bool joins = tiny || look_alike(out, b) || is_speck(pic, out, i, gap);
        if (b->row != out->row || b->start > out->end + gap || !joins)
            break;
        if (length > longest && !look_alike(out, b)) {
            struct picture_bar whole = *b;
            longest = length;
            whole.start = out->start;
            whole.end = out->end;
            whole.n_ops = out->n_ops;
            *out = whole;
        }
        out->end = b->end > out->end ? b->end : out->end;
        out->n_ops++;
    }
    if (out->n_ops > 1)
        out->all_in = out->ready = -1;
    return i;
}

int64_t picture_join_strips(const struct picture *pic, int64_t i, lw_ps gap,
                            struct picture_strip *out)
{
    *out = pic->strips[i];
    for (i++; i < pic->n_strips; i++) {
        const struct picture_strip *x = &pic->strips[i];
        if (x->row != out->row || x->start > out->end + gap)
            break;
        out->end = x->end;
        out->covered += x->covered;
    }
    return i;
}
