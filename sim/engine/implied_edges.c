/* Edges that others imply: an op waits for the op before it on its communicator, and for a result
 * that already waited for that. Units of a stream run in the order of their numbers, so one number
 * for each stream says which of its units are over before a unit starts (a vector clock). A unit
 * does not need the edge from another that is over before one of its others starts.
 *
 * Only edges from a lower to a higher number are looked at and removed. They have no cycle, so what
 * a unit waits for, directly or not, stays what it was, also in a program whose edges have one.
 *
 * Without group calls the units are the ops, and what one waits for has a lower number: the edges
 * that stay are found in one walk, and others are never made.
 *
 * Micro-batches repeat. What an op keeps follows from its row, from what it waits for, and from the
 * clocks of those ops. Where all of these are, as far back as any op has waited, those of the ops
 * `period` before them with their numbers moved along, so is what it keeps: it is copied. */
#include "sim/engine/implied_edges.h"

#include <stdlib.h>
#include <string.h>

enum { NARROW = 8 };

struct clocks {
    const struct lw_plan *plan;
    struct sim_program *p;
    int32_t *first_before, *before; /* [n_units + 1]: the units that a unit waits for */
    int32_t *over;   /* [n_units * width]: by stream, the last unit over before it; -1 = none */
    int32_t width;   /* n_streams, or more */
    int32_t *stream; /* [n_units] */
    int32_t *cursor; /* [n_units + 1] */
};

static int32_t width_of(const struct lw_plan *plan)
{
    return plan->n_streams > NARROW ? plan->n_streams : NARROW;
}

static void list_before(struct clocks *c)
{
    const struct sim_program *p = c->p;

    for (int32_t u = 0; u < p->n_units; u++)
        c->first_before[u + 1] = c->first_before[u] + p->wait[u];
    memcpy(c->cursor, c->first_before, (size_t)p->n_units * sizeof *c->cursor);
    for (int32_t u = 0; u < p->n_units; u++)
        for (int32_t i = p->first_next[u]; i < p->first_next[u + 1]; i++)
            c->before[c->cursor[p->next[i]]++] = u;
}

static void later(int32_t *over, int32_t u)
{
    *over = u > *over ? u : *over;
}

/* Units that v waits for are listed in the order of their numbers; each once. */
static int32_t drop_double(int32_t *before, int32_t n)
{
    int32_t kept = 0;

    for (int32_t i = 0; i < n; i++)
        if (kept == 0 || before[i] != before[kept - 1])
            before[kept++] = before[i];
    return kept;
}

static int32_t *over_of(const struct clocks *c, int32_t u)
{
    return c->over + (int64_t)u * c->width;
}

/* Those that the last one implies are dropped: what is over before them is over before it. */
static int32_t drop_before_last(const struct clocks *c, int32_t *before, int32_t n)
{
    const int32_t *of = over_of(c, before[n - 1]);
    int32_t kept = 0;

    for (int32_t i = 0; i + 1 < n; i++)
        if (of[c->stream[before[i]]] < before[i])
            before[kept++] = before[i];
    before[kept++] = before[n - 1];
    return kept;
}

/* v waits for u, a lower number, alone. Most clocks are narrow: of a size that is known. */
static void follow(const struct clocks *c, int32_t u, int32_t v)
{
    int32_t *over = over_of(c, v);

    if (c->width == NARROW)
        memcpy(over, over_of(c, u), NARROW * sizeof *over);
    else
        memcpy(over, over_of(c, u), (size_t)c->width * sizeof *over);
    over[c->stream[u]] = u;
}

/* The edges into v that stay are put first; their number. */
static int32_t keep(struct clocks *c, int32_t v)
{
    int32_t n_streams = c->plan->n_streams, kept = 0, *before = c->before + c->first_before[v];
    int32_t n = drop_double(before, c->first_before[v + 1] - c->first_before[v]);
    int32_t *over = over_of(c, v);

    if (n > 1 && before[n - 1] < v)
        n = drop_before_last(c, before, n);
    if (n == 1 && before[0] < v) {
        follow(c, before[0], v);
        return 1;
    }
    for (int32_t i = 0; i < n && before[i] < v; i++) {
        const int32_t *of = over_of(c, before[i]);
        if (i == 0)
            memcpy(over, of, (size_t)n_streams * sizeof *over);
        for (int32_t s = 0; i > 0 && s < n_streams; s++)
            later(&over[s], of[s]);
    }
    for (int32_t i = 0; i < n; i++)
        if (before[i] >= v || over[c->stream[before[i]]] < before[i])
            before[kept++] = before[i];
    for (int32_t i = 0; i < kept && before[i] < v; i++)
        later(&over[c->stream[before[i]]], before[i]);
    return kept;
}

