#pragma once

#include "analysis/study/recommend_print.h"
#include "shared/cli/plan_source.h"

struct lw_recommend_inputs {
    struct lw_plan_source *source;
    struct lw_strategy strategy;
    struct lw_workload workload;
    struct lw_cluster cluster;
};

/* Before the workload is read: --ranks as data parallelism, which --global-batch needs to know. */
enum lw_status lw_recommend_take_ranks(struct lw_recommend_inputs *s, struct lw_err *err);
/* The workload from traces, from a workload file or from a model, and the ranks: as many as were
 * requested, were recorded, or the cluster has (one node of an open one). A model is made for
 * them. */
enum lw_status lw_recommend_read(struct lw_recommend_inputs *s, struct lw_recommend_report *report,
                                 char **files, int n, struct lw_err *err);
/* Those of the database `file`, where there is one, for this cluster. */
enum lw_status lw_recommend_past_errors(const char *file, const struct lw_cluster *cluster,
                                        struct lw_recommend_report *report, struct lw_err *err);
