/* The threads backend: ranks are threads of one process, and the reference for every other backend.
 *
 * Each stream of a rank is a queue and a thread that runs it in order. The threads of a rank are
 * pinned to one core (rank r on the r-th core this process may use, modulo their number), so that
 * communication and computation of a rank share a core as they share a device elsewhere. Streams of
 * greater priority get a nice level NICE_STEP better than the rest: lifted where the system allows it,
 * else the others are lowered by as much. A woken communication thread then runs at once instead of
 * waiting for the end of the compute thread's time slice.
 *
 * Invariants: commands of a stream start in the order given and each ends before the next starts; a
 * stamp is complete before `n_pending` stops counting its command; every wait ends within a few milliseconds
 * of `stop`; no thread outlives close. Ops of a communicator take a ticket per member when given,
 * and start in ticket order, so two streams of a rank cannot swap them.
 *
 * A compute or copy op that waits for nothing starts when the op before it ends: what another thread
 * takes of the core in between is part of it, as it is when it comes a moment later. */
#include "exec/backend.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/gemm.h"
#include "exec/gradients.h"
#include "exec/element.h"
#include "exec/optimizer.h"
#include "exec/thread_ring.h"
#include "exec/spin.h"
#include "shared/arena.h"
#include "shared/op.h"

enum { NICE_STEP = 19, MEASURE_NS = 60 * 1000 * 1000, MAX_RANKS = 1024, GROUP_MAX = 64 };

enum command_kind { CMD_RECORD, CMD_WAIT, CMD_COMPUTE, CMD_COLLECTIVE, CMD_EXCHANGE };

struct command {
    enum command_kind kind;
    enum lw_op_kind op;
    uint32_t batch;  /* held back until `released` reaches it */
    uint32_t ticket; /* events: value of `done`; communication: turn of the member */
    int32_t n_items; /* exchange: sends and receives, in the stream's items */
    struct exec_event *event;
    struct exec_comm *comm;
    struct exec_stamp *stamp;
    struct exec_task task;
    struct exec_message message;
};

struct exchange_item {
    enum lw_op_kind op;
    struct exec_message message;
    struct exec_stamp *stamp;
};

struct queue { /* commands [head, n) wait; a mutex of the stream guards it */
    struct command *items;
    int64_t head, n, capacity;
};

struct exec_stream {
    struct exec_world *world;
    struct exec_stream *next;
    int32_t rank, priority;
    char name[16];
    pthread_t thread;
    bool started, quit;
    pthread_mutex_t mutex;
    pthread_cond_t given;
    struct queue queue;
    struct exec_gemm_space space;
    int64_t issue_ns; /* when it came to the op at hand; 0 = not yet */
    int64_t free_ns; /* since when it could run the next op, if it never slept since; else 0 */
    /* group of sends and receives being given; copied into the command's own block */
    bool in_group;
    struct exec_comm *group_comm;
    int32_t n_group;
    struct exchange_item group[GROUP_MAX];
};

struct exec_event {
    struct exec_event *next;
    uint32_t n_given;
    struct exec_counter done;
    _Atomic int64_t at_ns; /* of the last record */
};

struct exec_comm {
    struct exec_comm *next;
    struct exec_ring *ring;
    int32_t n, *members, *index_of; /* [n]; [n_ranks], -1 = outside */
    uint32_t *n_given;              /* [n] tickets handed out */
    struct exec_counter *turn;      /* [n] tickets served */
};

struct block { /* memory of a rank */
    struct block *next;
    _Alignas(16) unsigned char bytes[];
};

struct exec_world {
    struct exec_open how;
    struct exec_gemm gemm;
    struct exec_gemm_rate *rate; /* [n_ranks] */
    int32_t n_cores, *cores;
    bool lifts;                  /* a better nice level is allowed */
    struct exec_stream *streams;
    struct exec_event *events;
    struct exec_comm *comms;
    struct block *blocks;
    uint32_t batch;              /* of what is given now */
    _Atomic int64_t n_pending;   /* commands given and not done */
    struct exec_counter idle;    /* times that n_pending came to 0: poll is woken then only */
    struct exec_counter released;
    atomic_bool stop;
    pthread_mutex_t mutex;       /* guards failure */
    struct lw_err failure;
    char compute[192], about[256];
};

