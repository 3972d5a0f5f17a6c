/* Collectives by the rules of NCCL: a member enters when its stream and its communicator are free
 * (edges of its program) and then occupies its stream; data moves from the entry of the last
 * member; at collective detail the collective ends for all by its cost. The members' k-th
 * collectives on a communicator are one collective: different kinds there are a failure, not a
 * wait.
 *
 * A slow link adds to an algorithm of sim/cost/collective_messages.c, a ring too, what its messages
 * gain by it from a common entry; to the rest, what the slowest hop of the group gains on the bytes
 * that cross it. */
#include "sim/engine/engine.h"

#include "shared/cluster/measured.h"
#include "shared/numbers/checked.h"
#include "shared/strategy/strategy.h"
#include "sim/cost/cost_library.h"
#include "sim/cost/cost_scaled.h"

double sim_link_speed(const struct sim_engine *e, int32_t from, int32_t to)
{
    const struct lw_cluster *c = e->cluster;

    for (int32_t i = 0; i < c->n_exceptions; i++)
        if (c->exceptions[i].rank_to >= 0 && c->exceptions[i].rank == from &&
            c->exceptions[i].rank_to == to)
            return c->exceptions[i].speed;
    return 1;
}

struct lw_routing sim_routing_of(const struct sim_engine *e, const struct lw_op *op)
{
    bool tokens = op->kind == LW_OP_ALL_TO_ALL &&
                  e->plan->comms[op->comm].purpose == LW_COMM_EXPERT;

    return tokens ? lw_plan_routing(e->plan) : (struct lw_routing){0};
}

static uint64_t slot_of(const struct lw_cost_query *q)
{
    uint64_t x = (uint64_t)q->bytes;

    x = x * 31 + (uint64_t)q->op * 7 + (uint64_t)q->algorithm;
    x = x * 31 + (uint64_t)q->n_ranks * 5 + (uint64_t)q->n_nodes + (uint64_t)q->dtype;
    x = x * 31 + (uint64_t)q->fewest * 2 + q->alone;
    x = x * 31 + (uint64_t)q->once.copies;
    return (x * UINT64_C(0x9e3779b97f4a7c15) >> 32) % SIM_ASKED;
}

static bool is_same(const struct lw_cost_query *a, const struct lw_cost_query *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->bytes == b->bytes &&
           a->n_ranks == b->n_ranks && a->n_nodes == b->n_nodes && a->algorithm == b->algorithm &&
           a->fewest == b->fewest && a->alone == b->alone && a->once.copies == b->once.copies;
}

enum lw_status sim_ask(struct sim_engine *e, const struct lw_cost_query *q,
                       const struct sim_asked **known)
{
    struct sim_asked *x = &e->asked[slot_of(q)];
    struct lw_cost_answer a = {0};

    *known = x;
    if (is_same(&x->query, q))
        return LW_OK;
    if (!e->options.cost) {
        char text[200];
        LW_TRY(lw_sim_cost_explain(e->cluster, q, &a, e->err));
        if (sim_say_other_shape(e->cluster, q, &a, text, sizeof text))
            sim_remark(e->stats, "%s", text);
        if (sim_say_not_modelled(e->cluster, q, &a, text, sizeof text))
            sim_remark(e->stats, "%s", text);
    } else if ((a.time = e->cost.time(e->cost.ctx, q)) < 0)
        return lw_fail(e->err, LW_ENOTSUP,
                       "the cost function cannot time %s of %lld bytes on %d ranks",
                       lw_op_name(q->op), (long long)q->bytes, q->n_ranks);
    *x = (struct sim_asked){*q, a.time, a.model, a.source, a.model ? sim_cost_basis(&a) : NULL};
    return LW_OK;
}

enum lw_status sim_ask_cost(struct sim_engine *e, const struct lw_cost_query *q, lw_ps *time)
{
    const struct sim_asked *known;

    LW_TRY(sim_ask(e, q, &known));
    *time = known->time;
    return LW_OK;
}

enum lw_status sim_hop(struct sim_engine *e, int32_t place, int64_t bytes, bool slow_links,
                       lw_ps *time, lw_ps *latency)
{
    const struct sim_ring_place *m = &e->ring[place];
    const struct sim_group *g = &e->groups[m->group];
    int32_t per_node = e->cluster->devices_per_node;
    struct sim_path path;

    LW_TRY(sim_path_of(e->cluster, g->n, g->n_nodes, g->fewest, g->alone, &path, e->err));
    bool inside = m->from / per_node == m->to / per_node;
    double rate = inside ? path.intra_bytes_per_s : path.inter_bytes_per_s;
    if (slow_links)
        rate *= sim_link_speed(e, m->from, m->to);
    *time = lw_transfer_ps(bytes, rate);
    *latency = inside ? path.intra_ps : path.inter_ps;
    return LW_OK;
}

