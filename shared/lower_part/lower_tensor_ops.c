/* Where a tensor group's collectives stand among a module's ops (docs/design/lower_overlap.md).
 *
 * A module's forward has n equal parts, one for each sum. With --tp-overlap pieces a part begins
 * with pieces of its column products, each of which waits for its piece of the gather, and ends
 * with pieces of its row products, each followed by its piece of the sum. The number of pieces is
 * that of TransformerEngine's pipelined products (NVIDIA/TransformerEngine,
 * transformer_engine/pytorch/module/base.py, initialize_ub: num_splits 4).
 *
 * A module's backward has n equal parts too. Each begins with the input's gradient of its row
 * products, beside a gather in pieces, and ends with the weights' gradient of its column
 * products, beside which the sum runs. The weights' gradients have the share of the backward by
 * weights that the column products have of the forward's. */
#include "shared/lower_part/lower_part.h"

int32_t lw_tensor_calls(const struct lw_part *d, int32_t module, bool backward)
{
    const struct lw_module *m = &d->w->modules[module];

    if (d->s->tp == 1 || (backward ? m->tp_backward_bytes : m->tp_forward_bytes) == 0)
        return 0;
    return m->tp_calls > 1 ? m->tp_calls : 1;
}

int32_t lw_tensor_gathers(const struct lw_part *d, int32_t module, bool backward)
{
    return d->s->sequence_parallel ? lw_tensor_calls(d, module, !backward) : 0;
}

static lw_ps least(lw_ps a, lw_ps b)
{
    return a < b ? a : b;
}

static lw_ps at(lw_ps length, int64_t i, int64_t n)
{
    return (lw_ps)((__int128)length * i / n);
}

/* The column and the row products of a part of such a length, of n in a module's forward. */
static lw_ps column_of(const struct lw_module *m, int32_t n, lw_ps length)
{
    return least(m->tp_column_ps / n, length);
}

static lw_ps row_of(const struct lw_module *m, int32_t n, lw_ps length, lw_ps column)
{
    return least(m->tp_row_ps / n, length - column);
}

/* Pieces of 1 ps or more end at different times. */
static bool has_pieces(lw_ps products)
{
    return products >= LW_TENSOR_PIECES;
}

struct lw_tensor_part lw_tensor_part_of(const struct lw_part *d, int32_t module)
{
    const struct lw_module *m = &d->w->modules[module];
    int32_t calls = lw_tensor_calls(d, module, false), n = calls > 1 ? calls : 1;
    bool pieces = d->s->tp_overlap == LW_TP_OVERLAP_PIECES;
    lw_ps shortest = m->forward_ps / n, column = 0;
    struct lw_ring ring = lw_ring_of(d->s, m);
    struct lw_tensor_part x = {.n = n};

    if (pieces && lw_tensor_gathers(d, module, false) == n)
        column = column_of(m, n, shortest);
    if (has_pieces(column))
        x.n_column = LW_TENSOR_PIECES;
    if (pieces && calls > 0 && has_pieces(row_of(m, n, shortest, column)))
        x.n_row = LW_TENSOR_PIECES;
    x.n_ops = x.n_column + 1 + x.n_row;
    x.n_all = x.n * x.n_ops + (ring.n_steps > 0 ? ring.n_steps + 1 : 0);
    return x;
}

/* The end of the first k ops. */
static lw_ps end_of(const struct lw_part *d, int32_t module, struct lw_tensor_part x, int32_t k)
{
    const struct lw_module *m = &d->w->modules[module];
    int32_t part = k / x.n_ops, done = k % x.n_ops;
    lw_ps begin = at(m->forward_ps, part, x.n), end = at(m->forward_ps, part + 1, x.n);
    lw_ps column = x.n_column ? column_of(m, x.n, end - begin) : 0;
    lw_ps row = x.n_row ? row_of(m, x.n, end - begin, column) : 0;

    if (done <= x.n_column)
        return x.n_column ? begin + at(column, done, x.n_column) : begin;
    return end - row + at(row, done - x.n_column - 1, x.n_row);
}

