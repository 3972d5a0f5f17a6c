#pragma once

#include <stdbool.h>

#include "shared/plan/plan.h"
#include "shared/workload/workload.h"

/* FLOPs of a step as publications count them: three times the forward of all matrix products.
 * hardware: what is recomputed is counted once more. causal: causal attention counts half; else its
 * scores count whole. docs/glossary.md, "FLOP definitions". */
double lw_step_flops(const struct lw_plan *p, const struct lw_workload *w, bool hardware,
                     bool causal);
