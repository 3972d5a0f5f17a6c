/* The bars of one step, from the spans of the database. Exposed communication is found by a sweep
 * over starts and ends of one rank's bars, by the definition of shared/timeline/timeline.h. */
#include "analysis/draw/step_bars.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "analysis/store/sql.h"

static const char bars_text[] =
    "SELECT span.rank, span.stream, coalesce(stream.name, 'stream ' || span.stream), op_kind.name,"
    " op_kind.class, ifnull(op.bucket, -1), ifnull(op.bytes, 0), ready_ps - ?4, start_ps - ?4,"
    " iif(all_in_ps < 0, -1, all_in_ps - ?4), end_ps - ?4"
    " FROM run JOIN span ON span.id BETWEEN run.first_span AND run.last_span AND span.run = run.id"
    " JOIN op_kind ON op_kind.id = span.kind"
    " LEFT JOIN op ON op.plan = run.plan AND op.op = span.op"
    " LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream"
    " WHERE run.id = ?1 AND span.step = ?2 AND span.rank < ?3 AND end_ps > start_ps"
    "  AND (op_kind.class IN ('compute', 'copy', 'collective', 'p2p') OR op_kind.name = 'host')"
    " ORDER BY span.rank, coalesce(stream.class, '') = 'comm', span.stream, start_ps, span.id";

static enum lw_status add_row(struct picture *pic, int32_t run, struct lw_sql *q,
                              struct lw_err *err)
{
    int32_t rank = (int32_t)lw_sql_int(q, 0), stream = (int32_t)lw_sql_int(q, 1);
    struct picture_row *last = pic->n_rows > 0 ? &pic->rows[pic->n_rows - 1] : NULL;

    if (last && last->run == run && last->rank == rank && last->stream == stream)
        return LW_OK;
    bool first = !last || last->run != run, other_rank = !first && last->rank != rank;
    if (lw_reserve(&pic->rows, &pic->row_capacity, pic->n_rows + 1, sizeof *pic->rows) != 0)
        return lw_fail_nomem(err);
    struct picture_row *r = &pic->rows[pic->n_rows++];
    *r = (struct picture_row){.run = run, .rank = rank, .stream = stream};
    r->y = pic->bottom - (first ? 1.5 : other_rank ? 1.3 : 1.0);
    pic->bottom = r->y;
    snprintf(r->label, sizeof r->label, "rank %d %.30s", rank, lw_sql_text(q, 2));
    return LW_OK;
}

const char *picture_name(const struct picture_bar *b, char buf[PICTURE_TEXT])
{
    char size[32];

    if (b->n_ops > 1 && b->comm)
        snprintf(buf, PICTURE_TEXT, "%d ops", b->n_ops);
    else if (b->bucket >= 0 && b->comm)
        snprintf(buf, PICTURE_TEXT, "bucket %d, %s", b->bucket, lw_format_bytes(size, b->bytes));
    else
        snprintf(buf, PICTURE_TEXT, "%s", lw_op_name((enum lw_op_kind)b->kind));
    return buf;
}

bool picture_text_place(const struct picture_bar *b, lw_ps *from, lw_ps *to)
{
    lw_ps moves = b->comm && b->all_in > b->start ? b->all_in : b->start;
    bool pale = moves - b->start > b->end - moves;

    *from = pale ? b->start : moves;
    *to = pale ? moves : b->end;
    return !pale && (b->colour == PLOT_BACKWARD || b->colour == PLOT_COMM_ODD);
}

static enum lw_status add_bar(struct picture *pic, int32_t run, struct lw_sql *q,
                              struct lw_err *err)
{
    const char *kind_text = lw_sql_text(q, 3), *class = lw_sql_text(q, 4);
    enum lw_op_kind kind;

    LW_TRY(lw_op_parse(kind_text, &kind, err));
    LW_TRY(add_row(pic, run, q, err));
    if (lw_reserve(&pic->bars, &pic->bar_capacity, pic->n_bars + 1, sizeof *pic->bars) != 0)
        return lw_fail_nomem(err);
    struct picture_bar *b = &pic->bars[pic->n_bars++];
    *b = (struct picture_bar){
        .row = (int32_t)(pic->n_rows - 1), .bucket = (int32_t)lw_sql_int(q, 5),
        .bytes = lw_sql_int(q, 6), .ready = lw_sql_int(q, 7), .start = lw_sql_int(q, 8),
        .all_in = lw_sql_int(q, 9), .end = lw_sql_int(q, 10),
        .comm = strcmp(class, "collective") == 0 || strcmp(class, "p2p") == 0,
        .n_ops = 1, .kind = (uint8_t)kind,
        .work = strcmp(class, "compute") == 0 || strcmp(class, "copy") == 0,
    };
    b->colour = plot_colour(kind_text, class, b->bucket);
    return LW_OK;
}

