/* Memory over time: what a rank holds from the start, and every change that its ops make, in the
 * order of time. Ranks are walked one after the other in the same room: the changes of all would
 * take more than their rows. At one time what an ended op gives back goes first, so that a backward
 * and the forward after it are never both counted: the peaks in flight are those of the schedule.
 * Rows of warm-up steps count too: what does not fit there does not fit. Messages between stages
 * take room while they wait to be sent or used, and all keys and values that a context group
 * gathers; and gradients where no buffer holds them (gradient_memory.c). */
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort_nearly.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/order.h"
#include "shared/plan/message_ends.h"
#include "shared/plan/op.h"
#include "shared/plan/uses.h"
#include "shared/strategy/strategy.h"
#include "shared/timeline/param_memory.h"

enum { TURN_GIVEN_BACK, TURN_ALLOCATION, TURN_TAKEN };

/* Rooms of buckets are those of gradients, or of weights that are gathered; others are of the
 * optimizer's state (--offload). */
static enum lw_memory memory_of(const struct lw_plan *plan, int32_t op, const struct lw_use *use)
{
    bool room = lw_op_class((enum lw_op_kind)lw_op_at(plan, op).kind) == LW_CLASS_MEMORY;

    if (use->buffer == LW_USE_WEIGHTS)
        return LW_MEMORY_GATHERED;
    if (room && lw_op_at(plan, op).bucket >= 0)
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

/* Some neighbouring rows [from, to) of one rank in one pass; the next ones of that rank, -1 = none;
 * no row of those starts before `after`. */
struct run {
    int64_t from, to, next;
    lw_ps after;
};

enum { RUN_ROWS = 4096 };

/* Changes of the rank at hand, and the turns of messages at each op of its role. */
struct lw_memory_walk {
    const struct lw_timeline *t;
    const struct lw_plan *plan;
    struct lw_memory_change *v;
    int64_t n, capacity;
    int32_t rank;
    struct run *runs;
    int64_t n_runs, runs_capacity;
    int64_t *first_run; /* [n_ranks] -1 = it has no rows */
    struct lw_arena room;
    int32_t *first;        /* turns at an op of the role, program after program; -1 = none. NULL:
                            * the plan has no messages */
    struct turn *turns;
    int64_t n_turns, turns_capacity;
    int32_t role, noting;  /* whose turns these are, -1 = none yet; whose are being noted */
    struct lw_gradients_made makes; /* none: gradients are there throughout */
    int64_t held;          /* of gradients made in the step so far */
};

static enum lw_status add(struct lw_memory_walk *c, struct lw_memory_change x, struct lw_err *err)
{
    LW_ROOM(c->v, c->capacity, c->n + 1, err);
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

/* Gradients of a bucket in their own type, of blocks. Those of the last module come when its loss
 * has freed more than they take, those of the first just before their reduction. */
static int64_t unreduced(const struct lw_plan *p, int32_t bucket)
{
    const struct lw_bucket *b = &p->buckets[bucket];
    int64_t bytes = 0;

    for (int32_t i = 0; i < b->n_slots; i++) {
        const struct lw_plan_param *x = &p->params[p->slots[b->first_slot + i]];
        bool in_block = x->module > 0 && x->module < p->n_modules - 1;
        bytes += in_block ? x->numel * lw_dtype_size(x->dtype) : 0;
    }
    return bytes;
}

/* What a reduction copies its bucket's gradients to, from its start to its end. */
static enum lw_status add_reduced_copy(struct lw_memory_walk *c, int64_t i, int32_t op,
                                       struct lw_err *err)
{
    const struct lw_role *role = &c->plan->roles[lw_plan_role_of(c->plan, c->rank)];
    int32_t bucket = lw_op_at(c->plan, op).bucket;

