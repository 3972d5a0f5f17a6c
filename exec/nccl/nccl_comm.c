/* Communicators and collectives between processes: NCCL.
 *
 * The communicator over all ranks does not block: nccl_settle polls it with the world's time limit.
 * Every other communicator is split from it and blocks: a call returns when its kernel is on the
 * stream, so the timing events before and after it enclose the kernel and nothing else. (A call on
 * a non-blocking communicator starts a host thread, and the launch would count as communication.)
 *
 * A blocking call can wait for another process only while it connects. Two measures keep that out
 * of a step: algorithms connect when a communicator is created (NCCL_RUNTIME_CONNECT=0), and pairs
 * of ranks connect in nccl_comm_connect, both in one order on all ranks. A watchdog thread aborts
 * all communicators when a call outlasts the time limit or a stop (NCCL user guide, "Error handling
 * and communicator abort").
 *
 * All are aborted together. An abort frees device memory, which waits for all kernels of the device
 * (NVIDIA/nccl issues 549 and 1013), and it ends the kernels of its own communicator only: a split
 * has flags of its own (NVIDIA/nccl, src/init.cc, setCommAbortFlags and commReclaim). So one that
 * is aborted alone waits for ever while a kernel of another one waits for a lost rank. From version
 * 2.22 on, the aborts of a group set all flags before any memory is freed. In earlier versions each
 * abort has a thread of its own, to the same effect.
 *
 * The members' ranges of a buffer differ by at most one element (exec_range). Where they differ, a
 * reduce-scatter is a group of reduces and an all-gather a group of broadcasts. */
#include "exec/backend/contract.h"
#include "exec/nccl/nccl_world.h"
#include "shared/numbers/units.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const ncclDataType_t dtypes[LW_N_DTYPES] = {
    [LW_F32] = ncclFloat32, [LW_F64] = ncclFloat64, [LW_F16] = ncclFloat16,
    [LW_BF16] = ncclBfloat16, [LW_I64] = ncclInt64, [LW_I32] = ncclInt32, [LW_U8] = ncclUint8,
};

/* NCCL's words; CUDA's own where it was CUDA that failed under NCCL. */
static enum lw_status failed(struct exec_world *w, ncclComm_t c, ncclResult_t r, const char *call,
                             struct lw_err *err)
{
    const char *last = c ? ncclGetLastError(c) : NULL;
    CUresult cuda = r == ncclUnhandledCudaError ? cuStreamQuery(w->setup) : CUDA_SUCCESS;

    if (cuda != CUDA_SUCCESS && cuda != CUDA_ERROR_NOT_READY)
        return nccl_cu(cuda, call, err);
    return lw_fail(err, LW_EFAILED, "NCCL: %s: %s%s%.160s", call, ncclGetErrorString(r),
                     last && *last ? ": " : "", last ? last : "");
}

enum lw_status nccl_settle(struct exec_world *w, ncclComm_t c, ncclResult_t r, const char *call,
                           struct lw_err *err)
{
    int64_t until = exec_now_ns() + w->how.timeout_ns;

