/* lapwing-record.so: preloaded before a program (LD_PRELOAD), records every call of NCCL.
 *
 * Each function of NCCL that starts communication or makes a communicator is defined here, asks the
 * library itself (dlsym, RTLD_NEXT) and writes a line. Programs that fetch NCCL's functions by
 * dlsym from a handle of their own are not seen.
 *
 * LAPWING_RECORD_EVENTS=1 adds when each call ran on the device: two timing events of the CUDA
 * driver around the call, or around the group that it belongs to. On a communicator that does
 * not block, the second event may precede the kernel; calls captured into a CUDA graph get no
 * span. */
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>

#include "exec/record/record_cuda.h"
#include "exec/record/record_file.h"
#include "exec/record/record_next.h"

static void *find(const char *name)
{
    return record_next(name, "libnccl.so.2");
}

static void say_version(void)
{
    int version = 0;
    REAL(ncclGetVersion);

    real_ncclGetVersion(&version);
    record_library("nccl", version / 10000, version / 100 % 100, version % 100);
}

/* No thread goes on before the library has been named. */
static void say_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, say_version);
}

enum { MOST_IN_GROUP = 1024 };

/* Calls of a group are written when it ends: a group that is only simulated makes none. */
static __thread struct {
    int depth, n;
    int64_t number; /* of the group */
    struct record_call call[MOST_IN_GROUP];
    cudaStream_t stream[MOST_IN_GROUP];
} group;

/* --- communicators --------------------------------------------------------------------------- */

enum { MAX_COMMS = 4096 };

/* A communicator's id is equal on all members: the hash of NCCL's unique id, or, of a split, of
 * the parent's id, the number of the split and the colour. Its line is written at its first
 * call, because rank and size of one that is still in progress are not known before. */
static struct {
    pthread_mutex_t mutex;
    int32_t n;
    struct { ncclComm_t handle; uint64_t id; int32_t n_splits; } known[MAX_COMMS];
} comms = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int32_t place_of(ncclComm_t c) /* the mutex is held */
{
    for (int32_t i = comms.n - 1; i >= 0; i--)
        if (comms.known[i].handle == c)
            return i;
    return -1;
}

static void know(ncclComm_t c, uint64_t id)
{
    pthread_mutex_lock(&comms.mutex);
    if (comms.n < MAX_COMMS) {
        comms.known[comms.n].handle = c;
        comms.known[comms.n].id = id;
        comms.known[comms.n++].n_splits = 0;
    }
    pthread_mutex_unlock(&comms.mutex);
}

static void forget(ncclComm_t c)
{
    pthread_mutex_lock(&comms.mutex);
    int32_t i = place_of(c);
    if (i >= 0)
        comms.known[i] = comms.known[--comms.n];
    pthread_mutex_unlock(&comms.mutex);
    record_comm_gone(c);
}

static uint64_t id_of(ncclComm_t c, bool splits, int32_t *split)
{
    pthread_mutex_lock(&comms.mutex);
    int32_t i = place_of(c);
    uint64_t id = i >= 0 ? comms.known[i].id : 0;
    *split = i >= 0 && splits ? comms.known[i].n_splits++ : 0;
    pthread_mutex_unlock(&comms.mutex);
    return id;
}

static int32_t comm_of(ncclComm_t c)
{
    int32_t number = record_comm_of(c), unused;
    int rank = -1, n = -1;
    REAL(ncclCommUserRank);
    REAL(ncclCommCount);

    if (number > 0)
        return number;
    real_ncclCommUserRank(c, &rank);
    real_ncclCommCount(c, &n);
    return record_comm(c, id_of(c, false, &unused), rank, n);
}

