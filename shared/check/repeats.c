/* A plan with fewer repeats, which is proven in place of the plan: docs/design/plan.md (Repeats)
 * says why that is enough.
 *
 * Terms: a program is A, then n repeats of L ops, then C. A repeat is of `stride` micro-batches, of
 * all programs of a variant as many, and as many repeats are taken from each. Micro-batches of C
 * count as many less, and what it waits for stands nearer. At least `least` repeats stay:
 *
 *   reach   the most repeats that an edge spans: a dependency, a message, room in a host's queue
 *   chains  of events in order: what a host issues, what a stream runs
 *   least   2 chains reach: a path that enters no chain twice fits in, on both sides of what is
 *           taken; and L and the ops of A and C beside them, so that lists of messages that are
 *           equal in the shorter plan grow equally fast
 *
 * The micro-batches from `middle` on that are those of `least` repeats have all of their ops in the
 * repeats that stay, of every program: those before them have none in a C, those after them none in
 * an A. */
#include "shared/check/repeats.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check_run.h"
#include "shared/numbers/larger.h"
#include "shared/plan/op.h"

/* --- where a program repeats ------------------------------------------------------------------ */

/* What a repeat may hold: the proofs look at no more of such an op than its row, its micro-batch
 * and its edges. */
static bool may_repeat(const struct lw_plan *p, int32_t i)
{
    const struct lw_op *o = lw_op_shared(p, i);

    switch (o->kind) {
    case LW_OP_FORWARD:
    case LW_OP_BACKWARD:
    case LW_OP_BACKWARD_INPUT:
    case LW_OP_BACKWARD_WEIGHT:
    case LW_OP_SEND:
    case LW_OP_RECV:
    case LW_OP_HOST:
        return o->bucket < 0 && lw_op_micro_batch(p, i) >= 0;
    default:
        return false;
    }
}

/* Op i + length is op i with a later micro-batch. */
static inline bool comes_again(const struct lw_plan *p, int32_t i, int32_t length, int32_t stride)
{
    const struct lw_op_place *a = &p->op_places[i], *b = &p->op_places[i + length];
    const int32_t *da = p->deps + a->first_dep, *db = p->deps + b->first_dep;

    if (a->row != b->row || a->micro_batch + stride != b->micro_batch)
        return false;
    for (int32_t d = 0; d < p->op_rows[a->row].n_deps; d++)
        if (da[d] + length != db[d])
            return false;
    return true;
}

/* From the middle op to the one of its row that is `stride` micro-batches later; 0: none near. */
static int32_t length_at(const struct lw_plan *p, struct lw_program g, int32_t middle,
                         int32_t stride)
{
    const struct lw_op_place *at = &p->op_places[middle];
    int64_t end = lw_smaller(g.first_op + g.n_ops, middle + LW_REPEAT_MOST + 1L);

    for (int32_t i = middle + 1; i < end; i++)
        if (p->op_places[i].row == at->row &&
            p->op_places[i].micro_batch == at->micro_batch + stride)
            return i - middle;
    return 0;
}

struct lw_repeat lw_repeat_find(const struct lw_plan *p, struct lw_program g, int32_t stride)
{
    int32_t middle = g.first_op + g.n_ops / 2, first = middle, end = middle;
    int32_t length = g.n_ops > 0 ? length_at(p, g, middle, stride) : 0;

    if (length == 0)
        return (struct lw_repeat){0};
    while (end + length < g.first_op + g.n_ops && may_repeat(p, end) &&
           comes_again(p, end, length, stride))
        end++;
    while (first > g.first_op && may_repeat(p, first - 1) &&
           comes_again(p, first - 1, length, stride))
        first--;
    if (end - first < length)
        return (struct lw_repeat){0};
    return (struct lw_repeat){first - g.first_op, length, (end - first) / length + 1};
}

/* --- how many may be taken -------------------------------------------------------------------- */

/* Of the programs of a variant. */
struct span {
    int32_t stride;
    int64_t longest, ends; /* ops of the longest repeat, of the longest A and C */
    int64_t chains, reach;
    int64_t least_micro, most_micro;  /* in first repeats */
    int64_t top;                      /* micro-batches below it are in repeats of all programs, or
                                       * in an A */
    int64_t most_before, least_after; /* micro-batches of all A, of all C */
    int64_t *on_stream;               /* [n_streams] ops of a repeat */
};

/* Repeats that op i's dependencies reach back over, from the place `from` on. */
static int64_t reach_of(const struct lw_plan *p, int32_t i, int32_t from, int32_t length)
{
    const int32_t *deps = p->deps + lw_op_first_dep(p, i);
    int64_t reach = 1;

    for (int32_t d = 0; d < lw_op_shared(p, i)->n_deps; d++)
        reach = lw_larger(reach, ((int64_t)from - deps[d]) / length + 2);
    return reach;
}

