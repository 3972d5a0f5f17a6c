#ifndef LW_SIM_COST_COST_SCALED_H
#define LW_SIM_COST_COST_SCALED_H

#include <stdbool.h>

#include "sim/cost/cost_model.h"

/* NCCL's model scaled to meet a measured table, where the table ends: docs/design/cost.md. */

/* A table of the operation exists whose sizes or ranks do not hold the query, and NCCL's model
 * does. */
bool sim_scaled_applies(const struct lw_cluster *c, const struct lw_cost_query *q);
enum lw_status sim_scaled_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err);

/* Measured over modelled time at the largest size of the table that answers for q; 0: there is no
 * such table, or no model. A table of this fabric is near 1. */
double sim_table_over_model(const struct lw_cluster *c, const struct lw_cost_query *q,
                            int64_t *bytes);

#endif
