#ifndef LW_SHARED_CHECK_VECTOR_CLOCK_H
#define LW_SHARED_CHECK_VECTOR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* What has surely ended when an op of a program begins: for every op and stream the last op of that
 * stream of which this holds. It follows from the op before it in its stream and in its
 * communicator and from its dependencies, in one pass (vector clocks: Fidge 1988, Mattern 1989).
 * O(ops * streams + dependencies). */
struct lw_op_clock {
    const struct lw_plan *p;
    struct lw_program program;
    int32_t *clock;               /* [longest program * n_streams] */
    int32_t *stream;              /* [longest program] of each op */
    int32_t *on_stream, *on_comm; /* scratch */
};

/* Room for the plan's longest program, of the arena. */
enum lw_status lw_op_clock_init(struct lw_op_clock *c, const struct lw_plan *p,
                                struct lw_arena *room, struct lw_err *err);
/* From here on the ops of this program are asked about. */
void lw_op_clock_set(struct lw_op_clock *c, struct lw_program program);

/* `before` has ended when `op` begins; both are of the program. */
static inline bool lw_op_after(const struct lw_op_clock *c, int32_t op, int32_t before)
{
    int64_t at = (int64_t)(op - c->program.first_op) * c->p->n_streams;

    return c->clock[at + c->stream[before - c->program.first_op]] >= before;
}

#endif
