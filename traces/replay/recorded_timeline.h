#pragma once

#include "shared/base/err.h"
#include "shared/timeline/timeline.h"
#include "traces/replay/to_replay.h"

/* What the traces themselves show, in the rows of their replay's plan: the recorded start and end
 * of every device op, of every collective that the host ran, and of the marks of steps, from the
 * earliest of all on, on the clock common to the ranks. (step, rank, op) joins it with
 * `lapwing sim --replay` of the same traces, and steps mean the same in both
 * (traces/replay/replay_steps.h). p is the plan of r.
 *   t        sorted; freed by the caller
 *   summary  of these rows
 * LW_EFORMAT: no device op and no collective of any rank. */
enum lw_status traces_recorded_timeline(const struct traces_replay *r, const struct lw_plan *p,
                                        struct lw_timeline *t, struct lw_summary *summary,
                                        struct lw_err *err);
/* The rows alone, not divided into steps. */
enum lw_status traces_recorded_rows(const struct traces_replay *r, const struct lw_plan *p,
                                    struct lw_timeline *t, struct lw_err *err);
