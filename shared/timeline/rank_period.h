#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

struct lw_period_edge;
size_t lw_period_edge_size(void);

/* What holds at a moment of a rank's period: the first that does, in this order (docs/glossary.md,
 * "Period of a rank"). The waits are one for each enum lw_wait. */
enum lw_period_part {
    LW_PERIOD_COMPUTE,
    LW_PERIOD_HOST_UPDATE,
    LW_PERIOD_COPY,
    LW_PERIOD_TRANSFER,
    LW_PERIOD_WAIT,
    LW_PERIOD_IDLE = LW_PERIOD_WAIT + LW_N_WAITS,
    LW_N_PERIOD_PARTS,
};

/* [from, to) in which nothing begins or ends. */
struct lw_period_stretch {
    lw_ps from, to;
    enum lw_period_part part;
    bool copies, comm; /* some run, whatever the part */
    bool moves;        /* a communication has all its members */
};

/* Cut [m->start, m->end) into stretches, in time and without gaps: the one split of a period, which
 * every measure and explanation adds up. rows, edges: as below. */
typedef void lw_period_visit(void *ctx, const struct lw_period_stretch *s);
void lw_period_cut(const struct lw_timeline *t, const struct lw_plan *plan, const int64_t *rows,
                   int64_t n_rows, struct lw_period_edge *edges, const struct lw_measure *m,
                   lw_period_visit *visit, void *ctx);

/* Fill the times of m, whose start and end are set and whose times are 0, from those rows of one
 * rank that touch its period. edges: scratch, 4 for each row, of lw_period_edge_size() bytes
 * each. */
void lw_period_measure(const struct lw_timeline *t, const struct lw_plan *plan,
                       const int64_t *rows, int64_t n_rows, struct lw_period_edge *edges,
                       struct lw_measure *m);
