/* The event loop. Invariants: time never runs backwards; a unit starts in the instant in which the
 * last thing it waits for ends; at most one unit runs per slot, and at most one waits to start
 * there (pooled collectives apart: sim/engine/comm_threads.c); all that becomes ready in an instant
 * starts in the order in which it became so. Nothing is allocated per event: units, slots and
 * groups live in columns made by prepare.c.
 *
 * A pass is rank-local: a rank begins its next pass when all ops of the last one have ended there,
 * whatever other ranks do. A rank that the cluster calls late enters the first pass of each step
 * that much later.
 *
 * Not modelled: the host's own time between ops unless the plan has host ops, allocator behaviour,
 * clocks that differ. */
#include <assert.h>
#include <string.h>

#include "sim/engine/engine.h"
#include "shared/numbers/checked.h"

enum lw_status sim_post(struct sim_engine *e, lw_ps time, enum sim_event_kind kind,
                        uint32_t generation, int32_t index)
{
    uint64_t what = (uint64_t)kind << 60 | (uint64_t)generation << 32 | (uint32_t)index;

    return sim_queue_push(&e->queue, time, what) == 0 ? LW_OK : lw_fail_nomem(e->err);
}

static void make_ready(struct sim_engine *e, int32_t rank, int32_t unit)
{
    int64_t at = e->ready_head + e->n_ready++;

    assert(e->n_ready <= e->ready_capacity);
    e->ready[at < e->ready_capacity ? at : at - e->ready_capacity] =
        (uint64_t)(uint32_t)rank << 32 | (uint32_t)unit;
}

/* --- rows of the timeline --- */

static int64_t row_of(const struct sim_engine *e, int32_t rank, int32_t op)
{
    return e->ranks[rank].row + op - e->ranks[rank].program->first_op;
}

static enum lw_status noted(const struct sim_engine *e, bool has_memory)
{
    return has_memory ? LW_OK : lw_fail_nomem(e->err);
}

enum lw_status sim_op_all_in(struct sim_engine *e, int32_t rank, int32_t op, lw_ps all_in)
{
    return e->rows ? noted(e, lw_packed_put_all_in(e->rows, row_of(e, rank, op), all_in)) : LW_OK;
}

enum lw_status sim_all_in(struct sim_engine *e, int32_t rank, int32_t unit, lw_ps all_in)
{
    const struct sim_program *p = e->ranks[rank].program;

    return sim_op_all_in(e, rank, sim_part(p, sim_first_part(p, unit)), all_in);
}

enum lw_status sim_record_op(struct sim_engine *e, int32_t rank, int32_t op, lw_ps start,
                             lw_ps all_in, lw_ps end)
{
    const struct lw_times at = {.start = start, .all_in = all_in, .end = end};

    return noted(e, lw_packed_put(e->rows, row_of(e, rank, op), e->now, at));
}

static enum lw_status record_start(struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;

    for (int32_t i = sim_first_part(p, unit); i < sim_first_part(p, unit + 1); i++)
        LW_TRY(sim_record_op(e, rank, sim_part(p, i), e->now, -1, e->now));
    return LW_OK;
}

static enum lw_status record_end(struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;

    for (int32_t i = sim_first_part(p, unit); i < sim_first_part(p, unit + 1); i++)
        LW_TRY(noted(e, lw_packed_put_end(e->rows, row_of(e, rank, sim_part(p, i)), e->now)));
    return LW_OK;
}

/* --- passes --- */

static void enter_pass(struct sim_engine *e, int32_t rank)
{
    struct sim_rank *r = &e->ranks[rank];
    const struct sim_pass *pass = &e->passes[r->pass];
    const struct sim_program *p =
        &e->programs[(int64_t)pass->variant * e->plan->n_roles + lw_plan_role_of(e->plan, rank)];

    r->program = p;
    r->row = pass->row + e->variant_row[(int64_t)pass->variant * e->plan->n_ranks + rank];
    if (e->rows)
        lw_packed_run_at(e->rows, (int64_t)r->pass * e->plan->n_ranks + rank)->begin = e->now;
    r->units_left = p->n_units;
    memcpy(r->wait, p->wait, (size_t)p->n_units * sizeof *r->wait);
    sim_workers_pass(e, rank);
    for (int32_t i = 0; i < p->n_roots; i++)
        make_ready(e, rank, p->roots[i]);
}

/* How much later than possible a rank enters a step. */
static lw_ps delay_of(const struct sim_engine *e, int32_t rank)
{
    const struct sim_rank *r = &e->ranks[rank];
    uint64_t seed = sim_seed_of(e->options.seed, (uint64_t)e->passes[r->pass].step);

    return r->late + (e->options.start_skew_ps ? sim_skew(seed, e->skew, rank) : 0);
}

/* From the rank's pass on, until one has something to do. */
static enum lw_status begin_passes(struct sim_engine *e, int32_t rank)
{
    struct sim_rank *r = &e->ranks[rank];

