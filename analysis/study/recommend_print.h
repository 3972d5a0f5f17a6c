#pragma once

#include <stdio.h>

#include "shared/cli/cli.h"
#include "analysis/alike/alike_step.h"
#include "analysis/study/recommend.h"
#include "shared/framework/framework_choice.h"

/* A recommendation and what is known about its error. */
struct lw_recommend_report {
    const struct lw_recommendation *r;
    const struct lw_workload *workload;
    const struct lw_cluster *cluster;
    const struct lw_framework_choice *framework;
    const struct lw_alike_step *alike;  /* intervals of the steps; NULL: none */
    int64_t n_ranks;
    const char *ranks_from;             /* why so many, "" = the user said so */
    int32_t n_past;                     /* compared predictions for this cluster; 0 = none */
    double mean_past_pct, max_past_pct; /* absolute error of their step */
};

/* Text: one line and the remarks; CSV: one line per simulated cap. */
enum lw_status lw_recommend_print(const struct lw_recommend_report *p, enum lw_format format,
                                  FILE *f, struct lw_err *err);

/* The gain in percent of the reference's step. */
double lw_recommend_gain_pct(const struct lw_recommend_report *p);
/* "unknown", "below_error", "likely", "sure", or "keep" when nothing is better by 0.005 %. */
const char *lw_recommend_verdict(const struct lw_recommend_report *p);
