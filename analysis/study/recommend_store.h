#pragma once

#include "analysis/alike/alike_step.h"
#include "analysis/study/recommend.h"

/* What to store of a recommendation, all borrowed. */
struct lw_recommend_store {
    const char *db, *command;
    const struct lw_workload *workload;
    const struct lw_cluster *cluster;
    const struct lw_strategy *strategy; /* of the search */
    const struct lw_framework *framework; /* NULL: none */
    const struct lw_recommendation *r;
    const struct lw_progress *progress; /* NULL: silent */
    const struct lw_alike_step *alike;  /* intervals of the steps; NULL: none */
};

/* Each as a simulation of its own. LW_EFAILED: the progress asked to stop; those before are stored,
 * and the message says how many. */
enum lw_status lw_recommend_store(const struct lw_recommend_store *s, struct lw_err *err);
