/* Nobody waits for ever: an abstract run of one variant, without time. Every stream runs its ops in
 * order; an op is entered when its dependencies have ended and the op before it in its communicator
 * has; a collective ends when every member has entered it, a send or receive when its partner has
 * (rendezvous: no buffering), and the ops of one group call end together.
 *
 * The outcome does not depend on the order of the run: an op that can be entered stays so until it
 * is, and entering one never takes the chance from another. So one run decides. For the same reason
 * ranks that are alike may be run as one: the actors are the roles where every rank of a role meets
 * the same roles at the same ops, and the ranks themselves where not.
 *
 * A set of actors with something to try is kept in a queue; an actor is queued again when one of its
 * ops ended through another. Dependencies are looked at once each: a cursor per stream remembers the
 * first that had not ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/arena.h"
#include "shared/plan_check.h"

enum { WAITING, ENTERED, ENDED };

struct run {
    const struct lw_plan *p;
    int32_t variant;
    struct lw_matches *matches;
    struct lw_arena room;
    bool folded;                 /* actors are roles */
    int32_t n_actors;

    /* by op of the plan */
    int32_t *next_on_stream, *before_on_comm; /* -1 = none */
    int32_t *ordinal;            /* of a collective within its class and program */
    int32_t *call_lead;          /* first op of its group call in the program; itself when alone */
    int32_t *call_size;          /* at the lead: ops of the call; both empty without messages */
    int32_t *head;               /* [n_roles * n_streams] first op of a stream; -1 = none */
    int32_t *first_rank;         /* [n_roles] -1 = the role has none */

    /* by actor */
    int64_t *state_at;           /* [n_actors]: where the states of its ops begin */
    uint8_t *state;
    int32_t *cursor;             /* [n_actors * n_streams] op at the front; -1 = stream is done */
    int32_t *dep_cursor;         /* [n_actors * n_streams] dependencies of it that have ended */
    int32_t *call_left;          /* by state index of the lead: ops of the call not matched yet */
    int32_t *queue;              /* [n_actors] ring */
    int32_t queue_first, queue_n;
    bool *queued;

    /* meetings: one per (class, group or leading role, ordinal) */
    int32_t n_keys;              /* groups or roles */
    int32_t *class_of;           /* folded: [n_comms * n_roles] leading role of what a role meets */
    int64_t *meeting_at;         /* [n_comms * n_keys] */
    int32_t *arrived;            /* per meeting */
    int32_t *expected;           /* [n_comms * n_keys] actors that take part */
};

static int32_t role_of_actor(const struct run *k, int32_t actor)
{
    return k->folded ? actor : k->p->role_of[actor];
}

static struct lw_program program_of(const struct run *k, int32_t actor)
{
    return k->p->programs[(int64_t)k->variant * k->p->n_roles + role_of_actor(k, actor)];
}

static int64_t state_of(const struct run *k, int32_t actor, int32_t op)
{
    return k->state_at[actor] + (op - program_of(k, actor).first_op);
}

/* --- can roles stand for ranks? ----------------------------------------------------------------- */

/* In each class, a role meets one set of roles. class_of: the smallest of the set. */
static bool collectives_fold(struct run *k)
{
    const struct lw_plan *p = k->p;

    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t *of = k->class_of + (int64_t)c * p->n_roles;
        for (int32_t r = 0; r < p->n_roles; r++)
            of[r] = -1;
        for (int32_t r = 0; r < p->n_ranks; r++) {
            const struct lw_group *g = lw_plan_group(p, c, r);
            if (!g || p->members[g->first_member] != r)
                continue;
            int32_t least = p->role_of[r];
            for (int32_t m = 0; m < g->n_members; m++)
                if (p->role_of[p->members[g->first_member + m]] < least)
                    least = p->role_of[p->members[g->first_member + m]];
            for (int32_t m = 0; m < g->n_members; m++) {
                int32_t *mine = &of[p->role_of[p->members[g->first_member + m]]];
                if (*mine >= 0 && *mine != least)
                    return false;
                *mine = least;
            }
        }
        for (int32_t r = 0; r < p->n_ranks; r++) { /* the whole set in every group, all or none */
            const struct lw_group *g = lw_plan_group(p, c, r);
            if ((g != NULL) != (of[p->role_of[r]] >= 0))
                return false;
        }
    }
    return true;
}