/* A host waits for the end of an op that is a few earlier on its stream. */
static void look_at_streams(const struct lw_plan *p, int32_t first, struct lw_repeat r,
                            struct span *s)
{
    memset(s->on_stream, 0, (size_t)p->n_streams * sizeof *s->on_stream);
    for (int32_t i = first; i < first + r.length; i++)
        s->on_stream[lw_op_shared(p, i)->stream]++;
    s->chains += 1 + p->n_streams;
    for (int32_t k = 0; k < p->n_streams; k++)
        if (s->on_stream[k] > 0)
            s->reach = lw_larger(s->reach, LW_CHECK_COMM_QUEUE / s->on_stream[k] + 2);
}

static void look_at_repeat(const struct lw_plan *p, int32_t first, struct lw_repeat r,
                           struct span *s)
{
    int64_t least = INT32_MAX;

    for (int32_t i = first; i < first + r.length; i++) {
        int32_t micro = lw_op_micro_batch(p, i);
        least = lw_smaller(least, micro);
        s->most_micro = lw_larger(s->most_micro, micro);
        s->reach = lw_larger(s->reach, reach_of(p, i, i, r.length));
    }
    s->least_micro = lw_smaller(s->least_micro, least);
    s->top = lw_smaller(s->top, least + (int64_t)s->stride * r.n_times);
    s->longest = lw_larger(s->longest, r.length);
}

static void look_at_program(const struct lw_plan *p, struct lw_program g, struct lw_repeat r,
                            struct span *s)
{
    int32_t first = g.first_op + r.before, after = first + r.n_times * r.length;
    int32_t end = g.first_op + g.n_ops;

    for (int32_t i = g.first_op; i < first; i++)
        s->most_before = lw_larger(s->most_before, lw_op_micro_batch(p, i));
    for (int32_t i = after; i < end; i++) {
        int32_t micro = lw_op_micro_batch(p, i);
        s->least_after = micro < 0 ? s->least_after : lw_smaller(s->least_after, micro);
        s->reach = lw_larger(s->reach, reach_of(p, i, after, r.length));
    }
    look_at_streams(p, first, r, s);
    look_at_repeat(p, first, r, s);
    s->ends = lw_larger(s->ends, r.before + (end - after));
}

/* How many repeats can be taken from each of the programs of a variant. */
static int64_t n_taken(const struct lw_plan *p, const struct lw_program *programs,
                       const struct lw_repeat *repeats, int32_t stride, int64_t *on_stream)
{
    struct span s = {.stride = stride, .on_stream = on_stream, .least_micro = INT32_MAX,
                     .top = INT32_MAX, .most_before = -1, .least_after = INT32_MAX};

    for (int32_t r = 0; r < p->n_roles; r++)
        look_at_program(p, programs[r], repeats[r], &s);
    s.reach = lw_larger(s.reach, (s.most_micro - s.least_micro) / stride + 2);
    int64_t least = 2 * s.chains * s.reach + s.longest + s.ends + 2;
    int64_t middle = lw_larger(s.most_micro, s.most_before + 1);
    return lw_larger((lw_smaller(s.top, s.least_after) - middle) / stride - 1 - least, 0);
}

/* Most of each program repeats with the stride. */
static bool repeat_all(const struct lw_plan *p, const struct lw_program *programs, int32_t stride,
                       struct lw_repeat *repeats)
{
    for (int32_t r = 0; r < p->n_roles; r++) {
        repeats[r] = lw_repeat_find(p, programs[r], stride);
        if (2 * (int64_t)repeats[r].n_times * repeats[r].length <= programs[r].n_ops)
            return false;
    }
    return true;
}

/* The least stride with which all programs of a variant repeat; 0: none. */
static int32_t stride_of(const struct lw_plan *p, const struct lw_program *programs,
                         struct lw_repeat *repeats)
{
    enum { MOST = 64 };

    for (int32_t stride = 1; stride <= MOST; stride++)
        if (repeat_all(p, programs, stride, repeats))
            return stride;
    return 0;
}

/* --- the shorter plan ------------------------------------------------------------------------- */

struct shortening {
    const struct lw_plan *p;
    struct lw_plan *out;
    const struct lw_repeat *repeats; /* [n_programs] */
    const int64_t *taken;            /* [n_variants] repeats, each of so many micro-batches: */
    const int32_t *stride;
};

/* Op i of p, with dependencies that stand `back` earlier and less_micro fewer micro-batches before
 * it. */
