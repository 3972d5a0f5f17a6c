#pragma once

#include "sim/cost_query/cost_print.h"

enum { SIM_COST_MAX_RANKS = 1 << 24 }; /* sums of ranks and nodes stay within 32 bits */

/* "1KiB..1GiB", or one size. */
enum lw_status sim_cost_range(const char *text, int64_t *from, int64_t *to, struct lw_err *err);

/* An operation that communicates. LW_EINVAL lists them. */
enum lw_status sim_cost_op(const char *text, enum lw_op_kind *op, struct lw_err *err);

/* Ranks and nodes of the question, 0 = not given: without ranks all devices of these nodes, or of
 * the cluster, and of a message (q->op) its 2 members; without nodes the fewest that hold the
 * ranks. LW_EINVAL: more than the cluster has, or than SIM_COST_MAX_RANKS, or a message
 * has. */
enum lw_status sim_cost_shape(const struct lw_cluster *c, int64_t ranks, int64_t nodes,
                              struct lw_cost_query *q, struct lw_err *err);

/* Sizes double from `from`; the last is `to`. LW_ENOTSUP: an algorithm that the shape excludes. */
enum lw_status sim_cost_ask(const struct lw_cluster *c, struct lw_cost_query q, int64_t from,
                            int64_t to, struct sim_cost_answers *a, struct lw_err *err);