    if (!role->reduce_copies || bucket < 0 || lw_timeline_kind(c->t, i) != LW_OP_REDUCE_SCATTER)
        return LW_OK;
    const struct lw_times at = lw_timeline_times(c->t, i);
    struct lw_memory_change x = {.at = at.start, .turn = TURN_TAKEN, .row = i,
                                 .memory = LW_MEMORY_BUCKETS,
                                 .bytes = c->plan->buckets[bucket].bytes};
    LW_TRY(add(c, x, err));
    x.at = at.end;
    x.turn = TURN_GIVEN_BACK;
    x.bytes = -x.bytes;
    return add(c, x, err);
}

/* What the op takes or gives back of its own. */
static enum lw_status add_own(struct lw_memory_walk *c, int64_t i, int32_t op, struct lw_err *err)
{
    enum lw_op_class class_ = lw_op_class((enum lw_op_kind)lw_timeline_kind(c->t, i));
    struct lw_use use;

    if (!lw_op_memory(c->plan, op, c->rank, &use))
        return LW_OK;
    bool takes = use.access == LW_TAKE, computes = class_ != LW_CLASS_MEMORY;
    enum lw_memory memory = memory_of(c->plan, op, &use);
    const struct lw_role *role = &c->plan->roles[lw_plan_role_of(c->plan, c->rank)];
    const struct lw_times at = lw_timeline_times(c->t, i);
    int32_t bucket = lw_op_at(c->plan, op).bucket;
    if (role->reduce_elements > 0 && memory == LW_MEMORY_BUCKETS)
        use.n = room_beside_buffer(c->plan, bucket, role->reduce_elements);
    if (role->reduce_copies && memory == LW_MEMORY_BUCKETS)
        use.n = unreduced(c->plan, bucket);
    if (role->narrow_above > 0 && memory == LW_MEMORY_GATHERED)
        use.n -= saved_by_narrow(c->plan, bucket, role->narrow_above);
    return add(c,
               (struct lw_memory_change){.at = takes && computes ? at.start : at.end,
                                         .turn = !computes ? TURN_ALLOCATION
                                                 : takes   ? TURN_TAKEN
                                                           : TURN_GIVEN_BACK,
                                         .row = i,
                                         .memory = memory,
                                         .bytes = takes ? use.n : -use.n},
               err);
}

static enum lw_status add_made(struct lw_memory_walk *c, int64_t row, int64_t bytes, bool at_end,
                               struct lw_err *err)
{
    const struct lw_times at = lw_timeline_times(c->t, row);

    if (bytes == 0)
        return LW_OK;
    return add(c,
               (struct lw_memory_change){.at = at_end ? at.end : at.start,
                                         .turn = bytes < 0 ? TURN_GIVEN_BACK
                                                 : at_end  ? TURN_ALLOCATION
                                                           : TURN_TAKEN,
                                         .row = row,
                                         .memory = LW_MEMORY_GRADIENTS,
                                         .bytes = bytes},
               err);
}

/* Gradients that come with a step's first pass that makes them go with its optimizer; those that
 * are added to a sum, when they are. */
static enum lw_status add_gradients(struct lw_memory_walk *c, int64_t i, int32_t op, int32_t pass,
                                    struct lw_err *err)
{
    const struct lw_gradient_made *x = lw_gradients_made_by(&c->makes, op);
    int kind = pass > 0 ? LW_LATER_PASS : LW_FIRST_PASS;

    if (lw_timeline_kind(c->t, i) == LW_OP_OPTIMIZER) {
        int64_t held = c->held;
        c->held = 0;
        return add_made(c, i, -held, true, err);
    }
    if (!x)
        return LW_OK;
    int64_t bytes = pass == 0 ? x->bytes : 0;
    c->held += bytes;
    LW_TRY(add_made(c, i, bytes + x->beside[kind] + x->waits[kind], false, err));
    return add_made(c, i, -x->beside[kind] - x->waited[kind], true, err);
}

/* The backward of a block, which is neither the first module nor the last: gradients of its
 * activations, from its start to its end. */
static enum lw_status add_block_gradients(struct lw_memory_walk *c, int64_t i, int32_t op,
                                          struct lw_err *err)
{
    enum lw_op_kind kind = (enum lw_op_kind)lw_timeline_kind(c->t, i);
    int64_t bytes = c->plan->roles[lw_plan_role_of(c->plan, c->rank)].block_gradients;
    int32_t module = lw_op_at(c->plan, op).module;
    bool in_block = module > 0 && module < c->plan->n_modules - 1;

