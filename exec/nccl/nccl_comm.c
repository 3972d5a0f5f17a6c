/* Communicators and collectives between processes: NCCL.
 *
 * Communicators do not block: every call may return "in progress", and nccl_settle asks until it is
 * over, with the world's time limit and its stop in the loop (NCCL: user guide, "Error handling and
 * communicator abort"). Only then is anything else put on the stream, so an event recorded behind a
 * collective is behind its kernel. The first call on a communicator connects it and so waits, here on
 * the host, for the others to come to it; every rank hands over in the plan's order, so they come.
 *
 * All communicators are split from one over all ranks, which is made from an id that process 0 gives
 * to the others. Members' ranges differ by at most one element (exec_range): where they differ, a
 * reduce-scatter is a group of reduces, an all-gather a group of broadcasts. */
#include "exec/nccl/nccl_world.h"

#include <string.h>

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
    int64_t until = nccl_now_ns() + w->how.timeout_ns;

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
        if (nccl_now_ns() > until)
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

/* --- communicators ------------------------------------------------------------------------------ */

/* Do two ranks use one device? Their unique ids, gathered by NCCL itself. */
static enum lw_status find_shared(struct exec_world *w, struct lw_err *err)
{
    enum { ID = sizeof(CUuuid) };
    CUuuid own;
    CUdeviceptr at;
    int32_t n = w->how.n_ranks;
    size_t bytes = (size_t)n * ID;

    LW_TRY(nccl_cu(cuDeviceGetUuid(&own, w->device), "cuDeviceGetUuid", err));
    LW_TRY(nccl_mem_new(w, (int64_t)bytes, &at, err));
    CUdeviceptr mine = at + (CUdeviceptr)w->first * ID;
    LW_TRY(nccl_cu(cuMemcpyHtoD(mine, &own, ID), "cuMemcpyHtoD", err));
    LW_TRY(nccl_settle(w, w->world_comm,
                       ncclAllGather((const void *)mine, (void *)at, ID, ncclUint8, w->world_comm,
                                     (cudaStream_t)w->setup),
                       "ncclAllGather", err));
    LW_TRY(nccl_wait_setup(w, err));
    CUuuid *all = nccl_alloc((size_t)n, sizeof *all);
    if (!all)
        return lw_fail(err, LW_ENOMEM, "out of memory");
    enum lw_status s = nccl_cu(cuMemcpyDtoH(all, at, bytes), "cuMemcpyDtoH", err);
    for (int32_t a = 0; s == LW_OK && a < n; a++)
        for (int32_t b = a + 1; b < n; b++)
            w->shared_device |= memcmp(&all[a], &all[b], ID) == 0;
    w->nameless = memcmp(&own, &(CUuuid){{0}}, ID) == 0;
    nccl_free(all);
    nccl_mem_free(w, at);
    return s;
}

enum lw_status nccl_world_comm_open(struct exec_world *w, struct lw_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    int32_t rank = w->first, n = w->how.n_ranks;

    memset(&id, 0, sizeof id);
    if (rank == 0) {
        ncclResult_t r = ncclGetUniqueId(&id);
        if (r != ncclSuccess)
            return failed(w, NULL, r, "ncclGetUniqueId", err);
    }
    if (w->how.process)
        LW_TRY(w->how.process->broadcast(w->how.process->context, &id, sizeof id, err));
    config.blocking = 0;
    ncclResult_t r = ncclCommInitRankConfig(&w->world_comm, n, id, rank, &config);
    LW_TRY(nccl_settle(w, w->world_comm, r, "ncclCommInitRankConfig", err));
    return find_shared(w, err);
}

static void free_comm(struct exec_comm *c)
{
    nccl_free(c->members);
    nccl_free(c->index_of);
    nccl_free(c->n_given);
    nccl_free(c->n_issued);
    nccl_free(c->posted);
    nccl_free(c);
}

static enum lw_status note_members(struct exec_world *w, struct exec_comm *c,
                                   const int32_t *members, int32_t n, struct lw_err *err)
{
    c->n = n;
    c->me = -1;
    c->members = nccl_alloc((size_t)n, sizeof *c->members);
    c->index_of = nccl_alloc((size_t)w->how.n_ranks, sizeof *c->index_of);
    c->n_given = nccl_alloc((size_t)n, sizeof *c->n_given);
    c->n_issued = nccl_alloc((size_t)n, sizeof *c->n_issued);
    c->posted = nccl_alloc((size_t)n, sizeof *c->posted);
    if (!c->members || !c->index_of || !c->n_given || !c->n_issued || !c->posted)
        return lw_fail(err, LW_ENOMEM, "out of memory");
    for (int32_t r = 0; r < w->how.n_ranks; r++)
        c->index_of[r] = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t r = members[i];
        if (r < 0 || r >= w->how.n_ranks || c->index_of[r] >= 0)
            return lw_fail(err, LW_EINVAL, "member %d of a group is rank %d: %s", i, r,
                             r < 0 || r >= w->how.n_ranks ? "no such rank" : "named twice");
        c->members[i] = r;
        c->index_of[r] = i;
        if (!w->loop && r == w->first)
            c->me = i;
    }
    return LW_OK;
}

