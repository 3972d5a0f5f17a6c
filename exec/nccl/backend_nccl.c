/* The NCCL backend, a plugin: CUDA's driver API, cuBLAS and NCCL. One rank per process and device,
 * or all ranks in this process as streams of one device (loop). See nccl_world.h for the files and
 * docs/design/backend_nccl.md for the rules.
 *
 * Everything is asynchronous; poll hands over what waits in the queue, stamps what is done, and
 * looks for errors: of CUDA, of kernels that report one, of NCCL's communicators, of abort. After
 * the first error nothing more is handed over, and stamps stay as they were: what had finished,
 * what had begun.
 *
 * Stopping. abort, from any thread, only says so. The thread that polls stamps what still ends by
 * itself within GRACE_NS, and then sets the word of host memory at which waiting kernels look: an
 * op that was cut short is never taken for one that ended. Communicators are aborted in close, by
 * the thread that used them, before memory is freed; if the device is not idle after CLOSE_WAIT_NS,
 * its memory is left to the end of the process, because freeing it would wait for ever. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exec/backend/contract.h"
#include "exec/nccl/nccl_world.h"
#include "exec/plugin/plugin_host.h"

#define CLOSE_WAIT_NS INT64_C(5000000000)
#define GRACE_NS INT64_C(200000000)
#define HEARD_NS INT64_C(300000000) /* until the others know, also on a machine under load */
#define QUIET_NS INT64_C(500000000) /* nothing moved: poll at longer intervals */
#define QUIET_DOZE_NS 2000000

enum { NCCL_OLDEST = 21801 }; /* 2.18.1: ncclCommSplit */

void nccl_doze(int32_t n_tries)
{
    if (n_tries < 100)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, n_tries < 200 ? 20000 : 200000}, NULL);
}

/* --- stopping --------------------------------------------------------------------------------- */

static void stop(struct exec_world *w, const struct lw_err *why)
{
    pthread_mutex_lock(&w->mutex);
    if (w->why.code == LW_OK)
        w->why = *why;
    pthread_mutex_unlock(&w->mutex);
    atomic_store(&w->stop, true);
}

enum lw_status nccl_stopped(struct exec_world *w, struct lw_err *err)
{
    struct lw_err why;

    pthread_mutex_lock(&w->mutex);
    why = w->why;
    pthread_mutex_unlock(&w->mutex);
    if (err)
        *err = why;
    return why.code;
}

void nccl_stop(struct exec_world *w, const struct lw_err *why)
{
    atomic_store(&w->failed, true);
    stop(w, why);
}

static void backend_abort(struct exec_world *w, const char *why)
{
    struct lw_err err = {0};

    lw_fail(&err, LW_EFAILED, "%s", why);
    stop(w, &err);
}

static void lost(void *world, const char *why)
{
    struct exec_world *w = world;
    struct lw_err err = {0};

    atomic_store(&w->told, true);
    lw_fail(&err, LW_EFAILED, "%s", why);
    nccl_stop(w, &err);
}

static void tell_others(struct exec_world *w)
{
    struct lw_err why = {0};

    if (atomic_exchange(&w->told, true))
        return;
    nccl_stopped(w, &why);
    exec_tell_others(w->how.process, why.msg);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static bool probe(char reason[EXEC_REASON])
{
    int n = 0, version = 0;
    CUresult r = nccl_cuda_init();
    struct lw_err err = {0};

    reason[0] = '\0';
    if (r == CUDA_SUCCESS)
        r = cuDeviceGetCount(&n);
    if (nccl_cu(r, "looking for devices", &err) != LW_OK)
        snprintf(reason, EXEC_REASON, "%.*s", EXEC_REASON - 1, err.msg);
    else if (n == 0)
        snprintf(reason, EXEC_REASON, "no CUDA device is visible");
    else if (ncclGetVersion(&version) != ncclSuccess || version < NCCL_OLDEST)
        snprintf(reason, EXEC_REASON, "NCCL %d is older than 2.18.1", version);
    return reason[0] == '\0';
}

static enum lw_status check_how(const struct exec_open *how, struct lw_err *err)
{
    if (how->loop && how->process)
        return lw_fail(err, LW_EINVAL,
                       "a loop has all ranks in one process; this is one of several");
    if (!how->loop && !how->process && how->n_ranks != 1)
        return lw_fail(
            err, LW_ENOTSUP,
            "nccl runs one process per rank, and this is one process for %d ranks: start "
            "%d (--spawn, torchrun, mpirun, srun), or put them all on one device "
            "(--transport loop)",
            how->n_ranks, how->n_ranks);
    return LW_OK;
}

static void describe(struct exec_world *w)
{
    const char *name = w->name;
    size_t left = 0, total = 0;
    int version = 0, nccl = 0, major = 0, minor = 0;

    cuDeviceGetName(w->name, sizeof w->name, w->device);
    cuMemGetInfo(&left, &total);
    w->memory_bytes = (double)total;
    w->free_bytes = (double)left;
    cuDriverGetVersion(&version);
    ncclGetVersion(&nccl);
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, w->device);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, w->device);
    char through[64] = "ranks are streams: copies and sums in its memory";
    if (!w->loop)
        snprintf(through, sizeof through, "NCCL %d.%d.%d", nccl / 10000, nccl / 100 % 100,
                 nccl % 100);
    snprintf(w->about, sizeof w->about,
             "device %d: %s, sm_%d%d, %d SMs; driver CUDA %d.%d; %s; stream priorities %d to %d%s",
             (int)w->device, name, major, minor, w->n_sm, version / 1000, version % 1000 / 10,
             through, w->least, w->greatest,
             w->nameless ? "; the driver does not identify the device" : "");
}

