/* Work and rate. A timer holds what is left of an op's work; when the rate changes, what was done
 * since the last change is taken off, the end is computed again, and the generation goes up, so
 * that the event of the old end is stale: it is dropped when it comes out of the queue.
 *
 * Rates are a function of what runs on the ranks concerned at the end of an instant: whatever
 * starts or ends at one time only marks its rank (and the communications on it) as changed, and
 * rates settle once before time moves on: links are shared, what changed is spread, then cores,
 * memory, ops and collectives. So the order of events of equal time does not matter, and an op
 * that starts is scheduled once. Progress is counted in 1e-9 ps of work: no rounding but the
 * last, up to the next whole picosecond. Without any interference term nothing is ever marked. */
#include "shared/cluster/measured.h"
#include "sim/engine/engine.h"
#include "shared/numbers/checked.h"

void sim_timer_set(struct sim_timer *t, lw_ps now, lw_ps work)
{
    t->left = (__int128)work * SIM_FULL_RATE;
    t->since = now;
    t->rate = 0;
    t->running = true;
}

lw_ps sim_time_for(__int128 left, int64_t rate)
{
    __int128 t = rate == SIM_FULL_RATE && left <= INT64_MAX
                     ? ((int64_t)left + SIM_FULL_RATE - 1) / SIM_FULL_RATE
                     : (left + rate - 1) / rate;
    return t > INT64_MAX ? INT64_MAX : (lw_ps)t;
}

lw_ps sim_time_at(lw_ps work, int64_t rate)
{
    return sim_time_for((__int128)work * SIM_FULL_RATE, rate);
}

enum lw_status sim_timer_rate(struct sim_engine *e, struct sim_timer *t, int64_t rate,
                              enum sim_event_kind kind, int32_t index)
{
    if (!t->running || t->rate == rate)
        return LW_OK;
    t->left -= (__int128)(e->now - t->since) * t->rate;
    if (t->left < 0)
        t->left = 0;
    t->since = e->now;
    t->rate = rate;
    t->generation = (t->generation + 1) & 0x0fffffff;
    return sim_post(e, lw_add_sat(e->now, sim_time_for(t->left, rate)), kind, t->generation, index);
}

void sim_rank_changed(struct sim_engine *e, int32_t rank)
{
    if (!e->terms.dynamic || e->ranks[rank].dirty)
        return;
    e->ranks[rank].dirty = true;
    e->dirty_ranks[e->n_dirty_ranks++] = rank;
}

void sim_group_changed(struct sim_engine *e, int32_t group)
{
    if (e->groups[group].dirty)
        return;
    e->groups[group].dirty = true;
    e->dirty_groups[e->n_dirty_groups++] = group;
}

void sim_rank_moving(struct sim_engine *e, int32_t rank, enum lw_op_kind op, int32_t by)
{
    enum lw_activity kind = lw_activity_of(op);

    e->ranks[rank].n_moving += by;
    if (kind < LW_N_ACTIVITIES)
        e->ranks[rank].moving[kind] += by;
    if (!e->terms.channels_alone)
        sim_rank_changed(e, rank);
}

void sim_member_moving(struct sim_engine *e, const struct sim_group *g, int32_t rank,
                       enum lw_op_kind op, int32_t by)
{
    if (sim_goes_by_copies(e, g, op))
        e->ranks[rank].by_copies[lw_activity_of(op)] += by;
    sim_rank_moving(e, rank, op, by);
}

void sim_member_copies(struct sim_engine *e, const struct sim_group *g, int32_t rank,
                       enum lw_op_kind op, int32_t by)
{
    if (sim_goes_by_copies(e, g, op))
        e->ranks[rank].n_copies += by;
}

void sim_rank_waiting(struct sim_engine *e, int32_t rank, int32_t by)
{
    e->ranks[rank].n_waiting += by;
    if (!e->terms.channels_alone)
        sim_rank_changed(e, rank);
}

void sim_rank_holds(struct sim_engine *e, int32_t rank, int64_t sms)
{
    e->ranks[rank].more_sms += sms;
    if (sms != 0)
        sim_rank_changed(e, rank);
}

