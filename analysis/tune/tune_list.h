#pragma once

#include "analysis/tune/tune_search.h"

/* The valid strategies of a search, each with its bound of what strategies are ranked by. */

struct lw_tune_candidate {
    lw_ps bound;
    int64_t number; /* of all combinations of all parts */
    int64_t needed; /* bound of its memory, once it is known; -1 */
};

/* What is searched; all borrowed. */
struct lw_tune_space_of {
    const struct lw_tune_task *t;
    struct lw_tune_context *const *contexts; /* [n_parts] */
    const int64_t *first; /* [n_parts + 1] numbers of combinations before */
};

/* With noise less than the bound of the step. */
lw_ps lw_tune_bound_of(const struct lw_tune_part *p, const struct lw_tune_case *c);

/* *v [*n], the least bound first; the caller frees it also after a failure. Counts and reasons are
 * in *r. A search that was stopped has those that were reached, in no order. */
enum lw_status lw_tune_list(const struct lw_tune_space_of *of, struct lw_tune_result *r,
                            struct lw_tune_candidate **v, int64_t *n, struct lw_err *err);
