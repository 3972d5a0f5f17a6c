/* Cutting a step into modules.
 *
 * The engine gives a backward node the sequence number that its forward op had, so a node
 * belongs to the segment in which that op ran; of several ops with one number the last to start
 * made the node (outer ops show the counter before it moves). Nodes without a number, and
 * accumulations, follow the node before them. Where modules have ranges, a segment reaches from
 * one range's start to the next one's: functional ops between two modules count to the one
 * before. Without ranges the outermost forward op of a gradient's producer begins a segment
 * (aten::linear, aten::conv2d...). Without sequence numbers each gradient is a segment of its
 * own. */
#include "shared/numbers/order.h"
#include "traces/steps/module_segments.h"

#include <string.h>

#include "shared/base/sort.h"

static const char RANGE[] = "lw:module:";

struct numbered { /* a forward op */
    int64_t sequence, start_ns;
};

struct cutter {
    const struct lw_trace *t;
    const struct lw_step *s;
    struct lw_arena *arena;
    struct traces_segments *out;
    struct numbered *forward; /* by sequence number, then start */
    int64_t n_forward;
    struct lw_err *err;
};

LW_COMPARATOR(by_sequence, struct numbered, a->sequence, b->sequence, a->start_ns, b->start_ns)

static bool in_forward(const struct cutter *c, int64_t row)
{
    const struct lw_phase_span *f = &c->s->phase[LW_PHASE_FORWARD];

    return c->t->start_ns[row] >= f->start_ns && c->t->start_ns[row] < f->end_ns &&
           c->t->track[row] == c->s->thread;
}

static enum lw_status index_forward(struct cutter *c)
{
    const struct lw_trace *t = c->t;
    const struct lw_phase_span *f = &c->s->phase[LW_PHASE_FORWARD];
    int64_t from = lw_trace_row_at(t, f->start_ns), to = lw_trace_row_at(t, f->end_ns);

    if (!f->found)
        return LW_OK;
    LW_TAKE(c->arena, c->forward, to - from, c->err);
    for (int64_t i = from; i < to; i++)
        if (t->class[i] == LW_ROW_HOST && t->link[i] >= 0 && in_forward(c, i))
            c->forward[c->n_forward++] = (struct numbered){t->link[i], t->start_ns[i]};
    lw_sort(c->forward, c->n_forward, by_sequence);
    return LW_OK;
}

/* When the forward op of this node ran; INT64_MIN when the trace does not tell. */
static int64_t forward_of(const struct cutter *c, int64_t node)
{
    int64_t sequence = c->t->link[node];
    int64_t n = lw_items_upto(c->forward, c->n_forward, sizeof *c->forward, sequence);

    return sequence >= 0 && n > 0 && c->forward[n - 1].sequence == sequence
               ? c->forward[n - 1].start_ns
               : INT64_MIN;
}

/* The segment in which a forward moment lies; what runs before the first belongs to it. */
static int32_t segment_at(const struct traces_segments *g, int64_t ns)
{
    int32_t n = (int32_t)lw_values_upto(g->start_ns, g->n, ns);

    return n > 0 ? n - 1 : 0;
}

static void add_segment(struct cutter *c, int64_t row, const char *name)
{
    c->out->start_ns[c->out->n] = c->t->start_ns[row];
    c->out->name[c->out->n++] = name;
}

static enum lw_status make_room(struct cutter *c, int64_t n)
{
    LW_TAKE(c->arena, c->out->name, n, c->err);
    LW_TAKE(c->arena, c->out->start_ns, n, c->err);
    return LW_OK;
}

static enum lw_status cut_by_ranges(struct cutter *c)
{
    const struct lw_trace *t = c->t;
    const struct lw_phase_span *f = &c->s->phase[LW_PHASE_FORWARD];
    int64_t from = lw_trace_row_at(t, f->start_ns), to = lw_trace_row_at(t, f->end_ns), n = 0;

    for (int64_t i = from; i < to; i++)
        n += in_forward(c, i) && lw_trace_name_begins(t, i, RANGE);
    if (n == 0)
        return LW_OK;
    LW_TRY(make_room(c, n));
    for (int64_t i = from; i < to; i++)
        if (in_forward(c, i) && lw_trace_name_begins(t, i, RANGE))
            add_segment(c, i, lw_trace_name(t, i) + strlen(RANGE));
    return LW_OK;
}

