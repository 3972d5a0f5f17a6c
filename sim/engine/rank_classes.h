#pragma once

#include <stdint.h>

#include "shared/plan/plan.h"
#include "shared/timeline/alike_ranks.h"

/* Ranks that are alike, simulated once: see docs/design/folding.md. A class is a set of ranks whose
 * ops all start and end at the same times; classes count in the order of their lowest ranks. */
struct sim_fold {
    int32_t n_ranks, n_classes;
    struct lw_alike_ranks ranks; /* class of each */
    int32_t *rank_of;    /* [n_classes]: the lowest rank */
    int32_t *n_alike;    /* [n_classes]: ranks of it */
    int32_t *group_of;   /* [groups of the quotient]: the group of the plan it represents */
    struct lw_plan plan; /* the quotient: ranks are classes, a group holds each class once. Borrows
                          * from the plan; operands still name its ranks */
};
