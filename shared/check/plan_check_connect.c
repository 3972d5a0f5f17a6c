/* No host waits for ever when communicators are connected at their first use. NCCL connects the
 * members of a communicator at its first collective, and two peers at their first message; the
 * host's call returns when all of them have made theirs. So one thread per rank that issues ops in
 * the order of the list, sends and receives of one call on a stream as one group, must not wait for
 * a rank that waits for it.
 *
 * Only first uses matter. The n-th send of a channel meets its n-th receive, so a first send meets
 * a first receive. As in plan_check_progress.c the outcome does not depend on the order of the run,
 * and roles stand for ranks where they are alike. Each variant is judged as if it were the first to
 * run. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check_run.h"
#include "shared/plan/op.h"

enum { REPEATED, FIRST }; /* an op's use of its group or channel, in k->state */
enum { DONE = INT32_MAX };

struct hosts {
    struct lw_check_run *k;
    int32_t *at;      /* [n_actors] first op of the group that its host issues; DONE */
    int32_t *arrived; /* [n_comms * n_keys] actors that issued their first collective */
    int32_t *ready;   /* [n_actors] stack of those that may go on */
    int32_t n_ready;
    bool *is_ready;
};

/* The first op of the group that is issued together with this one. */
static int32_t issue_lead(const struct lw_plan *p, struct lw_program g, int32_t op)
{
    int32_t lead = op;

    if (lw_op_class(p->ops[op].kind) != LW_CLASS_P2P || p->ops[op].call < 0)
        return op;
    for (int32_t i = op - 1; i >= g.first_op && p->ops[i].call == p->ops[op].call; i--)
        if (p->ops[i].stream == p->ops[op].stream)
            lead = i;
    return lead;
}

static bool in_group(const struct lw_plan *p, int32_t lead, int32_t op)
{
    return op == lead || (p->ops[lead].call >= 0 && p->ops[op].call == p->ops[lead].call &&
                          p->ops[op].stream == p->ops[lead].stream);
}

static int32_t group_end(const struct lw_plan *p, struct lw_program g, int32_t lead)
{
    int32_t end = lead + 1;

    while (p->ops[lead].call >= 0 && end < g.first_op + g.n_ops &&
           p->ops[end].call == p->ops[lead].call)
        end++;
    return end;
}

static bool is_first(const struct hosts *h, int32_t actor, int32_t op)
{
    return h->k->p->ops[op].comm >= 0 && h->k->state[state_of(h->k, actor, op)] == FIRST;
}

/* seen[2 * n_comms * n_actors]: 1 + the last actor that used the channel. */
static void mark_first(struct hosts *h, int32_t actor, int32_t *seen)
{
    struct lw_check_run *k = h->k;
    struct lw_program g = program_of(k, actor);

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &k->p->ops[i];
        bool first = k->ordinal[i] == 0;
        if (lw_op_class(o->kind) == LW_CLASS_P2P) {
            int32_t mate, other = partner(k, actor, i, &mate);
            int32_t *last = &seen[(o->comm * 2L + (o->kind == LW_OP_SEND)) * k->n_actors + other];
            first = *last != actor + 1;
            *last = actor + 1;
        }
        k->state[state_of(k, actor, i)] = first ? FIRST : REPEATED;
    }
}

static void make_ready(struct hosts *h, int32_t actor)
{
    if (!h->is_ready[actor])
        h->ready[h->n_ready++] = actor;
    h->is_ready[actor] = true;
}

static bool is_connected(const struct hosts *h, int32_t actor, int32_t op)
{
    const struct lw_check_run *k = h->k;

    if (k->ordinal[op] >= 0) {
        int64_t key = meeting_key(k, actor, k->p->ops[op].comm);
        return h->arrived[key] == k->expected[key];
    }
    int32_t mate, other = partner(k, actor, op, &mate);
    return h->at[other] >= issue_lead(k->p, program_of(k, other), mate);
}

/* The op of the group at which the host waits; -1 = none. */
static int32_t waits_at(const struct hosts *h, int32_t actor)
{
    struct lw_program g = program_of(h->k, actor);
    int32_t lead = h->at[actor], end = lead == DONE ? 0 : group_end(h->k->p, g, lead);

    for (int32_t i = lead; lead != DONE && i < end; i++)
        if (in_group(h->k->p, lead, i) && is_first(h, actor, i) && !is_connected(h, actor, i))
            return i;
    return -1;
}

