/* A test fixture, not NCCL: the part of its C interface that the NCCL backend uses, among processes
 * of one machine, over POSIX shared memory and the fake driver's streams. Like the real library it
 * is asynchronous: calls on a non-blocking communicator return ncclInProgress and reach the stream
 * later, from another thread; a caller that goes on before ncclCommGetAsyncError says success is
 * refused, and one that records an event too early sees it fire too early.
 *
 * It connects as the real library does. Two ranks meet at the first send or receive between them,
 * and all members of a communicator at its first collective (unless NCCL_RUNTIME_CONNECT=0: then
 * when it is made): the call does not return, or stays in progress, until the others have come to
 * theirs. Two ranks on one device are refused (FAKE_NCCL_SHARE=1 allows them).
 *
 * Data moves in rounds: in round k every member puts a chunk into its own slot, waits for all,
 * reads what it needs, and lets the slots be used again. Sends and receives go through one box per
 * pair. Sums are made in member order in f64: no particular rounding of NCCL is imitated.
 *
 * The end of a communicator frees device memory, which waits for all kernels of the device. From
 * version 2.22 on, aborts of one group are all asked for before the first of them waits.
 *
 * The thread sanitizer sees one process. That what is received comes after what was sent before (a
 * plan proves so through the programs of other ranks) is therefore shown to it by one counter,
 * which every send adds to and every receive reads.
 *
 * FAKE_NCCL_DELAY_US=n        before each op a random wait below n (FAKE_GPU_SEED)
 * FAKE_NCCL_LAUNCH_US=n       a call is in progress for a random time below n
 * FAKE_NCCL_ERROR=rank:op:e   on that rank of the first communicator, op number `op` (1 = the
 *                             first) reports the asynchronous error e and never ends
 * FAKE_NCCL_LOSE=rank:op      that process kills itself there (op 0: while communicators are made)
 * FAKE_NCCL_HANG=rank:op      that rank never enters the op (op -1, -2: the first, second split)
 * FAKE_NCCL_FLIP=rank:op      that rank receives its first element with the lowest bit flipped
 * FAKE_NCCL_LOG=file          one line per op a rank has finished, buffer it has registered,
 *                             abort, or split whose handle has its place on the caller's stack
 * FAKE_NCCL_VERSION=n         what ncclGetVersion reports
 *
 * Compiled with FAKE_NCCL_OLD it is a library before 2.19, without registered buffers. */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "exec/backend/scalar.h"
#include "tests/fake_gpu/fake_cuda.h"
#include "tests/fake_gpu/fake_env.h"

enum { MAX_RANKS = 8, SLOT = 1 << 19, BOX = 1 << 17, MAX_SPLITS = 64 };

enum op_kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV };
static const char *const op_names[] = {"AllReduce", "Reduce", "ReduceScatter", "AllGather",
                                       "Broadcast", "Send", "Recv"};

struct slot {
    _Atomic uint64_t written, read;
    int64_t count;
    int32_t kind, dtype, root;
    _Atomic uint64_t split_seq;
    int32_t color[MAX_SPLITS], key[MAX_SPLITS];
    unsigned char data[SLOT];
};

struct box {
    _Atomic uint64_t sent, received;
    int64_t bytes;
    unsigned char data[BOX];
};

struct segment {
    _Atomic uint32_t n_moves, n_asleep;           /* changes of what follows; members that wait */
    _Atomic int32_t arrived, mismatch, n_connected;
    _Atomic int32_t device[MAX_RANKS];            /* ordinal + 1 */
    _Atomic int32_t met[MAX_RANKS][MAX_RANKS];    /* [who][whom] came to their first message */
    struct slot slot[MAX_RANKS];
    struct box box[MAX_RANKS][MAX_RANKS]; /* [from][to] */
};

struct ncclComm {
    char name[NCCL_UNIQUE_ID_BYTES];
    struct segment *shared;
    int rank, n_ranks;
    int device;     /* of the context in which it was made, among all of the machine */
    int world_rank; /* of the communicator it was split from first: what FAKE_NCCL_* name */
    bool blocking, connected;
    uint64_t round, n_splits, of_split; /* of_split: number of the split it came from, 0 = none */
    _Atomic int32_t state, aborted, n_flying;
    int n_registered;
    struct ncclComm *next_abort; /* of the group */
};