int64_t sim_rate_beside_channels(const struct sim_engine *e, int32_t rank, int64_t sms)
{
    const struct sim_rank *r = &e->ranks[rank];

    return sim_rate_product(sim_compute_rate(&e->terms, r->core, 0, 0, sms), r->speed);
}

enum lw_status sim_slot_start(struct sim_engine *e, int32_t rank, int32_t slot, lw_ps work,
                              bool on_device, int64_t memory)
{
    struct sim_timer *t = &e->slots[slot].timer;

    sim_timer_set(t, e->now, work);
    t->on_device = on_device;
    e->slots[slot].memory = memory;
    if (!on_device)
        return sim_timer_rate(e, t, SIM_FULL_RATE, SIM_SLOT_END, slot);
    e->ranks[rank].n_device++;
    if (!e->terms.dynamic)
        return sim_timer_rate(e, t, e->ranks[rank].speed, SIM_SLOT_END, slot);
    if (e->terms.channels_alone)
        return sim_timer_rate(e, t, sim_rate_beside_channels(e, rank, e->ranks[rank].more_sms),
                              SIM_SLOT_END, slot);
    sim_rank_changed(e, rank);
    return LW_OK;
}

/* A rank on which something changed: so may the rates of its collectives. */
static void mark_groups(struct sim_engine *e, int32_t rank)
{
    const struct lw_plan *p = e->plan;

    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t g = lw_plan_group_of(p, c, rank);
        for (int32_t k = 0; g >= 0 && k < e->n_workers; k++)
            if (e->groups[g * e->n_workers + k].timer.running)
                sim_group_changed(e, g * e->n_workers + k);
    }
}

/* What a collective gets of the links; where that changes what it wants of its members' cores, they
 * change too. */
static void settle_link(struct sim_engine *e, int32_t group)
{
    struct sim_group *g = &e->groups[group];
    int64_t before = g->link_rate;

    if (!g->timer.running)
        return;
    g->link_rate = sim_link_rate(e, group);
    if (g->core_share < 0 && g->memory == 0)
        return;
    for (int32_t i = 0; g->link_rate != before && i < g->n_places; i++)
        sim_rank_changed(e, e->ring[g->first + i].rank);
}

static enum lw_status want_core(struct sim_engine *e, int32_t *n, int64_t share)
{
    LW_ROOM(e->wants, e->wants_capacity, *n + 1, e->err);
    e->wants[(*n)++] = share;
    return LW_OK;
}

/* The share of a core that a message wants at either end. */
static int64_t core_want_of(const struct sim_engine *e, const struct sim_message *x)
{
    return x->core_share < 0 ? e->terms.core_share : sim_rate_product(x->core_share, x->fair_rate);
}

/* Split the core between compute and all that moves data on the rank. */
static enum lw_status settle_core(struct sim_engine *e, int32_t rank)
{
    const struct lw_plan *p = e->plan;
    struct sim_rank *r = &e->ranks[rank];
    int32_t n = 0;

    if (!e->terms.core_share)
        return LW_OK;
    for (int32_t c = 0; e->terms.cpu_times && c < p->n_comms; c++) {
        int32_t g = lw_plan_group_of(p, c, rank);
        for (int32_t k = 0; g >= 0 && k < e->n_workers; k++)
            if (e->groups[g * e->n_workers + k].timer.running)
                LW_TRY(want_core(e, &n, sim_core_want(e, &e->groups[g * e->n_workers + k])));
    }
    for (int32_t m = e->terms.cpu_times ? r->active_message : -1; m >= 0;) {
        const struct sim_message *x = &e->messages[m];
        if (x->core_share >= 0)
            LW_TRY(want_core(e, &n, core_want_of(e, x)));
        m = x->active_next[x->rank[0] == rank ? 0 : 1];
    }
    r->core = sim_core_split(e->wants, n, e->terms.core_share, r->n_moving - n, r->n_device > 0);
    return LW_OK;
}

