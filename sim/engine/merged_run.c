/* How a merged unit (sim/engine/merge_ops.h) runs: the times of its parts, each from the end of
 * what it waits for.
 *
 * Where channels of collectives hold SMs, compute in the unit is slower beside the unit's own
 * collectives and beside those of others on the rank. The unit then has a small run of its own, by
 * the rules of timer.c: compute progresses at the rate that the SMs leave, which changes where a
 * collective begins or ends. What others hold is remembered from the unit's start on; when it
 * changes, the unit runs again from there and gets a new end. Nothing outside it depends on what
 * happens before that end (the program sees to it, merge_ops.h). */
#include "sim/engine/engine.h"

#include <string.h>

#include "shared/numbers/checked.h"

/* From when it may start on, alone; sms: what a collective holds meanwhile. */
static enum lw_status time_of_part(struct sim_engine *e, int32_t rank, int32_t number,
                                   const struct lw_op *op, lw_ps *time, int64_t *sms)
{
    *time = *sms = 0;
    if (lw_op_class(op->kind) == LW_CLASS_MEMORY)
        return LW_OK;
    if (lw_op_class(op->kind) == LW_CLASS_COLLECTIVE)
        return sim_collective_alone(e, rank, number, time, sms);
    return sim_work_at_full_rate(e, rank, number, time);
}

static enum lw_status put_row(struct sim_engine *e, int32_t rank, int32_t number, lw_ps start,
                              lw_ps end)
{
    bool collective = lw_op_class(LW_OP_HELD(e->plan, number)->kind) == LW_CLASS_COLLECTIVE;

    return e->rows ? sim_record_op(e, rank, number, start, collective ? start : -1, end) : LW_OK;
}

/* Where nothing slows a part. */
static enum lw_status run_parts(struct sim_engine *e, int32_t rank, int32_t unit, lw_ps *time)
{
    const struct sim_program *p = e->ranks[rank].program;
    int32_t first = sim_first_part(p, unit), n = sim_first_part(p, unit + 1) - first;
    const int32_t *first_inner = p->first_inner + p->merged[p->merged_of[unit]].first_inner;
    lw_ps *start = e->part_start; /* of each part, from now on */
    int64_t unused;

    memset(start, 0, (size_t)n * sizeof *start);
    for (int32_t i = 0; i < n; i++) {
        int32_t number = sim_part(p, first + i);
        const struct lw_op *op = LW_OP_HELD(e->plan, number);
        LW_TRY(time_of_part(e, rank, number, op, time, &unused));
        if (sim_is_on_device(op))
            *time = sim_time_at(*time, e->ranks[rank].speed);
        lw_ps at = lw_add_sat(e->now, start[i]);
        LW_TRY(put_row(e, rank, number, at, lw_add_sat(at, *time)));
        *time = lw_add_sat(start[i], *time);
        for (int32_t k = first_inner[i]; k < first_inner[i + 1]; k++)
            if (*time > start[p->inner[k]])
                start[p->inner[k]] = *time;
    }
    return LW_OK; /* the last part ends last */
}

/* --- beside collectives --- */

/* A run of a unit: its parts are e->part, those that run e->running. */
struct unit_run {
    int32_t rank, first, n_running;
    const int32_t *first_inner;
    lw_ps now;
    int64_t sms; /* that its own collectives hold */
};

/* Every part with its work, and how many it waits for. */
static enum lw_status read_parts(struct sim_engine *e, const struct unit_run *u, int32_t n)
{
    const struct sim_program *p = e->ranks[u->rank].program;

    for (int32_t i = 0; i < n; i++)
        e->part[i].wait = 0;
    for (int32_t i = 0; i < n; i++) {
        struct sim_part *x = &e->part[i];
        int32_t number = sim_part(p, u->first + i);
        const struct lw_op *op = LW_OP_HELD(e->plan, number);
        lw_ps work;
        LW_TRY(time_of_part(e, u->rank, number, op, &work, &x->sms));
        x->on_device = sim_is_on_device(op);
        x->left = (__int128)work * SIM_FULL_RATE;
        for (int32_t k = u->first_inner[i]; k < u->first_inner[i + 1]; k++)
            e->part[p->inner[k]].wait++;
    }
    return LW_OK;
}

static void start_part(struct sim_engine *e, struct unit_run *u, int32_t i)
{
    e->part[i].start = u->now;
    u->sms += e->part[i].sms;
    e->running[u->n_running++] = i;
}

/* Parts whose work is done end, and what waits for them starts, all in this instant. */
static enum lw_status end_parts(struct sim_engine *e, struct unit_run *u)
{
    const struct sim_program *p = e->ranks[u->rank].program;

    for (int32_t at = 0; at < u->n_running;) {
        int32_t i = e->running[at];
        if (e->part[i].left > 0) {
            at++;
            continue;
        }
        e->running[at] = e->running[--u->n_running];
        u->sms -= e->part[i].sms;
        LW_TRY(put_row(e, u->rank, sim_part(p, u->first + i), e->part[i].start, u->now));
        for (int32_t k = u->first_inner[i]; k < u->first_inner[i + 1]; k++)
            if (--e->part[p->inner[k]].wait == 0)
                start_part(e, u, p->inner[k]);
    }
    return LW_OK;
}

