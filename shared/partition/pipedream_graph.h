#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/partition/partition_pipedream.h"

/* A profiled model as PipeDream records it: operators with times and sizes, and who feeds whom. */
struct lw_profile_node {
    const char *name, *op;
    double forward_ms, backward_ms, activation_bytes, parameter_bytes;
};

struct lw_profile_graph {
    struct lw_arena arena; /* owns everything below */
    int32_t n_nodes, n_edges;
    struct lw_profile_node *nodes;
    int32_t (*edges)[2]; /* from, to */
};
void lw_profile_graph_free(struct lw_profile_graph *g);

/* From two CSV texts: node,op,fwd_ms,bwd_ms,activation_bytes,param_bytes and src,dst. LW_EFORMAT
 * names file and line. */
enum lw_status lw_profile_graph_parse(const char *nodes_name, const char *nodes_text,
                                      const char *edges_name, const char *edges_text,
                                      struct lw_profile_graph *out, struct lw_err *err);

/* The states of the planner: every way in which the model can be cut that its antichains allow, in
 * topological order. Inputs are left out (their time is that of loading data), and so are unused
 * outputs of "__getitem__". */
struct lw_pipedream_states {
    struct lw_arena arena; /* owns everything below */
    int32_t n;
    struct lw_pipedream_state *states;
    int32_t *before;
};
void lw_pipedream_states_free(struct lw_pipedream_states *s);

/* LW_EINVAL: a cycle, no node left; LW_ENOTSUP: more than 4,096 states. */
enum lw_status lw_pipedream_states_make(const struct lw_profile_graph *g,
                                        struct lw_pipedream_states *out, struct lw_err *err);
