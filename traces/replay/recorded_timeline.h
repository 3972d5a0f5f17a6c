#ifndef LW_TRACES_REPLAY_RECORDED_TIMELINE_H
#define LW_TRACES_REPLAY_RECORDED_TIMELINE_H

#include "shared/base/err.h"
#include "shared/timeline/timeline.h"
#include "traces/replay/to_replay.h"

/* What the traces themselves show, in the rows of their replay's plan: the recorded start and end
 * of every device op and run of host ops, from the earliest of all on, on the clock common to the
 * ranks. (step, rank, op) joins it with `lapwing sim --replay` of the same traces. source[n] and r
 * as given to and made by traces_replay_build; p is its plan.
 *   t        sorted; freed by the caller
 *   summary  of these spans, with the recorded host ranges as lengths of the steps
 * LW_EFORMAT: no row of any rank. */
enum lw_status traces_recorded_timeline(const struct traces_replay *r, const struct lw_plan *p,
                                        const struct traces_source *source, int n,
                                        struct lw_timeline *t, struct lw_summary *summary,
                                        struct lw_err *err);

#endif
