#ifndef LW_SIM_PREDICT_SIM_PRINT_H
#define LW_SIM_PREDICT_SIM_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "shared/cli/cli.h"
#include "sim/predict/samples.h"
#include "sim/predict/sim.h"

/* A replay's steps: host range of the step, of the rank where it is longest. All borrowed. */
struct lw_sim_replayed_step {
    const char *name;
    lw_ps predicted, recorded;
    double error_pct;
    const lw_ps *rank_recorded;     /* [n_ranks] */
    lw_ps *rank_predicted;
};

struct lw_sim_replayed {
    int32_t n_steps, n_ranks;
    struct lw_sim_replayed_step *steps;
    const int32_t *rank_of_file;    /* [n_ranks] -1 = the trace does not say */
    lw_ps predicted, recorded;      /* medians */
    double error_pct;
    bool what_if;                   /* something was changed: not to be compared with the recording */
};

/* What a prediction says, as text, JSON (DESIGN section 7) or CSV (one line per rank). */
struct lw_sim_report {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    const struct lw_sim_options *options;
    const struct lw_timeline *timeline; /* of classes: sim/predict/sim.h */
    const struct lw_summary *summary;
    const struct lw_sim_stats *stats;
    const struct lw_sim_samples *samples; /* n = 0: none were drawn */
    bool all;                             /* text: every bucket, not only those that end last */
    double wall_s;
    int64_t run;                          /* id in the database; -1 = not stored */
    int32_t n_past;                       /* compared predictions for this cluster; -1 = not asked */
    double mean_past_pct, max_past_pct;   /* absolute error of their step */
    /* Published runs on such a device, predicted and compared; n_like 0: none. */
    const char *like;                     /* "H100, split over ranks" */
    int32_t n_like;
    double mean_like_pct, p90_like_pct;
    const struct lw_sim_replayed *replayed; /* NULL: no replay */
    const struct lw_workload *workload;   /* NULL: not known */
};

enum lw_status lw_sim_print(const struct lw_sim_report *r, enum lw_format format, FILE *f,
                            struct lw_err *err);

#endif
