#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* What flows from stage to stage, and around a context group, in one program: which op makes what a
 * send carries, which takes what a receive brings. Op numbers count within the program; -1 = none.
 *
 * A message of LW_COMM_FORWARD or LW_COMM_BACKWARD that names a module m and a micro-batch carries
 * the activation after m, or the gradient of that activation. The last forward op of m makes it
 * and the first one of m + 1 takes it; of gradients, the last backward op of m + 1 and the first
 * one of m.
 *
 * Messages of LW_COMM_CONTEXT are of ring attention: group calls of a send and a receive, each
 * before the op of its step. The first message is made by the compute op before it. What a step
 * receives is taken by the next step's op, and sent on beside it; in a backward that op adds
 * gradients to it. Other messages have no end here. */
struct lw_message_ends {
    int32_t *end_of; /* [n_ops] of a message: the op that makes it (send) or takes it (receive) */
    int32_t *first;  /* [n_ops] of any op: the first message that it makes or takes */
    int32_t *next;   /* [n_ops] of a message: the next one of the same op */
    int32_t *source; /* [n_ops] of a send: the receive of this micro-batch on the way to it */
    int32_t *passed; /* [n_ops] of a send in a ring: the receive whose message it sends on */
    int32_t *hop;    /* [n_ops] of a message in a ring: its number there, from 0 */
    bool *returns;   /* [n_ops] of a message in a ring: it is of a backward's */
};

/* Lists come from the arena. */
enum lw_status lw_message_ends_init(const struct lw_plan *p, const struct lw_program *g,
                                    struct lw_arena *arena, struct lw_message_ends *f,
                                    struct lw_err *err);

/* The op is a send or a receive of gradients. */
bool lw_message_is_backward(const struct lw_plan *p, const struct lw_op *op);
