/* Ring collectives message by message: each member sends `steps` chunks to the next; message s + 1
 * leaves once the member has entered, message s has arrived from the member before, and its
 * outgoing link is free. A rank has one outgoing link, which serves its messages first come, first
 * served, so rings of several communicators share it. A message is buffered at a member that has
 * not entered.
 *
 * By events, every arrival is one. By recurrence (sim/timing/ring_recurrence.c), the whole ring
 * is computed when the last member enters and only the members' ends are events: the same times
 * as long as nothing else uses the links. Interference slows compute from the local entry on;
 * the messages themselves are not re-timed, which the run says. */
#include "sim/engine/engine.h"
#include "sim/timing/ring_recurrence.h"
#include "shared/numbers/checked.h"

/* Seed of the jitter on a communicator class. */
static uint64_t jitter_seed(const struct sim_engine *e, int32_t place)
{
    return sim_seed_of(e->options.seed, (uint64_t)e->groups[e->ring[place].group].comm);
}

static enum lw_status send(struct sim_engine *e, int32_t place)
{
    struct sim_ring_place *m = &e->ring[place];
    lw_ps start = e->ranks[m->rank].link_free > e->now ? e->ranks[m->rank].link_free : e->now;

    m->sent_done = lw_add_sat(start, m->chunk);
    if (e->options.jitter_ps > 0)
        m->sent_done =
            lw_add_sat(m->sent_done, sim_jitter(jitter_seed(e, place), e->jitter, m->rank,
                                                m->n_before + (uint64_t)m->sent));
    m->sent++;
    e->ranks[m->rank].link_free = m->sent_done;
    return sim_post(e, lw_add_sat(m->sent_done, m->latency), SIM_CHUNK_ARRIVE, 0, m->next);
}

/* Send what may be sent; the member ends once it has sent and received all. */
static enum lw_status go_on(struct sim_engine *e, int32_t place)
{
    struct sim_ring_place *m = &e->ring[place];

    while (m->sent < m->steps && m->sent <= m->got)
        LW_TRY(send(e, place));
    if (m->got < m->steps)
        return LW_OK;
    return sim_post(e, m->sent_done > e->now ? m->sent_done : e->now, SIM_CHUNK_END, 0, place);
}

enum lw_status sim_ring_enter(struct sim_engine *e, int32_t place, int64_t bytes)
{
    struct sim_ring_place *m = &e->ring[place];
    const struct sim_group *g = &e->groups[m->group];
    int64_t chunk = sim_chunk_bytes(bytes, g->query.dtype, g->n);

    LW_TRY(sim_hop(e, place, chunk, true, &m->chunk, &m->latency));
    m->steps = (int32_t)sim_ring_steps(g->query.op, g->n);
    m->sent_done = e->now;
    e->stats->n_messages += (int64_t)m->steps * sim_n_alike(e, m->rank);
    sim_member_moving(e, g, m->rank, g->query.op, 1);
    return e->ring_by_events ? go_on(e, place) : LW_OK;
}

struct jitter_of {
    const int32_t *ranks; /* of the members, who have all sent as many messages before */
    uint64_t seed, n_before;
    struct sim_range range;
};

static void draw_jitter(const void *ctx, int64_t step, int32_t first, int32_t n,
                        lw_ps *restrict longer)
{
    const struct jitter_of j = *(const struct jitter_of *)ctx;

    sim_jitter_each(j.seed, j.range, j.ranks + first, n, j.n_before + (uint64_t)step - 1, longer);
}

enum lw_status sim_ring_all_in(struct sim_engine *e, int32_t group)
{
    const struct sim_group *g = &e->groups[group];
    lw_ps *t = e->ring_scratch[0], *cost = e->ring_scratch[1], *latency = e->ring_scratch[2],
          *end = e->ring_scratch[3];
    struct jitter_of j = {e->plan->members + g->first, jitter_seed(e, g->first),
                          e->ring[g->first].n_before, e->jitter};
    const struct sim_ring_extra extra = {draw_jitter, &j, e->options.jitter_ps};

    if (e->ring_by_events)
        return LW_OK;
    for (int32_t i = 0; i < g->n_places; i++) {
        t[i] = e->ring[g->first + i].sent_done;
        cost[i] = e->ring[g->first + i].chunk;
        latency[i] = e->ring[g->first + i].latency;
    }
    sim_ring_run(g->n_places, e->ring[g->first].steps, t, cost, latency,
                 e->options.jitter_ps ? &extra : NULL, end);
    for (int32_t i = 0; i < g->n_places; i++) {
        e->ring[g->first + i].got = e->ring[g->first + i].steps;
        LW_TRY(sim_post(e, end[i], SIM_CHUNK_END, 0, g->first + i));
    }
    return LW_OK;
}

enum lw_status sim_chunk_arrive(struct sim_engine *e, int32_t place)
{
    struct sim_ring_place *m = &e->ring[place];

    m->got++;
    if (m->steps == 0 || m->got > m->steps) /* of the next collective: kept until entry */
        return LW_OK;
    return go_on(e, place);
}

enum lw_status sim_chunk_end(struct sim_engine *e, int32_t place)
{
    struct sim_ring_place *m = &e->ring[place];
    const struct sim_group *g = &e->groups[m->group];
    int32_t unit = e->place_unit[place];
    enum lw_op_kind op = sim_unit_op(e, m->rank, unit).kind;

    m->n_before += (uint64_t)m->steps;
    m->got -= m->steps;
    m->sent = 0;
    m->steps = 0;
    sim_member_moving(e, g, m->rank, op, -1);
    sim_member_copies(e, g, m->rank, op, -1);
    LW_TRY(sim_all_in(e, m->rank, unit, g->all_in));
    return sim_unit_complete(e, m->rank, unit);
}
