#pragma once

#include <stdint.h>

#include "shared/numbers/units.h"

/* A ring collective message by message, without a queue. Member r sends `steps` messages to member
 * r + 1, each cost[r] on the link and latency[r] on the way; message s leaves once message s - 1
 * has left and message s - 1 from member r - 1 has arrived.
 *   n            members, >= 2
 *   t[n]         in: when each member enters; out: when its last message has left the link
 *   cost[n]      time of one message on the link r -> r + 1
 *   latency[n]   of that link
 *   extra        NULL, or what messages take longer
 *   end[n]       filled: when the member has sent and received all */
struct sim_ring_extra {
    /* Fills longer[n] for message `step` (1..steps) of members first .. first + n - 1. */
    void (*fill)(const void *ctx, int64_t step, int32_t first, int32_t n, lw_ps *longer);
    const void *ctx;
    lw_ps most; /* no message takes longer by more; each 0 or more */
};

void sim_ring_run(int32_t n, int64_t steps, lw_ps *t, const lw_ps *cost, const lw_ps *latency,
                  const struct sim_ring_extra *extra, lw_ps *end);