static ncclResult_t note_comm(ncclResult_t r, const ncclComm_t *comm, uint64_t id)
{
    if ((r == ncclSuccess || r == ncclInProgress) && comm && *comm)
        know(*comm, id);
    return r;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
    REAL(ncclCommInitRank);
    say_library();
    return note_comm(real_ncclCommInitRank(comm, n, id, rank), comm, record_hash(&id, sizeof id));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    REAL(ncclCommInitRankConfig);
    say_library();
    return note_comm(real_ncclCommInitRankConfig(comm, n, id, rank, config), comm,
                     record_hash(&id, sizeof id));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int rank, int n_ids,
                                      ncclUniqueId *ids, ncclConfig_t *config)
{
    REAL(ncclCommInitRankScalable);
    say_library();
    return note_comm(real_ncclCommInitRankScalable(comm, n, rank, n_ids, ids, config), comm,
                     record_hash(ids, n_ids * (int64_t)sizeof *ids));
}
#endif

ncclResult_t ncclCommInitAll(ncclComm_t *list, int n, const int *devices)
{
    static _Atomic int64_t n_worlds;
    REAL(ncclCommInitAll);
    say_library();
    ncclResult_t r = real_ncclCommInitAll(list, n, devices);
    int64_t world = ++n_worlds; /* all members are in this process */

    for (int i = 0; i < n; i++)
        note_comm(r, &list[i], record_hash(&world, sizeof world));
    return r;
}

/* Children whose handles NCCL has not written yet: it does so when a split of a parent that does
 * not block, or within a group, ends. The program learns of that from the parent's state, or from
 * the end of the group; until then the place of the handle lives. */
enum { MAX_PENDING = 64 };
static struct {
    pthread_mutex_t mutex;
    int32_t n;
    struct {
        ncclComm_t parent;
        const ncclComm_t *place;
        uint64_t id;
        int64_t group; /* 0 = outside of groups */
    } all[MAX_PENDING];
} pending = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void expect_child(ncclComm_t parent, const ncclComm_t *place, uint64_t id)
{
    pthread_mutex_lock(&pending.mutex);
    bool room = pending.n < MAX_PENDING;
    if (room) {
        pending.all[pending.n].parent = parent;
        pending.all[pending.n].place = place;
        pending.all[pending.n].group = group.depth > 0 ? group.number : 0;
        pending.all[pending.n++].id = id;
    }
    pthread_mutex_unlock(&pending.mutex);
    if (!room)
        record_lost("ncclCommSplit");
}

/* Of this parent, or of a group (NULL). Whether a child came or not, its place may go now; those of
 * a group that is still open wait for its end. */
static void take_children(ncclComm_t parent, int64_t of_group, bool failed)
{
    int64_t open = group.depth > 0 ? group.number : -1;
    int32_t n = 0;

    pthread_mutex_lock(&pending.mutex);
    for (int32_t i = 0; i < pending.n; i++) {
        bool mine = parent ? pending.all[i].parent == parent && pending.all[i].group != open
                           : pending.all[i].group == of_group;
        if (!mine)
            pending.all[n++] = pending.all[i];
        else if (!failed && *pending.all[i].place)
            know(*pending.all[i].place, pending.all[i].id);
    }
    pending.n = n;
    pthread_mutex_unlock(&pending.mutex);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    REAL(ncclCommGetAsyncError);
    ncclResult_t r = real_ncclCommGetAsyncError(comm, state);

    if (r == ncclSuccess && *state != ncclInProgress)
        take_children(comm, 0, *state != ncclSuccess);
    return r;
}

