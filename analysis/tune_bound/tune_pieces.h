#pragma once

#include <stdint.h>

#include "analysis/tune_bound/tune_rates.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/lower/outline.h"
#include "shared/strategy/strategy.h"

/* What the data group's collectives of each part take at least, where the strategy says how large a
 * bucket of gradients may be. See docs/design/tune.md. */

struct lw_tune_group { /* the costs of a data group */
    struct lw_tune_rates sum, scatter, gather;
};

struct lw_tune_pieces { /* of one part, one after the other */
    lw_ps reduce; /* gradients, once */
    lw_ps gather; /* all its weights, once: of ZeRO-1 and 2 */
};

/* s: resolved. first: [n_parts + 1] modules. out: [n_parts]. */
enum lw_status lw_tune_pieces_of(const struct lw_outline *o, const struct lw_strategy *s,
                                 const struct lw_tune_group *g, const int32_t *first,
                                 int32_t n_parts, struct lw_tune_pieces *out, struct lw_err *err);

/* Whether a unit of ZeRO-3 is what one module trains. */
bool lw_tune_units_are_modules(const struct lw_strategy *s);

/* The least time of gradients of n sizes whose buckets close once they have `limit` bytes, in
 * whatever order they come. sizes: descending. */
lw_ps lw_tune_closing_time(const struct lw_tune_rates *r, const int64_t *sizes, int32_t n,
                           int64_t limit);
