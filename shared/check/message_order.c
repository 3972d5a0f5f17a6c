/* The vector clocks of one role, carried through the programs of all roles that it exchanges
 * messages with, directly or through others. A receive ends after its send has begun: the receiver
 * knows all that the sender knew then, and that what was sent is received.
 *
 * What is not used, so that less is known and never too much: members of a collective wait for each
 * other, and so may a sender (NCCL's sends may end before anyone receives).
 *
 * A program is followed stream by stream. An op is ticked once all that it waits for has ended, and
 * a receive has ended once its send is ticked: so each op is ticked once. O(ops * streams) for each
 * role, and the dependencies that are tried again. */
#include "shared/check/message_order.h"

#include <string.h>

#include "shared/plan/op.h"

/* A rank hears of no two ranks of one role. */
static enum lw_status hears_of_one_each(const struct lw_message_order *o, struct lw_arena *room,
                                        bool *one, struct lw_err *err)
{
    const struct lw_plan *p = o->p;
    const struct lw_matches *m = &o->matches;
    int32_t *heard_by = lw_arena_alloc(room, p->n_ranks, sizeof *heard_by);
    int32_t *queue = lw_arena_alloc(room, p->n_ranks, sizeof *queue);
    int32_t *met = lw_arena_alloc(room, p->n_roles, sizeof *met); /* 1 + rank that hears of it */

    if (!heard_by || !queue || !met)
        return lw_fail_nomem(err);
    *one = true;
    for (int32_t r = 0; m->any && r < p->n_ranks; r++) {
        int32_t n = heard_by[r] == 0;
        queue[0] = r;
        heard_by[r] = n ? r + 1 : heard_by[r];
        for (int32_t i = 0; i < n; i++) {
            int32_t role = lw_plan_role_of(p, queue[i]);
            *one = *one && met[role] != r + 1;
            met[role] = r + 1;
            for (int32_t k = m->first[role]; k < m->first[role + 1]; k++) {
                int32_t peer = lw_plan_operand(p, LW_OP(p, m->list[k]), queue[i]).peer;
                if (heard_by[peer] == 0)
                    queue[n++] = peer;
                heard_by[peer] = r + 1;
            }
        }
    }
    return LW_OK;
}

static enum lw_status make_room(struct lw_message_order *o, struct lw_err *err)
{
    const struct lw_plan *p = o->p;
    int64_t streams = p->n_streams;

    LW_TAKE(&o->room, o->clocks, p->n_roles, err);
    LW_TAKE(&o->room, o->cursor, p->n_roles * streams, err);
    LW_TAKE(&o->room, o->queued, p->n_roles, err);
    LW_TAKE(&o->room, o->reached, p->n_roles, err);
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_op_clock *c = &o->clocks[r];
        int64_t n_ops = p->programs[(int64_t)o->variant * p->n_roles + r].n_ops;
        LW_TRY(lw_op_clock_init(c, p, &o->room, err));
        c->brought = lw_arena_alloc(&o->room, n_ops, (size_t)streams * sizeof *c->brought);
        if (!c->brought)
            return lw_fail_nomem(err);
    }
    return LW_OK;
}

enum lw_status lw_message_order_init(struct lw_message_order *o, const struct lw_plan *p,
                                     int32_t variant, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_err unmatched;

    *o = (struct lw_message_order){.p = p, .variant = variant, .role = -1};
    o->matches.ends_only = true;
    enum lw_status s = lw_match_messages(p, variant, &o->matches, &o->room, &unmatched);
    if (s == LW_EPLAN)
        return LW_OK;
    if (s != LW_OK)
        return lw_fail_nomem(err);
    s = hears_of_one_each(o, &room, &o->known, err);
    lw_arena_free(&room);
    o->known = o->known && lw_matches_by_role(p, &o->matches);
    return s == LW_OK && o->known ? make_room(o, err) : s;
}

void lw_message_order_free(struct lw_message_order *o)
{
    lw_arena_free(&o->room);
    *o = (struct lw_message_order){0};
}

/* --- one role --- */

static void reach(struct lw_message_order *o, int32_t role)
{
    struct lw_op_clock *c = &o->clocks[role];
    struct lw_program g = o->p->programs[(int64_t)o->variant * o->p->n_roles + role];
    int32_t *cursor = o->cursor + (int64_t)role * c->n_streams;

    if (o->reached[role])
        return;
    o->reached[role] = o->queued[role] = true;
    lw_op_clock_begin(c, g);
    c->foreign = role != o->role;
    memset(c->brought, -1, (size_t)g.n_ops * (size_t)c->n_streams * sizeof *c->brought);
    for (int32_t s = 0; s < c->n_streams; s++)
        cursor[s] = -1;
    for (int32_t i = g.n_ops - 1; i >= 0; i--)
        cursor[c->stream[i]] = g.first_op + i;
}

