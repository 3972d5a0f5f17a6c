#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/plan/plan.h"

/* A program as the engine walks it: units instead of ops. A unit is one op, or all sends and
 * receives of one group call, which start and complete together. The order of a stream and the
 * order of a communicator are edges like every dependency, so a unit may start when its count is 0.
 *
 * Collectives of a pooled communicator are the exception: several workers of the library take
 * them in issue order (sim/engine/comm_threads.c), so neither their stream nor their
 * communicator holds one back after another. Whatever else is on their stream keeps its place
 * before or after all of them. */
enum { SIM_NOT_POOLED = -2 };

/* Merged units of one shape (sim/engine/merge_ops.h): part i, of those of a unit, starts when those
 * have ended that have an edge to it. And how long one takes, and for whom that is: a rank, or
 * every rank of a speed. */
struct sim_merged {
    int32_t first_inner; /* edges of part i: inner[first_inner[this + i]] .. */
    bool known, by_rank;
    int32_t rank;
    int64_t speed;
    lw_ps time;
};

struct sim_program {
    int32_t first_op, n_ops, n_units, n_roots;
    int32_t *unit_of;    /* [n_ops], by op - first_op */
    int32_t *first_part; /* [n_units + 1]: parts of unit u are parts[first_part[u]] .. */
    int32_t *parts;      /* [n_ops]: ops of the plan; both NULL: unit u is op u of the program */
    int32_t *wait;       /* [n_units]: edges into the unit */
    int32_t *first_next; /* [n_units + 1] */
    int32_t *next;       /* units that wait for this one */
    int32_t *roots;      /* [n_roots]: units that wait for nothing, in program order */
    /* Of a program with merged units, where unit_of is NULL. All are NULL where none is merged. */
    int32_t *merged_of;           /* [n_units]: into merged; -1 = its parts start together */
    struct sim_merged *merged;    /* [n_merged]: shapes */
    int32_t *first_inner;         /* of the parts of each shape, and its end */
    int32_t *inner;               /* where edges lead, from a unit's first part on */
    int32_t n_merged, most_merged; /* most parts of a merged unit */
    /* NULL without pooled communicators: */
    int32_t *first_pooled; /* [n_comms]: first collective of a pooled communicator; -1 = none */
    int32_t *next_pooled;  /* [n_units]: the next one there; -1 = last; SIM_NOT_POOLED */
    int32_t n_pooled;
};

/* Parts of unit u are numbers sim_first_part(u) to below sim_first_part(u + 1). */
static inline int32_t sim_first_part(const struct sim_program *p, int32_t unit)
{
    return p->first_part ? p->first_part[unit] : unit;
}

/* The op of the plan that part i is. */
static inline int32_t sim_part(const struct sim_program *p, int32_t i)
{
    return p->parts ? p->parts[i] : p->first_op + i;
}

/* pooled[n_comms]: communicators, of collectives alone, that have several workers; NULL = none.
 * LW_EPLAN: a group call holds something else than sends and receives. Memory is the arena's. */
enum lw_status sim_program_make(const struct lw_plan *plan, struct lw_program range,
                                const bool *pooled, struct lw_arena *arena,
                                struct sim_program *out, struct lw_err *err);
