/* A world of ranks on the cores of this machine.
 *
 * The threads of a rank are pinned to one core (rank r on the r-th core this process may use,
 * modulo their number), so that communication and computation of a rank share a core as they share
 * a device elsewhere. Streams of greater priority get a nice level CPU_NICE_STEP better than the
 * rest: lifted where the system allows it, else the others are lowered by as much. A woken
 * communication thread then runs at once instead of waiting for the end of the compute thread's
 * time slice.
 *
 * The first failure is kept and stops everything; no thread outlives close, but for one that cannot
 * be ended (cpu_close says so). Where ranks are processes, the others are informed at once. */
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "exec/backend/contract.h"
#include "exec/cpu/cpu_world.h"
#include "shared/base/arena.h"
#include "shared/base/large_pages.h"
#include "shared/numbers/units.h"

enum { MEASURE_NS = 20 * 1000 * 1000, MEASURE_AGAIN_NS = 4 * 1000 * 1000 };
#define CLOSE_WAIT_NS INT64_C(2000000000)

struct cpu_block {
    struct cpu_block *next;
    _Alignas(16) unsigned char bytes[];
};

/* --- placement -------------------------------------------------------------------------------- */

static enum lw_status find_cores(struct exec_world *w, struct lw_err *err)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) == 0)
        return lw_fail(err, LW_EIO, "the system does not say which cores this process may use");
    LW_NEW(w->cores, CPU_COUNT(&set), err);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &set))
            w->cores[w->n_cores++] = c;
    return LW_OK;
}

