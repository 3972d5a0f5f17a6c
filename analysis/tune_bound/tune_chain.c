/* The longest chain from the rank that ended the step before last, whichever that is: its first
 * action starts at that end or later, an action starts when the one before it on its rank has
 * ended, and when the value that it uses has come. Chains from other ranks' first actions count as
 * nothing. The second action of a unit starts when the first has ended. Sources whose own bound is
 * above the least one found are left out. */
#include "analysis/tune_bound/tune_chain.h"

#include <string.h>

#include "shared/numbers/checked.h"

enum { MOST_STEPS = 20000000 }; /* of all sources together; beyond it there is no chain */

/* --- the order --- */

struct orderer {
    const struct lw_grid *g;
    struct lw_tune_link *links;
    int32_t *made; /* [2][n_stages][n_micro_batches]: the link; -1 = not yet */
    int32_t n;
};

static int32_t *made(const struct orderer *o, bool backward, int32_t stage, int32_t mb)
{
    const struct lw_grid *g = o->g;

    return &o->made[((int64_t)backward * g->n_stages + stage) * g->n_micro_batches + mb];
}

/* Whether what the action uses is there; *from: the link that sends it. */
static bool is_ready(const struct orderer *o, const struct lw_action *a, int32_t *from)
{
    bool backward = a->kind != LW_OP_FORWARD;
    int32_t stage = a->stage + (backward ? 1 : -1);

    *from = -1;
    if (a->kind == LW_OP_BACKWARD_WEIGHT || stage < 0 || stage >= o->g->n_stages)
        return true;
    *from = *made(o, backward, stage, a->micro_batch);
    return *from >= 0;
}

/* left[n_stages]: backwards of a stage that are left, on each of the ranks that have it. */
static bool is_last(const struct orderer *o, const struct lw_action *a, int32_t *left)
{
    bool other = o->g->layout == LW_LAYOUT_BIDIR && a->micro_batch >= o->g->n_micro_batches / 2;

    return (a->kind == LW_OP_BACKWARD || a->kind == LW_OP_BACKWARD_WEIGHT) &&
           --left[a->stage + other * o->g->n_stages] == 0;
}

/* The actions of a rank from *at on that are ready. */
static void advance(struct orderer *o, int32_t rank, int32_t *at, int32_t *before, int32_t *left,
                    bool *had_last)
{
    const struct lw_grid *g = o->g;
    int32_t from;

    for (; *at < g->first[rank + 1] && is_ready(o, &g->actions[*at], &from); (*at)++) {
        const struct lw_action *a = &g->actions[*at];
        bool last = is_last(o, a, left) && !*had_last;
        o->links[o->n] = (struct lw_tune_link){*before, from, rank, a->stage, a->kind, last};
        *had_last |= last;
        if (a->kind != LW_OP_BACKWARD_WEIGHT)
            *made(o, a->kind != LW_OP_FORWARD, a->stage, a->micro_batch) = o->n;
        *before = o->n++;
    }
}

static enum lw_status put_in_order(struct orderer *o, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_grid *g = o->g;
    int32_t ways = g->layout == LW_LAYOUT_BIDIR ? 2 : 1;
    int32_t *at, *before, *left, was = -1;
    bool *had_last;

    LW_TAKE(room, at, g->n_ranks, err);
    LW_TAKE(room, before, g->n_ranks, err);
    LW_TAKE(room, left, ways * (int64_t)g->n_stages, err);
    LW_TAKE(room, had_last, g->n_ranks, err);
    for (int32_t q = 0; q < ways * g->n_stages; q++)
        left[q] = g->n_micro_batches / ways;
    for (int32_t r = 0; r < g->n_ranks; r++) {
        at[r] = g->first[r];
        before[r] = -1;
    }
    while (o->n > was) {
        was = o->n;
        for (int32_t r = 0; r < g->n_ranks; r++)
            advance(o, r, &at[r], &before[r], left, &had_last[r]);
    }
    return LW_OK;
}

static bool has_chain(const struct lw_grid *g)
{
    int64_t n = g->first[g->n_ranks];

    return g->layout != LW_LAYOUT_FREE && g->n_ranks > 1 && n <= MOST_STEPS / g->n_ranks;
}

