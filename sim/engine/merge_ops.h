#pragma once

#include "sim/engine/op_graph.h"

/* Where an op's channels hold SMs of its rank: what a unit is for compute. */
enum sim_contention {
    SIM_HOLDS = 1, /* a collective: it slows compute beside it */
    SIM_ORDERS = 2 /* on the stream that all compute and copies of the program are on */
};

/* Ops that nothing joins and nothing leaves between the first and the last become one unit.
 * docs/design/merging.md.
 *   alone  [n_units]: how long a unit takes depends on its rank alone, and it is one op
 *   contention [n_units], of enum sim_contention, or NULL where nothing holds SMs: a block that
 *          holds some is made only where it orders, so that no compute outside runs beside it
 *   out    the program of the merged units; memory is the arena's */
enum lw_status sim_program_merge(const struct sim_program *p, const bool *alone,
                                 const uint8_t *contention, struct lw_arena *arena,
                                 struct sim_program *out, struct lw_err *err);
