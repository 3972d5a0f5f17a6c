/* Collectives of a library that has several workers per process, such as gloo's two threads: each
 * communicator of a rank has n of them. They take its collectives in issue order, as they become
 * ready, and each is busy until its collective has ended. The k-th collective of every member is
 * the same one, whichever worker has it.
 *
 * Invariants: at most n collectives of a communicator run on a rank; one never starts before an
 * earlier one has. So all that are begun and not ended, on any member, are among the n of the
 * member that is furthest ahead, and n lanes are enough for a group. Not modelled: priorities
 * among workers, a pool that several communicators share. */
#include "sim/engine/engine.h"

bool sim_is_pooled(const struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;

    return p->next_pooled && p->next_pooled[unit] != SIM_NOT_POOLED;
}

void sim_workers_pass(struct sim_engine *e, int32_t rank)
{
    const struct sim_program *p = e->ranks[rank].program;

    for (int32_t c = 0; p->first_pooled && c < e->plan->n_comms; c++) {
        int32_t place = e->place_of[(int64_t)c * e->plan->n_ranks + rank];
        if (place >= 0 && e->pooled[c])
            e->ring[place].pool_next = p->first_pooled[c];
    }
}

static enum lw_status take(struct sim_engine *e, int32_t place)
{
    int32_t rank = e->ring[place].rank;
    int32_t *wait = e->ranks[rank].wait;

    while (e->ring[place].pool_running < e->n_workers && e->ring[place].pool_next >= 0 &&
           wait[e->ring[place].pool_next] == SIM_QUEUED) {
        int32_t unit = e->ring[place].pool_next;
        e->ring[place].pool_next = e->ranks[rank].program->next_pooled[unit];
        e->ring[place].pool_running++;
        LW_TRY(sim_unit_begin(e, rank, unit));
    }
    return LW_OK;
}

enum lw_status sim_workers_ready(struct sim_engine *e, int32_t rank, int32_t unit)
{
    int32_t comm = sim_unit_op(e, rank, unit).comm;
    int32_t place = e->place_of[(int64_t)comm * e->plan->n_ranks + rank];

    if (place < 0)
        return sim_unit_begin(e, rank, unit); /* says what is wrong */
    e->ranks[rank].wait[unit] = SIM_QUEUED;
    return take(e, place);
}

int32_t sim_workers_lane(struct sim_engine *e, int32_t place)
{
    int32_t first = e->ring[place].group, unused = first;
    int64_t turn = e->ring[place].turn++;

    for (int32_t k = first; k < first + e->n_workers; k++) {
        if (e->groups[k].turn == turn)
            return k;
        if (e->groups[k].turn < 0)
            unused = k;
    }
    e->groups[unused].turn = turn;
    return unused;
}

enum lw_status sim_workers_end(struct sim_engine *e, int32_t lane, int32_t place)
{
    e->place_unit[place * e->n_workers + lane - e->ring[place].group] = -1;
    e->ring[place].pool_running--;
    return take(e, place);
}
