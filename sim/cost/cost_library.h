#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sim/cost/cost_model.h"

/* What auto means where neither a measured table nor NCCL's model answers: the cheapest of the
 * algorithms that the cluster's library has for the operation. */

/* Whether auto can be another algorithm than the ring on a cluster. NCCL's clusters are excluded:
 * NCCL's model has no messages. */
bool sim_auto_chooses(const struct lw_cluster *c);
/* ... and chooses for the query. */
bool sim_library_applies(const struct lw_cluster *c, const struct lw_cost_query *q);
enum lw_status sim_library_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                                struct lw_cost_answer *out, struct lw_err *err);

/* The sentence that says that NCCL's or RCCL's own choice was not modelled for an answer; false:
 * there is nothing to say. */
bool sim_say_not_modelled(const struct lw_cluster *c, const struct lw_cost_query *q,
                          const struct lw_cost_answer *a, char *text, size_t size);

/* The algorithm that auto chooses for the query; other algorithms are what they are. */
enum lw_status sim_algorithm_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                                enum lw_reducer_kind *kind, struct lw_err *err);