/* The same with a ring in the first part. */
static lw_ps end_with_ring(const struct lw_module *m, const struct lw_ring *r, int32_t n, int32_t k)
{
    lw_ps ring_end = lw_ring_end(r, r->n_steps), first = at(m->forward_ps, 1, n);
    int32_t more = k - r->n_steps - 2; /* parts after the first */

    first = first > ring_end ? first : ring_end;
    if (k == 0)
        return 0;
    if (more < 0)
        return lw_ring_end(r, k - 1);
    return n > 1 ? first + at(m->forward_ps - first, more, n - 1) : m->forward_ps;
}

struct lw_share lw_tensor_share(const struct lw_part *d, int32_t module, int32_t k)
{
    const struct lw_module *m = &d->w->modules[module];
    struct lw_tensor_part x = lw_tensor_part_of(d, module);
    struct lw_ring ring = lw_ring_of(d->s, m);

    if (ring.n_steps > 0)
        return (struct lw_share){end_with_ring(m, &ring, x.n, k),
                                 end_with_ring(m, &ring, x.n, k + 1), m->forward_ps};
    if (x.n_ops == 1)
        return (struct lw_share){k, k + 1, x.n};
    return (struct lw_share){end_of(d, module, x, k), end_of(d, module, x, k + 1),
                             m->forward_ps};
}

/* The weights' gradients at the end of a part of such a length, of n in a module's backward. */
static lw_ps weights_of(const struct lw_part *d, const struct lw_module *m, int32_t n, lw_ps length)
{
    lw_ps products = m->tp_column_ps + m->tp_row_ps, weights = 0;

    if (d->s->tp_overlap != LW_TP_OVERLAP_OFF && products > 0)
        weights = (lw_ps)((__int128)m->backward_weight_ps * m->tp_column_ps / products / n);
    return least(weights, length / 2); /* something is before its sum */
}

bool lw_tensor_gathers_in_pieces(const struct lw_part *d, int32_t module)
{
    const struct lw_module *m = &d->w->modules[module];
    int32_t n = lw_tensor_gathers(d, module, true);

    if (d->s->tp_overlap != LW_TP_OVERLAP_PIECES || n == 0 ||
        n != lw_tensor_calls(d, module, true))
        return false;
    lw_ps shortest = lw_module_backward(m) / n;
    return has_pieces(row_of(m, n, shortest, weights_of(d, m, n, shortest)));
}

/* --- the backward ----------------------------------------------------------------------------- */

struct cutter {
    struct lw_part *d;
    struct lw_stretch *out;
    int32_t n, n_marks;
};

struct mark_at {
    lw_ps at;
    enum lw_tensor_mark mark;
};

enum { MARKS = 2 + LW_TENSOR_PIECES };

/* The begin of part i of n of a module's backward: equal parts, but that attention lies in the last
 * one. */
static lw_ps part_begin(const struct lw_part *d, const struct lw_module *m, int32_t i, int32_t n)
{
    struct lw_ring ring = lw_ring_of(d->s, m);
    lw_ps window = lw_module_backward(m), last = at(window, n - 1, n);

    if (ring.n_steps == 0 || i == n)
        return at(window, i, n);
    last = least(last, ring.backward_start);
    return i + 1 == n ? last : at(last, i, n - 1);
}

/* Where steps of a ring begin and end after the module's first moment. */
static int32_t ring_marks(const struct lw_part *d, int32_t module, struct mark_at *out)
{
    struct lw_ring r = lw_ring_of(d->s, &d->w->modules[module]);
    int32_t n = 0;

    for (int32_t k = 0; r.n_steps > 0 && k <= r.n_steps; k++)
        if (lw_ring_backward_end(&r, k) > 0)
            out[n++] = (struct mark_at){lw_ring_backward_end(&r, k), LW_TENSOR_STEP};
    return n;
}

/* Part i of n of a module's backward, from the module's first moment on; returns the number of
 * marks, in order of time. */
