/* The ops of one variant end without a deadlock: an abstract run of them, without time. The host of
 * each rank issues ops in the order of the list; before an op it waits until its stream has room in
 * its queue: four ops on a communication stream, one on others. Ops of one call and stream are
 * issued together.
 * Every stream runs its ops in order; an op is entered when it is issued, its dependencies have
 * ended and the op before it in its communicator has; a collective ends when every member has
 * entered it, a send or receive when its partner has (rendezvous: no buffering), and the ops of one
 * group call end together.
 *
 * The outcome does not depend on the order of the run: an op that can be entered stays so until it
 * is, and entering one never takes the chance from another. So one run decides. For the same reason
 * ranks that are alike may be run as one: the actors are the roles where every rank of a role meets
 * the same roles at the same ops, and the ranks themselves where not. And for the same reason
 * longer queues are safe where these are. Only a run that stopped is repeated without hosts, to
 * tell whether they are the cause.
 *
 * A set of actors with something to try is kept in a queue; an actor is queued again when one of
 * its ops ended through another. Dependencies are looked at once each: a cursor per stream
 * remembers the first that had not ended, and until that has the stream is not looked at again. */
#include "shared/check/plan_check_run.h"
#include "shared/plan/op.h"

static void wake(struct lw_check_run *k, int32_t actor)
{
    if (k->queued[actor])
        return;
    k->queued[actor] = true;
    k->queue[(k->queue_first + k->queue_n) % k->n_actors] = actor;
    k->queue_n++;
}

/* *waits_on: the state of an op that has not ended, for which this one waits. */
static bool can_enter(struct lw_check_run *k, int32_t actor, int32_t op, int32_t *dep_cursor,
                      int64_t *waits_on)
{
    int32_t before = k->before_on_comm[op], n_deps = lw_op_shared(k->p, op)->n_deps;
    const int32_t *deps = k->p->deps + lw_op_first_dep(k->p, op);

    if (!is_issued(k, actor, op))
        return false;
    for (; *dep_cursor < n_deps; (*dep_cursor)++) {
        int64_t state = state_of(k, actor, deps[*dep_cursor]);
        if (k->state[state] != ENDED) {
            *waits_on = state;
            return false;
        }
    }
    if (before < 0 || same_call(k, before, op) || k->state[state_of(k, actor, before)] == ENDED)
        return true;
    *waits_on = state_of(k, actor, before);
    return false;
}

/* Actors that take part in a meeting have entered: the op ends for all of them. */
static void end_collective(struct lw_check_run *k, int32_t actor, int32_t comm, int32_t ordinal)
{
    int64_t key = meeting_key(k, actor, comm);
    const struct lw_group *g = k->folded ? NULL : lw_plan_group(k->p, comm, actor);
    int32_t n = k->folded ? k->n_actors : g->n_members;

    for (int32_t i = 0; i < n; i++) {
        int32_t other = k->folded ? i : lw_plan_member_at(k->p, g->first_member + i);
        if (meeting_key(k, other, comm) != key)
            continue;
        struct lw_program q = program_of(k, other);
        for (int32_t s = 0; s < k->p->n_streams; s++) { /* it stands at the front of a stream */
            int32_t op = k->cursor[(int64_t)other * k->p->n_streams + s];
            if (op >= q.first_op && lw_op_at(k->p, op).comm == comm && ordinal_of(k, op) == ordinal)
                k->state[state_of(k, other, op)] = ENDED;
        }
        wake(k, other);
    }
}

static void matched(struct lw_check_run *k, int32_t actor, int32_t op)
{
    if (!k->call_lead) {
        k->state[state_of(k, actor, op)] = ENDED;
        wake(k, actor);
        return;
    }
    int64_t lead = state_of(k, actor, k->call_lead[op]);
    if (--k->call_left[lead] > 0)
        return;
    struct lw_program g = program_of(k, actor);
    for (int32_t i = k->call_lead[op], left = k->call_size[i]; left > 0 && i < g.first_op + g.n_ops;
         i++) {
        if (!same_call(k, i, op))
            continue;
        k->state[state_of(k, actor, i)] = ENDED;
        left--;
    }
    wake(k, actor);
}

