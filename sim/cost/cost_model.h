#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/cost.h"

/* What communication costs on a cluster. A measured table that fits (op, ranks, nodes, in flight)
 * wins; else a model computes it from the cluster's links. See docs/design/cost.md. */

/* The cluster's cost as a function. Borrows the cluster. The time is -1 where the cluster cannot
 * tell: lw_sim_cost_explain then says why. One rank costs nothing. */
struct lw_cost lw_sim_cost(const struct lw_cluster *cluster);

/* How one query is answered. */
struct lw_cost_answer {
    lw_ps time;
    /* "nothing to do", "table", "table+nccl", "table+fit", "nccl", "nccl+cal", "alpha-beta", or the
     * name of the algorithm that is requested or that the library chooses */
    const char *model;
    const char *source; /* of the table, or of the link's bandwidth */
    const char *detail; /* "between measured sizes", "beyond the largest measured size", ... */
    const char *algorithm; /* "ring", "chain", "pairwise", "tree", ...; "library" = as measured */
    int32_t n_pieces;      /* that the buffer is cut into; 0 = not said */
    int64_t n_steps;       /* one after the other; 0 = not said */
    /* Of NCCL's model; protocol NULL elsewhere. time = latency + bytes / bytes_per_s. */
    const char *protocol;  /* "ll", "ll128", "simple"; "p2p" where NCCL has no model */
    int32_t n_channels;
    const char *constants; /* of which version the model's constants are; NULL elsewhere */
    bool instead;     /* NCCL's own choice, where the algorithm requested does not exist */
    int32_t n_blocks; /* thread blocks of the kernel, an SM each; 0: the model has none */
    lw_ps latency;
    lw_ps beyond; /* what nccl+cal adds to the model's time before its curve */
    double bytes_per_s;
};

/* "measured", "scaled" (a table beyond its sizes or ranks) or "modelled". */
const char *sim_cost_basis(const struct lw_cost_answer *answer);

/* With an algorithm that --collective-algorithm names (not auto, ring, gloo, which the cluster's
 * tables speak for), its closed form on the cluster's links: sim/cost/cost_closed_form.h.
 * LW_EINVAL: a negative size, no ranks, more nodes than ranks. LW_ENOTSUP: neither a table nor the
 * figures a model needs; the message names the missing figure. */
enum lw_status lw_sim_cost_explain(const struct lw_cluster *cluster,
                                   const struct lw_cost_query *query, struct lw_cost_answer *out,
                                   struct lw_err *err);

/* Bytes per second that the whole operation achieves, and the same corrected for the traffic an
 * ideal algorithm must cause, comparable with the speed of a link (NVIDIA nccl-tests,
 * PERFORMANCE.md: all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all (n-1)/n; others
 * 1). 0 for no time. */
double lw_sim_algbw(const struct lw_cost_query *query, lw_ps time);
double lw_sim_busbw(const struct lw_cost_query *query, lw_ps time);

/* --- models, for the dispatcher and the engine --- */

/* What a ring or chain moves over: hops inside a node and hops between nodes (0 where it has
 * none). */
struct sim_path {
    double intra_bytes_per_s, inter_bytes_per_s;
    lw_ps intra_ps, inter_ps;    /* latency of a hop */
    double bytes_per_s;          /* of the slower kind of hop */
    const char *source;          /* of that */
};

/* All nodes have equally many members. */
static inline bool sim_is_even(const struct lw_cost_query *q)
{
    return q->n_ranks % q->n_nodes == 0 &&
           (q->fewest == 0 || q->fewest * q->n_nodes == q->n_ranks);
}

/* Of ranks of which only the number is known: where nodes do not divide them, they fill one node
 * after the other. */
int32_t sim_fewest_on_a_node(const struct lw_cluster *cluster, const struct lw_cost_query *query);

/* The links that n_ranks ranks on n_nodes nodes use in a ring or chain; fewest: ranks on the node
 * that has the fewest, whose links all wait for; 0 = spread evenly; alone as in a query. LW_ENOTSUP
 * as above. */
enum lw_status sim_path_of(const struct lw_cluster *cluster, int32_t n_ranks, int32_t n_nodes,
                           int32_t fewest, bool alone, struct sim_path *path, struct lw_err *err);

/* A message is one pair's, however many ranks belong to the group: the query of 2 ranks, on 2 nodes
 * where the group has several. Other operations are what they are. */
struct lw_cost_query sim_of_pair(const struct lw_cost_query *query);

/* The largest chunk when `bytes` of dtype are cut into n parts of whole elements. */
int64_t sim_chunk_bytes(int64_t bytes, enum lw_dtype dtype, int32_t n);
/* Messages each rank sends one after the other in the ring form of op; 0 = op has no ring form. */
int64_t sim_ring_steps(enum lw_op_kind op, int32_t n_ranks);

enum lw_status sim_alpha_beta(const struct lw_cluster *cluster, const struct lw_cost_query *query,
                              struct lw_cost_answer *out, struct lw_err *err);

/* The table for a query with n_in_flight such operations at once, or NULL. */
const struct lw_cost_table *sim_table_find(const struct lw_cluster *cluster,
                                           const struct lw_cost_query *query, int32_t n_in_flight);
lw_ps sim_table_time(const struct lw_cost_table *t, int64_t bytes, const char **detail);
/* CPU time of a call, by the same interpolation; the table has cpu_ps. */
lw_ps sim_table_cpu(const struct lw_cost_table *t, int64_t bytes);
