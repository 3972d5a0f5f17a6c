/* Communicators of a world on cores, and giving their ops to streams. A communicator is a group
 * with a link of the world's wire; each member hands out tickets for its ops in the order given. */
#include <string.h>

#include "exec/cpu/cpu_world.h"
#include "shared/base/arena.h"

void cpu_comm_free(struct exec_world *w, struct exec_comm *c)
{
    w->wire->link_free(c->link);
    lw_free(c->members);
    lw_free(c->index_of);
    lw_free(c->n_given);
    lw_free(c->turn);
    lw_free(c);
}

static enum lw_status fill_comm(struct exec_world *w, struct exec_comm *c, const int32_t *members,
                                int32_t n, struct lw_err *err)
{
    bool here = false;

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
        here = here || (r >= w->first && r < w->first + w->n_local);
        c->members[i] = r;
        c->index_of[r] = i;
    }
    return here || w->wire->everyone ? w->wire->link_new(w, c, &c->link, err) : LW_OK;
}

enum lw_status cpu_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                               struct exec_comm **comm, struct lw_err *err)
{
    struct exec_comm *c = lw_calloc(1, sizeof *c);

    if (!c)
        return lw_fail_nomem(err);
    enum lw_status status = fill_comm(w, c, members, n, err);
    if (status != LW_OK) {
        cpu_comm_free(w, c);
        return status;
    }
    c->next = w->comms;
    w->comms = c;
    *comm = c;
    return LW_OK;
}

void cpu_comm_destroy(struct exec_world *w, struct exec_comm *comm)
{
    for (struct exec_comm **c = &w->comms; *c; c = &(*c)->next) {
        if (*c == comm) {
            *c = comm->next;
            cpu_comm_free(w, comm);
            return;
        }
    }
}

static enum lw_status inside(const struct exec_stream *s, const struct exec_comm *c,
                             struct lw_err *err)
{
    if (c->index_of[s->rank] >= 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "rank %d is not a member of the communicator", s->rank);
}

static enum lw_status give_collective(struct exec_stream *s, struct exec_comm *comm,
                                      enum lw_op_kind op, const struct exec_message *m,
                                      struct exec_stamp *stamp, struct lw_err *err)
{
    struct cpu_command c = {
        .kind = CPU_COLLECTIVE, .op = op, .comm = comm, .message = *m, .stamp = stamp};
    bool rooted = op == LW_OP_BROADCAST || op == LW_OP_REDUCE;

    LW_TRY(inside(s, comm, err));
    if (rooted && (m->peer < 0 || m->peer >= s->world->how.n_ranks || comm->index_of[m->peer] < 0))
        return lw_fail(err, LW_EINVAL, "%s: root %d is not a member of the communicator",
                       lw_op_name(op), m->peer);
    if (op == LW_OP_ALL_TO_ALL && m->count % comm->n != 0)
        return lw_fail(err, LW_ENOTSUP,
                       "all_to_all of %lld elements among %d ranks: not equal blocks",
                       (long long)m->count, comm->n);
    if (rooted)
        c.message.peer = comm->index_of[m->peer];
    c.ticket = comm->n_given[comm->index_of[s->rank]]++;
    return cpu_give(s, &c, err);
}

#define DEFINE_COLLECTIVE(NAME, OP)                                                                \
    enum lw_status NAME(struct exec_stream *s, struct exec_comm *c, const struct exec_message *m,  \
                        struct exec_stamp *stamp, struct lw_err *err)                              \
    {                                                                                              \
        return give_collective(s, c, OP, m, stamp, err);                                           \
    }

DEFINE_COLLECTIVE(cpu_all_reduce, LW_OP_ALL_REDUCE)
DEFINE_COLLECTIVE(cpu_reduce, LW_OP_REDUCE)
DEFINE_COLLECTIVE(cpu_reduce_scatter, LW_OP_REDUCE_SCATTER)
DEFINE_COLLECTIVE(cpu_all_gather, LW_OP_ALL_GATHER)
DEFINE_COLLECTIVE(cpu_broadcast, LW_OP_BROADCAST)
DEFINE_COLLECTIVE(cpu_all_to_all, LW_OP_ALL_TO_ALL)
DEFINE_COLLECTIVE(cpu_barrier, LW_OP_BARRIER)

static enum lw_status give_exchange(struct exec_stream *s, struct exec_comm *comm, int32_t n,
                                    struct lw_err *err)
{
    struct cpu_item *items = lw_alloc((size_t)n * sizeof *items);
    struct cpu_command c = {.kind = CPU_EXCHANGE, .comm = comm, .n_items = n, .message.mem = items};

    if (!items)
        return lw_fail_nomem(err);
    memcpy(items, s->group, (size_t)n * sizeof *items);
    c.ticket = comm->n_given[comm->index_of[s->rank]]++;
    enum lw_status status = cpu_give(s, &c, err);
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
        return lw_fail(err, LW_EINVAL, "%s of rank %d: peer %d is not another member",
                       lw_op_name(op), s->rank, m->peer);
    if (s->n_group == CPU_GROUP_MAX || (s->n_group > 0 && s->group_comm != comm))
        return lw_fail(err, LW_ENOTSUP,
                       "a group of sends and receives holds %d of one communicator", CPU_GROUP_MAX);
    struct cpu_item item = {op, *m, stamp};
    item.message.peer = comm->index_of[m->peer];
    s->group[s->n_group++] = item;
    s->group_comm = comm;
    if (s->in_group)
        return LW_OK;
    s->n_group = 0;
    return give_exchange(s, comm, 1, err);
}

enum lw_status cpu_send(struct exec_stream *s, struct exec_comm *c, const struct exec_message *m,
                        struct exec_stamp *stamp, struct lw_err *err)
{
    return give_p2p(s, c, LW_OP_SEND, m, stamp, err);
}

enum lw_status cpu_recv(struct exec_stream *s, struct exec_comm *c, const struct exec_message *m,
                        struct exec_stamp *stamp, struct lw_err *err)
{
    return give_p2p(s, c, LW_OP_RECV, m, stamp, err);
}

enum lw_status cpu_group_begin(struct exec_stream *s, struct lw_err *err)
{
    if (s->in_group)
        return lw_fail(err, LW_EINVAL, "groups of sends and receives do not nest");
    s->in_group = true;
    return LW_OK;
}

enum lw_status cpu_group_end(struct exec_stream *s, struct lw_err *err)
{
    int32_t n = s->n_group;

    s->in_group = false;
    s->n_group = 0;
    return n > 0 ? give_exchange(s, s->group_comm, n, err) : LW_OK;
}
