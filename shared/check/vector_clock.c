/* Vector clocks over one program: shared/check/vector_clock.h. Lists are indexed by the op's place
 * in the program; the ops that they hold are numbered as in the plan. */
#include "shared/check/vector_clock.h"

#include <string.h>

#include "shared/plan/op.h"

enum lw_status lw_op_clock_init(struct lw_op_clock *c, const struct lw_plan *p,
                                struct lw_arena *room, struct lw_err *err)
{
    int32_t **lists[] = {&c->stream, &c->lead, &c->next, &c->before, &c->before_on_comm};
    int32_t longest = lw_plan_longest_program(p);

    *c = (struct lw_op_clock){.p = p, .n_streams = p->n_streams};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!(*lists[i] = lw_arena_room(room, longest, sizeof **lists[i])))
            return lw_fail_nomem(err);
    c->clock = lw_arena_alloc(room, longest, (size_t)p->n_streams * sizeof *c->clock);
    c->ticked = lw_arena_alloc(room, longest, sizeof *c->ticked);
    c->on_stream = lw_arena_alloc(room, p->n_streams, sizeof *c->on_stream);
    c->on_comm = lw_arena_alloc(room, p->n_comms, sizeof *c->on_comm);
    return c->clock && c->ticked && c->on_stream && c->on_comm ? LW_OK : lw_fail_nomem(err);
}

/* As lw_clock_learn, without finding out whether anything was new. */
static inline void learn(int32_t *into, const int32_t *from, int32_t n_streams)
{
    for (int32_t s = 0; s < n_streams; s++)
        into[s] = from[s] > into[s] ? from[s] : into[s];
}

bool lw_clock_learn(int32_t *into, const int32_t *from, int32_t n_streams)
{
    bool news = false;

    for (int32_t s = 0; s < n_streams; s++) {
        news |= from[s] > into[s];
        into[s] = from[s] > into[s] ? from[s] : into[s];
    }
    return news;
}

/* Sends and receives of one group call. */
static bool same_call(const struct lw_plan *p, int32_t a, int32_t b)
{
    int32_t call = lw_op_call(p, a);

    return call >= 0 && call == lw_op_call(p, b) &&
           lw_op_class(lw_op_shared(p, a)->kind) == LW_CLASS_P2P &&
           lw_op_class(lw_op_shared(p, b)->kind) == LW_CLASS_P2P;
}

void lw_op_clock_begin(struct lw_op_clock *c, struct lw_program program)
{
    const struct lw_plan *p = c->p;
    int32_t first = program.first_op;

    c->program = program;
    c->grouped = false;
    memset(c->on_stream, -1, (size_t)c->n_streams * sizeof *c->on_stream);
    memset(c->on_comm, -1, (size_t)c->p->n_comms * sizeof *c->on_comm);
    memset(c->ticked, 0, (size_t)program.n_ops * sizeof *c->ticked);
    for (int32_t i = 0; i < program.n_ops; i++) {
        const struct lw_op *o = lw_op_shared(p, first + i);
        int32_t *on_stream = &c->on_stream[o->stream], at = *on_stream;
        bool joins = at >= 0 && same_call(p, at, first + i);
        c->stream[i] = o->stream;
        c->grouped |= joins;
        c->lead[i] = joins ? c->lead[at - first] : first + i;
        c->before[i] = at;
        c->next[i] = -1;
        if (at >= 0)
            c->next[at - first] = first + i;
        *on_stream = first + i;
        if (o->comm < 0)
            continue;
        int32_t *on_comm = &c->on_comm[o->comm];
        c->before_on_comm[i] = *on_comm >= 0 && same_call(p, *on_comm, first + i)
                                   ? c->before_on_comm[*on_comm - first]
                                   : *on_comm;
        *on_comm = first + i;
    }
}

/* `op` and those that end with it have ended. */
static void join(const struct lw_op_clock *c, int32_t *into, int32_t op)
{
    int32_t first = c->program.first_op, last = op;

    if (op < 0 || !c->ticked[op - first])
        return;
    learn(into, lw_op_clock_row(c, op), c->n_streams);
    for (int32_t i = c->lead[op - first]; (c->grouped || c->brought) && i >= 0;
         i = lw_op_clock_next(c, i)) {
        if (c->brought)
            learn(into, c->brought + (int64_t)(i - first) * c->n_streams, c->n_streams);
        last = i;
    }
    int32_t *own = &into[c->stream[op - first]];
    if (!c->foreign && last > *own)
        *own = last;
}

void lw_op_clock_tick(struct lw_op_clock *c, int32_t lead)
{
    int32_t first = c->program.first_op, *row = lw_op_clock_row(c, lead);

    for (int32_t s = 0; s < c->n_streams; s++)
        row[s] = -1;
    join(c, row, c->before[lead - first]);
    for (int32_t i = lead; i >= 0; i = lw_op_clock_next(c, i)) {
        const struct lw_op *o = lw_op_shared(c->p, i);
        const int32_t *deps = c->p->deps + lw_op_first_dep(c->p, i);
        if (o->comm >= 0)
            join(c, row, c->before_on_comm[i - first]);
        for (int32_t d = 0; d < o->n_deps; d++)
            join(c, row, deps[d]);
    }
    c->ticked[lead - first] = true;
    for (int32_t i = lead; c->grouped && i >= 0; i = lw_op_clock_next(c, i)) {
        if (i != lead)
            memcpy(lw_op_clock_row(c, i), row, (size_t)c->n_streams * sizeof *row);
        c->ticked[i - first] = true;
    }
}

/* `op` has ended, which begins and ends alone. What its stream has got to holds its clock. */
static inline void learn_alone(const struct lw_op_clock *c, int32_t *into, int32_t op)
{
    int32_t first = c->program.first_op;

    if (op < 0 || into[c->stream[op - first]] >= op)
        return;
    learn(into, lw_op_clock_row(c, op), c->n_streams);
    into[c->stream[op - first]] = op;
}

/* lw_op_clock_tick for op after op, where each begins alone: from the clock of the op before. */
static void tick_alone(struct lw_op_clock *c, int32_t op)
{
    const struct lw_op *o = LW_OP_HELD(c->p, op);
    const int32_t *deps = c->p->deps + lw_op_first_dep(c->p, op);
    int32_t first = c->program.first_op, before = c->before[op - first];
    int32_t *row = lw_op_clock_row(c, op);

    if (before < 0)
        memset(row, -1, (size_t)c->n_streams * sizeof *row);
    else
        memcpy(row, lw_op_clock_row(c, before), (size_t)c->n_streams * sizeof *row);
    if (before >= 0)
        row[c->stream[before - first]] = before;
    if (o->comm >= 0)
        learn_alone(c, row, c->before_on_comm[op - first]);
    for (int32_t d = 0; d < o->n_deps; d++)
        learn_alone(c, row, deps[d]);
    c->ticked[op - first] = true;
}

void lw_op_clock_set(struct lw_op_clock *c, struct lw_program program)
{
    lw_op_clock_begin(c, program);
    bool alone = !c->grouped && !c->brought && !c->foreign;
    for (int32_t i = 0; alone && i < program.n_ops; i++)
        tick_alone(c, program.first_op + i);
    if (alone)
        return;
    for (int32_t i = 0; i < program.n_ops; i++)
        if (c->lead[i] == program.first_op + i)
            lw_op_clock_tick(c, program.first_op + i);
}