struct item {
    enum op_kind kind;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t dtype;
    int peer;
    ncclComm_t comm;
    cudaStream_t stream;
};

enum { MAX_ITEMS = 64 };

struct batch { /* what goes to one stream as one host function */
    ncclComm_t comm;
    CUstream stream;
    CUcontext context;
    int n;
    bool kept; /* by the graph that it was captured into: it may run again */
    struct item items[MAX_ITEMS];
};

static __thread struct item pending[MAX_ITEMS];
static __thread int n_pending, depth;
static __thread struct ncclComm *aborts;  /* of the group */
static __thread ncclResult_t group_error; /* of a call in it: then none of its calls is made */
static _Atomic int64_t n_ops, n_launches, n_sent;
static char last_error[256]; /* of the process, as the real library's */

static size_t size_of(ncclDataType_t t)
{
    switch (t) {
    case ncclInt8: case ncclUint8: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    default: return 8;
    }
}

static enum lw_dtype dtype_of(ncclDataType_t t)
{
    switch (t) {
    case ncclFloat16: return LW_F16;
    case ncclBfloat16: return LW_BF16;
    case ncclFloat32: return LW_F32;
    case ncclFloat64: return LW_F64;
    case ncclInt32: return LW_I32;
    case ncclInt64: return LW_I64;
    default: return LW_U8;
    }
}

static bool stopped(const struct ncclComm *c)
{
    return atomic_load(&c->aborted) || atomic_load(&c->shared->mismatch);
}

/* A member changed something in the segment: those that wait look again. */
static void say_moved(struct ncclComm *c)
{
    atomic_fetch_add(&c->shared->n_moves, 1);
    if (atomic_load(&c->shared->n_asleep) > 0)
        syscall(SYS_futex, &c->shared->n_moves, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static uint32_t count_moves(const struct ncclComm *c)
{
    return atomic_load(&c->shared->n_moves);
}

/* Until a member changes something after move number `seen`; after 10 ms at the latest, because a
 * member may be killed before it says so. */
static void wait_move(struct ncclComm *c, uint32_t seen)
{
    const struct timespec most = {0, 10000000};

    atomic_fetch_add(&c->shared->n_asleep, 1);
    syscall(SYS_futex, &c->shared->n_moves, FUTEX_WAIT, seen, &most, NULL, 0);
    atomic_fetch_sub(&c->shared->n_asleep, 1);
}

static bool wait_u64(struct ncclComm *c, _Atomic uint64_t *word, uint64_t target)
{
    for (uint32_t seen = count_moves(c); atomic_load(word) < target; seen = count_moves(c)) {
        if (stopped(c))
            return false;
        wait_move(c, seen);
    }
    return true;
}

/* ---- rounds ---- */

static bool put(struct ncclComm *c, const struct item *it, const void *data, size_t bytes)
{
    struct slot *mine = &c->shared->slot[c->rank];

    c->round++;
    for (int r = 0; r < c->n_ranks; r++)
        if (!wait_u64(c, &c->shared->slot[r].read, c->round - 1))
            return false;
    mine->kind = (int32_t)it->kind;
    mine->count = (int64_t)it->count;
    mine->dtype = (int32_t)it->dtype;
    mine->root = it->peer;
    if (data)
        memcpy(mine->data, data, bytes);
    atomic_fetch_add(&n_sent, 1);
    atomic_store(&mine->written, c->round);
    say_moved(c);
    for (int r = 0; r < c->n_ranks; r++) {
        struct slot *s = &c->shared->slot[r];
        if (!wait_u64(c, &s->written, c->round))
            return false;
        if (s->kind != mine->kind || s->count != mine->count || s->dtype != mine->dtype ||
            s->root != mine->root) {
            atomic_store(&c->shared->mismatch, 1);
            say_moved(c);
            return false;
        }
    }
    (void)atomic_load(&n_sent);
    return true;
}

static void taken(struct ncclComm *c)
{
    atomic_store(&c->shared->slot[c->rank].read, c->round);
    say_moved(c);
}

static void sum_slots(const struct ncclComm *c, ncclDataType_t t, void *to, size_t n)
{
    enum lw_dtype d = dtype_of(t);

    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int r = 0; r < c->n_ranks; r++)
            sum += exec_get(d, c->shared->slot[r].data, (int64_t)i);
        exec_put(d, to, (int64_t)i, sum);
    }
}

