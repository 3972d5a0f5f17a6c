/* Ends of messages. Found by what ops are about (module, micro-batch, direction), not by what they
 * wait for: so a wait that is missing, or one for the wrong op, cannot hide itself. One hash table
 * of (micro-batch, module, direction) holds the first and the last op that works there. These
 * count up in a program, so a key that is smaller than the table is its own place: a walk of the
 * program is one of the table, and not a miss of the cache an op. From a place that is taken on
 * each key has a step of its own (double hashing), so that runs of taken places are left at once.
 */
#include "shared/plan/message_ends.h"

#include <string.h>

#include "shared/plan/op.h"

struct entry {
    uint64_t key;                  /* 1 + (micro-batch, module, direction); 0: unused */
    int32_t first, last, received; /* 1 + op; 0 = none */
};

struct table {
    struct entry *entries; /* [size], a power of two, 1 << bits; at most half in use */
    int64_t size;
    int bits;
    int32_t end;     /* modules from it on have no number */
    int32_t *number; /* [n_modules + 1]: of a module of the plan, from 0, if a message carries the
                      * activation before it or after it; else -1 */
    int32_t n_numbers;
};

bool lw_message_is_backward(const struct lw_plan *p, const struct lw_op *op)
{
    return p->comms[op->comm].purpose == LW_COMM_BACKWARD;
}

/* An op as it is held, and its micro-batch. */
static inline bool is_message(const struct lw_plan *p, const struct lw_op *op, int32_t micro)
{
    return lw_op_class(op->kind) == LW_CLASS_P2P && op->comm >= 0 && op->module >= 0 &&
           micro >= 0 &&
           (p->comms[op->comm].purpose == LW_COMM_FORWARD || lw_message_is_backward(p, op));
}

/* The entry of a module with a number; one that is not there is added, or is an unused one. */
static struct entry *place(const struct table *t, bool backward, int32_t module, int32_t micro,
                           bool adds)
{
    uint64_t key = ((uint64_t)(uint32_t)micro * (uint64_t)t->n_numbers +
                    (uint64_t)t->number[module]) * 2 + backward;
    uint64_t mixed = (key + 1) * UINT64_C(0x9e3779b97f4a7c15);

    for (uint64_t at = key >> t->bits ? mixed >> 20 : key;; at += mixed >> 32 | 1) {
        struct entry *e = &t->entries[at & (uint64_t)(t->size - 1)];
        if (e->key == 0 && adds)
            e->key = key + 1;
        if (e->key == 0 || e->key == key + 1)
            return e;
    }
}

static void note(const struct lw_plan *p, struct table *t, const struct lw_op *op, int32_t micro,
                 int32_t i)
{
    bool backward = op->kind == LW_OP_BACKWARD || op->kind == LW_OP_BACKWARD_INPUT;

    if (op->kind == LW_OP_RECV && is_message(p, op, micro))
        place(t, lw_message_is_backward(p, op), op->module, micro, true)->received = i + 1;
    if (op->module < 0 || micro < 0 || (!backward && op->kind != LW_OP_FORWARD) ||
        t->number[op->module] < 0)
        return;
    struct entry *e = place(t, backward, op->module, micro, true);
    if (e->first == 0)
        e->first = i + 1;
    e->last = i + 1;
}

/* The nearest receive of the micro-batch from which the send's value comes. */
static int32_t source_of(const struct table *t, bool backward, const struct lw_op *op,
                         int32_t micro)
{
    int32_t step = backward ? 1 : -1;

    for (int32_t m = op->module + step; m >= 0 && m < t->end; m += step) {
        if (t->number[m] < 0)
            continue;
        const struct entry *e = place(t, backward, m, micro, false);
        if (e->received > 0)
            return e->received - 1;
    }
    return -1;
}

static void connect(const struct lw_plan *p, const struct table *t, struct lw_message_ends *f,
                    const struct lw_op *op, int32_t micro, int32_t i)
{
    bool backward = lw_message_is_backward(p, op), sends = op->kind == LW_OP_SEND;
    const struct entry *e =
        place(t, backward, op->module + (backward == sends), micro, false);
    int32_t end = (sends ? e->last : e->first) - 1;

    if (end < 0)
        return;
    f->end_of[i] = end;
    f->next[i] = f->first[end];
    f->first[end] = i;
    if (sends)
        f->source[i] = source_of(t, backward, op, micro);
}

/* --- rings ------------------------------------------------------------------------------------ */

static bool goes_round(const struct lw_plan *p, const struct lw_op *op)
{
    return lw_op_class(op->kind) == LW_CLASS_P2P && op->comm >= 0 &&
           p->comms[op->comm].purpose == LW_COMM_CONTEXT;
}

struct ring {
    int32_t last;             /* compute op */
    int32_t sent, received;   /* messages of the step that comes */
    int32_t before;           /* what the step before has received, and the next one takes */
};

static void give_end(struct lw_message_ends *f, int32_t message, int32_t end)
{
    f->end_of[message] = end;
    f->next[message] = f->first[end];
    f->first[end] = message;
}

