/* Vector clocks over one program: shared/check/vector_clock.h. */
#include "shared/check/vector_clock.h"

#include <string.h>

#include "shared/plan/op.h"

enum lw_status lw_op_clock_init(struct lw_op_clock *c, const struct lw_plan *p,
                                struct lw_arena *room, struct lw_err *err)
{
    int64_t longest = 0;

    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        longest = p->programs[i].n_ops > longest ? p->programs[i].n_ops : longest;
    *c = (struct lw_op_clock){.p = p};
    c->clock = lw_arena_alloc(room, longest, (size_t)p->n_streams * sizeof *c->clock);
    c->on_stream = lw_arena_alloc(room, p->n_streams, sizeof *c->on_stream);
    c->on_comm = lw_arena_alloc(room, p->n_comms, sizeof *c->on_comm);
    c->stream = lw_arena_alloc(room, longest, sizeof *c->stream);
    return c->clock && c->stream && c->on_stream && c->on_comm ? LW_OK : lw_fail_nomem(err);
}

static void join(struct lw_op_clock *c, int32_t *into, int32_t op)
{
    int32_t n = c->p->n_streams;
    const int32_t *from = c->clock + (int64_t)(op - c->program.first_op) * n;

    for (int32_t s = 0; s < n; s++)
        into[s] = from[s] > into[s] ? from[s] : into[s];
    int32_t stream = c->stream[op - c->program.first_op];
    into[stream] = op > into[stream] ? op : into[stream];
}

/* What ended before ops [first, end) of one group call begin; of those on one stream each waits for
 * what any of them waits for. */
static void tick(struct lw_op_clock *c, int32_t first, int32_t end, int32_t op)
{
    const struct lw_op *ops = c->p->ops, *o = &ops[op];
    int32_t *clock = c->clock + (int64_t)(op - c->program.first_op) * c->p->n_streams;

    for (int32_t s = 0; s < c->p->n_streams; s++)
        clock[s] = -1;
    if (c->on_stream[o->stream] >= 0)
        join(c, clock, c->on_stream[o->stream]);
    if (o->comm >= 0 && c->on_comm[o->comm] >= 0)
        join(c, clock, c->on_comm[o->comm]);
    for (int32_t i = first; i < end; i++)
        for (int32_t d = 0; ops[i].stream == o->stream && d < ops[i].n_deps; d++)
            if (c->p->deps[ops[i].first_dep + d] < first)
                join(c, clock, c->p->deps[ops[i].first_dep + d]);
}

void lw_op_clock_set(struct lw_op_clock *c, struct lw_program program)
{
    const struct lw_op *ops = c->p->ops;
    int32_t last = program.first_op + program.n_ops;

    c->program = program;
    memset(c->on_stream, -1, (size_t)c->p->n_streams * sizeof *c->on_stream);
    memset(c->on_comm, -1, (size_t)c->p->n_comms * sizeof *c->on_comm);
    for (int32_t i = program.first_op, end; i < last; i = end) {
        for (end = i + 1; lw_op_class(ops[i].kind) == LW_CLASS_P2P && ops[i].call >= 0 &&
                          end < last && ops[end].call == ops[i].call;)
            end++;
        for (int32_t k = i; k < end; k++)
            tick(c, i, end, k);
        for (int32_t k = i; k < end; k++) {
            c->stream[k - program.first_op] = ops[k].stream;
            c->on_stream[ops[k].stream] = k;
            if (ops[k].comm >= 0)
                c->on_comm[ops[k].comm] = k;
        }
    }
}
