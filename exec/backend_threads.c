/* The threads backend: ranks are threads of one process, and the reference for every other backend.
 * A world on cores (cpu_world.h) whose wire is the collectives of thread_ring.c, over shared
 * memory. */
#include "exec/cpu_world.h"
#include "exec/thread_ring.h"
#include "shared/arena.h"

enum { MAX_RANKS = 1024 };

static bool threads_probe(char reason[EXEC_REASON])
{
    reason[0] = '\0';
    return true;
}

/* --- the wire -----------------------------------------------------------------------------------
 */

struct cpu_link {
    struct exec_ring *ring;
};

static void link_free(struct cpu_link *link)
{
    if (link)
        exec_ring_free(link->ring);
    lw_free(link);
}

static enum lw_status link_new(struct exec_world *w, const struct exec_comm *c,
                               struct cpu_link **link, struct lw_err *err)
{
    struct exec_pace pace = {w->how.link_bytes_per_s, w->how.link_latency_ns};
    struct cpu_link *l = lw_calloc(1, sizeof *l);

    if (!l)
        return lw_fail_nomem(err);
    enum lw_status s = exec_ring_new(c->n, pace, &w->stop, &l->ring, err);
    if (s != LW_OK) {
        link_free(l);
        return s;
    }
    *link = l;
    return LW_OK;
}

static enum lw_status collective(struct cpu_link *link, int32_t i, enum lw_op_kind op,
                                 const struct exec_message *m, int64_t *all_in_ns,
                                 struct lw_err *err)
{
    return exec_ring_run(link->ring, i, op, m, all_in_ns, err);
}

static enum lw_status exchange(struct cpu_link *link, int32_t i, const struct exec_message *m,
                               const enum lw_op_kind *op, int32_t n, struct lw_err *err)
{
    return exec_ring_exchange(link->ring, i, m, op, n, err);
}

static const struct cpu_wire wire = {
    .link_new = link_new, .link_free = link_free, .collective = collective, .exchange = exchange};

/* --- the table ----------------------------------------------------------------------------------
 */

static enum lw_status threads_open(const struct exec_open *how, struct exec_world **world,
                                   struct lw_err *err)
{
    if (how->n_ranks < 1 || how->n_ranks > MAX_RANKS)
        return lw_fail(err, LW_EINVAL, "threads: %d ranks (1 to %d)", how->n_ranks, MAX_RANKS);
    return cpu_open(how, &wire, world, err);
}

static void threads_close(struct exec_world *w)
{
    cpu_close(w);
}

const struct exec_backend exec_backend_threads = {
    .api_version = EXEC_API_VERSION,
    .size = sizeof(struct exec_backend),
    .name = "threads",
    .about = "ranks are threads of one process; collectives over shared memory",
    .capabilities = EXEC_CAN_PRIORITY | EXEC_CAN_ALL_REDUCE | EXEC_CAN_REDUCE |
                    EXEC_CAN_REDUCE_SCATTER | EXEC_CAN_ALL_GATHER | EXEC_CAN_BROADCAST |
                    EXEC_CAN_BARRIER | EXEC_CAN_SEND_RECV | EXEC_CAN_SPLIT | EXEC_CAN_PACE |
                    EXEC_CAN_ALL_IN,
    .probe = threads_probe,
    .open = threads_open,
    .close = threads_close,
    .abort = cpu_abort,
    .facts = cpu_facts,
    .now_ns = cpu_now_ns,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .mem_read = cpu_mem_read,
    .mem_write = cpu_mem_write,
    .stream_create = cpu_stream_create,
    .event_create = cpu_event_create,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .compute = cpu_compute,
    .hold = cpu_hold,
    .release = cpu_release,
    .comm_create = cpu_comm_create,
    .comm_split = cpu_comm_split,
    .comm_destroy = cpu_comm_destroy,
    .all_reduce = cpu_all_reduce,
    .reduce = cpu_reduce,
    .reduce_scatter = cpu_reduce_scatter,
    .all_gather = cpu_all_gather,
    .broadcast = cpu_broadcast,
    .barrier = cpu_barrier,
    .send = cpu_send,
    .recv = cpu_recv,
    .group_begin = cpu_group_begin,
    .group_end = cpu_group_end,
    .poll = cpu_poll,
};