/* What the slow links of the cluster add to the collective at hand; 0 when the group has none. */
static enum lw_status slow_link_extra(struct sim_engine *e, const struct sim_group *g, lw_ps *extra)
{
    const struct lw_cost_query *q = &g->query;
    int64_t chunk = sim_chunk_bytes(q->bytes, q->dtype, g->n);
    int64_t crossing = q->op == LW_OP_ALL_TO_ALL ? chunk * (g->n - 1) : q->bytes;
    lw_ps with, without, latency;

    *extra = 0;
    for (int32_t i = 0; !g->scheduled && i < g->n_places; i++) {
        LW_TRY(sim_hop(e, g->first + i, crossing, true, &with, &latency));
        LW_TRY(sim_hop(e, g->first + i, crossing, false, &without, &latency));
        if (with - without > *extra)
            *extra = with - without;
    }
    if (g->scheduled || (*extra > 0 && sim_ring_steps(q->op, g->n) > 0))
        return sim_messages_extra(e, (int32_t)(g - e->groups), extra);
    return LW_OK;
}

static bool same_query(const struct lw_cost_query *a, const struct lw_cost_query *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->bytes == b->bytes;
}

int64_t sim_share_of_core(const struct sim_engine *e, const struct lw_cost_query *q, lw_ps time)
{
    const struct lw_cost_table *t = e->terms.cpu_times ? sim_table_find(e->cluster, q, 1) : NULL;

    if (!t || !t->cpu_ps || time <= 0)
        return -1;
    double share = (double)sim_table_cpu(t, q->bytes) / (double)time;
    return share < 1 ? (int64_t)(share * (double)SIM_FULL_RATE + 0.5) : SIM_FULL_RATE;
}

static enum lw_status duration(struct sim_engine *e, struct sim_group *g, lw_ps *time)
{
    lw_ps extra = 0;

    g->core_share = e->terms.shared_link ? e->terms.core_share : -1;
    if (g->own_work > 0 || g->n == 1) {
        *time = g->own_work;
        return LW_OK;
    }
    if (g->known_time < 0 || !same_query(&g->known, &g->query)) {
        LW_TRY(sim_ask_cost(e, &g->query, time));
        if (e->slow_links)
            LW_TRY(slow_link_extra(e, g, &extra));
        g->known = g->query;
        g->known_time = lw_add_sat(*time, extra);
        g->known_share = sim_share_of_core(e, &g->query, g->known_time);
    }
    *time = g->known_time;
    g->core_share = g->known_share >= 0 ? g->known_share : g->core_share;
    return LW_OK;
}

int64_t sim_in_flight_rate(const struct sim_engine *e, const struct lw_cost_query *q, int32_t k)
{
    const struct lw_cost_table *one = sim_table_find(e->cluster, q, 1), *many = NULL;
    const char *unused;

    for (; k > 1 && !many; k--)
        many = sim_table_find(e->cluster, q, k);
    if (!one || !many)
        return SIM_FULL_RATE;
    double alone = (double)sim_table_time(one, q->bytes, &unused);
    double beside = (double)sim_table_time(many, q->bytes, &unused);
    return beside > alone && alone > 0 ? sim_rate_of(alone / beside) : SIM_FULL_RATE;
}

/* Collectives beside which the table of several at once holds: not those that a pair holds for. */
static int32_t n_alike(const struct sim_engine *e, int32_t rank, enum lw_op_kind op)
{
    const int32_t *moving = e->ranks[rank].moving;
    enum lw_activity of = lw_activity_of(op);
    enum lw_activity messages = lw_activity_of(LW_OP_SEND); /* not among n_collectives */
    int32_t n = e->ranks[rank].n_collectives;

    for (int k = LW_ACTIVITY_COMM; e->terms.pairs && of < LW_N_ACTIVITIES && k < (int)messages; k++)
        n -= e->terms.pair[of][k] ? moving[k] : 0;
    return n;
}