static void add_op(struct shortening *k, int32_t i, int32_t back, int32_t less_micro)
{
    struct lw_plan *out = k->out;
    struct lw_op op = lw_op_at(k->p, i);
    const int32_t *deps = k->p->deps + op.first_dep;

    op.first_dep = out->n_deps;
    if (op.micro_batch >= 0)
        op.micro_batch -= less_micro;
    for (int32_t d = 0; d < op.n_deps; d++)
        out->deps[out->n_deps++] = deps[d] - back;
    out->ops[out->n_ops++] = op;
}

/* What C waits for lies in C, or in the nearest repeats. */
static void add_program(struct shortening *k, int64_t program)
{
    struct lw_program g = k->p->programs[program];
    struct lw_repeat r = k->repeats[program];
    int32_t variant = (int32_t)(program / k->p->n_roles), taken = (int32_t)k->taken[variant];
    int32_t shift = g.first_op - k->out->n_ops, out = taken * r.length, end = g.first_op + g.n_ops;
    int32_t cut = out > 0 ? g.first_op + r.before + r.n_times * r.length - out : end;

    k->out->programs[program] = (struct lw_program){k->out->n_ops, g.n_ops - out};
    for (int32_t i = g.first_op; i < cut; i++)
        add_op(k, i, shift, 0);
    for (int32_t i = cut + out; i < end; i++)
        add_op(k, i, shift + out, taken * k->stride[variant]);
}

/* Ops and dependencies that stay. */
static void count(const struct shortening *k, int64_t *n_ops, int64_t *n_deps)
{
    const struct lw_plan *p = k->p;

    *n_ops = *n_deps = 0;
    for (int32_t i = 0; i < p->n_ops; i++)
        *n_deps += lw_op_shared(p, i)->n_deps;
    for (int64_t g = 0; g < (int64_t)p->n_variants * p->n_roles; g++) {
        int32_t first = p->programs[g].first_op + k->repeats[g].before;
        int64_t n = k->taken[g / p->n_roles];
        *n_ops += p->programs[g].n_ops - n * k->repeats[g].length;
        for (int32_t i = first; n > 0 && i < first + k->repeats[g].length; i++)
            *n_deps -= n * lw_op_shared(p, i)->n_deps;
    }
}

static enum lw_status make(struct shortening *k, bool *shorter, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    struct lw_plan *out = k->out;
    int64_t n_ops, n_deps, n_programs = (int64_t)p->n_variants * p->n_roles;

    count(k, &n_ops, &n_deps);
    if (2 * n_ops > p->n_ops)
        return LW_OK;
    *out = *p;
    out->arena = (struct lw_arena){0};
    out->op_places = NULL;
    out->op_rows = NULL;
    out->n_ops = out->n_deps = out->n_op_rows = 0;
    LW_TAKE(&out->arena, out->ops, n_ops, err);
    LW_TAKE(&out->arena, out->deps, n_deps, err);
    LW_TAKE(&out->arena, out->programs, n_programs, err);
    for (int64_t g = 0; g < n_programs; g++)
        add_program(k, g);
    *shorter = true;
    return LW_OK;
}

/* Ops share rows that say all of them but the micro-batch and dependencies, and no message goes
 * around a ring. */
static bool is_simple(const struct lw_plan *p)
{
    if (p->ops || p->op_own || p->op_calls || p->n_ops == 0)
        return false;
    for (int32_t c = 0; c < p->n_comms; c++)
        if (p->comms[c].purpose == LW_COMM_CONTEXT)
            return false;
    return true;
}

static enum lw_status shorten(const struct lw_plan *p, struct lw_arena *room, struct lw_plan *out,
                              bool *shorter, struct lw_err *err)
{
    struct lw_repeat *repeats;
    int64_t *taken, *on_stream;
    int32_t *stride;

    LW_TAKE(room, repeats, (int64_t)p->n_variants * p->n_roles, err);
    LW_TAKE(room, taken, p->n_variants, err);
    LW_TAKE(room, stride, p->n_variants, err);
    LW_TAKE(room, on_stream, p->n_streams, err);
    for (int32_t v = 0; v < p->n_variants; v++) {
        const struct lw_program *programs = p->programs + (int64_t)v * p->n_roles;
        struct lw_repeat *of = repeats + (int64_t)v * p->n_roles;
        stride[v] = stride_of(p, programs, of);
        if (stride[v] > 0)
            taken[v] = n_taken(p, programs, of, stride[v], on_stream);
    }
    struct shortening k = {p, out, repeats, taken, stride};
    return make(&k, shorter, err);
}

enum lw_status lw_plan_shorten(const struct lw_plan *p, struct lw_plan *out, bool *shorter,
                               struct lw_err *err)
{
    struct lw_arena room = {0};

    *out = (struct lw_plan){0};
    *shorter = false;
    if (!is_simple(p))
        return LW_OK;
    enum lw_status s = shorten(p, &room, out, shorter, err);
    lw_arena_free(&room);
    return s;
}
