#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/timeline/timeline.h"

struct lw_plan;

/* Why a step takes as long as it does: its critical path, and every moment of the period of its
 * slowest rank charged to one cause. See docs/design/explain.md. */
enum lw_cause {
    LW_CAUSE_COMPUTE,  /* a compute op runs */
    LW_CAUSE_HOST_UPDATE, /* the host updates (--offload update), no compute */
    LW_CAUSE_COPY,     /* a copy runs, neither of them */
    LW_CAUSE_TRANSFER, /* data moves */
    /* data moves, and what is waited for is ready but comes after it on its stream or
       communicator */
    LW_CAUSE_QUEUE,
    LW_CAUSE_WAIT,     /* this rank is in, the last member is not */
    LW_CAUSE_HOST,     /* host work or a gap */
    LW_CAUSE_LAUNCH,   /* everything was there, the op was not handed to its stream yet */
    LW_CAUSE_DELAY,    /* handed over and ready, not started */
    LW_CAUSE_SKEW,     /* nothing of this rank's step had begun yet, or all of it had ended */
    LW_N_CAUSES,
};

const char *lw_cause_name(enum lw_cause c);  /* "queued after another bucket" */
const char *lw_cause_key(enum lw_cause c);   /* "queue" */

/* A piece of a path: [from, to) since the end of the step before, what rank did with op (-1 =
 * none). */
struct lw_path_part {
    int32_t rank, op;
    enum lw_cause cause;
    lw_ps from, to;
};

/* The cause is communication that neither compute nor copies hide: these charges add up to the
 * rank's exposed communication. */
bool lw_cause_is_exposed(enum lw_cause c);

struct lw_explanation {
    struct lw_arena arena;         /* owns the rest */
    int32_t step, rank;
    lw_ps length; /* of the step: from the latest end of the one before to its own */
    struct lw_measure measure;     /* of the rank, in its period */
    lw_ps charge[LW_N_CAUSES];     /* add up to the rank's period, and part by part to measure */
    lw_ps on_path[LW_N_CAUSES];    /* the critical path by cause: adds up to the step */
    struct lw_path_part *path;     /* over all ranks, in time, without gaps */
    int64_t n_path;
};

/* timeline sorted, its ops the plan's; step -1 = the one nearest the median from first_step on,
 * rank -1 = the one with the longest period. LW_EINVAL: no such step or rank, ops of another plan;
 * LW_EFORMAT: ops that wait for each other in a circle. */
enum lw_status lw_explain(const struct lw_timeline *t, const struct lw_plan *plan,
                          int32_t first_step, int32_t step, int32_t rank,
                          struct lw_explanation *out, struct lw_err *err);
void lw_explanation_free(struct lw_explanation *e);
