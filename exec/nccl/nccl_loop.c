/* The loop transport: collectives among logical ranks that are streams of one device.
 *
 * A collective goes to CUDA when every member's stream has come to it (nccl_queue.c). Member 0's
 * stream waits for the starts of all, does the work (a kernel that sums, or copies), records
 * that it is done, and all streams wait for that. A send and its receive are one copy, on the
 * receiver's stream, between the start of both and the end of both. Proves order, data and
 * events; says nothing about links: the traffic is that of the device's own memory, and results
 * are marked "emulated". */
#include "exec/nccl/nccl_world.h"

#include <string.h>

static char *range_at(const struct exec_message *m, int32_t n, int32_t i)
{
    return (char *)m->mem + exec_range_first(m->count, n, i) * lw_dtype_size(m->dtype);
}

static int64_t range_count(const struct exec_message *m, int32_t n, int32_t i)
{
    return exec_range_first(m->count, n, i + 1) - exec_range_first(m->count, n, i);
}

static enum lw_status copy_to(CUstream s, void *to, const void *from, int64_t bytes,
                              struct lw_err *err)
{
    if (bytes == 0 || to == from)
        return LW_OK;
    return nccl_cu(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, (size_t)bytes, s),
                   "cuMemcpyDtoDAsync", err);
}

/* Range i of every member's buffer, summed, into member `to` of them, or all (-1). */
static enum lw_status sum_range(struct exec_comm *c, CUstream s, int32_t to, int64_t first,
                                int64_t n, struct lw_err *err)
{
    const struct exec_message *m = &c->posted[0]->message;
    int64_t at = first * lw_dtype_size(m->dtype);
    struct kernel_sum a = {.n = n, .dtype = (int32_t)m->dtype, .n_from = c->n};

    for (int32_t i = 0; i < c->n; i++) {
        a.from[i] = (char *)c->posted[i]->message.mem + at;
        if (to < 0 || to == i)
            a.to[a.n_to++] = (char *)c->posted[i]->message.mem + at;
    }
    return n > 0 ? nccl_launch(c->posted[0]->stream->world, s, KERNEL_sum, &a, n, err) : LW_OK;
}

static enum lw_status gather(struct exec_comm *c, CUstream s, struct lw_err *err)
{
    for (int32_t i = 0; i < c->n; i++) {
        const struct exec_message *from = &c->posted[i]->message;
        int64_t bytes = range_count(from, c->n, i) * lw_dtype_size(from->dtype);
        for (int32_t k = 0; k < c->n; k++)
            LW_TRY(copy_to(s, range_at(&c->posted[k]->message, c->n, i),
                           range_at(from, c->n, i), bytes, err));
    }
    return LW_OK;
}

/* Block k of member i and block i of member k change places. */
static enum lw_status exchange_blocks(struct exec_comm *c, CUstream s, struct lw_err *err)
{
    const struct exec_message *m = &c->posted[0]->message;
    int64_t bytes = m->count / c->n * lw_dtype_size(m->dtype);

    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = i + 1; k < c->n; k++) {
            char *a = (char *)c->posted[i]->message.mem + k * bytes;
            char *b = (char *)c->posted[k]->message.mem + i * bytes;
            LW_TRY(copy_to(s, (void *)c->spare, a, bytes, err));
            LW_TRY(copy_to(s, a, b, bytes, err));
            LW_TRY(copy_to(s, b, (void *)c->spare, bytes, err));
        }
    return LW_OK;
}

static enum lw_status move(struct exec_comm *c, CUstream s, struct lw_err *err)
{
    const struct command *first = c->posted[0];
    const struct exec_message *m = &first->message;

