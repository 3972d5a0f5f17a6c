/* Communicators of a world on cores, and giving their ops to streams. A communicator is a group
 * with a link of the world's wire; each member hands out tickets for its ops in the order given. */
#include <string.h>

#include "exec/backend/contract.h"
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
    LW_NEW(c->members, n, err);
    LW_NEW(c->index_of, w->how.n_ranks, err);
    LW_NEW(c->n_given, n, err);
    LW_NEW(c->turn, n, err);
    LW_TRY(exec_members_index(members, n, w->how.n_ranks, c->members, c->index_of, err));
    for (int32_t i = 0; i < n; i++)
        here = here || (members[i] >= w->first && members[i] < w->first + w->n_local);
    return here || w->wire->everyone ? w->wire->link_new(w, c, &c->link, err) : LW_OK;
}

enum lw_status cpu_comm_create(struct exec_world *w, const int32_t *members, int32_t n,
                               struct exec_comm **comm, struct lw_err *err)
{
    struct exec_comm *c;

    LW_NEW(c, 1, err);
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

enum lw_status cpu_communicate(struct exec_stream *s, struct exec_comm *comm,
                               const struct exec_transfer *x, int32_t n, struct lw_err *err)
{
    bool p2p = lw_op_class(x->op) == LW_CLASS_P2P;
    struct exec_transfer items[EXEC_MOST_TRANSFERS], *kept = NULL;

    LW_TRY(exec_transfers_check(x, n, s->rank, s->world->how.n_ranks, comm->n, comm->index_of,
                                items, err));
    struct cpu_command c = {.kind = CPU_COLLECTIVE,
                            .op = items[0].op,
                            .comm = comm,
                            .message = items[0].message,
                            .stamp = items[0].stamp};
    if (p2p) {
        LW_NEW(kept, n, err);
        memcpy(kept, items, (size_t)n * sizeof *kept);
        c = (struct cpu_command){
            .kind = CPU_EXCHANGE, .comm = comm, .n_items = n, .message.mem = kept};
    }
    c.ticket = comm->n_given[comm->index_of[s->rank]]++;
    enum lw_status status = cpu_give(s, &c, err);
    if (status != LW_OK)
        lw_free(kept);
    return status;
}
