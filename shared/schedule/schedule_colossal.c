/* ColossalAI's two pipeline schedules with their combined calls. Rules: docs/design/
 * schedule_colossal.md, from hpcaitech/ColossalAI @ 96780e6 engine/schedule/_pipeline_schedule.py.
 *
 * Every call blocks until its transfers are done, so the order of calls is part of the schedule: a
 * simulator must not let a later forward start before them. Not here: the exchange of shapes before
 * the first activation, which a fixed tensor shape switches off. */
#include "shared/schedule/schedule_colossal.h"

#include <stdio.h>
#include <string.h>

#include "shared/schedule/schedule_emit.h"

struct writer {
    struct lw_colossal_event *at;
    int64_t n, capacity;
    bool failed;
};

static void write_event(struct writer *w, struct lw_colossal_event e)
{
    if (w->failed || lw_reserve(&w->at, &w->capacity, w->n + 1, sizeof *w->at) != 0) {
        w->failed = true;
        return;
    }
    w->at[w->n++] = e;
}

static void compute(struct writer *w, enum lw_op_kind kind, int32_t chunk, int32_t micro_batch)
{
    write_event(w, (struct lw_colossal_event){kind, chunk, micro_batch, 0});
}

static void call(struct writer *w, unsigned moves)
{
    write_event(w, (struct lw_colossal_event){LW_OP_BARRIER, 0, 0, moves});
}

/* --- 1f1b ------------------------------------------------------------------------------------- */

/* A call that would move nothing is not made. */
static void call_some(struct writer *w, unsigned moves, unsigned has)
{
    if (moves & has)
        call(w, moves & has);
}

static void rank_of_1f1b(struct writer *w, const struct lw_schedule_shape *s, int32_t rank,
                         bool forward_only)
{
    int32_t m = s->n_micro_batches, warmup = s->n_ranks - rank - 1 < m ? s->n_ranks - rank - 1 : m;
    const unsigned prev = LW_CALL_SEND_PREV | LW_CALL_RECV_PREV;
    const unsigned next = LW_CALL_SEND_NEXT | LW_CALL_RECV_NEXT;
    const unsigned has = (rank > 0 ? prev : 0) | (rank + 1 < s->n_ranks ? next : 0);

    for (int32_t k = 0; k < (forward_only ? m : warmup); k++) {
        call_some(w, LW_CALL_RECV_PREV, has);
        compute(w, LW_OP_FORWARD, 0, k);
        call_some(w, LW_CALL_SEND_NEXT, has);
    }
    if (forward_only)
        return;
    if (warmup < m)
        call_some(w, LW_CALL_RECV_PREV, has);
    for (int32_t k = warmup; k < m; k++) {
        compute(w, LW_OP_FORWARD, 0, k);
        call_some(w, next, has);
        compute(w, LW_OP_BACKWARD, 0, k - warmup);
        call_some(w, k + 1 < m ? prev : LW_CALL_SEND_PREV, has);
    }
    for (int32_t k = m - warmup; k < m; k++) {
        call_some(w, LW_CALL_RECV_NEXT, has);
        compute(w, LW_OP_BACKWARD, 0, k);
        call_some(w, LW_CALL_SEND_PREV, has);
    }
}

/* --- interleaved ------------------------------------------------------------------------------ */

/* One rank's view: steps 0 .. n-1 of the forwards and of the backwards; groups of p micro-batches
 * go through chunk 0, the same through chunk 1, and so on. */
struct view {
    struct writer *w;
    int32_t p, m, v, rank, n;
    bool first, last; /* rank of the pipeline */
};

/* Steps before the first count backwards from the end of a round, as a modulo that is never
 * negative. */
static int32_t chunk_of(const struct view *x, int32_t step, bool backward)
{
    int32_t round = x->p * x->v, chunk = ((step % round) + round) % round / x->p;

    return backward ? x->v - 1 - chunk : chunk;
}

static void run_step(const struct view *x, enum lw_op_kind kind, int32_t step)
{
    compute(x->w, kind, chunk_of(x, step, kind == LW_OP_BACKWARD),
            step / (x->p * x->v) * x->p + step % x->p);
}

static bool sends_on(const struct view *x, int32_t step)
{
    return !(x->last && chunk_of(x, step, false) == x->v - 1);
}

static bool sends_back(const struct view *x, int32_t step)
{
    return !(x->first && chunk_of(x, step, true) == 0);
}

/* Does an activation come for forward `next`? The first rank is fed by the last one, which is p-1
 * steps after, and feeds itself at chunk 0. */
static bool receives_on(const struct view *x, int32_t next)
{
    return next < x->n && !(x->first && chunk_of(x, next, false) == 0);
}

static bool receives_back(const struct view *x, int32_t next)
{
    return next < x->n && !(x->last && chunk_of(x, next, true) == x->v - 1);
}

static unsigned moves_if(bool yes, enum lw_colossal_call what)
{
    return yes ? what : 0;
}

static void warm_up(const struct view *x, int32_t warmup, bool steady_follows)
{
    if (!x->first)
        call(x->w, LW_CALL_RECV_PREV);
    for (int32_t k = 0; k < warmup; k++) {
        run_step(x, LW_OP_FORWARD, k);
        call(x->w, moves_if(sends_on(x, k), LW_CALL_SEND_NEXT) |
                       moves_if(receives_on(x, k + 1), LW_CALL_RECV_PREV) |
                       moves_if(steady_follows && k + 1 == warmup && !x->last, LW_CALL_RECV_NEXT));
    }
}