int64_t sim_link_rate(const struct sim_engine *e, int32_t group)
{
    const struct sim_group *g = &e->groups[group];
    int64_t pair = SIM_FULL_RATE;
    int32_t most = 1;

    bool counts = e->terms.in_flight || e->terms.pairs || e->terms.shared_link;
    for (int32_t i = 0; counts && i < g->n_places; i++) {
        int32_t rank = e->ring[g->first + i].rank, n = n_alike(e, rank, g->query.op);
        int64_t beside = sim_pair_rate(&e->terms, e->ranks[rank].moving, g->query.op);
        most = n > most ? n : most;
        pair = beside < pair ? beside : pair;
    }
    int64_t measured = most > 1 ? sim_in_flight_rate(e, &g->query, most) : SIM_FULL_RATE;
    if (e->terms.shared_link && measured > SIM_FULL_RATE / most)
        measured = SIM_FULL_RATE / most;
    measured = sim_rate_product(measured, pair);
    return measured < g->fair_rate ? measured : g->fair_rate;
}

int64_t sim_core_want(const struct sim_engine *e, const struct sim_group *g)
{
    if (g->core_share < 0)
        return e->terms.core_share;
    return (int64_t)((__int128)g->core_share * g->link_rate / SIM_FULL_RATE);
}

int64_t sim_group_rate(const struct sim_engine *e, int32_t group)
{
    const struct sim_group *g = &e->groups[group];
    int64_t rate = SIM_FULL_RATE, want = sim_core_want(e, g);

    for (int32_t i = 0; i < g->n_places; i++) {
        int32_t r = e->ring[g->first + i].rank;
        int64_t mine =
            sim_comm_rate(&e->terms, g->query.op, want, e->ranks[r].core, e->ranks[r].n_device > 0);
        mine = sim_rate_product(mine, g->link_rate);
        if (!sim_comm_measured(&e->terms, g->query.op))
            mine = sim_memory_rate(e, r, g->memory, mine);
        if (mine < rate)
            rate = mine;
    }
    return rate;
}

static enum lw_status mismatch(struct sim_engine *e, const struct sim_group *g, int32_t rank,
                               int32_t op)
{
    enum lw_op_kind first = LW_OP_HELD(e->plan, g->first_op)->kind;
    enum lw_op_kind kind = LW_OP_HELD(e->plan, op)->kind;

    return lw_fail(e->err, LW_EFAILED,
                   "communicator '%s': rank %d issues %s (op %d) where rank %d issues %s (op %d)",
                   e->plan->comms[g->comm].name, g->first_rank, lw_op_name(first), g->first_op,
                   rank, lw_op_name(kind), op);
}

/* The k-th collective of a group is drawn by its first member's rank and k. */
static lw_ps with_noise(const struct sim_engine *e, struct sim_group *g, lw_ps time)
{
    uint64_t k = g->turn >= 0 ? (uint64_t)g->turn : g->n_begun++;
    int32_t rank = e->ring[g->first].rank;

    if (e->comm_sigma <= 0 || g->n == 1)
        return time;
    return sim_noisy(sim_seed_of(e->options.seed, 1), (uint64_t)rank, k, (uint64_t)g->comm,
                     e->comm_sigma, time);
}

/* The last member is in: data moves. */
static enum lw_status start(struct sim_engine *e, int32_t group)
{
    struct sim_group *g = &e->groups[group];
    lw_ps time;

    LW_TRY(duration(e, g, &time));
    g->memory = e->terms.memory ? sim_comm_memory_share(e->cluster, g->query.bytes, time) : 0;
    g->fair_rate = SIM_FULL_RATE;
    g->time = time;
    time = with_noise(e, g, time);
    if (e->net && g->time > 0 && g->n > 1)
        LW_TRY(sim_net_add(e, group));
    for (int32_t i = 0; i < g->n_places; i++) {
        int32_t r = e->ring[g->first + i].rank;
        sim_rank_waiting(e, r, -1);
        sim_member_moving(e, g, r, g->query.op, 1);
        e->ranks[r].n_collectives++;
    }
    sim_timer_set(&g->timer, e->now, time);
    if (!e->terms.dynamic || e->terms.channels_alone)
        return sim_timer_rate(e, &g->timer, SIM_FULL_RATE, SIM_GROUP_END, group);
    sim_group_changed(e, group);
    return LW_OK;
}

/* Of DeepEP's kernels, by which copies of tokens travel once (num_sms: deepseek-ai/DeepEP,
 * deep_ep/buffer.py; moe_deepep_num_sms: NVIDIA/Megatron-LM, transformer_config.py; every dispatch
 * and combine of deepseek-ai/profile-data@4496024, train.json). */
