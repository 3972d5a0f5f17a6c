/* CUDA graphs: what was given of a step becomes one graph, before the batch is released.
 *
 * Capture begins on the set-up stream and forks to every stream of the world; the commands are
 * submitted as always (nccl_queue.c) and recorded instead of run; all streams are joined to the
 * set-up stream at its end. Thread-local mode: other threads may call CUDA meanwhile, this one
 * allocates and queries nothing, so timing events and tables are taken before. Timing events are
 * recorded as external ones, which a launch of the graph records on the device, between the same
 * ops as without a graph. Until a graph has ended they look as they did before its launch, so its
 * ops are stamped when all of it is done.
 *
 * An event that was recorded in a capture orders nothing outside of it: communicators forget their
 * last op at both ends (nccl_world.h: ordered). Graphs are launched on the set-up stream one after
 * the other, so a step begins when the step before has ended on this device; two are under way at
 * once, which hides the launch of the next. A graph is destroyed when it has ended, and before its
 * communicators are (NCCL user guide, "Using NCCL with CUDA Graphs"). */
#include "exec/nccl/nccl_world.h"

enum { IN_FLIGHT = 2 };

struct graph {
    struct graph *next;
    CUgraph graph;
    CUgraphExec exec;
    CUevent end; /* of its launch */
    bool launched;
};

static enum lw_status fork_or_join(struct exec_world *w, bool join, struct lw_err *err)
{
    if (!join)
        LW_TRY(nccl_cu(cuEventRecord(w->fork, w->setup), "cuEventRecord", err));
    for (struct exec_stream *s = w->streams; s; s = s->next) {
        if (join)
            LW_TRY(nccl_cu(cuEventRecord(w->fork, s->cu), "cuEventRecord", err));
        LW_TRY(nccl_cu(cuStreamWaitEvent(join ? w->setup : s->cu, w->fork, CU_EVENT_WAIT_DEFAULT),
                       "cuStreamWaitEvent", err));
    }
    return LW_OK;
}

static void forget_order(struct exec_world *w)
{
    for (struct exec_comm *c = w->comms; c; c = c->next) {
        c->ordered = false;
        c->last_stream = NULL;
    }
}

static enum lw_status submit(struct exec_world *w, struct lw_err *err)
{
    LW_TRY(fork_or_join(w, false, err));
    LW_TRY(nccl_pump(w, err));
    if (w->head)
        return lw_fail(err, LW_EFAILED, "a step cannot be one graph: it waits for the next");
    return fork_or_join(w, true, err);
}

static enum lw_status capture(struct exec_world *w, CUgraph *graph, struct lw_err *err)
{
    CUgraph made = NULL;

    LW_TRY(nccl_cu(cuStreamBeginCapture(w->setup, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "cuStreamBeginCapture", err));
    forget_order(w);
    w->capturing = true;
    w->held = false;
    enum lw_status s = submit(w, err);
    w->capturing = false;
    w->held = true;
    forget_order(w);
    CUresult ended = cuStreamEndCapture(w->setup, &made);
    if (s == LW_OK)
        s = nccl_cu(ended, "cuStreamEndCapture", err);
    if (s != LW_OK && made)
        cuGraphDestroy(made);
    *graph = s == LW_OK ? made : NULL;
    return s;
}

static int64_t n_commands(const struct exec_world *w)
{
    int64_t n = 0;

    for (const struct command *c = w->head; c; c = c->next)
        n++;
    return n;
}

static void drop(struct exec_world *w, struct graph *g)
{
    if (g->exec)
        cuGraphExecDestroy(g->exec);
    if (g->graph)
        cuGraphDestroy(g->graph);
    if (g->end)
        nccl_timer_give(w, g->end);
    lw_free(g);
}

static enum lw_status make(struct exec_world *w, struct graph *g, struct lw_err *err)
{
    if (!w->fork)
        LW_TRY(nccl_cu(cuEventCreate(&w->fork, CU_EVENT_DISABLE_TIMING), "cuEventCreate", err));
    LW_TRY(nccl_timers_reserve(w, 2 * n_commands(w) + 1, err));
    LW_TRY(nccl_timer_take(w, &g->end, err));
    LW_TRY(capture(w, &g->graph, err));
    LW_TRY(nccl_cu(cuGraphInstantiateWithFlags(&g->exec, g->graph, 0), "cuGraphInstantiate", err));
    return nccl_cu(cuGraphUpload(g->exec, w->setup), "cuGraphUpload", err);
}

enum lw_status nccl_step_graph(struct exec_world *w, struct lw_err *err)
{
    struct graph **tail = &w->graphs, *g;

    if (!w->graphs)
        LW_TRY(nccl_compute_again(w, err));
    while (*tail)
        tail = &(*tail)->next;
    LW_NEW(g, 1, err);
    w->n_graphs++;
    enum lw_status s = make(w, g, err);
    if (s != LW_OK) {
        drop(w, g);
        return s;
    }
    *tail = g;
    return LW_OK;
}

static enum lw_status launch(struct exec_world *w, struct graph *g, struct lw_err *err)
{
    int64_t from = exec_now_ns();

    g->launched = true;
    LW_TRY(nccl_cu(cuGraphLaunch(g->exec, w->setup), "cuGraphLaunch", err));
    w->submit_ns += exec_now_ns() - from;
    return nccl_cu(cuEventRecord(g->end, w->setup), "cuEventRecord", err);
}

enum lw_status nccl_graphs_pump(struct exec_world *w, struct lw_err *err)
{
    bool done = true;
    int32_t n = 0;

    while (w->graphs && w->graphs->launched && done) {
        struct graph *g = w->graphs;
        LW_TRY(nccl_event_done(g->end, &done, err));
        if (!done)
            break;
        w->n_graphs_done++;
        w->graphs = g->next;
        drop(w, g);
    }
    for (struct graph *g = w->graphs; g && n < IN_FLIGHT && !w->held; g = g->next, n++)
        if (!g->launched)
            LW_TRY(launch(w, g, err));
    return LW_OK;
}

void nccl_graphs_drop(struct exec_world *w)
{
    while (w->graphs) {
        struct graph *g = w->graphs;
        w->graphs = g->next;
        drop(w, g);
    }
}
