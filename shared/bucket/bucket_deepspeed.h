#pragma once

#include <stdint.h>

#include "shared/strategy/strategy.h"

/* The elements that a bucket of --bucket-policy deepspeed has at most, unless it is one gradient of
 * more. grad: of its gradients. */
int64_t lw_deepspeed_limit(const struct lw_strategy *s, enum lw_dtype grad);
