#pragma once

#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"

/* What makes training runs alike for the error of a prediction. */
enum lw_parallelism {
    LW_PARALLEL_NONE,    /* one device */
    LW_PARALLEL_DATA,    /* replicas, ZeRO-1 and ZeRO-2 too: every rank holds the parameters */
    LW_PARALLEL_SHARDED, /* ZeRO-3, FSDP */
    LW_PARALLEL_MODEL,   /* tensor, pipeline or context groups */
    LW_PARALLEL_EXPERTS, /* a model with experts */
    LW_N_PARALLEL,
};
const char *lw_parallelism_name(enum lw_parallelism p); /* "sharded" */

enum { LW_ALIKE_PARTS = 4 };
/* The order in which parts may differ: the last first. */
struct lw_alike_key {
    const char *part[LW_ALIKE_PARTS]; /* framework, device, parallelism, network */
    /* The name alone is a known one's: its figures were edited or measured. No run is like it. */
    bool other_figures[LW_ALIKE_PARTS]; /* of framework, device */
    /* No transformer, or a CPU: measured runs with the same parallelism alone say nothing of it. */
    bool is_foreign;
};
const char *lw_alike_part_name(int part); /* "framework" */

/* A job, of a plan or of what makes one. */
struct lw_alike_job {
    const struct lw_strategy *strategy;
    int64_t n_ranks;
    bool transformer, experts; /* of its model */
};
struct lw_alike_job lw_alike_job_of(const struct lw_plan *p);

/* network: "InfiniBand", "EFA", ... of a job on several nodes, "NVLink", ... of one on one node;
 * the name of the link where no kind is in it. Texts are the arguments', or static. framework: NULL
 * or without a name where there is none. cluster: as a prediction leaves it, with its devices per
 * node (lw_cluster_place). */
struct lw_alike_key lw_alike_key_of(const struct lw_alike_job *job,
                                    const struct lw_cluster *cluster,
                                    const struct lw_framework *framework);
