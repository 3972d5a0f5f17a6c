#pragma once

#include <stdbool.h>

#include "shared/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/nccl/nccl_tuning.h"

/* NCCL's cost model on a cluster's links: docs/design/nccl.md. */

/* Whether a reducer asks for NCCL's model on this cluster: the names that begin with nccl, and
 * nvls. */
bool sim_nccl_is_asked(const struct lw_cluster *c, enum lw_reducer_kind algorithm);
/* ... or the cluster's library is nccl and the query leaves the choice to it. */
bool sim_nccl_applies(const struct lw_cluster *c, const struct lw_cost_query *q);

/* The communicator of a query as the model sees it. LW_ENOTSUP: a figure is missing, or the
 * links are too slow for a channel; LW_EINVAL: unknown library version. */
enum lw_status sim_nccl_comm_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                                struct sim_nccl_comm *out, struct lw_err *err);

/* Whether what q asks for exists for its operation (has), and on its shape too (LW_OK).
 * LW_ENOTSUP: the message says why not and what does. */
enum lw_status sim_nccl_allows(const struct lw_cluster *c, const struct lw_cost_query *q,
                               bool *has, struct lw_err *err);

/* Of a query alone: LW_ENOTSUP as sim_nccl_allows where the algorithm exists for the operation and
 * not on its shape. */
enum lw_status sim_nccl_check_shape(const struct lw_cluster *c, const struct lw_cost_query *q,
                                    struct lw_err *err);

/* What the operation or the shape does not have is NCCL's own choice, as NCCL_ALGO leaves it for an
 * operation that it does not list: answer.instead. auto and nccl+cal: calibrated where a curve is
 * of such a fabric (model "nccl+cal"), else NCCL's model (model "nccl"). */
enum lw_status sim_nccl_answer(const struct lw_cluster *c, const struct lw_cost_query *q,
                               struct lw_cost_answer *out, struct lw_err *err);

/* Whether the answer to q is NCCL's model times a curve of measured tables: auto or nccl+cal, and a
 * curve of such a place and device (sim/nccl/nccl_curves.h). */
bool sim_nccl_is_calibrated(const struct lw_cluster *c, const struct lw_cost_query *q);
/* Makes of an answer of NCCL's model to q the calibrated one. */
void sim_nccl_calibrate(const struct lw_cluster *c, const struct lw_cost_query *q,
                        struct lw_cost_answer *answer);

/* Between which times an answer lies on eight of ten fabrics of its kind (one node by NVLink or by
 * PCIe, several nodes of several ranks, or of one), by the measured tables of n such fabrics around
 * the calibrated time. False: the answer is not of NCCL's model, or no table has such a place. */
struct sim_nccl_fabrics {
    lw_ps p10, p90;
    int n;
    const char *kind; /* "several nodes", ... */
};
bool sim_nccl_fabrics_of(const struct lw_cluster *c, const struct lw_cost_query *q,
                         const struct lw_cost_answer *answer, struct sim_nccl_fabrics *out);

/* plan_nccl.c */
/* Remarks of NCCL's model on a plan as a whole, each passed to `say`. LW_ENOTSUP: a reducer of NCCL
 * that no operation of the plan can use on the cluster. LW_EINVAL: a version without constants. */
typedef void sim_nccl_say(void *ctx, const char *remark);
enum lw_status sim_nccl_check_plan(const struct lw_cluster *cluster, const struct lw_plan *plan,
                                   sim_nccl_say *say, void *ctx, struct lw_err *err);