enum { DEEP_EP_BLOCKS = 20 };

/* Thread blocks of its kernel; 0: not known. */
static int32_t blocks_of(struct sim_engine *e, const struct lw_cost_query *q)
{
    struct sim_asked_blocks *x = &e->asked_blocks[slot_of(q)];
    struct lw_cost_answer a;

    if (q->once.copies > 0)
        return DEEP_EP_BLOCKS;
    if (!is_same(&x->query, q)) {
        bool known = lw_sim_cost_explain(e->cluster, q, &a, NULL) == LW_OK;
        *x = (struct sim_asked_blocks){*q, known && a.n_blocks > 0 ? a.n_blocks : 0};
    }
    return x->n;
}

/* Async TP's gathers and scatters: copies between the group's devices by copy engines, and a sum
 * of the device's own (pytorch/pytorch@006b161f, torch/distributed/_symmetric_memory/__init__.py,
 * _pipelined_multi_all_gather_and_consume, _pipelined_produce_and_all2all; #145794). */
static bool is_of_copies(const struct sim_engine *e, const struct sim_group *g, enum lw_op_kind op)
{
    return e->plan->strategy && e->plan->strategy->tp_overlap == LW_TP_OVERLAP_COPIES &&
           e->plan->comms[g->comm].purpose == LW_COMM_TENSOR && g->n > 1 &&
           (op == LW_OP_ALL_GATHER || op == LW_OP_REDUCE_SCATTER);
}

bool sim_goes_by_copies(const struct sim_engine *e, const struct sim_group *g, enum lw_op_kind op)
{
    return g->n_nodes == 1 && is_of_copies(e, g, op);
}

/* Copy engines write to devices that the device's links reach, and to no other node's. */
static void note_copies(struct sim_engine *e, const struct sim_group *g, enum lw_op_kind op)
{
    e->has_kernels |= g->n > 1 && !sim_goes_by_copies(e, g, op);
    if (!is_of_copies(e, g, op))
        return;
    if (g->n_nodes == 1)
        e->has_copies = true;
    else
        sim_remark(e->stats, "a tensor group is on several nodes, which copy engines do not "
                             "connect: its gathers and scatters are as with --tp-overlap pieces");
}

/* The share of SMs that the collective's channels hold, beyond what every collective holds. */
static int64_t sms_of_channels(struct sim_engine *e, struct sim_group *g, int64_t bytes)
{
    struct lw_cost_query q = g->query;

    q.bytes = bytes;
    if (e->terms.channel_sms <= 0 || g->n < 2 || g->chunked ||
        sim_goes_by_copies(e, g, g->query.op))
        return 0;
    if (g->sms_known.n_ranks > 0 && same_query(&g->sms_known, &q))
        return g->more_sms;
    g->sms_known = q;
    if (q.algorithm == LW_REDUCER_AUTO && lw_figure_is_set(e->cluster->nccl.compute_capability))
        q.algorithm = LW_REDUCER_NCCL; /* a measured table tells no channels */
    int32_t n_blocks = blocks_of(e, &q);
    e->has_collectives = true;
    e->has_channels |= n_blocks > 0;
    return n_blocks > 0 ? sim_rate_of(n_blocks * e->terms.channel_sms) - e->terms.sm_share : 0;
}

/* Of the first member: what the collective is. */
static enum lw_status gather(struct sim_engine *e, struct sim_group *g, int32_t rank,
                             int32_t number, int64_t bytes)
{
    const struct lw_op *op = LW_OP_HELD(e->plan, number);
    bool known = g->query.op == op->kind && g->query.dtype == op->dtype && g->query.bytes == bytes;

    g->first_rank = rank;
    g->first_op = number;
    g->own_work = 0;
    if (!known)
        note_copies(e, g, op->kind);
    g->query = (struct lw_cost_query){op->kind, op->dtype, bytes, g->n, g->n_nodes,
                                      sim_reducer_of(e, g->comm, op->kind), g->fewest, g->alone,
                                      sim_routing_of(e, op)};
    if (!known && (e->slow_links || e->options.detail == LW_SIM_CHUNK))
        return sim_is_scheduled(e->cluster, &g->query, &g->scheduled, e->err);
    return LW_OK;
}

