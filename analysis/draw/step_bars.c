/* The bars of one step, from its spans (step_spans.c). Exposed communication is found by a sweep
 * over starts and ends of one rank's bars, by the definition of shared/timeline/timeline.h. */
#include "analysis/draw/step_bars.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/draw/equal_ranks.h"
#include "analysis/draw/step_spans.h"
#include "analysis/store/sql.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

/* Buckets of a recording are known by the names of their all-reduces alone (traces/replay/
 * bucket_names.c). */
static int32_t bucket_of(int32_t bucket, const char *name)
{
    int number;

    return bucket < 0 && sscanf(name, "bucket %9d", &number) == 1 ? number : bucket;
}

static bool is_drawn(const struct step_span *v, lw_ps from)
{
    enum lw_op_class class = lw_op_class((enum lw_op_kind)v->kind);

    return v->end > v->start && v->end > from &&
           (v->kind == LW_OP_HOST || (class != LW_CLASS_HOST && class != LW_CLASS_MEMORY));
}

static struct equal_bar bar_of(const struct step_spans *x, const struct step_rank *r,
                               const struct step_span *v, lw_ps from)
{
    const struct step_op *op = step_op_of(x, v);
    const struct step_alike *alike = step_alike_of(x, op);
    const struct step_stream *stream = step_stream_of(x, v);
    enum lw_op_kind kind = (enum lw_op_kind)v->kind;
    enum lw_op_class class = lw_op_class(kind);
    const char *name = alike ? alike->name : "";
    int32_t bucket = bucket_of(alike ? alike->bucket : -1, name);
    struct equal_bar b = {
        .rank = r->rank, .stage = r->stage, .stream = v->stream,
        .bar = {.bucket = bucket, .bytes = alike ? alike->bytes : 0, .ready = v->ready - from,
                .start = v->start > from ? v->start - from : 0,
                .all_in = v->all_in < from ? -1 : v->all_in - from, .end = v->end - from,
                .micro_batch = op && x->several ? op->micro_batch : -1,
                .comm = class == LW_CLASS_COLLECTIVE || class == LW_CLASS_P2P,
                .work = class == LW_CLASS_COMPUTE || class == LW_CLASS_COPY,
                .n_ops = 1, .kind = v->kind,
                .look = (uint8_t)look_of(kind, alike && alike->recorded ? 0 : bucket, name)},
    };

    if (stream)
        memcpy(b.stream_name, stream->name, sizeof b.stream_name);
    else
        snprintf(b.stream_name, sizeof b.stream_name, "stream %d", v->stream);
    return b;
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

static enum lw_status find_number(struct lw_store *s, const struct lw_run *run, int32_t wanted,
                                  int64_t *step, struct lw_err *err)
{
    *step = wanted;
    if (wanted >= 0)
        return LW_OK;
    return lw_sql_number(s, step, err,
                         "SELECT coalesce((SELECT value FROM metric WHERE run = ?1 AND"
                         " name = 'shown_step'), (SELECT n_warmup FROM run WHERE id = ?1))",
                         "l", run->id);
}

static struct picture_step step_of(const struct step_spans *x, int64_t number)
{
    lw_ps first = INT64_MAX, first_work = INT64_MAX, end = INT64_MIN;

    for (int64_t i = 0; i < x->n_spans; i++) {
        const struct step_span *v = &x->spans[i];
        bool message = lw_op_class((enum lw_op_kind)v->kind) == LW_CLASS_P2P;
        first = v->start < first ? v->start : first;
        first_work = !message && v->start < first_work ? v->start : first_work;
        end = v->end > end ? v->end : end;
    }
    lw_ps from = first_work < INT64_MAX ? first_work : first;
    return (struct picture_step){
        .step = number, .from = from, .length = end - from, .span = end - first};
}

static enum lw_status read_step(struct lw_store *s, const struct lw_run *run, int32_t wanted,
                                struct step_spans *x, struct picture_step *out, struct lw_err *err)
{
    int64_t number;

    LW_TRY(find_number(s, run, wanted, &number, err));
    LW_TRY(step_spans_read(s, run->id, number, x, err));
    if (x->n_spans == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          run->n_spans > 0
                              ? "run %lld has no spans of step %lld"
                              : "run %lld was stored without spans (lapwing sim stores them with "
                                "--spans); step %lld cannot be drawn",
                          (long long)run->id, (long long)number);
    *out = step_of(x, number);
    return LW_OK;
}

enum lw_status picture_find_step(struct lw_store *s, const struct lw_run *run, int32_t wanted,
                                 struct picture_step *out, struct lw_err *err)
{
    struct step_spans x = {0};
    enum lw_status st = read_step(s, run, wanted, &x, out, err);

    step_spans_free(&x);
    return st;
}

LW_COMPARATOR(by_first_rank, struct step_rank, a->rank, b->rank)

static bool was_read(const struct step_rank *ranks, int64_t n, int32_t rank)
{
    return n > 0 && bsearch(&(struct step_rank){.rank = rank}, ranks, (size_t)n, sizeof *ranks,
                            by_first_rank);
}

/* The ranks that the rows of others are those of: by their blocks, of those that have a bar (with,
 * ascending), and those that have no spans of their own. */
static enum lw_status add_alike(struct lw_store *s, int64_t run, int64_t step,
                                const struct step_rank *with, int64_t n,
                                struct equal_ranks *alike, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    LW_TRY(lw_sql_query(s, &q, err,
                        WITH_ALIKE_RANKS
                        "SELECT rank, first, 1 FROM alike WHERE first <> rank UNION ALL "
                        "SELECT metric.rank, ifnull(first, value), 0 FROM metric"
                        " LEFT JOIN alike ON alike.rank = CAST(value AS INTEGER)"
                        " WHERE run = ?1 AND name = 'rows_of_rank' AND value <> metric.rank"
                        " ORDER BY 1",
                        "ll", run, step));
    while (st == LW_OK && lw_sql_next(q)) {
        int32_t first = (int32_t)lw_sql_int(q, 1);
        if (lw_sql_int(q, 2) == 0 || was_read(with, n, first))
            st = equal_ranks_same(alike, (int32_t)lw_sql_int(q, 0), first, err);
    }
    return lw_sql_end(q, st, err);
}

struct drawn { /* a span of one rank, by which its bars are in order */
    const struct step_span *span;
    int64_t stream, place;
    lw_ps start;
    bool comm;
};

LW_COMPARATOR(by_row, struct drawn, a->comm, b->comm, a->stream, b->stream, a->start, b->start,
              a->place, b->place)

/* The bars of a rank, compute before communication; drawn has room for its spans. *n: how many. */
static enum lw_status add_rank(const struct step_spans *x, const struct step_rank *r, lw_ps from,
                               struct drawn *drawn, struct equal_ranks *alike, int64_t *n,
                               struct lw_err *err)
{
    *n = 0;
    for (int64_t i = r->from; i < r->to; i++) {
        const struct step_span *v = &x->spans[i];
        const struct step_stream *stream = step_stream_of(x, v);
        if (is_drawn(v, from))
            drawn[(*n)++] = (struct drawn){v, v->stream, i, v->start, stream && stream->comm};
    }
    lw_sort(drawn, *n, by_row);
    for (int64_t i = 0; i < *n; i++) {
        struct equal_bar b = bar_of(x, r, drawn[i].span, from);
        LW_TRY(equal_ranks_add(alike, &b, err));
    }
    return LW_OK;
}

/* The bars of all ranks that were read; those with a bar come first in x->ranks, ascending. */
static enum lw_status add_ranks(struct step_spans *x, lw_ps from, struct equal_ranks *alike,
                                int64_t *n_with, struct lw_err *err)
{
    struct drawn *drawn = lw_alloc(((size_t)x->n_spans + 1) * sizeof *drawn);
    enum lw_status st = drawn ? LW_OK : lw_fail_nomem(err);
    int64_t n;

    *n_with = 0;
    for (int64_t r = 0; r < x->n_ranks && st == LW_OK; r++) {
        st = add_rank(x, &x->ranks[r], from, drawn, alike, &n, err);
        if (st == LW_OK && n > 0)
            x->ranks[(*n_with)++] = x->ranks[r];
    }
    lw_free(drawn);
    if (st == LW_OK)
        lw_sort(x->ranks, *n_with, by_first_rank);
    return st;
}

static enum lw_status read_groups(struct lw_store *s, const struct lw_run *run, int32_t wanted,
                                  struct picture_step *step, struct equal_ranks *alike,
                                  struct step_spans *x, struct lw_err *err)
{
    int64_t n_with;

    LW_TRY(read_step(s, run, wanted, x, step, err));
    LW_TRY(step_spans_read_ops(s, run, x, err));
    LW_TRY(add_ranks(x, step->from, alike, &n_with, err));
    return add_alike(s, run->id, step->step, x->ranks, n_with, alike, err);
}

static enum lw_status read_run(struct lw_store *s, const struct picture_view *p, int32_t run,
                               struct picture *pic, struct lw_err *err)
{
    struct equal_ranks alike = {.max_groups = p->max_ranks};
    struct picture_step *step = &pic->step[run];
    struct step_spans spans = {0};
    enum lw_status st = read_groups(s, &p->runs[run], p->step, step, &alike, &spans, err);

    if (st == LW_OK) {
        pic->most = step->length > pic->most ? step->length : pic->most;
        st = equal_ranks_finish(&alike, run, pic, err);
    }
    equal_ranks_free(&alike);
    step_spans_free(&spans);
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
