/* Streams on processor cores: a queue of commands and a thread that runs it in order.
 *
 * Invariants: commands of a stream start in the order given and each ends before the next starts; a
 * stamp is complete before `n_pending` stops counting its command; every wait ends within a few
 * milliseconds of `stop`, but for calls of a wire that cannot be ended. Ops of a communicator take
 * a ticket per member when given, and start in ticket order, so two streams of a rank cannot swap
 * them.
 *
 * A compute or copy op that waits for nothing starts when the op before it ends: what another
 * thread takes of the core in between is part of it, as it is when it comes a moment later. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/cpu/cpu_world.h"
#include "exec/backend/element.h"
#include "exec/cpu/gradients.h"
#include "exec/backend/optimizer.h"
#include "exec/cpu/sparse_rows.h"
#include "shared/base/arena.h"

/* --- running commands ------------------------------------------------------------------------- */

static enum lw_status end_by(int signal, struct lw_err *err)
{
    kill(getpid(), signal);
    return lw_fail(err, LW_EFAILED, "fault injection: the process survived signal %d", signal);
}

static void add_squares(const struct exec_part *p)
{
    double sum = exec_squares(p->from_dtype, p->from, p->count, p->divisor);

    exec_put(p->to_dtype, p->to, 0, exec_get(p->to_dtype, p->to, 0) + sum);
}

static void scale(const struct exec_part *p)
{
    double squares = exec_get(p->clip.dtype, p->clip.squares, 0);

    exec_scale(p->to_dtype, p->to, p->count, p->divisor,
               exec_clip_coefficient(squares, p->clip.norm));
}

static void add_copy(const struct exec_part *p)
{
    for (int64_t i = 0; i < p->count; i++)
        exec_put(p->to_dtype, p->to, i, exec_get(p->to_dtype, p->to, i) +
                                            exec_get(p->from_dtype, p->from, i) / p->divisor);
}

static enum lw_status run_product(const struct exec_world *w, const struct exec_part *p,
                                  struct lw_err *err)
{
    if (w->how.compute != EXEC_COMPUTE_GEMM)
        return lw_fail(err, LW_ENOTSUP, "a product of %lld rows needs --compute gemm",
                       (long long)p->count);
    exec_gemm_product(&w->gemm, (int)p->count, p->from, p->state[0], p->to);
    return LW_OK;
}

static enum lw_status run_part(const struct exec_world *w, const struct exec_part *p,
                               struct lw_err *err)
{
    switch (p->kind) {
    case EXEC_PART_FILL:
        exec_gradient_fill(&p->gradient, p->to_dtype, p->to, 0, p->count, p->add);
        return LW_OK;
    case EXEC_PART_COPY:
        if (p->add)
            add_copy(p);
        else
            exec_convert(p->to_dtype, p->to, p->from_dtype, p->from, p->count, p->divisor);
        return LW_OK;
    case EXEC_PART_UPDATE:
        exec_update_run(&p->update, p->to, p->state[0], p->state[1], p->from_dtype, p->from,
                        p->count, p->divisor);
        return LW_OK;
    case EXEC_PART_POISON:
        memset(p->to, 0xff, (size_t)(p->count * lw_dtype_size(p->to_dtype)));
        return LW_OK;
    case EXEC_PART_CHECK:
        if (!exec_has_poison(p->from_dtype, p->from, p->count))
            return LW_OK;
        return lw_fail(err, LW_EFAILED,
                       "weights of %s are used after they were freed or updated and before they "
                       "were gathered again", lw_dtype_name(p->from_dtype));
    case EXEC_PART_EXPECT:
        exec_gradient_expect(p);
        return LW_OK;
    case EXEC_PART_CARRY:
        exec_gradient_carry(p);
        return LW_OK;
    case EXEC_PART_GEMM:
        return run_product(w, p, err);
    case EXEC_PART_SQUARES:
        add_squares(p);
        return LW_OK;
    case EXEC_PART_SCALE:
        scale(p);
        return LW_OK;
    case EXEC_PART_ROWS_FILL:
    case EXEC_PART_ROWS_SEND:
    case EXEC_PART_ROWS_SUM:
    case EXEC_PART_ROWS_UPDATE:
    case EXEC_PART_ROWS_CLEAR:
        return exec_rows_run(p, err);
    case EXEC_PART_FAIL:
        return lw_fail(err, LW_EFAILED, "made to fail");
    case EXEC_PART_HANG:
        exec_sleep_until(INT64_MAX, &w->stop);
        return lw_fail(err, LW_EFAILED, "stopped while it hung");
    case EXEC_PART_FLIP:
        *(unsigned char *)p->to ^= 1;
        return LW_OK;
    case EXEC_PART_EXIT: _exit(1);
    case EXEC_PART_KILL: return end_by(SIGKILL, err);
    case EXEC_PART_STOP: return end_by(SIGSTOP, err);
    }
    return lw_fail(err, LW_ENOTSUP, "part of kind %d", (int)p->kind);
}

