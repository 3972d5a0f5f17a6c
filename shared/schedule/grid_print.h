#pragma once

#include <stdio.h>

#include "shared/base/err.h"
#include "shared/schedule/grid_time.h"
#include "shared/schedule/schedule.h"
#include "shared/schedule/schedule_torch_ir.h"

/* A grid for people: a line per rank, a column per unit of time ('.' is idle), then what each rank
 * does with its time. The durations are those that `t` was made with. */
enum lw_status lw_grid_print_text(const struct lw_grid *g, const struct lw_grid_times *t, FILE *f,
                                  struct lw_err *err);

struct lw_jsonout;
/* Members of an open object: sizes, times, and the actions of every rank. */
void lw_grid_print_json(const struct lw_grid *g, const struct lw_grid_times *t,
                        struct lw_jsonout *o);

/* Torch's schedule IR: a line per rank, no idle cells. */
void lw_lowered_print_csv(const struct lw_lowered *l, FILE *f);
