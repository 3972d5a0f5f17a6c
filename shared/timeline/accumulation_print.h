#pragma once

#include <stdio.h>

#include "shared/strategy/strategy.h"

/* Backwards of a step on each rank, and reductions of its gradients. */
int64_t lw_backwards_per_step(const struct lw_strategy *s);
int64_t lw_reductions_per_step(const struct lw_strategy *s);
/* A line about them where a step has more than one backward; of a pipeline's micro-batches its own
 * lines tell. */
void lw_accumulation_print(const struct lw_strategy *s, FILE *f);
