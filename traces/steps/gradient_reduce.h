#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "traces/steps/step_phases.h"

/* Whether a collective that the host launched at ns reduces gradients of the step: inside the node
 * that accumulated one, where DistributedDataParallel's hooks launch a full bucket, or after the
 * last one and before the optimizer. Others belong to the forward or to ops of the backward:
 * tensor parallelism, buffers, losses. True for all where the step shows no gradient. */
bool lw_step_reduces_gradients(const struct lw_step *s, int64_t ns);