/* Every group of a class holds all roles of its set. seen[n_roles] is zeroed. */
static bool groups_are_whole(const struct run *k, int32_t *seen)
{
    const struct lw_plan *p = k->p;
    bool whole = true;
    int32_t stamp = 0;

    for (int32_t c = 0; whole && c < p->n_comms; c++) {
        const int32_t *of = k->class_of + (int64_t)c * p->n_roles;
        const int32_t *size = k->expected + (int64_t)c * p->n_roles;
        for (int32_t r = 0; whole && r < p->n_ranks; r++) {
            const struct lw_group *g = lw_plan_group(p, c, r);
            int32_t distinct = 0;
            if (!g || p->members[g->first_member] != r)
                continue;
            stamp++;
            for (int32_t m = 0; m < g->n_members; m++) {
                int32_t role = p->role_of[p->members[g->first_member + m]];
                distinct += seen[role] != stamp;
                seen[role] = stamp;
            }
            whole = distinct == size[of[p->role_of[r]]];
        }
    }
    return whole;
}

/* Each send or receive of a role meets the same op of the same role on every rank. */
static bool messages_fold(const struct run *k)
{
    const struct lw_plan *p = k->p;
    const struct lw_matches *m = k->matches;

    if (!m->any || m->folded)
        return true;
    bool same = true;
    for (int32_t r = 0; same && r < p->n_ranks; r++) {
        int32_t role = p->role_of[r], first = k->first_rank[role];
        for (int32_t i = 0; same && i < m->first[role + 1] - m->first[role]; i++) {
            int32_t a = m->base[r] + i, b = m->base[first] + i;
            same = m->op[a] == m->op[b] && p->role_of[m->rank[a]] == p->role_of[m->rank[b]];
        }
    }
    return same;
}

static void count_expected_roles(struct run *k)
{
    const struct lw_plan *p = k->p;

    for (int32_t c = 0; c < p->n_comms; c++) {
        const int32_t *of = k->class_of + (int64_t)c * p->n_roles;
        int32_t *size = k->expected + (int64_t)c * p->n_roles;
        memset(size, 0, (size_t)p->n_roles * sizeof *size);
        for (int32_t r = 0; r < p->n_roles; r++)
            if (of[r] >= 0)
                size[of[r]]++;
    }
}

/* --- tables ------------------------------------------------------------------------------------- */

struct call {
    int32_t number, op;
};

static int compare_calls(const void *a, const void *b)
{
    const struct call *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static void lead_calls(struct run *k, const struct lw_program *g, struct call *calls)
{
    size_t n = 0;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *o = &k->p->ops[i];
        k->call_lead[i] = i;
        k->call_size[i] = 1;
        if (lw_op_class(o->kind) == LW_CLASS_P2P && o->call >= 0)
            calls[n++] = (struct call){o->call, i};
    }
    qsort(calls, n, sizeof *calls, compare_calls);
    for (size_t i = 1; i < n; i++) {
        if (calls[i].number != calls[i - 1].number)
            continue;
        k->call_lead[calls[i].op] = k->call_lead[calls[i - 1].op];
        k->call_size[k->call_lead[calls[i].op]]++;
    }
}

