/* Every op waits for what it uses. Two uses of one buffer, of which one changes it, are ordered by
 * the vector clock of their program (shared/check/vector_clock.h), whichever buffer and whoever
 * uses it: what an op uses comes from lw_op_uses. Ops that add to a gradient need no order among
 * each other.
 *
 * So the order of a program's list is the order in which conflicting uses happen, and the other
 * checks follow the list without clocks. Passes do not overlap: each program is judged alone. Not
 * modelled: order that comes from other ranks.
 *
 * Of each buffer the last op of each access is kept: a use that follows the one before it of its
 * access replaces it, and a write replaces all. Where it does not follow, both are kept, the
 * earlier in a chain. O(uses * streams). */
#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/check/vector_clock.h"
#include "shared/plan/op.h"
#include "shared/plan/uses.h"

enum { READS, ADDS, WRITES, N_ACCESSES };

struct last {
    int32_t by[N_ACCESSES]; /* op; -1 = none */
};

struct unordered { /* an earlier op of an access, which the last one does not follow */
    int32_t op, access, next;
};

struct lw_hazards {
    const struct lw_plan *p;
    const struct lw_uses *uses;
    struct lw_op_clock clock;
    struct last *last; /* [buffers] */
    struct lw_arena room, chain_room;
    int32_t *chains; /* [buffers] into unordered, -1 = none; NULL: the program has no such op */
    struct unordered *unordered;
    int64_t n_unordered, capacity;
    bool talks;        /* the plan's ops may be messages */
    int64_t n_buffers; /* of the program */
    int32_t op;           /* current */
    const int32_t *clock_of_op, *stream; /* of the clock: the op's row; of each op of the program */
};

/* Buffers of a program of so many ops: each may be a message, and the last is the optimizer's
 * state. */
static int64_t buffers_of(const struct lw_plan *p, int32_t n_ops)
{
    return (int64_t)p->n_params + p->n_buckets + n_ops + 1;
}

/* Some ops are messages. */
static bool talks(const struct lw_plan *p)
{
    int32_t n;
    const struct lw_op *ops = lw_plan_held_ops(p, &n);

    for (int32_t i = 0; i < n; i++)
        if (lw_op_class((enum lw_op_kind)ops[i].kind) == LW_CLASS_P2P)
            return true;
    return false;
}

static int64_t number_of(const struct lw_hazards *k, const struct lw_use *x)
{
    const struct lw_plan *p = k->p;

    switch (x->buffer) {
    case LW_USE_GRADIENT:
        return x->index;
    case LW_USE_WEIGHTS:
    case LW_USE_BUCKET:
        return (int64_t)p->n_params + x->index;
    case LW_USE_MESSAGE:
        return (int64_t)p->n_params + p->n_buckets + x->index - k->uses->program.first_op;
    default:
        return k->n_buffers - 1;
    }
}

static const char *buffer_text(const struct lw_plan *p, const struct lw_use *x, char *text)
{
    switch (x->buffer) {
    case LW_USE_GRADIENT:
        snprintf(text, LW_OP_TEXT, "the gradient of parameter %d '%.80s'", x->index,
                 p->params[x->index].name);
        break;
    case LW_USE_WEIGHTS:
        snprintf(text, LW_OP_TEXT, "the weights of bucket %d", x->index);
        break;
    case LW_USE_BUCKET:
        snprintf(text, LW_OP_TEXT, "bucket %d", x->index);
        break;
    case LW_USE_MESSAGE:
        snprintf(text, LW_OP_TEXT, "the message of op %d", x->index);
        break;
    default:
        snprintf(text, LW_OP_TEXT, "the optimizer's state");
    }
    return text;
}

static enum lw_status not_awaited(const struct lw_hazards *k, const struct lw_use *x,
                                  int32_t before, int access, struct lw_err *err)
{
    static const char *const does[N_ACCESSES] = {"reads", "adds to", "writes"};
    char other[LW_OP_TEXT], buffer[LW_OP_TEXT];

    return lw_plan_op_fail(k->p, k->op, err, " does not wait for %s, which %s %s",
                           lw_plan_op_text(k->p, before, other), does[access],
                           buffer_text(k->p, x, buffer));
}

static inline bool follows(const struct lw_hazards *k, int32_t before)
{
    return before < 0 || before == k->op ||
           k->clock_of_op[k->stream[before - k->uses->program.first_op]] >= before;
}

static enum lw_status keep_unordered(struct lw_hazards *k, int64_t buffer, int32_t op, int access,
                                     struct lw_err *err)
{
    if (!k->chains) {
        LW_TAKE(&k->chain_room, k->chains, k->n_buffers, err);
        memset(k->chains, -1, (size_t)k->n_buffers * sizeof *k->chains);
    }
    if (lw_reserve(&k->unordered, &k->capacity, k->n_unordered + 1, sizeof *k->unordered))
        return lw_fail_nomem(err);
    k->unordered[k->n_unordered] = (struct unordered){op, access, k->chains[buffer]};
    k->chains[buffer] = (int32_t)k->n_unordered++;
    return LW_OK;
}