enum lw_status sim_collective_alone(struct sim_engine *e, int32_t rank, int32_t number, lw_ps *time,
                                    int64_t *sms)
{
    const struct lw_op *op = LW_OP_HELD(e->plan, number);
    int32_t place = e->place_of[(int64_t)op->comm * e->plan->n_ranks + rank];
    struct sim_group *g = &e->groups[e->ring[place].group];
    lw_ps own = lw_plan_work_ps(e->plan, op);

    int64_t bytes = lw_plan_operand(e->plan, op, rank).bytes;

    LW_TRY(gather(e, g, rank, number, bytes));
    g->own_work = own > 0 ? own : 0;
    g->more_sms = *sms = sms_of_channels(e, g, bytes);
    return duration(e, g, time);
}

/* A member has more bytes than those that entered before it: they hold what it holds. */
static void raise_bytes(struct sim_engine *e, struct sim_group *g, int32_t group, int64_t bytes)
{
    int64_t before = g->more_sms;

    g->query.bytes = bytes;
    g->more_sms = sms_of_channels(e, g, bytes);
    for (int32_t i = 0; i < g->n_places && g->more_sms != before; i++) {
        int32_t place = g->first + i;
        int32_t at = place * e->n_workers + group - e->ring[place].group;
        if (e->place_turn[at] == g->n_gathered + 1)
            sim_rank_holds(e, e->ring[place].rank, g->more_sms - before);
    }
}

enum lw_status sim_collective_enter(struct sim_engine *e, int32_t rank, int32_t unit)
{
    int32_t number = sim_unit_number(e, rank, unit);
    const struct lw_op *op = LW_OP_HELD(e->plan, number);
    int32_t place = e->place_of[(int64_t)op->comm * e->plan->n_ranks + rank];
    int32_t group = sim_is_pooled(e, rank, unit) ? sim_workers_lane(e, place)
                                                 : e->ring[place].group;
    struct sim_group *g = &e->groups[group];
    int64_t bytes = lw_plan_operand(e->plan, op, rank).bytes;
    lw_ps own = lw_plan_work_ps(e->plan, op);

    if (g->n_arrived == 0) {
        LW_TRY(gather(e, g, rank, number, bytes));
        g->chunked = e->options.detail == LW_SIM_CHUNK && own <= 0 && g->n > 1 &&
                     (g->scheduled || sim_ring_steps(op->kind, g->n) > 0);
        g->more_sms = sms_of_channels(e, g, bytes);
    } else if (op->kind != g->query.op) {
        return mismatch(e, g, rank, number);
    }
    if (bytes > g->query.bytes)
        raise_bytes(e, g, group, bytes);
    if (own > g->own_work)
        g->own_work = own;
    int32_t lane = place * e->n_workers + group - e->ring[place].group;
    e->place_unit[lane] = unit;
    e->place_turn[lane] = g->n_gathered + 1;
    sim_member_copies(e, g, rank, op->kind, 1);
    if (g->chunked)
        LW_TRY(g->scheduled ? sim_messages_enter(e, place) : sim_ring_enter(e, place, bytes));
    else {
        sim_rank_holds(e, rank, g->more_sms);
        sim_rank_waiting(e, rank, 1);
    }
    if (++g->n_arrived < g->n_places)
        return LW_OK;
    g->n_arrived = 0;
    g->n_gathered++;
    g->all_in = e->now;
    if (!g->chunked)
        return start(e, group);
    return g->scheduled ? sim_messages_all_in(e, group) : sim_ring_all_in(e, group);
}

enum lw_status sim_group_end(struct sim_engine *e, int32_t group)
{
    struct sim_group *g = &e->groups[group];
    int64_t held = g->more_sms; /* before the first member's worker takes the next one */

    g->timer.running = false;
    sim_net_remove(e, group);
    g->turn = -1; /* before its members go on: the lane is free for what their workers take next */
    for (int32_t i = 0; i < g->n_places; i++) {
        int32_t place = g->first + i, r = e->ring[place].rank;
        int32_t unit = e->place_unit[place * e->n_workers + group - e->ring[place].group];
        bool pooled = sim_is_pooled(e, r, unit);
        sim_rank_holds(e, r, -held);
        sim_member_moving(e, g, r, sim_unit_op(e, r, unit).kind, -1);
        sim_member_copies(e, g, r, sim_unit_op(e, r, unit).kind, -1);
        e->ranks[r].n_collectives--;
        LW_TRY(sim_all_in(e, r, unit, g->all_in));
        LW_TRY(sim_unit_complete(e, r, unit));
        if (pooled)
            LW_TRY(sim_workers_end(e, group, place));
    }
    return LW_OK;
}
