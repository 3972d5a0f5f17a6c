/* A step of a run as nodes: the spans of its first measured step, rank by rank, pass by pass, in
 * the order of the program. A node waits for what its op waits for, for the op before it on its
 * stream (of a group call for the one before the call), and at the beginning of a pass for the
 * whole pass before. Collectives of a group meet by their number on it, messages by their number
 * between two ranks. */
#include "traces/export/export_graph.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"

struct end { /* of communication, to be matched */
    int32_t comm, group, from, to, k, rank, node;
};

struct maker {
    struct lw_export_graph *g;
    const struct lw_plan *p;
    struct lw_err *err;
    int64_t n_nodes, n_deps, n_ends, nodes_cap, deps_cap, ends_cap;
    struct lw_export_node *nodes;
    int32_t *deps;
    struct end *ends;
    int32_t *node_of;                /* [ops of a program] of this pass; -1 */
    int32_t *last;                   /* [n_streams] node of this pass, -1 */
    int32_t *before_call;            /* [n_streams] node before the call that is open */
    int32_t *open_call;              /* [n_streams] its number; -1 */
    int32_t *pass_ends, n_pass_ends; /* last nodes of the pass before */
    int32_t *last_on;                /* [n_comms] node of this pass; -1 */
    int32_t *n_on;                   /* [n_comms] collectives of this rank so far */
    int32_t *n_to;                   /* [n_comms * n_ranks * 2] messages to and from a rank */
};

void lw_export_graph_free(struct lw_export_graph *g)
{
    lw_free(g->nodes);
    lw_free(g->deps);
    lw_free(g->meetings);
    lw_arena_free(&g->arena);
    *g = (struct lw_export_graph){0};
}

static bool is_comm(const struct lw_op *op)
{
    enum lw_op_class c = lw_op_class(op->kind);

    return op->comm >= 0 && (c == LW_CLASS_COLLECTIVE || c == LW_CLASS_P2P);
}

static enum lw_status add_dep(struct maker *m, int32_t node)
{
    struct lw_export_node *x = &m->nodes[m->n_nodes - 1];

    for (int32_t i = 0; i < x->n_deps; i++)
        if (m->deps[x->first_dep + i] == node)
            return LW_OK;
    LW_ROOM(m->deps, m->deps_cap, m->n_deps + 1, m->err);
    m->deps[m->n_deps++] = node;
    x->n_deps++;
    return LW_OK;
}

static enum lw_status add_end(struct maker *m, const struct lw_op *op, int32_t rank)
{
    struct lw_operand o = lw_plan_operand(m->p, op, rank);
    struct end e = {.comm = op->comm, .rank = rank, .node = (int32_t)m->n_nodes - 1};

    if (lw_op_class(op->kind) == LW_CLASS_P2P) {
        bool sent = op->kind == LW_OP_SEND;
        int32_t *n = &m->n_to[((int64_t)op->comm * m->p->n_ranks + o.peer) * 2 + sent];
        e.group = -1;
        e.from = sent ? rank : o.peer;
        e.to = sent ? o.peer : rank;
        e.k = (*n)++;
    } else {
        e.group = lw_plan_group_of(m->p, op->comm, rank);
        e.from = e.to = -1;
        e.k = m->n_on[op->comm]++;
    }
    LW_ROOM(m->ends, m->ends_cap, m->n_ends + 1, m->err);
    m->ends[m->n_ends++] = e;
    return LW_OK;
}

/* The node that a stream's op follows; ops of one call follow what is before the call. */
static int32_t before_on_stream(struct maker *m, const struct lw_op *op)
{
    if (op->call < 0) {
        m->open_call[op->stream] = -1;
        return m->last[op->stream];
    }
    if (m->open_call[op->stream] != op->call) {
        m->open_call[op->stream] = op->call;
        m->before_call[op->stream] = m->last[op->stream];
    }
    return m->before_call[op->stream];
}