static bool threads_probe(char reason[EXEC_REASON])
{
    reason[0] = '\0';
    return true;
}

/* --- placement ---------------------------------------------------------------------------------- */

static enum lw_status find_cores(struct exec_world *w, struct lw_err *err)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) == 0)
        return lw_fail(err, LW_EIO, "the system does not say which cores this process may use");
    w->cores = lw_calloc((size_t)CPU_COUNT(&set), sizeof *w->cores);
    if (!w->cores)
        return lw_fail_nomem(err);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &set))
            w->cores[w->n_cores++] = c;
    return LW_OK;
}

static void settle(const struct exec_world *w, int32_t rank)
{
    cpu_set_t set;

    prctl(PR_SET_TIMERSLACK, 1L, 0, 0, 0);
    if (!w->how.pin)
        return;
    CPU_ZERO(&set);
    CPU_SET(w->cores[rank % w->n_cores], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static bool renice(int delta)
{
    id_t self = (id_t)syscall(SYS_gettid);
    return setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + delta) == 0;
}

/* --- running commands --------------------------------------------------------------------------- */

static enum lw_status run_part(const struct exec_part *p, const atomic_bool *stop,
                               struct lw_err *err)
{
    switch (p->kind) {
    case EXEC_PART_FILL:
        exec_gradient_fill(&p->gradient, p->to_dtype, p->to, 0, p->count, p->add);
        return LW_OK;
    case EXEC_PART_COPY:
        exec_convert(p->to_dtype, p->to, p->from_dtype, p->from, p->count, p->divisor);
        return LW_OK;
    case EXEC_PART_SGD:
        exec_sgd(p->to, p->state, p->from_dtype, p->from, p->count, p->divisor, p->rate,
                 p->momentum);
        return LW_OK;
    case EXEC_PART_FAIL:
        return lw_fail(err, LW_EFAILED, "made to fail");
    case EXEC_PART_HANG:
        exec_sleep_until(INT64_MAX, stop);
        return lw_fail(err, LW_EFAILED, "stopped while it hung");
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
        exec_gemm_run(&w->gemm, &s->space, &w->rate[s->rank], rest_ns, &w->stop);
}

/* The parts count by the processor time they took, so that time lost to another thread of the core
 * is not made up for. */
static enum lw_status run_task(struct exec_stream *s, const struct command *c, int64_t start_ns,
                               struct lw_err *err)
{
    const struct exec_task *t = &c->task;
    int64_t rest = t->work_ns;

    if (t->n_parts > 0) {
        int64_t begin = rest > 0 ? exec_cpu_ns() : 0;
        for (int32_t i = 0; i < t->n_parts; i++)
            LW_TRY(run_part(&t->parts[i], &s->world->stop, err));
        if (rest > 0)
            rest -= exec_cpu_ns() - begin;
    }
    if (rest > 0)
        compute_rest(s, t, start_ns, rest);
    else if (t->work_ns > 0 && c->stamp)
        c->stamp->over_ns = -rest;
    return LW_OK;
}

static int32_t member_of(const struct exec_comm *c, int32_t rank)
{
    return c->index_of[rank];
}

static enum lw_status wait_turn(struct exec_stream *s, const struct command *c, struct lw_err *err)
{
    struct exec_counter *turn = &c->comm->turn[member_of(c->comm, s->rank)];

    if (exec_counter_wait(turn, c->ticket, INT64_MAX, &s->world->stop))
        return LW_OK;
    return lw_fail(err, LW_EFAILED, "stopped before it began");
}

static enum lw_status run_collective(struct exec_stream *s, const struct command *c,
                                     int64_t *all_in_ns, struct lw_err *err)
{
    int32_t i = member_of(c->comm, s->rank);

    LW_TRY(exec_ring_run(c->comm->ring, i, c->op, &c->message, all_in_ns, err));
    exec_counter_set(&c->comm->turn[i], c->ticket + 1);
    return LW_OK;
}

static enum lw_status run_exchange(struct exec_stream *s, const struct command *c,
                                   struct lw_err *err)
{
    const struct exchange_item *items = c->message.mem;
    struct exec_message m[GROUP_MAX];
    enum lw_op_kind op[GROUP_MAX];
    int32_t i = member_of(c->comm, s->rank);

    for (int32_t k = 0; k < c->n_items; k++) {
        m[k] = items[k].message;
        op[k] = items[k].op;
    }
    LW_TRY(exec_ring_exchange(c->comm->ring, i, m, op, c->n_items, err));
    exec_counter_set(&c->comm->turn[i], c->ticket + 1);
    return LW_OK;
}

static void stamp_items(const struct command *c, const struct exec_stamp *stamp)
{
    const struct exchange_item *items = c->message.mem;

    for (int32_t k = 0; k < c->n_items; k++)
        if (items[k].stamp)
            *items[k].stamp = *stamp;
}

static enum lw_status run_stamped(struct exec_stream *s, const struct command *c,
                                  struct lw_err *err)
{
    struct exec_stamp own = {0}, *stamp = c->stamp ? c->stamp : &own;
    int64_t all_in = -1;

    *stamp = (struct exec_stamp){.issue_ns = s->issue_ns};
    s->issue_ns = 0;
    if (c->kind != CMD_COMPUTE)
        LW_TRY(wait_turn(s, c, err));
    stamp->start_ns = c->kind == CMD_COMPUTE && s->free_ns ? s->free_ns : exec_now_ns();
    if (c->kind == CMD_COMPUTE)
        LW_TRY(run_task(s, c, stamp->start_ns, err));
    else if (c->kind == CMD_COLLECTIVE)
        LW_TRY(run_collective(s, c, &all_in, err));
    else
        LW_TRY(run_exchange(s, c, err));
    if (atomic_load(&s->world->stop))
        return lw_fail(err, LW_EFAILED, "stopped");
    stamp->all_in_ns = all_in > stamp->start_ns || all_in < 0 ? all_in : stamp->start_ns;
    stamp->end_ns = s->free_ns = exec_now_ns();
    if (c->kind == CMD_EXCHANGE)
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

static enum lw_status run_command(struct exec_stream *s, const struct command *c,
                                  struct lw_err *err)
{
    if (!wait_for(s, &s->world->released, c->batch))
        return lw_fail(err, LW_EFAILED, "stopped before it began");
    if (s->issue_ns == 0)
        s->issue_ns = s->free_ns ? s->free_ns : exec_now_ns();
    switch (c->kind) {
    case CMD_RECORD:
        atomic_store(&c->event->at_ns, s->free_ns ? s->free_ns : exec_now_ns());
        exec_counter_set(&c->event->done, c->ticket);
        return LW_OK;
    case CMD_WAIT:
        if (!wait_for(s, &c->event->done, c->ticket))
            return lw_fail(err, LW_EFAILED, "stopped while waiting for an event");
        if (s->free_ns && atomic_load(&c->event->at_ns) > s->free_ns)
            s->free_ns = atomic_load(&c->event->at_ns);
        return LW_OK;
    default:
        return run_stamped(s, c, err);
    }
}

/* The first failure is kept; everything else then stops. */
static bool fail_world(struct exec_world *w, const struct lw_err *why)
{
    pthread_mutex_lock(&w->mutex);
    bool first = w->failure.code == LW_OK;
    if (first)
        w->failure = *why;
    pthread_mutex_unlock(&w->mutex);
    atomic_store(&w->stop, true);
    exec_counter_wake(&w->idle);
    return first;
}

static bool next_command(struct exec_stream *s, struct command *c)
{
    struct queue *q = &s->queue;

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
    struct command c;

    settle(w, s->rank);
    if (w->lifts && s->priority > 0)
        renice(-NICE_STEP);
    else if (!w->lifts && s->priority <= 0)
        renice(NICE_STEP);
    while (next_command(s, &c)) {
        struct lw_err err = {0};
        if (!atomic_load(&w->stop) && run_command(s, &c, &err) != LW_OK &&
            !atomic_load(&w->stop) && fail_world(w, &err) && c.stamp)
            c.stamp->end_ns = -1;
        if (c.kind == CMD_EXCHANGE)
            lw_free(c.message.mem);
        if (atomic_fetch_sub(&w->n_pending, 1) == 1)
            exec_counter_add(&w->idle, 1);
    }
    return NULL;
}

/* --- opening and closing ------------------------------------------------------------------------ */

struct measurement {
    struct exec_world *world;
    int32_t rank;
    pthread_t thread;
    struct exec_gemm_space space;
    bool started, lifted;
};

static void *measure(void *arg)
{
    struct measurement *m = arg;
    struct exec_world *w = m->world;

    settle(w, m->rank);
    if (w->how.compute == EXEC_COMPUTE_GEMM)
        exec_gemm_measure(&w->gemm, &m->space, MEASURE_NS, &w->stop, &w->rate[m->rank]);
    m->lifted = renice(-NICE_STEP);
    return NULL;
}

/* One thread per rank, all at once: what a product costs while every rank computes, and whether
 * threads may be lifted. */
static enum lw_status measure_all(struct exec_world *w, struct lw_err *err)
{
    int32_t n = w->how.n_ranks, failed = 0;
    struct measurement *m = lw_calloc((size_t)n, sizeof *m);

    if (!m)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < n; r++) {
        m[r] = (struct measurement){.world = w, .rank = r};
        if (exec_gemm_space_new(&m[r].space, err) != LW_OK)
            failed = ENOMEM;
    }
    for (int32_t r = 0; r < n && !failed; r++) {
        failed = pthread_create(&m[r].thread, NULL, measure, &m[r]);
        m[r].started = !failed;
    }
    if (failed)
        atomic_store(&w->stop, true);
    for (int32_t r = 0; r < n; r++) {
        if (m[r].started)
            pthread_join(m[r].thread, NULL);
        exec_gemm_space_free(&m[r].space);
    }
    w->lifts = !failed && m[0].lifted;
    lw_free(m);
    if (failed == ENOMEM)
        return lw_fail_nomem(err);
    return failed ? lw_fail(err, LW_EIO, "starting a thread: %s", strerror(failed)) : LW_OK;
}

static void describe(struct exec_world *w)
{
    if (w->how.compute == EXEC_COMPUTE_GEMM)
        snprintf(w->compute, sizeof w->compute, "%s, sgemm of %d", w->gemm.name, EXEC_GEMM_UNIT);
    else
        snprintf(w->compute, sizeof w->compute, "%s",
                 w->how.compute == EXEC_COMPUTE_SPIN ? "busy wait by the clock"
                                                     : "sleep by the clock");
    snprintf(w->about, sizeof w->about,
             "%d ranks on %d cores, %s; communication threads %d nice levels above compute (%s)",
             w->how.n_ranks, w->n_cores, w->how.pin ? "pinned" : "not pinned", NICE_STEP,
             w->lifts ? "lifted" : "compute lowered: the system refuses a better level");
}

static void threads_close(struct exec_world *w);

static enum lw_status threads_open(const struct exec_open *how, struct exec_world **world,
                                   struct lw_err *err)
{
    if (how->n_ranks < 1 || how->n_ranks > MAX_RANKS)
        return lw_fail(err, LW_EINVAL, "threads: %d ranks (1 to %d)", how->n_ranks, MAX_RANKS);
    struct exec_world *w = lw_calloc(1, sizeof *w);
    if (!w)
        return lw_fail_nomem(err);
    w->how = *how;
    pthread_mutex_init(&w->mutex, NULL);
    if (how->compute == EXEC_COMPUTE_GEMM)
        exec_gemm_open(&w->gemm);
    w->rate = lw_calloc((size_t)how->n_ranks, sizeof *w->rate);
    enum lw_status status = w->rate ? find_cores(w, err) : lw_fail_nomem(err);
    if (status == LW_OK)
        status = measure_all(w, err);
    if (status != LW_OK) {
        threads_close(w);
        return status;
    }
    describe(w);
    *world = w;
    return LW_OK;
}

static void threads_abort(struct exec_world *w, const char *why)
{
    struct lw_err err = {.code = LW_EFAILED};

    snprintf(err.msg, sizeof err.msg, "%s", why);
    fail_world(w, &err);
}

static void close_stream(struct exec_stream *s)
{
    if (s->started) {
        pthread_mutex_lock(&s->mutex);
        s->quit = true;
        pthread_cond_signal(&s->given);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->thread, NULL);
    }
    pthread_cond_destroy(&s->given);
    pthread_mutex_destroy(&s->mutex);
    exec_gemm_space_free(&s->space);
    lw_free(s->queue.items);
    lw_free(s);
}

static void free_comm(struct exec_comm *c)
{
    exec_ring_free(c->ring);
    lw_free(c->members);
    lw_free(c->index_of);
    lw_free(c->n_given);
    lw_free(c->turn);
    lw_free(c);
}

static void threads_close(struct exec_world *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, true);
    while (w->streams) {
        struct exec_stream *s = w->streams;
        w->streams = s->next;
        close_stream(s);
    }
    while (w->comms) {
        struct exec_comm *c = w->comms;
        w->comms = c->next;
        free_comm(c);
    }
    while (w->events) {
        struct exec_event *e = w->events;
        w->events = e->next;
        lw_free(e);
    }
    while (w->blocks) {
        struct block *b = w->blocks;
        w->blocks = b->next;
        lw_free(b);
    }
    pthread_mutex_destroy(&w->mutex);
    lw_free(w->cores);
    lw_free(w->rate);
    lw_free(w);
}