/* Into v, by the units that they leave. */
static void count_next(const struct clocks *c, int32_t v)
{
    const int32_t *before = c->before + c->first_before[v];

    for (int32_t i = 0; i < c->p->wait[v]; i++)
        c->p->first_next[before[i] + 1]++;
}

/* The edges that stay, by the units that they leave; they are counted. */
static void write_next(struct clocks *c)
{
    struct sim_program *p = c->p;

    for (int32_t u = 0; u < p->n_units; u++)
        p->first_next[u + 1] += p->first_next[u];
    memcpy(c->cursor, p->first_next, (size_t)p->n_units * sizeof *c->cursor);
    for (int32_t v = 0; v < p->n_units; v++)
        for (int32_t i = 0; i < p->wait[v]; i++)
            p->next[c->cursor[c->before[c->first_before[v] + i]]++] = v;
}

static enum lw_status drop(struct clocks *c, struct lw_arena *room, struct lw_err *err)
{
    int64_t n = c->p->n_units;

    LW_TAKE(room, c->first_before, n + 1, err);
    LW_TAKE(room, c->before, (int64_t)c->p->first_next[n] + 1, err);
    LW_TAKE(room, c->over, n * c->width + 1, err);
    LW_TAKE(room, c->stream, n + 1, err);
    LW_TAKE(room, c->cursor, n + 1, err);
    list_before(c);
    memset(c->over, 0xff, (size_t)(n * c->width) * sizeof *c->over);
    for (int32_t u = 0; u < n; u++)
        c->stream[u] = LW_OP_HELD(c->plan, sim_part(c->p, sim_first_part(c->p, u)))->stream;
    memset(c->p->first_next, 0, ((size_t)n + 1) * sizeof *c->p->first_next);
    for (int32_t v = 0; v < n; v++) {
        c->p->wait[v] = keep(c, v);
        count_next(c, v);
    }
    write_next(c);
    return LW_OK;
}

/* --- one walk -------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static void sort(int32_t *list, int32_t n)
{
    enum { FEW = 16 };

    if (n > FEW) {
        qsort(list, (size_t)n, sizeof *list, ascending);
        return;
    }
    for (int32_t i = 1; i < n; i++) {
        int32_t x = list[i], k = i;
        for (; k > 0 && list[k - 1] > x; k--)
            list[k] = list[k - 1];
        list[k] = x;
    }
}

/* What op v waits for, ascending; an op may be there more than once. Their number. on_stream,
 * on_comm: the latest op of each, -1 = none; v is it from now on. */
static int32_t list_before_op(const struct clocks *c, int32_t v, const struct lw_op *op,
                              int32_t *on_stream, int32_t *on_comm)
{
    int64_t number = (int64_t)c->p->first_op + v;
    int32_t *before = c->before + c->first_before[v], n = 0;
    const int32_t *deps = c->plan->deps + lw_op_first_dep(c->plan, number);
    bool sorted = true;

    for (; n < op->n_deps; n++)
        before[n] = deps[n] - c->p->first_op;
    if (on_stream[op->stream] >= 0)
        before[n++] = on_stream[op->stream];
    if (op->comm >= 0 && on_comm[op->comm] >= 0)
        before[n++] = on_comm[op->comm];
    on_stream[op->stream] = v;
    if (op->comm >= 0)
        on_comm[op->comm] = v;
    for (int32_t i = 1; i < n; i++)
        sorted &= before[i - 1] <= before[i];
    if (!sorted)
        sort(before, n);
    return n;
}

/* Most ops wait for one that implies all others: for the last of n, which is put first. */
static bool keep_last(const struct clocks *c, int32_t v, int32_t n)
{
    int32_t *before = c->before + c->first_before[v], last = n > 0 ? before[n - 1] : v;

    if (last >= v)
        return false;
    const int32_t *of = over_of(c, last);
    for (int32_t i = 0; i + 1 < n; i++)
        if (before[i] != last && of[c->stream[before[i]]] < before[i])
            return false;
    before[0] = last;
    follow(c, last, v);
    return true;
}