/* The step to show, its first start and its length. */
static enum lw_status find_step(struct lw_store *s, const struct picture_view *p,
                                const struct lw_run *run, int64_t *step, lw_ps *t0, lw_ps *length,
                                struct lw_err *err)
{
    struct lw_sql *q;

    *step = p->step;
    if (p->step < 0) {
        LW_TRY(lw_sql_query(s, &q, err,
                            "SELECT coalesce((SELECT value FROM metric WHERE run = ?1 AND"
                            " name = 'shown_step'), (SELECT n_warmup FROM run WHERE id = ?1))",
                            "l", run->id));
        *step = lw_sql_next(q) ? lw_sql_int(q, 0) : 0;
        LW_TRY(lw_sql_finish(q, err));
    }
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT count(*), ifnull(min(start_ps), 0), ifnull(max(end_ps), 0)"
                        " FROM run JOIN span ON span.id BETWEEN run.first_span AND run.last_span"
                        "  AND span.run = run.id WHERE run.id = ?1 AND span.step = ?2",
                        "ll", run->id, *step));
    lw_sql_next(q);
    int64_t n = lw_sql_int(q, 0);
    *t0 = lw_sql_int(q, 1);
    *length = lw_sql_int(q, 2) - *t0;
    LW_TRY(lw_sql_finish(q, err));
    if (n > 0)
        return LW_OK;
    return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                      run->n_spans > 0 ? "run %lld has no spans of step %lld"
                                       : "run %lld was stored without spans (lapwing sim stores "
                                         "them with --spans); step %lld cannot be drawn",
                      (long long)run->id, (long long)*step);
}

static enum lw_status read_run(struct lw_store *s, const struct picture_view *p, int32_t run,
                               struct picture *pic, struct lw_err *err)
{
    int64_t step;
    lw_ps t0;
    struct lw_sql *q;

    LW_TRY(find_step(s, p, &p->runs[run], &step, &t0, &pic->step[run], err));
    pic->most = pic->step[run] > pic->most ? pic->step[run] : pic->most;
    LW_TRY(lw_sql_query(s, &q, err, bars_text, "llil", p->runs[run].id, step, p->max_ranks, t0));
    enum lw_status st = LW_OK;
    while (st == LW_OK && lw_sql_next(q))
        st = add_bar(pic, run, q, err);
    enum lw_status end = lw_sql_finish(q, st == LW_OK ? err : NULL);
    pic->bottom -= 0.3;
    return st != LW_OK ? st : end;
}

struct edge {
    lw_ps at;
    int32_t comm, work; /* +1 opens, -1 closes */
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static enum lw_status add_strip(struct picture *pic, int32_t row, lw_ps start, lw_ps end,
                                struct lw_err *err)
{
    if (lw_reserve(&pic->strips, &pic->strip_capacity, pic->n_strips + 1,
                   sizeof *pic->strips) != 0)
        return lw_fail_nomem(err);
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
    qsort(edges, (size_t)n, sizeof *edges, by_time);
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
    struct edge *edges = lw_calloc((size_t)pic->n_bars * 2 + 1, sizeof *edges);
    enum lw_status st = LW_OK;

    if (!edges)
        return lw_fail_nomem(err);
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
    struct picture pic = {.step = lw_calloc((size_t)p->n_runs, sizeof *pic.step)};
    enum lw_status st = pic.step ? LW_OK : lw_fail_nomem(err);

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
    *pic = (struct picture){0};
}

static bool look_alike(const struct picture_bar *a, const struct picture_bar *b)
{
    return !a->comm && !b->comm && a->colour == b->colour && a->kind == b->kind;
}

int64_t picture_join(const struct picture *pic, int64_t i, lw_ps gap, struct picture_bar *out)
{
    lw_ps longest = pic->bars[i].end - pic->bars[i].start;

    *out = pic->bars[i];
    for (i++; i < pic->n_bars; i++) {
        const struct picture_bar *b = &pic->bars[i];
        lw_ps length = b->end - b->start;
        bool tiny = out->end - out->start <= gap && length <= gap;
        if (b->row != out->row || b->start > out->end + gap || !(tiny || look_alike(out, b)))
            break;
        if (length > longest && !look_alike(out, b)) {
            longest = length;
            out->kind = b->kind;
            out->colour = b->colour;
            out->comm = b->comm;
            out->work = b->work;
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
