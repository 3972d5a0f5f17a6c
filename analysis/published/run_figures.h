#pragma once

#include "analysis/published/run_table.h"

/* Figures of frameworks and clusters that are fitted on published runs: at most one of a
 * framework, three of a cluster. analysis/published/fit_figures.py finds them on a part of each
 * table and prints the error of the rest. */
enum lw_run_figure_kind {
    LW_RUN_HOST_OP,           /* us of the host per kernel */
    LW_RUN_TRAFFIC,           /* bytes that kernels without products move, against those counted */
    LW_RUN_HOST_TENSOR,       /* us of the host per collective and rank of a tensor group that
                               * spans nodes */
    LW_RUN_HOST_TENSOR_STAGE, /* the same where messages between stages cross nodes, any group */
    LW_RUN_MEMORY_OP,         /* us of a kernel without products, beside its bytes and a launch */
    LW_RUN_NETWORK,           /* of the line rate of a node's ports, what its messages reach */
};

struct lw_run_figure {
    const char *of; /* part of the framework's name or of the nodes' state, or the cluster's name */
    enum lw_run_figure_kind kind;
    const char *name, *unit;
    double value;
    const char *fitted_on;
    int32_t n_rows; /* of fitted_on; 0: stated by it, not fitted */
};

/* Figure k of all, NULL beyond the last. */
const struct lw_run_figure *lw_run_figure_at(int k);
bool lw_run_figure_is_of(const struct lw_run_figure *f, const struct lw_run *run);
/* Of the run's framework or cluster, `otherwise` where none is fitted. What the run's `figures`
 * say takes precedence. */
double lw_run_figure(const struct lw_run *run, enum lw_run_figure_kind kind, double otherwise);
/* "OF KIND=VALUE;...": LW_EINVAL for a figure that there is not. */
enum lw_status lw_run_figures_check(const char *list, struct lw_err *err);
/* Name of the known system that the run's device and network are of, NULL: none. */
const char *lw_run_cluster(const struct lw_run *run);