static void threads_facts(const struct exec_world *w, struct exec_facts *f)
{
    *f = (struct exec_facts){
        .n_ranks = w->how.n_ranks,
        .n_local = w->how.n_ranks,
        .honesty = w->how.link_bytes_per_s > 0 ? EXEC_PACED : EXEC_REAL,
        .oversubscribed = w->how.n_ranks > w->n_cores,
        .n_cores = w->n_cores,
        .compute = w->compute,
        .about = w->about,
        .unit_ns = w->rate[0].unit_ns,
        .unit_flops = 2.0 * EXEC_GEMM_UNIT * EXEC_GEMM_UNIT * EXEC_GEMM_UNIT,
        .device = "cpu core",
        .memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE),
        .comm_on_compute_core = w->how.pin,
    };
}

static int64_t threads_now_ns(const struct exec_world *w)
{
    (void)w;
    return exec_now_ns();
}

/* --- memory ------------------------------------------------------------------------------------- */

static enum lw_status threads_mem_alloc(struct exec_world *w, int32_t rank, int64_t bytes,
                                        void **mem, struct lw_err *err)
{
    struct block *b = bytes < 0 ? NULL : lw_alloc(sizeof *b + (size_t)bytes);

    if (!b)
        return lw_fail(err, LW_ENOMEM, "rank %d: out of memory for %lld bytes", rank,
                       (long long)bytes);
    memset(b->bytes, 0, (size_t)bytes); /* pages are there before anything is timed */
    b->next = w->blocks;
    w->blocks = b;
    *mem = b->bytes;
    return LW_OK;
}

