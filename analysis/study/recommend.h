#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/base/progress.h"
#include "shared/cluster/cluster.h"
#include "shared/numbers/units.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"
#include "sim/predict/sim.h"

/* The best bucket cap of a workload on a cluster, by simulating every bucketing that a cap can
 * make, or, when those are too many, a grid of them and then all near the best. See
 * docs/design/recommend.md. */

struct lw_framework;

/* One bucketing: all caps from low to high bytes make it. */
struct lw_cap_point {
    int64_t cap_bytes;             /* the roundest of them; -1 = the policy's default */
    int64_t low_bytes, high_bytes;
    int32_t n_buckets;
    lw_ps step, exposed_comm;      /* -1 = not simulated */
    int64_t peak_memory_bytes;     /* of the largest rank; -1 = not simulated, or not known */
    /* As the framework holds it: what the fullest rank takes of its device, and what the allocator
     * needs of it at least; -1 where the peak is. */
    int64_t device_bytes, needed_bytes;
};

enum lw_cap_source { LW_CAP_GIVEN, LW_CAP_RECORDED, LW_CAP_DEFAULT };

struct lw_recommendation {
    struct lw_cap_point *points;   /* ascending; free with lw_recommendation_free */
    int32_t n_points, n_simulated;
    int32_t best;                  /* into points; -1 = nothing beats the reference */
    bool exhaustive;               /* every bucketing was simulated */
    bool interrupted;              /* a signal ended the search: the best of what was simulated */
    struct lw_cap_point reference; /* what it is compared with */
    struct lw_strategy reference_strategy;
    enum lw_cap_source source;
    int32_t n_remarks; /* of the reference's simulation */
    char remarks[LW_SIM_MAX_REMARKS][280];
};

/* framework: what holds memory beside the plan's tensors; NULL: nothing does.
 * strategy: everything but the cap; its own cap, where it is set, is the reference, else the limits
 * that the workload was recorded with, else the policy's default. cost may be NULL (policies that
 * need one refuse). LW_EINVAL: one data-parallel rank; else as lw_plan_build and lw_sim_run. */
enum lw_status lw_recommend(const struct lw_workload *w, const struct lw_strategy *strategy,
                            const struct lw_cluster *cluster, const struct lw_framework *framework,
                            const struct lw_progress *progress, struct lw_recommendation *out,
                            struct lw_err *err);
void lw_recommendation_free(struct lw_recommendation *r);

/* How far the reference is after the best; 0 when nothing beats it. */
lw_ps lw_recommendation_gain(const struct lw_recommendation *r);
const char *lw_cap_source_name(enum lw_cap_source s); /* "given", "recorded", "default" */