static void link_program(struct run *k, int32_t role, int32_t *last_on_comm, int32_t *n_on_comm,
                         int32_t *last_on_stream)
{
    const struct lw_plan *p = k->p;
    struct lw_program g = p->programs[(int64_t)k->variant * p->n_roles + role];
    int32_t *head = k->head + (int64_t)role * p->n_streams;

    for (int32_t s = 0; s < p->n_streams; s++)
        head[s] = last_on_stream[s] = -1;
    for (int32_t c = 0; c < p->n_comms; c++) {
        last_on_comm[c] = -1;
        n_on_comm[c] = 0;
    }
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        k->next_on_stream[i] = k->before_on_comm[i] = k->ordinal[i] = -1;
        if (last_on_stream[o->stream] < 0)
            head[o->stream] = i;
        else
            k->next_on_stream[last_on_stream[o->stream]] = i;
        last_on_stream[o->stream] = i;
        if (o->comm < 0)
            continue;
        k->before_on_comm[i] = last_on_comm[o->comm];
        last_on_comm[o->comm] = i;
        if (lw_op_class(o->kind) == LW_CLASS_COLLECTIVE)
            k->ordinal[i] = n_on_comm[o->comm]++;
    }
}

static enum lw_status make_tables(struct run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t widest = 0;

    k->next_on_stream = lw_arena_alloc(&k->room, p->n_ops, sizeof(int32_t));
    k->before_on_comm = lw_arena_alloc(&k->room, p->n_ops, sizeof(int32_t));
    k->ordinal = lw_arena_alloc(&k->room, p->n_ops, sizeof(int32_t));
    k->call_lead = lw_arena_alloc(&k->room, k->matches->any ? p->n_ops : 0, sizeof(int32_t));
    k->call_size = lw_arena_alloc(&k->room, k->matches->any ? p->n_ops : 0, sizeof(int32_t));
    k->head = lw_arena_alloc(&k->room, (int64_t)p->n_roles * p->n_streams, sizeof(int32_t));
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        widest = p->programs[i].n_ops > widest ? p->programs[i].n_ops : widest;
    struct call *calls = lw_arena_alloc(&k->room, k->matches->any ? widest : 0, sizeof *calls);
    int32_t *last_on_comm = lw_arena_alloc(&k->room, p->n_comms, sizeof(int32_t));
    int32_t *n_on_comm = lw_arena_alloc(&k->room, p->n_comms, sizeof(int32_t));
    int32_t *last_on_stream = lw_arena_alloc(&k->room, p->n_streams, sizeof(int32_t));
    if (!k->next_on_stream || !k->before_on_comm || !k->ordinal || !k->call_lead ||
        !k->call_size || !k->head || !calls || !last_on_comm || !n_on_comm || !last_on_stream)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)k->variant * p->n_roles + r];
        link_program(k, r, last_on_comm, n_on_comm, last_on_stream);
        if (k->matches->any)
            lead_calls(k, &g, calls);
    }
    return LW_OK;
}

static enum lw_status choose_actors(struct run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int64_t keys = p->n_roles > p->n_groups ? p->n_roles : p->n_groups;

    k->class_of = lw_arena_alloc(&k->room, (int64_t)p->n_comms * p->n_roles, sizeof(int32_t));
    k->expected = lw_arena_alloc(&k->room, (int64_t)p->n_comms * keys, sizeof(int32_t));
    k->first_rank = lw_arena_alloc(&k->room, p->n_roles, sizeof(int32_t));
    if (!k->class_of || !k->expected || !k->first_rank)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < p->n_roles; r++)
        k->first_rank[r] = -1;
    for (int32_t r = p->n_ranks - 1; r >= 0; r--)
        k->first_rank[p->role_of[r]] = r;
    k->folded = p->n_roles < p->n_ranks && collectives_fold(k);
    if (k->folded) {
        count_expected_roles(k);
        int32_t *seen = lw_arena_alloc(&k->room, p->n_roles, sizeof *seen);
        if (!seen)
            return lw_fail_nomem(err);
        k->folded = groups_are_whole(k, seen) && messages_fold(k);
    }
    if (!k->folded && k->matches->folded)
        LW_TRY(lw_match_by_rank(p, k->matches, &k->room, err));
    k->n_actors = k->folded ? p->n_roles : p->n_ranks;
    k->n_keys = k->folded ? p->n_roles : p->n_groups;
    for (int32_t c = 0; !k->folded && c < p->n_comms; c++)
        for (int32_t g = 0; g < p->n_groups; g++)
            k->expected[(int64_t)c * k->n_keys + g] = p->groups[g].n_members;
    return LW_OK;
}