static enum lw_status add_node(struct maker *m, int32_t rank, int32_t i, int32_t first_op,
                               const struct lw_span *s)
{
    const struct lw_op *op = LW_OP(m->p, i);
    struct lw_export_node x = {
        .op = i, .start = s ? s->start : -1, .meeting = -1, .first_dep = (int32_t)m->n_deps};
    int64_t base = m->g->first[rank];

    x.time = !s                              ? lw_plan_work_ps(m->p, op)
             : is_comm(op) && s->all_in >= 0 ? s->end - s->all_in
                                             : s->end - s->start;
    if (!s && x.time < 0 && lw_op_class(op->kind) >= LW_CLASS_MEMORY)
        x.time = 0;
    if (m->n_nodes - base >= INT32_MAX || m->n_deps >= INT32_MAX / 2)
        return lw_fail(m->err, LW_ENOTSUP, "export: more than %d ops of a rank", INT32_MAX);
    LW_ROOM(m->nodes, m->nodes_cap, m->n_nodes + 1, m->err);
    m->nodes[m->n_nodes++] = x;
    for (int32_t k = 0; k < op->n_deps; k++) {
        int32_t to = m->node_of[m->p->deps[op->first_dep + k] - first_op];
        if (to >= 0)
            LW_TRY(add_dep(m, to));
    }
    int32_t before = before_on_stream(m, op);
    if (before >= 0)
        LW_TRY(add_dep(m, before));
    for (int32_t k = 0; before < 0 && k < m->n_pass_ends; k++)
        LW_TRY(add_dep(m, m->pass_ends[k]));
    if (op->comm >= 0) { /* on another stream, its communicator keeps the order */
        int32_t on = m->last_on[op->comm];
        if (on >= 0 && lw_op_at(m->p, m->nodes[base + on].op).stream != op->stream)
            LW_TRY(add_dep(m, on));
        m->last_on[op->comm] = (int32_t)(m->n_nodes - 1 - base);
    }
    m->last[op->stream] = m->node_of[i - first_op] = (int32_t)(m->n_nodes - 1 - base);
    return is_comm(op) ? add_end(m, op, rank) : LW_OK;
}

static void begin_pass(struct maker *m, int32_t n_ops)
{
    m->n_pass_ends = 0;
    for (int32_t s = 0; s < m->p->n_streams; s++) {
        if (m->last[s] >= 0)
            m->pass_ends[m->n_pass_ends++] = m->last[s];
        m->last[s] = m->open_call[s] = -1;
    }
    for (int32_t c = 0; c < m->p->n_comms; c++)
        m->last_on[c] = -1;
    for (int32_t i = 0; i < n_ops; i++)
        m->node_of[i] = -1;
}

static void begin_rank(struct maker *m, int32_t rank)
{
    m->g->first[rank] = m->n_nodes;
    for (int32_t s = 0; s < m->p->n_streams; s++)
        m->last[s] = -1;
    memset(m->n_on, 0, (size_t)m->p->n_comms * sizeof *m->n_on);
    memset(m->n_to, 0, (size_t)m->p->n_comms * (size_t)m->p->n_ranks * 2 * sizeof *m->n_to);
}

/* ---- from a run ---- */

struct row {
    int32_t rank, pass, op;
    int64_t at;
};

LW_COMPARATOR(by_program, struct row, a->rank, b->rank, a->pass, b->pass, a->op, b->op)

static enum lw_status list_rows(struct maker *m, const struct lw_timeline *t, int32_t step,
                                struct row **out, int64_t *n)
{
    struct row *v;
    int64_t k = 0;

    LW_TAKE(&m->g->arena, v, t->n + 1, m->err);
    for (int64_t i = 0; i < t->n; i++)
        if (t->step[i] == step)
            v[k++] = (struct row){t->rank[i], t->pass[i], t->op[i], i};
    lw_sort(v, k, by_program);
    *out = v;
    *n = k;
    return LW_OK;
}

static enum lw_status take_run(struct maker *m, const struct lw_timeline *t, int32_t step)
{
    struct row *v;
    int64_t n, i = 0;

    LW_TRY(list_rows(m, t, step, &v, &n));
    for (int32_t r = 0; r < m->p->n_ranks; r++) {
        begin_rank(m, r);
        if (i == n || v[i].rank != r)
            return lw_fail(m->err, LW_EINVAL,
                           "export: no span of rank %d in step %d is stored: predict with --spans, "
                           "which stores those of every rank",
                           r, step);
        while (i < n && v[i].rank == r) {
            int32_t pass = v[i].pass, first = -1, n_ops = 0;
            for (int32_t k = 0; k < m->p->n_variants && first < 0; k++) {
                struct lw_program x = lw_plan_program(m->p, k, r);
                if (v[i].op >= x.first_op && v[i].op < x.first_op + x.n_ops) {
                    first = x.first_op;
                    n_ops = x.n_ops;
                }
            }
            if (first < 0)
                return lw_fail(m->err, LW_EINVAL, "export: op %d is not of rank %d", v[i].op, r);
            begin_pass(m, n_ops);
            for (; i < n && v[i].rank == r && v[i].pass == pass; i++) {
                struct lw_span s = lw_timeline_get(t, v[i].at);
                if (s.op < first || s.op >= first + n_ops)
                    return lw_fail(m->err, LW_EINVAL, "export: op %d is not of rank %d", s.op, r);
                LW_TRY(add_node(m, r, s.op, first, &s));
            }
        }
    }
    m->g->first[m->p->n_ranks] = m->n_nodes;
    return LW_OK;
}