/* A send begins a ring, or goes on from what the step before has received. */
static void send_round(struct lw_message_ends *f, struct ring *r, int32_t i)
{
    f->hop[i] = r->before < 0 ? 0 : f->hop[r->before] + 1;
    f->returns[i] = r->before >= 0 && f->returns[r->before];
    f->passed[i] = r->before;
    if (r->last >= 0 && (r->before < 0 || f->returns[i]))
        give_end(f, i, r->last);
    r->sent = i;
}

static void compute_step(struct lw_message_ends *f, struct ring *r, const struct lw_op *op,
                         int32_t i)
{
    bool backward = op->kind == LW_OP_BACKWARD || op->kind == LW_OP_BACKWARD_INPUT;

    if (r->before >= 0)
        give_end(f, r->before, i);
    if (r->sent >= 0)
        f->returns[r->sent] = backward;
    if (r->received >= 0)
        f->returns[r->received] = backward;
    r->before = r->received;
    r->sent = r->received = -1;
    r->last = i;
}

static void follow_rings(const struct lw_plan *p, const struct lw_program *g,
                         struct lw_message_ends *f)
{
    struct ring r = {-1, -1, -1, -1};

    for (int32_t i = 0; i < g->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, g->first_op + i);
        if (lw_op_class(op->kind) == LW_CLASS_COMPUTE && op->module >= 0)
            compute_step(f, &r, op, i);
        if (!goes_round(p, op))
            continue;
        if (op->kind == LW_OP_SEND) {
            send_round(f, &r, i);
        } else {
            f->hop[i] = r.sent < 0 ? 0 : f->hop[r.sent];
            r.received = i;
        }
    }
}

/* Number the modules at which messages begin or end. */
static enum lw_status number_modules(const struct lw_plan *p, const struct lw_program *g,
                                     struct table *t, struct lw_err *err)
{
    int32_t end = g->first_op + g->n_ops;

    LW_NEW(t->number, (int64_t)p->n_modules + 1, err);
    for (int32_t i = g->first_op; i < end; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        if (!is_message(p, op, lw_op_micro_batch(p, i)))
            continue;
        t->number[op->module] = t->number[op->module + 1] = 1;
        t->end = op->module + 2 > t->end ? op->module + 2 : t->end;
    }
    for (int32_t m = 0; m <= p->n_modules; m++)
        t->number[m] = t->number[m] ? t->n_numbers++ : -1;
    return LW_OK;
}

/* Room for what their ops work at. */
static enum lw_status make_table(const struct lw_plan *p, const struct lw_program *g,
                                 struct table *t, struct lw_err *err)
{
    int64_t n = 1;

    LW_TRY(number_modules(p, g, t, err));
    for (int32_t i = 0; i < g->n_ops; i++) {
        int32_t module = LW_OP_HELD(p, g->first_op + i)->module;
        n += module >= 0 && t->number[module] >= 0;
    }
    for (t->bits = 1; INT64_C(1) << t->bits < 2 * n;)
        t->bits++;
    t->size = INT64_C(1) << t->bits;
    LW_NEW(t->entries, t->size, err);
    return LW_OK;
}

static enum lw_status fill(const struct lw_plan *p, const struct lw_program *g,
                           struct lw_message_ends *f, struct lw_err *err)
{
    struct table t = {0};
    enum lw_status status = make_table(p, g, &t, err);

    for (int32_t i = 0; status == LW_OK && i < g->n_ops; i++)
        note(p, &t, LW_OP_HELD(p, g->first_op + i), lw_op_micro_batch(p, g->first_op + i), i);
    for (int32_t i = 0; status == LW_OK && i < g->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, g->first_op + i);
        int32_t micro = lw_op_micro_batch(p, g->first_op + i);
        if (is_message(p, op, micro))
            connect(p, &t, f, op, micro, i);
    }
    lw_free(t.entries);
    lw_free(t.number);
    return status;
}

/* Some messages are of the pipeline, and of rings. */
static void look_for_messages(const struct lw_plan *p, const struct lw_program *g, bool *any,
                              bool *rings)
{
    bool may_be = false;

    for (int32_t c = 0; c < p->n_comms; c++)
        may_be = may_be || p->comms[c].purpose == LW_COMM_CONTEXT;
    *any = *rings = false;
    for (int32_t i = 0; i < g->n_ops && (!*any || (may_be && !*rings)); i++) {
        const struct lw_op *op = LW_OP_HELD(p, g->first_op + i);
        *any = *any || is_message(p, op, lw_op_micro_batch(p, g->first_op + i));
        *rings = *rings || goes_round(p, op);
    }
}

enum lw_status lw_message_ends_init(const struct lw_plan *p, const struct lw_program *g,
                                    struct lw_arena *arena, struct lw_message_ends *f,
                                    struct lw_err *err)
{
    int32_t **lists[] = {&f->end_of, &f->first, &f->next, &f->source, &f->passed, &f->hop};
    bool any, rings;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        LW_TAKE_ROOM(arena, *lists[i], g->n_ops, err);
        if (g->n_ops > 0)
            memset(*lists[i], -1, (size_t)g->n_ops * sizeof **lists[i]);
    }
    LW_TAKE(arena, f->returns, g->n_ops, err);
    look_for_messages(p, g, &any, &rings);
    if (any)
        LW_TRY(fill(p, g, f, err));
    if (rings)
        follow_rings(p, g, f);
    return LW_OK;
}
