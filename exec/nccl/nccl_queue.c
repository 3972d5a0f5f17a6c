/* Commands in the order given, and what CUDA has of them.
 *
 * A command goes to CUDA as soon as it may. Between processes that is at once, in the order given
 * on every rank, so that communicators are entered in one order everywhere. In a loop (several
 * logical ranks in this process) a collective goes when all members have reached it, a wait when
 * its record has gone: later commands of its stream stay here, the other streams go on. So every
 * event is recorded before something waits for it, and whatever CUDA has can finish without the
 * host.
 *
 * A stream holds at most MAX_QUEUED entries (kernels, copies, events) of the driver's launch queue,
 * which holds 1,024: a launch blocks when the queue is full, and after an op that waits for another
 * rank it could block for ever, so that no abort is acted on. A task of more entries than that is
 * submitted to an empty stream only; its launches then wait for nothing but itself.
 *
 * A wait that goes late may see a later record of its event than the one it was given for. It then
 * waits for more than it must, never for less; and that record's own stream had nothing left to
 * wait for here, so it comes.
 *
 * Stamps: an op is put between two timing events. `issue` of an op is the end of the op before
 * it on its stream. */
#include "exec/nccl/nccl_world.h"

#include <string.h>

enum { MAX_QUEUED = 512 };

enum lw_status nccl_give(struct exec_world *w, const struct command *c,
                         const struct exec_transfer *items, struct lw_err *err)
{
    struct command *k;

    if (atomic_load(&w->stop))
        return nccl_stopped(w, err);
    k = lw_calloc(1, sizeof *k + (size_t)c->n_items * sizeof *k->items);
    if (!k)
        return lw_fail_nomem(err);
    memcpy(k, c, sizeof *k);
    for (int32_t i = 0; i < c->n_items; i++)
        k->items[i].x = items[i];
    k->next = NULL;
    *w->tail = k;
    w->tail = &k->next;
    return nccl_pump(w, err);
}

/* --- measured ops ----------------------------------------------------------------------------- */

void nccl_flight_drop(struct exec_world *w, struct flight *f)
{
    if (!f)
        return;
    if (f->start)
        nccl_timer_give(w, f->start);
    if (f->end)
        nccl_timer_give(w, f->end);
    lw_free(f->exchange);
    lw_free(f);
}

/* In a graph it is an event outside of it, recorded when the graph runs. */
static enum lw_status record_timer(struct exec_stream *s, CUevent e, struct lw_err *err)
{
    bool external = s->world->capturing;

    return nccl_cu(cuEventRecordWithFlags(e, s->cu, external ? CU_EVENT_RECORD_EXTERNAL
                                                             : CU_EVENT_RECORD_DEFAULT),
                   "cuEventRecord", err);
}

enum lw_status nccl_begin(struct exec_stream *s, struct flight **flight, struct lw_err *err)
{
    struct flight *f;

    LW_NEW(f, 1, err);
    enum lw_status status = nccl_timer_take(s->world, &f->start, err);
    if (status == LW_OK)
        status = nccl_timer_take(s->world, &f->end, err);
    if (status == LW_OK)
        status = record_timer(s, f->start, err);
    f->graph = s->world->capturing ? s->world->n_graphs : 0;
    s->n_queued++;
    if (status != LW_OK) {
        nccl_flight_drop(s->world, f);
        return status;
    }
    *flight = f;
    return LW_OK;
}

enum lw_status nccl_end(struct exec_stream *s, struct flight *f, struct exec_stamp *stamp,
                        enum lw_status so_far, struct lw_err *err)
{
    f->stamp = stamp;
    f->queued = ++s->n_queued;
    *s->tail = f;
    s->tail = &f->next;
    enum lw_status ended = record_timer(s, f->end, so_far == LW_OK ? err : NULL);
    return so_far != LW_OK ? so_far : ended;
}

static void stamp_all(const struct flight *f, const struct exec_stamp *stamp)
{
    if (f->stamp)
        *f->stamp = *stamp;
    for (int32_t i = 0; f->exchange && i < f->exchange->n_items; i++)
        if (f->exchange->items[i].x.stamp)
            *f->exchange->items[i].x.stamp = *stamp;
}

