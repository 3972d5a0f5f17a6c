#pragma once

#include <stdint.h>

#include "analysis/tune_bound/tune_bound.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/schedule/schedule.h"

/* A tighter bound of a step than lw_tune_step_bound, for some hundred times its cost: the longest
 * chain of forwards, backwards and messages in the order of the schedule. See docs/design/tune.md.
 */
struct lw_tune_link { /* an action of the grid */
    int32_t before;   /* the one before it on its rank; -1 = none */
    int32_t from;     /* the one whose message it uses; -1 = none */
    int32_t rank, part;
    enum lw_op_kind kind;
    bool last;        /* the first backward of its rank that is the last one of its part */
};

struct lw_tune_chain {
    int64_t n;
    const struct lw_tune_link *links; /* [n], each after those that it refers to; NULL = the order
                                       * of the schedule gives no chain */
};

/* Of a schedule; in the arena. */
enum lw_status lw_tune_chain_make(const struct lw_grid *g, struct lw_arena *a,
                                  struct lw_tune_chain *out, struct lw_err *err);

/* message: [n_parts] from the part to the next one and back; 0 on one rank. */
enum lw_status lw_tune_chain_bound(const struct lw_tune_chain *c, const struct lw_tune_parts *p,
                                   const lw_ps *message, lw_ps *bound, struct lw_err *err);
