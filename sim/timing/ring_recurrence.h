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
 *   extra        NULL, or adds to t[r] what message s (1..steps) of each member takes longer
 *   end[n]       filled: when the member has sent and received all */
typedef void sim_extra_fn(const void *ctx, int64_t step, int32_t n, lw_ps *t);

void sim_ring_run(int32_t n, int64_t steps, lw_ps *t, const lw_ps *cost, const lw_ps *latency,
                  sim_extra_fn *extra, const void *ctx, lw_ps *end);