/* NVIDIA's images set NCCL_VERSION to what they hold; NCCL does not read it. */
static bool is_setting(const char *variable)
{
    return strncmp(variable, "NCCL_", 5) == 0 && strncmp(variable, "NCCL_VERSION=", 13) != 0;
}

/* The variables of NCCL as the library found them. */
static void note_settings(struct exec_world *w)
{
    size_t at = 0;

    for (char *const *e = environ; !w->loop && *e; e++)
        if (is_setting(*e) && at + strlen(*e) + 2 < sizeof w->settings)
            at += (size_t)sprintf(w->settings + at, "%s%s", at ? " " : "", *e);
    if (w->how.registered && at + 32 < sizeof w->settings)
        sprintf(w->settings + at, "%sbuffers registered", at ? ", " : "");
}

static enum lw_status fill_world(struct exec_world *w, struct lw_err *err)
{
    const struct exec_process *p = w->how.process;

    LW_TRY(nccl_register_open(w, err));
    w->loop = w->how.loop;
    w->first = p ? p->rank : 0;
    w->n_local = w->loop ? w->how.n_ranks : 1;
    LW_TRY(nccl_device_open(w, p ? p->local_rank : 0, err));
    LW_TRY(nccl_compute_open(w, err));
    if (!w->loop)
        LW_TRY(nccl_world_comm_open(w, err));
    describe(w);
    note_settings(w);
    LW_TRY(nccl_device_watch(w, err));
    return nccl_anchor(w, err);
}

static bool at_rest(struct exec_world *w)
{
    for (const struct exec_stream *s = w->streams; s; s = s->next)
        if (cuStreamQuery(s->cu) == CUDA_ERROR_NOT_READY)
            return false;
    return !w->setup || cuStreamQuery(w->setup) != CUDA_ERROR_NOT_READY;
}

static void free_streams(struct exec_world *w)
{
    while (w->streams) {
        struct exec_stream *s = w->streams;
        w->streams = s->next;
        cuStreamDestroy(s->cu);
        if (s->begun)
            cuEventDestroy(s->begun);
        lw_free(s);
    }
    while (w->events) {
        struct exec_event *e = w->events;
        w->events = e->next;
        cuEventDestroy(e->cu);
        lw_free(e);
    }
}

static void close_world(struct exec_world *w)
{
    if (!w)
        return;
    const struct exec_process *p = w->how.process;
    bool unfinished = atomic_load(&w->failed) || !nccl_idle(w);
    int64_t until = exec_now_ns() + CLOSE_WAIT_NS;

    backend_abort(w, "closed");
    nccl_device_unwatch(w);
    if (w->flags)
        kernel_say(&w->flags[FLAG_STOP], 1);
    w->closing = true;
    if (unfinished)
        tell_others(w);
    if (p)
        p->watch(p->context, NULL, NULL);
    nccl_graphs_drop(w);
    nccl_comms_close(w, unfinished);
    for (int32_t i = 0; !at_rest(w) && exec_now_ns() < until; i++)
        nccl_doze(i);
    nccl_queue_drop(w);
    if (at_rest(w)) {
        nccl_compute_close(w);
        free_streams(w);
        nccl_device_close(w);
    }
    if (w->stuck)
        return;
    pthread_mutex_destroy(&w->mutex);
    pthread_mutex_destroy(&w->call_mutex);
    lw_free(w);
}