static void threads_mem_free(struct exec_world *w, int32_t rank, void *mem)
{
    (void)rank;
    for (struct block **b = &w->blocks; *b; b = &(*b)->next) {
        if ((*b)->bytes != mem)
            continue;
        struct block *gone = *b;
        *b = gone->next;
        lw_free(gone);
        return;
    }
}

static enum lw_status threads_mem_read(struct exec_world *w, int32_t rank, void *host,
                                       const void *mem, int64_t bytes, struct lw_err *err)
{
    (void)w, (void)rank, (void)err;
    memcpy(host, mem, (size_t)bytes);
    return LW_OK;
}

static enum lw_status threads_mem_write(struct exec_world *w, int32_t rank, void *mem,
                                        const void *host, int64_t bytes, struct lw_err *err)
{
    (void)w, (void)rank, (void)err;
    memcpy(mem, host, (size_t)bytes);
    return LW_OK;
}

/* --- streams and events ------------------------------------------------------------------------- */

static enum lw_status threads_stream_create(struct exec_world *w, int32_t rank, const char *name,
                                            int32_t priority, struct exec_stream **stream,
                                            struct lw_err *err)
{
    struct exec_stream *s = lw_calloc(1, sizeof *s);

    if (!s)
        return lw_fail_nomem(err);
    s->world = w;
    s->rank = rank;
    s->priority = priority;
    snprintf(s->name, sizeof s->name, "%.9s.%d", name, rank % 10000);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->given, NULL);
    enum lw_status status = exec_gemm_space_new(&s->space, err);
    int failed = status == LW_OK ? pthread_create(&s->thread, NULL, work, s) : 0;
    if (failed)
        status = lw_fail(err, LW_EIO, "starting a thread: %s", strerror(failed));
    if (status != LW_OK) {
        close_stream(s);
        return status;
    }
    s->started = true;
    pthread_setname_np(s->thread, s->name);
    s->next = w->streams;
    w->streams = s;
    *stream = s;
    return LW_OK;
}

