/* Programs as graphs of units. Three kinds of edges make a unit wait: its ops' dependencies, the
 * unit before it on each stream it uses, and the unit before it on each communicator it uses. The
 * same edge may be there more than once; it is then counted as often on both sides. */
#include "sim/engine/op_graph.h"

#include <string.h>

#include "shared/plan/op.h"

/* Scratch of one call: the latest unit on each stream and communicator, and of each group call; the
 * pooled units on a stream since its latest other unit, as a list. */
struct scratch {
    const bool *pooled;
    int32_t *last_on_stream, *last_on_comm, *unit_of_call;
    int32_t *pool_on_stream, *pool_before; /* [n_streams], [n_units] */
    int32_t n_calls;
};

static enum lw_status name_units(const struct lw_plan *plan, struct sim_program *p,
                                 struct scratch *s, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP(plan, p->first_op + i);
        if (op->call < 0) {
            p->unit_of[i] = p->n_units++;
            continue;
        }
        if (lw_op_class(op->kind) != LW_CLASS_P2P)
            return lw_plan_op_fail(plan, p->first_op + i, err,
                                   ": only sends and receives may form a group call");
        if (s->unit_of_call[op->call] < 0)
            s->unit_of_call[op->call] = p->n_units++;
        p->unit_of[i] = s->unit_of_call[op->call];
    }
    return LW_OK;
}

static void sort_parts(struct sim_program *p)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        p->first_part[p->unit_of[i] + 1]++;
    for (int32_t u = 0; u < p->n_units; u++)
        p->first_part[u + 1] += p->first_part[u];
    for (int32_t i = p->n_ops - 1; i >= 0; i--) /* backwards, with the ends as cursors */
        p->parts[--p->first_part[p->unit_of[i] + 1]] = p->first_op + i;
    for (int32_t u = 0; u < p->n_units; u++) /* the cursors now stand one place too far right */
        p->first_part[u] = p->first_part[u + 1];
    p->first_part[p->n_units] = p->n_ops;
}

/* Visit every edge from -> to: first to count them, then (next != NULL) to write them down. */
static void edge(struct sim_program *p, int32_t from, int32_t to, int32_t *cursor)
{
    if (from < 0 || from == to)
        return;
    if (cursor) {
        p->next[cursor[from]++] = to;
    } else {
        p->wait[to]++;
        p->first_next[from + 1]++;
    }
}

static bool is_pooled(const struct scratch *s, const struct lw_op *op)
{
    return s->pooled && op->comm >= 0 && s->pooled[op->comm];
}

static void stream_edges(struct sim_program *p, struct scratch *s, const struct lw_op *op,
                         int32_t u, int32_t *cursor)
{
    edge(p, s->last_on_stream[op->stream], u, cursor);
    if (is_pooled(s, op)) {
        s->pool_before[u] = s->pool_on_stream[op->stream];
        s->pool_on_stream[op->stream] = u;
        return;
    }
    for (int32_t v = s->pool_on_stream[op->stream]; v >= 0; v = s->pool_before[v])
        edge(p, v, u, cursor);
    s->pool_on_stream[op->stream] = -1;
    s->last_on_stream[op->stream] = u;
}

static void visit_edges(const struct lw_plan *plan, struct sim_program *p, struct scratch *s,
                        int32_t *cursor)
{
    memset(s->pool_on_stream, 0xff, (size_t)plan->n_streams * sizeof *s->pool_on_stream);
    memset(s->last_on_stream, 0xff, (size_t)plan->n_streams * sizeof *s->last_on_stream);
    memset(s->last_on_comm, 0xff, (size_t)plan->n_comms * sizeof *s->last_on_comm);
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP(plan, p->first_op + i);
        int32_t u = p->unit_of[i];
        for (int32_t d = 0; d < op->n_deps; d++)
            edge(p, p->unit_of[plan->deps[op->first_dep + d] - p->first_op], u, cursor);
        stream_edges(p, s, op, u, cursor);
        if (op->comm >= 0 && !is_pooled(s, op)) {
            edge(p, s->last_on_comm[op->comm], u, cursor);
            s->last_on_comm[op->comm] = u;
        }
    }
}

