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
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/schedule/grid_time.h"

/* A backward is longer than a forward, and the half for the weights shorter than that for the
 * inputs, to which the gradients of attention, norms and activations belong. A message takes a
 * thirtieth of a forward: what passes along the stages ends later at each, and actions of two
 * stages tie only where nothing passes between them. No device's times: a plan is the same
 * everywhere. */
static const struct lw_grid_costs nominal = {.f = 30, .i = 30, .w = 20, .comm = 1};

struct key {
    int64_t end;
    int32_t odd; /* the rank that sends */
    int32_t to_go; /* forwards: less at later stages; backwards: less at earlier ones */
    int32_t turn, action;
};

LW_COMPARATOR(compare_keys, struct key, a->end, b->end, a->odd, b->odd, a->to_go, b->to_go, a->turn,
              b->turn)

LW_FREE_BY_ARENA(lw_grid_order_free, struct lw_grid_order)

static void put(struct lw_grid_order *o, int32_t *at, int32_t rank, struct lw_grid_step step)
{
    if (o->steps)
        o->steps[at[rank]] = step;
    at[rank]++;
}

/* What the action made leaves its rank, unless its target lives there too. */
static void send(const struct lw_grid *g, struct lw_grid_order *o, int32_t *at, int32_t rank,
                 const struct lw_action *a)
{
    int32_t target = lw_action_target(g, a);

    if (target < 0)
        return;
    int32_t peer = lw_grid_rank_of(g, target, a->micro_batch);
    if (peer == rank)
        return;
    put(o, at, rank, (struct lw_grid_step){LW_GRID_SEND, *a, peer});
    put(o, at, peer, (struct lw_grid_step){LW_GRID_RECV, *a, rank});
}

/* Go through the one order; at[n_ranks] are cursors. Without steps it only counts. */
static void walk(const struct lw_grid *g, bool early, const struct key *keys,
                 struct lw_grid_order *o, int32_t *at)
{
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        const struct lw_action *a = &g->actions[keys[i].action];
        int32_t rank = lw_grid_rank_of(g, a->stage, a->micro_batch);
        put(o, at, rank, (struct lw_grid_step){LW_GRID_RUN, *a, -1});
        if (a->with_next && !early)
            continue;
        if (!early && keys[i].action > g->first[rank] && a[-1].with_next)
            send(g, o, at, rank, &a[-1]);
        send(g, o, at, rank, a);
    }
}

/* The two of a unit stay together. */
static void set_keys(const struct lw_grid *g, bool early, const struct lw_grid_times *t,
                     struct key *keys)
{
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        const struct lw_action *a = &g->actions[i];
        int32_t to_go = a->kind == LW_OP_FORWARD ? g->n_stages - 1 - a->stage : a->stage;
        bool second = !early && i > 0 && a[-1].with_next;
        keys[i] = (struct key){t->end[i], lw_grid_rank_of(g, a->stage, a->micro_batch) % 2,
                               second ? keys[i - 1].to_go : to_go, t->turn[i], i};
    }
}

static enum lw_status fill(const struct lw_grid *g, bool early, const struct lw_grid_times *t,
                           struct lw_arena *room, struct lw_grid_order *o, struct lw_err *err)
{
    int32_t n = g->first[g->n_ranks], *at;
    struct key *keys;

    LW_TAKE(room, keys, n, err);
    LW_TAKE(room, at, g->n_ranks, err);
    set_keys(g, early, t, keys);
    lw_sort(keys, n, compare_keys);
    LW_TAKE(&o->arena, o->first, (int64_t)g->n_ranks + 1, err);
    walk(g, early, keys, o, at);
    for (int32_t r = 0; r < g->n_ranks; r++)
        o->first[r + 1] = o->first[r] + at[r];
    LW_TAKE(&o->arena, o->steps, o->first[g->n_ranks], err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        at[r] = o->first[r];
    walk(g, early, keys, o, at);
    return LW_OK;
}

enum lw_status lw_grid_order(const struct lw_grid *g, bool early, struct lw_grid_order *out,
                             struct lw_err *err)
{
    struct lw_grid_order o = {.n_ranks = g->n_ranks};
    struct lw_grid_costs costs = nominal;
    struct lw_grid_times t;
    struct lw_arena room = {0};

    costs.early = early;
    LW_TRY(lw_grid_time(g, &costs, &t, err));
    enum lw_status s = fill(g, early, &t, &room, &o, err);
    lw_arena_free(&room);
    lw_grid_times_free(&t);
    LW_GIVE(s, out, o, lw_grid_order_free(&o));
}
