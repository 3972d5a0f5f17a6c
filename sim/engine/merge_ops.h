#pragma once

#include "sim/engine/op_graph.h"

/* What a unit is for those that merge it, as bits. The last two count where an op's channels hold
 * SMs of its rank. */
enum sim_merge_fact {
    SIM_ALONE = 1, /* how long it takes depends on its rank alone, and it is one op */
    SIM_HOLDS = 2, /* a collective: it slows compute beside it */
    SIM_ORDERS = 4 /* on the stream that all compute and copies of the program are on */
};

/* Ops that nothing joins and nothing leaves between the first and the last become one unit, and
 * those that have alike ops in the same order and edges are of one struct sim_merged.
 * docs/design/merging.md.
 *   facts  [n_units] of enum sim_merge_fact
 *   like   [n_units]: units with equal numbers take as long as each other on a rank
 *   contention  a block that holds SMs is made only where it orders, so that no compute outside
 *          runs beside it
 *   out    the program of the merged units; memory is the arena's */
enum lw_status sim_program_merge(const struct sim_program *p, const uint8_t *facts,
                                 const int32_t *like, bool contention, struct lw_arena *arena,
                                 struct sim_program *out, struct lw_err *err);