static void leave_round(struct flight *f)
{
    if (f->round && --f->round->n_flights == 0)
        lw_free(f->round);
    f->round = NULL;
}

static enum lw_status stamp_flight(struct exec_stream *s, struct flight *f, struct lw_err *err)
{
    struct exec_stamp stamp = {.issue_ns = s->last_end_ns, .all_in_ns = -1, .over_ns = f->over_ns};

    LW_TRY(nccl_time_of(s->world, f->start, &stamp.start_ns, err));
    LW_TRY(nccl_time_of(s->world, f->end, &stamp.end_ns, err));
    if (stamp.start_ns < s->floor_ns) /* the anchor was moved back since the op before */
        stamp.start_ns = s->floor_ns;
    if (stamp.end_ns < stamp.start_ns)
        stamp.end_ns = stamp.start_ns;
    if (stamp.issue_ns == 0 || stamp.issue_ns > stamp.start_ns)
        stamp.issue_ns = stamp.start_ns;
    if (f->round)
        stamp.all_in_ns = f->round->all_in_ns > stamp.end_ns ? stamp.end_ns : f->round->all_in_ns;
    stamp_all(f, &stamp);
    s->last_end_ns = s->floor_ns = stamp.end_ns;
    s->n_landed = f->queued;
    return LW_OK;
}

static enum lw_status note_entry(struct exec_world *w, struct flight *f, struct lw_err *err)
{
    int64_t at;

    LW_TRY(nccl_time_of(w, f->start, &at, err));
    f->noted = true;
    w->n_moves++;
    if (f->round) {
        f->round->n_missing--;
        if (at > f->round->all_in_ns)
            f->round->all_in_ns = at;
    }
    if (f->stamp && f->stamp->start_ns == 0)
        f->stamp->start_ns = at; /* tells what had begun, if it never ends */
    return LW_OK;
}

/* Two rounds over the streams: first every op that has begun is noted, then those that ended are
 * stamped, so that a collective's stamp knows all entries. */
enum lw_status nccl_harvest(struct exec_world *w, struct lw_err *err)
{
    bool done;

    for (struct exec_stream *s = w->streams; s; s = s->next)
        for (struct flight *f = s->head; f; f = f->next) {
            if (f->noted)
                continue;
            if (f->graph > w->n_graphs_done)
                break; /* its events are not recorded yet */
            LW_TRY(nccl_event_done(f->start, &done, err));
            if (!done)
                break;
            LW_TRY(note_entry(w, f, err));
        }
    for (struct exec_stream *s = w->streams; s; s = s->next) {
        while (s->head) {
            struct flight *f = s->head;
            if (f->graph > w->n_graphs_done)
                break;
            LW_TRY(nccl_event_done(f->end, &done, err));
            if (!done || f->fails || !f->noted || (f->round && f->round->n_missing > 0))
                break; /* what began since the first round is noted next time */
            LW_TRY(stamp_flight(s, f, err));
            s->head = f->next;
            if (!s->head)
                s->tail = &s->head;
            w->n_moves++;
            leave_round(f);
            nccl_flight_drop(w, f);
        }
    }
    return LW_OK;
}

/* --- handing over ----------------------------------------------------------------------------- */

static enum lw_status issue_compute(struct command *c, struct lw_err *err)
{
    struct flight *f;

    LW_TRY(nccl_begin(c->stream, &f, err));
    f->computes = true;
    return nccl_end(c->stream, f, c->stamp, nccl_issue_task(c->stream, &c->task, f, err), err);
}

static enum lw_status issue_wait(struct command *c, struct lw_err *err)
{
    if (c->event->n_issued < c->ticket)
        return LW_OK;
    c->issued = true;
    if (c->ticket == 0)
        return LW_OK;
    c->stream->n_queued++;
    return nccl_cu(cuStreamWaitEvent(c->stream->cu, c->event->cu, CU_EVENT_WAIT_DEFAULT),
                   "cuStreamWaitEvent", err);
}

