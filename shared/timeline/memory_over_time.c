/* Memory over time: what a rank holds from the start, and every change that its ops make, in the
 * order of time. At one time what an ended op gives back goes first, so that a backward and the
 * forward after it are never both counted: the peaks in flight are those of the schedule. Rows
 * of warm-up steps count too: what does not fit there does not fit. Messages between stages take
 * room while they wait to be sent or used, and all keys and values that a context group gathers;
 * and gradients where no buffer holds them (gradient_memory.c). */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort_nearly.h"
#include "shared/numbers/dtype.h"
#include "shared/plan/message_ends.h"
#include "shared/plan/op.h"
#include "shared/plan/strategy.h"
#include "shared/plan/uses.h"
#include "shared/timeline/param_memory.h"
#include "shared/numbers/order.h"

enum { TURN_GIVEN_BACK, TURN_ALLOCATION, TURN_TAKEN };

/* Rooms of buckets are those of gradients, or of weights that are gathered; others are of the
 * optimizer's state (--offload). */
static enum lw_memory memory_of(const struct lw_plan *plan, int32_t op, const struct lw_use *use)
{
    bool room = lw_op_class((enum lw_op_kind)plan->ops[op].kind) == LW_CLASS_MEMORY;

    if (use->buffer == LW_USE_WEIGHTS)
        return LW_MEMORY_GATHERED;
    if (room && plan->ops[op].bucket >= 0)
        return LW_MEMORY_BUCKETS;
    return room && plan->strategy->offload == LW_OFFLOAD_OPTIMIZER ? LW_MEMORY_OPTIMIZER
                                                                   : LW_MEMORY_ACTIVATIONS;
}

/* A message begins (1) or ceases (-1) to take room when an op starts or ends. */
struct turn {
    int32_t message, next; /* op that moves it; turn at the same op, -1 = none */
    int8_t sign;
    bool at_end;
};

/* Changes so far, and the turns of messages at each op, by the plan's op numbers. */
struct changes {
    const struct lw_timeline *t;
    const struct lw_plan *plan;
    struct lw_memory_change *v;
    int64_t n, capacity;
    struct lw_arena room;
    int32_t *first;        /* [n_ops] turns at an op; -1 = none. NULL: the plan has no messages */
    struct turn *turns;
    int64_t n_turns, turns_capacity;
    int64_t *makes;        /* [n_ops] gradient_memory.c; NULL: gradients are there throughout */
    int64_t *held;         /* [n_ranks] of gradients made in the step so far */
};

static enum lw_status add(struct changes *c, struct lw_memory_change x, struct lw_err *err)
{
    if (lw_reserve(&c->v, &c->capacity, c->n + 1, sizeof *c->v))
        return lw_fail_nomem(err);
    c->v[c->n++] = x;
    return LW_OK;
}

/* Of a bucket whose gradients are copied into a framework's buffer: a gradient that does not fit
 * in, which is reduced where it is (deepspeedai/DeepSpeed@7dee2e06, runtime/zero/stage_1_and_2.py,
 * extra_large_param_to_reduce), and what is cast for the wire. */
static int64_t room_beside_buffer(const struct lw_plan *p, int32_t bucket, int64_t elements)
{
    const struct lw_bucket *b = &p->buckets[bucket];
    int64_t bytes = 0;
    bool cast = false;

    for (int32_t i = 0; i < b->n_slots; i++) {
        const struct lw_plan_param *x = &p->params[p->slots[b->first_slot + i]];
        enum lw_dtype grad = lw_strategy_grad_dtype(p->strategy, (enum lw_dtype)x->dtype);
        bytes += x->numel > elements ? x->numel * lw_dtype_size(grad) : 0;
        cast = b->dtype != grad;
    }
    return bytes + (cast ? b->bytes : 0);
}