    if (r != ncclSuccess && r != ncclInProgress)
        return failed(w, c, r, call, err);
    for (int32_t i = 0;; i++) {
        ncclResult_t state;
        r = ncclCommGetAsyncError(c, &state);
        if (r != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
            return failed(w, c, r != ncclSuccess ? r : state, call, err);
        if (state == ncclSuccess)
            return LW_OK;
        if (atomic_load(&w->stop) && !w->closing)
            return nccl_stopped(w, err);
        if (exec_now_ns() > until)
            return lw_fail(err, LW_ETIMEOUT, "NCCL: %s: still in progress after %.3g s", call,
                             (double)w->how.timeout_ns * 1e-9);
        nccl_doze(i);
    }
}

enum lw_status nccl_check_async(struct exec_world *w, struct lw_err *err)
{
    for (const struct exec_comm *c = w->comms; c; c = c->next) {
        ncclResult_t state, r;
        if (!c->nccl)
            continue;
        r = ncclCommGetAsyncError(c->nccl, &state);
        if (r != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
            return failed(w, c->nccl, r != ncclSuccess ? r : state, "asynchronous error", err);
    }
    return LW_OK;
}

/* --- calls that block ------------------------------------------------------------------------- */

enum { WATCH_NS = 20000000, STOP_NS = 200000000 };
#define ABORT_NS INT64_C(5000000000)

/* A stop lets a call return by itself for a while: an abort ends kernels that have not done their
 * work. */
static bool overdue(const struct exec_world *w)
{
    int64_t now = exec_now_ns();
    bool stopped = atomic_load(&w->stop) && !w->closing;

    if (w->in_capture) /* nothing runs, and an abort would wait for the graph to go */
        return false;
    return now > w->call_until || (stopped && now > w->call_from + STOP_NS);
}

static void *abort_one(void *comm)
{
    ncclCommAbort(comm);
    return NULL;
}

static void abort_in_threads(ncclComm_t *comms, int32_t n)
{
    pthread_t *threads = lw_calloc((size_t)n, sizeof *threads);

    for (int32_t i = 0; i < n; i++)
        if (threads && pthread_create(&threads[i], NULL, abort_one, comms[i]) == 0)
            comms[i] = NULL;
    for (int32_t i = 0; threads && i < n; i++)
        if (!comms[i])
            pthread_join(threads[i], NULL);
    for (int32_t i = 0; i < n; i++)
        if (comms[i])
            ncclCommAbort(comms[i]);
    lw_free(threads);
}

static void abort_together(ncclComm_t *comms, int32_t n)
{
    int version = 0;

    if (n == 0)
        return;
    if (ncclGetVersion(&version) != ncclSuccess || version < NCCL_VERSION(2, 22, 0) ||
        ncclGroupStart() != ncclSuccess) {
        abort_in_threads(comms, n);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        ncclCommAbort(comms[i]);
    ncclGroupEnd();
}

static void add(ncclComm_t comm, ncclComm_t *comms, int32_t *n)
{
    if (comm)
        comms[(*n)++] = comm;
}

/* All handles, the one of the call under way among them. comms[] has room for them. */
static int32_t list_all(const struct exec_world *w, ncclComm_t call, ncclComm_t *comms)
{
    int32_t n = 0;
    bool listed = false;

    for (const struct exec_comm *c = w->comms; c; c = c->next)
        add(c->nccl, comms, &n);
    add(w->world_comm, comms, &n);
    for (int32_t i = 0; i < n; i++)
        listed |= comms[i] == call;
    if (!listed) /* in its end: no longer in the list */
        add(call, comms, &n);
    return n;
}

/* By the thread that makes the calls alone. */
static void forget_all(struct exec_world *w)
{
    for (struct exec_comm *c = w->comms; c; c = c->next)
        c->nccl = NULL;
    w->world_comm = NULL;
}

static ncclComm_t *room_for_all(const struct exec_world *w)
{
    size_t n = 2;

    for (const struct exec_comm *c = w->comms; c; c = c->next)
        n++;
    return lw_calloc(n, sizeof(ncclComm_t));
}

/* The mutex is held, and free during the aborts. The thread in the call waits in `left`. */
static void abort_from_outside(struct exec_world *w)
{
    ncclComm_t one = w->in_call, *comms = room_for_all(w);
    int32_t n = comms ? list_all(w, one, comms) : 1;

    w->aborted = true;
    pthread_mutex_unlock(&w->call_mutex);
    abort_together(comms ? comms : &one, n);
    lw_free(comms);
    pthread_mutex_lock(&w->call_mutex);
    w->abort_done = true;
}

static void *watch(void *world)
{
    struct exec_world *w = world;

    pthread_mutex_lock(&w->call_mutex);
    while (!w->watch_ends) {
        if (w->in_call && !w->aborted && overdue(w))
            abort_from_outside(w);
        pthread_mutex_unlock(&w->call_mutex);
        nanosleep(&(struct timespec){0, WATCH_NS}, NULL);
        pthread_mutex_lock(&w->call_mutex);
    }
    pthread_mutex_unlock(&w->call_mutex);
    return NULL;
}

static enum lw_status watch_open(struct exec_world *w, struct lw_err *err)
{
    w->watched = pthread_create(&w->watchdog, NULL, watch, w) == 0;
    return w->watched ? LW_OK : lw_fail(err, LW_EFAILED, "the watchdog thread cannot be started");
}

/* An abort that has not returned keeps its thread, and the world. */
static void watch_close(struct exec_world *w)
{
    if (!w->watched)
        return;
    pthread_mutex_lock(&w->call_mutex);
    w->watch_ends = true;
    w->stuck = w->aborted && !w->abort_done;
    pthread_mutex_unlock(&w->call_mutex);
    if (w->stuck)
        pthread_detach(w->watchdog);
    else
        pthread_join(w->watchdog, NULL);
    w->watched = false;
}

static void enter(struct exec_world *w, ncclComm_t c)
{
    pthread_mutex_lock(&w->call_mutex);
    w->in_call = c;
    w->in_capture = w->capturing;
    w->call_from = exec_now_ns();
    w->call_until = w->call_from + w->how.timeout_ns;
    pthread_mutex_unlock(&w->call_mutex);
}

/* After the call. false: the watchdog has aborted all communicators, which are gone. */
static bool left(struct exec_world *w)
{
    int64_t until = exec_now_ns() + ABORT_NS;

    pthread_mutex_lock(&w->call_mutex);
    w->in_call = NULL;
    for (int32_t i = 0; w->aborted && !w->abort_done && exec_now_ns() < until; i++) {
        pthread_mutex_unlock(&w->call_mutex);
        nccl_doze(i);
        pthread_mutex_lock(&w->call_mutex);
    }
    bool there = !w->aborted;
    pthread_mutex_unlock(&w->call_mutex);
    if (!there)
        forget_all(w);
    return there;
}

/* After the call: its result, or why the watchdog aborted all communicators, which are gone. */
static enum lw_status leave(struct exec_world *w, struct exec_comm *c, ncclResult_t r,
                            const char *name, struct lw_err *err)
{
    if (left(w))
        return r == ncclSuccess ? LW_OK : failed(w, c->nccl, r, name, err);
    c->nccl = NULL;
    w->cut_short = true;
    if (atomic_load(&w->stop))
        return nccl_stopped(w, err);
    return lw_fail(err, LW_ETIMEOUT, "NCCL: %s: the call did not return within %.3g s", name,
                   (double)w->how.timeout_ns * 1e-9);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* NCCL refuses two ranks on one device; what to do about it is added to its message. */
static enum lw_status explain_shared(struct exec_world *w, enum lw_status status,
                                     struct lw_err *err)
{
    int n_devices = 0;
    struct lw_err theirs;

    if (status == LW_OK || !err || !strstr(err->msg, "Duplicate GPU"))
        return status;
    theirs = *err;
    cuDeviceGetCount(&n_devices);
    return lw_fail(err, LW_ENOTSUP,
                   "%.120s: rank %d of %d sees %d GPU%s; start at most one process per visible GPU "
                   "(CUDA_VISIBLE_DEVICES; NCCL takes the instances of MIG of one GPU for one), or "
                   "put all ranks on one device (--transport loop)",
                   theirs.msg, w->first, w->how.n_ranks, n_devices, lw_plural(n_devices));
}

static enum lw_status identify(struct exec_world *w, struct lw_err *err)
{
    CUuuid own;

    LW_TRY(nccl_cu(cuDeviceGetUuid(&own, w->device), "cuDeviceGetUuid", err));
    w->nameless = memcmp(&own, &(CUuuid){{0}}, sizeof own) == 0;
    return LW_OK;
}

enum lw_status nccl_world_comm_open(struct exec_world *w, struct lw_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    int32_t rank = w->first, n = w->how.n_ranks;

    LW_TRY(identify(w, err));
    LW_TRY(watch_open(w, err));
    memset(&id, 0, sizeof id);
    setenv("NCCL_RUNTIME_CONNECT", "0", 1); /* connect all algorithms when a communicator is made */
    if (rank == 0) {
        ncclResult_t r = ncclGetUniqueId(&id);
        if (r != ncclSuccess)
            return failed(w, NULL, r, "ncclGetUniqueId", err);
    }
    if (w->how.process)
        LW_TRY(w->how.process->broadcast(w->how.process->context, &id, sizeof id, err));
    config.blocking = 0;
    ncclResult_t r = ncclCommInitRankConfig(&w->world_comm, n, id, rank, &config);
    enum lw_status s = nccl_settle(w, w->world_comm, r, "ncclCommInitRankConfig", err);
    return explain_shared(w, s, err);
}

static void free_comm(struct exec_comm *c)
{
    lw_free(c->members);
    lw_free(c->index_of);
    lw_free(c->n_given);
    lw_free(c->n_issued);
    lw_free(c->posted);
    lw_free(c);
}

static enum lw_status note_members(struct exec_world *w, struct exec_comm *c,
                                   const int32_t *members, int32_t n, struct lw_err *err)
{
    c->n = n;
    LW_NEW(c->members, n, err);
    LW_NEW(c->index_of, w->how.n_ranks, err);
    LW_NEW(c->n_given, n, err);
    LW_NEW(c->n_issued, n, err);
    LW_NEW(c->posted, n, err);
    LW_TRY(exec_members_index(members, n, w->how.n_ranks, c->members, c->index_of, err));
    c->me = w->loop ? -1 : c->index_of[w->first];
    return LW_OK;
}

/* One split for all groups of a class: `color` is the group of this process, or none. Every process
 * takes part; c is NULL where it is in no group. */
static enum lw_status split(struct exec_world *w, int32_t color, struct exec_comm *c,
                            struct lw_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t *into = c ? &c->nccl : &w->no_comm;
    CUdeviceptr scratch;

    config.blocking = 1;
    ncclResult_t r =
        ncclCommSplit(w->world_comm, c ? color : NCCL_SPLIT_NOCOLOR, c ? c->me : 0, into, &config);
    struct lw_err why = {0};
    enum lw_status ended = nccl_settle(w, w->world_comm, r, "ncclCommSplit", &why);
    if (ended != LW_OK) { /* it may still write its communicator: the parent must be aborted */
        nccl_stop(w, &why);
        if (err)
            *err = why;
        return ended;
    }
    if (!c)
        return LW_OK;
    LW_TRY(nccl_settle(w, c->nccl, ncclSuccess, "ncclCommSplit", err));
    LW_TRY(nccl_mem_new(w, sizeof(int32_t), &scratch, err));
    c->scratch = (int32_t *)scratch;
    return LW_OK;
}

static enum lw_status new_comm(struct exec_world *w, const int32_t *members, int32_t n,
                               struct exec_comm **comm, struct lw_err *err)
{
    struct exec_comm *c;

    if (w->loop && n > KERNEL_MAX_MEMBERS)
        return lw_fail(err, LW_ENOTSUP, "a loop on one device joins up to %d ranks, not %d",
                         KERNEL_MAX_MEMBERS, n);
    LW_NEW(c, 1, err);
    enum lw_status s = note_members(w, c, members, n, err);
    if (s == LW_OK)
        s = nccl_cu(cuEventCreate(&c->last, CU_EVENT_DISABLE_TIMING), "cuEventCreate", err);
    if (s != LW_OK) {
        free_comm(c);
        return s;
    }
    c->next = w->comms; /* from here close() ends it, whatever state it is in */
    w->comms = c;
    *comm = c;
    return LW_OK;
}

enum lw_status nccl_comm_create_class(struct exec_world *w, const struct exec_members *groups,
                                      int32_t n, struct exec_comm **comms, struct lw_err *err)
{
    struct exec_comm *mine = NULL;
    int32_t color = -1;

    for (int32_t i = 0; i < n; i++) {
        LW_TRY(new_comm(w, groups[i].ranks, groups[i].n, &comms[i], err));
        if (comms[i]->me < 0)
            continue;
        if (mine)
            return lw_fail(err, LW_EINVAL, "rank %d is in two groups of one class of communicators",
                           w->first);
        mine = comms[i];
        color = i;
    }
    return w->loop ? LW_OK : split(w, color, mine, err);
}

enum lw_status nccl_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                                struct exec_comm **comm, struct lw_err *err)
{
    struct exec_members group = {members, n};

    return nccl_comm_create_class(w, &group, 1, comm, err);
}

/* One element each way with every peer, as one group. */
static ncclResult_t greet(const struct exec_comm *c, const int32_t *peers, int32_t n,
                          const char *from, char *to, cudaStream_t s)
{
    ncclResult_t r = ncclGroupStart(), ended;

    for (int32_t i = 0; r == ncclSuccess && i < n; i++) {
        int32_t member = c->index_of[peers[i]];
        r = ncclSend(from, 1, ncclUint8, member, c->nccl, s);
        if (r == ncclSuccess)
            r = ncclRecv(to + i, 1, ncclUint8, member, c->nccl, s);
    }
    ended = ncclGroupEnd();
    return r == ncclSuccess ? ended : r;
}

enum lw_status nccl_comm_connect(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                 const int32_t *peers, int32_t n, struct lw_err *err)
{
    CUdeviceptr at;

    if (w->loop || rank != w->first || c->me < 0)
        return LW_OK;
    LW_TRY(nccl_mem_new(w, n + 1, &at, err));
    enter(w, c->nccl);
    enum lw_status s = leave(w, c,
                             greet(c, peers, n, (char *)at, (char *)at + 1, (cudaStream_t)w->setup),
                             "connecting sends and receives", err);
    if (s == LW_OK)
        s = nccl_wait_setup(w, err);
    if (s == LW_OK)
        nccl_mem_free(w, at);
    return s;
}

/* Waits until the communicator is finished; one that cannot be finished is aborted. */
static void end_nccl(struct exec_world *w, ncclComm_t c)
{
    if (!c)
        return;
    enter(w, c);
    ncclResult_t r = ncclCommFinalize(c);
    if (!left(w))
        return; /* the watchdog has aborted it */
    if (nccl_settle(w, c, r, "ncclCommFinalize", NULL) == LW_OK)
        ncclCommDestroy(c);
    else
        ncclCommAbort(c);
}

/* A split that has not ended writes its handle when its parent is aborted: handles are forgotten
 * before, and that communicator goes last. */
static void abort_all(struct exec_world *w)
{
    for (struct exec_comm *c = w->comms; c; c = c->next)
        nccl_deregister(c);
    for (int round = 0; round < 2; round++) {
        ncclComm_t *comms = room_for_all(w);
        int32_t n = comms ? list_all(w, NULL, comms) : 0;
        forget_all(w);
        abort_together(comms, n);
        lw_free(comms);
    }
}

static void end_comm(struct exec_world *w, struct exec_comm *c)
{
    nccl_deregister(c);
    end_nccl(w, c->nccl);
    cuEventDestroy(c->last);
    free_comm(c);
}

/* After a stop nccl_comms_close aborts all communicators together. */
void nccl_comm_destroy(struct exec_world *w, struct exec_comm *comm)
{
    if (atomic_load(&w->stop))
        return;
    for (struct exec_comm **c = &w->comms; *c; c = &(*c)->next) {
        if (*c != comm)
            continue;
        *c = comm->next;
        end_comm(w, comm);
        return;
    }
}

void nccl_comms_close(struct exec_world *w, bool abort)
{
    if (abort)
        abort_all(w);
    while (w->comms) {
        struct exec_comm *c = w->comms;
        w->comms = c->next;
        end_comm(w, c);
    }
    end_nccl(w, w->world_comm);
    w->world_comm = NULL;
    watch_close(w);
}

/* --- collectives ------------------------------------------------------------------------------ */

struct range {
    char *mem;
    size_t count;
};

static struct range range_of(const struct exec_comm *c, const struct exec_message *m, int32_t i)
{
    int64_t first = exec_range_first(m->count, c->n, i);
    int64_t end = exec_range_first(m->count, c->n, i + 1);

    return (struct range){(char *)m->mem + first * lw_dtype_size(m->dtype), (size_t)(end - first)};
}

static ncclResult_t in_ranges(const struct exec_comm *c, enum lw_op_kind op,
                              const struct exec_message *m, cudaStream_t s)
{
    ncclDataType_t t = dtypes[m->dtype];
    ncclResult_t r = ncclGroupStart(), ended;

    for (int32_t i = 0; r == ncclSuccess && i < c->n; i++) {
        struct range k = range_of(c, m, i);
        if (k.count == 0)
            continue;
        r = op == LW_OP_REDUCE_SCATTER
                ? ncclReduce(k.mem, k.mem, k.count, t, ncclSum, i, c->nccl, s)
                : ncclBroadcast(k.mem, k.mem, k.count, t, i, c->nccl, s);
    }
    ended = ncclGroupEnd();
    return r == ncclSuccess ? ended : r;
}

enum lw_status nccl_comm_spare(struct exec_world *w, struct exec_comm *c, int64_t bytes,
                               struct lw_err *err)
{
    if (bytes <= c->spare_bytes)
        return LW_OK;
    /* a smaller one may be in use: freed at close */
    LW_TRY(nccl_mem_new_message(w, bytes, &c->spare, err));
    c->spare_bytes = bytes;
    return LW_OK;
}

/* Block i of every member to member i. What comes in may not overwrite what has still to go out,
 * so it is received beside the buffer and copied back. */
static ncclResult_t all_to_all(const struct exec_comm *c, const struct exec_message *m,
                               cudaStream_t s)
{
    size_t n = (size_t)(m->count / c->n), bytes = n * (size_t)lw_dtype_size(m->dtype);
    ncclDataType_t t = dtypes[m->dtype];
    ncclResult_t r = ncclGroupStart(), ended;

    for (int32_t i = 0; r == ncclSuccess && i < c->n; i++) {
        if (i == c->me)
            continue;
        r = ncclSend((const char *)m->mem + (size_t)i * bytes, n, t, i, c->nccl, s);
        if (r == ncclSuccess)
            r = ncclRecv((char *)c->spare + (size_t)i * bytes, n, t, i, c->nccl, s);
    }
    ended = ncclGroupEnd();
    return r == ncclSuccess ? ended : r;
}

/* What came from the members before this one, and from those after it. */
static enum lw_status copy_back(const struct exec_comm *c, const struct exec_message *m, CUstream s,
                                struct lw_err *err)
{
    size_t block = (size_t)(m->count / c->n * lw_dtype_size(m->dtype));
    size_t before = (size_t)c->me * block, after = before + block;
    CUdeviceptr to = (CUdeviceptr)m->mem;

    if (before > 0)
        LW_TRY(nccl_cu(cuMemcpyDtoDAsync(to, c->spare, before, s), "cuMemcpyDtoDAsync", err));
    if (c->me + 1 == c->n)
        return LW_OK;
    return nccl_cu(cuMemcpyDtoDAsync(to + after, c->spare + after, (size_t)c->n * block - after, s),
                   "cuMemcpyDtoDAsync", err);
}

static ncclResult_t call(const struct exec_comm *c, enum lw_op_kind op,
                         const struct exec_message *m, cudaStream_t s)
{
    ncclDataType_t t = dtypes[m->dtype];
    size_t n = (size_t)m->count;
    struct range mine = range_of(c, m, c->me);

    switch (op) {
    case LW_OP_ALL_REDUCE:
        return ncclAllReduce(m->mem, m->mem, n, t, ncclSum, c->nccl, s);
    case LW_OP_REDUCE:
        return ncclReduce(m->mem, m->mem, n, t, ncclSum, m->peer, c->nccl, s);
    case LW_OP_BROADCAST:
        return ncclBroadcast(m->mem, m->mem, n, t, m->peer, c->nccl, s);
    case LW_OP_REDUCE_SCATTER:
        if (m->count % c->n != 0)
            return in_ranges(c, op, m, s);
        return ncclReduceScatter(m->mem, mine.mem, mine.count, t, ncclSum, c->nccl, s);
    case LW_OP_ALL_GATHER:
        if (m->count % c->n != 0)
            return in_ranges(c, op, m, s);
        return ncclAllGather(mine.mem, m->mem, mine.count, t, c->nccl, s);
    case LW_OP_ALL_TO_ALL:
        return all_to_all(c, m, s);
    default: /* barrier: no rank has the sum before all have entered */
        return ncclAllReduce(c->scratch, c->scratch, 1, ncclInt32, ncclSum, c->nccl, s);
    }
}

/* NCCL estimates a group of calls instead of launching it (ncclGroupSimulateEnd, since 2.22). It
 * leaves the time below 0 where it has none: sends and receives, and so all-to-all. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 3)
enum lw_status nccl_comm_estimate(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                  enum lw_op_kind op, const struct exec_message *m, int64_t *ns,
                                  struct lw_err *err)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    struct exec_message message = *m;
    bool rooted = op == LW_OP_BROADCAST || op == LW_OP_REDUCE;

    if (w->loop || rank != w->first || c->me < 0 || op == LW_OP_ALL_TO_ALL)
        return lw_fail(err, LW_ENOTSUP, "NCCL has no estimate of this call");
    message.mem = c->scratch;
    message.peer = rooted ? c->index_of[m->peer] : 0;
    enter(w, c->nccl);
    ncclResult_t r = ncclGroupStart();
    if (r == ncclSuccess)
        r = call(c, op, &message, (cudaStream_t)w->setup);
    ncclResult_t ended = ncclGroupSimulateEnd(&info);
    LW_TRY(leave(w, c, r == ncclSuccess ? ended : r, "ncclGroupSimulateEnd", err));
    if (!(info.estimatedTime >= 0) || info.estimatedTime > 9e9f)
        return lw_fail(err, LW_ENOTSUP, "NCCL has no estimate of this call");
    *ns = (int64_t)(info.estimatedTime * 1e3f + .5f);
    return LW_OK;
}
#else
enum lw_status nccl_comm_estimate(struct exec_world *w, struct exec_comm *c, int32_t rank,
                                  enum lw_op_kind op, const struct exec_message *m, int64_t *ns,
                                  struct lw_err *err)
{
    (void)w, (void)c, (void)rank, (void)op, (void)m, (void)ns;
    return lw_fail(err, LW_ENOTSUP, "NCCL before 2.22.3 has no estimates");
}
#endif

/* Ops of one communicator run one after the other, also across streams. */
static enum lw_status after_last(struct exec_comm *c, struct exec_stream *s, struct lw_err *err)
{
    if (!c->last_stream || c->last_stream == s)
        return LW_OK;
    return nccl_cu(cuStreamWaitEvent(s->cu, c->last, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent",
                   err);
}

static enum lw_status note_last(struct exec_comm *c, struct exec_stream *s, struct lw_err *err)
{
    c->last_stream = s;
    return nccl_cu(cuEventRecord(c->last, s->cu), "cuEventRecord", err);
}

enum lw_status nccl_issue_collective(const struct command *c, struct lw_err *err)
{
    struct exec_stream *s = c->stream;
    struct flight *f;
    enum lw_status status = LW_OK;

    LW_TRY(after_last(c->comm, s, err));
    LW_TRY(nccl_begin(s, &f, err));
    s->n_queued += c->op == LW_OP_ALL_TO_ALL ? 3 : 1;
    if (c->op == LW_OP_BARRIER || c->message.count > 0) {
        enter(s->world, c->comm->nccl);
        status = leave(s->world, c->comm,
                       call(c->comm, c->op, &c->message, (cudaStream_t)s->cu), lw_op_name(c->op),
                       err);
        if (status == LW_OK && c->op == LW_OP_ALL_TO_ALL)
            status = copy_back(c->comm, &c->message, s->cu, err);
    }
    LW_TRY(nccl_end(s, f, c->stamp, status, err));
    return note_last(c->comm, s, err);
}

static ncclResult_t call_all(const struct command *c)
{
    cudaStream_t s = (cudaStream_t)c->stream->cu;
    ncclComm_t comm = c->comm->nccl;
    ncclResult_t r = ncclGroupStart(), ended;

    for (int32_t i = 0; r == ncclSuccess && i < c->n_items; i++) {
        const struct exec_message *m = &c->items[i].x.message;
        ncclDataType_t t = dtypes[m->dtype];
        r = c->items[i].x.op == LW_OP_SEND
                ? ncclSend(m->mem, (size_t)m->count, t, m->peer, comm, s)
                : ncclRecv(m->mem, (size_t)m->count, t, m->peer, comm, s);
    }
    ended = ncclGroupEnd();
    return r == ncclSuccess ? ended : r;
}

enum lw_status nccl_issue_exchange(struct command *c, struct lw_err *err)
{
    struct exec_stream *s = c->stream;
    struct flight *f;

    LW_TRY(after_last(c->comm, s, err));
    LW_TRY(nccl_begin(s, &f, err));
    s->n_queued++;
    enter(s->world, c->comm->nccl);
    enum lw_status status = leave(s->world, c->comm, call_all(c), "send and receive", err);
    LW_TRY(nccl_end(s, f, NULL, status, err));
    f->exchange = c;
    return note_last(c->comm, s, err);
}
