/* Vector clocks (Fidge, ACSC 1988; Mattern 1989) of one rank's streams, carried through the
 * programs of all ranks that it exchanges messages with, directly or through others. A pass is gone
 * through in thought:
 *
 *   - an op begins when the op before it on its stream and what it waits for are over; sends and receives
 *     of one call on a stream begin together and are over together
 *   - a receive is over when its send has begun, too: who receives knows all that the sender knew when
 *     it began, and that what was sent is read
 *
 * What is not used, so that less is known and never too much: collectives make nobody wait here,
 * nor does a send (NCCL's may be over before anybody receives). Messages of one channel
 * (communicator, sender, receiver) match in the order of the programs. */
#include "exec/tensors/happens_before.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/plan/op.h"

struct program { /* of a rank that takes part */
    int32_t rank, first_op, n_ops, first; /* first: its ops' place in the lists of all */
};

struct end { /* of a message */
    int32_t comm, from, to, received, op; /* op: in the lists of all */
};

struct walk {
    const struct lw_plan *p;
    int32_t variant, rank, n_streams;
    struct program *programs; /* [n_programs] */
    int32_t n_programs, *program_of; /* [n_ranks]; -1 = takes no part */
    int64_t n_ops;            /* of all */
    int32_t *match;           /* [n_ops] the other end of a message */
    bool all_match;
    int32_t *begin, *over;    /* [n_ops * n_streams] clocks */
    bool *has_begun, *is_over; /* [n_ops] */
    int32_t *cursor;          /* [n_programs * n_streams] the stream's next op, n_ops of the program: none */
};

static const struct lw_op *op_of(const struct walk *w, const struct program *g, int32_t i)
{
    return &w->p->ops[g->first_op + i];
}

static bool is_message(const struct lw_op *op)
{
    return lw_op_class(op->kind) == LW_CLASS_P2P;
}

/* --- who takes part ----------------------------------------------------------------------------- */

static enum lw_status add_program(struct walk *w, int32_t rank, struct lw_err *err)
{
    struct lw_program g = lw_plan_program(w->p, w->variant, rank);

    if (w->program_of[rank] >= 0)
        return LW_OK;
    if (w->n_ops + g.n_ops > INT32_MAX / 2)
        return lw_fail(err, LW_ENOTSUP, "more than %d ops in one pass", INT32_MAX / 2);
    w->program_of[rank] = w->n_programs;
    w->programs[w->n_programs++] =
        (struct program){rank, g.first_op, g.n_ops, (int32_t)w->n_ops};
    w->n_ops += g.n_ops;
    return LW_OK;
}

/* Those that a rank exchanges messages with, and so on. */
static enum lw_status find_programs(struct walk *w, struct lw_err *err)
{
    for (int32_t r = 0; r < w->p->n_ranks; r++)
        w->program_of[r] = -1;
    w->n_programs = 0;
    w->n_ops = 0;
    LW_TRY(add_program(w, w->rank, err));
    for (int32_t k = 0; k < w->n_programs; k++)
        for (int32_t i = 0; i < w->programs[k].n_ops; i++) {
            const struct program g = w->programs[k];
            const struct lw_op *op = op_of(w, &g, i);
            int32_t peer = lw_plan_operand(w->p, op, g.rank).peer;
            if (is_message(op) && peer >= 0 && peer < w->p->n_ranks)
                LW_TRY(add_program(w, peer, err));
        }
    return LW_OK;
}

static int by_channel(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    for (size_t i = 0; i < sizeof(struct end) / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int64_t list_ends(const struct walk *w, struct end *list)
{
    int64_t n = 0;

    for (int32_t k = 0; k < w->n_programs; k++) {
        const struct program *g = &w->programs[k];
        for (int32_t i = 0; i < g->n_ops; i++) {
            const struct lw_op *op = op_of(w, g, i);
            bool received = op->kind == LW_OP_RECV;
            int32_t peer = lw_plan_operand(w->p, op, g->rank).peer;
            if (is_message(op))
                list[n++] = (struct end){op->comm, received ? peer : g->rank,
                                         received ? g->rank : peer, received, g->first + i};
        }
    }
    return n;
}

static bool same_channel(const struct end *a, const struct end *b)
{
    return a->comm == b->comm && a->from == b->from && a->to == b->to;
}

/* The n-th send of a channel meets its n-th receive: list[n] is of one channel, sends first. */
static bool match_channel(struct walk *w, const struct end *list, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        w->match[list[i].op] = list[n / 2 + i].op;
        w->match[list[n / 2 + i].op] = list[i].op;
    }
    return n % 2 == 0 && !list[n / 2 - 1].received && list[n / 2].received;
}

static enum lw_status match_ends(struct walk *w, struct lw_err *err)
{
    struct end *list = lw_alloc((size_t)(w->n_ops + 1) * sizeof *list);

    if (!list)
        return lw_fail_nomem(err);
    int64_t n = list_ends(w, list);
    qsort(list, (size_t)n, sizeof *list, by_channel);
    w->all_match = true;
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_channel(&list[i], &list[end]);)
            end++;
        w->all_match = w->all_match && match_channel(w, list + i, end - i);
    }
    lw_free(list);
    return LW_OK;
}