/* At least one, so that no column is empty. */
#define TAKE(arena, pointer, n) LW_TAKE(arena, pointer, (int64_t)(n) + 1, err)

static enum lw_status take_scratch(const struct lw_plan *plan, const struct sim_program *p,
                                   struct lw_arena *a, struct scratch *s, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (lw_op_at(plan, p->first_op + i).call >= s->n_calls)
            s->n_calls = lw_op_at(plan, p->first_op + i).call + 1;
    TAKE(a, s->last_on_stream, plan->n_streams);
    TAKE(a, s->last_on_comm, plan->n_comms);
    TAKE(a, s->unit_of_call, s->n_calls);
    TAKE(a, s->pool_on_stream, plan->n_streams);
    TAKE(a, s->pool_before, p->n_ops);
    memset(s->unit_of_call, 0xff, (size_t)s->n_calls * sizeof *s->unit_of_call);
    return LW_OK;
}

static enum lw_status fill(const struct lw_plan *plan, struct sim_program *p, struct scratch *s,
                           struct lw_arena *arena, struct lw_err *err)
{
    int32_t *cursor;

    TAKE(arena, p->first_part, p->n_units);
    TAKE(arena, p->parts, p->n_ops);
    TAKE(arena, p->wait, p->n_units);
    TAKE(arena, p->first_next, p->n_units);
    sort_parts(p);
    visit_edges(plan, p, s, NULL);
    for (int32_t u = 0; u < p->n_units; u++)
        p->first_next[u + 1] += p->first_next[u];
    TAKE(arena, cursor, p->n_units);
    TAKE(arena, p->next, p->first_next[p->n_units]);
    TAKE(arena, p->roots, p->n_units);
    memcpy(cursor, p->first_next, (size_t)p->n_units * sizeof *cursor);
    visit_edges(plan, p, s, cursor);
    for (int32_t u = 0; u < p->n_units; u++)
        if (p->wait[u] == 0)
            p->roots[p->n_roots++] = u;
    return LW_OK;
}

/* The collectives of each pooled communicator in issue order. */
static enum lw_status list_pooled(const struct lw_plan *plan, struct sim_program *p,
                                  struct scratch *s, struct lw_arena *arena, struct lw_err *err)
{
    if (!s->pooled)
        return LW_OK;
    TAKE(arena, p->first_pooled, plan->n_comms);
    TAKE(arena, p->next_pooled, p->n_units);
    memset(p->first_pooled, 0xff, (size_t)plan->n_comms * sizeof *p->first_pooled);
    for (int32_t u = 0; u < p->n_units; u++)
        p->next_pooled[u] = SIM_NOT_POOLED;
    for (int32_t i = p->n_ops - 1; i >= 0; i--) {
        const struct lw_op *op = LW_OP(plan, p->first_op + i);
        if (!is_pooled(s, op))
            continue;
        p->next_pooled[p->unit_of[i]] = p->first_pooled[op->comm];
        p->first_pooled[op->comm] = p->unit_of[i];
        p->n_pooled++;
    }
    return LW_OK;
}

static enum lw_status make(const struct lw_plan *plan, struct sim_program *p, struct scratch *s,
                           struct lw_arena *temporary, struct lw_arena *arena, struct lw_err *err)
{
    TAKE(arena, p->unit_of, p->n_ops);
    LW_TRY(take_scratch(plan, p, temporary, s, err));
    LW_TRY(name_units(plan, p, s, err));
    LW_TRY(fill(plan, p, s, arena, err));
    return list_pooled(plan, p, s, arena, err);
}

enum lw_status sim_program_make(const struct lw_plan *plan, struct lw_program range,
                                const bool *pooled, struct lw_arena *arena,
                                struct sim_program *out, struct lw_err *err)
{
    struct lw_arena temporary = {0};
    struct scratch s = {.pooled = pooled};

    *out = (struct sim_program){.first_op = range.first_op, .n_ops = range.n_ops};
    enum lw_status status = make(plan, out, &s, &temporary, arena, err);
    lw_arena_free(&temporary);
    return status;
}
