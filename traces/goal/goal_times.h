#pragma once

#include "traces/goal/goal.h"

/* When the ops of a schedule start under LogGOPS: what fixes the order on each processor. */

struct goal_message {
    int64_t send, recv; /* ops, over all ranks; recv -1 = none yet */
    int32_t from, to;
};

enum goal_what {
    GOAL_DID_CALC,
    GOAL_DID_SEND,
    GOAL_DID_ARRIVE,
    GOAL_DID_POST, /* a receive waits from here on */
    GOAL_DID_RECV, /* it ended */
    GOAL_DID_ACK,
};

struct goal_event { /* what happened; by time, then by number, they are in order */
    lw_ps time;
    int64_t what_of; /* op, or message of ARRIVE and ACK */
    int32_t rank;
    uint8_t what; /* enum goal_what */
};

struct goal_times {
    struct lw_arena arena;
    int64_t n_events, n_messages;
    struct goal_event *events;
    struct goal_message *messages;
    int64_t *message_of; /* [n_ops] of sends and receives; -1 */
    lw_ps end;           /* when the last processor is free */
};

enum lw_status goal_times_find(const struct traces_goal *g, const struct goal_network *n,
                               struct goal_times *out, struct lw_err *err);
void goal_times_free(struct goal_times *t);

lw_ps goal_send_cpu(const struct goal_network *n, int64_t bytes); /* processor of the sender */
lw_ps goal_recv_cpu(const struct goal_network *n, int64_t bytes); /* processor of the receiver */
lw_ps goal_gap(const struct goal_network *n, int64_t bytes);      /* either network interface */
