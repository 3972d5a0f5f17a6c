/* Steps of all ranks from one order of everything: actions sorted by when they end if every forward
 * and half of a backward takes what it does in `nominal`, every message directly after the action,
 * or the unit of two, that makes what it carries. Of actions that end together, those of even ranks
 * come first: where all ranks of a ring pass something on at the same time, messages go in two
 * rounds, and no chain of ranks waits for each other's. Frameworks reach that by posting a send and
 * a receive together (NVIDIA/Megatron-LM megatron/core/pipeline_parallel/p2p_communication.py,
 * _batched_p2p_ops) or by order of parity (the same, _p2p_ops). Then the one whose value has gone
 * further: a rank sends what it made before it receives what its neighbour made in the same time
 * (schedules.py, forward_backward_pipelining_without_interleaving: recv_forward, forward_step,
 * send_forward; pytorch/pytorch torch/distributed/pipelining/schedules.py, _step_microbatches).
 *
 * Why no rank waits for ever: an action or message only waits for what is before it in that one
 * order - the actions before it on its rank, what it needs, the messages before it on its
 * communicator - on whichever rank they are: durations are positive, so what it needs ends
 * earlier. */
#include "shared/schedule/grid_order.h"

#include <string.h>

#include "shared/schedule/grid_time.h"

/* A backward is longer than a forward, and the half for the weights shorter than that for the
 * inputs, to which the gradients of attention, norms and activations belong. A message takes a
 * thirtieth of a forward: what passes along the stages ends later at each, and actions of two
 * stages tie only where nothing passes between them. No device's times: a plan is the same
 * everywhere. */
static const struct lw_grid_costs nominal = {.f = 30, .i = 30, .w = 20, .comm = 1};

LW_FREE_BY_ARENA(lw_grid_order_free, struct lw_grid_order)

static void put(struct lw_grid_order *o, int32_t *at, int32_t rank, struct lw_grid_step step)
{
    if (o->steps)
        o->steps[at[rank]] = step;
    at[rank]++;
}

/* What the action made leaves its rank, unless its target lives there too. */
static void send(const struct lw_grid *g, struct lw_grid_order *o, int32_t *at, int32_t rank,
                 int32_t action)
{
    const struct lw_action *a = &g->actions[action];
    int32_t target = lw_action_target(g, a);

    if (target < 0)
        return;
    int32_t peer = lw_grid_rank_of(g, target, a->micro_batch);
    if (peer == rank)
        return;
    put(o, at, rank, (struct lw_grid_step){action, LW_GRID_SEND, peer});
    put(o, at, peer, (struct lw_grid_step){action, LW_GRID_RECV, rank});
}

/* Go through the one order; at[n_ranks] are cursors. Without steps it only counts. */
static void walk(const struct lw_grid *g, bool early, const int32_t *order,
                 struct lw_grid_order *o, int32_t *at)
{
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        const struct lw_action *a = &g->actions[order[i]];
        int32_t rank = lw_grid_rank_of(g, a->stage, a->micro_batch);
        put(o, at, rank, (struct lw_grid_step){order[i], LW_GRID_RUN, -1});
        if (a->with_next && !early)
            continue;
        if (!early && order[i] > g->first[rank] && a[-1].with_next)
            send(g, o, at, rank, order[i] - 1);
        send(g, o, at, rank, order[i]);
    }
}

/* --- the one order ----------------------------------------------------------------------------
 * By end, then even ranks before odd ones (of the rank that sends), then by how far the value has
 * to go, then by turn. Sorted by the last of these first, each time without changing the order of
 * equals (radix sort: Knuth, The Art of Computer Programming 3, 5.2.5): linear in the actions. */

/* Of n actions the next order, by their digits: (value[action] >> shift) & mask. count[mask + 1] is
 * scratch. */
static void sort_by_digit(const int64_t *value, int shift, int64_t mask, int32_t n,
                          const int32_t *from, int32_t *to, int32_t *count)
{
    int32_t at = 0;

    memset(count, 0, (size_t)(mask + 1) * sizeof *count);
    for (int32_t i = 0; i < n; i++)
        count[value[i] >> shift & mask]++;
    for (int64_t d = 0; d <= mask; d++) {
        int32_t of = count[d];
        count[d] = at;
        at += of;
    }
    for (int32_t i = 0; i < n; i++)
        to[count[value[from[i]] >> shift & mask]++] = from[i];
}