static void compute_rest(struct exec_stream *s, const struct exec_task *t, int64_t start_ns,
                         int64_t rest_ns)
{
    const struct exec_world *w = s->world;

    if (t->idle || w->how.compute == EXEC_COMPUTE_SLEEP)
        exec_sleep_until(start_ns + t->work_ns, &w->stop);
    else if (w->how.compute == EXEC_COMPUTE_SPIN)
        exec_spin_until(start_ns + t->work_ns, &w->stop);
    else
        exec_gemm_run(&w->gemm, &s->space, &w->rate[s->rank - w->first], rest_ns, &w->stop);
}

/* The parts count by the processor time they took, so that time lost to another thread of the core
 * is not made up for. */
static enum lw_status run_task(struct exec_stream *s, const struct cpu_command *c, int64_t start_ns,
                               struct lw_err *err)
{
    const struct exec_task *t = &c->task;
    int64_t rest = t->work_ns;

    if (t->n_parts > 0) {
        int64_t begin = rest > 0 ? exec_cpu_ns() : 0;
        for (int32_t i = 0; i < t->n_parts; i++)
            LW_TRY(run_part(s->world, &t->parts[i], err));
        if (rest > 0)
            rest -= exec_cpu_ns() - begin;
    }
    if (rest > 0)
        compute_rest(s, t, start_ns, rest);
    else if (t->work_ns > 0 && c->stamp)
        c->stamp->over_ns = -rest;
    return LW_OK;
}

static struct exec_counter *turn_of(const struct exec_stream *s, const struct cpu_command *c)
{
    return &c->comm->turn[c->comm->index_of[s->rank]];
}

static enum lw_status wait_turn(struct exec_stream *s, const struct cpu_command *c,
                                struct lw_err *err)
{
    if (exec_counter_wait(turn_of(s, c), c->ticket, INT64_MAX, &s->world->stop))
        return LW_OK;
    return lw_fail(err, LW_EFAILED, "stopped before it began");
}

static enum lw_status run_collective(struct exec_stream *s, const struct cpu_command *c,
                                     int64_t *all_in_ns, struct lw_err *err)
{
    LW_TRY(s->world->wire->collective(c->comm->link, c->comm->index_of[s->rank], c->op, &c->message,
                                      all_in_ns, err));
    exec_counter_set(turn_of(s, c), c->ticket + 1);
    return LW_OK;
}

static enum lw_status run_exchange(struct exec_stream *s, const struct cpu_command *c,
                                   int64_t *all_in_ns, struct lw_err *err)
{
    LW_TRY(s->world->wire->exchange(c->comm->link, c->comm->index_of[s->rank], c->message.mem,
                                    c->n_items, all_in_ns, err));
    exec_counter_set(turn_of(s, c), c->ticket + 1);
    return LW_OK;
}