static enum lw_status give(struct exec_stream *s, const struct command *c, struct lw_err *err)
{
    struct queue *q = &s->queue;

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

static enum lw_status threads_event_create(struct exec_world *w, int32_t rank,
                                           struct exec_event **event, struct lw_err *err)
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

static enum lw_status threads_event_record(struct exec_stream *s, struct exec_event *e,
                                           struct lw_err *err)
{
    struct command c = {.kind = CMD_RECORD, .event = e, .ticket = ++e->n_given};
    return give(s, &c, err);
}

static enum lw_status threads_event_wait(struct exec_stream *s, struct exec_event *e,
                                         struct lw_err *err)
{
    struct command c = {.kind = CMD_WAIT, .event = e, .ticket = e->n_given};
    return give(s, &c, err);
}

static enum lw_status threads_compute(struct exec_stream *s, const struct exec_task *task,
                                      struct exec_stamp *stamp, struct lw_err *err)
{
    struct command c = {.kind = CMD_COMPUTE, .task = *task, .stamp = stamp};
    return give(s, &c, err);
}

static void threads_hold(struct exec_world *w)
{
    w->batch++;
}

static enum lw_status threads_release(struct exec_world *w, struct lw_err *err)
{
    (void)err;
    exec_counter_set(&w->released, w->batch);
    return LW_OK;
}

/* --- communication ------------------------------------------------------------------------------ */

static enum lw_status fill_comm(struct exec_world *w, struct exec_comm *c, const int32_t *members,
                                int32_t n, struct lw_err *err)
{
    struct exec_pace pace = {w->how.link_bytes_per_s, w->how.link_latency_ns};

    c->n = n;
    c->members = lw_calloc((size_t)n, sizeof *c->members);
    c->index_of = lw_calloc((size_t)w->how.n_ranks, sizeof *c->index_of);
    c->n_given = lw_calloc((size_t)n, sizeof *c->n_given);
    c->turn = lw_calloc((size_t)n, sizeof *c->turn);
    if (!c->members || !c->index_of || !c->n_given || !c->turn)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < w->how.n_ranks; r++)
        c->index_of[r] = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t r = members[i];
        if (r < 0 || r >= w->how.n_ranks || c->index_of[r] >= 0)
            return lw_fail(err, LW_EINVAL, "member %d of a group is rank %d: %s", i, r,
                           r < 0 || r >= w->how.n_ranks ? "no such rank" : "named twice");
        c->members[i] = r;
        c->index_of[r] = i;
    }
    return exec_ring_new(n, pace, &w->stop, &c->ring, err);
}

