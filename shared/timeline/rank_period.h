#ifndef LW_SHARED_TIMELINE_RANK_PERIOD_H
#define LW_SHARED_TIMELINE_RANK_PERIOD_H

#include <stddef.h>
#include <stdint.h>

#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* Fill the times of m, whose start and end are set and whose times are 0, from those rows of one
 * rank that touch its period. edges: scratch, 4 for each row, of lw_period_edge_size() bytes
 * each. */
struct lw_period_edge;
size_t lw_period_edge_size(void);
void lw_period_measure(const struct lw_timeline *t, const struct lw_plan *plan,
                       const int64_t *rows, int64_t n_rows, struct lw_period_edge *edges,
                       struct lw_measure *m);

#endif
