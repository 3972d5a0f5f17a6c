#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/plan_builder.h"

/* Communicators for messages between any ranks. The ops of a communicator run one at a time on each
 * rank, so messages that do not wait for each other need different ones: one for each distance
 * between ranks, in up to three colours, so that no rank both sends and receives on one. */
struct traces_p2p_distance {
    int32_t distance;
    int32_t comm[3], send_stream[3], recv_stream[3]; /* -1 = not used yet */
    uint8_t *colour;                                 /* [n_ranks] of what the rank sends */
};

struct traces_p2p {
    struct lw_arena *arena;
    struct lw_builder *b;
    int32_t n_ranks, n;
    struct traces_p2p_distance *v;
    int32_t *members; /* [n_ranks] */
    int32_t *of;      /* [n_ranks] distance -> index in v + 1; 0 = none yet */
};

struct traces_p2p_class {
    int32_t comm, send_stream, recv_stream;
};

/* b has its ranks and no program yet. */
enum lw_status traces_p2p_begin(struct traces_p2p *p, struct lw_builder *b, int32_t n_ranks,
                                struct lw_arena *arena, struct lw_err *err);
/* The class of messages from `from` to `to`, which differ. */
enum lw_status traces_p2p_class(struct traces_p2p *p, int32_t from, int32_t to,
                                struct traces_p2p_class *out, struct lw_err *err);