void cpu_settle(const struct exec_world *w, int32_t rank)
{
    const struct exec_process *p = w->how.process;
    int32_t place = p ? p->local_rank : rank;
    cpu_set_t set;

    prctl(PR_SET_TIMERSLACK, 1L, 0, 0, 0);
    if (!w->how.pin)
        return;
    CPU_ZERO(&set);
    CPU_SET(w->cores[place % w->n_cores], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

bool cpu_renice(int delta)
{
    id_t self = (id_t)syscall(SYS_gettid);
    return setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + delta) == 0;
}

/* --- stopping --------------------------------------------------------------------------------- */

/* The first failure is kept; everything else then stops. */
bool cpu_fail(struct exec_world *w, const struct lw_err *why)
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

void cpu_abort(struct exec_world *w, const char *why)
{
    struct lw_err err = {0};

    lw_fail(&err, LW_EFAILED, "%s", why);
    atomic_store(&w->failed, true);
    cpu_fail(w, &err);
}

static void lost(void *world, const char *why)
{
    struct exec_world *w = world;

    atomic_store(&w->told, true);
    cpu_abort(w, why);
}

/* --- opening and closing ---------------------------------------------------------------------- */

struct measurement {
    struct exec_world *world;
    int32_t rank;
    int64_t budget_ns;
    pthread_t thread;
    struct exec_gemm_space space;
    struct exec_gemm_rate rate;
    bool started, lifted;
};

static void *measure(void *arg)
{
    struct measurement *m = arg;
    struct exec_world *w = m->world;

    cpu_settle(w, m->rank);
    if (w->how.compute == EXEC_COMPUTE_GEMM)
        exec_gemm_measure(&w->gemm, &m->space, m->budget_ns, &w->stop, &m->rate);
    m->lifted = cpu_renice(-CPU_NICE_STEP);
    return NULL;
}

static int32_t start_measuring(struct measurement *m, int32_t n)
{
    int32_t failed = 0;

    for (int32_t r = 0; r < n && !failed; r++) {
        failed = pthread_create(&m[r].thread, NULL, measure, &m[r]);
        m[r].started = !failed;
    }
    if (failed)
        atomic_store(&m->world->stop, true);
    return failed;
}

static enum lw_status measure_ranks(struct exec_world *w, struct measurement *m, int64_t budget_ns,
                                    struct lw_err *err)
{
    enum lw_status s = LW_OK;

    for (int32_t r = 0; r < w->n_local && s == LW_OK; r++) {
        m[r] = (struct measurement){.world = w, .rank = w->first + r, .budget_ns = budget_ns};
        if (w->how.compute == EXEC_COMPUTE_GEMM)
            s = exec_gemm_space_new(&m[r].space, err);
    }
    int32_t failed = s == LW_OK ? start_measuring(m, w->n_local) : 0;
    for (int32_t r = 0; r < w->n_local; r++) {
        if (m[r].started)
            pthread_join(m[r].thread, NULL);
        exec_gemm_space_free(&m[r].space);
    }
    return failed ? lw_fail(err, LW_EIO, "starting a thread: %s", strerror(failed)) : s;
}

/* One thread per rank, all at once, in all processes: what a product costs while every rank
 * computes, and whether threads may be lifted. t[n_local], or NULL. */
static enum lw_status measure_all(struct exec_world *w, int64_t budget_ns,
                                  struct exec_product_time *t, struct lw_err *err)
{
    const struct exec_process *p = w->how.process;

    if (p)
        LW_TRY(p->barrier(p->context, err));
    struct measurement *m;
    LW_NEW(m, w->n_local, err);
    enum lw_status s = measure_ranks(w, m, budget_ns, err);
    for (int32_t r = 0; r < w->n_local && s == LW_OK; r++) {
        exec_gemm_follow(&w->rate[r], &m[r].rate);
        if (t)
            t[r] = (struct exec_product_time){m[r].rate.unit_ns, w->rate[r].unit_ns};
    }
    w->lifts = s == LW_OK && m[0].lifted;
    lw_free(m);
    return s;
}

/* What measuring adds to an op: at most three readings of the clock, and the stamp. Best of a
 * few rounds: whatever else the core did is not part of it. */
static double stamp_cost_ns(void)
{
    enum { ROUNDS = 5, N = 400 };
    volatile struct exec_stamp stamp = {0};
    int64_t best = INT64_MAX;

    for (int r = 0; r < ROUNDS; r++) {
        int64_t begin = exec_now_ns();
        for (int i = 0; i < N; i++) {
            stamp.issue_ns = exec_now_ns();
            stamp.start_ns = exec_now_ns();
            stamp.end_ns = exec_now_ns();
        }
        int64_t took = exec_now_ns() - begin;
        best = took < best ? took : best;
    }
    (void)stamp;
    return (double)best / N;
}

static void describe(struct exec_world *w)
{
    const struct exec_process *p = w->how.process;
    char who[64];

    if (w->how.compute == EXEC_COMPUTE_GEMM)
        snprintf(w->compute, sizeof w->compute, "%s, sgemm of %d", w->gemm.name, EXEC_GEMM_UNIT);
    else
        snprintf(w->compute, sizeof w->compute, "%s",
                 w->how.compute == EXEC_COMPUTE_SPIN ? "busy wait by the clock"
                                                     : "sleep by the clock");
    if (p)
        snprintf(who, sizeof who, "rank %d of %d in a process on %d", p->rank, w->how.n_ranks,
                 w->n_cores);
    else
        snprintf(who, sizeof who, "%d rank%s on %d", w->how.n_ranks, lw_plural(w->how.n_ranks),
                 w->n_cores);
    snprintf(w->about, sizeof w->about,
             "%s cores, %s; communication threads %d nice levels above compute (%s)", who,
             w->how.pin ? "pinned" : "not pinned", CPU_NICE_STEP,
             w->lifts ? "lifted" : "compute lowered: the system refuses a better level");
}

static enum lw_status fill_world(struct exec_world *w, struct lw_err *err)
{
    const struct exec_process *p = w->how.process;

    w->first = p ? p->rank : 0;
    w->n_local = p ? 1 : w->how.n_ranks;
    LW_NEW(w->rate, w->n_local, err);
    if (w->how.compute == EXEC_COMPUTE_GEMM)
        exec_gemm_open(&w->gemm);
    LW_TRY(find_cores(w, err));
    LW_TRY(measure_all(w, MEASURE_NS, NULL, err));
    w->stamp_ns = stamp_cost_ns();
    w->n_machine_cores = w->n_cores;
    w->one_machine = true;
    w->oversubscribed = w->how.n_ranks > w->n_cores;
    describe(w);
    if (p)
        p->watch(p->context, lost, w);
    return LW_OK;
}

enum lw_status cpu_open(const struct exec_open *how, const struct cpu_wire *wire,
                        struct exec_world **world, struct lw_err *err)
{
    struct exec_world *w;

    LW_NEW(w, 1, err);
    w->how = *how;
    w->wire = wire;
    pthread_mutex_init(&w->mutex, NULL);
    enum lw_status status = fill_world(w, err);
    if (status != LW_OK) {
        cpu_close(w);
        return status;
    }
    *world = w;
    return LW_OK;
}

static bool all_ended(const struct exec_world *w)
{
    for (const struct exec_stream *s = w->streams; s; s = s->next)
        if (!atomic_load(&s->ended))
            return false;
    return true;
}

static bool come_to_rest(struct exec_world *w)
{
    int64_t until = exec_now_ns() + CLOSE_WAIT_NS;

    for (struct exec_stream *s = w->streams; s; s = s->next)
        cpu_stream_quit(s);
    while (w->wire->may_hang && !all_ended(w) && exec_now_ns() < until)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return !w->wire->may_hang || all_ended(w);
}

bool cpu_close(struct exec_world *w)
{
    if (!w)
        return true;
    if (w->how.process)
        w->how.process->watch(w->how.process->context, NULL, NULL);
    atomic_store(&w->stop, true);
    if (!come_to_rest(w))
        return false;
    while (w->streams) {
        struct exec_stream *s = w->streams;
        w->streams = s->next;
        cpu_stream_free(s);
    }
    while (w->comms) {
        struct exec_comm *c = w->comms;
        w->comms = c->next;
        cpu_comm_free(w, c);
    }
    while (w->events) {
        struct exec_event *e = w->events;
        w->events = e->next;
        lw_free(e);
    }
    while (w->blocks) {
        struct cpu_block *b = w->blocks;
        w->blocks = b->next;
        lw_free(b);
    }
    pthread_mutex_destroy(&w->mutex);
    lw_free(w->cores);
    lw_free(w->rate);
    lw_free(w);
    return true;
}

void cpu_facts(const struct exec_world *w, struct exec_facts *f)
{
    *f = (struct exec_facts){
        .n_ranks = w->how.n_ranks,
        .first_local = w->first,
        .n_local = w->n_local,
        .honesty = w->how.link_bytes_per_s > 0 ? EXEC_PACED : EXEC_REAL,
        .oversubscribed = w->oversubscribed,
        .n_cores = w->n_machine_cores,
        .compute = w->compute,
        .about = w->about,
        .unit_ns = w->rate[0].unit_ns,
        .unit_flops = 2.0 * EXEC_GEMM_UNIT * EXEC_GEMM_UNIT * EXEC_GEMM_UNIT,
        .device = "cpu core",
        .memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE),
        .comm_on_compute_core = w->how.pin,
        .stamp_ns = w->stamp_ns,
    };
}

