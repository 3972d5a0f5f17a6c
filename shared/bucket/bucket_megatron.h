#pragma once

#include <stdint.h>

#include "shared/strategy/strategy.h"

/* Where a parameter that would lie at this element of a bucket begins, and where a bucket that ends
 * there ends, of so many ranks: Megatron-LM's distributed optimizer aligns both; no other strategy
 * does. */
int64_t lw_megatron_start(const struct lw_strategy *s, int64_t at);
int64_t lw_megatron_end(const struct lw_strategy *s, int64_t at, int32_t n_members);
