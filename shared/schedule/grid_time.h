#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/schedule/schedule.h"

/* Durations of actions, alike at all stages, in one unit of time; B takes i + w, a unit of two
 * actions the sum of both unless `pair` says what it takes. */
struct lw_grid_costs {
    int64_t f, i, w;
    int64_t comm;    /* from one rank to another */
    int64_t pair;    /* a unit of two; 0 = the sum of both */
    bool early;      /* what the first of a unit makes is there before the second has run */
};
/* LW_EINVAL for negative durations. */
enum lw_status lw_grid_costs_check(const struct lw_grid_costs *c, struct lw_err *err);

/* When everything happens if each rank runs its actions in order, each as soon as what it needs is
 * there; sends cost their rank nothing, links are never contended. */
struct lw_grid_times {
    struct lw_arena arena;      /* owns everything below */
    int64_t *start, *end;       /* [n_actions] */
    /* [n_actions] place in an order in which each follows what it needs */
    int32_t *turn;
    int64_t makespan;           /* end of the last action */
    int64_t longest_rank;       /* most time from a rank's first start to its last end */
    int32_t *peak_until_input;  /* [n_ranks] most (stage, micro-batch) with F and without I or B */
    int32_t *peak_until_weight; /* [n_ranks] most with F and without W or B */
};
void lw_grid_times_free(struct lw_grid_times *t);

/* The grid must pass lw_grid_check. LW_EINVAL as lw_grid_costs_check, LW_EPLAN for a grid in which
 * an action never runs. */
enum lw_status lw_grid_time(const struct lw_grid *g, const struct lw_grid_costs *costs,
                            struct lw_grid_times *out, struct lw_err *err);