static enum lw_status issue_comm(struct command *c, struct lw_err *err)
{
    if (c->stream->world->loop)
        return c->kind == CMD_EXCHANGE ? nccl_loop_exchange(c, &c->issued, err)
                                       : nccl_loop_collective(c, &c->issued, err);
    c->issued = true;
    return c->kind == CMD_EXCHANGE ? nccl_issue_exchange(c, err) : nccl_issue_collective(c, err);
}

/* Entries of a command: a collective is its events and its kernel or two copies, after an event of
 * its communicator; in a loop it has an event for each member; an exchange in a loop is a copy with
 * two events for each message. lw_plan_check relies on room for four collectives or exchanges. */
static int64_t entries(const struct command *c)
{
    enum { EVENTS = 2, COMM = 5, EACH = 4 };
    bool loop = c->stream->world->loop;

    switch (c->kind) {
    case CMD_COMPUTE: return EVENTS + nccl_task_entries(c->stream->world, &c->task);
    case CMD_COLLECTIVE: return EVENTS + COMM + (loop ? c->comm->n : 0);
    case CMD_EXCHANGE: return EVENTS + COMM + (loop ? EACH * (int64_t)c->n_items : 0);
    default: return 1;
    }
}

static bool has_room(const struct command *c)
{
    const struct exec_stream *s = c->stream;
    int64_t after = s->head && !s->world->capturing ? s->n_queued - s->n_landed : 0;

    return after == 0 || after + entries(c) <= MAX_QUEUED;
}

static enum lw_status issue(struct command *c, struct lw_err *err)
{
    switch (c->kind) {
    case CMD_RECORD:
        c->issued = true;
        c->event->n_issued = c->ticket;
        c->stream->n_queued++;
        return nccl_cu(cuEventRecord(c->event->cu, c->stream->cu), "cuEventRecord", err);
    case CMD_WAIT:
        return issue_wait(c, err);
    case CMD_COMPUTE:
        c->issued = true;
        return issue_compute(c, err);
    default:
        return issue_comm(c, err);
    }
}

/* Once over the queue; *any = something went. */
static enum lw_status pass(struct exec_world *w, bool *any, struct lw_err *err)
{
    struct command **at = &w->head;

    *any = false;
    for (struct exec_stream *s = w->streams; s; s = s->next)
        s->blocked = false;
    while (*at) {
        struct command *c = *at;
        enum lw_status s = LW_OK;
        if (atomic_load(&w->stop))
            return nccl_stopped(w, err);
        if (!c->issued && !c->stream->blocked && has_room(c)) {
            int64_t from = exec_now_ns();
            s = issue(c, err);
            w->submit_ns += w->capturing ? 0 : exec_now_ns() - from;
        }
        if (!c->issued) {
            LW_TRY(s);
            if (!w->loop)
                break;
            c->stream->blocked = true;
            at = &c->next;
            continue;
        }
        *at = c->next;
        if (!c->next)
            w->tail = at;
        *any = true;
        w->n_moves++;
        if (c->kind != CMD_EXCHANGE || s != LW_OK)
            lw_free(c); /* an exchange lives on in its flight */
        LW_TRY(s);
    }
    return LW_OK;
}

enum lw_status nccl_pump(struct exec_world *w, struct lw_err *err)
{
    bool any = !w->held;

    while (any && w->head)
        LW_TRY(pass(w, &any, err));
    return LW_OK;
}

bool nccl_idle(const struct exec_world *w)
{
    if (w->head)
        return false;
    for (const struct exec_stream *s = w->streams; s; s = s->next)
        if (s->head)
            return false;
    return true;
}

bool nccl_computing(const struct exec_world *w)
{
    for (const struct exec_stream *s = w->streams; s; s = s->next)
        if (s->head && s->head->noted && s->head->computes && !s->head->fails)
            return true;
    return false;
}

void nccl_queue_drop(struct exec_world *w)
{
    while (w->head) {
        struct command *c = w->head;
        w->head = c->next;
        nccl_flight_drop(w, c->flight);
        lw_free(c);
    }
    w->tail = &w->head;
    for (struct exec_stream *s = w->streams; s; s = s->next) {
        while (s->head) {
            struct flight *f = s->head;
            s->head = f->next;
            leave_round(f);
            nccl_flight_drop(w, f);
        }
        s->tail = &s->head;
    }
}