/* --- going through ------------------------------------------------------------------------------ */

static int32_t next_on_stream(const struct walk *w, const struct program *g, int32_t i, int32_t s)
{
    while (i < g->n_ops && op_of(w, g, i)->stream != s)
        i++;
    return i;
}

/* The op after the last of those that begin together with op i. */
static int32_t behind_unit(const struct walk *w, const struct program *g, int32_t i)
{
    const struct lw_op *op = op_of(w, g, i);
    int32_t k = next_on_stream(w, g, i + 1, op->stream);

    while (op->call >= 0 && k < g->n_ops && op_of(w, g, k)->call == op->call)
        k = next_on_stream(w, g, k + 1, op->stream);
    return k;
}

static int32_t last_before(const struct walk *w, const struct program *g, int32_t i)
{
    int32_t s = op_of(w, g, i)->stream, k = i - 1;

    while (k >= 0 && op_of(w, g, k)->stream != s)
        k--;
    return k;
}

static void learn(const struct walk *w, int32_t *clock, const int32_t *from)
{
    for (int32_t s = 0; s < w->n_streams; s++)
        clock[s] = from[s] > clock[s] ? from[s] : clock[s];
}

static int32_t *begin_of(const struct walk *w, int32_t op)
{
    return w->begin + (int64_t)op * w->n_streams;
}

static int32_t *over_of(const struct walk *w, int32_t op)
{
    return w->over + (int64_t)op * w->n_streams;
}

static bool may_begin(const struct walk *w, const struct program *g, int32_t i)
{
    const struct lw_op *op = op_of(w, g, i);

    for (int32_t d = 0; d < op->n_deps; d++)
        if (!w->is_over[g->first + w->p->deps[op->first_dep + d] - g->first_op])
            return false;
    return true;
}

/* Ops i .. end of a stream that begin together; before: the one before them, -1 = none. */
static bool begin_unit(struct walk *w, const struct program *g, int32_t i, int32_t end,
                       const int32_t *before)
{
    int32_t s = op_of(w, g, i)->stream, *clock = begin_of(w, g->first + i);

    if (w->has_begun[g->first + i])
        return false;
    for (int32_t k = i; k < end; k = next_on_stream(w, g, k + 1, s))
        if (!may_begin(w, g, k))
            return false;
    if (before)
        learn(w, clock, before);
    for (int32_t k = i; k < end; k = next_on_stream(w, g, k + 1, s))
        for (int32_t d = 0; d < op_of(w, g, k)->n_deps; d++)
            learn(w, clock, over_of(w, g->first + w->p->deps[op_of(w, g, k)->first_dep + d] -
                                           g->first_op));
    for (int32_t k = i; k < end; k = next_on_stream(w, g, k + 1, s)) {
        if (k != i)
            memcpy(begin_of(w, g->first + k), clock, (size_t)w->n_streams * sizeof *clock);
        w->has_begun[g->first + k] = true;
    }
    return true;
}

static void mark_over(const struct walk *w, int32_t *clock, const struct program *g, int32_t i)
{
    int32_t s = op_of(w, g, i)->stream;

    if (g->rank == w->rank && clock[s] < i + 1)
        clock[s] = i + 1;
}

static const struct program *program_at(const struct walk *w, int32_t op)
{
    int32_t k = w->n_programs - 1;

    while (w->programs[k].first > op)
        k--;
    return &w->programs[k];
}

/* The op is the only one of its unit. */
static bool is_alone(const struct walk *w, const struct program *g, int32_t i)
{
    int32_t before = last_before(w, g, i), call = op_of(w, g, i)->call;

    return call < 0 ||
           ((before < 0 || op_of(w, g, before)->call != call) &&
            behind_unit(w, g, i) == next_on_stream(w, g, i + 1, op_of(w, g, i)->stream));
}

/* What a receive brings: what the sender knew, and that it is read. Of several sends that begin
 * together one may be read before those before it, which a clock cannot say. */
