#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* What has surely ended when an op of a program begins: for every op and stream the last op of that
 * stream of which this holds (vector clocks: Fidge 1988, Mattern 1989). It follows from the op
 * before it in its stream and in its communicator and from its dependencies. Sends and receives of
 * one group call that follow each other on a stream begin together and end together.
 *
 * What messages imply is added by shared/check/message_order.h. */
struct lw_op_clock {
    const struct lw_plan *p;
    struct lw_program program;
    int32_t n_streams;
    int32_t *clock;         /* [ops of the longest program * n_streams] */
    int32_t *stream;        /* [ops of the longest program] of each op, and so are the next five */
    int32_t *lead;          /* the first op of those that it begins with; itself when alone */
    int32_t *next;          /* the next op on its stream; -1 = none */
    int32_t *before;        /* of a lead: the op before it on its stream; -1 = none */
    int32_t *before_on_comm; /* the op of its communicator before its call; -1 = none */
    bool grouped;           /* some ops begin with another one */
    bool *ticked;           /* its clock is computed */
    int32_t *on_stream, *on_comm; /* scratch */
    int32_t *brought;       /* [ops * n_streams] what the message of a receive implies; NULL = no op
                             * is a receive that implies anything */
    bool foreign;           /* clocks are of another program's streams: own ops do not count */
};

/* Room for the plan's longest program, of the arena. */
enum lw_status lw_op_clock_init(struct lw_op_clock *c, const struct lw_plan *p,
                                struct lw_arena *room, struct lw_err *err);
/* Later queries are about ops of this program. O(ops * streams + dependencies). */
void lw_op_clock_set(struct lw_op_clock *c, struct lw_program program);

/* lw_op_clock_set in parts: first without any clock, then one for the ops that begin with `lead`.
 * What they wait for is ticked before; else it counts as not known. */
void lw_op_clock_begin(struct lw_op_clock *c, struct lw_program program);
void lw_op_clock_tick(struct lw_op_clock *c, int32_t lead);

/* Sets `into` to the later of both in each stream; false: it stays as it is. */
bool lw_clock_learn(int32_t *into, const int32_t *from, int32_t n_streams);

static inline int32_t *lw_op_clock_row(const struct lw_op_clock *c, int32_t op)
{
    return c->clock + (int64_t)(op - c->program.first_op) * c->n_streams;
}

/* The next op that begins and ends with this one; -1 = none. */
static inline int32_t lw_op_clock_next(const struct lw_op_clock *c, int32_t op)
{
    int32_t first = c->program.first_op, next = c->next[op - first];

    return next >= 0 && c->lead[next - first] == c->lead[op - first] ? next : -1;
}

/* `before` has ended when `op` begins; both are of the program. */
static inline bool lw_op_after(const struct lw_op_clock *c, int32_t op, int32_t before)
{
    return lw_op_clock_row(c, op)[c->stream[before - c->program.first_op]] >= before;
}
