/* A schedule under LogGOPS as a plan. Each rank has a stream for each processor and one for each
 * direction of each network interface. A send is up to four ops: the moment at which it starts, the
 * processor's time, the interface's time (only where a later message needs it), and the message; an
 * arrival likewise. Messages travel by buffered sends, so that many are under way; a send that
 * waits for its receive (rendezvous) is told by a message of no time.
 *
 * The order on every stream is that of goal_times.c. Times are the engine's: it starts each op when
 * what it waits for has ended, and comes to the same end. */
#include <stdio.h>
#include <stdlib.h>

#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "traces/goal/goal_times.h"
#include "traces/graph/p2p_classes.h"

struct gap {       /* the interface's time of the message before, not emitted yet */
    int32_t start; /* op at which it began; -1 = none */
    int32_t ack;   /* op that ended a rendezvous after that; -1 = none */
    lw_ps time;
};

struct maker {
    const struct traces_goal *g;
    const struct goal_network *n;
    struct goal_times t;
    struct lw_builder *b;
    struct lw_arena *arena;
    struct lw_err *err;
    struct traces_p2p data, ack;
    int32_t *cpu_stream, *out_stream, *in_stream; /* [n_cpus], [n_nics] */
    struct gap *out_gap, *in_gap;                 /* [n_nics] of the current rank */
    int32_t *last;                                /* [n_cpus] of the current rank: op; -1 */
    int32_t *started, *ended;                     /* [n_ops] op of the plan; -1 */
    bool *start_wanted;                           /* [n_ops] irequires names it */
    int32_t *wire, *proc;                         /* [messages] receive and processing op; -1 */
    int32_t *deps;
    int32_t n_deps;
};

struct event { /* of one rank */
    lw_ps time;
    int64_t number;
    int32_t rank;
    uint8_t what;
    int64_t of;
};

enum { DID_WIRE = GOAL_DID_ACK + 1, DID_ACK_SENT };

LW_COMPARATOR(by_rank, struct event, a->rank, b->rank, a->time, b->time, a->number, b->number,
              a->what, b->what)

/* ---- ops ---- */

static void wait_for(struct maker *m, int32_t op)
{
    if (op < 0)
        return;
    for (int32_t i = 0; i < m->n_deps; i++)
        if (m->deps[i] == op)
            return;
    m->deps[m->n_deps++] = op;
}

static int32_t emit(struct maker *m, enum lw_op_kind kind, int32_t stream, lw_ps time,
                    const char *name)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.work_ps = time;
    op.name = name;
    int32_t id = lw_builder_op(m->b, &op, m->deps, m->n_deps);
    m->n_deps = 0;
    return id;
}

static void wait_for_deps(struct maker *m, int32_t rank, int64_t i)
{
    const struct traces_goal *g = m->g;
    const struct goal_op *op = &g->ops[i];

    for (int32_t k = 0; k < op->n_deps; k++) {
        const struct goal_dep *d = &g->deps[op->first_dep + k];
        int64_t to = g->first[rank] + d->op;
        wait_for(m, d->start ? m->started[to] : m->ended[to]);
    }
}

/* The op after which the interface is free of the message before; -1 = it is free. Nothing is
 * listed yet. */
static int32_t end_of_gap(struct maker *m, struct gap *gap, int32_t stream)
{
    if (gap->start >= 0 && gap->time > 0) {
        wait_for(m, gap->start);
        gap->start = emit(m, LW_OP_HOST, stream, gap->time, "gap");
    }
    if (gap->ack >= 0) {
        wait_for(m, gap->start);
        wait_for(m, gap->ack);
        gap->start = emit(m, LW_OP_HOST, stream, 0, "acknowledged");
    }
    gap->time = 0;
    gap->ack = -1;
    return gap->start;
}

static int32_t emit_message(struct maker *m, const struct traces_p2p_class *c, bool send,
                            int32_t peer, int64_t bytes, lw_ps time, const char *name)
{
    struct lw_op op =
        lw_builder_blank(send ? LW_OP_SEND : LW_OP_RECV, send ? c->send_stream : c->recv_stream);

    op.comm = c->comm;
    op.peer = peer;
    op.bytes = time > 0 ? bytes : 0; /* the engine asks a cluster for bytes without a time */
    op.work_ps = time;
    op.dtype = LW_U8;
    op.name = name;
    int32_t id = lw_builder_op(m->b, &op, m->deps, m->n_deps);
    m->n_deps = 0;
    return id;
}

