#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "shared/schedule/schedule.h"

/* ColossalAI's pipeline schedules: forwards, backwards, and between them combined calls. A call
 * posts its sends and receives together and returns when all are done. */
enum lw_colossal_call {
    LW_CALL_SEND_PREV = 1, /* P: gradient of the input to the stage before */
    LW_CALL_RECV_PREV = 2, /* p: activation from the stage before */
    LW_CALL_RECV_NEXT = 4, /* n: gradient from the stage after */
    LW_CALL_SEND_NEXT = 8, /* N: activation to the stage after */
};

struct lw_colossal_event {
    enum lw_op_kind kind; /* FORWARD, BACKWARD; BARRIER for a call */
    int32_t chunk, micro_batch;
    unsigned call; /* what it moves, sum of lw_colossal_call; 0: a call that moves nothing */
};

struct lw_colossal_order {
    struct lw_arena arena; /* owns everything below */
    int32_t n_ranks;
    int32_t *first; /* [n_ranks + 1] */
    struct lw_colossal_event *events;
};
void lw_colossal_free(struct lw_colossal_order *o);

/* The events of every rank for LW_SCHEDULE_COLOSSAL_1F1B or _INTERLEAVED. In the interleaved one
 * the ranks form a ring: the stage after the last rank's chunk c is the first rank's chunk c + 1.
 * LW_EINVAL as lw_schedule_grid. */
enum lw_status lw_colossal_order(const struct lw_schedule_shape *s, bool forward_only,
                                 struct lw_colossal_order *out, struct lw_err *err);

/* "F3", "B3" (interleaved: "F1.3"), "CPpnN", "C-". */
void lw_colossal_token(const struct lw_colossal_event *e, bool interleaved, char buf[32]);
