#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cli/cli.h"

/* What `lapwing inspect FILE` takes: three runs of it, each a process of its own whose output is
 * thrown away; the one of median processor time is printed. LW_EFAILED: it failed. */
enum lw_status traces_bench_inspect_print(const char *file, enum lw_format format,
                                          struct lw_err *err);

/* The same of a generated report of Nsight Systems with n kernels, each with its call, in a file of
 * $TMPDIR (or /tmp) that is removed then. */
enum lw_status traces_bench_nsys_print(int64_t n_kernels, enum lw_format format,
                                       struct lw_err *err);