static int32_t marks_of(const struct lw_part *d, int32_t module, int32_t i, int32_t n,
                        struct mark_at *out)
{
    const struct lw_module *m = &d->w->modules[module];
    lw_ps begin = part_begin(d, m, i, n), end = part_begin(d, m, i + 1, n);
    lw_ps weights = weights_of(d, m, n, end - begin);
    lw_ps row = row_of(m, n, end - begin, weights);
    bool pieces = lw_tensor_gathers_in_pieces(d, module);
    int32_t k = 0;

    for (int32_t p = 1; pieces && p < LW_TENSOR_PIECES; p++)
        out[k++] = (struct mark_at){begin + at(row, p, LW_TENSOR_PIECES), LW_TENSOR_GATHERED};
    out[k++] = (struct mark_at){end - weights, LW_TENSOR_SUM};
    out[k++] = (struct mark_at){end, LW_TENSOR_SUMMED};
    return k;
}

static void put(struct cutter *c, struct lw_stretch s)
{
    c->d->work.first_mark[c->n] = c->n_marks;
    c->out[c->n++] = s;
}

/* One stretch of a module whose window begins at `window`, cut where marks come inside it; those
 * at its end are after it. *done of the module's n marks are placed. */
static void cut_stretch(struct cutter *c, const struct lw_stretch *s, lw_ps window,
                        const struct mark_at *marks, int32_t n, bool last, int32_t *done)
{
    uint8_t *to = c->d->work.marks;
    struct lw_stretch rest = *s;
    int32_t held = 0;

    for (; *done < n && (last || window + marks[*done].at <= s->end); ++*done) {
        lw_ps when = window + marks[*done].at;
        bool inside = held == 0 && when > rest.start && when < rest.end;
        if (inside) {
            put(c, (struct lw_stretch){s->module, rest.start, when, s->first_ready, 0});
            rest.start = when;
        }
        if (inside || (held == 0 && when == rest.start && when > s->start))
            to[c->n_marks++] = (uint8_t)marks[*done].mark;
        else
            held++;
    }
    put(c, rest);
    for (; held > 0; held--)
        to[c->n_marks++] = (uint8_t)marks[*done - held].mark;
}

static void cut_all(struct cutter *c, struct mark_at *marks)
{
    const struct lw_backward *back = &c->d->back;
    lw_ps window = 0;
    int32_t module = -1, done = 0, n = 0;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        bool last = i + 1 == back->n_stretches || back->stretches[i + 1].module != s->module;
        if (s->module != module) {
            int32_t calls = lw_tensor_calls(c->d, s->module, true);
            window = s->start;
            done = n = 0;
            for (int32_t part = 0; part < calls; part++) {
                n += part + 1 == calls ? ring_marks(c->d, s->module, marks + n) : 0;
                n += marks_of(c->d, s->module, part, calls, marks + n);
            }
            n += calls == 0 ? ring_marks(c->d, s->module, marks) : 0;
        }
        module = s->module;
        cut_stretch(c, s, window, marks, n, last, &done);
    }
}

enum lw_status lw_tensor_cut(struct lw_part *d, struct lw_err *err)
{
    struct lw_backward *back = &d->back;
    struct cutter c = {.d = d};
    struct mark_at *marks;
    int64_t n_marks = 0, most = 0;

    if (d->s->tp == 1 && (d->s->cp == 1 || d->s->cp_comm != LW_CP_P2P))
        return LW_OK;
    for (int32_t m = 0; m < d->w->n_modules; m++) {
        int64_t n = (int64_t)MARKS * lw_tensor_calls(d, m, true) +
                    lw_ring_of(d->s, &d->w->modules[m]).n_steps + 1;
        n_marks += n;
        most = n > most ? n : most;
    }
    LW_TAKE(&back->arena, c.out, back->n_stretches + n_marks, err);
    LW_TAKE(&d->arena, d->work.first_mark, back->n_stretches + n_marks + 1, err);
    LW_TAKE(&d->arena, d->work.marks, n_marks, err);
    LW_TAKE(&d->scratch, marks, most, err);
    cut_all(&c, marks);
    d->work.first_mark[c.n] = c.n_marks;
    back->stretches = c.out;
    back->n_stretches = c.n;
    return LW_OK;
}