static int64_t meeting_key(const struct run *k, int32_t actor, int32_t comm)
{
    int32_t key = k->folded ? k->class_of[(int64_t)comm * k->p->n_roles + actor]
                            : k->p->comm_group[(int64_t)comm * k->p->n_ranks + actor];

    return key < 0 ? -1 : (int64_t)comm * k->n_keys + key;
}

/* Meetings of a key are as many as any of its actors has collectives (all have the same number). */
static enum lw_status make_meetings(struct run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int64_t cells = (int64_t)p->n_comms * k->n_keys, total = 0;
    int32_t *n = lw_arena_alloc(&k->room, cells, sizeof *n);

    k->meeting_at = lw_arena_alloc(&k->room, cells, sizeof *k->meeting_at);
    if (!n || !k->meeting_at)
        return lw_fail_nomem(err);
    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            if (k->ordinal[i] < 0)
                continue;
            int64_t key = meeting_key(k, a, p->ops[i].comm);
            n[key] = k->ordinal[i] >= n[key] ? k->ordinal[i] + 1 : n[key];
        }
    }
    for (int64_t c = 0; c < cells; c++) {
        k->meeting_at[c] = total;
        total += n[c];
    }
    k->arrived = lw_arena_alloc(&k->room, total, sizeof *k->arrived);
    return k->arrived ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status make_actors(struct run *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int64_t total = 0, heads = (int64_t)k->n_actors * p->n_streams;

    k->state_at = lw_arena_alloc(&k->room, k->n_actors, sizeof *k->state_at);
    if (!k->state_at)
        return lw_fail_nomem(err);
    for (int32_t a = 0; a < k->n_actors; a++) {
        k->state_at[a] = total;
        total += program_of(k, a).n_ops;
    }
    k->state = lw_arena_alloc(&k->room, total, sizeof *k->state);
    k->call_left = lw_arena_alloc(&k->room, k->matches->any ? total : 0, sizeof *k->call_left);
    k->cursor = lw_arena_alloc(&k->room, heads, sizeof *k->cursor);
    k->dep_cursor = lw_arena_alloc(&k->room, heads, sizeof *k->dep_cursor);
    k->queue = lw_arena_alloc(&k->room, k->n_actors, sizeof *k->queue);
    k->queued = lw_arena_alloc(&k->room, k->n_actors, sizeof *k->queued);
    if (!k->state || !k->call_left || !k->cursor || !k->dep_cursor || !k->queue || !k->queued)
        return lw_fail_nomem(err);
    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        memcpy(k->cursor + (int64_t)a * p->n_streams,
               k->head + (int64_t)role_of_actor(k, a) * p->n_streams,
               (size_t)p->n_streams * sizeof *k->cursor);
        for (int32_t i = g.first_op; k->matches->any && i < g.first_op + g.n_ops; i++)
            k->call_left[state_of(k, a, i)] = k->call_size[i];
    }
    return LW_OK;
}

/* --- the run ------------------------------------------------------------------------------------ */

static void wake(struct run *k, int32_t actor)
{
    if (k->queued[actor])
        return;
    k->queued[actor] = true;
    k->queue[(k->queue_first + k->queue_n) % k->n_actors] = actor;
    k->queue_n++;
}

static bool same_call(const struct run *k, int32_t a, int32_t b)
{
    return k->matches->any && k->call_lead[a] == k->call_lead[b];
}