    if (bytes == 0 || !in_block || (kind != LW_OP_BACKWARD && kind != LW_OP_BACKWARD_INPUT))
        return LW_OK;
    const struct lw_times at = lw_timeline_times(c->t, i);
    struct lw_memory_change x = {.at = at.start, .turn = TURN_TAKEN, .row = i,
                                 .memory = LW_MEMORY_ACTIVATIONS, .bytes = bytes};
    LW_TRY(add(c, x, err));
    x.at = at.end;
    x.turn = TURN_GIVEN_BACK;
    x.bytes = -bytes;
    return add(c, x, err);
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
        if (lw_op_at(p, i).kind == LW_OP_SEND || of_context(p, LW_OP(p, i), LW_OP_ALL_GATHER))
            return true;
    return false;
}

enum moment { AT_START, AT_END };

/* Where the turns of an op begin; NULL: it is of no program of the role. */
static int32_t *turns_of(const struct lw_memory_walk *c, int32_t role, int32_t op)
{
    const struct lw_program *g = &c->plan->programs[role];
    int32_t *first = c->first;

    for (int32_t v = 0; v < c->plan->n_variants; v++, g += c->plan->n_roles) {
        if (op >= g->first_op && op < g->first_op + g->n_ops)
            return first + op - g->first_op;
        first += g->n_ops;
    }
    return NULL;
}

static enum lw_status note(struct lw_memory_walk *c, int32_t op, int32_t message, int sign,
                           enum moment moment, struct lw_err *err)
{
    int32_t *first = turns_of(c, c->noting, op);