/* One chunk of `bytes` at `at` of a block of the op; `block` is the member it belongs to. */
static bool chunk(struct ncclComm *c, const struct item *it, size_t block, size_t at, size_t bytes)
{
    size_t size = size_of(it->dtype), block_bytes = it->count * size;
    const char *send = it->send;
    char *recv = it->recv;
    bool root = c->rank == it->peer;

    switch (it->kind) {
    case ALL_REDUCE: case REDUCE:
        if (!put(c, it, send + at, bytes))
            return false;
        if (it->kind == ALL_REDUCE || root)
            sum_slots(c, it->dtype, recv + at, bytes / size);
        break;
    case BROADCAST:
        if (!put(c, it, root ? send + at : NULL, bytes))
            return false;
        memcpy(recv + at, c->shared->slot[it->peer].data, bytes);
        break;
    case ALL_GATHER:
        if (!put(c, it, send + at, bytes))
            return false;
        for (int r = 0; r < c->n_ranks; r++)
            memcpy(recv + (size_t)r * block_bytes + at, c->shared->slot[r].data, bytes);
        break;
    default: /* REDUCE_SCATTER */
        if (!put(c, it, send + block * block_bytes + at, bytes))
            return false;
        if (block == (size_t)c->rank)
            sum_slots(c, it->dtype, recv + at, bytes / size);
        break;
    }
    taken(c);
    return true;
}

static bool collective(struct ncclComm *c, const struct item *it)
{
    size_t bytes = it->count * size_of(it->dtype);
    size_t n_blocks = it->kind == REDUCE_SCATTER ? (size_t)c->n_ranks : 1;

    for (size_t block = 0; block < n_blocks; block++)
        for (size_t at = 0; at < bytes; at += SLOT)
            if (!chunk(c, it, block, at, bytes - at < SLOT ? bytes - at : SLOT))
                return false;
    return true;
}

/* One try to move a piece of a send or receive on; true: something moved. */
static bool p2p_step(struct ncclComm *c, const struct item *it, size_t *at)
{
    size_t bytes = it->count * size_of(it->dtype), left = bytes - *at;
    bool sends = it->kind == SEND;
    struct box *b = sends ? &c->shared->box[c->rank][it->peer] : &c->shared->box[it->peer][c->rank];
    uint64_t sent = atomic_load(&b->sent), received = atomic_load(&b->received);
    size_t some = left < BOX ? left : BOX;

    if (left == 0 || (sends ? sent != received : sent == received))
        return false;
    if (sends) {
        memcpy(b->data, (const char *)it->send + *at, some);
        b->bytes = (int64_t)some;
        atomic_fetch_add(&n_sent, 1);
        atomic_store(&b->sent, sent + 1);
    } else {
        (void)atomic_load(&n_sent);
        if (b->bytes != (int64_t)some)
            atomic_store(&c->shared->mismatch, 1);
        memcpy((char *)it->recv + *at, b->data, some);
        atomic_store(&b->received, received + 1);
    }
    *at += some;
    say_moved(c);
    return true;
}

/* Earlier messages between the same pair in the same direction go first. */
static bool its_turn(const struct batch *b, const size_t *at, int i)
{
    for (int k = 0; k < i; k++)
        if (b->items[k].kind == b->items[i].kind && b->items[k].peer == b->items[i].peer &&
            at[k] < b->items[k].count * size_of(b->items[k].dtype))
            return false;
    return true;
}