static enum lw_status open_world(const struct exec_open *how, struct exec_world **world,
                                 struct lw_err *err)
{
    struct exec_world *w;

    LW_TRY(check_how(how, err));
    LW_NEW(w, 1, err);
    w->how = *how;
    w->tail = &w->head;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_mutex_init(&w->call_mutex, NULL);
    if (how->process)
        how->process->watch(how->process->context, lost, w);
    enum lw_status s = fill_world(w, err);
    if (s != LW_OK) {
        struct lw_err why = {.code = s};
        lw_fail(&why, s, "%s", err ? err->msg : "not opened");
        nccl_stop(w, &why);
        close_world(w);
        return s;
    }
    *world = w;
    return LW_OK;
}

static void facts(const struct exec_world *w, struct exec_facts *f)
{
    bool shares = w->loop && w->how.n_ranks > 1;
    bool real = !shares && !w->nameless && !w->loop;

    *f = (struct exec_facts){
        .n_ranks = w->how.n_ranks,
        .first_local = w->first,
        .n_local = w->n_local,
        .honesty = real ? EXEC_REAL : EXEC_EMULATED,
        .oversubscribed = shares,
        .n_cores = 1,
        .compute = w->compute,
        .about = w->about,
        .unit_ns = w->fill[FILL_F32].unit_ns,
        .unit_flops = w->fill[FILL_F32].unit_work,
        .device = w->name,
        .memory_bytes = w->memory_bytes,
        .free_bytes = w->free_bytes,
        .settings = w->settings,
        .submit_ns = w->submit_ns,
        .state = nccl_device_state(w),
    };
}

static int64_t now_ns(const struct exec_world *w)
{
    (void)w;
    return exec_now_ns();
}

/* --- memory, streams, events ------------------------------------------------------------------ */

static enum lw_status mem_alloc(struct exec_world *w, int32_t rank, int64_t bytes, void **mem,
                                struct lw_err *err)
{
    CUdeviceptr at;

    if (bytes < 0)
        return lw_fail(err, LW_EINVAL, "rank %d: %lld bytes of memory", rank, (long long)bytes);
    LW_TRY(lw_err_context(err, nccl_mem_new_message(w, bytes, &at, err), "rank %d", rank));
    *mem = (void *)at;
    return LW_OK;
}

/* Freeing waits for the device; what may still run after a stop is freed in close. */
static void mem_free(struct exec_world *w, int32_t rank, void *mem)
{
    (void)rank;
    if (mem && !atomic_load(&w->stop))
        nccl_mem_free(w, (CUdeviceptr)mem);
}

static enum lw_status mem_read(struct exec_world *w, int32_t rank, void *to, const void *mem,
                               int64_t bytes, struct lw_err *err)
{
    (void)w, (void)rank;
    return nccl_cu(cuMemcpyDtoH(to, (CUdeviceptr)mem, (size_t)bytes), "cuMemcpyDtoH", err);
}

static enum lw_status mem_write(struct exec_world *w, int32_t rank, void *mem, const void *from,
                                int64_t bytes, struct lw_err *err)
{
    (void)rank;
    return nccl_mem_put(w, (CUdeviceptr)mem, from, bytes, err);
}

static enum lw_status stream_create(struct exec_world *w, int32_t rank, const char *name,
                                    int32_t priority, struct exec_stream **stream,
                                    struct lw_err *err)
{
    struct exec_stream *s = lw_calloc(1, sizeof *s);
    int cu = priority > w->least - w->greatest ? w->greatest : w->least - (int)priority;
    CUdeviceptr clock = 0;

    if (!s)
        return lw_fail_nomem(err);
    enum lw_status status = nccl_mem_new(w, sizeof(int64_t), &clock, err);
    if (status == LW_OK)
        status = nccl_cu(cuStreamCreateWithPriority(&s->cu, CU_STREAM_NON_BLOCKING,
                                                    cu > w->least ? w->least : cu),
                         name, err);
    if (status != LW_OK) {
        lw_free(s);
        return status;
    }
    if (w->loop)
        status = nccl_cu(cuEventCreate(&s->begun, CU_EVENT_DISABLE_TIMING), "cuEventCreate", err);
    s->world = w;
    s->rank = rank;
    s->clock = (int64_t *)clock;
    s->tail = &s->head;
    s->next = w->streams;
    w->streams = s;
    *stream = s;
    return status;
}