    LW_ROOM(c->turns, c->turns_capacity, c->n_turns + 1, err);
    c->turns[c->n_turns] = (struct turn){message, *first, (int8_t)sign, moment == AT_END};
    *first = (int32_t)c->n_turns++;
    return LW_OK;
}

/* A message that is sent takes room from the end of the op that makes it to the end of the send.
 * One that is received takes room from the start of the receive to the end of the op that uses it;
 * what a forward keeps counts as its activations from its start. What a ring passes on is sent from
 * where it was received, and needed until the send and the step beside it have ended: when the op
 * that takes the next message begins. */
static enum lw_status note_sent(struct lw_memory_walk *c, const struct lw_program *g,
                                const struct lw_message_ends *f, int32_t i, struct lw_err *err)
{
    int32_t op = g->first_op + i, end = f->end_of[i];

    if (f->passed[i] >= 0)
        return LW_OK;
    LW_TRY(note(c, end >= 0 ? g->first_op + end : op, op, 1, end >= 0 ? AT_END : AT_START, err));
    return note(c, op, op, -1, AT_END, err);
}

static enum lw_status note_received(struct lw_memory_walk *c, const struct lw_program *g,
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
    int32_t work = lw_op_at(p, user).work;
    bool keeps = work >= 0 && lw_work_at(p, work)->keeps_bytes > 0;
    return note(c, user, op, -1, keeps ? AT_START : AT_END, err);
}

/* From the last message to the first: the user of the next message of a ring is known. */
static enum lw_status note_ends(struct lw_memory_walk *c, const struct lw_program *g,
                                const struct lw_message_ends *f, struct lw_err *err)
{
    int32_t user = -1, next_user = -1; /* of the receive after, in a ring; where it is passed on */

    for (int32_t i = g->n_ops - 1; i >= 0; i--) {
        enum lw_op_kind kind = (enum lw_op_kind)lw_op_at(c->plan, g->first_op + i).kind;
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
static enum lw_status note_gathered(struct lw_memory_walk *c, const struct lw_program *g,
                                    struct lw_err *err)
{
    const struct lw_plan *p = c->plan;
    int32_t gathered = -1, last = -1;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
        const struct lw_op *op = LW_OP(p, i);
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

static enum lw_status note_program(struct lw_memory_walk *c, const struct lw_program *g,
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

static int64_t n_ops_of(const struct lw_plan *p, int32_t role)
{
    int64_t n = 0;

    for (int32_t v = 0; v < p->n_variants; v++)
        n += p->programs[(int64_t)v * p->n_roles + role].n_ops;
    return n;
}

/* The turns of all programs of a role. */
static enum lw_status note_role(struct lw_memory_walk *c, int32_t role, struct lw_err *err)
{
    const struct lw_plan *p = c->plan;

    if (!c->first || c->role == role)
        return LW_OK;
    c->n_turns = 0;
    c->role = -1;
    c->noting = role;
    memset(c->first, -1, (size_t)n_ops_of(p, role) * sizeof *c->first);
    for (int32_t v = 0; v < p->n_variants; v++)
        LW_TRY(note_program(c, &p->programs[(int64_t)v * p->n_roles + role], err));
    c->role = role;
    return LW_OK;
}

static enum lw_status add_messages(struct lw_memory_walk *c, int64_t row, int32_t op,
                                   struct lw_err *err)
{
    const int32_t *first = turns_of(c, c->role, op);

    if (!first || *first < 0)
        return LW_OK;
    const struct lw_times at = lw_timeline_times(c->t, row);
    for (int32_t i = *first; i >= 0; i = c->turns[i].next) {
        const struct turn *x = &c->turns[i];
        LW_TRY(
            add(c,
                (struct lw_memory_change){
                    .at = x->at_end ? at.end : at.start,
                    .turn = x->sign > 0 ? TURN_TAKEN : TURN_GIVEN_BACK,
                    .row = row,
                    .memory = LW_MEMORY_MESSAGES,
                    .bytes = x->sign *
                             lw_plan_operand(c->plan, LW_OP(c->plan, x->message), c->rank).bytes},
                err));
    }
    return LW_OK;
}

LW_COMPARATOR(compare_changes, struct lw_memory_change, a->at, b->at, a->turn, b->turn, a->row,
              b->row)

/* --- one rank after the other ----------------------------------------------------------------- */

/* From the last run to the first: how early those after it start. */
static void find_after(struct lw_memory_walk *c, lw_ps *earliest)
{
    for (int32_t r = 0; r < c->plan->n_ranks; r++)
        earliest[r] = INT64_MAX;
    for (int64_t k = c->n_runs - 1; k >= 0; k--) {
        lw_ps *of_rank = &earliest[lw_timeline_run(c->t, c->runs[k].from).rank];
        c->runs[k].after = *of_rank;
        for (int64_t i = c->runs[k].from; i < c->runs[k].to; i++) {
            lw_ps start = lw_timeline_times(c->t, i).start;
            *of_rank = start < *of_rank ? start : *of_rank;
        }
    }
}

static enum lw_status find_runs(struct lw_memory_walk *c, struct lw_err *err)
{
    const struct lw_timeline *t = c->t;
    int64_t *last; /* run of each rank */
    struct lw_row_run of = {0};

    LW_TAKE(&c->room, c->first_run, c->plan->n_ranks, err);
    LW_TAKE(&c->room, last, c->plan->n_ranks, err);
    memset(c->first_run, -1, (size_t)c->plan->n_ranks * sizeof *c->first_run);
    for (int64_t i = 0, to; i < t->n; i = to) {
        if (i >= of.to)
            of = lw_timeline_run(t, i);
        to = of.to < i + RUN_ROWS ? of.to : i + RUN_ROWS;
        LW_ROOM(c->runs, c->runs_capacity, c->n_runs + 1, err);
        *(c->first_run[of.rank] < 0 ? &c->first_run[of.rank] : &c->runs[last[of.rank]].next) =
            c->n_runs;
        last[of.rank] = c->n_runs;
        c->runs[c->n_runs++] = (struct run){i, to, -1, 0};
    }
    _Static_assert(sizeof(lw_ps) == sizeof *last, "times in the room of numbers of runs");
    find_after(c, (lw_ps *)last);
    return LW_OK;
}

static enum lw_status begin(struct lw_memory_walk *c, struct lw_err *err)
{
    int64_t most = 0;

    LW_TRY(find_runs(c, err));
    for (int32_t r = 0; r < c->plan->n_roles; r++) {
        int64_t n = n_ops_of(c->plan, r);
        most = n > most ? n : most;
    }
    if (moves_any(c->plan))
        LW_TAKE(&c->room, c->first, most, err);
    return lw_gradients_change(c->plan)
               ? lw_gradients_made_init(c->plan, &c->room, &c->makes, err) : LW_OK;
}

enum lw_status lw_memory_walk_new(const struct lw_timeline *t, const struct lw_plan *plan,
                                  struct lw_memory_walk **out, struct lw_err *err)
{
    struct lw_memory_walk *c;

    LW_NEW(c, 1, err);
    *c = (struct lw_memory_walk){.t = t, .plan = plan, .role = -1};
    enum lw_status s = begin(c, err);
    if (s == LW_OK)
        *out = c;
    else
        lw_memory_walk_free(c);
    return s;
}

void lw_memory_walk_free(struct lw_memory_walk *c)
{
    if (!c)
        return;
    lw_arena_free(&c->room);
    lw_free(c->runs);
    lw_free(c->turns);
    lw_free(c->v);
    lw_free(c);
}

static enum lw_status add_run(struct lw_memory_walk *c, const struct run *run, struct lw_err *err)
{
    int32_t pass = lw_timeline_run(c->t, run->from).pass;

    for (int64_t i = run->from; i < run->to; i++) {
        int32_t op = lw_timeline_op(c->t, i);
        LW_TRY(add_own(c, i, op, err));
        LW_TRY(add_reduced_copy(c, i, op, err));
        LW_TRY(add_block_gradients(c, i, op, err));
        if (c->makes.n > 0)
            LW_TRY(add_gradients(c, i, op, pass, err));
        if (c->first)
            LW_TRY(add_messages(c, i, op, err));
    }
    return LW_OK;
}

/* Changes before a time are visited and go; nothing comes that is earlier. */
static enum lw_status visit_before(struct lw_memory_walk *c, lw_ps time, lw_memory_visit *visit,
                                   void *ctx, struct lw_err *err)
{
    int64_t n = 0;

    lw_sort_nearly(c->v, c->n, compare_changes);
    while (n < c->n && (c->v[n].at < time || time == INT64_MAX))
        n++;
    LW_TRY(visit(ctx, c->v, n, err));
    memmove(c->v, c->v + n, (size_t)(c->n - n) * sizeof *c->v);
    c->n -= n;
    return LW_OK;
}

enum lw_status lw_memory_walk_visit(struct lw_memory_walk *c, int32_t rank, lw_memory_visit *visit,
                                    void *ctx, struct lw_err *err)
{
    c->n = c->held = 0;
    c->rank = rank;
    LW_TRY(note_role(c, lw_plan_role_of(c->plan, rank), err));
    for (int64_t k = c->first_run[rank]; k >= 0; k = c->runs[k].next) {
        LW_TRY(add_run(c, &c->runs[k], err));
        if (c->n > 0)
            LW_TRY(visit_before(c, c->runs[k].after, visit, ctx, err));
    }
    return LW_OK;
}

enum lw_status lw_memory_walk_rank(struct lw_memory_walk *c, int32_t rank,
                                   const struct lw_memory_change **v, int64_t *n,
                                   struct lw_err *err)
{
    c->n = c->held = 0;
    c->rank = rank;
    LW_TRY(note_role(c, lw_plan_role_of(c->plan, rank), err));
    for (int64_t k = c->first_run[rank]; k >= 0; k = c->runs[k].next)
        LW_TRY(add_run(c, &c->runs[k], err));
    lw_sort_nearly(c->v, c->n, compare_changes);
    *v = c->v;
    *n = c->n;
    return LW_OK;
}