/* Of compute beside what moves data by kernels: beside copy engines no rate was measured. */
static int64_t measured_rate(const struct sim_engine *e, int32_t rank)
{
    const struct sim_rank *r = &e->ranks[rank];
    int32_t moving[LW_N_ACTIVITIES], n = r->n_moving;

    if (r->n_copies == 0)
        return sim_compute_measured(&e->terms, r->moving, n);
    for (int k = 0; k < LW_N_ACTIVITIES; k++) {
        moving[k] = r->moving[k] - r->by_copies[k];
        n -= r->by_copies[k];
    }
    return sim_compute_measured(&e->terms, moving, n);
}

/* Of compute and copies, as far as memory lets them; `rate` is the measured one. */
static int64_t rate_before_memory(const struct sim_engine *e, int32_t rank, int64_t rate)
{
    const struct sim_rank *r = &e->ranks[rank];

    if (rate == 0)
        rate = sim_compute_rate(&e->terms, r->core, r->n_moving, r->n_waiting - r->n_copies,
                                r->more_sms);
    return sim_rate_product(rate, r->speed);
}

static enum lw_status want_memory(struct sim_engine *e, int32_t *n, int64_t share, int64_t rate)
{
    if (share == 0)
        return LW_OK;
    LW_ROOM(e->memory_wants, e->memory_capacity, *n + 1, e->err);
    e->memory_wants[(*n)++] = sim_rate_product(share, rate);
    return LW_OK;
}

/* Split the bandwidth of a rank's memory among all that use it. */
static enum lw_status settle_memory(struct sim_engine *e, int32_t rank)
{
    const struct lw_plan *p = e->plan;
    int64_t rate = rate_before_memory(e, rank, measured_rate(e, rank));
    int32_t n = 0;

    if (!e->terms.memory)
        return LW_OK;
    for (int32_t s = 0; s < p->n_streams; s++)
        if (e->slots[sim_slot(e, rank, s)].timer.on_device)
            LW_TRY(want_memory(e, &n, e->slots[sim_slot(e, rank, s)].memory, rate));
    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t g = lw_plan_group_of(p, c, rank);
        for (int32_t k = 0; g >= 0 && k < e->n_workers; k++) {
            const struct sim_group *x = &e->groups[g * e->n_workers + k];
            if (x->timer.running)
                LW_TRY(want_memory(e, &n, x->memory, x->link_rate));
        }
    }
    for (int32_t m = e->ranks[rank].active_message; m >= 0;) {
        const struct sim_message *x = &e->messages[m];
        LW_TRY(want_memory(e, &n, x->memory, x->fair_rate));
        m = x->active_next[x->rank[0] == rank ? 0 : 1];
    }
    e->ranks[rank].memory_level = sim_core_split(e->memory_wants, n, 0, 0, false).level;
    return LW_OK;
}

int64_t sim_memory_rate(const struct sim_engine *e, int32_t rank, int64_t share, int64_t rate)
{
    int64_t level = e->terms.memory ? e->ranks[rank].memory_level : SIM_FULL_RATE;

    if (share == 0 || sim_rate_product(share, rate) <= level)
        return rate;
    int64_t r = (int64_t)((__int128)level * SIM_FULL_RATE / share);
    return r < 1 ? 1 : r;
}

/* Beside the others that move at one of its ends. */
static int64_t rate_in_flight(const struct sim_engine *e, const struct sim_message *x, int32_t rank)
{
    int32_t k = 0;

    for (int32_t m = e->terms.in_flight ? e->ranks[rank].active_message : -1; m >= 0; k++)
        m = e->messages[m].active_next[e->messages[m].rank[0] == rank ? 0 : 1];
    if (k < 2)
        return SIM_FULL_RATE;
    struct lw_cost_query q = sim_message_query(e, x);
    return sim_in_flight_rate(e, &q, k);
}

