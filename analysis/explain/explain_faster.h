#pragma once

#include "analysis/explain/path_bound.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/cost.h"
#include "sim/timing/sim_options.h"

/* What a resource that is a tenth faster would shorten the step by. */

enum { LW_FASTER_WORKS = 3 };

enum lw_faster_how {
    LW_FASTER_SIMULATED, /* the plan simulated again */
    LW_FASTER_AT_MOST,   /* an eleventh of what it bounds on the path: another path may be next */
};

struct lw_faster {
    enum lw_resource resource;
    int32_t op, n_ops;   /* a work, by one of its ops, and its ops on the path; op -1 = all works */
    lw_ps time, bound;   /* on the path; of it bound by the resource */
    lw_ps shorter;       /* the step; < 0: longer, as schedules can become */
    enum lw_faster_how how;
};

enum { LW_MAX_FASTER = LW_N_RESOURCES * (1 + LW_FASTER_WORKS) };

const char *lw_resource_name(int r); /* for people: "clock" */
const char *lw_faster_word(int how); /* "simulated", "at_most" */

/* Of each resource all works and then the LW_FASTER_WORKS of which it bounds most on the path.
 * cluster NULL: nothing is simulated. out holds LW_MAX_FASTER. LW_ENOMEM, or as lw_sim_run. */
enum lw_status lw_explain_faster(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                 const struct lw_path_bounds *b, struct lw_faster *out, int *n,
                                 struct lw_err *err);

/* The step of the plan at collective detail without noise; cost NULL: the cluster's.
 * exposed_comm of its slowest rank; stats: what timed its ops; NULL: not asked for. */
enum lw_status lw_explain_simulate(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                   const struct lw_cost *cost, lw_ps *step, lw_ps *exposed_comm,
                                   struct lw_sim_stats *stats, struct lw_err *err);
