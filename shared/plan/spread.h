#pragma once

#include <stdint.h>

/* The nodes of n ranks, per_node ranks (>= 1) filling node after node, and how many of them are on
 * the node that has the fewest. The ranks differ, in any order. */
struct lw_spread {
    int32_t n_nodes, fewest;
};
struct lw_spread lw_spread_over(int32_t per_node, const int32_t *ranks, int32_t n);