/* A child of the parent's n-th split or shrink; all members of a shrink have colour 0. */
static ncclResult_t note_child(ncclResult_t r, ncclComm_t parent, int color, const ncclComm_t *comm)
{
    struct { uint64_t parent; int32_t split, color; } id = {.color = color};

    id.parent = id_of(parent, true, &id.split);
    if (color == NCCL_SPLIT_NOCOLOR)
        return r;
    if (r == ncclInProgress || (r == ncclSuccess && !*comm)) { /* NCCL may be writing it now */
        expect_child(parent, comm, record_hash(&id, sizeof id));
        return r;
    }
    return note_comm(r, comm, record_hash(&id, sizeof id));
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
                           ncclConfig_t *config)
{
    REAL(ncclCommSplit);
    return note_child(real_ncclCommSplit(parent, color, key, comm, config), parent, color, comm);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
ncclResult_t ncclCommShrink(ncclComm_t parent, int *excluded, int n_excluded, ncclComm_t *comm,
                            ncclConfig_t *config, int flags)
{
    REAL(ncclCommShrink);
    return note_child(real_ncclCommShrink(parent, excluded, n_excluded, comm, config, flags),
                      parent, 0, comm);
}
#endif

#define RECORD_END(name)                        \
    ncclResult_t name(ncclComm_t comm)          \
    {                                           \
        REAL(name);                             \
        record_cuda_finish();                   \
        take_children(comm, 0, true);           \
        forget(comm);                           \
        return real_##name(comm);               \
    }

RECORD_END(ncclCommDestroy)
RECORD_END(ncclCommAbort)

/* --- calls ----------------------------------------------------------------------------------- */

static _Atomic int64_t n_groups;

static const char *dtype_name(ncclDataType_t t)
{
    switch (t) {
    case ncclFloat32: return "f32";
    case ncclFloat64: return "f64";
    case ncclFloat16: return "f16";
    case ncclBfloat16: return "bf16";
    case ncclInt64: case ncclUint64: return "i64";
    case ncclInt32: case ncclUint32: return "i32";
    case ncclInt8: case ncclUint8: return "u8";
#if NCCL_VERSION_CODE >= 22400
    case ncclFloat8e4m3: case ncclFloat8e5m2: return "u8"; /* is sent as bytes */
#endif
    default: return "?";
    }
}

/* A call between its entry and its return. Outside of a group it has a span of its own. */
struct under_way {
    struct record_call call;
    ncclComm_t comm;
    cudaStream_t stream;
    struct record_span_events *events;
};

static struct under_way enter(const char *op, size_t count, ncclDataType_t t, int peer,
                              ncclComm_t comm, cudaStream_t stream)
{
    struct under_way u = {.comm = comm, .stream = stream};

    if (group.depth == 0)
        u.events = record_cuda_begin((void *)stream);
    u.call = (struct record_call){.op = op, .dtype = dtype_name(t), .count = (int64_t)count,
                                  .group = group.depth > 0 ? group.number : 0, .peer = peer,
                                  .stream = (uintptr_t)stream, .entered_ns = record_now_ns()};
    return u;
}

static ncclResult_t leave(struct under_way *u, ncclResult_t r)
{
    if (r != ncclSuccess && r != ncclInProgress) { /* nothing runs */
        record_cuda_end(u->events, (void *)u->stream, NULL, 0);
        return r;
    }
    u->call.host_ns = record_now_ns() - u->call.entered_ns;
    u->call.comm = comm_of(u->comm);
    if (group.depth > 0 && group.n < MOST_IN_GROUP) {
        group.call[group.n] = u->call;
        group.stream[group.n++] = u->stream;
        return r;
    }
    int64_t number = record_call(&u->call);
    record_cuda_end(u->events, (void *)u->stream, &number, 1);
    return r;
}

/* One function: c and s are its communicator and stream. */
#define CALL(name, op_, count, type, peer, parameters, arguments)         \
    ncclResult_t name parameters                                          \
    {                                                                     \
        REAL(name);                                                       \
        struct under_way u = enter(op_, count, type, peer, c, s);         \
        return leave(&u, real_##name arguments);                          \
    }

#define ON ncclComm_t c, cudaStream_t s
CALL(ncclAllReduce, "all_reduce", n, t, -1,
     (const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ON),
     (from, to, n, t, op, c, s))
CALL(ncclReduce, "reduce", n, t, root,
     (const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, int root, ON),
     (from, to, n, t, op, root, c, s))
CALL(ncclReduceScatter, "reduce_scatter", n, t, -1,
     (const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ON),
     (from, to, n, t, op, c, s))
CALL(ncclBroadcast, "broadcast", n, t, root,
     (const void *from, void *to, size_t n, ncclDataType_t t, int root, ON),
     (from, to, n, t, root, c, s))
CALL(ncclBcast, "broadcast", n, t, root, (void *b, size_t n, ncclDataType_t t, int root, ON),
     (b, n, t, root, c, s))
CALL(ncclAllGather, "all_gather", n, t, -1,
     (const void *from, void *to, size_t n, ncclDataType_t t, ON), (from, to, n, t, c, s))
CALL(ncclSend, "send", n, t, peer, (const void *b, size_t n, ncclDataType_t t, int peer, ON),
     (b, n, t, peer, c, s))
CALL(ncclRecv, "recv", n, t, peer, (void *b, size_t n, ncclDataType_t t, int peer, ON),
     (b, n, t, peer, c, s))
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 3)
CALL(ncclAlltoAll, "all_to_all", n, t, -1,
     (const void *from, void *to, size_t n, ncclDataType_t t, ON), (from, to, n, t, c, s))
CALL(ncclGather, "gather", n, t, root,
     (const void *from, void *to, size_t n, ncclDataType_t t, int root, ON),
     (from, to, n, t, root, c, s))
CALL(ncclScatter, "scatter", n, t, root,
     (const void *from, void *to, size_t n, ncclDataType_t t, int root, ON),
     (from, to, n, t, root, c, s))
#endif
/* One-sided: a signal is a put of nothing. */
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
CALL(ncclPutSignal, "put", n, t, peer,
     (const void *b, size_t n, ncclDataType_t t, int peer, ncclWindow_t w, size_t at, int signal,
      int context, unsigned int flags, ON),
     (b, n, t, peer, w, at, signal, context, flags, c, s))
CALL(ncclSignal, "put", 0, ncclUint8, peer,
     (int peer, int signal, int context, unsigned int flags, ON),
     (peer, signal, context, flags, c, s))
CALL(ncclWaitSignal, "wait", 0, ncclUint8, -1, (int n, ncclWaitSignalDesc_t *list, ON),
     (n, list, c, s))
#endif

ncclResult_t ncclGroupStart(void); /* the header declares both without a prototype */
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    REAL(ncclGroupStart);
    if (group.depth++ == 0) {
        group.number = ++n_groups;
        group.n = 0;
    }
    return real_ncclGroupStart();
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 3)
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    REAL(ncclGroupSimulateEnd);
    if (--group.depth == 0)
        group.n = 0;
    return real_ncclGroupSimulateEnd(info);
}
#endif

