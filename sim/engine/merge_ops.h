#pragma once

#include "sim/engine/op_graph.h"

/* Ops that nothing joins and nothing leaves between the first and the last become one unit.
 * docs/design/merging.md.
 *   alone  [n_units]: how long a unit takes depends on its rank alone, and it is one op
 *   out    the program of the merged units; memory is the arena's */
enum lw_status sim_program_merge(const struct sim_program *p, const bool *alone,
                                 struct lw_arena *arena, struct sim_program *out,
                                 struct lw_err *err);