/* A moment on the processor's stream, at which the op starts. */
static int32_t do_start(struct maker *m, int32_t cpu, const char *name)
{
    return m->last[cpu] = emit(m, LW_OP_HOST, m->cpu_stream[cpu], 0, name);
}

static void do_calc(struct maker *m, int32_t rank, int64_t i)
{
    const struct goal_op *op = &m->g->ops[i];

    wait_for_deps(m, rank, i);
    if (m->start_wanted[i])
        m->started[i] = do_start(m, op->cpu, "calc begins");
    m->ended[i] = m->last[op->cpu] =
        emit(m, LW_OP_KERNEL, m->cpu_stream[op->cpu], op->size * m->g->unit, "calc");
}

static int32_t do_busy(struct maker *m, int32_t cpu, lw_ps time, const char *name)
{
    if (time > 0)
        m->last[cpu] = emit(m, LW_OP_HOST, m->cpu_stream[cpu], time, name);
    return m->last[cpu];
}

static enum lw_status do_send(struct maker *m, int32_t rank, int64_t i)
{
    const struct goal_op *op = &m->g->ops[i];
    struct traces_p2p_class c;

    LW_TRY(traces_p2p_class(&m->data, rank, op->peer, &c, m->err));
    int32_t free = end_of_gap(m, &m->out_gap[op->nic], m->out_stream[op->nic]);
    wait_for(m, free);
    wait_for_deps(m, rank, i);
    int32_t start = m->started[i] = do_start(m, op->cpu, "send");
    m->out_gap[op->nic] = (struct gap){start, -1, goal_gap(m->n, op->size)};
    wait_for(m, start);
    emit_message(m, &c, true, op->peer, op->size, lw_add_sat(m->n->o, m->n->L), "message");
    m->ended[i] = do_busy(m, op->cpu, goal_send_cpu(m->n, op->size), "overhead of a send");
    return LW_OK;
}

static enum lw_status do_wire(struct maker *m, int64_t k)
{
    const struct goal_message *x = &m->t.messages[k];
    struct traces_p2p_class c;

    LW_TRY(traces_p2p_class(&m->data, x->from, x->to, &c, m->err));
    m->wire[k] = emit_message(m, &c, false, x->from, m->g->ops[x->send].size,
                              lw_add_sat(m->n->o, m->n->L), "message");
    return LW_OK;
}

static void do_arrive(struct maker *m, int64_t k)
{
    const struct goal_message *x = &m->t.messages[k];
    const struct goal_op *op = &m->g->ops[x->send];

    int32_t free = end_of_gap(m, &m->in_gap[op->nic], m->in_stream[op->nic]);
    wait_for(m, free);
    wait_for(m, m->wire[k]);
    int32_t start = do_start(m, op->cpu, "arrival");
    m->in_gap[op->nic] = (struct gap){start, -1, goal_gap(m->n, op->size)};
    m->wire[k] = start; /* from here on what an acknowledgement waits for */
    m->proc[k] = do_busy(m, op->cpu, goal_recv_cpu(m->n, op->size), "overhead of a receive");
}

static void do_post(struct maker *m, int32_t rank, int64_t i)
{
    if (!m->start_wanted[i] || m->g->ops[i].n_deps == 0)
        return;
    wait_for_deps(m, rank, i);
    m->started[i] = emit(m, LW_OP_EVENT_WAIT, m->in_stream[m->g->n_nics], 0, "receive posted");
}

/* Where nothing but the message is waited for, the receive ends with it. */
static void do_recv(struct maker *m, int32_t rank, int64_t i)
{
    const struct goal_op *op = &m->g->ops[i];
    int64_t k = m->t.message_of[i];

    if (op->n_deps == 0) {
        m->ended[i] = m->proc[k];
        return;
    }
    wait_for_deps(m, rank, i);
    wait_for(m, m->proc[k]);
    m->ended[i] = emit(m, LW_OP_EVENT_WAIT, m->in_stream[m->g->n_nics], 0, "receive");
}

static bool waits(const struct maker *m, int64_t k)
{
    return m->g->ops[m->t.messages[k].send].size > m->n->S;
}

static enum lw_status do_ack_sent(struct maker *m, int64_t k)
{
    const struct goal_message *x = &m->t.messages[k];
    struct traces_p2p_class c;

