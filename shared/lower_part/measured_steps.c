/* The steps of a module without kernels (docs/design/lower_overlap.md): nothing is known about its
 * inside but its times, so collectives of its tensor group stand at equal distances.
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

/* Sums over the tensor group. */
static int32_t calls_of(const struct lw_part *d, int32_t module, bool backward)
{
    const struct lw_module *m = lw_module_at(d->w, module);

    if (d->s->tp == 1 || (backward ? m->tp_backward_bytes : m->tp_forward_bytes) == 0)
        return 0;
    return m->tp_calls > 1 ? m->tp_calls : 1;
}

/* Gathers, which undo the sums of the other direction. */
static int32_t gathers_of(const struct lw_part *d, int32_t module, bool backward)
{
    return d->s->sequence_parallel ? calls_of(d, module, !backward) : 0;
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

/* The ops of each of n equal parts of a module's forward: n_column pieces (0 or LW_TENSOR_PIECES)
 * that wait for pieces of a gather, one op, n_row pieces that each have a piece of the sum. Of a
 * module with a ring, the first part lasts at least until its attention ends, the others are equal;
 * in place of its one op there is one before the attention, one for each step, and one after it. */
struct parts {
    int32_t n, n_column, n_row, n_ops;
};

static struct parts parts_of(const struct lw_part *d, int32_t module)
{
    const struct lw_module *m = lw_module_at(d->w, module);
    int32_t calls = calls_of(d, module, false), n = calls > 1 ? calls : 1;
    bool pieces = lw_overlaps_pieces(d->s);
    lw_ps shortest = m->forward_ps / n, column = 0;
    struct parts x = {.n = n};

    if (pieces && gathers_of(d, module, false) == n)
        column = column_of(m, n, shortest);
    if (has_pieces(column))
        x.n_column = LW_TENSOR_PIECES;
    if (pieces && calls > 0 && has_pieces(row_of(m, n, shortest, column)))
        x.n_row = LW_TENSOR_PIECES;
    x.n_ops = x.n_column + 1 + x.n_row;
    return x;
}

/* The end of the first k ops. */
static lw_ps end_of(const struct lw_part *d, int32_t module, struct parts x, int32_t k)
{
    const struct lw_module *m = lw_module_at(d->w, module);
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

/* Op k of all as a share of the module's forward. */
static struct lw_share share_of(const struct lw_part *d, int32_t module, int32_t k)
{
    const struct lw_module *m = lw_module_at(d->w, module);
    struct parts x = parts_of(d, module);
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

/* The backward's gathers, one for each of its sums, are in LW_TENSOR_PIECES. */
static bool gathers_in_pieces(const struct lw_part *d, int32_t module)
{
    const struct lw_module *m = lw_module_at(d->w, module);
    int32_t n = gathers_of(d, module, true);

    if (!lw_overlaps_pieces(d->s) || n == 0 || n != calls_of(d, module, true))
        return false;
    lw_ps shortest = lw_module_backward(m) / n;
    return has_pieces(row_of(m, n, shortest, weights_of(d, m, n, shortest)));
}

/* --- the forward ------------------------------------------------------------------------------ */

struct maker {
    const struct lw_part *d;
    const struct lw_module *m;
    struct lw_step_list *l;
    int32_t module, n_works;
};

static struct maker maker_of(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    return (struct maker){d, lw_module_at(d->w, module), l, module, 0};
}

static void add(struct maker *k, enum lw_step_kind kind, int64_t bytes)
{
    lw_step_add(k->l, (struct lw_step){.kind = kind, .bytes = bytes});
}

static void add_work(struct maker *k)
{
    lw_step_add(k->l, (struct lw_step){.kind = LW_STEP_WORK,
                                       .share = share_of(k->d, k->module, k->n_works++)});
}

/* What the tensor group gathers before part i of n, and the products that read it in pieces. */
static void begin_part_of(struct maker *k, struct parts x, int32_t i)
{
    int32_t all = gathers_of(k->d, k->module, false);
    int64_t bytes = all > 0 ? k->m->tp_backward_bytes / all : 0;

    for (int32_t g = i; g < all && x.n_column == 0; g += i + 1 == x.n ? 1 : all)
        add(k, LW_STEP_GATHER, bytes);
    if (x.n_column > 0)
        add(k, LW_STEP_GATHERS, bytes);
    for (int32_t p = 0; p < x.n_column; p++) {
        if (p > 0)
            add(k, LW_STEP_GATHERED, 0);
        add_work(k);
    }
}

/* The sum at the end of a part, beside the products that make what it sums where it is in pieces:
 * what follows waits for the last piece. */
static void end_part_of(struct maker *k, struct parts x)
{
    int32_t calls = calls_of(k->d, k->module, false), n = x.n_row > 0 ? x.n_row : 1;
    int64_t bytes = calls > 0 ? k->m->tp_forward_bytes / calls : 0;

    for (int32_t p = 0; p < n && calls > 0; p++) {
        if (x.n_row > 0 && p > 0)
            add(k, LW_STEP_BESIDE, 0);
        if (x.n_row > 0)
            add_work(k);
        add(k, LW_STEP_SUM, bytes * (p + 1) / n - bytes * p / n);
    }
}

/* The op of the first part of a module, or the whole of it: keys and values are gathered before, or
 * they go round while it attends, step by step. */
static void attend(struct maker *k)
{
    struct lw_ring ring = lw_ring_of(k->d->s, k->m);

    if (lw_part_gathers_keys(k->d, k->m))
        add(k, LW_STEP_KEYS, 0);
    if (ring.n_steps > 0)
        add_work(k);
    for (int32_t step = 0; step < ring.n_steps; step++) {
        lw_step_add(k->l, (struct lw_step){.kind = LW_STEP_RING, .which = step});
        add_work(k);
    }
}

/* With sequence parallelism the sum in the backward of a part is a reduce-scatter there and an
 * all-gather here, and the sum here a reduce-scatter. Each part has one whole op, after the column
 * pieces and before the row pieces. Keys and values are exchanged with that of the first part,
 * which computes the attention; tokens go to the experts before that of the last part and come back
 * after it. */
void lw_measured_forward(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l);
    struct parts x = parts_of(d, module);

    for (int32_t i = 0; i < x.n; i++) {
        begin_part_of(&k, x, i);
        if (i == 0)
            attend(&k);
        if (i + 1 == x.n)
            add(&k, LW_STEP_SENT, 0);
        add_work(&k);
        if (i + 1 == x.n)
            add(&k, LW_STEP_BACK, 0);
        end_part_of(&k, x);
    }
}

/* --- halves of a backward --------------------------------------------------------------------- */

static void add_gathers(struct maker *k, int32_t n)
{
    int32_t forward = calls_of(k->d, k->module, false);
    bool pieces = gathers_in_pieces(k->d, k->module);

    for (int32_t i = 0; i < n; i++)
        add(k, pieces ? LW_STEP_GATHERS : LW_STEP_GATHER, k->m->tp_forward_bytes / forward);
}

static int64_t backward_sum(const struct maker *k)
{
    int32_t calls = calls_of(k->d, k->module, true);

    return calls > 0 ? k->m->tp_backward_bytes / calls : 0;
}

void lw_measured_input(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l);
    int32_t n_sums = calls_of(d, module, true), n = n_sums > 1 ? n_sums : 1;

    for (int32_t i = 0, left = gathers_of(d, module, true); i < n; i++) {
        int32_t now = i + 1 == n ? left : left > 0;
        add_gathers(&k, now);
        left -= now;
        if (i == 0 && lw_part_gathers_keys(d, k.m))
            add(&k, LW_STEP_KEYS, 0);
        if (i == 0)
            add(&k, LW_STEP_BACK, 0);
        lw_step_add(l, (struct lw_step){.kind = LW_STEP_WORK, .share = {i, i + 1, n}});
        if (i == 0)
            add(&k, LW_STEP_SENT, 0);
        if (n_sums > 0)
            add(&k, LW_STEP_SUM, backward_sum(&k));
    }
    if (lw_part_gathers_keys(d, k.m))
        add(&k, LW_STEP_KEY_GRADS, 0);
}

/* After its saved inputs. */
void lw_measured_weight(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l);

    for (int32_t i = 0; d->s->sequence_parallel && i < calls_of(d, module, true); i++)
        add(&k, LW_STEP_GATHER, backward_sum(&k));
    lw_step_add(l, (struct lw_step){.kind = LW_STEP_WORK, .share = {0, 1, 1}});
}

