#pragma once

#include <stdint.h>

struct lw_group;
struct lw_plan;

/* The nodes of n ranks, per_node ranks (>= 1) filling node after node, and how many of them are on
 * the node that has the fewest. The ranks differ, in any order. */
struct lw_spread {
    int32_t n_nodes, fewest;
};
struct lw_spread lw_spread_over(int32_t per_node, const int32_t *ranks, int32_t n);
/* Of the members of a group. */
struct lw_spread lw_plan_spread(const struct lw_plan *p, int32_t per_node,
                                const struct lw_group *g);