static void learn_from_sender(const struct walk *w, int32_t *clock, int32_t receive)
{
    int32_t send = w->match[receive];
    const struct program *g = program_at(w, send);

    learn(w, clock, begin_of(w, send));
    if (is_alone(w, g, send - g->first))
        mark_over(w, clock, g, send - g->first);
}

static bool end_unit(struct walk *w, const struct program *g, int32_t i, int32_t end)
{
    int32_t s = op_of(w, g, i)->stream, *clock = over_of(w, g->first + i);

    if (!w->has_begun[g->first + i])
        return false;
    for (int32_t k = i; k < end; k = next_on_stream(w, g, k + 1, s))
        if (op_of(w, g, k)->kind == LW_OP_RECV && !w->has_begun[w->match[g->first + k]])
            return false;
    learn(w, clock, begin_of(w, g->first + i));
    for (int32_t k = i; k < end; k = next_on_stream(w, g, k + 1, s)) {
        mark_over(w, clock, g, k);
        if (op_of(w, g, k)->kind == LW_OP_RECV)
            learn_from_sender(w, clock, g->first + k);
    }
    for (int32_t k = i; k < end; k = next_on_stream(w, g, k + 1, s)) {
        if (k != i)
            memcpy(over_of(w, g->first + k), clock, (size_t)w->n_streams * sizeof *clock);
        w->is_over[g->first + k] = true;
    }
    return true;
}

/* As far as a stream comes; false: nowhere. */
static bool go_on(struct walk *w, const struct program *g, int32_t *cursor)
{
    bool moved = false;

    while (*cursor < g->n_ops) {
        int32_t end = behind_unit(w, g, *cursor), before = last_before(w, g, *cursor);
        moved |= begin_unit(w, g, *cursor, end, before >= 0 ? over_of(w, g->first + before) : NULL);
        if (!end_unit(w, g, *cursor, end))
            break;
        *cursor = end;
        moved = true;
    }
    return moved;
}

static bool go_through(struct walk *w)
{
    bool moved = true, all = true;

    for (int32_t k = 0; k < w->n_programs; k++)
        for (int32_t s = 0; s < w->n_streams; s++)
            w->cursor[(int64_t)k * w->n_streams + s] = next_on_stream(w, &w->programs[k], 0, s);
    while (moved) {
        moved = false;
        for (int32_t k = 0; k < w->n_programs; k++)
            for (int32_t s = 0; s < w->n_streams; s++)
                moved |= go_on(w, &w->programs[k], &w->cursor[(int64_t)k * w->n_streams + s]);
    }
    for (int64_t i = 0; i < w->n_ops; i++)
        all = all && w->is_over[i];
    return all;
}

/* --- the whole ---------------------------------------------------------------------------------- */

static enum lw_status keep(const struct walk *w, struct exec_order *o, struct lw_err *err)
{
    const struct program *g = &w->programs[0]; /* the rank's own */

    o->n_ops = g->n_ops;
    o->n_streams = w->n_streams;
    o->stream = lw_calloc((size_t)g->n_ops + 1, sizeof *o->stream);
    o->over = lw_calloc((size_t)g->n_ops * (size_t)w->n_streams + 1, sizeof *o->over);
    if (!o->stream || !o->over)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < g->n_ops; i++) {
        int32_t *clock = o->over + (int64_t)i * w->n_streams;
        o->stream[i] = op_of(w, g, i)->stream;
        learn(w, clock, begin_of(w, i));
        if (op_of(w, g, i)->kind == LW_OP_RECV)
            learn(w, clock, begin_of(w, w->match[i]));
    }
    return LW_OK;
}

static enum lw_status take_room(struct walk *w, struct lw_arena *a, struct lw_err *err)
{
    w->match = lw_arena_alloc(a, w->n_ops, sizeof *w->match);
    w->begin = lw_arena_alloc(a, w->n_ops * w->n_streams, sizeof *w->begin);
    w->over = lw_arena_alloc(a, w->n_ops * w->n_streams, sizeof *w->over);
    w->has_begun = lw_arena_alloc(a, w->n_ops, sizeof *w->has_begun);
    w->is_over = lw_arena_alloc(a, w->n_ops, sizeof *w->is_over);
    w->cursor = lw_arena_alloc(a, (int64_t)w->n_programs * w->n_streams, sizeof *w->cursor);
    return w->match && w->begin && w->over && w->has_begun && w->is_over && w->cursor
               ? LW_OK
               : lw_fail_nomem(err);
}

