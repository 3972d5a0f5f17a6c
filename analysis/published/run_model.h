#pragma once

#include "analysis/published/run_table.h"

/* Sizes of the model that a row names and does not give; family, where it is open. LW_ENOTSUP: a
 * model that nothing is known of. */
enum lw_status lw_run_shape(struct lw_run *run, struct lw_err *err);

/* The element type of parameters, and whether products take 8-bit operands. LW_ENOTSUP with a
 * reason. */
enum lw_status lw_run_precision(const struct lw_run *run, const char **dtype, bool *fp8,
                                struct lw_err *err);
/* Of a cell: "yes", "True", "1", or a tensor-parallel mode that splits sequences. */
bool lw_run_is_yes(const char *cell);
/* Blocks that predict further tokens. */
int64_t lw_run_mtp_layers(const struct lw_run *run);
