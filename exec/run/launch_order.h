#pragma once

#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

struct lw_plan;

/* The reducer that made the plan, fed with what really happened on one rank in one pass:
 * gradients in the order in which their ops ended. It must ask for the buckets in the order in
 * which the collectives began. LW_EFAILED names the rank, the bucket that ran and the one that
 * was requested. */
enum lw_status exec_launch_order_check(const struct lw_plan *plan, const struct exec_layout *layout,
                                   int32_t variant, int32_t rank, const struct exec_stamp *stamps,
                                   struct lw_err *err);
