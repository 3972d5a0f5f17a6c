#ifndef LW_SHARED_MEMORY_H
#define LW_SHARED_MEMORY_H

#include <stdint.h>

#include "shared/dtype.h"
#include "shared/plan.h"
#include "shared/workload.h"

/* Bytes that a rank holds for parameters and what training adds to them. See docs/design/memory.md. */
struct lw_memory_rule {
    enum lw_dtype grad;          /* of gradients */
    enum lw_optimizer optimizer; /* UNKNOWN counts as none: say so */
    int zero;                    /* ZeRO stage 0..3 */
};

/* Bytes of optimizer state per element of that type: 4 for each state tensor (8 beside f64) and, in
 * half precision, 4 for the master. */
int64_t lw_memory_state_bytes(enum lw_optimizer optimizer, enum lw_dtype param);

/* Add what a rank holds of `numel` elements, of which `owned` are its shard (all of them where
 * nothing is shared out): whole without ZeRO; optimizer state by shard from stage 1, gradients from
 * stage 2, parameters at stage 3 (Rajbhandari et al., arXiv 1910.02054, section 5). */
void lw_memory_add(const struct lw_memory_rule *rule, enum lw_dtype param, int64_t numel,
                   int64_t owned, int64_t bytes[LW_N_MEM]);

#endif
