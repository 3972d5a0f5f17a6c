#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/lower/outline.h"
#include "shared/numbers/units.h"
#include "shared/schedule/schedule.h"

/* Lower bounds of a strategy without its plan: see docs/design/tune.md. */

/* The parts of a pipeline, as they lie on its ranks. */
struct lw_tune_parts {
    int32_t n_parts, n_ranks;
    const struct lw_outline_sum *part; /* [n_parts] in the order of the model */
    const int32_t *first, *held;       /* rank r holds held[first[r]] .. held[first[r + 1] - 1],
                                        * ascending */
    const lw_ps *optimizer;            /* [n_ranks] */
    /* [n_parts]: what a backward does before it needs the gradient of the next part, as it repeats
     * the forward of its last module. */
    const lw_ps *ahead;
    /* Collectives of the data group. By the places of `held`: those of a part's gradients, and the
     * rank's work on the part from the first backward on that is the last one of its part: none of
     * them begins earlier. [n_ranks]: gathers of weights after the optimizer. */
    const lw_ps *reduce, *after, *gather;
    /* By the places of `held`: forwards that the rank does before its first backward, which is of
     * part first_back[rank]. */
    const int32_t *before, *first_back;
    const lw_ps *data; /* [n_ranks]: all of them before the optimizer, one after the other */
    const int64_t *again; /* [n_parts] activations that the backward's first repeated module adds to
                           * what is still kept; of the bound of memory */
    /* [n_parts]: under ZeRO-3 gathered weights, of the bound of memory: while the last module of
     * the part computes, and while a backward repeats the first one that it repeats. NULL: none are
     * known to be there. */
    const int64_t *unit, *unit_again;
    const int32_t *halves; /* by the places of `held`: backwards of the part that are split there */
    bool by_halves;                    /* some backwards are split */
    bool mirrored;                     /* each part is on two ranks, half of the micro-batches on
                                        * each */
    bool mixed;                        /* the actions of a unit run module by module, in an order
                                        * that is not known */
    int64_t n_micro_batches;
};

/* At most the step that is simulated, if the rank ended last in the step before. */
lw_ps lw_tune_step_since(const struct lw_tune_parts *p, int32_t rank);
/* At most the step that is simulated: the least of that over the ranks. */
lw_ps lw_tune_step_bound(const struct lw_tune_parts *p);

/* At least as many ranks as share any parameter of a rank: experts may have more copies. */
int32_t lw_tune_copies(const struct lw_outline *o, const struct lw_strategy *s, bool mirrored);

/* At most what the allocator of the fullest rank needs of a device, without what the framework
 * itself takes; 0 = nothing is known. s: resolved. stage_of: the pipeline rank of each module. */
enum lw_status lw_tune_memory_bound(const struct lw_tune_parts *p, const struct lw_grid *g,
                                    const struct lw_outline *o, const struct lw_strategy *s,
                                    const struct lw_framework *f, const struct lw_device *d,
                                    const int32_t *stage_of, int64_t *needed, struct lw_err *err);