static bool exchange(struct ncclComm *c, const struct batch *b)
{
    size_t at[MAX_ITEMS] = {0};
    bool all = false;

    while (!all) {
        uint32_t seen = count_moves(c);
        bool any = false;
        all = true;
        for (int i = 0; i < b->n; i++) {
            if (its_turn(b, at, i))
                any |= p2p_step(c, &b->items[i], &at[i]);
            all &= at[i] == b->items[i].count * size_of(b->items[i].dtype);
        }
        if (stopped(c))
            return false;
        if (!any && !all)
            wait_move(c, seen);
    }
    return true;
}

/* ---- what the environment asks for ---- */

static bool asked(const char *setting, const struct ncclComm *c, int64_t op, struct fake_spec *spec)
{
    return fake_spec_read(setting, spec) && spec->a == c->world_rank && spec->b == op;
}

static void hang(const struct ncclComm *c)
{
    for (int64_t i = 0; !stopped(c); i++)
        fake_doze(i);
}

static bool injected(struct ncclComm *c, int64_t op)
{
    struct fake_spec spec;

    if (asked(FAKE_ENV("FAKE_NCCL_LOSE"), c, op, &spec))
        kill(getpid(), SIGKILL);
    if (asked(FAKE_ENV("FAKE_NCCL_ERROR"), c, op, &spec)) {
        atomic_store(&c->state, (int32_t)spec.c);
        hang(c);
        return true;
    }
    if (asked(FAKE_ENV("FAKE_NCCL_HANG"), c, op, &spec)) {
        hang(c);
        return true;
    }
    return false;
}

/* Little-endian: the lowest bit of the first element is that of the first byte. */
static void flip(const struct ncclComm *c, int64_t op, const struct item *it)
{
    struct fake_spec spec;

    if (asked(FAKE_ENV("FAKE_NCCL_FLIP"), c, op, &spec))
        *(unsigned char *)it->recv ^= 1;
}

static void log_line(const struct ncclComm *c, const char *what, size_t n)
{
    int fd = fake_log_fd(FAKE_ENV("FAKE_NCCL_LOG"));

    if (fd >= 0)
        dprintf(fd, "rank %d of %d: %s %zu\n", c->rank, c->n_ranks, what, n);
}

static void log_op(const struct ncclComm *c, const struct item *it)
{
    char what[32];

    snprintf(what, sizeof what, "%s count", op_names[it->kind]);
    log_line(c, what, it->count);
}

static void CUDA_CB run_batch(void *arg)
{
    struct batch *b = arg;
    struct ncclComm *c = b->comm;
    int64_t op = atomic_fetch_add(&n_ops, 1) + 1;
    bool ok = !atomic_load(&c->aborted);

    fake_sleep_us(fake_delay_us(fake_env_int("FAKE_NCCL_DELAY_US", 0),
                                (uint64_t)op * 16 + (uint64_t)c->world_rank));
    if (ok && !injected(c, op)) {
        if (b->items[0].kind == SEND || b->items[0].kind == RECV)
            ok = exchange(c, b);
        else
            ok = collective(c, &b->items[0]);
        if (ok)
            flip(c, op, &b->items[0]);
        for (int i = 0; ok && i < b->n; i++)
            log_op(c, &b->items[i]);
    }
    if (atomic_load(&c->shared->mismatch))
        atomic_store(&c->state, ncclInvalidUsage);
    if (!ok)
        hang(c);
    if (b->kept)
        return;
    atomic_fetch_sub(&c->n_flying, 1);
    free(b);
}

/* A communicator with captured calls stays until their graphs are gone. */
static void drop_batch(void *arg)
{
    struct batch *b = arg;

    atomic_fetch_sub(&b->comm->n_flying, 1);
    free(b);
}

static void launch(struct batch *b)
{
    struct ncclComm *c = b->comm;

    fake_sleep_us(fake_delay_us(fake_env_int("FAKE_NCCL_LAUNCH_US", 0),
                                (uint64_t)atomic_fetch_add(&n_launches, 1)));
    cuCtxSetCurrent(b->context);
    CUstream stream = b->stream;
    b->kept = fake_cuda_keep(stream, drop_batch, b);
    if (cuLaunchHostFunc(stream, run_batch, b) != CUDA_SUCCESS) {
        atomic_store(&c->state, ncclUnhandledCudaError);
        if (!b->kept)
            drop_batch(b);
    }
}