static enum lw_status walk_init(struct walk *w, struct lw_arena *a, struct lw_err *err)
{
    w->programs = lw_arena_alloc(a, w->p->n_ranks, sizeof *w->programs);
    w->program_of = lw_arena_alloc(a, w->p->n_ranks, sizeof *w->program_of);
    return w->programs && w->program_of ? LW_OK : lw_fail_nomem(err);
}

enum lw_status exec_order_init(const struct lw_plan *p, int32_t variant, int32_t rank,
                               struct exec_order *o, struct lw_err *err)
{
    struct walk w = {.p = p, .variant = variant, .rank = rank, .n_streams = p->n_streams};
    struct lw_arena arena = {0};
    enum lw_status s = walk_init(&w, &arena, err);

    *o = (struct exec_order){0};
    if (s == LW_OK)
        s = find_programs(&w, err);
    if (s == LW_OK)
        s = take_room(&w, &arena, err);
    if (s == LW_OK)
        s = match_ends(&w, err);
    if (s == LW_OK && w.all_match && go_through(&w))
        s = keep(&w, o, err);
    if (s != LW_OK)
        exec_order_free(o);
    lw_arena_free(&arena);
    return s;
}

void exec_order_free(struct exec_order *o)
{
    lw_free(o->stream);
    lw_free(o->over);
    *o = (struct exec_order){0};
}

bool exec_order_before(const struct exec_order *o, int32_t a, int32_t b)
{
    return o->n_ops > 0 && o->over[(int64_t)b * o->n_streams + o->stream[a]] > a;
}

/* --- roles -------------------------------------------------------------------------------------- */

static int32_t root_of(int32_t *above, int32_t rank)
{
    while (above[rank] != rank)
        rank = above[rank] = above[above[rank]];
    return rank;
}

struct roles { /* of a plan: their ranks, chained */
    int32_t *first, *next; /* [n_roles], [n_ranks]; -1 = no more */
    int32_t *above;        /* [n_ranks] of ranks that hear of each other: one of them, at last the same */
};

static void list_roles(const struct lw_plan *p, struct roles *x)
{
    for (int32_t role = 0; role < p->n_roles; role++)
        x->first[role] = -1;
    for (int32_t r = p->n_ranks - 1; r >= 0; r--) {
        x->next[r] = x->first[p->role_of[r]];
        x->first[p->role_of[r]] = r;
        x->above[r] = r;
    }
}

/* Joins the ranks of a role with those at the other end of a message; false: these are not of
 * one role. */
static bool join_peers(const struct lw_plan *p, int32_t role, const struct lw_op *op,
                       struct roles *x)
{
    int32_t of = -1;

    for (int32_t r = x->first[role]; r >= 0; r = x->next[r]) {
        int32_t peer = lw_plan_operand(p, op, r).peer;
        if (peer < 0 || peer >= p->n_ranks || (of >= 0 && p->role_of[peer] != of))
            return false;
        of = p->role_of[peer];
        x->above[root_of(x->above, r)] = root_of(x->above, peer);
    }
    return true;
}

static bool join(const struct lw_plan *p, int32_t variant, struct roles *x)
{
    for (int32_t role = 0; role < p->n_roles; role++) {
        const struct lw_program *g = &p->programs[(int64_t)variant * p->n_roles + role];
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
            if (is_message(&p->ops[i]) && !join_peers(p, role, &p->ops[i], x))
                return false;
    }
    return true;
}

/* seen[root * n_roles + role] */
static bool one_of_each_role(const struct lw_plan *p, int32_t *above, bool *seen)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        bool *at = &seen[(int64_t)root_of(above, r) * p->n_roles + p->role_of[r]];
        if (*at)
            return false;
        *at = true;
    }
    return true;
}

enum lw_status exec_order_is_of_role(const struct lw_plan *p, int32_t variant, bool *is,
                                     struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct roles x = {lw_arena_alloc(&arena, p->n_roles, sizeof *x.first),
                      lw_arena_alloc(&arena, p->n_ranks, sizeof *x.next),
                      lw_arena_alloc(&arena, p->n_ranks, sizeof *x.above)};
    bool *seen = lw_arena_alloc(&arena, (int64_t)p->n_ranks * p->n_roles, sizeof *seen);
    bool room = x.first && x.next && x.above && seen;

    if (room) {
        list_roles(p, &x);
        *is = join(p, variant, &x) && one_of_each_role(p, x.above, seen);
    }
    lw_arena_free(&arena);
    return room ? LW_OK : lw_fail_nomem(err);
}