static void stamp_items(const struct cpu_command *c, const struct exec_stamp *stamp)
{
    const struct exec_transfer *items = c->message.mem;

    for (int32_t k = 0; k < c->n_items; k++)
        if (items[k].stamp)
            *items[k].stamp = *stamp;
}

static enum lw_status run_stamped(struct exec_stream *s, const struct cpu_command *c,
                                  struct lw_err *err)
{
    struct exec_stamp own = {0}, *stamp = c->stamp ? c->stamp : &own;
    int64_t all_in = -1;

    *stamp = (struct exec_stamp){.issue_ns = s->issue_ns};
    s->issue_ns = 0;
    if (c->kind != CPU_COMPUTE)
        LW_TRY(wait_turn(s, c, err));
    stamp->start_ns = c->kind == CPU_COMPUTE && s->free_ns ? s->free_ns : exec_now_ns();
    if (c->kind == CPU_COMPUTE)
        LW_TRY(run_task(s, c, stamp->start_ns, err));
    else if (c->kind == CPU_COLLECTIVE)
        LW_TRY(run_collective(s, c, &all_in, err));
    else
        LW_TRY(run_exchange(s, c, &all_in, err));
    if (atomic_load(&s->world->stop))
        return lw_fail(err, LW_EFAILED, "stopped");
    stamp->all_in_ns = all_in > stamp->start_ns || all_in < 0 ? all_in : stamp->start_ns;
    stamp->end_ns = s->free_ns = exec_now_ns();
    if (c->kind == CPU_EXCHANGE)
        stamp_items(c, stamp);
    return LW_OK;
}

static bool wait_for(struct exec_stream *s, struct exec_counter *counter, uint32_t value)
{
    if (exec_counter_reached(counter, value))
        return true;
    s->free_ns = 0;
    return exec_counter_wait(counter, value, INT64_MAX, &s->world->stop);
}

static enum lw_status run_command(struct exec_stream *s, const struct cpu_command *c,
                                  struct lw_err *err)
{
    if (!wait_for(s, &s->world->released, c->batch))
        return lw_fail(err, LW_EFAILED, "stopped before it began");
    if (s->issue_ns == 0)
        s->issue_ns = s->free_ns ? s->free_ns : exec_now_ns();
    switch (c->kind) {
    case CPU_RECORD:
        atomic_store(&c->event->at_ns, s->free_ns ? s->free_ns : exec_now_ns());
        exec_counter_set(&c->event->done, c->ticket);
        return LW_OK;
    case CPU_WAIT:
        if (!wait_for(s, &c->event->done, c->ticket))
            return lw_fail(err, LW_EFAILED, "stopped while waiting for an event");
        if (s->free_ns && atomic_load(&c->event->at_ns) > s->free_ns)
            s->free_ns = atomic_load(&c->event->at_ns);
        return LW_OK;
    default:
        return run_stamped(s, c, err);
    }
}

static bool next_command(struct exec_stream *s, struct cpu_command *c)
{
    struct cpu_queue *q = &s->queue;

    pthread_mutex_lock(&s->mutex);
    if (q->head == q->n)
        s->free_ns = 0;
    while (q->head == q->n && !s->quit)
        pthread_cond_wait(&s->given, &s->mutex);
    bool there = q->head < q->n;
    if (there) {
        *c = q->items[q->head++];
        if (q->head == q->n)
            q->head = q->n = 0;
    }
    pthread_mutex_unlock(&s->mutex);
    return there;
}

static void *work(void *arg)
{
    struct exec_stream *s = arg;
    struct exec_world *w = s->world;
    struct cpu_command c;

    cpu_settle(w, s->rank);
    if (s->lifts && s->priority > 0)
        cpu_renice(-CPU_NICE_STEP);
    else if (!s->lifts && s->priority <= 0)
        cpu_renice(CPU_NICE_STEP);
    while (next_command(s, &c)) {
        struct lw_err err = {0};
        if (!atomic_load(&w->stop) && run_command(s, &c, &err) != LW_OK && !atomic_load(&w->stop) &&
            cpu_fail(w, &err) && c.stamp)
            c.stamp->end_ns = -1;
        if (c.kind == CPU_EXCHANGE)
            lw_free(c.message.mem);
        if (atomic_fetch_sub(&w->n_pending, 1) == 1)
            exec_counter_add(&w->idle, 1);
    }
    atomic_store(&s->ended, true);
    return NULL;
}