/* Of a buffer of gathered weights: what 8 bits save of 16. */
static int64_t saved_by_narrow(const struct lw_plan *p, int32_t bucket, int64_t above)
{
    const struct lw_bucket *b = &p->buckets[bucket];
    int64_t bytes = 0;

    for (int32_t i = 0; i < b->n_slots; i++) {
        const struct lw_plan_param *x = &p->params[p->slots[b->first_slot + i]];
        bytes += lw_plan_in_block(p, x, above) ? x->numel * (lw_dtype_size(b->dtype) - 1) : 0;
    }
    return bytes;
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
    enum lw_memory memory = memory_of(c->plan, t->op[i], &use);
    const struct lw_role *role = &c->plan->roles[lw_plan_role_of(c->plan, t->rank[i])];
    int32_t bucket = c->plan->ops[t->op[i]].bucket;
    if (role->reduce_elements > 0 && memory == LW_MEMORY_BUCKETS)
        use.n = room_beside_buffer(c->plan, bucket, role->reduce_elements);
    if (role->narrow_above > 0 && memory == LW_MEMORY_GATHERED)
        use.n -= saved_by_narrow(c->plan, bucket, role->narrow_above);
    return add(c,
               (struct lw_memory_change){
                   .rank = t->rank[i],
                   .at = takes && computes ? t->start[i] : t->end[i],
                   .turn = !computes ? TURN_ALLOCATION : takes ? TURN_TAKEN : TURN_GIVEN_BACK,
                   .row = i,
                   .memory = memory,
                   .bytes = takes ? use.n : -use.n},
               err);
}

/* Gradients that come: with a step's first pass that makes them; they go with its optimizer. */
static enum lw_status add_gradients(struct changes *c, int64_t i, struct lw_err *err)
{
    const struct lw_timeline *t = c->t;
    bool ends = t->kind[i] == LW_OP_OPTIMIZER;
    int64_t *held = &c->held[t->rank[i]], bytes = ends ? -*held : c->makes[t->op[i]];

    if (bytes == 0 || (!ends && t->pass[i] > 0))
        return LW_OK;
    *held += bytes;
    return add(c,
               (struct lw_memory_change){.rank = t->rank[i],
                                         .at = ends ? t->end[i] : t->start[i],
                                         .turn = ends ? TURN_GIVEN_BACK : TURN_TAKEN,
                                         .row = i,
                                         .memory = LW_MEMORY_GRADIENTS,
                                         .bytes = bytes},
               err);
}

static enum lw_status find_gradients(struct changes *c, struct lw_err *err)
{
    if (!lw_gradients_come(c->plan))
        return LW_OK;
    LW_TAKE(&c->room, c->makes, c->plan->n_ops, err);
    LW_TAKE(&c->room, c->held, c->plan->n_ranks, err);
    return lw_gradient_bytes(c->plan, &c->room, c->makes, err);
}

/* --- messages --------------------------------------------------------------------------------- */

static bool of_context(const struct lw_plan *p, const struct lw_op *op, enum lw_op_kind kind)
{
    return op->kind == kind && op->comm >= 0 && op->bucket < 0 &&
           p->comms[op->comm].purpose == LW_COMM_CONTEXT;
}

static bool moves_any(const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == LW_OP_SEND || of_context(p, &p->ops[i], LW_OP_ALL_GATHER))
            return true;
    return false;
}

enum moment { AT_START, AT_END };

static enum lw_status note(struct changes *c, int32_t op, int32_t message, int sign,
                           enum moment moment, struct lw_err *err)
{
    if (lw_reserve(&c->turns, &c->turns_capacity, c->n_turns + 1, sizeof *c->turns))
        return lw_fail_nomem(err);
    c->turns[c->n_turns] = (struct turn){message, c->first[op], (int8_t)sign, moment == AT_END};
    c->first[op] = (int32_t)c->n_turns++;
    return LW_OK;
}