static void enter(struct lw_check_run *k, int32_t actor, int32_t op)
{
    const struct lw_op *o = lw_op_shared(k->p, op);
    uint8_t *state = &k->state[state_of(k, actor, op)];

    *state = ENTERED;
    if (ordinal_of(k, op) >= 0) {
        int64_t key = meeting_key(k, actor, o->comm);
        if (++k->arrived[k->meeting_at[key] + ordinal_of(k, op)] == k->expected[key])
            end_collective(k, actor, o->comm, ordinal_of(k, op));
    } else if (lw_op_class(o->kind) == LW_CLASS_P2P) {
        int32_t mate, other = partner(k, actor, op, &mate);
        if (k->state[state_of(k, other, mate)] != WAITING) {
            matched(k, actor, op);
            matched(k, other, mate);
        }
    } else {
        *state = ENDED;
    }
}

/* Nothing that the stream is known to wait for is left. */
static inline bool may_move(const struct lw_check_run *k, int64_t at)
{
    return k->cursor[at] >= 0 && k->state[k->waits_on[at]] == ENDED;
}

/* Move a stream on; true when something changed. */
static bool step_stream(struct lw_check_run *k, int32_t actor, int32_t stream)
{
    int64_t at = (int64_t)actor * k->p->n_streams + stream;
    bool moved = false;

    if (!may_move(k, at))
        return false;
    for (int32_t op = k->cursor[at]; op >= 0; op = k->cursor[at]) {
        int64_t state = state_of(k, actor, op);
        int32_t next = k->next_on_stream[op];
        if (k->state[state] == WAITING &&
            can_enter(k, actor, op, &k->dep_cursor[at], &k->waits_on[at])) {
            enter(k, actor, op);
            moved = true;
        }
        if (k->state[state] == WAITING)
            return moved;
        if (k->state[state] == ENTERED && (next < 0 || !same_call(k, op, next))) {
            k->waits_on[at] = state;
            return moved;
        }
        k->n_queued[at] -= next < 0 || issue_lead_of(k, next) != issue_lead_of(k, op);
        k->cursor[at] = next;
        k->dep_cursor[at] = 0;
        moved = true;
    }
    return moved;
}

/* The host goes on as far as it can. */
static bool issue(struct lw_check_run *k, int32_t actor)
{
    struct lw_program g = program_of(k, actor);
    int32_t first = k->host[actor], op = first;

    for (; op < g.first_op + g.n_ops; op++) {
        int32_t stream = lw_op_at(k->p, op).stream;
        int32_t *n_queued = &k->n_queued[(int64_t)actor * k->p->n_streams + stream];
        bool comm = k->p->streams[stream].class_ == LW_STREAM_COMM;
        if (issue_lead_of(k, op) == op && *n_queued == (comm ? LW_CHECK_COMM_QUEUE : 1))
            break;
        *n_queued += issue_lead_of(k, op) == op;
        k->host[actor] = op + 1;
        step_stream(k, actor, stream);
    }
    return op > first;
}

static enum lw_status execute(struct lw_check_run *k, struct lw_err *err)
{
    int32_t n_streams = k->p->n_streams;

    for (int32_t a = 0; a < k->n_actors; a++)
        wake(k, a);
    while (k->queue_n > 0) {
        int32_t actor = k->queue[k->queue_first];
        k->queue_first = (k->queue_first + 1) % k->n_actors;
        k->queue_n--;
        k->queued[actor] = false;
        for (bool moved = true; moved;) {
            moved = issue(k, actor);
            for (int32_t s = 0; s < n_streams; s++)
                moved = step_stream(k, actor, s) || moved;
        }
    }
    for (int64_t i = 0; i < (int64_t)k->n_actors * n_streams; i++)
        if (k->cursor[i] >= 0)
            return lw_check_stuck(k, (int32_t)(i / n_streams), k->cursor[i], err);
    return LW_OK;
}

static enum lw_status run(const struct lw_plan *p, int32_t variant, struct lw_matches *matches,
                          const struct lw_group_kinds *kinds, bool hosts, struct lw_err *err)
{
    struct lw_check_run k = {
        .p = p, .variant = variant, .matches = matches, .kinds = kinds, .hosts = hosts};
    enum lw_status s = lw_check_run_make(&k, err);

    if (s == LW_OK)
        s = execute(&k, err);
    lw_arena_free(&k.room);
    return s;
}

enum lw_status lw_check_progress(const struct lw_plan *p, int32_t variant,
                                 struct lw_matches *matches, const struct lw_group_kinds *kinds,
                                 struct lw_err *err)
{
    struct lw_err of_streams;
    enum lw_status s = run(p, variant, matches, kinds, true, err);

    if (s != LW_EPLAN)
        return s;
    enum lw_status without_hosts = run(p, variant, matches, kinds, false, err ? &of_streams : NULL);
    if (without_hosts == LW_OK)
        return s;
    if (err)
        *err = of_streams;
    return without_hosts;
}
