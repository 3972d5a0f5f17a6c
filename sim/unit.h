#ifndef LW_SIM_UNIT_H
#define LW_SIM_UNIT_H

#include <stdint.h>

#include "shared/arena.h"
#include "shared/err.h"
#include "shared/plan.h"

/* A program as the engine walks it: units instead of ops. A unit is one op, or all sends and
 * receives of one group call, which start and complete together. The order of a stream and the order
 * of a communicator are edges like every dependency, so a unit may start when its count is 0. */
struct sim_program {
    int32_t first_op, n_ops, n_units, n_roots;
    int32_t *unit_of;    /* [n_ops], by op - first_op */
    int32_t *first_part; /* [n_units + 1]: parts of unit u are parts[first_part[u]] .. */
    int32_t *parts;      /* [n_ops]: ops of the plan */
    int32_t *wait;       /* [n_units]: edges into the unit */
    int32_t *first_next; /* [n_units + 1] */
    int32_t *next;       /* units that wait for this one */
    int32_t *roots;      /* [n_roots]: units that wait for nothing, in program order */
};

/* LW_EPLAN: a group call holds something else than sends and receives. Memory is the arena's. */
enum lw_status sim_program_make(const struct lw_plan *plan, struct lw_program range,
                                struct lw_arena *arena, struct sim_program *out,
                                struct lw_err *err);

#endif
