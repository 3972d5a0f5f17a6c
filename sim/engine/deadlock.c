/* When nothing is pending and ops are left, ops wait for each other. Starting from the first
 * rank that is not done, follow "waits for" until a place comes up again: an op that entered
 * waits for the end that has not (that rank's next op on the communicator), an op that did not
 * enter waits for the first edge into it that is not done. The ops that entered on the way round
 * are named. */
#include <stdio.h>
#include <string.h>

#include "sim/engine/engine.h"

struct where {
    int32_t rank, unit; /* unit -1: the rank has no such op left */
};

static const int32_t *waits(const struct sim_engine *e, int32_t rank)
{
    return e->ranks[rank].wait;
}

static bool is_finished(const struct sim_engine *e, int32_t rank)
{
    return e->ranks[rank].pass >= e->n_passes;
}

/* First unit of the rank's pass on a communicator that has not entered; for sends and receives,
 * with that peer and direction. */
static int32_t not_entered(const struct sim_engine *e, int32_t rank, int32_t comm, int32_t peer,
                           enum lw_op_kind kind)
{
    const struct sim_program *p = e->ranks[rank].program;

    if (is_finished(e, rank) || !p)
        return -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(e->plan, p->first_op + i);
        int32_t mark = waits(e, rank)[p->unit_of[i]];
        if (mark == SIM_STARTED || mark == SIM_DONE || op->comm != comm)
            continue;
        if (peer < 0 ||
            (op->kind == kind && lw_plan_operand(e->plan, op, rank).peer == peer))
            return p->unit_of[i];
    }
    return -1;
}

/* Which of its group's lanes a unit has entered. */
static int32_t lane_of(const struct sim_engine *e, int32_t place, int32_t unit)
{
    int32_t k = 0;

    while (k + 1 < e->n_workers && e->place_unit[place * e->n_workers + k] != unit)
        k++;
    return k;
}

static struct where missing_member(const struct sim_engine *e, const struct lw_op *op, int32_t rank,
                                   int32_t unit)
{
    int32_t place = e->place_of[(int64_t)op->comm * e->plan->n_ranks + rank];
    const struct sim_group *g = &e->groups[e->ring[place].group];
    int32_t lane = lane_of(e, place, unit);

    for (int32_t i = 0; i < g->n_places; i++) {
        int32_t r = e->ring[g->first + i].rank;
        int32_t u = e->place_unit[(g->first + i) * e->n_workers + lane];
        if (!is_finished(e, r) && e->ranks[r].program && u >= 0 && waits(e, r)[u] == SIM_STARTED &&
            sim_unit_op(e, r, u).comm == op->comm)
            continue;
        return (struct where){r, not_entered(e, r, op->comm, -1, op->kind)};
    }
    return (struct where){rank, -1};
}

/* The message of this unit that lacks its other end. */
static struct where missing_peer(const struct sim_engine *e, int32_t rank, int32_t unit)
{
    for (int32_t m = 0; m < e->n_messages; m++) {
        const struct sim_message *x = &e->messages[m];
        for (int side = 0; side < 2; side++)
            if (x->rank[side] == rank && x->unit[side] == unit && x->unit[!side] < 0)
                return (struct where){x->rank[!side],
                                      not_entered(e, x->rank[!side], x->comm, rank,
                                                  side == 0 ? LW_OP_RECV : LW_OP_SEND)};
    }
    return (struct where){rank, -1};
}

/* First unit of the rank that is not done and has an edge into `unit`; -1 = none. */
static int32_t first_edge_into(const struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;

    for (int32_t u = 0; u < p->n_units; u++)
        for (int32_t i = p->first_next[u]; i < p->first_next[u + 1]; i++)
            if (p->next[i] == unit && waits(e, rank)[u] != SIM_DONE)
                return u;
    return -1;
}

/* A collective that no worker took: an earlier one is not ready, or all workers are busy. */
static struct where waits_for_worker(const struct sim_engine *e, const struct lw_op *op,
                                     int32_t rank)
{
    int32_t place = e->place_of[(int64_t)op->comm * e->plan->n_ranks + rank];

    if (e->ring[place].pool_running < e->n_workers)
        return (struct where){rank, e->ring[place].pool_next};
    return (struct where){rank, e->place_unit[place * e->n_workers]};
}

static struct where follow(const struct sim_engine *e, struct where w)
{
    const struct lw_op op = sim_unit_op(e, w.rank, w.unit);

    if (waits(e, w.rank)[w.unit] == SIM_QUEUED)
        return waits_for_worker(e, &op, w.rank);
    if (waits(e, w.rank)[w.unit] != SIM_STARTED)
        return (struct where){w.rank, first_edge_into(e, w.rank, w.unit)};
    if (lw_op_class(op.kind) == LW_CLASS_P2P)
        return missing_peer(e, w.rank, w.unit);
    return missing_member(e, &op, w.rank, w.unit);
}

static void describe(const struct sim_engine *e, struct where w, char *text, size_t size)
{
    const struct lw_op op = sim_unit_op(e, w.rank, w.unit);
    int32_t peer = lw_plan_operand(e->plan, &op, w.rank).peer;
    char other[32] = "";

    if (lw_op_class(op.kind) == LW_CLASS_P2P)
        snprintf(other, sizeof other, " %s %d", op.kind == LW_OP_SEND ? "to" : "from", peer);
    snprintf(text, size, "rank %d %s%s%s%s (op %d)%s", w.rank, lw_op_name(op.kind), other,
             *op.name ? " " : "", op.name, sim_unit_number(e, w.rank, w.unit),
             waits(e, w.rank)[w.unit] == SIM_STARTED ? " entered" : " cannot start");
}

static void append(char *list, size_t size, const char *text, const char *before)
{
    size_t used = strlen(list);

    if (used + strlen(text) + strlen(before) + 8 < size)
        snprintf(list + used, size - used, "%s%s", before, text);
    else if (used + 6 < size && (used < 3 || strcmp(list + used - 3, "...") != 0))
        snprintf(list + used, size - used, " ...");
}

enum lw_status sim_deadlock(struct sim_engine *e)
{
    enum { LIMIT = 1 << 16 };
    struct where w = {0, 0}, mark;
    char list[420] = "", text[160];
    int64_t steps = 0, power = 1;

    while (is_finished(e, w.rank))
        w.rank++;
    while (waits(e, w.rank)[w.unit] == SIM_DONE)
        w.unit++;
    /* Brent's cycle search: mark is set to w at growing distances until w meets it again. */
    mark = (struct where){-1, -1};
    for (; steps < LIMIT; steps++) {
        if (steps == power) {
            mark = w;
            power *= 2;
        }
        struct where next = follow(e, w);
        if (next.unit < 0) {
            describe(e, w, text, sizeof text);
            return lw_fail(e->err, LW_EFAILED, "%s waits for rank %d, which %s", text, next.rank,
                           is_finished(e, next.rank) ? "has finished" : "issues nothing that fits");
        }
        w = next;
        if (w.rank == mark.rank && w.unit == mark.unit)
            break;
    }
    mark = w;
    do {
        describe(e, w, text, sizeof text);
        append(list, sizeof list, text, *list ? "; waits for " : "");
        w = follow(e, w);
    } while (steps < LIMIT && (w.rank != mark.rank || w.unit != mark.unit));
    return lw_fail(e->err, LW_EFAILED, "ops wait for each other: %s; waits for the first", list);
}
