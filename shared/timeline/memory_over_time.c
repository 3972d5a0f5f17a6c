/* Memory over time: what a rank holds from the start, and every change that its ops make, in the
 * order of time. At one time what an ended op gives back goes first, so that a backward and the
 * forward after it are never both counted: the peaks in flight are those of the schedule. Rows
 * of warm-up steps count too: what does not fit there does not fit. Messages between stages take
 * room while they wait to be sent or used. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/plan/message_ends.h"
#include "shared/plan/op.h"
#include "shared/plan/uses.h"
#include "shared/timeline/param_memory.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"

enum { TURN_GIVEN_BACK, TURN_ALLOCATION, TURN_TAKEN };

int64_t lw_memory_fixed(const struct lw_plan *plan, int32_t rank)
{
    const struct lw_role *role = &plan->roles[plan->role_of[rank]];
    int64_t sum = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        sum = lw_add_sat(sum, role->static_bytes[k]);
    return sum;
}

/* Rooms of buckets are those of gradients, or of weights that are gathered. */
static enum lw_memory memory_of(const struct lw_plan *plan, int32_t op, const struct lw_use *use)
{
    bool room = lw_op_class((enum lw_op_kind)plan->ops[op].kind) == LW_CLASS_MEMORY;

    if (use->buffer == LW_USE_WEIGHTS)
        return LW_MEMORY_GATHERED;
    return room && plan->ops[op].bucket >= 0 ? LW_MEMORY_BUCKETS : LW_MEMORY_ACTIVATIONS;
}

/* Changes so far, and what each op makes or takes of messages, by the plan's op numbers. */
struct changes {
    const struct lw_timeline *t;
    const struct lw_plan *plan;
    struct lw_memory_change *v;
    int64_t n, capacity;
    struct lw_arena room;
    int32_t *first, *next; /* [n_ops] messages of an op, of a message the next one; -1 = none. NULL:
                            * the plan sends none */
    bool *has_end;         /* [n_ops] of a message */
    bool *passes;          /* [n_ops] of a send: it lies where a receive has put it */
    bool *passed;          /* [n_ops] of a receive: a send passes it on */
    int32_t *over;         /* [n_ops] of an op: the receive whose message was passed on when it
                            * begins; -1 = none */
};

static enum lw_status add(struct changes *c, struct lw_memory_change x, struct lw_err *err)
{
    if (lw_reserve(&c->v, &c->capacity, c->n + 1, sizeof *c->v))
        return lw_fail_nomem(err);
    c->v[c->n++] = x;
    return LW_OK;
}

/* What the op takes or gives back of its own. */
static enum lw_status add_own(struct changes *c, int64_t i, struct lw_err *err)
{
    const struct lw_timeline *t = c->t;
    enum lw_op_class class_ = lw_op_class((enum lw_op_kind)t->kind[i]);
    struct lw_use use;

    if (!lw_op_memory(c->plan, t->op[i], t->rank[i], &use))
        return LW_OK;
    bool takes = use.access == LW_TAKE, computes = class_ != LW_CLASS_MEMORY;
    return add(c,
               (struct lw_memory_change){
                   .rank = t->rank[i],
                   .at = takes && computes ? t->start[i] : t->end[i],
                   .turn = !computes ? TURN_ALLOCATION : takes ? TURN_TAKEN : TURN_GIVEN_BACK,
                   .row = i,
                   .memory = memory_of(c->plan, t->op[i], &use),
                   .bytes = takes ? use.n : -use.n},
               err);
}

/* --- messages -----------------------------------------------------------------------------------
 */

static bool sends_any(const struct lw_plan *plan)
{
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].kind == LW_OP_SEND)
            return true;
    return false;
}

/* What a ring passes on is needed until the send and the step beside it have ended: when the op
 * that takes the next message begins. */
static void note_passed(struct changes *c, const struct lw_program *g,
                        const struct lw_message_ends *f)
{
    int32_t last = -1; /* send that passes something on, whose receive comes */

    for (int32_t i = 0; i < g->n_ops; i++) {
        bool receives = c->plan->ops[g->first_op + i].kind == LW_OP_RECV && f->hop[i] >= 0;
        if (f->passed[i] >= 0) {
            last = i;
        } else if (receives && last >= 0) {
            if (f->end_of[i] >= 0) {
                c->passed[g->first_op + f->passed[last]] = true;
                c->over[g->first_op + f->end_of[i]] = g->first_op + f->passed[last];
            }
            last = -1;
        }
    }
}

static enum lw_status note_program(struct changes *c, const struct lw_program *g,
                                   struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_message_ends f;
    enum lw_status s = lw_message_ends_init(c->plan, g, &room, &f, err);

    if (s == LW_OK)
        memset(c->over + g->first_op, -1, (size_t)g->n_ops * sizeof *c->over);
    if (s == LW_OK)
        note_passed(c, g, &f);
    for (int32_t i = 0; s == LW_OK && i < g->n_ops; i++) {
        c->first[g->first_op + i] = f.first[i] < 0 ? -1 : g->first_op + f.first[i];
        c->next[g->first_op + i] = f.next[i] < 0 ? -1 : g->first_op + f.next[i];
        c->has_end[g->first_op + i] = f.end_of[i] >= 0;
        c->passes[g->first_op + i] = f.passed[i] >= 0;
    }
    lw_arena_free(&room);
    return s;
}

