#pragma once

#include <stdbool.h>

#include "sim/cost/cost_model.h"

/* What a measured table gives where it ends: docs/design/cost.md. */

/* A table of the operation exists whose sizes or ranks do not hold the query, and NCCL's model
 * does. */
bool sim_scaled_applies(const struct lw_cluster *c, const struct lw_cost_query *q);
/* The same below its sizes or of other ranks, on a cluster of tables alone, without links. */
bool sim_fitted_applies(const struct lw_cluster *c, const struct lw_cost_query *q);
enum lw_status sim_scaled_time(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err);

/* Measured over modelled time off by more than 1.5 at the largest size of a table or 2 at the
 * smallest: published tables of known fabrics seldom are (docs/design/nccl.md). 0: not known. */
bool sim_ratio_is_doubtful(double ratio, bool smallest);
/* Either end of the table that answers for q: *ratio and *bytes of the doubtful one. */
bool sim_table_is_doubtful(const struct lw_cluster *c, const struct lw_cost_query *q, double *ratio,
                           int64_t *bytes);

/* The sentence that says that a model answers although the cluster has a table of the operation:
 * the table is of one node and the query of several, or the other way round, or no law leads from
 * the table's ranks to the query's. false: there is nothing to say. */
bool sim_say_other_shape(const struct lw_cluster *c, const struct lw_cost_query *q,
                         const struct lw_cost_answer *a, char *text, size_t size);