/* One pair of events for each stream of the group. */
ncclResult_t ncclGroupEnd(void)
{
    REAL(ncclGroupEnd);
    struct record_span_events *events[16];
    cudaStream_t streams[16];
    int64_t number[MOST_IN_GROUP];
    int n = 0;

    if (--group.depth > 0)
        return real_ncclGroupEnd();
    for (int i = 0; i < group.n; i++) {
        bool seen = false;
        for (int k = 0; k < n; k++)
            seen |= streams[k] == group.stream[i];
        if (seen || n == 16)
            continue;
        streams[n] = group.stream[i];
        events[n++] = record_cuda_begin((void *)group.stream[i]);
    }
    ncclResult_t r = real_ncclGroupEnd();
    bool made = r == ncclSuccess || r == ncclInProgress; /* else nothing runs */
    if (r != ncclInProgress)
        take_children(NULL, group.number, !made);
    if (!made)
        group.n = 0;
    for (int i = 0; i < group.n; i++)
        number[i] = record_call(&group.call[i]);
    for (int k = 0; k < n; k++) {
        int64_t calls[MOST_IN_GROUP];
        int n_calls = 0;
        for (int i = 0; i < group.n; i++)
            if (group.stream[i] == streams[k])
                calls[n_calls++] = number[i];
        record_cuda_end(events[k], (void *)streams[k], calls, n_calls);
    }
    return r;
}
