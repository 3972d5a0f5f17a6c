#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/plan/op.h"
#include "shared/strategy/reducer_kind.h"
#include "shared/strategy/routing.h"

/* A cost handed into a policy or an engine: a function with its context, so that shared/ needs
 * no header of sim/. bytes is the larger of what one member sends and receives: the buffer of an
 * all-reduce, broadcast or reduce; the gathered whole of an all-gather or reduce-scatter; the
 * message of a send. n_nodes: distinct nodes the members live on. algorithm: of a collective;
 * auto = what the cluster's library or model does by itself. fewest: members on the node that has
 * the fewest; 0 = not known: spread evenly, or where nodes do not divide ranks, filling them in
 * order. alone: no other device of these nodes communicates, as in a run whose only group it is;
 * else every device of a node is in such a group (docs/design/cost.md). once: of an all-to-all of
 * tokens, whose copies to one node or member travel once; without copies: every byte travels. */
struct lw_cost_query {
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int64_t bytes;
    int32_t n_ranks, n_nodes;
    enum lw_reducer_kind algorithm;
    int32_t fewest;
    bool alone;
    struct lw_routing once;
};

struct lw_cost {
    lw_ps (*time)(const void *ctx, const struct lw_cost_query *query); /* -1 = cannot tell */
    const void *ctx;
    int32_t ranks_per_node; /* ranks fill nodes in order; 0 = all are on one */
};