static enum lw_status take_walk(struct clocks *c, struct lw_arena *room, struct lw_arena *arena,
                                int32_t **on_stream, int32_t **on_comm, struct lw_err *err)
{
    const struct lw_plan *plan = c->plan;
    int64_t n = c->p->n_ops, n_edges = 2 * n;

    for (int32_t i = 0; i < n; i++)
        n_edges += LW_OP_HELD(plan, c->p->first_op + i)->n_deps;
    c->first_before = lw_arena_room(room, n + 1, sizeof *c->first_before);
    c->before = lw_arena_room(room, n_edges + 1, sizeof *c->before);
    c->over = lw_arena_room(room, n * c->width + 1, sizeof *c->over);
    c->stream = lw_arena_room(room, n + 1, sizeof *c->stream);
    c->cursor = lw_arena_room(room, n + 1, sizeof *c->cursor);
    if (!c->first_before || !c->before || !c->over || !c->stream || !c->cursor)
        return lw_fail_nomem(err);
    LW_TAKE(room, *on_stream, plan->n_streams + 1, err);
    LW_TAKE(room, *on_comm, plan->n_comms + 1, err);
    LW_TAKE(arena, c->p->first_next, n + 1, err);
    c->p->wait = lw_arena_room(arena, n + 1, sizeof *c->p->wait);
    return c->p->wait ? LW_OK : lw_fail_nomem(err);
}

/* The edges into op v, of which n are listed. */
static int32_t keep_of_list(struct clocks *c, int32_t v, int32_t n)
{
    if (keep_last(c, v, n))
        return 1;
    if (n == 0 || c->before[c->first_before[v]] >= v)
        memset(over_of(c, v), 0xff, (size_t)c->width * sizeof *c->over);
    c->first_before[v + 1] = c->first_before[v] + n;
    return keep(c, v);
}

/* --- repeats ---------------------------------------------------------------------------------- */

struct repeats {
    int32_t period; /* 0: none */
    int32_t n;      /* ops before this one that are alike, and keep alike edges */
    int32_t reach;  /* ops from the one that waits to the first that one has waited for, at most */
};

/* Op v shares the row of the one before it by `period`, and its dependencies stand as far before
 * it. */
static inline bool is_alike(const struct lw_plan *plan, int32_t first_op, int32_t v, int32_t period)
{
    int64_t i = (int64_t)first_op + v, j = i - period;
    const int32_t *di = plan->deps + lw_op_first_dep(plan, i);
    const int32_t *dj = plan->deps + lw_op_first_dep(plan, j);

    if (lw_op_row(plan, i) != lw_op_row(plan, j))
        return false;
    for (int32_t d = 0; d < lw_op_shared(plan, i)->n_deps; d++)
        if (di[d] - period != dj[d])
            return false;
    return true;
}

/* The least period of many ops after the middle of the program; 0: none. */
static int32_t find_period(const struct lw_plan *plan, struct lw_program g)
{
    enum { MOST = 1 << 10, MANY = 3 * MOST };
    int32_t middle = g.n_ops / 2;

    if (plan->ops || plan->op_own || middle + MOST + MANY >= g.n_ops)
        return 0;
    for (int32_t period = 1; period <= MOST; period++) {
        int32_t n = 0;
        while (n < MANY && is_alike(plan, g.first_op, middle + period + n, period))
            n++;
        if (n == MANY)
            return period;
    }
    return 0;
}

static inline int32_t moved(int32_t unit, int32_t by)
{
    return unit < 0 ? unit : unit + by;
}

/* What v keeps is what the op before it by the period keeps. */
static bool keeps_alike(const struct clocks *c, int32_t v, int32_t period)
{
    int32_t u = v - period;
    const int32_t *of = c->before + c->first_before[u], *mine = c->before + c->first_before[v];
    bool same = c->p->wait[u] == c->p->wait[v];

    for (int32_t i = 0; same && i < c->p->wait[v]; i++)
        same = mine[i] == of[i] + period;
    for (int32_t s = 0; same && s < c->plan->n_streams; s++)
        same = over_of(c, v)[s] == moved(over_of(c, u)[s], period);
    return same;
}