/* ---- connecting ---- */

static bool wait_i32(struct ncclComm *c, _Atomic int32_t *word, int32_t target)
{
    for (uint32_t seen = count_moves(c); atomic_load(word) < target; seen = count_moves(c)) {
        if (stopped(c))
            return false;
        wait_move(c, seen);
    }
    return true;
}

static bool p2p(enum op_kind k)
{
    return k == SEND || k == RECV;
}

/* Says to every peer of the batch that this rank has come, then waits for each of them. */
static bool connect_pairs(struct batch *b)
{
    struct ncclComm *c = b->comm;

    for (int i = 0; i < b->n; i++)
        atomic_store(&c->shared->met[c->rank][b->items[i].peer], 1);
    say_moved(c);
    for (int i = 0; i < b->n; i++)
        if (!wait_i32(c, &c->shared->met[b->items[i].peer][c->rank], 1))
            return false;
    return true;
}

static bool connect_all(struct ncclComm *c)
{
    if (c->connected)
        return true;
    c->connected = true;
    atomic_fetch_add(&c->shared->n_connected, 1);
    say_moved(c);
    return wait_i32(c, &c->shared->n_connected, c->n_ranks);
}

static bool connect(struct batch *b)
{
    return p2p(b->items[0].kind) ? connect_pairs(b) : connect_all(b->comm);
}

static bool connects_at_runtime(void)
{
    return fake_env_int("NCCL_RUNTIME_CONNECT", 1) != 0;
}

static void start_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &attr, fn, arg);
    pthread_attr_destroy(&attr);
}

/* A NULL-ended list, in its order. Communicators are ready again when all of it is on its streams:
 * one more flight each, so that an abort does not free them before. */
static ncclResult_t launch_all(struct batch **list)
{
    ncclResult_t failed = ncclSuccess;
    struct ncclComm *comms[MAX_ITEMS];
    int n = 0;

    for (; list[n]; n++) {
        comms[n] = list[n]->comm;
        atomic_fetch_add(&comms[n]->n_flying, 1);
    }
    for (int i = 0; i < n; i++) {
        if (!connect(list[i]))
            failed = ncclSystemError;
        launch(list[i]);
    }
    for (int i = 0; i < n; i++) {
        int32_t in_progress = ncclInProgress;
        atomic_compare_exchange_strong(&comms[i]->state, &in_progress, ncclSuccess);
        atomic_fetch_sub(&comms[i]->n_flying, 1);
    }
    free(list);
    return failed;
}

static void *launch_thread(void *list)
{
    launch_all(list);
    return NULL;
}

/* Sends and receives of one communicator and stream go as one batch; each collective alone. */
static struct batch *batch_for(struct batch **list, int *n, const struct item *it)
{
    for (int i = 0; p2p(it->kind) && i < *n; i++)
        if (list[i]->comm == it->comm && list[i]->stream == (CUstream)it->stream &&
            p2p(list[i]->items[0].kind))
            return list[i];
    struct batch *b = calloc(1, sizeof *b);
    b->comm = it->comm;
    b->stream = (CUstream)it->stream;
    cuCtxGetCurrent(&b->context);
    return list[(*n)++] = b;
}

static ncclResult_t launch_pending(void)
{
    struct batch **list = calloc(MAX_ITEMS + 1, sizeof(struct batch *));
    bool blocking = true;
    int n = 0;

    for (int i = 0; i < n_pending; i++) {
        struct batch *b = batch_for(list, &n, &pending[i]);
        b->items[b->n++] = pending[i];
    }
    n_pending = 0;
    if (n == 0) {
        free(list);
        return ncclSuccess;
    }
    for (int i = 0; i < n; i++) {
        blocking &= list[i]->comm->blocking;
        atomic_fetch_add(&list[i]->comm->n_flying, 1);
        atomic_store(&list[i]->comm->state, ncclInProgress);
    }
    if (blocking) {
        return launch_all(list);
    }
    start_thread(launch_thread, list);
    return ncclInProgress;
}

