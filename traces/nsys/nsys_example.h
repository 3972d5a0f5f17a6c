#pragma once

#include <stdint.h>

#include "shared/base/err.h"

/* Writes a report as `nsys export --type sqlite` does, of one device: n kernels on four streams,
 * each with the call that launched it, in iterations of 1000 marked by NVTX. `file` must be empty
 * or new. LW_EIO: SQLite's words. */
enum lw_status lw_nsys_example(const char *file, int64_t n_kernels, struct lw_err *err);
