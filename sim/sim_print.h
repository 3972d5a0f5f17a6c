#ifndef LW_SIM_SIM_PRINT_H
#define LW_SIM_SIM_PRINT_H

#include <stdio.h>

#include "shared/cli.h"
#include "sim/sim.h"

/* What a prediction says, as text, JSON (DESIGN section 7) or CSV (one line per rank). */
struct lw_sim_report {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    const struct lw_sim_options *options;
    const struct lw_timeline *timeline; /* of classes: sim/sim.h */
    const struct lw_summary *summary;
    const struct lw_sim_stats *stats;
    double wall_s;
    int64_t run;                          /* id in the database; -1 = not stored */
    int32_t n_past;                       /* compared predictions for this cluster; -1 = not asked */
    double mean_past_pct, max_past_pct;   /* absolute error of their step */
};

enum lw_status lw_sim_print(const struct lw_sim_report *r, enum lw_format format, FILE *f,
                            struct lw_err *err);

#endif