static bool can_enter(struct run *k, int32_t actor, int32_t op, int32_t *dep_cursor)
{
    const struct lw_op *o = &k->p->ops[op];
    int32_t before = k->before_on_comm[op];

    while (*dep_cursor < o->n_deps &&
           k->state[state_of(k, actor, k->p->deps[o->first_dep + *dep_cursor])] == ENDED)
        (*dep_cursor)++;
    if (*dep_cursor < o->n_deps)
        return false;
    return before < 0 || same_call(k, before, op) || k->state[state_of(k, actor, before)] == ENDED;
}

/* Actors that take part in a meeting have entered: the op ends for all of them. */
static void end_collective(struct run *k, int32_t actor, int32_t comm, int32_t ordinal)
{
    int64_t key = meeting_key(k, actor, comm);
    const struct lw_group *g = k->folded ? NULL : lw_plan_group(k->p, comm, actor);
    int32_t n = k->folded ? k->n_actors : g->n_members;

    for (int32_t i = 0; i < n; i++) {
        int32_t other = k->folded ? i : k->p->members[g->first_member + i];
        if (meeting_key(k, other, comm) != key)
            continue;
        struct lw_program q = program_of(k, other);
        for (int32_t s = 0; s < k->p->n_streams; s++) { /* it stands at the front of a stream */
            int32_t op = k->cursor[(int64_t)other * k->p->n_streams + s];
            if (op >= q.first_op && k->p->ops[op].comm == comm && k->ordinal[op] == ordinal)
                k->state[state_of(k, other, op)] = ENDED;
        }
        wake(k, other);
    }
}