/* What one end of a message lets it do. */
static int64_t rate_at(const struct sim_engine *e, const struct sim_message *x, int end)
{
    int32_t rank = x->rank[end];
    int64_t rate = sim_comm_rate(&e->terms, LW_OP_SEND, core_want_of(e, x), e->ranks[rank].core,
                                 e->ranks[rank].n_device > 0);
    int64_t measured = rate_in_flight(e, x, rank);
    int64_t pair = sim_pair_rate(&e->terms, e->ranks[rank].moving, LW_OP_SEND);

    rate = rate < x->fair_rate ? rate : x->fair_rate;
    rate = rate < measured ? rate : measured;
    rate = sim_rate_product(rate, pair);
    return sim_comm_measured(&e->terms, LW_OP_SEND)
               ? rate
               : sim_memory_rate(e, rank, x->memory, rate);
}

/* Rates of what runs on one rank, collectives apart. */
static enum lw_status settle_rank(struct sim_engine *e, int32_t rank)
{
    const struct lw_plan *p = e->plan;
    int64_t measured = measured_rate(e, rank), rate = rate_before_memory(e, rank, measured);

    for (int32_t s = 0; s < p->n_streams; s++) {
        int32_t slot = sim_slot(e, rank, s);
        int64_t mine = measured > 0 ? rate : sim_memory_rate(e, rank, e->slots[slot].memory, rate);
        if (e->slots[slot].timer.on_device)
            LW_TRY(sim_timer_rate(e, &e->slots[slot].timer, mine, SIM_SLOT_END, slot));
    }
    for (int32_t m = e->ranks[rank].active_message; m >= 0;) {
        struct sim_message *x = &e->messages[m];
        int64_t from = rate_at(e, x, 0), to = rate_at(e, x, 1);
        LW_TRY(sim_timer_rate(e, &x->timer, from < to ? from : to, SIM_MESSAGE_END, m));
        m = x->active_next[x->rank[0] == rank ? 0 : 1];
    }
    return LW_OK;
}

/* Where nothing but compute depends on what runs, and that on what channels hold alone. */
static enum lw_status settle_beside_channels(struct sim_engine *e)
{
    for (int32_t i = 0; i < e->n_dirty_ranks; i++) {
        int32_t rank = e->dirty_ranks[i];
        int64_t rate = sim_rate_beside_channels(e, rank, e->ranks[rank].more_sms);
        for (int32_t s = 0; s < e->plan->n_streams; s++) {
            int32_t slot = sim_slot(e, rank, s);
            if (e->slots[slot].timer.on_device)
                LW_TRY(sim_timer_rate(e, &e->slots[slot].timer, rate, SIM_SLOT_END, slot));
            else
                LW_TRY(sim_merged_beside(e, rank, slot));
        }
        e->ranks[rank].dirty = false;
    }
    e->n_dirty_ranks = 0;
    return LW_OK;
}

enum lw_status sim_rates_settle(struct sim_engine *e)
{
    int32_t n_marked = 0, n_settled = 0;

    if (e->terms.channels_alone)
        return settle_beside_channels(e);
    LW_TRY(sim_net_settle(e));
    while (n_marked < e->n_dirty_ranks || n_settled < e->n_dirty_groups) {
        if (n_marked < e->n_dirty_ranks)
            mark_groups(e, e->dirty_ranks[n_marked++]);
        else
            settle_link(e, e->dirty_groups[n_settled++]);
    }
    for (int32_t i = 0; i < e->n_dirty_ranks; i++)
        LW_TRY(settle_core(e, e->dirty_ranks[i]));
    for (int32_t i = 0; i < e->n_dirty_ranks; i++)
        LW_TRY(settle_memory(e, e->dirty_ranks[i]));
    for (int32_t i = 0; i < e->n_dirty_ranks; i++) {
        LW_TRY(settle_rank(e, e->dirty_ranks[i]));
        e->ranks[e->dirty_ranks[i]].dirty = false;
    }
    e->n_dirty_ranks = 0;
    for (int32_t i = 0; i < e->n_dirty_groups; i++) {
        int32_t g = e->dirty_groups[i];
        e->groups[g].dirty = false;
        if (e->groups[g].timer.running)
            LW_TRY(sim_timer_rate(e, &e->groups[g].timer, sim_group_rate(e, g), SIM_GROUP_END, g));
    }
    e->n_dirty_groups = 0;
    return LW_OK;
}