    LW_TRY(traces_p2p_class(&m->ack, x->to, x->from, &c, m->err));
    wait_for_deps(m, x->to, x->recv);
    wait_for(m, m->wire[k]);
    emit_message(m, &c, true, x->from, 0, 0, "acknowledgement");
    return LW_OK;
}

static enum lw_status do_ack(struct maker *m, int64_t k)
{
    const struct goal_message *x = &m->t.messages[k];
    const struct goal_op *op = &m->g->ops[x->send];
    struct traces_p2p_class c;

    LW_TRY(traces_p2p_class(&m->ack, x->to, x->from, &c, m->err));
    int32_t ack = emit_message(m, &c, false, x->to, 0, 0, "acknowledgement");
    wait_for(m, ack);
    m->ended[x->send] = do_start(m, op->cpu, "acknowledged");
    m->out_gap[op->nic].ack = ack;
    return LW_OK;
}

static enum lw_status do_event(struct maker *m, const struct event *e)
{
    switch (e->what) {
    case GOAL_DID_CALC:
        do_calc(m, e->rank, e->of);
        return LW_OK;
    case GOAL_DID_SEND:
        return do_send(m, e->rank, e->of);
    case GOAL_DID_ARRIVE:
        do_arrive(m, e->of);
        return LW_OK;
    case GOAL_DID_POST:
        do_post(m, e->rank, e->of);
        return LW_OK;
    case GOAL_DID_RECV:
        do_recv(m, e->rank, e->of);
        return LW_OK;
    case GOAL_DID_ACK:
        return do_ack(m, e->of);
    case DID_WIRE:
        return do_wire(m, e->of);
    default:
        return do_ack_sent(m, e->of);
    }
}

/* ---- the whole ---- */

static enum lw_status list_events(struct maker *m, struct event **out, int64_t *n)
{
    struct event *v;
    int64_t k = 0;

    LW_TAKE(m->arena, v, 2 * m->t.n_events + 1, m->err);
    for (int64_t i = 0; i < m->t.n_events; i++) {
        const struct goal_event *e = &m->t.events[i];
        v[k++] = (struct event){e->time, i, e->rank, e->what, e->what_of};
        if (e->what == GOAL_DID_SEND)
            v[k++] = (struct event){e->time, i, m->g->ops[e->what_of].peer, DID_WIRE,
                                    m->t.message_of[e->what_of]};
        if (e->what == GOAL_DID_ACK)
            v[k++] =
                (struct event){e->time, i, m->t.messages[e->what_of].to, DID_ACK_SENT, e->what_of};
    }
    lw_sort(v, k, by_rank);
    *out = v;
    *n = k;
    return LW_OK;
}

static enum lw_status add_streams(struct maker *m)
{
    char name[32];

    LW_TAKE(m->arena, m->cpu_stream, m->g->n_cpus, m->err);
    LW_TAKE(m->arena, m->out_stream, m->g->n_nics, m->err);
    LW_TAKE(m->arena, m->in_stream, m->g->n_nics + 1, m->err);
    for (int32_t i = 0; i < m->g->n_cpus; i++) {
        snprintf(name, sizeof name, "cpu %d", i);
        m->cpu_stream[i] = lw_builder_stream(m->b, name, LW_STREAM_COMPUTE, 0);
    }
    for (int32_t i = 0; i < m->g->n_nics; i++) {
        snprintf(name, sizeof name, "nic %d out", i);
        m->out_stream[i] = lw_builder_stream(m->b, name, LW_STREAM_HOST, 0);
        snprintf(name, sizeof name, "nic %d in", i);
        m->in_stream[i] = lw_builder_stream(m->b, name, LW_STREAM_HOST, 0);
    }
    m->in_stream[m->g->n_nics] = lw_builder_stream(m->b, "receives", LW_STREAM_HOST, 0);
    return LW_OK;
}

/* Communicators are added before the programs. */
static enum lw_status add_classes(struct maker *m)
{
    struct traces_p2p_class c;

    LW_TRY(traces_p2p_begin(&m->data, m->b, m->g->n_ranks, m->arena, m->err));
    LW_TRY(traces_p2p_begin(&m->ack, m->b, m->g->n_ranks, m->arena, m->err));
    for (int64_t k = 0; k < m->t.n_messages; k++) {
        const struct goal_message *x = &m->t.messages[k];
        LW_TRY(traces_p2p_class(&m->data, x->from, x->to, &c, m->err));
        if (waits(m, k))
            LW_TRY(traces_p2p_class(&m->ack, x->to, x->from, &c, m->err));
    }
    return LW_OK;
}

