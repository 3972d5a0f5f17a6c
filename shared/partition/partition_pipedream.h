#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* PipeDream's hierarchical planner: stages with replication over levels of machines (a machine's
 * devices, then machines, ...). Works on the states of the model: state j means "everything up to
 * the antichain j was computed"; in a chain of layers state j is layer j. Times and sizes are
 * doubles, as in the reference system: its ties are decided by their last bit. */
struct lw_pipedream_state {
    double time_s;                  /* forward + backward of all work up to and with this state */
    double activation_bytes;        /* kept by all work up to and with this state */
    double parameter_bytes;         /* of all work up to and with this state */
    double output_bytes;            /* activation that crosses a cut after this state */
    int32_t first_before, n_before; /* into `before`: states that must be complete earlier */
};

struct lw_pipedream_level {
    int32_t n_machines; /* of the level below, joined by this level's links */
    double bandwidth;   /* bytes per second */
};

struct lw_pipedream_problem {
    int32_t n_states, n_levels;
    const struct lw_pipedream_state *states; /* in topological order */
    const int32_t *before;                   /* NULL: a chain, every earlier state comes before */
    const struct lw_pipedream_level *levels; /* innermost first */
    bool straight;                           /* one machine per stage */
    double memory_bytes;                     /* per machine; 0 = not considered */
    double compression; /* of activations; 0 = activation transfer is not considered, as in
                         * the reference system without this option */
};

/* One stage as the planner reports it: states begin .. end-1 on `replicas` machines of `level`,
 * their computing time by the prefix sums (before the replicas share it). */
struct lw_pipedream_stage {
    int32_t level, begin, end, replicas;
    double time_s;
};

struct lw_pipedream_plan {
    int32_t n_stages;
    struct lw_pipedream_stage *stages; /* outermost level first; within a level from the input on;
                                        * the innermost level's stages are the plan's partition */
    double pipeline_s;                 /* time of the slowest stage on all machines */
};

void lw_pipedream_free(struct lw_pipedream_plan *p);

/* LW_EINVAL: no states, no level, a level without machines or bandwidth, values below 0 or not
 * finite, `before` out of order; LW_ENO: no assignment satisfies the constraints.
 * O(n_levels n_states^3 machines^2) time, O(n_states^2 machines) memory per level. */
enum lw_status lw_pipedream_plan(const struct lw_pipedream_problem *p,
                                 struct lw_pipedream_plan *out, struct lw_err *err);