static enum lw_status meet(void *ctx, const struct lw_use *x, struct lw_err *err)
{
    struct lw_hazards *k = ctx;
    int access = x->access & (LW_WRITE | LW_FREE) ? WRITES : x->access & LW_ADD ? ADDS : READS;

    if (x->access == LW_TAKE || x->buffer == LW_USE_ACTIVATION)
        return LW_OK;
    int64_t buffer = number_of(k, x);
    struct last *last = &k->last[buffer];
    if (access != READS && !follows(k, last->by[READS]))
        return not_awaited(k, x, last->by[READS], READS, err);
    if (access != ADDS && !follows(k, last->by[ADDS]))
        return not_awaited(k, x, last->by[ADDS], ADDS, err);
    if (!follows(k, last->by[WRITES]))
        return not_awaited(k, x, last->by[WRITES], WRITES, err);
    for (int32_t i = k->chains ? k->chains[buffer] : -1; i >= 0; i = k->unordered[i].next)
        if (k->unordered[i].access != access && !follows(k, k->unordered[i].op))
            return not_awaited(k, x, k->unordered[i].op, k->unordered[i].access, err);
    if (access == WRITES) {
        last->by[READS] = last->by[ADDS] = -1;
        if (k->chains)
            k->chains[buffer] = -1;
    } else if (!follows(k, last->by[access])) {
        LW_TRY(keep_unordered(k, buffer, last->by[access], access, err));
    }
    last->by[access] = k->op;
    return LW_OK;
}

/* What is passed on has come before; what a step has received is taken. */
static enum lw_status check_rings(const struct lw_hazards *k, struct lw_err *err)
{
    const struct lw_message_ends *m = &k->uses->messages;
    int32_t first = k->uses->program.first_op;
    char other[LW_OP_TEXT];

    for (int32_t i = 0; k->uses->talks && i < k->uses->program.n_ops; i++) {
        if (m->passed[i] >= 0 && !lw_op_after(&k->clock, first + i, first + m->passed[i]))
            return lw_plan_op_fail(k->p, first + i, err, " does not wait for %s, whose message it "
                                   "passes on",
                                   lw_plan_op_text(k->p, first + m->passed[i], other));
        if (m->hop[i] >= 0 && m->passed[i] < 0 && m->end_of[i] < 0)
            return lw_plan_op_fail(k->p, first + i, err, ": no op %s its keys and values",
                                   lw_op_at(k->p, first + i).kind == LW_OP_SEND ? "makes"
                                                                                : "takes");
    }
    return LW_OK;
}

/* A message is read after it was written. */
static enum lw_status check_ends(struct lw_hazards *k, struct lw_err *err)
{
    const struct lw_message_ends *m = &k->uses->messages;
    int32_t first = k->uses->program.first_op;
    char other[LW_OP_TEXT];

    LW_TRY(check_rings(k, err));
    for (int32_t i = 0; k->uses->talks && i < k->uses->program.n_ops; i++) {
        bool sends = lw_op_at(k->p, first + i).kind == LW_OP_SEND;
        int32_t maker = sends ? m->end_of[i] : i, taker = sends ? i : m->end_of[i];
        if (m->end_of[i] >= 0 && !lw_op_after(&k->clock, first + taker, first + maker))
            return lw_plan_op_fail(k->p, first + taker, err, " does not wait for %s, which writes "
                                   "its message", lw_plan_op_text(k->p, first + maker, other));
    }
    return LW_OK;
}

enum lw_status lw_check_hazards_init(struct lw_hazards **out, const struct lw_uses *uses,
                                     struct lw_err *err)
{
    struct lw_hazards *k;

    LW_NEW(k, 1, err);
    k->p = uses->p;
    k->uses = uses;
    enum lw_status s = lw_op_clock_init(&k->clock, k->p, &k->room, err);
    k->talks = talks(k->p);
    k->last = lw_arena_room(&k->room, /* a program begins with its buffers */
                            buffers_of(k->p, k->talks ? lw_plan_longest_program(k->p) : 0),
                            sizeof *k->last);
    if (s == LW_OK && !k->last)
        s = lw_fail_nomem(err);
    if (s == LW_OK)
        *out = k;
    else
        lw_check_hazards_free(k);
    return s;
}

void lw_check_hazards_free(struct lw_hazards *k)
{
    if (!k)
        return;
    lw_free(k->unordered);
    lw_arena_free(&k->chain_room);
    lw_arena_free(&k->room);
    lw_free(k);
}

enum lw_status lw_check_hazards(struct lw_hazards *k, struct lw_err *err)
{
    struct lw_program g = k->uses->program;

    lw_op_clock_set(&k->clock, g);
    k->n_buffers = buffers_of(k->p, k->talks ? g.n_ops : 0);
    memset(k->last, -1, (size_t)k->n_buffers * sizeof *k->last);
    lw_arena_free(&k->chain_room);
    k->chains = NULL;
    k->n_unordered = 0;
    LW_TRY(check_ends(k, err));
    k->stream = k->clock.stream;
    for (k->op = g.first_op; k->op < g.first_op + g.n_ops; k->op++) {
        k->clock_of_op = lw_op_clock_row(&k->clock, k->op);
        LW_TRY(lw_op_uses(k->uses, k->op, -1, meet, k, err));
    }
    return LW_OK;
}
