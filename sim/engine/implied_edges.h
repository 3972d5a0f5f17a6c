#pragma once

#include "sim/engine/op_graph.h"

/* Removes the edges of a program that its other edges imply: no unit starts earlier without them.
 * LW_ENOMEM: the program is as it was. */
enum lw_status sim_program_drop_implied(const struct lw_plan *plan, struct sim_program *p,
                                        struct lw_err *err);

/* A program to be merged, without such edges: unit_of and roots are not set. */
enum lw_status sim_program_make_lean(const struct lw_plan *plan, struct lw_program range,
                                     struct lw_arena *arena, struct sim_program *out,
                                     struct lw_err *err);