enum lw_status lw_tune_chain_make(const struct lw_grid *g, struct lw_arena *a,
                                  struct lw_tune_chain *out, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct orderer o = {.g = g};
    int64_t n = g->first[g->n_ranks], values = 2LL * g->n_stages * g->n_micro_batches;

    *out = (struct lw_tune_chain){0};
    if (!has_chain(g))
        return LW_OK;
    LW_TAKE(a, o.links, n, err);
    o.made = lw_arena_alloc(&room, values, sizeof *o.made);
    if (!o.made)
        return lw_fail_nomem(err);
    memset(o.made, -1, (size_t)values * sizeof *o.made);
    enum lw_status st = put_in_order(&o, &room, err);
    lw_arena_free(&room);
    if (st == LW_OK && o.n == n)
        *out = (struct lw_tune_chain){n, o.links};
    return st;
}

/* --- the bound --- */

static lw_ps time_of(const struct lw_outline_sum *x, enum lw_op_kind kind)
{
    switch (kind) {
    case LW_OP_FORWARD: return x->forward;
    case LW_OP_BACKWARD_INPUT: return x->input;
    case LW_OP_BACKWARD_WEIGHT: return x->weight;
    default: return x->backward;
    }
}

struct walk {
    const struct lw_tune_chain *c;
    const struct lw_tune_parts *p;
    const lw_ps *message;
    lw_ps *end;             /* [c->n]; -1 = no chain leads there */
    lw_ps *done, *reducing; /* [n_ranks]: the end of all; when the last gradients begin */
};

static void follow(const struct walk *w, int32_t source)
{
    for (int64_t i = 0; i < w->c->n; i++) {
        const struct lw_tune_link *k = &w->c->links[i];
        lw_ps start = k->before >= 0 ? w->end[k->before] : k->rank == source ? 0 : -1;
        if (k->from >= 0 && w->end[k->from] >= 0) {
            int32_t sent = k->kind == LW_OP_FORWARD ? k->part - 1 : k->part;
            lw_ps ahead = k->kind == LW_OP_FORWARD ? 0 : w->p->ahead[k->part];
            lw_ps come = w->end[k->from] + w->message[sent] - ahead;
            start = come > start ? come : start;
        }
        w->end[i] = start < 0 ? -1 : start + time_of(&w->p->part[k->part], k->kind);
        w->done[k->rank] = w->end[i];
        if (k->last)
            w->reducing[k->rank] = start;
    }
}

static lw_ps from_source(const struct walk *w, int32_t source)
{
    const struct lw_tune_parts *p = w->p;
    lw_ps most = 0;

    for (int32_t r = 0; r < p->n_ranks; r++)
        w->done[r] = w->reducing[r] = -1;
    follow(w, source);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        lw_ps end = w->done[r], reduce = 0;
        for (int32_t i = p->first[r]; i < p->first[r + 1]; i++)
            reduce = lw_add_sat(reduce, p->reduce[i]);
        if (w->reducing[r] >= 0 && w->reducing[r] + reduce > end)
            end = w->reducing[r] + reduce;
        end = end < 0 ? 0 : lw_add_sat(end, p->optimizer[r] + p->gather[r]);
        most = end > most ? end : most;
    }
    return most;
}

enum lw_status lw_tune_chain_bound(const struct lw_tune_chain *c, const struct lw_tune_parts *p,
                                   const lw_ps *message, lw_ps *bound, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct walk w = {.c = c, .p = p, .message = message};
    lw_ps least = INT64_MAX;

    w.end = lw_arena_alloc(&room, c->n, sizeof *w.end);
    w.done = lw_arena_alloc(&room, p->n_ranks, sizeof *w.done);
    w.reducing = lw_arena_alloc(&room, p->n_ranks, sizeof *w.reducing);
    bool there = w.end && w.done && w.reducing;
    for (int32_t r = p->n_ranks - 1; there && r >= 0; r--) {
        lw_ps since = lw_tune_step_since(p, r);
        if (since >= least)
            continue;
        lw_ps chain = from_source(&w, r);
        since = chain > since ? chain : since;
        least = since < least ? since : least;
    }
    lw_arena_free(&room);
    if (!there)
        return lw_fail_nomem(err);
    *bound = least;
    return LW_OK;
}