static enum lw_status event_create(struct exec_world *w, int32_t rank, struct exec_event **event,
                                   struct lw_err *err)
{
    struct exec_event *e = lw_calloc(1, sizeof *e);

    (void)rank;
    if (!e)
        return lw_fail_nomem(err);
    enum lw_status s =
        nccl_cu(cuEventCreate(&e->cu, CU_EVENT_DISABLE_TIMING), "cuEventCreate", err);
    if (s != LW_OK) {
        lw_free(e);
        return s;
    }
    e->next = w->events;
    w->events = e;
    *event = e;
    return LW_OK;
}

static enum lw_status event_record(struct exec_stream *s, struct exec_event *e, struct lw_err *err)
{
    struct command c = {.kind = CMD_RECORD, .stream = s, .event = e, .ticket = ++e->n_given};
    return nccl_give(s->world, &c, NULL, err);
}

static enum lw_status event_wait(struct exec_stream *s, struct exec_event *e, struct lw_err *err)
{
    struct command c = {.kind = CMD_WAIT, .stream = s, .event = e, .ticket = e->n_given};
    return nccl_give(s->world, &c, NULL, err);
}

/* --- work ------------------------------------------------------------------------------------- */

static enum lw_status compute(struct exec_stream *s, const struct exec_task *task,
                              struct exec_stamp *stamp, struct lw_err *err)
{
    struct command c = {.kind = CMD_COMPUTE, .stream = s, .task = *task, .stamp = stamp};

    LW_TRY(nccl_compute_room(s, task, err));
    return nccl_give(s->world, &c, NULL, err);
}

static void hold(struct exec_world *w)
{
    w->held = true;
}

static enum lw_status let_go(struct exec_world *w, struct lw_err *err)
{
    const struct exec_process *p = w->how.process;

    if (!w->graphs)
        LW_TRY(nccl_compute_again(w, err));
    if (p)
        LW_TRY(p->barrier(p->context, err));
    w->held = false;
    nccl_device_active(w, true);
    for (struct exec_stream *s = w->streams; s; s = s->next)
        s->last_end_ns = 0;
    LW_TRY(nccl_graphs_pump(w, err));
    return nccl_pump(w, err);
}

/* What goes wrong while work is handed over is found by poll, like what goes wrong later. */
static enum lw_status release(struct exec_world *w, struct lw_err *err)
{
    struct lw_err why = {0};

    (void)err;
    if (let_go(w, &why) != LW_OK)
        nccl_stop(w, &why);
    return LW_OK;
}

/* Room and registration for what is communicated. */
static enum lw_status make_room(struct exec_world *w, struct exec_comm *c, enum lw_op_kind op,
                                const struct exec_message *m, struct lw_err *err)
{
    if (op == LW_OP_ALL_TO_ALL) {
        LW_TRY(nccl_comm_spare(w, c, m->count * lw_dtype_size(m->dtype), err));
        LW_TRY(nccl_register(w, c, (const void *)c->spare, err));
    }
    return nccl_register(w, c, m->mem, err);
}