static enum lw_status threads_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                                          struct exec_comm **comm, struct lw_err *err)
{
    struct exec_comm *c = lw_calloc(1, sizeof *c);

    if (!c)
        return lw_fail_nomem(err);
    enum lw_status status = fill_comm(w, c, members, n, err);
    if (status != LW_OK) {
        free_comm(c);
        return status;
    }
    c->next = w->comms;
    w->comms = c;
    *comm = c;
    return LW_OK;
}

static enum lw_status threads_comm_split(struct exec_world *w, struct exec_comm *parent,
                                         const int32_t *members, int32_t n, struct exec_comm **comm,
                                         struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++)
        if (members[i] < 0 || members[i] >= w->how.n_ranks || parent->index_of[members[i]] < 0)
            return lw_fail(err, LW_EINVAL, "rank %d is outside of the group to be split",
                           members[i]);
    return threads_comm_create(w, members, n, comm, err);
}

static void threads_comm_destroy(struct exec_world *w, struct exec_comm *comm)
{
    for (struct exec_comm **c = &w->comms; *c; c = &(*c)->next) {
        if (*c == comm) {
            *c = comm->next;
            free_comm(comm);
            return;
        }
    }
}

static enum lw_status inside(const struct exec_stream *s, const struct exec_comm *c,
                             struct lw_err *err)
{
    if (member_of(c, s->rank) >= 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "rank %d is no member of the communicator", s->rank);
}