static void matched(struct run *k, int32_t actor, int32_t op)
{
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

/* The actor that a send or receive meets, and its op there. */
static int32_t partner(const struct run *k, int32_t actor, int32_t op, int32_t *mate)
{
    const struct lw_matches *m = k->matches;

    if (m->folded) {
        *mate = m->mate[op];
        return m->mate_role[op];
    }
    int32_t rank = k->folded ? k->first_rank[actor] : actor; /* stands for all of its role */
    int32_t at = m->base[rank] + m->ordinal[op];
    *mate = m->op[at];
    return k->folded ? k->p->role_of[m->rank[at]] : m->rank[at];
}

static void enter(struct run *k, int32_t actor, int32_t op)
{
    const struct lw_op *o = &k->p->ops[op];
    uint8_t *state = &k->state[state_of(k, actor, op)];

    *state = ENTERED;
    if (k->ordinal[op] >= 0) {
        int64_t key = meeting_key(k, actor, o->comm);
        if (++k->arrived[k->meeting_at[key] + k->ordinal[op]] == k->expected[key])
            end_collective(k, actor, o->comm, k->ordinal[op]);
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

/* Move a stream on; true when something changed. */
static bool step_stream(struct run *k, int32_t actor, int32_t stream)
{
    int64_t at = (int64_t)actor * k->p->n_streams + stream;
    bool moved = false;

    for (int32_t op = k->cursor[at]; op >= 0; op = k->cursor[at]) {
        int64_t state = state_of(k, actor, op);
        int32_t next = k->next_on_stream[op];
        if (k->state[state] == WAITING && can_enter(k, actor, op, &k->dep_cursor[at])) {
            enter(k, actor, op);
            moved = true;
        }
        if (k->state[state] == WAITING)
            return moved;
        if (k->state[state] == ENTERED && (next < 0 || !same_call(k, op, next)))
            return moved;
        k->cursor[at] = next;
        k->dep_cursor[at] = 0;
        moved = true;
    }
    return moved;
}

/* --- who waits for whom -------------------------------------------------------------------------- */

struct place {
    int32_t actor, op; /* op -1: nowhere */
};

static bool waiting(const struct run *k, struct place x)
{
    return k->state[state_of(k, x.actor, x.op)] == WAITING;
}

/* A member of the collective that has not entered it. */
static struct place absent_member(const struct run *k, struct place x)
{
    int32_t comm = k->p->ops[x.op].comm;
    int64_t key = meeting_key(k, x.actor, comm);

    for (int32_t a = 0; a < k->n_actors; a++) {
        struct lw_program g = program_of(k, a);
        if (meeting_key(k, a, comm) != key)
            continue;
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            if (k->p->ops[i].comm == comm && k->ordinal[i] == k->ordinal[x.op] &&
                waiting(k, (struct place){a, i}))
                return (struct place){a, i};
    }
    return (struct place){x.actor, -1};
}

/* Of the call of a send or receive that has entered: an op that has not, or one's partner that has not. */
static struct place absent_partner(const struct run *k, struct place x)
{
    struct lw_program g = program_of(k, x.actor);

    for (int32_t i = k->call_lead[x.op]; i < g.first_op + g.n_ops; i++) {
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

static struct place waits_for(const struct run *k, struct place x)
{
    const struct lw_op *o = &k->p->ops[x.op < 0 ? 0 : x.op];

    if (x.op < 0)
        return x;
    if (!waiting(k, x))
        return k->ordinal[x.op] >= 0 ? absent_member(k, x) : absent_partner(k, x);
    int32_t front = k->cursor[(int64_t)x.actor * k->p->n_streams + o->stream];
    if (front != x.op)
        return (struct place){x.actor, front};
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

/* Follow the waits from x until they come round (two walkers, one twice as fast); the first op there. */
static struct place first_of_ring(const struct run *k, struct place x)
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

static enum lw_status stuck(const struct run *k, int32_t actor, int32_t op, struct lw_err *err)
{
    enum { SHOWN = 5 };
    const char *who = k->folded ? "ranks of role" : "rank";
    struct place first = first_of_ring(k, (struct place){actor, op}), i = first;
    char text[LW_OP_TEXT], list[SHOWN * (LW_OP_TEXT + 48)] = "";
    int32_t n = 0;
    size_t at = 0;

    if (first.op < 0)
        return lw_fail(err, LW_EPLAN, "deadlock: on %s %d, %s waits for ever", who, actor,
                       lw_check_op_text(k->p, op, text));
    for (i = waits_for(k, first); !is_same(i, first); i = waits_for(k, i))
        if (n++ < SHOWN)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s on %s %d, ",
                                   n > 1 ? "that for " : "", lw_check_op_text(k->p, i.op, text), who,
                                   i.actor);
    return lw_fail(err, LW_EPLAN, "deadlock: on %s %d, %s waits for %s%sthat for the first", who,
                   first.actor, lw_check_op_text(k->p, first.op, text), list,
                   n > SHOWN ? "that for others, " : "");
}

/* --- all ----------------------------------------------------------------------------------------- */

static enum lw_status execute(struct run *k, struct lw_err *err)
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
            moved = false;
            for (int32_t s = 0; s < n_streams; s++)
                moved = step_stream(k, actor, s) || moved;
        }
    }
    for (int64_t i = 0; i < (int64_t)k->n_actors * n_streams; i++)
        if (k->cursor[i] >= 0)
            return stuck(k, (int32_t)(i / n_streams), k->cursor[i], err);
    return LW_OK;
}

enum lw_status lw_check_progress(const struct lw_plan *p, int32_t variant,
                                 struct lw_matches *matches, struct lw_err *err)
{
    struct run k = {.p = p, .variant = variant, .matches = matches};
    enum lw_status s = choose_actors(&k, err);

    if (s == LW_OK)
        s = make_tables(&k, err);
    if (s == LW_OK)
        s = make_meetings(&k, err);
    if (s == LW_OK)
        s = make_actors(&k, err);
    if (s == LW_OK)
        s = execute(&k, err);
    lw_arena_free(&k.room);
    return s;
}