/* Every process takes part in every split; those outside ask for no communicator. */
static enum lw_status split(struct exec_world *w, struct exec_comm *c, struct lw_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CUdeviceptr scratch;

    config.blocking = 0;
    ncclResult_t r = ncclCommSplit(w->world_comm, c->me >= 0 ? 0 : NCCL_SPLIT_NOCOLOR,
                                   c->me >= 0 ? c->me : 0, &c->nccl, &config);
    LW_TRY(nccl_settle(w, w->world_comm, r, "ncclCommSplit", err));
    if (c->me < 0)
        return LW_OK;
    LW_TRY(nccl_settle(w, c->nccl, ncclSuccess, "ncclCommSplit", err));
    LW_TRY(nccl_mem_new(w, sizeof(int32_t), &scratch, err));
    c->scratch = (int32_t *)scratch;
    return LW_OK;
}

enum lw_status nccl_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                                struct exec_comm **comm, struct lw_err *err)
{
    struct exec_comm *c;

    if (w->loop && n > KERNEL_MAX_MEMBERS)
        return lw_fail(err, LW_ENOTSUP, "a loop on one device joins up to %d ranks, not %d",
                         KERNEL_MAX_MEMBERS, n);
    c = nccl_alloc(1, sizeof *c);
    if (!c)
        return lw_fail(err, LW_ENOMEM, "out of memory");
    enum lw_status s = note_members(w, c, members, n, err);
    if (s == LW_OK)
        s = nccl_cu(cuEventCreate(&c->last, CU_EVENT_DISABLE_TIMING), "cuEventCreate", err);
    if (s != LW_OK) {
        free_comm(c);
        return s;
    }
    c->next = w->comms; /* from here close() ends it, whatever state it is in */
    w->comms = c;
    if (!w->loop)
        LW_TRY(split(w, c, err));
    *comm = c;
    return LW_OK;
}

enum lw_status nccl_comm_split(struct exec_world *w, struct exec_comm *parent,
                               const int32_t *members, int32_t n, struct exec_comm **c,
                               struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++)
        if (members[i] < 0 || members[i] >= w->how.n_ranks || parent->index_of[members[i]] < 0)
            return lw_fail(err, LW_EINVAL, "rank %d is outside of the group to be split",
                             members[i]);
    return nccl_comm_create(w, members, n, c, err);
}

/* An abort frees a communicator that cannot be finished; else wait until it is. */
static void end_nccl(struct exec_world *w, ncclComm_t c, bool abort)
{
    if (!c)
        return;
    if (!abort && nccl_settle(w, c, ncclCommFinalize(c), "ncclCommFinalize", NULL) == LW_OK)
        ncclCommDestroy(c);
    else
        ncclCommAbort(c);
}

static void end_comm(struct exec_world *w, struct exec_comm *c, bool abort)
{
    end_nccl(w, c->nccl, abort);
    cuEventDestroy(c->last);
    free_comm(c);
}

void nccl_comm_destroy(struct exec_world *w, struct exec_comm *comm)
{
    for (struct exec_comm **c = &w->comms; *c; c = &(*c)->next) {
        if (*c != comm)
            continue;
        *c = comm->next;
        end_comm(w, comm, atomic_load(&w->stop));
        return;
    }
}

void nccl_comms_close(struct exec_world *w, bool abort)
{
    while (w->comms) {
        struct exec_comm *c = w->comms;
        w->comms = c->next;
        end_comm(w, c, abort);
    }
    end_nccl(w, w->world_comm, abort);
    w->world_comm = NULL;
}

/* --- collectives -------------------------------------------------------------------------------- */

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
    default: /* barrier: nobody has the sum before all have come */
        return ncclAllReduce(c->scratch, c->scratch, 1, ncclInt32, ncclSum, c->nccl, s);
    }
}

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
    s->n_launched++;
    if (c->op == LW_OP_BARRIER || c->message.count > 0)
        status = nccl_settle(s->world, c->comm->nccl,
                             call(c->comm, c->op, &c->message, (cudaStream_t)s->cu),
                             lw_op_name(c->op), err);
    enum lw_status ended = nccl_end(s, f, c->stamp, status == LW_OK ? err : NULL);
    if (status != LW_OK || ended != LW_OK)
        return status != LW_OK ? status : ended;
    return note_last(c->comm, s, err);
}

static ncclResult_t call_all(const struct command *c)
{
    cudaStream_t s = (cudaStream_t)c->stream->cu;
    ncclComm_t comm = c->comm->nccl;
    ncclResult_t r = ncclGroupStart(), ended;

    for (int32_t i = 0; r == ncclSuccess && i < c->n_items; i++) {
        const struct exec_message *m = &c->items[i].message;
        ncclDataType_t t = dtypes[m->dtype];
        r = c->items[i].op == LW_OP_SEND
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
    s->n_launched++;
    enum lw_status status = nccl_settle(s->world, c->comm->nccl, call_all(c), "send and receive",
                                        err);
    enum lw_status ended = nccl_end(s, f, NULL, status == LW_OK ? err : NULL);
    if (status != LW_OK || ended != LW_OK)
        return status != LW_OK ? status : ended;
    f->exchange = c;
    return note_last(c->comm, s, err);
}