    switch (first->op) {
    case LW_OP_ALL_REDUCE:
        return sum_range(c, s, -1, 0, m->count, err);
    case LW_OP_REDUCE:
        return sum_range(c, s, m->peer, 0, m->count, err);
    case LW_OP_REDUCE_SCATTER:
        for (int32_t i = 0; i < c->n; i++)
            LW_TRY(sum_range(c, s, i, exec_range_first(m->count, c->n, i),
                             range_count(m, c->n, i), err));
        return LW_OK;
    case LW_OP_ALL_GATHER:
        return gather(c, s, err);
    case LW_OP_BROADCAST:
        for (int32_t k = 0; k < c->n; k++)
            LW_TRY(copy_to(s, c->posted[k]->message.mem, c->posted[m->peer]->message.mem,
                           m->count * lw_dtype_size(m->dtype), err));
        return LW_OK;
    case LW_OP_ALL_TO_ALL:
        return exchange_blocks(c, s, err);
    default: /* barrier */
        return LW_OK;
    }
}

static enum lw_status agree(const struct exec_comm *c, struct lw_err *err)
{
    const struct command *a = c->posted[0];

    for (int32_t i = 1; i < c->n; i++) {
        const struct command *b = c->posted[i];
        if (b->kind == CMD_EXCHANGE || a->kind == CMD_EXCHANGE || a->op != b->op ||
            a->message.count != b->message.count || a->message.dtype != b->message.dtype ||
            a->message.peer != b->message.peer)
            return lw_fail(
                err, LW_EFAILED,
                "member 0 of the group came with %s of %lld %s (root %d), member %d with "
                "%s of %lld %s (root %d)",
                lw_op_name(a->op), (long long)a->message.count, lw_dtype_name(a->message.dtype),
                a->message.peer, i, lw_op_name(b->op), (long long)b->message.count,
                lw_dtype_name(b->message.dtype), b->message.peer);
    }
    return LW_OK;
}

