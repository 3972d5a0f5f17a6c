#pragma once

#include "sim/engine/op_graph.h"

/* Removes the edges of a program that its other edges imply: no unit starts earlier without them.
 * LW_ENOMEM: the program is as it was. */
enum lw_status sim_program_drop_implied(const struct lw_plan *plan, struct sim_program *p,
                                        struct lw_err *err);