static enum lw_status note_messages(struct changes *c, struct lw_err *err)
{
    const struct lw_plan *p = c->plan;

    if (!sends_any(p))
        return LW_OK;
    LW_TAKE(&c->room, c->first, p->n_ops, err);
    LW_TAKE(&c->room, c->next, p->n_ops, err);
    LW_TAKE(&c->room, c->has_end, p->n_ops, err);
    LW_TAKE(&c->room, c->passes, p->n_ops, err);
    LW_TAKE(&c->room, c->passed, p->n_ops, err);
    LW_TAKE(&c->room, c->over, p->n_ops, err);
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        LW_TRY(note_program(c, &p->programs[i], err));
    return LW_OK;
}

/* The message begins (1) or ceases (-1) to take room when the row's op starts or ends. */
static enum lw_status add_message(struct changes *c, int64_t row, int32_t message, int sign,
                                  bool at_end, struct lw_err *err)
{
    int32_t rank = c->t->rank[row];

    return add(c,
               (struct lw_memory_change){
                   .rank = rank,
                   .at = at_end ? c->t->end[row] : c->t->start[row],
                   .turn = sign > 0 ? TURN_TAKEN : TURN_GIVEN_BACK,
                   .row = row,
                   .memory = LW_MEMORY_MESSAGES,
                   .bytes = sign * lw_plan_operand(c->plan, &c->plan->ops[message], rank).bytes},
               err);
}

/* A message that is sent takes room from the end of the op that makes it to the end of the send.
 * One that is received takes room from the start of the receive to the end of the op that uses
 * it; what a forward keeps counts as its activations from its start. What a ring passes on is sent
 * from where it was received. */
static enum lw_status add_messages(struct changes *c, int64_t i, struct lw_err *err)
{
    const struct lw_plan *p = c->plan;
    int32_t op = c->t->op[i];
    bool sends = p->ops[op].kind == LW_OP_SEND, receives = p->ops[op].kind == LW_OP_RECV;
    bool keeps = p->ops[op].work >= 0 && p->works[p->ops[op].work].keeps_bytes > 0;

    for (int32_t m = c->first[op]; m >= 0; m = c->next[m]) {
        bool made = p->ops[m].kind == LW_OP_SEND;
        if (c->passes[m] || c->passed[m])
            continue;
        LW_TRY(add_message(c, i, m, made ? 1 : -1, made || !keeps, err));
    }
    if (c->over[op] >= 0)
        LW_TRY(add_message(c, i, c->over[op], -1, false, err));
    if (c->passes[op])
        return LW_OK;
    if (receives || (sends && !c->has_end[op]))
        LW_TRY(add_message(c, i, op, 1, false, err));
    if (sends || (receives && !c->has_end[op]))
        LW_TRY(add_message(c, i, op, -1, true, err));
    return LW_OK;
}

LW_COMPARATOR(compare_changes, struct lw_memory_change, a->rank, b->rank, a->at, b->at, a->turn,
              b->turn, a->row, b->row)

enum lw_status lw_memory_changes(const struct lw_timeline *t, const struct lw_plan *plan,
                                 struct lw_memory_change **out, int64_t *n, struct lw_err *err)
{
    struct changes c = {.t = t, .plan = plan};
    enum lw_status s = note_messages(&c, err);

    for (int64_t i = 0; s == LW_OK && i < t->n; i++) {
        s = add_own(&c, i, err);
        if (s == LW_OK && c.first)
            s = add_messages(&c, i, err);
    }
    lw_arena_free(&c.room);
    if (s != LW_OK) {
        lw_free(c.v);
        return s;
    }
    if (c.n > 0)
        qsort(c.v, (size_t)c.n, sizeof *c.v, compare_changes);
    *out = c.v;
    *n = c.n;
    return LW_OK;
}

enum lw_status lw_memory_peaks(const struct lw_timeline *t, const struct lw_plan *plan,
                               int64_t *peak, struct lw_err *err)
{
    struct lw_memory_change *v;
    int64_t n, now = 0;

    LW_TRY(lw_memory_changes(t, plan, &v, &n, err));
    for (int32_t r = 0; r < plan->n_ranks; r++)
        peak[r] = lw_memory_fixed(plan, r);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || v[i].rank != v[i - 1].rank)
            now = lw_memory_fixed(plan, v[i].rank);
        now = lw_add_sat(now, v[i].bytes);
        peak[v[i].rank] = now > peak[v[i].rank] ? now : peak[v[i].rank];
    }
    lw_free(v);
    return LW_OK;
}
