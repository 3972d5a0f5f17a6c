#ifndef LW_SIM_FOLD_FOLD_H
#define LW_SIM_FOLD_FOLD_H

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/plan/cluster.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "sim/predict/sim.h"

/* Ranks that are alike, simulated once: see docs/design/folding.md. A class is a set of ranks whose
 * ops all start and end at the same times; classes count in the order of their lowest ranks. */
struct sim_fold {
    int32_t n_ranks, n_classes;
    int32_t *class_of;   /* [n_ranks] */
    int32_t *rank_of;    /* [n_classes]: the lowest rank */
    int32_t *n_alike;    /* [n_classes]: ranks of it */
    int32_t *group_of;   /* [groups of the quotient]: the group of the plan it stands for */
    struct lw_plan plan; /* the quotient: ranks are classes, a group holds each class once. Borrows
                          * from the plan; operands still name its ranks */
};

/* Fold a plan for a run; memory is the arena's. n_classes is 0 where nothing is alike, where the
 * run draws something else for every rank, or where messages are not matched: then simulate the
 * plan. */
enum lw_status sim_fold_make(const struct lw_plan *plan, const struct lw_cluster *cluster,
                             const struct lw_sim_options *options, struct lw_arena *arena,
                             struct sim_fold *out, struct lw_err *err);

/* fold_plan.c: fill `plan` and `group_of` of a fold with classes. signature[n_groups]: equal for
 * groups of a communicator that become one; -1 = of no communicator. */
enum lw_status sim_fold_plan(const struct lw_plan *plan, const int64_t *signature,
                             struct lw_arena *arena, struct sim_fold *f, struct lw_err *err);

#endif