/* ---- from a plan ---- */

static enum lw_status take_plan(struct maker *m)
{
    const struct lw_plan *p = m->p;
    int32_t from = p->repeat_from, to = from;

    while (to < p->n_passes - 1 && !p->variants[p->pass_variant[to]].ends_step)
        to++;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        begin_rank(m, r);
        for (int32_t pass = from; pass <= to; pass++) {
            struct lw_program x = lw_plan_program(p, p->pass_variant[pass], r);
            begin_pass(m, x.n_ops);
            for (int32_t i = 0; i < x.n_ops; i++)
                LW_TRY(add_node(m, r, x.first_op + i, x.first_op, NULL));
        }
    }
    m->g->first[p->n_ranks] = m->n_nodes;
    return LW_OK;
}

/* ---- meetings ---- */

LW_COMPARATOR(by_meeting, struct end, a->comm, b->comm, a->group, b->group, a->from, b->from, a->to,
              b->to, a->k, b->k, a->node, b->node)

static bool same_meeting(const struct end *a, const struct end *b)
{
    return a->comm == b->comm && a->group == b->group && a->from == b->from && a->to == b->to &&
           a->k == b->k;
}

static lw_ps shortest(lw_ps a, lw_ps b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static enum lw_status meet(struct maker *m)
{
    struct lw_export_graph *g = m->g;
    int64_t cap = 0;

    lw_sort(m->ends, m->n_ends, by_meeting);
    for (int64_t i = 0; i < m->n_ends;) {
        const struct end *e = &m->ends[i];
        struct lw_export_meeting x = {.time = -1,
                                      .comm = e->comm,
                                      .group = e->group,
                                      .ends = {e->from, e->to},
                                      .nodes = {-1, -1},
                                      .message = e->group < 0};
        for (; i < m->n_ends && same_meeting(e, &m->ends[i]); i++) {
            struct lw_export_node *node = &m->nodes[m->ends[i].node];
            node->meeting = g->n_meetings;
            x.time = shortest(x.time, node->time);
            if (x.message)
                x.nodes[m->ends[i].rank == e->to] = m->ends[i].node;
            x.n++;
        }
        int32_t want = x.message ? 2 : m->p->groups[x.group].n_members;
        if (x.n != want)
            return lw_plan_op_fail(m->p, m->nodes[e->node].op, m->err,
                                   " of rank %d: %d of its %d ends ran", e->rank, x.n, want);
        LW_ROOM(g->meetings, cap, g->n_meetings + 1, m->err);
        g->meetings[g->n_meetings++] = x;
    }
    return LW_OK;
}

static enum lw_status prepare(struct maker *m)
{
    struct lw_arena *a = &m->g->arena;
    const struct lw_plan *p = m->p;

    LW_TAKE(a, m->g->first, p->n_ranks + 1, m->err);
    LW_TAKE(a, m->node_of, lw_plan_longest_program(p) + 1, m->err);
    LW_TAKE(a, m->last, p->n_streams + 1, m->err);
    LW_TAKE(a, m->before_call, p->n_streams + 1, m->err);
    LW_TAKE(a, m->open_call, p->n_streams + 1, m->err);
    LW_TAKE(a, m->pass_ends, p->n_streams + 1, m->err);
    LW_TAKE(a, m->last_on, p->n_comms + 1, m->err);
    LW_TAKE(a, m->n_on, p->n_comms + 1, m->err);
    LW_TAKE(a, m->n_to, ((int64_t)p->n_comms * p->n_ranks + 1) * 2, m->err);
    return LW_OK;
}

enum lw_status lw_export_graph_make(const struct lw_plan *p, const struct lw_timeline *t,
                                    int32_t n_warmup, struct lw_export_graph *out,
                                    struct lw_err *err)
{
    struct lw_export_graph g = {.plan = p, .n_ranks = p->n_ranks, .step = t ? n_warmup : -1};
    struct maker m = {.g = &g, .p = p, .err = err};
    enum lw_status status = prepare(&m);

    if (status == LW_OK)
        status = t ? take_run(&m, t, n_warmup) : take_plan(&m);
    if (status == LW_OK)
        status = meet(&m);
    g.nodes = m.nodes;
    g.deps = m.deps;
    lw_free(m.ends);
    LW_GIVE(status, out, g, lw_export_graph_free(&g));
}