static ncclResult_t refuse(const char *why)
{
    snprintf(last_error, sizeof last_error, "%s", why);
    return ncclInvalidUsage;
}

static ncclResult_t check_and_give(struct item it)
{
    int32_t state = atomic_load(&it.comm->state);

    if (state == ncclInProgress && depth == 0)
        return refuse("a call on a communicator whose last call is still in progress");
    if (state != ncclSuccess && state != ncclInProgress)
        return (ncclResult_t)state;
    if (it.peer >= it.comm->n_ranks || n_pending == MAX_ITEMS)
        return refuse("peer out of range, or too many calls in a group");
    pending[n_pending++] = it;
    return depth == 0 ? launch_pending() : ncclSuccess;
}

static ncclResult_t give(struct item it)
{
    ncclResult_t r = check_and_give(it);

    if (depth > 0 && r != ncclSuccess)
        group_error = r;
    return r;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

static void release(ncclComm_t c);

ncclResult_t ncclGroupEnd(void)
{
    if (--depth > 0)
        return ncclSuccess;
    ncclResult_t r = group_error;
    if (r != ncclSuccess)
        n_pending = 0;
    else
        r = launch_pending();
    group_error = ncclSuccess;
    while (aborts) {
        ncclComm_t c = aborts;
        aborts = c->next_abort;
        release(c);
    }
    return r;
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    double bytes = 0;

    for (int i = 0; i < n_pending; i++)
        bytes += (double)(pending[i].count * size_of(pending[i].dtype));
    n_pending = 0;
    depth--;
    info->estimatedTime = (float)(10.0 + bytes / 1e4); /* us: 10 GB/s */
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t t,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    (void)op;
    return give((struct item){ALL_REDUCE, send, recv, count, t, 0, c, s});
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t t,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    (void)op;
    return give((struct item){REDUCE, send, recv, count, t, root, c, s});
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t t,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    (void)op;
    return give((struct item){REDUCE_SCATTER, send, recv, count, t, 0, c, s});
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t t,
                           ncclComm_t c, cudaStream_t s)
{
    return give((struct item){ALL_GATHER, send, recv, count, t, 0, c, s});
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t t, int root,
                           ncclComm_t c, cudaStream_t s)
{
    return give((struct item){BROADCAST, send, recv, count, t, root, c, s});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    return give((struct item){SEND, send, NULL, count, t, peer, c, s});
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    return give((struct item){RECV, NULL, recv, count, t, peer, c, s});
}

/* ---- communicators ---- */

ncclResult_t ncclGetVersion(int *version)
{
    *version = (int)fake_env_int("FAKE_NCCL_VERSION", NCCL_VERSION_CODE);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/lapwing-fake-nccl-%d-%lld", (int)getpid(),
             (long long)fake_now_ns());
    return ncclSuccess;
}

