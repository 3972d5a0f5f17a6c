#pragma once

#include <stdint.h>

#include "exec/run/run.h"
#include "shared/base/err.h"

struct lw_plan;

/* Does the memory of this machine hold what n_here of the plan's ranks take? Asked before
 * anything is taken: the system would end the process later. Nothing is asked of backends whose
 * ranks have memory of their own. LW_ENOTSUP: what a rank needs, and what is there. */
enum lw_status lw_exec_fits(const struct lw_plan *p, const struct lw_exec_options *o,
                            int32_t n_here, struct lw_err *err);

/* The same, where there are so many bytes. */
enum lw_status exec_fits_in(const struct lw_plan *p, const struct lw_exec_options *o,
                            int32_t n_here, double bytes, struct lw_err *err);
