#pragma once

#include <stdio.h>

#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/cli/cli.h"
#include "shared/cluster/cluster.h"

/* Prints one product "M,N,K" or "B,M,N,K" on the cluster's device by its shape. LW_EINVAL:
 * another text; LW_ENOTSUP: the device lacks the figures. */
enum lw_status sim_gemm_print(const struct lw_cluster *c, const char *shape, enum lw_dtype dtype,
                              enum lw_format format, FILE *f, struct lw_err *err);
/* The same at the clock of a short burst, of operands "bf16", "fp8", "fp8_block", "nvfp4".
 * LW_EINVAL: another type; LW_ENOTSUP: no kernels of the device are published. */
enum lw_status sim_gemm_burst_print(const struct lw_cluster *c, const char *shape,
                                    const char *operands, enum lw_format format, FILE *f,
                                    struct lw_err *err);
enum lw_status sim_gemm_check(const char *shape, struct lw_err *err); /* LW_EINVAL: another text */