static enum lw_status communicate(struct exec_stream *s, struct exec_comm *comm,
                                  const struct exec_transfer *x, int32_t n, struct lw_err *err)
{
    bool p2p = lw_op_class(x->op) == LW_CLASS_P2P;
    struct exec_transfer items[EXEC_MOST_TRANSFERS];

    LW_TRY(exec_transfers_check(x, n, s->rank, s->world->how.n_ranks, comm->n, comm->index_of,
                                items, err));
    for (int32_t i = 0; i < n; i++)
        LW_TRY(make_room(s->world, comm, items[i].op, &items[i].message, err));
    struct command c = {.kind = p2p ? CMD_EXCHANGE : CMD_COLLECTIVE,
                        .stream = s,
                        .comm = comm,
                        .op = items[0].op,
                        .n_items = p2p ? n : 0};
    if (!p2p) {
        c.message = items[0].message;
        c.stamp = items[0].stamp;
    }
    c.ticket = comm->n_given[comm->index_of[s->rank]]++;
    return nccl_give(s->world, &c, items, err);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static enum lw_status failed_by_flag(int32_t flag, struct lw_err *err)
{
    return lw_fail(err, LW_EFAILED,
                   flag == 1                 ? "made to fail"
                   : flag == KERNEL_BAD_ROWS ? "a list of a sparse gradient's rows does not fit: "
                                               "another parameter's, or longer than its room"
                                             : "weights are used after they were freed or updated "
                                               "and before they were gathered again");
}

/* One look at everything. *done: all that was given has ended. */
static enum lw_status look(struct exec_world *w, bool *done, struct lw_err *err)
{
    *done = false;
    LW_TRY(nccl_pump(w, err));
    LW_TRY(nccl_graphs_pump(w, err));
    LW_TRY(nccl_harvest(w, err));
    int32_t flag = kernel_look(&w->flags[FLAG_FAILED]);
    if (flag)
        return failed_by_flag(flag, err);
    LW_TRY(nccl_check_async(w, err));
    if (!nccl_idle(w))
        return LW_OK;
    *done = at_rest(w);
    return LW_OK;
}

/* After a failure: what has begun and needs no other rank may end. Kernels that wait are stopped
 * when the other processes have had time to stop: a collective that is queued after such a kernel
 * would end there as if nothing had failed, and a rank that has not heard of it yet would go on
 * into the next step and say that it stopped there. */
static void last_look(struct exec_world *w)
{
    int64_t until = exec_now_ns() + GRACE_NS;
    bool first = w->how.process && !atomic_load(&w->told);

    for (int32_t i = 0; !w->cut_short && nccl_harvest(w, NULL) == LW_OK; i++) {
        if (!nccl_computing(w) || exec_now_ns() > until)
            break;
        nccl_doze(i);
    }
    tell_others(w);
    if (first)
        nanosleep(&(struct timespec){0, HEARD_NS}, NULL);
    kernel_say(&w->flags[FLAG_STOP], 1);
}

/* Between two looks. Where nothing moves for long, as in a run that hangs, polling takes little of
 * the processor; QUIET_DOZE_NS is 0.4 % of the time that it then took already. */
static void doze(struct exec_world *w, int32_t n_tries, int64_t now)
{
    if (w->n_moves != w->seen_moves) {
        w->seen_moves = w->n_moves;
        w->moved_ns = now;
    }
    if (now - w->moved_ns > QUIET_NS)
        nanosleep(&(struct timespec){0, QUIET_DOZE_NS}, NULL);
    else
        nccl_doze(n_tries);
}

static enum exec_state poll_world(struct exec_world *w, int64_t deadline_ns, struct lw_err *err)
{
    struct lw_err why = {0};
    bool done;

    for (int32_t i = 0;; i++) {
        if (atomic_load(&w->stop)) {
            last_look(w);
            nccl_stopped(w, err);
            return EXEC_FAILED;
        }
        enum lw_status s = look(w, &done, &why);
        if (s == LW_OK && done)
            s = nccl_anchor(w, &why);
        if (s == LW_OK && done)
            s = nccl_tell_found(w, &why);
        if (s != LW_OK) {
            nccl_stop(w, &why);
            continue;
        }
        if (done) {
            nccl_device_active(w, false);
            return EXEC_DONE;
        }
        int64_t now = exec_now_ns();
        if (now >= deadline_ns)
            return EXEC_RUNNING;
        doze(w, i, now);
    }
}

const struct exec_backend exec_plugin_backend = {
    .api_version = EXEC_API_VERSION,
    .size = sizeof(struct exec_backend),
    .name = "nccl",
    .about = "one process per GPU, collectives of NCCL; or a loop of ranks on one GPU",
    .capabilities = EXEC_CAN_PRIORITY | EXEC_CAN_ALL_REDUCE | EXEC_CAN_REDUCE |
                    EXEC_CAN_REDUCE_SCATTER | EXEC_CAN_ALL_GATHER | EXEC_CAN_BROADCAST |
                    EXEC_CAN_ALL_TO_ALL | EXEC_CAN_BARRIER | EXEC_CAN_SEND_RECV | EXEC_CAN_LOOP |
                    EXEC_CAN_SPAWN | EXEC_CAN_PROCESS | EXEC_CAN_REGISTER | EXEC_CAN_GRAPH,
    .probe = probe,
    .open = open_world,
    .close = close_world,
    .abort = backend_abort,
    .facts = facts,
    .now_ns = now_ns,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_read = mem_read,
    .mem_write = mem_write,
    .stream_create = stream_create,
    .event_create = event_create,
    .event_record = event_record,
    .event_wait = event_wait,
    .compute = compute,
    .hold = hold,
    .step_graph = nccl_step_graph,
    .release = release,
    .comm_create = nccl_comm_create,
    .comm_create_class = nccl_comm_create_class,
    .comm_connect = nccl_comm_connect,
    .comm_estimate = nccl_comm_estimate,
    .comm_destroy = nccl_comm_destroy,
    .communicate = communicate,
    .poll = poll_world,
};
