#pragma once

#include "sim/cost/cost_model.h"
#include "sim/cost/hfreduce.h"
#include "sim/cost/collective_messages.h"

/* The algorithms of sim/cost/collective_messages.h on a cluster's links. */

/* The links that a group's messages take. Borrows the cluster. */
struct sim_group_links {
    const struct sim_schedule *s;
    struct sim_path path;
    struct sim_hfreduce host;  /* hfreduce only */
    const int32_t *ranks;      /* of the members; NULL: members fill nodes in order */
    int32_t devices_per_node;  /* to tell the nodes of ranks */
    /* of a rank's link to another; NULL */
    double (*speed)(const void *ctx, int32_t from, int32_t to);
    const void *ctx;
};

/* The schedule for a query on a cluster, in as many pieces as the model chooses, and its links. The
 * schedule is the caller's to free; links point to it. */
enum lw_status sim_algorithm_schedule(const struct lw_cluster *c, const struct lw_cost_query *q,
                                      int32_t root, struct sim_schedule *s,
                                      struct sim_group_links *links, struct lw_err *err);
/* As a callback of struct sim_links. */
void sim_group_link_time(const void *ctx, const struct sim_transfer *m, int64_t bytes, lw_ps *time,
                         lw_ps *latency);

/* The closed form: what sim_schedule_run takes when all enter together, and all links inside a node
 * are equal and all between nodes are. Exact but for trees over several nodes, where every round
 * counts as the slowest. */
enum lw_status sim_algorithm_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                                  struct lw_cost_answer *out, struct lw_err *err);