/* To the end of a part, or to `change`, whichever is first. */
static void advance(struct sim_engine *e, struct unit_run *u, int64_t beside, lw_ps change)
{
    int64_t rate = sim_rate_beside_channels(e, u->rank, u->sms + beside);
    lw_ps next = change;

    for (int32_t k = 0; k < u->n_running; k++) {
        const struct sim_part *x = &e->part[e->running[k]];
        lw_ps end =
            lw_add_sat(u->now, sim_time_for(x->left, x->on_device ? rate : SIM_FULL_RATE));
        next = end < next ? end : next;
    }
    for (int32_t k = 0; k < u->n_running; k++) {
        struct sim_part *x = &e->part[e->running[k]];
        x->left -= (__int128)(next - u->now) * (x->on_device ? rate : SIM_FULL_RATE);
    }
    u->now = next;
}

/* From the unit's start on, beside what others held since then. */
static enum lw_status run_beside(struct sim_engine *e, int32_t rank, int32_t unit,
                                 const struct sim_slot_state *s, lw_ps *end)
{
    const struct sim_program *p = e->ranks[rank].program;
    struct unit_run u = {.rank = rank, .first = sim_first_part(p, unit), .now = s->beside[0].from,
                         .first_inner = p->first_inner +
                                        p->merged[p->merged_of[unit]].first_inner};
    int64_t at = 0;

    LW_TRY(read_parts(e, &u, sim_first_part(p, unit + 1) - u.first));
    start_part(e, &u, 0);
    LW_TRY(end_parts(e, &u));
    while (u.n_running > 0 && u.now < INT64_MAX) {
        lw_ps change = at + 1 < s->n_beside ? s->beside[at + 1].from : INT64_MAX;
        advance(e, &u, s->beside[at].sms, change);
        at += u.now == change && change < INT64_MAX;
        LW_TRY(end_parts(e, &u));
    }
    *end = u.now;
    return LW_OK;
}

static enum lw_status note_beside(struct sim_engine *e, int32_t rank, struct sim_slot_state *s)
{
    if (s->n_beside > 0 && s->beside[s->n_beside - 1].from == e->now)
        s->n_beside--;
    LW_ROOM(s->beside, s->beside_capacity, s->n_beside + 1, e->err);
    s->beside[s->n_beside++] = (struct sim_beside){e->now, e->ranks[rank].more_sms};
    return LW_OK;
}

enum lw_status sim_merged_beside(struct sim_engine *e, int32_t rank, int32_t slot)
{
    struct sim_slot_state *s = &e->slots[slot];
    lw_ps end;

    if (!s->timer.running || s->n_beside == 0 ||
        s->beside[s->n_beside - 1].sms == e->ranks[rank].more_sms)
        return LW_OK;
    LW_TRY(note_beside(e, rank, s));
    LW_TRY(run_beside(e, rank, s->unit, s, &end));
    sim_timer_set(&s->timer, e->now, end - e->now);
    return sim_timer_rate(e, &s->timer, SIM_FULL_RATE, SIM_SLOT_END, slot);
}

void sim_slots_free(struct sim_engine *e)
{
    int64_t n = e->slots ? (int64_t)e->plan->n_ranks * e->plan->n_streams : 0;

    for (int64_t s = 0; s < n; s++)
        lw_free(e->slots[s].beside);
}

/* --- any merged unit --- */

static enum lw_status length_of(struct sim_engine *e, int32_t rank, int32_t unit, int32_t slot,
                                lw_ps *time)
{
    if (!e->terms.channels_alone)
        return run_parts(e, rank, unit, time);
    LW_TRY(run_beside(e, rank, unit, &e->slots[slot], time));
    *time -= *time < INT64_MAX ? e->now : 0;
    return LW_OK;
}

enum lw_status sim_merged_start(struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;
    struct sim_merged *x = &p->merged[p->merged_of[unit]];
    int32_t slot = sim_slot(e, rank, sim_unit_op(e, rank, unit).stream);
    int64_t speed = e->ranks[rank].speed;
    bool known = x->known && (x->by_rank ? x->rank == rank : x->speed == speed);
    lw_ps time = x->time;

    e->slots[slot].n_beside = 0;
    if (e->terms.channels_alone)
        LW_TRY(note_beside(e, rank, &e->slots[slot]));
    if (e->rows || !known || e->ranks[rank].more_sms > 0)
        LW_TRY(length_of(e, rank, unit, slot, &time));
    if (e->ranks[rank].more_sms == 0)
        *x = (struct sim_merged){x->first_inner, true, x->by_rank, rank, speed, time};
    if (time == 0) {
        e->slots[slot].n_beside = 0;
        return sim_unit_complete(e, rank, unit);
    }
    e->slots[slot].unit = unit;
    return sim_slot_start(e, rank, slot, time, false, 0);
}
