#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "shared/cli/cli.h"
#include "shared/framework/framework_choice.h"
#include "shared/framework/memory_figures.h"
#include "shared/timeline/budget.h"
#include "sim/predict/samples.h"

/* A replay's steps. period: between the ends of two steps, host: its range on the host
 * (traces/replay/replay_steps.h). All borrowed. */
struct lw_sim_replayed_time {
    lw_ps predicted, recorded;
};

struct lw_sim_replayed_step {
    const char *name;
    bool measured; /* false: has no period: it would begin on the host and end on the device */
    struct lw_sim_replayed_time period, host;
    struct lw_sim_replayed_time *rank_period, *rank_host; /* [n_ranks] */
};

struct lw_sim_replayed {
    const char *basis;              /* "device_period", "device_span" or "host_period" */
    int32_t n_steps, n_ranks;
    struct lw_sim_replayed_step *steps;
    const int32_t *rank_of_file;    /* [n_ranks] -1 = the trace does not say */
    struct lw_sim_replayed_time period; /* medians over measured steps */
    struct lw_measure parts;        /* recorded, of the step and rank that a summary of it shows */
    bool what_if;                   /* something was changed: compare with `unchanged` */
    bool same_buckets;              /* the recorded buckets were requested */
    double error_pct, most_error_pct; /* of such what-ifs where checked: mean, most; 0 = unknown */
    int tolerance_pct;              /* a replay that is further off answers no what-if */
    lw_ps unchanged;                /* median period of the replay without the change */
    lw_ps as_recorded;              /* and of that before host times were scaled */
    double host_scale;              /* host times were scaled: the step without the profiler; 0 */
    lw_ps unprofiled, scaled;       /* its measured length, and that of the scaled replay; -1 */
};

/* Measured runs that are like the prediction (docs/design/evidence.md). */
struct lw_sim_alike {
    bool asked;          /* false: nothing is said of them */
    int32_t n, n_tables; /* runs, and the sources that they are of */
    double mean, low, high; /* of their predicted / measured: mean, p10, p90; NAN = too few */
    lw_ps p10, p90;         /* of the step; -1 = not known */
    const char *of;         /* the runs that p10 and p90 are of; NULL = not known */
    double median, longer;  /* of them: predicted / measured, share that took longer */
    const char *nearest; /* where they are too few: what is nearest, and how it differs; or NULL */
};

/* What a prediction says, as text, JSON (DESIGN section 7) or CSV (one line, or one per rank). */
struct lw_sim_report {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    const struct lw_sim_options *options;
    const struct lw_timeline *timeline; /* of classes: sim/predict/sim.h */
    const struct lw_summary *summary;
    const struct lw_sim_stats *stats;
    const struct lw_sim_samples *samples; /* n = 0: none were drawn */
    bool all;                             /* text: every bucket and replayed step */
    double wall_s;
    int64_t run;                          /* id in the database; -1 = not stored */
    bool no_spans;                        /* it was stored without them */
    const char *not_stored;               /* why it could not be stored; NULL: no fault */
    int32_t n_past; /* compared predictions for this cluster; -1 = not asked */
    double mean_past_pct, max_past_pct;   /* absolute error of their step */
    const struct lw_sim_replayed *replayed; /* NULL: no replay */
    bool graph; /* the plan is a recorded graph: its notes are printed, its memory is not known */
    const struct lw_workload *workload;   /* NULL: not known */
    struct lw_sim_alike alike;
    struct lw_budget_request budget;
    bool per_rank;                        /* CSV: one line per rank, and not one of the run */
    const struct lw_framework_choice *framework; /* NULL: a replay */
    const struct lw_memory_figures *memory; /* NULL: recordings and graphs say nothing of it */
};

enum lw_status lw_sim_print(const struct lw_sim_report *r, enum lw_format format, FILE *f,
                            struct lw_err *err);

/* What timed the collectives and messages of a run, a line for each model or table: "collectives
 * and messages: 12 modelled by nccl+cal (...)". */
void lw_sim_print_comm(const struct lw_sim_stats *s, FILE *f);
/* The same and what the cluster timed beside, as the array timed_by_cluster. */
void lw_sim_json_timed(struct lw_jsonout *o, const struct lw_sim_stats *s);