int64_t cpu_now_ns(const struct exec_world *w)
{
    (void)w;
    return exec_now_ns();
}

/* Nothing runs now: cores whose speed changes (virtual ones that a host moves about change it
 * twofold, for seconds) are measured again, so that an op takes the plan's time at the speed of
 * its batch. */
enum lw_status cpu_time_product(struct exec_world *w, struct exec_product_time *t,
                                struct lw_err *err)
{
    return measure_all(w, MEASURE_AGAIN_NS, t, err);
}

void cpu_hold(struct exec_world *w)
{
    w->batch++;
}

enum lw_status cpu_release(struct exec_world *w, struct lw_err *err)
{
    const struct exec_process *p = w->how.process;

    if (p)
        LW_TRY(p->barrier(p->context, err));
    exec_counter_set(&w->released, w->batch);
    return LW_OK;
}

int64_t cpu_pending(const struct exec_world *w)
{
    return atomic_load(&w->n_pending);
}

enum exec_state cpu_poll(struct exec_world *w, int64_t deadline_ns, struct lw_err *err)
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
    struct lw_err why = w->failure;
    pthread_mutex_unlock(&w->mutex);
    if (err)
        *err = why;
    atomic_store(&w->failed, true);
    if (!atomic_exchange(&w->told, true))
        exec_tell_others(w->how.process, why.msg);
    return EXEC_FAILED;
}

/* --- memory ----------------------------------------------------------------------------------- */

enum lw_status cpu_mem_alloc(struct exec_world *w, int32_t rank, int64_t bytes, void **mem,
                             struct lw_err *err)
{
    size_t need = sizeof(struct cpu_block) + (size_t)bytes;
    struct cpu_block *b = bytes < 0   ? NULL
                          : w->region ? w->wire->memory(w, rank, (int64_t)need)
                                      : lw_alloc(need);

    if (!b)
        return lw_fail(err, LW_ENOMEM, "rank %d: out of memory for %lld bytes", rank,
                       (long long)bytes);
    if (!w->region)
        lw_alloc_large(b, need);
    memset(b->bytes, 0, (size_t)bytes); /* pages are there before anything is timed */
    if (w->region) {
        *mem = b->bytes;
        return LW_OK;
    }
    b->next = w->blocks;
    w->blocks = b;
    *mem = b->bytes;
    return LW_OK;
}

void cpu_mem_free(struct exec_world *w, int32_t rank, void *mem)
{
    (void)rank;
    for (struct cpu_block **b = &w->blocks; *b; b = &(*b)->next) {
        if ((*b)->bytes != mem)
            continue;
        struct cpu_block *gone = *b;
        *b = gone->next;
        lw_free(gone);
        return;
    }
}

enum lw_status cpu_mem_read(struct exec_world *w, int32_t rank, void *host, const void *mem,
                            int64_t bytes, struct lw_err *err)
{
    (void)w, (void)rank, (void)err;
    memcpy(host, mem, (size_t)bytes);
    return LW_OK;
}

enum lw_status cpu_mem_write(struct exec_world *w, int32_t rank, void *mem, const void *host,
                             int64_t bytes, struct lw_err *err)
{
    (void)w, (void)rank, (void)err;
    memcpy(mem, host, (size_t)bytes);
    return LW_OK;
}
