/* Sends and receives. The k-th send from a to b on a communicator class meets the k-th receive from
 * a at b on it. Rendezvous: the message moves once both ends have entered, and ends for both.
 * Buffered: it moves from the sender's entry, costs the sender nothing, and the receive ends when
 * the message is there. All ops of a group call enter together, and the call completes when its
 * last message has: NCCL's semantics of grouped point-to-point calls.
 *
 * Channels (class, from, to) live in a hash table with open addressing; a channel's messages
 * that lack an end form a list, all lacking the same end. Messages come from a pool and go back
 * to it. */
#include "sim/engine/engine.h"
#include "shared/numbers/checked.h"

enum { SENDER, RECEIVER };

static uint64_t hash_of(int32_t comm, int32_t from, int32_t to)
{
    uint64_t h = ((uint64_t)(uint32_t)from << 32 | (uint32_t)to) ^ (uint64_t)comm << 56;

    h = (h ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static struct sim_channel *place_for(struct sim_channel *table, int64_t capacity, int32_t comm,
                                     int32_t from, int32_t to)
{
    uint64_t mask = (uint64_t)capacity - 1, i = hash_of(comm, from, to) & mask;

    while (table[i].comm >= 0 &&
           (table[i].comm != comm || table[i].from != from || table[i].to != to))
        i = (i + 1) & mask;
    return &table[i];
}

static enum lw_status grow_channels(struct sim_engine *e)
{
    int64_t capacity = e->channels_capacity > 0 ? 2 * e->channels_capacity : 64;
    struct sim_channel *table = lw_alloc((size_t)capacity * sizeof *table);

    if (!table)
        return lw_fail_nomem(e->err);
    for (int64_t i = 0; i < capacity; i++)
        table[i] = (struct sim_channel){-1, 0, 0, -1, -1};
    for (int64_t i = 0; i < e->channels_capacity; i++) {
        const struct sim_channel *old = &e->channels[i];
        if (old->comm >= 0)
            *place_for(table, capacity, old->comm, old->from, old->to) = *old;
    }
    lw_free(e->channels);
    e->channels = table;
    e->channels_capacity = capacity;
    return LW_OK;
}

static enum lw_status channel_of(struct sim_engine *e, int32_t comm, int32_t from, int32_t to,
                                 struct sim_channel **out)
{
    if (2 * (e->n_channels + 1) > e->channels_capacity)
        LW_TRY(grow_channels(e));
    *out = place_for(e->channels, e->channels_capacity, comm, from, to);
    if ((*out)->comm < 0) {
        **out = (struct sim_channel){comm, from, to, -1, -1};
        e->n_channels++;
    }
    return LW_OK;
}

static enum lw_status take_message(struct sim_engine *e, int32_t *m)
{
    if (e->free_message >= 0) {
        *m = e->free_message;
        e->free_message = e->messages[*m].next;
    } else {
        LW_ROOM(e->messages, e->messages_capacity, e->n_messages + 1, e->err);
        *m = e->n_messages++;
        e->messages[*m].timer.generation = 0;
    }
    struct sim_message *x = &e->messages[*m];
    uint32_t generation = x->timer.generation; /* goes on, so that old events stay stale */
    *x = (struct sim_message){.unit = {-1, -1}, .next = -1, .active_next = {-1, -1},
                              .active_before = {-1, -1}};
    x->timer.generation = generation;
    return LW_OK;
}

static void give_message(struct sim_engine *e, int32_t m)
{
    e->messages[m].next = e->free_message;
    e->free_message = m;
}

/* The list of messages that move at a rank: a message is in the lists of both its ranks. */
static void link_active(struct sim_engine *e, int32_t m)
{
    for (int side = 0; side < 2; side++) {
        struct sim_message *x = &e->messages[m];
        int32_t rank = x->rank[side], head = e->ranks[rank].active_message;
        x->active_next[side] = head;
        x->active_before[side] = -1;
        if (head >= 0)
            e->messages[head].active_before[e->messages[head].rank[0] == rank ? 0 : 1] = m;
        e->ranks[rank].active_message = m;
        sim_rank_moving(e, rank, LW_OP_SEND, 1);
    }
}

static void unlink_active(struct sim_engine *e, int32_t m)
{
    for (int side = 0; side < 2; side++) {
        const struct sim_message *x = &e->messages[m];
        int32_t rank = x->rank[side], next = x->active_next[side], before = x->active_before[side];
        if (next >= 0)
            e->messages[next].active_before[e->messages[next].rank[0] == rank ? 0 : 1] = before;
        if (before >= 0)
            e->messages[before].active_next[e->messages[before].rank[0] == rank ? 0 : 1] = next;
        else
            e->ranks[rank].active_message = next;
        sim_rank_moving(e, rank, LW_OP_SEND, -1);
    }
}

static enum lw_status part_done(struct sim_engine *e, int32_t rank, int32_t unit, int32_t slot)
{
    return --e->slots[slot].parts == 0 ? sim_unit_complete(e, rank, unit) : LW_OK;
}

struct lw_cost_query sim_message_query(const struct sim_engine *e, const struct sim_message *m)
{
    int32_t per_node = e->cluster->devices_per_node;
    int32_t n_nodes = m->given[SENDER] / per_node == m->given[RECEIVER] / per_node ? 1 : 2;

    return (struct lw_cost_query){LW_OP_SEND, m->dtype, m->bytes, 2, n_nodes, LW_REDUCER_AUTO,
                                  2 / n_nodes, false};
}

static enum lw_status message_time(struct sim_engine *e, const struct sim_message *x,
                                   const struct lw_op *op, lw_ps *time)
{
    struct lw_cost_query q = sim_message_query(e, x);
    double speed = e->slow_links ? sim_link_speed(e, x->given[SENDER], x->given[RECEIVER]) : 1;
    struct sim_path path;

    *time = lw_plan_work_ps(e->plan, op);
    if (*time > 0 || (*time == 0 && x->bytes == 0)) /* recorded; nothing to move, in no time */
        return LW_OK;
    LW_TRY(sim_ask_cost(e, &q, time));
    if (speed == 1)
        return LW_OK;
    LW_TRY(sim_path_of(e->cluster, 2, q.n_nodes, q.fewest, q.alone, &path, e->err));
    *time = lw_add_sat(*time, lw_transfer_ps(x->bytes, path.bytes_per_s * speed) -
                                  lw_transfer_ps(x->bytes, path.bytes_per_s));
    return LW_OK;
}

/* Drawn by who sends to whom, and in which op of which pass. */
static lw_ps with_noise(const struct sim_engine *e, const struct sim_message *x, lw_ps time)
{
    uint64_t ends = (uint64_t)(uint32_t)x->rank[SENDER] << 32 | (uint32_t)x->rank[RECEIVER];

    if (e->comm_sigma <= 0)
        return time;
    return sim_noisy(sim_seed_of(e->options.seed, 2), ends,
                     (uint64_t)e->ranks[x->rank[SENDER]].pass, (uint64_t)x->op[SENDER],
                     e->comm_sigma, time);
}

static enum lw_status move(struct sim_engine *e, int32_t m, const struct lw_op *op)
{
    lw_ps time;

    struct sim_message *x = &e->messages[m];
    x->dtype = op->dtype;
    LW_TRY(message_time(e, x, op, &time));
    x->memory = e->terms.memory ? sim_comm_memory_share(e->cluster, x->bytes, time) : 0;
    struct lw_cost_query q = sim_message_query(e, x);
    x->core_share = sim_share_of_core(e, &q, time);
    x->fair_rate = SIM_FULL_RATE;
    x->flow = -1;
    if (e->net && time > 0 && x->bytes > 0) {
        x->wire_bytes_per_s = (double)x->bytes / ((double)time / (double)LW_PS_PER_S);
        LW_TRY(sim_net_add(e, ~m));
    }
    time = with_noise(e, x, time);
    e->stats->n_messages += sim_n_alike(e, e->messages[m].rank[SENDER]);
    sim_timer_set(&e->messages[m].timer, e->now, time);
    if (!e->terms.dynamic || e->terms.channels_alone)
        return sim_timer_rate(e, &e->messages[m].timer, SIM_FULL_RATE, SIM_MESSAGE_END, m);
    link_active(e, m);
    return LW_OK;
}

/* The message this op belongs to: the first of its channel that lacks this end, else a new one. */
static enum lw_status meet(struct sim_engine *e, int32_t comm, int32_t from, int32_t to, int side,
                           int32_t *m)
{
    struct sim_channel *c;

    LW_TRY(channel_of(e, comm, from, to, &c));
    if (c->first >= 0 && e->messages[c->first].unit[side] < 0) {
        *m = c->first;
        c->first = e->messages[*m].next;
        return LW_OK;
    }
    LW_TRY(take_message(e, m));
    e->messages[*m].rank[SENDER] = from;
    e->messages[*m].rank[RECEIVER] = to;
    e->messages[*m].comm = comm;
    if (c->first < 0)
        c->first = *m;
    else
        e->messages[c->last].next = *m;
    c->last = *m;
    return LW_OK;
}

/* slot: of the unit. */
static enum lw_status enter_part(struct sim_engine *e, int32_t rank, int32_t unit, int32_t slot,
                                 int32_t i)
{
    const struct lw_op *op = LW_OP_HELD(e->plan, i);
    struct lw_operand operand = lw_plan_operand(e->plan, op, rank);
    int side = op->kind == LW_OP_SEND ? SENDER : RECEIVER;
    int32_t m = -1;

    if (op->comm < 0)
        return lw_plan_op_fail(e->plan, i, e->err, " names no communicator");
    int32_t given = sim_given_rank(e, rank);
    if (operand.peer < 0 || operand.peer >= e->given->n_ranks || operand.peer == given)
        return lw_plan_op_fail(e->plan, i, e->err, " on rank %d has peer %d: need another rank",
                               given, operand.peer);
    int32_t peer = sim_run_rank(e, operand.peer);
    LW_TRY(meet(e, op->comm, side == SENDER ? rank : peer, side == SENDER ? peer : rank, side, &m));
    struct sim_message *x = &e->messages[m];
    x->given[side] = given;
    x->given[!side] = operand.peer;
    bool both = x->unit[!side] >= 0;
    x->unit[side] = unit;
    x->slot[side] = slot;
    x->op[side] = i;
    if (both && x->bytes != operand.bytes)
        return lw_fail(e->err, LW_EFAILED,
                       "rank %d sends %lld bytes (op %d) where rank %d receives %lld (op %d)",
                       x->rank[0], (long long)(side == SENDER ? operand.bytes : x->bytes), x->op[0],
                       x->rank[1], (long long)(side == SENDER ? x->bytes : operand.bytes),
                       x->op[1]);
    x->bytes = operand.bytes;
    if (e->options.buffered) {
        if (side == SENDER || both)
            LW_TRY(sim_op_all_in(e, rank, i, e->now));
        if (side == SENDER && both)
            LW_TRY(sim_op_all_in(e, x->rank[RECEIVER], x->op[RECEIVER], e->now));
        if (side == SENDER) {
            LW_TRY(move(e, m, op));
            return part_done(e, rank, unit, slot);
        }
        if (x->arrived) {
            give_message(e, m);
            return part_done(e, rank, unit, slot);
        }
        return LW_OK;
    }
    if (!both)
        return LW_OK;
    LW_TRY(sim_op_all_in(e, x->rank[SENDER], x->op[SENDER], e->now));
    LW_TRY(sim_op_all_in(e, x->rank[RECEIVER], x->op[RECEIVER], e->now));
    return move(e, m, op);
}

enum lw_status sim_p2p_enter(struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;
    int32_t first = sim_first_part(p, unit), n = sim_first_part(p, unit + 1) - first;
    int32_t slot = sim_slot(e, rank, LW_OP_HELD(e->plan, sim_part(p, first))->stream);

    e->slots[slot].parts = n + 1; /* one more, so that it cannot complete while it enters */
    for (int32_t i = 0; i < n; i++)
        LW_TRY(enter_part(e, rank, unit, slot, sim_part(p, first + i)));
    return part_done(e, rank, unit, slot);
}

enum lw_status sim_message_end(struct sim_engine *e, int32_t m)
{
    struct sim_message x = e->messages[m];

    e->messages[m].timer.running = false;
    sim_net_remove(e, ~m);
    if (e->terms.dynamic && !e->terms.channels_alone)
        unlink_active(e, m);
    if (e->options.buffered && x.unit[RECEIVER] < 0) {
        e->messages[m].arrived = true;
        return LW_OK;
    }
    give_message(e, m);
    if (!e->options.buffered)
        LW_TRY(part_done(e, x.rank[SENDER], x.unit[SENDER], x.slot[SENDER]));
    return part_done(e, x.rank[RECEIVER], x.unit[RECEIVER], x.slot[RECEIVER]);
}