    for (; r->pass < e->n_passes; r->pass++) {
        lw_ps delay = e->passes[r->pass].in_step == 0 ? delay_of(e, rank) : 0;
        if (delay > 0)
            return sim_post(e, lw_add_sat(e->now, delay), SIM_RANK_BEGIN, 0, rank);
        enter_pass(e, rank);
        if (r->units_left > 0)
            return LW_OK;
    }
    return LW_OK;
}

static enum lw_status late_begin(struct sim_engine *e, int32_t rank)
{
    enter_pass(e, rank);
    if (e->ranks[rank].units_left > 0)
        return LW_OK;
    e->ranks[rank].pass++;
    return begin_passes(e, rank);
}

enum lw_status sim_engine_begin(struct sim_engine *e)
{
    for (int32_t r = 0; r < e->plan->n_ranks; r++)
        LW_TRY(begin_passes(e, r));
    return LW_OK;
}

/* --- units --- */

static bool is_merged(const struct sim_program *p, int32_t unit)
{
    return p->merged_of && p->merged_of[unit] >= 0;
}

enum lw_status sim_unit_complete(struct sim_engine *e, int32_t rank, int32_t unit)
{
    struct sim_rank *r = &e->ranks[rank];
    const struct sim_program *p = r->program;

    r->wait[unit] = SIM_DONE;
    if (e->rows && !is_merged(p, unit))
        LW_TRY(record_end(e, rank, unit));
    for (int32_t i = p->first_next[unit]; i < p->first_next[unit + 1]; i++)
        if (--r->wait[p->next[i]] == 0)
            make_ready(e, rank, p->next[i]);
    if (--r->units_left > 0)
        return LW_OK;
    if (e->step_end)
        e->step_end[e->passes[r->pass].step] = e->now;
    r->pass++;
    return begin_passes(e, rank);
}

/* At full rate. */
enum lw_status sim_work_at_full_rate(const struct sim_engine *e, int32_t rank, int32_t number,
                                     lw_ps *work)
{
    const struct lw_op *op = LW_OP_HELD(e->plan, number);
    struct sim_work found;

    *work = sim_known_work(e, number);
    if (*work >= 0)
        return LW_OK;
    LW_TRY(sim_work_of(e->plan, e->cluster, number, op, lw_plan_operand(e->plan, op, rank).bytes,
                       &found, e->err));
    *work = found.time;
    return LW_OK;
}

bool sim_is_on_device(const struct lw_op *op)
{
    enum lw_op_class class_ = lw_op_class(op->kind);

    return class_ == LW_CLASS_COMPUTE || class_ == LW_CLASS_COPY;
}

static enum lw_status start_work(struct sim_engine *e, int32_t rank, int32_t unit, int32_t number)
{
    const struct lw_op *op = LW_OP_HELD(e->plan, number);
    int32_t slot = sim_slot(e, rank, op->stream);
    bool on_device = sim_is_on_device(op);
    int64_t memory = 0;
    lw_ps work;

    LW_TRY(sim_work_at_full_rate(e, rank, number, &work));
    if (on_device && e->terms.memory)
        memory = sim_memory_share(e->plan, e->cluster, op, lw_plan_operand(e->plan, op, rank).bytes,
                                  work);
    if (on_device && e->compute_sigma > 0)
        work = sim_noisy(e->options.seed, (uint64_t)rank, (uint64_t)e->ranks[rank].pass,
                         (uint64_t)number, e->compute_sigma, work);
    if (work == 0)
        return sim_unit_complete(e, rank, unit);
    e->slots[slot].unit = unit;
    return sim_slot_start(e, rank, slot, work, on_device, memory);
}

/* --- any unit --- */

enum lw_status sim_unit_begin(struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;
    int32_t number = sim_part(p, sim_first_part(p, unit));
    const struct lw_op *op = LW_OP_HELD(e->plan, number);

    e->ranks[rank].wait[unit] = SIM_STARTED;
    if (e->now < e->run_start)
        e->run_start = e->now;
    if (is_merged(p, unit))
        return sim_merged_start(e, rank, unit);
    if (e->rows)
        LW_TRY(record_start(e, rank, unit));
    switch (lw_op_class(op->kind)) {
    case LW_CLASS_COLLECTIVE:
        if (op->comm < 0 || e->place_of[(int64_t)op->comm * e->plan->n_ranks + rank] < 0)
            return lw_plan_op_fail(e->plan, number, e->err,
                                   ": rank %d is in no group of its communicator", rank);
        return sim_collective_enter(e, rank, unit);
    case LW_CLASS_P2P:
        return sim_p2p_enter(e, rank, unit);
    case LW_CLASS_MEMORY:
        return sim_unit_complete(e, rank, unit);
    default:
        return start_work(e, rank, unit, number);
    }
}

