#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/check/plan_check.h"
#include "shared/check/vector_clock.h"

/* What has ended on a rank when one of its ops begins, by its own waits and by what messages imply:
 * rank 0, which has the gradient of micro-batch 0, knows that its activation was received. Of the
 * ranks of one role, in one pass of one variant. */
struct lw_message_order {
    const struct lw_plan *p;
    int32_t variant, role;
    bool known;                 /* false: lw_ended_before is always false */
    struct lw_matches matches;
    struct lw_op_clock *clocks; /* [n_roles] */
    int32_t *cursor;            /* [n_roles * n_streams] the stream's next op; -1 = none */
    bool *queued;               /* [n_roles] */
    bool *reached;              /* [n_roles] its messages reach the role, directly or not */
    struct lw_arena room;
};

/* The order of a variant. It is not known where sends and receives do not match, or where ranks of
 * one role see different orders: their messages meet different roles, or a rank hears, directly or
 * through others, of two ranks of one role. LW_ENOMEM. lw_message_order_free also after a
 * failure. */
enum lw_status lw_message_order_init(struct lw_message_order *o, const struct lw_plan *p,
                                     int32_t variant, struct lw_err *err);
/* Later queries are about ops of this role. */
void lw_message_order_set(struct lw_message_order *o, int32_t role);
void lw_message_order_free(struct lw_message_order *o);

/* Op a has ended when op b begins; of a receive b, when its data can come; of a send a, its data is
 * received. */
bool lw_ended_before(const struct lw_message_order *o, int32_t a, int32_t b);
