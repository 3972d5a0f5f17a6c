#pragma once

#include "analysis/published/run_table.h"

/* Figures of frameworks and clusters that are fitted on published runs.
 * analysis/published/fit_figures.py finds them on a part of each table and prints the error of the
 * rest, except of those that are chosen by hand on all rows that they concern. */
enum lw_run_figure_kind {
    LW_RUN_HOST_OP,           /* us of the host per kernel */
    LW_RUN_TRAFFIC,           /* bytes that kernels without products move, against those counted */
    LW_RUN_HOST_TENSOR,       /* us of the host per collective and rank of a tensor group that
                               * spans nodes */
    LW_RUN_HOST_TENSOR_STAGE, /* the same where messages between stages cross nodes, any group */
    LW_RUN_MEMORY_OP,         /* us of a kernel without products, beside its bytes and a launch */
    LW_RUN_NETWORK,           /* of the line rate of a node's ports, what its messages reach */
    /* Pipelines whose hosts sleep between stages (run_parts.c): */
    LW_RUN_POLL_DEVICES,       /* all on at least so many devices */
    LW_RUN_POLL_GROUP,         /* all with tensor groups of at least so many ranks */
    LW_RUN_POLL_LARGE_DEVICES, /* on so many devices with micro-batches of several samples, */
    LW_RUN_POLL_LARGE_HIDDEN,  /* where the hidden size is at least this */
    /* What a host that is ahead of the device holds (run_memory.c): */
    LW_RUN_HELD,       /* whole inputs */
    LW_RUN_HELD_FEW,   /* the same of a step of one micro-batch, and of the first of many stages */
    LW_RUN_HELD_SHARE, /* of the step, the device's own time above which the host is ahead */
};

struct lw_run_figure {
    const char *of; /* part of the framework's name or of the nodes' state, or the cluster's name */
    enum lw_run_figure_kind kind;
    const char *name, *unit;
    double value;
    const char *fitted_on;
    int32_t n_rows; /* of fitted_on; 0: stated by it, not fitted */
    bool by_hand;   /* chosen on all n_rows rows, none of which is left out */
};

/* Fitted figures at most, of one framework and of one cluster. */
enum { LW_RUN_FRAMEWORK_FIGURES = 1, LW_RUN_CLUSTER_FIGURES = 3 };

/* Figure k of all, NULL beyond the last. */
const struct lw_run_figure *lw_run_figure_at(int k);
/* The first one of the run's framework, of its nodes' state or of its cluster; NULL: none. */
const struct lw_run_figure *lw_run_figure_of(const struct lw_run *run,
                                             enum lw_run_figure_kind kind);
/* Number of fitted figures that share f's owner. */
int32_t lw_run_figures_beside(const struct lw_run_figure *f);
/* Its value, `otherwise` where there is none. What the run's `figures` say takes precedence. */
double lw_run_figure(const struct lw_run *run, enum lw_run_figure_kind kind, double otherwise);
/* "OF KIND=VALUE;...": LW_EINVAL for a figure that there is not. */
enum lw_status lw_run_figures_check(const char *list, struct lw_err *err);
/* Name of the known system that the run's device and network are of, NULL: none. */
const char *lw_run_cluster(const struct lw_run *run);