static bool attach(struct ncclComm *c)
{
    int fd = shm_open(c->name, O_CREAT | O_RDWR, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(struct segment)) != 0)
        return false;
    c->shared = mmap(NULL, sizeof(struct segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return c->shared != MAP_FAILED;
}

static bool shares_device(const struct ncclComm *c)
{
    int32_t mine = atomic_load(&c->shared->device[c->rank]);

    for (int r = 0; r < c->n_ranks; r++)
        if (r != c->rank && atomic_load(&c->shared->device[r]) == mine) {
            snprintf(last_error, sizeof last_error,
                     "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", c->rank,
                     r, (unsigned)mine - 1);
            return fake_env_int("FAKE_NCCL_SHARE", 0) == 0;
        }
    return false;
}

/* Wait for all members; the name goes as soon as everyone has opened it. */
static void arrive(struct ncclComm *c)
{
    atomic_store(&c->shared->device[c->rank], c->device + 1);
    atomic_fetch_add(&c->shared->arrived, 1);
    say_moved(c);
    for (uint32_t seen = count_moves(c);
         atomic_load(&c->shared->arrived) < c->n_ranks && !atomic_load(&c->aborted);
         seen = count_moves(c))
        wait_move(c, seen);
    shm_unlink(c->name);
    c->connected = !connects_at_runtime();
    if (shares_device(c)) {
        atomic_store(&c->state, ncclInvalidUsage);
        return;
    }
    int32_t in_progress = ncclInProgress;
    atomic_compare_exchange_strong(&c->state, &in_progress, ncclSuccess);
}

static void *init_main(void *arg)
{
    struct ncclComm *c = arg;
    struct fake_spec spec;

    if (asked(FAKE_ENV("FAKE_NCCL_LOSE"), c, 0, &spec))
        kill(getpid(), SIGKILL);
    if (asked(FAKE_ENV("FAKE_NCCL_HANG"), c, 0, &spec))
        for (int64_t i = 0; !atomic_load(&c->aborted); i++)
            fake_doze(i);
    else
        arrive(c);
    atomic_fetch_sub(&c->n_flying, 1);
    return NULL;
}

/* The same for all processes that see the device, whatever number it has there. Instances of MIG of
 * one GPU, which share its address on the bus, are one device: MIG-a0 and MIG-a1 are of GPU a. */
static int physical_device(void)
{
    CUuuid id;
    CUdevice d = 0;
    int place = 0;

    cuCtxGetDevice(&d);
    if (cuDeviceGetUuid(&id, d) != CUDA_SUCCESS || sscanf(id.bytes, "fake-%d", &place) != 1)
        return d;
    return place >= FAKE_FIRST_MIG ? FAKE_FIRST_MIG + (place - FAKE_FIRST_MIG) / 16 : place;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct ncclComm *c = calloc(1, sizeof *c);

    if (n < 1 || n > MAX_RANKS || rank < 0 || rank >= n) {
        free(c);
        return refuse("the fake library holds 1 to 8 ranks");
    }
    memcpy(c->name, id.internal, sizeof c->name);
    c->rank = c->world_rank = rank;
    c->n_ranks = n;
    c->device = physical_device();
    c->blocking = config->blocking != 0;
    atomic_store(&c->state, ncclInProgress);
    if (!attach(c)) {
        free(c);
        return ncclSystemError;
    }
    *out = c;
    atomic_fetch_add(&c->n_flying, 1);
    if (c->blocking) {
        init_main(c);
        return ncclSuccess;
    }
    start_thread(init_main, c);
    return ncclInProgress;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 1;
    return ncclCommInitRankConfig(out, n, id, rank, &config);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
ncclResult_t ncclCommInitRankScalable(ncclComm_t *out, int n, int rank, int n_ids,
                                      ncclUniqueId *ids, ncclConfig_t *config)
{
    return n_ids < 1 ? refuse("a communicator without a unique id")
                     : ncclCommInitRankConfig(out, n, ids[0], rank, config);
}
#endif

struct split {
    struct ncclComm *parent, *child; /* child NULL: no colour */
    ncclComm_t *out;                 /* written at the end, as the real library does */
    uint64_t seq;
    int color, key;
};

/* My rank among the members of my colour, by (key, rank in the parent). */
static void place(const struct split *s)
{
    const struct ncclComm *p = s->parent;

    s->child->rank = 0;
    s->child->n_ranks = 0;
    for (int r = 0; r < p->n_ranks; r++) {
        const struct slot *o = &p->shared->slot[r];
        int32_t key = o->key[s->seq];
        if (o->color[s->seq] != s->color)
            continue;
        s->child->n_ranks++;
        s->child->rank += key < s->key || (key == s->key && r < p->rank);
    }
    snprintf(s->child->name, sizeof s->child->name, "%.80s-%d-%d", p->name, (int)s->seq, s->color);
}

static void *split_main(void *arg)
{
    struct split *s = arg;
    struct ncclComm *p = s->parent;
    bool ok = true;
    int32_t in_progress = ncclInProgress;

    for (int r = 0; ok && r < p->n_ranks; r++) {
        uint32_t seen = count_moves(p);
        while (ok && atomic_load(&p->shared->slot[r].split_seq) < s->seq) {
            ok = !stopped(p) && !(s->child && atomic_load(&s->child->aborted));
            wait_move(p, seen);
            seen = count_moves(p);
        }
    }
    if (ok && s->child) {
        place(s);
        ok = attach(s->child);
        if (ok)
            arrive(s->child);
    }
    *s->out = s->child;
    atomic_compare_exchange_strong(&p->state, &in_progress, ok ? ncclSuccess : ncclSystemError);
    if (s->child)
        atomic_fetch_sub(&s->child->n_flying, 1);
    atomic_fetch_sub(&p->n_flying, 1);
    free(s);
    return NULL;
}

/* The handle of a split that goes on after the call is written there later. */
static bool on_stack(const void *place)
{
    intptr_t apart = (intptr_t)place - (intptr_t)__builtin_frame_address(0);

    return apart > -(1 << 20) && apart < 1 << 20;
}

ncclResult_t ncclCommSplit(ncclComm_t p, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    struct slot *mine = &p->shared->slot[p->rank];
    struct split *s = calloc(1, sizeof *s);
    struct fake_spec spec;

    if (atomic_load(&p->state) != ncclSuccess || p->n_splits + 1 == MAX_SPLITS) {
        free(s);
        return refuse("a split of a communicator that is not ready, or one too many");
    }
    *s = (struct split){p, NULL, out, ++p->n_splits, color, key};
    *out = NULL;
    if (!p->blocking && on_stack(out))
        log_line(p, "place on the stack, split", s->seq);
    if (color != NCCL_SPLIT_NOCOLOR) {
        s->child = calloc(1, sizeof *s->child);
        s->child->world_rank = p->world_rank;
        s->child->of_split = s->seq;
        s->child->blocking = config->blocking != 0;
        s->child->device = p->device;
        atomic_store(&s->child->state, ncclInProgress);
        atomic_fetch_add(&s->child->n_flying, 1);
    }
    mine->color[s->seq] = color;
    mine->key[s->seq] = key;
    if (!asked(FAKE_ENV("FAKE_NCCL_HANG"), p, -(int64_t)p->n_splits, &spec))
        atomic_store(&mine->split_seq, p->n_splits);
    say_moved(p);
    atomic_store(&p->state, ncclInProgress);
    atomic_fetch_add(&p->n_flying, 1);
    if (p->blocking) {
        split_main(s);
        return ncclSuccess;
    }
    start_thread(split_main, s);
    return ncclInProgress;
}

#ifndef FAKE_NCCL_OLD
ncclResult_t ncclMemAlloc(void **at, size_t bytes)
{
    CUdeviceptr p = 0;

    if (cuMemAlloc(&p, bytes) != CUDA_SUCCESS)
        return ncclUnhandledCudaError;
    *at = (void *)p;
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *at)
{
    return cuMemFree((CUdeviceptr)at) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *at, size_t bytes, void **handle)
{
    if (!at || bytes == 0)
        return refuse("a registration of nothing");
    *handle = at;
    c->n_registered++;
    log_line(c, "registers", bytes);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
    (void)handle;
    c->n_registered--;
    return ncclSuccess;
}
#endif

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = (ncclResult_t)atomic_load(&c->state);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    if (c->n_registered != 0)
        return refuse("finalize of a communicator with registered buffers");
    return atomic_load(&c->state) == ncclSuccess ? ncclSuccess
                                                 : refuse("finalize of a communicator in progress");
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
    *n = c->n_ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
    *rank = c->rank;
    return ncclSuccess;
}

static void release(ncclComm_t c)
{
    for (int64_t i = 0; atomic_load(&c->n_flying) > 0; i++)
        fake_doze(i);
    fake_cuda_drain();
    if (c->shared) {
        shm_unlink(c->name);
        munmap(c->shared, sizeof(struct segment));
    }
    free(c);
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    release(c);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    int version;

    ncclGetVersion(&version);
    log_line(c, "aborted, split", c->of_split);
    atomic_store(&c->aborted, 1);
    if (c->shared)
        say_moved(c);
    if (depth > 0 && version >= 22200) {
        c->next_abort = aborts;
        aborts = c;
    } else {
        release(c);
    }
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    switch (r) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

const char *ncclGetLastError(ncclComm_t c)
{
    (void)c;
    return last_error;
}