static enum lw_status give_collective(struct exec_stream *s, struct exec_comm *comm,
                                      enum lw_op_kind op, const struct exec_message *m,
                                      struct exec_stamp *stamp, struct lw_err *err)
{
    struct command c = {.kind = CMD_COLLECTIVE, .op = op, .comm = comm, .message = *m,
                        .stamp = stamp};
    bool rooted = op == LW_OP_BROADCAST || op == LW_OP_REDUCE;

    LW_TRY(inside(s, comm, err));
    if (rooted && (m->peer < 0 || m->peer >= s->world->how.n_ranks ||
                   comm->index_of[m->peer] < 0))
        return lw_fail(err, LW_EINVAL, "%s: root %d is no member of the communicator",
                       lw_op_name(op), m->peer);
    if (rooted)
        c.message.peer = comm->index_of[m->peer];
    c.ticket = comm->n_given[member_of(comm, s->rank)]++;
    return give(s, &c, err);
}

#define DEFINE_COLLECTIVE(NAME, OP)                                                          \
    static enum lw_status NAME(struct exec_stream *s, struct exec_comm *c,                   \
                               const struct exec_message *m, struct exec_stamp *stamp,       \
                               struct lw_err *err)                                           \
    {                                                                                        \
        return give_collective(s, c, OP, m, stamp, err);                                     \
    }

DEFINE_COLLECTIVE(threads_all_reduce, LW_OP_ALL_REDUCE)
DEFINE_COLLECTIVE(threads_reduce, LW_OP_REDUCE)
DEFINE_COLLECTIVE(threads_reduce_scatter, LW_OP_REDUCE_SCATTER)
DEFINE_COLLECTIVE(threads_all_gather, LW_OP_ALL_GATHER)
DEFINE_COLLECTIVE(threads_broadcast, LW_OP_BROADCAST)
DEFINE_COLLECTIVE(threads_barrier, LW_OP_BARRIER)

static enum lw_status give_exchange(struct exec_stream *s, struct exec_comm *comm, int32_t n,
                                    struct lw_err *err)
{
    struct exchange_item *items = lw_alloc((size_t)n * sizeof *items);
    struct command c = {.kind = CMD_EXCHANGE, .comm = comm, .n_items = n, .message.mem = items};

    if (!items)
        return lw_fail_nomem(err);
    memcpy(items, s->group, (size_t)n * sizeof *items);
    c.ticket = comm->n_given[member_of(comm, s->rank)]++;
    enum lw_status status = give(s, &c, err);
    if (status != LW_OK)
        lw_free(items);
    return status;
}

static enum lw_status give_p2p(struct exec_stream *s, struct exec_comm *comm, enum lw_op_kind op,
                               const struct exec_message *m, struct exec_stamp *stamp,
                               struct lw_err *err)
{
    LW_TRY(inside(s, comm, err));
    if (m->peer < 0 || m->peer >= s->world->how.n_ranks || comm->index_of[m->peer] < 0 ||
        m->peer == s->rank)
        return lw_fail(err, LW_EINVAL, "%s of rank %d: peer %d is no other member",
                       lw_op_name(op), s->rank, m->peer);
    if (s->n_group == GROUP_MAX || (s->n_group > 0 && s->group_comm != comm))
        return lw_fail(err, LW_ENOTSUP, "a group of sends and receives holds %d of one communicator",
                       GROUP_MAX);
    struct exchange_item item = {op, *m, stamp};
    item.message.peer = comm->index_of[m->peer];
    s->group[s->n_group++] = item;
    s->group_comm = comm;
    if (s->in_group)
        return LW_OK;
    s->n_group = 0;
    return give_exchange(s, comm, 1, err);
}