/* A message that is sent takes room from the end of the op that makes it to the end of the send.
 * One that is received takes room from the start of the receive to the end of the op that uses it;
 * what a forward keeps counts as its activations from its start. What a ring passes on is sent from
 * where it was received, and needed until the send and the step beside it have ended: when the op
 * that takes the next message begins. */
static enum lw_status note_sent(struct changes *c, const struct lw_program *g,
                                const struct lw_message_ends *f, int32_t i, struct lw_err *err)
{
    int32_t op = g->first_op + i, end = f->end_of[i];

    if (f->passed[i] >= 0)
        return LW_OK;
    LW_TRY(note(c, end >= 0 ? g->first_op + end : op, op, 1, end >= 0 ? AT_END : AT_START, err));
    return note(c, op, op, -1, AT_END, err);
}

static enum lw_status note_received(struct changes *c, const struct lw_program *g,
                                    const struct lw_message_ends *f, int32_t i, int32_t next_user,
                                    struct lw_err *err)
{
    const struct lw_plan *p = c->plan;
    int32_t op = g->first_op + i, user = g->first_op + f->end_of[i];

    LW_TRY(note(c, op, op, 1, AT_START, err));
    if (f->end_of[i] < 0)
        return note(c, op, op, -1, AT_END, err);
    if (next_user >= 0)
        return note(c, g->first_op + next_user, op, -1, AT_START, err);
    bool keeps = p->ops[user].work >= 0 && p->works[p->ops[user].work].keeps_bytes > 0;
    return note(c, user, op, -1, keeps ? AT_START : AT_END, err);
}

/* From the last message to the first: the user of the next message of a ring is known. */
static enum lw_status note_ends(struct changes *c, const struct lw_program *g,
                                const struct lw_message_ends *f, struct lw_err *err)
{
    int32_t user = -1, next_user = -1; /* of the receive after, in a ring; where it is passed on */

    for (int32_t i = g->n_ops - 1; i >= 0; i--) {
        enum lw_op_kind kind = (enum lw_op_kind)c->plan->ops[g->first_op + i].kind;
        if (kind == LW_OP_SEND) {
            if (f->hop[i] >= 0)
                next_user = f->passed[i] >= 0 ? user : -1;
            LW_TRY(note_sent(c, g, f, i, err));
        } else if (kind == LW_OP_RECV) {
            LW_TRY(note_received(c, g, f, i, f->hop[i] >= 0 ? next_user : -1, err));
            user = f->hop[i] >= 0 ? f->end_of[i] : user;
        }
    }
    return LW_OK;
}

/* All keys and values of a context group take room from the start of their gather to the end of the
 * op that attends, in a backward of the last op before their gradients are reduced. These are as
 * large, from the start of the backward's first op to the end of the reduce-scatter. */
static enum lw_status note_gathered(struct changes *c, const struct lw_program *g,
                                    struct lw_err *err)
{
    const struct lw_plan *p = c->plan;
    int32_t gathered = -1, last = -1;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        bool backward = op->kind == LW_OP_BACKWARD || op->kind == LW_OP_BACKWARD_INPUT;
        if (of_context(p, op, LW_OP_ALL_GATHER)) {
            gathered = i;
            last = -1;
            LW_TRY(note(c, i, i, 1, AT_START, err));
        } else if (gathered >= 0 && last >= 0 && of_context(p, op, LW_OP_REDUCE_SCATTER)) {
            LW_TRY(note(c, last, gathered, -1, AT_END, err));
            LW_TRY(note(c, i, gathered, -1, AT_END, err));
            gathered = -1;
        } else if (gathered >= 0 && lw_op_class(op->kind) == LW_CLASS_COMPUTE && op->module >= 0) {
            if (!backward)
                LW_TRY(note(c, i, gathered, -1, AT_END, err));
            else if (last < 0)
                LW_TRY(note(c, i, gathered, 1, AT_START, err));
            gathered = backward ? gathered : -1;
            last = i;
        }
    }
    return LW_OK;
}

