/* The threads backend: ranks are threads of one process, or each is a process of its own on this
 * machine with memory that all share (shared_memory.h); the reference for every other backend. A
 * world on cores (cpu_world.h) whose wire is the collectives of thread_group.c, over shared memory,
 * by the algorithm that the plan names. Nodes are groups of ranks: they give the algorithms the
 * members that are near, and the links that are paced. */
#include "exec/cpu/cpu_world.h"
#include "exec/cpu/shared_memory.h"
#include "exec/cpu/thread_group.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"

enum { MAX_RANKS = 1024 };

static bool threads_probe(char reason[EXEC_REASON])
{
    reason[0] = '\0';
    return true;
}

/* --- the wire --------------------------------------------------------------------------------- */

struct cpu_link {
    const atomic_bool *stop;
    struct exec_group *group;
    struct exec_pace pace;
    int32_t n, ranks_per_node, *node; /* [n] of the members */
};

static void link_free(struct cpu_link *link)
{
    if (!link)
        return;
    exec_group_free(link->group);
    lw_free(link->node);
    lw_free(link);
}

/* Where processes share memory, every one of them makes every group. */
static enum lw_status new_group(const struct cpu_link *l, const struct exec_world *w,
                                const struct exec_shape *shape, struct exec_group **group,
                                struct lw_err *err)
{
    int64_t bytes = exec_group_shared_bytes(l->n);
    void *shared = w->region ? exec_region_take(w->region, -1, bytes) : NULL;

    if (w->region && !shared)
        return lw_fail_nomem(err);
    return exec_group_new(shape, l->pace, l->stop, shared, group, err);
}

static enum lw_status fill_link(struct cpu_link *l, const struct exec_world *w,
                                const struct exec_comm *c, struct lw_err *err)
{
    int32_t per_node = w->how.ranks_per_node;
    bool one_node = per_node <= 0 || per_node >= w->how.n_ranks;
    struct exec_shape shape = {LW_REDUCER_RING, c->n, 1};

    l->stop = &w->stop;
    l->n = c->n;
    l->ranks_per_node = per_node;
    LW_NEW(l->node, c->n, err);
    for (int32_t i = 0; i < c->n && !one_node; i++)
        l->node[i] = c->members[i] / per_node;
    l->pace = (struct exec_pace){w->how.link_bytes_per_s, w->how.link_latency_ns,
                                 one_node ? NULL : l->node};
    return new_group(l, w, &shape, &l->group, err);
}

static enum lw_status link_new(struct exec_world *w, const struct exec_comm *c,
                               struct cpu_link **link, struct lw_err *err)
{
    struct cpu_link *l;

    LW_NEW(l, 1, err);
    enum lw_status s = fill_link(l, w, c, err);
    if (s != LW_OK) {
        link_free(l);
        return s;
    }
    *link = l;
    return LW_OK;
}

/* Members per node when every node has as many, next to each other; 0 otherwise. */
static int32_t members_per_node(const struct cpu_link *l)
{
    int32_t each = 1;

    while (each < l->n && l->node[each] == l->node[0])
        each++;
    for (int32_t i = each; i < l->n; i++)
        if ((l->node[i] == l->node[i - 1]) != (i % each != 0))
            return 0;
    return l->n % each == 0 ? each : 0;
}

static enum lw_status threads_comm_reducer(struct exec_world *w, struct exec_comm *c,
                                           enum lw_reducer_kind reducer, struct lw_err *err)
{
    struct cpu_link *l = c->link;
    bool levels = lw_reducer_is(reducer) & LW_REDUCER_IN_LEVELS;
    int32_t each = levels ? members_per_node(l) : 1;
    struct exec_shape shape = {reducer, each > 0 ? l->n / each : 0, each};
    struct exec_group *group;

    if (!levels && reducer != LW_REDUCER_RING && reducer != LW_REDUCER_TREE)
        return lw_fail(err, LW_ENOTSUP, "threads: no reducer '%s' (ring, tree, hierarchical, "
                                        "hfreduce)", lw_reducer_name(reducer));
    if (each == 0)
        return lw_fail(err, LW_ENOTSUP, "threads: reducer '%s' needs as many members of a group on "
                                        "each of its nodes, next to each other; %d members at %d "
                                        "ranks per node are not laid out so",
                       lw_reducer_name(reducer), l->n, l->ranks_per_node);
    LW_TRY(new_group(l, w, &shape, &group, err));
    exec_group_free(l->group);
    l->group = group;
    return LW_OK;
}

static enum lw_status collective(struct cpu_link *link, int32_t i, enum lw_op_kind op,
                                 const struct exec_message *m, int64_t *all_in_ns,
                                 struct lw_err *err)
{
    return exec_group_run(link->group, i, op, m, all_in_ns, err);
}

static enum lw_status exchange(struct cpu_link *link, int32_t i, const struct exec_transfer *x,
                               int32_t n, int64_t *all_in_ns, struct lw_err *err)
{
    return exec_group_exchange(link->group, i, x, n, all_in_ns, err);
}

static void *memory(struct exec_world *w, int32_t rank, int64_t bytes)
{
    return exec_region_take(w->region, rank, bytes);
}

static const struct cpu_wire wire = {.everyone = true,
                                     .link_new = link_new,
                                     .link_free = link_free,
                                     .memory = memory,
                                     .collective = collective,
                                     .exchange = exchange};

/* --- the table -------------------------------------------------------------------------------- */

static enum lw_status threads_open(const struct exec_open *how, struct exec_world **world,
                                   struct lw_err *err)
{
    if (how->n_ranks < 1 || how->n_ranks > MAX_RANKS)
        return lw_fail(err, LW_EINVAL, "backend threads: found %d ranks, expected 1 to %d",
                       how->n_ranks, MAX_RANKS);
    struct exec_world *w;
    LW_TRY(cpu_open(how, &wire, &w, err));
    enum lw_status s =
        how->process ? exec_region_open(how->process, how->n_ranks, &w->region, err) : LW_OK;
    if (s == LW_OK)
        *world = w;
    else
        cpu_close(w);
    return s;
}

static void threads_close(struct exec_world *w)
{
    struct exec_region *region = w ? w->region : NULL;

    cpu_close(w);
    exec_region_close(region);
}

const struct exec_backend exec_backend_threads = {
    .api_version = EXEC_API_VERSION,
    .size = sizeof(struct exec_backend),
    .name = "threads",
    .about = "ranks are threads of one process; collectives over shared memory",
    .capabilities = EXEC_CAN_PRIORITY | EXEC_CAN_ALL_REDUCE | EXEC_CAN_REDUCE |
                    EXEC_CAN_REDUCE_SCATTER | EXEC_CAN_ALL_GATHER | EXEC_CAN_BROADCAST |
                    EXEC_CAN_ALL_TO_ALL | EXEC_CAN_BARRIER | EXEC_CAN_SEND_RECV |
                    EXEC_CAN_PACE | EXEC_CAN_ALL_IN | EXEC_CAN_ALGORITHM | EXEC_CAN_SPAWN |
                    EXEC_CAN_PROCESS | EXEC_CAN_END | EXEC_IN_HOST_MEMORY,
    .probe = threads_probe,
    .open = threads_open,
    .close = threads_close,
    CPU_TABLE,
    .comm_reducer = threads_comm_reducer,
};