static const struct lw_op_clock *mate_of(const struct lw_message_order *o, int32_t role, int32_t op,
                                         int32_t *mate)
{
    return &o->clocks[lw_match_partner(o->p, &o->matches, role, op, mate)];
}

static bool has_ended(const struct lw_message_order *o, int32_t role, int32_t op)
{
    const struct lw_op_clock *c = &o->clocks[role];
    int32_t send;

    if (op < 0)
        return true;
    if (!c->ticked[op - c->program.first_op])
        return false;
    for (int32_t i = c->lead[op - c->program.first_op]; i >= 0; i = lw_op_clock_next(c, i)) {
        if (lw_op_at(o->p, i).kind != LW_OP_RECV)
            continue;
        const struct lw_op_clock *sender = mate_of(o, role, i, &send);
        if (!sender->ticked[send - sender->program.first_op])
            return false;
    }
    return true;
}

static bool can_begin(const struct lw_message_order *o, int32_t role, int32_t lead)
{
    const struct lw_op_clock *c = &o->clocks[role];
    int32_t first = c->program.first_op;
    bool can = has_ended(o, role, c->before[lead - first]);

    for (int32_t i = lead; can && i >= 0; i = lw_op_clock_next(c, i)) {
        const struct lw_op *op = LW_OP(o->p, i);
        can = op->comm < 0 || has_ended(o, role, c->before_on_comm[i - first]);
        for (int32_t d = 0; can && d < op->n_deps; d++) {
            int32_t dep = o->p->deps[op->first_dep + d];
            can = c->lead[dep - first] == lead || has_ended(o, role, dep);
        }
    }
    return can;
}

/* What the message says: what its sender knew, and of a send that begins alone that it is received.
 * Of sends that begin together one may be received before the others, which a clock cannot
 * express. */
static void bring(struct lw_message_order *o, int32_t role, int32_t op)
{
    const struct lw_op_clock *from = &o->clocks[role];
    int32_t mate, to = lw_match_partner(o->p, &o->matches, role, op, &mate);

    reach(o, to);
    o->queued[to] = true;
    if (lw_op_at(o->p, op).kind != LW_OP_SEND)
        return;
    const struct lw_op_clock *c = &o->clocks[to];
    int32_t *says = c->brought + (int64_t)(mate - c->program.first_op) * c->n_streams;
    lw_clock_learn(says, lw_op_clock_row(from, op), c->n_streams);
    int32_t *own = &says[lw_op_at(o->p, op).stream];
    bool alone = from->lead[op - from->program.first_op] == op && lw_op_clock_next(from, op) < 0;
    if (!from->foreign && to != role && alone && op > *own)
        *own = op;
}

/* Follows each stream of a role as far as it goes; false: none moves. */
static bool follow(struct lw_message_order *o, int32_t role)
{
    struct lw_op_clock *c = &o->clocks[role];
    bool moved = false;

    for (int32_t s = 0; s < c->n_streams; s++) {
        int32_t *at = &o->cursor[(int64_t)role * c->n_streams + s];
        while (*at >= 0 && can_begin(o, role, *at)) {
            int32_t last = *at;
            lw_op_clock_tick(c, *at);
            for (int32_t i = *at; i >= 0; i = lw_op_clock_next(c, i)) {
                last = i;
                if (lw_op_class(lw_op_at(o->p, i).kind) == LW_CLASS_P2P)
                    bring(o, role, i);
            }
            *at = c->next[last - c->program.first_op];
            moved = true;
        }
    }
    return moved;
}

void lw_message_order_set(struct lw_message_order *o, int32_t role)
{
    o->role = role;
    if (!o->known)
        return;
    memset(o->reached, 0, (size_t)o->p->n_roles * sizeof *o->reached);
    memset(o->queued, 0, (size_t)o->p->n_roles * sizeof *o->queued);
    reach(o, role);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < o->p->n_roles; r++) {
            if (!o->queued[r])
                continue;
            o->queued[r] = false;
            while (follow(o, r))
                moved = true;
        }
    }
}

bool lw_ended_before(const struct lw_message_order *o, int32_t a, int32_t b)
{
    if (!o->known)
        return false;
    const struct lw_op_clock *c = &o->clocks[o->role];
    int32_t at = b - c->program.first_op, stream = lw_op_at(o->p, a).stream;

    if (!c->ticked[at])
        return false;
    return lw_op_after(c, b, a) || (lw_op_at(o->p, b).kind == LW_OP_RECV &&
                                    c->brought[(int64_t)at * c->n_streams + stream] >= a);
}