static enum lw_status start_ready(struct sim_engine *e)
{
    while (e->n_ready > 0) {
        uint64_t u = e->ready[e->ready_head];
        if (++e->ready_head == e->ready_capacity)
            e->ready_head = 0;
        e->n_ready--;
        int32_t rank = (int32_t)(u >> 32), unit = (int32_t)(uint32_t)u;
        LW_TRY(sim_is_pooled(e, rank, unit) ? sim_workers_ready(e, rank, unit)
                                            : sim_unit_begin(e, rank, unit));
    }
    return LW_OK;
}

static enum lw_status slot_end(struct sim_engine *e, int32_t slot)
{
    struct sim_timer *t = &e->slots[slot].timer;
    int32_t rank = slot / e->plan->n_streams;

    t->running = false;
    e->slots[slot].n_beside = 0;
    if (t->on_device) {
        t->on_device = false;
        e->ranks[rank].n_device--;
        if (!e->terms.channels_alone)
            sim_rank_changed(e, rank);
    }
    return sim_unit_complete(e, rank, e->slots[slot].unit);
}

/* --- the loop --- */

static const struct sim_timer *timer_of(const struct sim_engine *e, enum sim_event_kind kind,
                                        int32_t index)
{
    switch (kind) {
    case SIM_SLOT_END:
        return &e->slots[index].timer;
    case SIM_GROUP_END:
        return &e->groups[index].timer;
    case SIM_MESSAGE_END:
        return &e->messages[index].timer;
    default:
        return NULL;
    }
}

static enum lw_status handle(struct sim_engine *e, enum sim_event_kind kind, int32_t index)
{
    switch (kind) {
    case SIM_SLOT_END:
        return slot_end(e, index);
    case SIM_GROUP_END:
        return sim_group_end(e, index);
    case SIM_MESSAGE_END:
        return sim_message_end(e, index);
    case SIM_RANK_BEGIN:
        return late_begin(e, index);
    case SIM_CHUNK_ARRIVE:
        return sim_chunk_arrive(e, index);
    case SIM_CHUNK_END:
        return sim_chunk_end(e, index);
    }
    return LW_OK;
}

/* Passes that ranks have reached, of all. */
static void report(const struct sim_engine *e)
{
    int64_t reached = 0;

    for (int32_t r = 0; r < e->plan->n_ranks; r++)
        reached += e->ranks[r].pass;
    lw_progress_report(e->options.progress, "simulating",
                       (double)reached / ((double)e->n_passes * e->plan->n_ranks));
}

/* Sums of time stop at this value (shared/numbers/checked.h). */
static enum lw_status time_is_over(const struct sim_engine *e)
{
    return lw_fail(e->err, LW_EINVAL,
                   "the simulated time passes 2^63 ps (106 days) after %lld events: "
                   "longer runs cannot be simulated; shorten the times of the "
                   "workload or the cluster, or --steps",
                   (long long)e->stats->n_events);
}

enum { LOOK_EVERY = 1 << 12, REPORT_EVERY = 1 << 18 }; /* events; powers of two */

/* Reports the progress of the simulation, and ends it after a signal. */
static enum lw_status look_up(const struct sim_engine *e)
{
    if ((e->stats->n_events & (REPORT_EVERY - 1)) == 0)
        report(e);
    return lw_progress_stopped(e->options.progress)
               ? lw_fail(e->err, LW_EFAILED, "interrupted: the simulation is not complete")
               : LW_OK;
}

enum lw_status sim_engine_loop(struct sim_engine *e)
{
    struct sim_event event;
    int got;

    LW_TRY(start_ready(e));
    for (;;) {
        if (e->terms.dynamic && !sim_queue_more_now(&e->queue))
            LW_TRY(sim_rates_settle(e));
        got = sim_queue_pop(&e->queue, &event);
        if (got <= 0)
            break;
        enum sim_event_kind kind = (enum sim_event_kind)(event.what >> 60);
        int32_t index = (int32_t)(uint32_t)event.what;
        const struct sim_timer *t = timer_of(e, kind, index);
        if (t && (!t->running || t->generation != (event.what >> 32 & 0x0fffffff))) {
            e->stats->n_stale++;
            continue;
        }
        e->now = event.time;
        if (e->now == INT64_MAX)
            return time_is_over(e);
        if ((++e->stats->n_events & (LOOK_EVERY - 1)) == 0)
            LW_TRY(look_up(e));
        LW_TRY(handle(e, kind, index));
        LW_TRY(start_ready(e));
    }
    if (got < 0)
        return lw_fail_nomem(e->err);
    e->stats->end = e->now;
    for (int32_t r = 0; r < e->plan->n_ranks; r++)
        if (e->ranks[r].pass < e->n_passes)
            return e->merges ? lw_fail(e->err, LW_EFAILED, "ops wait for each other")
                             : sim_deadlock(e);
    return LW_OK;
}