static enum lw_status threads_send(struct exec_stream *s, struct exec_comm *c,
                                   const struct exec_message *m, struct exec_stamp *stamp,
                                   struct lw_err *err)
{
    return give_p2p(s, c, LW_OP_SEND, m, stamp, err);
}

static enum lw_status threads_recv(struct exec_stream *s, struct exec_comm *c,
                                   const struct exec_message *m, struct exec_stamp *stamp,
                                   struct lw_err *err)
{
    return give_p2p(s, c, LW_OP_RECV, m, stamp, err);
}

static enum lw_status threads_group_begin(struct exec_stream *s, struct lw_err *err)
{
    if (s->in_group)
        return lw_fail(err, LW_EINVAL, "groups of sends and receives do not nest");
    s->in_group = true;
    return LW_OK;
}

static enum lw_status threads_group_end(struct exec_stream *s, struct lw_err *err)
{
    int32_t n = s->n_group;

    s->in_group = false;
    s->n_group = 0;
    return n > 0 ? give_exchange(s, s->group_comm, n, err) : LW_OK;
}

static enum exec_state threads_poll(struct exec_world *w, int64_t deadline_ns, struct lw_err *err)
{
    bool more = true;

    while (more && !atomic_load(&w->stop)) {
        uint32_t seen = atomic_load(&w->idle.value);
        if (atomic_load(&w->n_pending) == 0)
            return EXEC_DONE;
        more = exec_counter_wait(&w->idle, seen + 1, deadline_ns, &w->stop);
    }
    if (!atomic_load(&w->stop))
        return EXEC_RUNNING;
    pthread_mutex_lock(&w->mutex);
    if (err)
        *err = w->failure;
    pthread_mutex_unlock(&w->mutex);
    return EXEC_FAILED;
}

const struct exec_backend exec_backend_threads = {
    .api_version = EXEC_API_VERSION,
    .size = sizeof(struct exec_backend),
    .name = "threads",
    .about = "ranks are threads of one process; collectives over shared memory",
    .capabilities = EXEC_CAN_PRIORITY | EXEC_CAN_ALL_REDUCE | EXEC_CAN_REDUCE |
                    EXEC_CAN_REDUCE_SCATTER | EXEC_CAN_ALL_GATHER | EXEC_CAN_BROADCAST |
                    EXEC_CAN_BARRIER | EXEC_CAN_SEND_RECV | EXEC_CAN_SPLIT | EXEC_CAN_PACE |
                    EXEC_CAN_ALL_IN,
    .probe = threads_probe,
    .open = threads_open,
    .close = threads_close,
    .abort = threads_abort,
    .facts = threads_facts,
    .now_ns = threads_now_ns,
    .mem_alloc = threads_mem_alloc,
    .mem_free = threads_mem_free,
    .mem_read = threads_mem_read,
    .mem_write = threads_mem_write,
    .stream_create = threads_stream_create,
    .event_create = threads_event_create,
    .event_record = threads_event_record,
    .event_wait = threads_event_wait,
    .compute = threads_compute,
    .hold = threads_hold,
    .release = threads_release,
    .comm_create = threads_comm_create,
    .comm_split = threads_comm_split,
    .comm_destroy = threads_comm_destroy,
    .all_reduce = threads_all_reduce,
    .reduce = threads_reduce,
    .reduce_scatter = threads_reduce_scatter,
    .all_gather = threads_all_gather,
    .broadcast = threads_broadcast,
    .barrier = threads_barrier,
    .send = threads_send,
    .recv = threads_recv,
    .group_begin = threads_group_begin,
    .group_end = threads_group_end,
    .poll = threads_poll,
};
