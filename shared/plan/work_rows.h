#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Works of a plan as rows that works of equal fields share, made while works are added: the table
 * of whole works never exists. lw_work_at reads either. */
struct lw_work_sharing {
    int64_t rows_capacity, row_capacity; /* of the plan's two lists, which are of the heap */
    int32_t *found; /* [n_found] 1 + a row, by open addressing; 0 = free */
    int64_t n_found;
};

/* The next work is this one. LW_ENOMEM leaves the lists valid. */
enum lw_status lw_work_rows_add(struct lw_plan *p, struct lw_work_sharing *s,
                                const struct lw_work *w, struct lw_err *err);
/* The lists go to the plan's arena, cut to their length. On failure those that did not are freed.
 */
enum lw_status lw_work_rows_settle(struct lw_plan *p, struct lw_work_sharing *s,
                                   struct lw_err *err);
/* Of a plan that is not settled. */
void lw_work_rows_free(struct lw_plan *p, struct lw_work_sharing *s);

/* A plan with rows gets a table of whole works in place of them, so that one may change alone. The
 * plan's arena keeps the rows. */
enum lw_status lw_plan_write_works(struct lw_plan *p, struct lw_err *err);