/* --- a whole backward ------------------------------------------------------------------------- */

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

/* With sequence parallelism a sum is a reduce-scatter, and what the forward reduce-scattered is
 * gathered: one before the first op, one after each sum inside the module; beside each, its saved
 * inputs, which the weights' gradient reads. The number of those inside. */
static int32_t gathers_inside(const struct lw_part *d, int32_t module)
{
    int32_t all = gathers_of(d, module, true), sums = calls_of(d, module, true);
    int32_t most = sums > 1 ? sums - 1 : 0;

    return all - 1 < 0 ? 0 : all - 1 < most ? all - 1 : most;
}

static void add_part_gathers(struct maker *k, int32_t n)
{
    add_gathers(k, n);
    if (k->d->s->sequence_parallel && calls_of(k->d, k->module, true) > 0)
        add(k, LW_STEP_SAVED, backward_sum(k));
}

void lw_measured_enter(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l);

    add_part_gathers(&k, gathers_of(d, module, true) - gathers_inside(d, module));
    if (lw_part_gathers_keys(d, k.m))
        add(&k, LW_STEP_KEYS, 0);
    add(&k, LW_STEP_BACK, 0);
}

/* From *from on all are at that time. */
static void at_time(struct lw_step_list *l, int32_t *from, lw_ps when)
{
    for (; *from < l->n; ++*from)
        l->v[*from].share.from = when;
}