/* The edges that v keeps; their number. */
static int32_t copy_kept(const struct clocks *c, int32_t v, int32_t period)
{
    int32_t u = v - period, n = c->p->wait[u], *over = over_of(c, v);
    const int32_t *from = c->before + c->first_before[u], *of = over_of(c, u);
    int32_t *before = c->before + c->first_before[v];

    for (int32_t i = 0; i < n; i++)
        before[i] = from[i] + period;
    for (int32_t s = 0; s < c->plan->n_streams; s++)
        over[s] = moved(of[s], period);
    return n;
}

/* Op v, which waits for n ops: as far back as one of them. */
static void note_reach(const struct clocks *c, int32_t v, int32_t n, struct repeats *r)
{
    int32_t reach = n > 0 ? v - c->before[c->first_before[v]] : 0;

    r->reach = reach > r->reach ? reach : r->reach;
}

static void walk_op(struct clocks *c, int32_t v, int32_t *on_stream, int32_t *on_comm,
                    struct repeats *r)
{
    struct sim_program *p = c->p;
    const struct lw_op *op = LW_OP_HELD(c->plan, (int64_t)p->first_op + v);
    bool alike = r->period > 0 && v >= r->period &&
                 is_alike(c->plan, p->first_op, v, r->period);

    c->stream[v] = op->stream;
    if (alike && r->n >= r->period && r->n >= r->reach) {
        on_stream[op->stream] = v;
        if (op->comm >= 0)
            on_comm[op->comm] = v;
        p->wait[v] = copy_kept(c, v, r->period);
    } else {
        int32_t n = list_before_op(c, v, op, on_stream, on_comm);
        if (r->period > 0)
            note_reach(c, v, n, r);
        p->wait[v] = keep_of_list(c, v, n);
        r->n = alike && keeps_alike(c, v, r->period) ? r->n + 1 : 0;
    }
    count_next(c, v);
    c->first_before[v + 1] = c->first_before[v] + p->wait[v];
}

static enum lw_status walk(struct clocks *c, struct lw_program range, struct lw_arena *room,
                           struct lw_arena *arena, struct lw_err *err)
{
    struct sim_program *p = c->p;
    struct repeats r = {.period = find_period(c->plan, range)};
    int32_t *on_stream = NULL, *on_comm = NULL;

    LW_TRY(take_walk(c, room, arena, &on_stream, &on_comm, err));
    memset(on_stream, 0xff, (size_t)c->plan->n_streams * sizeof *on_stream);
    memset(on_comm, 0xff, (size_t)c->plan->n_comms * sizeof *on_comm);
    p->n_units = p->n_ops;
    c->first_before[0] = 0;
    for (int32_t v = 0; v < p->n_ops; v++)
        walk_op(c, v, on_stream, on_comm, &r);
    LW_TAKE(arena, p->next, (int64_t)c->first_before[p->n_ops] + 1, err);
    write_next(c);
    return LW_OK;
}

static bool has_calls(const struct lw_plan *plan, struct lw_program range)
{
    for (int32_t i = 0; i < range.n_ops; i++)
        if (lw_op_call(plan, range.first_op + i) >= 0)
            return true;
    return false;
}

enum lw_status sim_program_make_lean(const struct lw_plan *plan, struct lw_program range,
                                     struct lw_arena *arena, struct sim_program *out,
                                     struct lw_err *err)
{
    struct clocks c = {.plan = plan, .p = out, .width = width_of(plan)};
    struct lw_arena room = {0};

    if (has_calls(plan, range)) {
        LW_TRY(sim_program_make(plan, range, NULL, arena, out, err));
        return sim_program_drop_implied(plan, out, err);
    }
    *out = (struct sim_program){.first_op = range.first_op, .n_ops = range.n_ops};
    enum lw_status status = walk(&c, range, &room, arena, err);
    lw_arena_free(&room);
    return status;
}

enum lw_status sim_program_drop_implied(const struct lw_plan *plan, struct sim_program *p,
                                        struct lw_err *err)
{
    struct clocks c = {.plan = plan, .p = p, .width = width_of(plan)};
    struct lw_arena room = {0};

    enum lw_status status = drop(&c, &room, err);
    lw_arena_free(&room);
    return status;
}
