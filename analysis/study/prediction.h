#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/alike/alike_step.h"
#include "analysis/study/replay_predict.h"
#include "analysis/study/store_sim_run.h"
#include "shared/cli/plan_source.h"
#include "shared/framework/memory_figures.h"
#include "shared/text/records.h"
#include "sim/predict/samples.h"

/* A prediction: what is requested, and all that is made of it. Set what is wanted, run, free. */
struct lw_prediction {
    /* requested */
    struct lw_plan_source source;
    struct sim_replay replay;
    char **operands;
    int n_operands;
    struct lw_sim_options options;
    const char *db, *name;
    const char *run; /* --run: whose stored plan it is; NULL = none */
    char command[1024];
    bool no_db, spans, all, quiet, published, must_fit;
    int64_t steps, seed, n_samples;
    struct lw_budget_request budget;
    bool per_rank; /* CSV: a row for each rank */
    enum lw_format format;
    /* made */
    struct lw_plan plan;
    struct lw_cluster cluster;
    struct lw_sim_classes classes;
    struct lw_summary summary;
    struct lw_memory_figures memory;
    struct lw_alike_step alike; /* of lw_prediction_run */
    struct lw_sim_stats stats;
    struct lw_sim_samples samples;
    int32_t n_warmup;
    double wall_s;
    struct lw_sim_row row;
    struct lw_err unstored; /* why the prediction is not stored; code LW_OK: it is, or no_db */
};

/* The request of a command line, with the options of `lapwing sim`: -1, or the exit status. *s is
 * zeroed, but for whether it is silent; it refers to argv. */
struct lw_usage;
int lw_prediction_begin(struct lw_prediction *s, const struct lw_usage *usage, int argc,
                        char **argv);

/* The one way from a request to a prediction: all that is made of it, without a row of the database
 * where no_db is set, and nothing printed. Free with lw_prediction_free also after a failure. */
enum lw_status lw_predict(struct lw_prediction *s, struct lw_err *err);

/* What measured runs have to share with the prediction of a model to be like it; texts are the
 * prediction's. */
struct lw_alike_key lw_prediction_key(const struct lw_prediction *s);

/* Predict and store; *r is what there is to print of it, and refers to s, until lw_prediction_free.
 * A prediction that cannot be stored is made all the same: s->unstored. */
struct lw_sim_report;
enum lw_status lw_prediction_make(struct lw_prediction *s, struct lw_sim_report *r,
                                  struct lw_err *err);

/* Predict, store and print to f. LW_ENO: --must-fit, and the largest rank does not. */
enum lw_status lw_prediction_run(struct lw_prediction *s, FILE *f, struct lw_err *err);
void lw_prediction_free(struct lw_prediction *s);