static enum lw_status note_program(struct changes *c, const struct lw_program *g,
                                   struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_message_ends f;
    enum lw_status s = lw_message_ends_init(c->plan, g, &room, &f, err);

    if (s == LW_OK)
        s = note_ends(c, g, &f, err);
    if (s == LW_OK)
        s = note_gathered(c, g, err);
    lw_arena_free(&room);
    return s;
}

static enum lw_status note_messages(struct changes *c, struct lw_err *err)
{
    const struct lw_plan *p = c->plan;

    if (!moves_any(p))
        return LW_OK;
    LW_TAKE(&c->room, c->first, p->n_ops, err);
    memset(c->first, -1, (size_t)p->n_ops * sizeof *c->first);
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        LW_TRY(note_program(c, &p->programs[i], err));
    return LW_OK;
}

static enum lw_status add_messages(struct changes *c, int64_t row, struct lw_err *err)
{
    int32_t rank = c->t->rank[row];

    for (int32_t i = c->first[c->t->op[row]]; i >= 0; i = c->turns[i].next) {
        const struct turn *x = &c->turns[i];
        LW_TRY(add(c,
                   (struct lw_memory_change){
                       .rank = rank,
                       .at = x->at_end ? c->t->end[row] : c->t->start[row],
                       .turn = x->sign > 0 ? TURN_TAKEN : TURN_GIVEN_BACK,
                       .row = row,
                       .memory = LW_MEMORY_MESSAGES,
                       .bytes = x->sign *
                                lw_plan_operand(c->plan, &c->plan->ops[x->message], rank).bytes},
                   err));
    }
    return LW_OK;
}

LW_COMPARATOR(compare_changes, struct lw_memory_change, a->rank, b->rank, a->at, b->at, a->turn,
              b->turn, a->row, b->row)

/* By rank, those of one in the order in which they were found; then those of each. */
static enum lw_status sort_changes(struct changes *c, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_memory_change *by_rank = lw_alloc((size_t)c->n * sizeof *by_rank);
    int64_t *end = lw_arena_alloc(&room, c->plan->n_ranks + 1L, sizeof *end); /* of each rank */

    if (!by_rank || !end) {
        lw_free(by_rank);
        lw_arena_free(&room);
        return lw_fail_nomem(err);
    }
    for (int64_t i = 0; i < c->n; i++)
        end[c->v[i].rank + 1]++;
    for (int32_t r = 0; r < c->plan->n_ranks; r++)
        end[r + 1] += end[r];
    for (int64_t i = 0; i < c->n; i++)
        by_rank[end[c->v[i].rank]++] = c->v[i];
    for (int32_t r = 0; r < c->plan->n_ranks; r++)
        lw_sort_nearly(by_rank + (r > 0 ? end[r - 1] : 0), end[r] - (r > 0 ? end[r - 1] : 0),
                       compare_changes);
    lw_free(c->v);
    lw_arena_free(&room);
    c->v = by_rank;
    return LW_OK;
}

enum lw_status lw_memory_changes(const struct lw_timeline *t, const struct lw_plan *plan,
                                 struct lw_memory_change **out, int64_t *n, struct lw_err *err)
{
    struct changes c = {.t = t, .plan = plan};
    enum lw_status s = note_messages(&c, err);

    if (s == LW_OK)
        s = find_gradients(&c, err);
    for (int64_t i = 0; s == LW_OK && i < t->n; i++) {
        s = add_own(&c, i, err);
        if (s == LW_OK && c.makes)
            s = add_gradients(&c, i, err);
        if (s == LW_OK && c.first)
            s = add_messages(&c, i, err);
    }
    lw_arena_free(&c.room);
    lw_free(c.turns);
    if (s == LW_OK && c.n > 0)
        s = sort_changes(&c, err);
    if (s != LW_OK) {
        lw_free(c.v);
        return s;
    }
    *out = c.v;
    *n = c.n;
    return LW_OK;
}
