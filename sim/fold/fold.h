#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "sim/engine/rank_classes.h"

struct lw_sim_options;

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
/* Borrows all from the plan but room for so many groups and members, and the ranks, which are the
 * classes; no groups yet. */
enum lw_status sim_fold_begin_plan(const struct lw_plan *plan, int64_t n_groups, int64_t n_members,
                                   struct lw_arena *arena, struct sim_fold *f, struct lw_err *err);

/* fold_grid.c: the same as sim_fold_plan where a class is a role of a grid. */
enum lw_status sim_fold_grid_plan(const struct lw_plan *plan, struct lw_arena *arena,
                                  struct sim_fold *f, struct lw_err *err);