/* In the steady part a rank at an end of the pipeline asks for what the other end sends now, p-1
 * steps after it. */
static bool steady_receives_on(const struct view *x, int32_t step)
{
    return x->first ? chunk_of(x, step - (x->p - 1), false) != x->v - 1 : true;
}

static bool steady_receives_back(const struct view *x, int32_t step)
{
    return x->last ? chunk_of(x, step - (x->p - 1), true) != 0 : true;
}

static void steady(const struct view *x, int32_t warmup)
{
    for (int32_t k = 0; k + warmup < x->n; k++) {
        bool more = k + warmup + 1 < x->n;
        run_step(x, LW_OP_FORWARD, k + warmup);
        run_step(x, LW_OP_BACKWARD, k);
        call(x->w, moves_if(sends_back(x, k), LW_CALL_SEND_PREV) |
                       moves_if(more && steady_receives_on(x, k + warmup), LW_CALL_RECV_PREV) |
                       moves_if(steady_receives_back(x, k), LW_CALL_RECV_NEXT) |
                       moves_if(sends_on(x, k + warmup), LW_CALL_SEND_NEXT));
    }
}

static void cool_down(const struct view *x, int32_t from)
{
    for (int32_t k = from; k < x->n; k++) {
        run_step(x, LW_OP_BACKWARD, k);
        call(x->w, moves_if(sends_back(x, k), LW_CALL_SEND_PREV) |
                       moves_if(receives_back(x, k + 1), LW_CALL_RECV_NEXT));
    }
}

static void rank_of_interleaved(struct writer *w, const struct lw_schedule_shape *s, int32_t rank,
                                bool forward_only)
{
    struct view x = {w,
                     s->n_ranks,
                     s->n_micro_batches,
                     s->n_chunks,
                     rank,
                     s->n_micro_batches * s->n_chunks,
                     rank == 0,
                     rank + 1 == s->n_ranks};
    int32_t warmup = 2 * (x.p - 1 - rank) + (x.v - 1) * x.p;
    bool all = forward_only || x.m == x.p;

    warmup = all || warmup > x.n ? x.n : warmup;
    warm_up(&x, warmup, !all);
    if (forward_only)
        return;
    if (all && !x.last)
        call(w, LW_CALL_RECV_NEXT);
    steady(&x, warmup);
    cool_down(&x, x.n - warmup);
}

/* --- both ------------------------------------------------------------------------------------- */

static void write_rank(struct writer *w, const struct lw_schedule_shape *s, int32_t rank,
                       bool forward_only)
{
    if (s->schedule == LW_SCHEDULE_COLOSSAL_1F1B)
        rank_of_1f1b(w, s, rank, forward_only);
    else
        rank_of_interleaved(w, s, rank, forward_only);
}

static void colossal(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    struct writer w = {0};

    write_rank(&w, s, rank, false);
    e->failed = e->failed || w.failed;
    for (int64_t k = 0; k < w.n; k++)
        if (w.at[k].kind != LW_OP_BARRIER)
            lw_emit(e, w.at[k].kind, w.at[k].chunk * s->n_ranks + rank, w.at[k].micro_batch);
    lw_free(w.at);
}

LW_FREE_BY_ARENA(lw_colossal_free, struct lw_colossal_order)

enum lw_status lw_colossal_order(const struct lw_schedule_shape *s, bool forward_only,
                                 struct lw_colossal_order *out, struct lw_err *err)
{
    struct lw_colossal_order o = {.n_ranks = s->n_ranks};
    struct writer w = {0};

    LW_TRY(lw_schedule_demand(s, err));
    o.first = lw_arena_alloc(&o.arena, (int64_t)s->n_ranks + 1, sizeof *o.first);
    for (int32_t r = 0; o.first && r < s->n_ranks; r++) {
        write_rank(&w, s, r, forward_only);
        o.first[r + 1] = (int32_t)w.n;
    }
    o.events = lw_arena_alloc(&o.arena, w.n, sizeof *o.events);
    bool memory = o.first && o.events && !w.failed;
    if (memory)
        memcpy(o.events, w.at, (size_t)w.n * sizeof *o.events);
    lw_free(w.at);
    if (!memory) {
        lw_colossal_free(&o);
        return lw_fail_nomem(err);
    }
    *out = o;
    return LW_OK;
}

void lw_colossal_token(const struct lw_colossal_event *e, bool interleaved, char buf[32])
{
    static const char letters[] = "PpnN";
    size_t n = 0;

    if (e->kind != LW_OP_BARRIER) {
        if (interleaved)
            snprintf(buf, 32, "%c%d.%d", lw_action_letter(e->kind), e->chunk, e->micro_batch);
        else
            snprintf(buf, 32, "%c%d", lw_action_letter(e->kind), e->micro_batch);
        return;
    }
    buf[n++] = 'C';
    for (int bit = 0; bit < 4; bit++)
        if (e->call & 1u << bit)
            buf[n++] = letters[bit];
    if (n == 1)
        buf[n++] = '-';
    buf[n] = '\0';
}

static enum lw_status colossal_demand(const struct lw_schedule_shape *s, struct lw_err *err)
{
    if (s->n_micro_batches % s->n_ranks != 0)
        return lw_schedule_refuse(s, err, "the micro-batches must be a multiple of pp");
    return LW_OK;
}

const struct lw_scheduler lw_scheduler_colossal_1f1b = {
    .rank = colossal, .chunks = 1, .combined_calls = true,
};
const struct lw_scheduler lw_scheduler_colossal_interleaved = {
    .rank = colossal, .combined_calls = true, .demand = colossal_demand,
};