static void add_notes(struct maker *m)
{
    const struct goal_network *n = m->n;

    lw_builder_note(
        m->b,
        "LogGOPS (%s): L %g ns, o %g ns, g %g ns, G %g ns a byte, O %g ns a byte, S %lld "
        "bytes",
        n->source, (double)n->L / 1e3, (double)n->o / 1e3, (double)n->g / 1e3,
        (double)n->G_fs / 1e6, (double)n->O_fs / 1e6, (long long)n->S);
    lw_builder_note(m->b, "messages are under way by the dozen: simulate the plan with --buffered, "
                          "as sim --replay does");
}

static enum lw_status begin_rank(struct maker *m)
{
    for (int32_t i = 0; i < m->g->n_cpus; i++)
        m->last[i] = -1;
    for (int32_t i = 0; i < m->g->n_nics; i++)
        m->out_gap[i] = m->in_gap[i] = (struct gap){-1, -1, 0};
    return LW_OK;
}

static enum lw_status make(struct maker *m)
{
    const struct traces_goal *g = m->g;
    struct event *v;
    int64_t n, most = 0, k = 0;
    char name[32];

    if (g->n_ops == 0)
        return lw_fail_at(m->err, LW_EFORMAT, g->file, 0, "no op of any rank: nothing to replay");
    LW_TRY(goal_times_find(g, m->n, &m->t, m->err));
    for (int64_t i = 0; i < g->n_ops; i++)
        most = g->ops[i].n_deps > most ? g->ops[i].n_deps : most;
    LW_TAKE(m->arena, m->deps, most + 8, m->err);
    LW_TAKE(m->arena, m->last, g->n_cpus, m->err);
    LW_TAKE(m->arena, m->out_gap, g->n_nics, m->err);
    LW_TAKE(m->arena, m->in_gap, g->n_nics, m->err);
    LW_TAKE(m->arena, m->started, g->n_ops + 1, m->err);
    LW_TAKE(m->arena, m->ended, g->n_ops + 1, m->err);
    LW_TAKE(m->arena, m->start_wanted, g->n_ops + 1, m->err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int64_t i = g->first[r]; i < g->first[r + 1]; i++)
            for (int32_t d = 0; d < g->ops[i].n_deps; d++)
                if (g->deps[g->ops[i].first_dep + d].start)
                    m->start_wanted[g->first[r] + g->deps[g->ops[i].first_dep + d].op] = true;
    for (int64_t i = 0; i < g->n_ops; i++)
        m->started[i] = m->ended[i] = -1;
    LW_TAKE(m->arena, m->wire, m->t.n_messages + 1, m->err);
    LW_TAKE(m->arena, m->proc, m->t.n_messages + 1, m->err);
    for (int32_t r = 0; r < g->n_ranks; r++) {
        snprintf(name, sizeof name, "rank %d", r);
        lw_builder_rank(m->b, r, lw_builder_role(m->b, &(struct lw_role){.name = name}), r, 0, 0);
    }
    LW_TRY(add_streams(m));
    LW_TRY(add_classes(m));
    LW_TRY(list_events(m, &v, &n));
    lw_builder_variant(m->b, "replay", "", true);
    for (int32_t r = 0; r < g->n_ranks; r++) {
        lw_builder_program(m->b, 0, r);
        LW_TRY(begin_rank(m));
        for (; k < n && v[k].rank == r; k++)
            LW_TRY(do_event(m, &v[k]));
    }
    lw_builder_pass(m->b, 0);
    add_notes(m);
    return LW_OK;
}

enum lw_status traces_goal_plan(const struct traces_goal *g, const struct goal_network *n,
                                struct lw_plan *out, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct lw_plan plan = {0};
    struct maker m = {
        .g = g, .n = n, .arena = &scratch, .err = err, .b = lw_builder_new("goal", g->n_ranks)};
    enum lw_status status = m.b ? make(&m) : lw_fail_nomem(err);

    goal_times_free(&m.t);
    lw_arena_free(&scratch);
    if (status != LW_OK) {
        lw_builder_free(m.b);
        return status;
    }
    LW_TRY(lw_builder_finish(m.b, &plan, err));
    status = lw_plan_check(&plan, err);
    LW_GIVE(status, out, plan, lw_plan_free(&plan));
}