/* --- giving commands -------------------------------------------------------------------------- */

void cpu_stream_quit(struct exec_stream *s)
{
    pthread_mutex_lock(&s->mutex);
    s->quit = true;
    pthread_cond_signal(&s->given);
    pthread_mutex_unlock(&s->mutex);
}

void cpu_stream_free(struct exec_stream *s)
{
    if (s->started)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->given);
    pthread_mutex_destroy(&s->mutex);
    exec_gemm_space_free(&s->space);
    lw_free(s->queue.items);
    lw_free(s);
}

enum lw_status cpu_give(struct exec_stream *s, const struct cpu_command *c, struct lw_err *err)
{
    struct cpu_queue *q = &s->queue;

    atomic_fetch_add(&s->world->n_pending, 1);
    pthread_mutex_lock(&s->mutex);
    int full = lw_reserve(&q->items, &q->capacity, q->n + 1, sizeof *q->items);
    if (!full) {
        q->items[q->n] = *c;
        q->items[q->n++].batch = s->world->batch;
    }
    pthread_cond_signal(&s->given);
    pthread_mutex_unlock(&s->mutex);
    if (full)
        atomic_fetch_sub(&s->world->n_pending, 1);
    return full ? lw_fail_nomem(err) : LW_OK;
}

enum lw_status cpu_stream_create(struct exec_world *w, int32_t rank, const char *name,
                                 int32_t priority, struct exec_stream **stream, struct lw_err *err)
{
    struct exec_stream *s;

    LW_NEW(s, 1, err);
    s->world = w;
    s->rank = rank;
    s->priority = priority;
    s->lifts = w->lifts;
    snprintf(s->name, sizeof s->name, "%.9s.%d", name, rank % 10000);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->given, NULL);
    enum lw_status status =
        w->how.compute == EXEC_COMPUTE_GEMM ? exec_gemm_space_new(&s->space, err) : LW_OK;
    int failed = status == LW_OK ? pthread_create(&s->thread, NULL, work, s) : 0;
    if (failed)
        status = lw_fail(err, LW_EIO, "starting a thread: %s", strerror(failed));
    if (status != LW_OK) {
        cpu_stream_free(s);
        return status;
    }
    s->started = true;
    pthread_setname_np(s->thread, s->name);
    s->next = w->streams;
    w->streams = s;
    *stream = s;
    return LW_OK;
}

enum lw_status cpu_event_create(struct exec_world *w, int32_t rank, struct exec_event **event,
                                struct lw_err *err)
{
    struct exec_event *e = lw_calloc(1, sizeof *e);

    (void)rank;
    if (!e)
        return lw_fail_nomem(err);
    e->next = w->events;
    w->events = e;
    *event = e;
    return LW_OK;
}

enum lw_status cpu_event_record(struct exec_stream *s, struct exec_event *e, struct lw_err *err)
{
    struct cpu_command c = {.kind = CPU_RECORD, .event = e, .ticket = ++e->n_given};
    return cpu_give(s, &c, err);
}

enum lw_status cpu_event_wait(struct exec_stream *s, struct exec_event *e, struct lw_err *err)
{
    struct cpu_command c = {.kind = CPU_WAIT, .event = e, .ticket = e->n_given};
    return cpu_give(s, &c, err);
}

enum lw_status cpu_compute(struct exec_stream *s, const struct exec_task *task,
                           struct exec_stamp *stamp, struct lw_err *err)
{
    struct cpu_command c = {.kind = CPU_COMPUTE, .task = *task, .stamp = stamp};
    return cpu_give(s, &c, err);
}
