#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/nccl_constants.h"

/* What NCCL's graph search finds on regular nodes: how many channels, and how fast each is inside a
 * node and between nodes. See docs/design/nccl.md for the search that these rules represent. */

struct sim_nccl_graph {
    int32_t n_channels;          /* 0: the pattern does not exist here */
    double intra_gbs, inter_gbs; /* of a channel */
};

/* One node as the search sees it. */
struct sim_nccl_node {
    enum sim_nccl_arch arch;
    const struct sim_nccl_version *version;
    int32_t n_ranks; /* of the group on the node */
    int32_t n_nodes;
    double device_gbs;  /* of all NVLinks of a device, or its PCIe port, one way */
    int32_t n_adapters; /* that the group's ranks are next to */
    double adapter_gbs; /* one way */
    bool has_multicast; /* NVSwitch with multicast (NVLink SHARP) */
};

struct sim_nccl_graphs {
    struct sim_nccl_graph ring, tree, nvls, collnet;
    double exchange_gbs; /* of a node to others where each rank sends to each, not along a ring */
    bool rings_differ; /* channels visit the ranks in several orders, one for each adapter */
    bool simple_tree;  /* the tree pattern of one rank per node: at 0.85 */
};

void sim_nccl_search(const struct sim_nccl_node *node, struct sim_nccl_graphs *out);
/* The same channels where the group gets so much between nodes: groups side by side share its
 * adapters, which the search does not know. */
void sim_nccl_slow_down(struct sim_nccl_graphs *graphs, double inter_gbs);
