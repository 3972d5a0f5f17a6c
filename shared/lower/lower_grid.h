#pragma once

#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "shared/schedule/schedule.h"
#include "shared/numbers/units.h"

/* The grid of a schedule alone as a plan: a rank and a role per pipeline rank, a module per
 * stage, an op per action, a send and a receive per message. What takes how long is given;
 * messages carry no bytes. Every pair of ranks that exchange something has a communicator and a
 * stream of its own for each direction of each kind of message, so nothing waits but for what it
 * needs. */
struct lw_grid_durations {
    lw_ps f, i, w, b; /* forward, backward's two halves, a whole backward */
    lw_ps comm;       /* of every message */
    lw_ps pair;       /* a unit of a forward and a backward; 0 = the sum of both */
};

/* name: of the plan. schedule, chunks: recorded as its strategy (LW_SCHEDULE_CUSTOM for a user's
 * grid). The grid must pass lw_grid_check; the plan is checked. LW_EINVAL: a negative duration. */
enum lw_status lw_grid_plan(const struct lw_grid *g, const char *name, enum lw_schedule schedule,
                            const struct lw_grid_durations *d, struct lw_plan *plan,
                            struct lw_err *err);
