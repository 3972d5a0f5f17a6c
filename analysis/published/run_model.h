#pragma once

#include "analysis/published/run_table.h"
#include "shared/numbers/dtype.h"
#include "shared/plan/workload.h"

struct lw_cluster;

/* Sizes of the model that a row names and does not give; family, where it is open. LW_ENOTSUP: a
 * model that nothing is known of. */
enum lw_status lw_run_shape(struct lw_run *run, struct lw_err *err);

/* The element type that gradients are summed in, "" = the parameters'. */
const char *lw_run_gradients(const struct lw_run *run);
/* Its products take 8-bit operands. */
bool lw_run_is_8bit(const struct lw_run *run);
/* Of a cell: "yes", "True", "1", or a tensor-parallel mode that splits sequences. */
bool lw_run_is_yes(const char *cell);

/* The workload of one micro-batch of the run on a device of that cluster. *dtype: of its products.
 * LW_ENOTSUP with a reason. */
enum lw_status lw_run_workload(const struct lw_run *run, const struct lw_cluster *cluster,
                               struct lw_workload *w, enum lw_dtype *dtype, struct lw_err *err);

/* Of the time of a micro-batch on the device with its host, `w`, the device's alone: 1 where the
 * host is never waited for, and where no figure depends on it. */
enum lw_status lw_run_device_share(const struct lw_run *run, const struct lw_cluster *cluster,
                                   const struct lw_workload *w, double *share, struct lw_err *err);