/* *order becomes that by value, which is not negative; *other is scratch. A digit has about as many
 * values as there are actions. */
static enum lw_status sort_by(const int64_t *value, int32_t n, int32_t **order, int32_t **other,
                              struct lw_arena *room, struct lw_err *err)
{
    enum { LEAST = 4, MOST = 12 };
    int64_t most = 0;
    int32_t *count;
    int bits = LEAST;

    while (bits < MOST && n >> bits > 0)
        bits++;
    for (int32_t i = 0; i < n; i++)
        most = value[i] > most ? value[i] : most;
    LW_TAKE(room, count, INT64_C(1) << bits, err);
    for (int shift = 0; most >> shift > 0; shift += bits) {
        int32_t *to = *other;
        sort_by_digit(value, shift, (INT64_C(1) << bits) - 1, n, *order, to, count);
        *other = *order;
        *order = to;
    }
    return LW_OK;
}

/* Parity of the rank, then forwards: less at later stages; backwards: less at earlier ones. The two
 * of a unit stay together. */
static void set_ways(const struct lw_grid *g, bool early, int64_t *way)
{
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        const struct lw_action *a = &g->actions[i];
        int32_t to_go = a->kind == LW_OP_FORWARD ? g->n_stages - 1 - a->stage : a->stage;
        bool second = !early && i > 0 && a[-1].with_next;
        int64_t odd = lw_grid_rank_of(g, a->stage, a->micro_batch) % 2;
        way[i] = odd * g->n_stages + (second ? way[i - 1] % g->n_stages : to_go);
    }
}

static enum lw_status find_order(const struct lw_grid *g, bool early, const struct lw_grid_times *t,
                                 struct lw_arena *room, int32_t **out, struct lw_err *err)
{
    int32_t n = g->first[g->n_ranks], *order, *other;
    int64_t *way;

    LW_TAKE(room, order, n, err);
    LW_TAKE(room, other, n, err);
    LW_TAKE(room, way, n, err);
    set_ways(g, early, way);
    for (int32_t i = 0; i < n; i++)
        order[t->turn[i]] = i;
    LW_TRY(sort_by(way, n, &order, &other, room, err));
    lw_arena_release(room, way, n, sizeof *way);
    LW_TRY(sort_by(t->end, n, &order, &other, room, err));
    lw_arena_release(room, other, n, sizeof *other);
    *out = order;
    return LW_OK;
}

static enum lw_status fill(const struct lw_grid *g, bool early, const int32_t *order,
                           struct lw_arena *room, struct lw_grid_order *o, struct lw_err *err)
{
    int32_t *at;

    LW_TAKE(room, at, g->n_ranks, err);
    LW_TAKE(&o->arena, o->first, (int64_t)g->n_ranks + 1, err);
    walk(g, early, order, o, at);
    for (int32_t r = 0; r < g->n_ranks; r++)
        o->first[r + 1] = o->first[r] + at[r];
    LW_TAKE(&o->arena, o->steps, o->first[g->n_ranks], err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        at[r] = o->first[r];
    walk(g, early, order, o, at);
    return LW_OK;
}

enum lw_status lw_grid_order(const struct lw_grid *g, bool early, struct lw_grid_order *out,
                             struct lw_err *err)
{
    struct lw_grid_order o = {.n_ranks = g->n_ranks, .actions = g->actions};
    struct lw_grid_costs costs = nominal;
    struct lw_grid_times t;
    struct lw_arena room = {0};
    int32_t *order = NULL;

    costs.early = early;
    LW_TRY(lw_grid_time(g, &costs, &t, err));
    lw_arena_release(&t.arena, t.start, g->first[g->n_ranks], sizeof *t.start);
    enum lw_status s = find_order(g, early, &t, &room, &order, err);
    lw_grid_times_free(&t);
    if (s == LW_OK)
        s = fill(g, early, order, &room, &o, err);
    lw_arena_free(&room);
    LW_GIVE(s, out, o, lw_grid_order_free(&o));
}