/* Others may go on now that the host issues this group. */
static void enter(struct hosts *h, int32_t actor)
{
    const struct lw_check_run *k = h->k;
    struct lw_program g = program_of(k, actor);
    int32_t lead = h->at[actor], end = group_end(k->p, g, lead);

    for (int32_t i = lead; i < end; i++) {
        if (!in_group(k->p, lead, i) || !is_first(h, actor, i))
            continue;
        if (k->ordinal[i] < 0) {
            int32_t mate;
            make_ready(h, partner(k, actor, i, &mate));
            continue;
        }
        int32_t comm = k->p->ops[i].comm;
        int64_t key = meeting_key(k, actor, comm);
        if (++h->arrived[key] < k->expected[key])
            continue;
        const struct lw_group *members = k->folded ? NULL : lw_plan_group(k->p, comm, actor);
        for (int32_t m = 0; m < (members ? members->n_members : k->n_actors); m++) {
            int32_t other = members ? k->p->members[members->first_member + m] : m;
            if (meeting_key(k, other, comm) == key)
                make_ready(h, other);
        }
    }
}

static bool has_first(const struct hosts *h, int32_t actor, struct lw_program g, int32_t lead)
{
    int32_t end = group_end(h->k->p, g, lead);
    bool any = false;

    for (int32_t i = lead; !any && i < end; i++)
        any = in_group(h->k->p, lead, i) && is_first(h, actor, i);
    return any;
}

/* To the next group with a first use, from op `from` on. */
static void go_on(struct hosts *h, int32_t actor, int32_t from)
{
    struct lw_program g = program_of(h->k, actor);

    h->at[actor] = DONE;
    for (int32_t i = from; i < g.first_op + g.n_ops; i++) {
        if (issue_lead(h->k->p, g, i) != i || !has_first(h, actor, g, i))
            continue;
        h->at[actor] = i;
        enter(h, actor);
        return;
    }
}

/* A member of the collective whose host has not issued it. */
static int32_t absent_member(const struct hosts *h, int32_t actor, int32_t op)
{
    const struct lw_check_run *k = h->k;
    int32_t comm = k->p->ops[op].comm;

    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        if (meeting_key(k, a, comm) != meeting_key(k, actor, comm))
            continue;
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            if (k->p->ops[i].comm == comm && k->ordinal[i] == 0 && h->at[a] < i)
                return a;
    }
    return actor;
}

static enum lw_status waits_for_ever(const struct hosts *h, int32_t actor, struct lw_err *err)
{
    const struct lw_check_run *k = h->k;
    const char *who = k->folded ? "ranks of role" : "rank";
    int32_t op = waits_at(h, actor), mate;
    int32_t other = k->ordinal[op] < 0 ? partner(k, actor, op, &mate) : absent_member(h, actor, op);
    int32_t there = waits_at(h, other);
    char text[LW_OP_TEXT], more[LW_OP_TEXT];

    return lw_fail(
        err, LW_EPLAN,
        "deadlock where communicators connect at their first use: the host of %s %d issues %s "
        "and waits for that of %s %d, which waits at %s",
        who, actor, lw_plan_op_text(k->p, op, text), who, other,
        there < 0 ? "no op" : lw_plan_op_text(k->p, there, more));
}

static enum lw_status run(struct hosts *h, struct lw_err *err)
{
    for (int32_t a = 0; a < h->k->n_actors; a++)
        go_on(h, a, program_of(h->k, a).first_op);
    for (int32_t a = 0; a < h->k->n_actors; a++)
        make_ready(h, a);
    while (h->n_ready > 0) {
        int32_t a = h->ready[--h->n_ready];
        h->is_ready[a] = false;
        while (h->at[a] != DONE && waits_at(h, a) < 0)
            go_on(h, a, h->at[a] + 1);
    }
    for (int32_t a = 0; a < h->k->n_actors; a++)
        if (h->at[a] != DONE)
            return waits_for_ever(h, a, err);
    return LW_OK;
}

enum lw_status lw_check_connects(struct lw_check_run *k, struct lw_err *err)
{
    struct hosts h = {.k = k};
    int64_t channels = k->matches->any ? 2L * k->p->n_comms * k->n_actors : 0;
    int32_t *seen = lw_arena_alloc(&k->room, channels, sizeof *seen);

    h.at = lw_arena_alloc(&k->room, k->n_actors, sizeof *h.at);
    h.arrived = lw_arena_alloc(&k->room, (int64_t)k->p->n_comms * k->n_keys, sizeof *h.arrived);
    h.ready = lw_arena_alloc(&k->room, k->n_actors, sizeof *h.ready);
    h.is_ready = lw_arena_alloc(&k->room, k->n_actors, sizeof *h.is_ready);
    if (!seen || !h.at || !h.arrived || !h.ready || !h.is_ready)
        return lw_fail_nomem(err);
    for (int32_t a = 0; a < k->n_actors; a++)
        mark_first(&h, a, seen);
    return run(&h, err);
}
