#pragma once

#include "shared/base/err.h"
#include "shared/timeline/timeline.h"
#include "traces/replay/to_replay.h"

/* The steps of a replay, in the recording and in a prediction alike.
 *
 * E_k is the latest end of what steps 0 to k launched on the device; of a recording without device
 * ops, the latest end of their ranges on the host. E_(-1) is the start of the first step's range on
 * the host. Device ops that were launched before the first step end none. The period of step k is
 * E_k - E_(k-1). The first period of a recording with device ops begins on the host and ends on the
 * device, so it is measured only if no other figure exists. */
enum traces_replay_basis {
    TRACES_DEVICE_PERIOD, /* two steps or more */
    TRACES_DEVICE_SPAN,   /* one step */
    TRACES_HOST_PERIOD,   /* no device op */
};

enum traces_replay_basis traces_replay_basis(const struct traces_replay *r);
const char *traces_replay_basis_name(enum traces_replay_basis b); /* "device_period" */
/* The first step that is measured: 1 for device periods, else 0. */
int32_t traces_replay_first(const struct traces_replay *r);

/* Sort the rows of one simulated or recorded pass into steps: 0 is what ran before the first one.
 * Device ops go by who launched them. All else goes by when it ended, so that a step
 * ends with its last device op; rows after the last step's end are dropped. With
 * traces_replay_first(r) + 1 steps of warm-up, lw_timeline_summarize gives the periods above. */
enum lw_status traces_replay_divide(const struct traces_replay *r, struct lw_timeline *t,
                                    struct lw_err *err);
/* Periods of the rows of a pass, divided or not: periods[n_steps]; rank -1: of all. */
enum lw_status traces_replay_periods(const struct traces_replay *r, const struct lw_timeline *t,
                                     int32_t rank, lw_ps *periods, struct lw_err *err);
/* Of two undivided passes of one plan whose device ops take other times: each op of the host ends
 * at the same time in both, and in each measured step of both the device of every rank has a moment
 * without work. The device's delay then never grows, and the host alone sets the period. */
enum lw_status traces_replay_host_bound(const struct traces_replay *r, const struct lw_timeline *a,
                                        const struct lw_timeline *b, bool *out, struct lw_err *err);
/* Predicted range of a step on the host, of a pass that is not divided yet: of rank, or (-1) of the
 * rank where it is longest. */
lw_ps traces_replay_host(const struct traces_replay *r, const struct lw_timeline *t, int32_t step,
                         int32_t rank);
