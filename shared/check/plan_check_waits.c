/* The words for a run that stopped: from an op that never ends, follow what it waits for. */
#include <stdio.h>

#include "shared/check/plan_check_run.h"

struct place {
    int32_t actor, op; /* op -1: nowhere */
};

static bool waiting(const struct lw_check_run *k, struct place x)
{
    return k->state[state_of(k, x.actor, x.op)] == WAITING;
}

/* A member of the collective that has not entered it. */
static struct place absent_member(const struct lw_check_run *k, struct place x)
{
    int32_t comm = lw_op_at(k->p, x.op).comm;
    int64_t key = meeting_key(k, x.actor, comm);

    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        if (meeting_key(k, a, comm) != key)
            continue;
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            if (lw_op_at(k->p, i).comm == comm && ordinal_of(k, i) == ordinal_of(k, x.op) &&
                waiting(k, (struct place){a, i}))
                return (struct place){a, i};
    }
    return (struct place){x.actor, -1};
}

/* Of the call of a send or receive that has entered: an op that has not, or one's partner that
 * has not. */
static struct place absent_partner(const struct lw_check_run *k, struct place x)
{
    struct lw_program g = program_of(k, x.actor);
    int32_t first = k->call_lead ? k->call_lead[x.op] : x.op;

    for (int32_t i = first; i < g.first_op + g.n_ops; i++) {
        struct place mine = {x.actor, i}, other;
        if (!same_call(k, i, x.op))
            continue;
        if (waiting(k, mine))
            return mine;
        other.actor = partner(k, x.actor, i, &other.op);
        if (waiting(k, other))
            return other;
    }
    return (struct place){x.actor, -1};
}

static struct place waits_for(const struct lw_check_run *k, struct place x)
{
    const struct lw_op *o = LW_OP(k->p, x.op < 0 ? 0 : x.op);

    if (x.op < 0)
        return x;
    if (!waiting(k, x))
        return ordinal_of(k, x.op) >= 0 ? absent_member(k, x) : absent_partner(k, x);
    int32_t front = k->cursor[(int64_t)x.actor * k->p->n_streams + o->stream];
    if (front != x.op)
        return (struct place){x.actor, front};
    if (!is_issued(k, x.actor, x.op))
        return (struct place){x.actor, k->host[x.actor]};
    for (int32_t d = 0; d < o->n_deps; d++) {
        int32_t dep = k->p->deps[o->first_dep + d];
        if (k->state[state_of(k, x.actor, dep)] != ENDED)
            return (struct place){x.actor, dep};
    }
    return (struct place){x.actor, k->before_on_comm[x.op]};
}

static bool is_same(struct place a, struct place b)
{
    return a.actor == b.actor && a.op == b.op;
}

/* Follow the waits from x until they come round (two walkers, one twice as fast); the first op
 * there. */
static struct place first_of_ring(const struct lw_check_run *k, struct place x)
{
    struct place slow = x, fast = x, least;

    do {
        slow = waits_for(k, slow);
        fast = waits_for(k, waits_for(k, fast));
    } while (!is_same(slow, fast));
    least = slow;
    for (struct place i = waits_for(k, slow); !is_same(i, slow); i = waits_for(k, i))
        if (i.actor < least.actor || (i.actor == least.actor && i.op < least.op))
            least = i;
    return least;
}

enum lw_status lw_check_stuck(const struct lw_check_run *k, int32_t actor, int32_t op,
                              struct lw_err *err)
{
    enum { SHOWN = 5 };
    const char *who = k->folded ? "ranks of role" : "rank";
    const char *whose = k->hosts ? " of hosts that issue in the order of the list" : "";
    struct place first = first_of_ring(k, (struct place){actor, op}), i = first;
    char text[LW_OP_TEXT], list[SHOWN * (LW_OP_TEXT + 48)] = "";
    int32_t n = 0;
    size_t at = 0;

    if (first.op < 0)
        return lw_fail(err, LW_EPLAN, "deadlock%s: on %s %d, %s waits for ever", whose, who, actor,
                       lw_plan_op_text(k->p, op, text));
    for (i = waits_for(k, first); !is_same(i, first); i = waits_for(k, i))
        if (n++ < SHOWN)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s on %s %d, ",
                                   n > 1 ? "that for " : "", lw_plan_op_text(k->p, i.op, text), who,
                                   i.actor);
    return lw_fail(err, LW_EPLAN, "deadlock%s: on %s %d, %s waits for %s%sthat for the first",
                   whose, who, first.actor, lw_plan_op_text(k->p, first.op, text), list,
                   n > SHOWN ? "that for others, " : "");
}