/* Where steps of a ring begin and end after the module's first moment. */
static void add_ring(struct maker *k)
{
    struct lw_ring r = lw_ring_of(k->d->s, k->m);
    int32_t from = k->l->n;

    for (int32_t i = 0; r.n_steps > 0 && i <= r.n_steps; i++)
        if (lw_ring_backward_end(&r, i) > 0) {
            lw_step_add(k->l, (struct lw_step){.kind = LW_STEP_RING, .which = i});
            at_time(k->l, &from, lw_ring_backward_end(&r, i));
        }
}

/* Part i of n, from the module's first moment on. What follows waits for a sum, and the next part
 * begins with its gathers, also where both parts end at the same moment. */
static void add_part(struct maker *k, int32_t i, int32_t n)
{
    lw_ps begin = part_begin(k->d, k->m, i, n), end = part_begin(k->d, k->m, i + 1, n);
    lw_ps weights = weights_of(k->d, k->m, n, end - begin);
    lw_ps row = row_of(k->m, n, end - begin, weights);
    bool pieces = gathers_in_pieces(k->d, k->module);
    int32_t from = k->l->n;

    for (int32_t p = 1; pieces && p < LW_TENSOR_PIECES; p++) {
        add(k, LW_STEP_GATHERED, 0);
        at_time(k->l, &from, begin + at(row, p, LW_TENSOR_PIECES));
    }
    add(k, LW_STEP_SUM, backward_sum(k));
    add(k, LW_STEP_BESIDE, 0);
    at_time(k->l, &from, end - weights);
    add(k, LW_STEP_SUMMED, 0);
    if (i + 1 < n)
        add_part_gathers(k, i < gathers_inside(k->d, k->module));
    at_time(k->l, &from, end);
}

void lw_measured_marks(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l);
    int32_t calls = calls_of(d, module, true);

    for (int32_t i = 0; i < calls; i++) {
        if (i + 1 == calls)
            add_ring(&k);
        add_part(&k, i, calls);
    }
    if (calls == 0)
        add_ring(&k);
}
