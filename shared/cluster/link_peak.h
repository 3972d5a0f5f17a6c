#pragma once

#include "shared/cluster/cluster.h"
#include "shared/plan/op.h"

/* Bytes of an operation per second that no algorithm exceeds on a cluster's links; 0: the cluster
 * lacks a figure, or one rank, which needs no link. Ranks are spread evenly over n_nodes.
 *
 * S bytes on n ranks, N nodes of p. A device receives S (all-reduce by a switch that adds and
 * multicasts, broadcast, reduce, send), 2 (n-1)/n S (other all-reduce) or (n-1)/n S (all-gather,
 * reduce-scatter, all-to-all). A node receives 2 (N-1)/N S (all-reduce), (n-p)/n S (all-gather;
 * reduce-scatter: sends), p (n-p)/n S (all-to-all) or S. Example: all-gather on 8 devices of 370.8
 * GB/s: 8/7 x 370.8 = 423.8 GB/s. Example: all-reduce on 2 nodes with 8 adapters of 50 GB/s: 400
 * GB/s. */
double lw_link_peak(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes, bool alone);

/* What a device sends at once over an intra link to the others of a group that has on_node devices
 * of its node: over pair_links or quad_links of its links where no switch joins them. */
double lw_intra_bytes_per_s(const struct lw_link *l, double on_node);

/* The same of the links between nodes alone, for the node that has the fewest ranks; fewest 0 =
 * spread evenly; 0: one node. Example: all-gather on 8 + 1 devices with an adapter of 50 GB/s each:
 * the ninth receives 8/9 S, 56.25 GB/s. ring: no ring exceeds it. Whatever the nodes, a ring brings
 * 2 (n-1)/n S (all-reduce) or (n-1)/n S into each. Unless it is alone,
 * the group has its share of the node's adapters beside groups like it. */
double lw_node_peak(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes, int32_t fewest, bool ring, bool alone);

/* Of all links of a level together; its bandwidth is set. */
double lw_link_bytes_per_s(const struct lw_link *link);
/* Adapters of a node as its devices use them: one for as many devices as the inter-node link's
 * n_sharers says, else as many as there are links, a device each at most. Links beyond that add
 * to each. */
int32_t lw_adapters(const struct lw_cluster *cluster);
/* Those that a group of so many members on a node is next to. */
int32_t lw_adapters_of(const struct lw_cluster *cluster, double members);
/* What of a node's adapters such a group gets as if every device had one. Alone, or with fair_links
 * (the engine shares them among those that move at the time), all of those that it is next to. */
double lw_share_of_node(const struct lw_cluster *cluster, double members, bool alone);

/* A measured table whose fastest row is more than `times` what the links carry (which are stated at
 * the rate that collectives reach); both in bytes per second. false too where the cluster lacks a
 * figure. */
struct lw_cost_table;
bool lw_table_exceeds_links(const struct lw_cluster *c, const struct lw_cost_table *t,
                            double times, double *reaches, double *links);
/* Bytes per second of the table's fastest row. */
double lw_table_fastest(const struct lw_cost_table *t);