/* Mark the outermost ops whose backward produced a gradient; each begins a segment. */
static enum lw_status cut_by_ops(struct cutter *c)
{
    const struct lw_phase_span *f = &c->s->phase[LW_PHASE_FORWARD];
    int64_t *tops, n_tops, n_found = 0, n_marked = 0;
    bool *marked;

    LW_TRY(lw_top_rows(c->t, c->s->thread, f->start_ns, f->end_ns, c->arena, &tops, &n_tops,
                       c->err));
    LW_TAKE(c->arena, marked, n_tops, c->err);
    for (int64_t g = 0; g < c->s->n_gradients; g++) {
        int64_t producer = c->s->gradients[g].producer;
        int64_t at = producer >= 0 ? forward_of(c, producer) : INT64_MIN;
        int64_t n = lw_trace_rows_upto(c->t, tops, n_tops, at);
        if (n == 0)
            continue;
        n_found++;
        n_marked += !marked[n - 1];
        marked[n - 1] = true;
    }
    if (2 * n_found < c->s->n_gradients || n_marked == 0)
        return LW_OK;
    LW_TRY(make_room(c, n_marked));
    for (int64_t i = 0; i < n_tops; i++)
        if (marked[i])
            add_segment(c, tops[i], lw_trace_name(c->t, tops[i]));
    return LW_OK;
}

/* Segments in forward order: the gradient that is ready first ran last. */
static enum lw_status cut_by_gradients(struct cutter *c)
{
    struct traces_segments *g = c->out;
    int64_t n = c->s->n_gradients, next = 0;

    LW_TRY(make_room(c, n));
    g->n = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        g->name[i] = "";
        g->of_gradient[i] = (int32_t)(n - 1 - i);
    }
    for (int64_t k = 0; k < c->s->n_nodes; k++) {
        while (next < n - 1 && c->t->start_ns[c->s->gradients[next].row] <
                                   c->t->start_ns[c->s->nodes[k]])
            next++;
        g->of_node[k] = (int32_t)(n - 1 - next);
    }
    return LW_OK;
}

static void assign_nodes(struct cutter *c)
{
    const struct lw_step *s = c->s;
    struct traces_segments *g = c->out;
    int32_t current = g->n - 1;
    int64_t k = 0;

    for (int64_t i = 0; i < s->n_nodes; i++) {
        int64_t at = forward_of(c, s->nodes[i]);
        if (at != INT64_MIN)
            current = segment_at(g, at);
        g->of_node[i] = current;
    }
    current = g->n - 1;
    for (int64_t i = 0; i < s->n_gradients; i++) {
        for (; k < s->n_nodes && c->t->start_ns[s->nodes[k]] <= c->t->start_ns[s->gradients[i].row];
             k++)
            current = g->of_node[k];
        g->of_gradient[i] = current;
    }
}

static enum lw_status cut(struct cutter *c)
{
    struct traces_segments *g = c->out;

    LW_TAKE(c->arena, g->of_node, c->s->n_nodes, c->err);
    LW_TAKE(c->arena, g->of_gradient, c->s->n_gradients, c->err);
    LW_TRY(index_forward(c));
    g->cut = TRACES_CUT_RANGES;
    if (c->s->phase[LW_PHASE_FORWARD].found)
        LW_TRY(cut_by_ranges(c));
    if (g->n == 0 && c->n_forward > 0) {
        g->cut = TRACES_CUT_OPS;
        LW_TRY(cut_by_ops(c));
    }
    if (g->n == 0) {
        g->cut = TRACES_CUT_GRADIENTS;
        return cut_by_gradients(c);
    }
    assign_nodes(c);
    return LW_OK;
}

enum lw_status traces_segments_find(const struct lw_trace *t, const struct lw_step *s,
                                    struct lw_arena *arena, struct traces_segments *out,
                                    struct lw_err *err)
{
    struct traces_segments g = {0};
    struct cutter c = {.t = t, .s = s, .arena = arena, .out = &g, .err = err};

    if (s->n_gradients == 0 || s->n_gradients > INT32_MAX / 2)
        return lw_fail(err, LW_EFORMAT, "%s: %lld gradients, expected 1 to %d", s->name,
                       (long long)s->n_gradients, INT32_MAX / 2);
    LW_TRY(cut(&c));
    *out = g;
    return LW_OK;
}