static enum lw_status wait_for(struct exec_stream *s, CUevent e, struct lw_err *err)
{
    return nccl_cu(cuStreamWaitEvent(s->cu, e, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent", err);
}

/* After the op before of the communicator. */
static enum lw_status begin(struct exec_comm *c, struct exec_stream *s, struct flight **f,
                            struct lw_err *err)
{
    if (c->ordered)
        LW_TRY(wait_for(s, c->last, err));
    LW_TRY(nccl_begin(s, f, err));
    s->n_queued++;
    return nccl_cu(cuEventRecord(s->begun, s->cu), "cuEventRecord", err);
}

static enum lw_status note_last(struct exec_comm *c, CUstream s, struct lw_err *err)
{
    c->ordered = true;
    return nccl_cu(cuEventRecord(c->last, s), "cuEventRecord", err);
}

/* At the head of its stream and next of its member: true when it is now posted. */
static bool post(struct command *c)
{
    int32_t i = c->comm->index_of[c->stream->rank];

    if (c->ticket != c->comm->n_issued[i])
        return false;
    c->comm->posted[i] = c;
    return true;
}

static void unpost(struct command *c)
{
    int32_t i = c->comm->index_of[c->stream->rank];

    c->comm->posted[i] = NULL;
    c->comm->n_issued[i]++;
    c->issued = true;
}

/* Begin all members, do the work on member 0's stream, end all. */
static enum lw_status run_round(struct exec_comm *c, struct loop_round *round,
                                struct flight **flights, struct lw_err *err)
{
    struct exec_stream *lead = c->posted[0]->stream;

    for (int32_t i = 0; i < c->n; i++) {
        struct exec_stream *s = c->posted[i]->stream;
        LW_TRY(begin(c, s, &flights[i], err));
        s->n_queued++;
        if (i > 0)
            LW_TRY(wait_for(lead, s->begun, err));
    }
    LW_TRY(move(c, lead->cu, err));
    LW_TRY(note_last(c, lead->cu, err));
    for (int32_t i = 0; i < c->n; i++) {
        struct flight *f = flights[i];
        struct exec_stream *s = c->posted[i]->stream;
        if (i > 0)
            LW_TRY(wait_for(s, c->last, err));
        flights[i] = NULL;
        f->round = round;
        round->n_flights++;
        LW_TRY(nccl_end(s, f, c->posted[i]->stamp, LW_OK, err));
    }
    return LW_OK;
}

enum lw_status nccl_loop_collective(struct command *cmd, bool *issued, struct lw_err *err)
{
    struct exec_comm *c = cmd->comm;
    struct flight *flights[KERNEL_MAX_MEMBERS] = {NULL};

    *issued = false;
    if (!post(cmd))
        return LW_OK;
    for (int32_t i = 0; i < c->n; i++)
        if (!c->posted[i])
            return LW_OK;
    LW_TRY(agree(c, err));
    struct loop_round *round;
    LW_NEW(round, 1, err);
    round->n_missing = c->n;
    enum lw_status s = run_round(c, round, flights, err);
    for (int32_t i = 0; i < c->n; i++)
        nccl_flight_drop(c->posted[i]->stream->world, flights[i]);
    if (round->n_flights == 0)
        lw_free(round);
    LW_TRY(s);
    for (int32_t i = 0; i < c->n; i++)
        unpost(c->posted[i]);
    return LW_OK;
}

/* --- sends and receives ----------------------------------------------------------------------- */

/* The oldest item of `other` that pairs with item k of `c`. */
static struct p2p *counterpart(const struct command *c, int32_t k, struct command *other)
{
    int32_t me = c->comm->index_of[c->stream->rank];
    enum lw_op_kind wanted = c->items[k].x.op == LW_OP_SEND ? LW_OP_RECV : LW_OP_SEND;

    for (int32_t i = 0; other && other->kind == CMD_EXCHANGE && i < other->n_items; i++) {
        struct p2p *o = &other->items[i];
        if (!o->moved && o->x.op == wanted && o->x.message.peer == me)
            return o;
    }
    return NULL;
}

static enum lw_status pair(struct command *c, struct p2p *mine, struct command *other,
                           struct p2p *theirs, struct lw_err *err)
{
    bool sends = mine->x.op == LW_OP_SEND;
    struct command *from = sends ? c : other, *to = sends ? other : c;
    const struct exec_message *src = sends ? &mine->x.message : &theirs->x.message;
    const struct exec_message *dst = sends ? &theirs->x.message : &mine->x.message;

    if (src->count != dst->count || src->dtype != dst->dtype)
        return lw_fail(err, LW_EFAILED, "rank %d sends %lld %s, rank %d receives %lld %s",
                       from->stream->rank, (long long)src->count, lw_dtype_name(src->dtype),
                       to->stream->rank, (long long)dst->count, lw_dtype_name(dst->dtype));
    LW_TRY(wait_for(to->stream, from->stream->begun, err));
    LW_TRY(copy_to(to->stream->cu, dst->mem, src->mem, src->count * lw_dtype_size(src->dtype),
                   err));
    to->stream->n_queued++;
    LW_TRY(note_last(c->comm, to->stream->cu, err));
    LW_TRY(wait_for(from->stream, c->comm->last, err));
    mine->moved = theirs->moved = true;
    c->n_moved++;
    other->n_moved++;
    return LW_OK;
}

enum lw_status nccl_loop_exchange(struct command *c, bool *issued, struct lw_err *err)
{
    *issued = false;
    if (!post(c))
        return LW_OK;
    if (!c->flight)
        LW_TRY(begin(c->comm, c->stream, &c->flight, err));
    for (int32_t k = 0; k < c->n_items; k++) {
        struct command *other = c->comm->posted[c->items[k].x.message.peer];
        struct p2p *theirs = c->items[k].moved ? NULL : counterpart(c, k, other);
        if (theirs && other->flight)
            LW_TRY(pair(c, &c->items[k], other, theirs, err));
    }
    if (c->n_moved < c->n_items)
        return LW_OK;
    struct flight *f = c->flight;
    c->flight = NULL;
    unpost(c);
    *issued = true;
    LW_TRY(nccl_end(c->stream, f, NULL, LW_OK, err));
    f->exchange = c;
    return LW_OK;
}
