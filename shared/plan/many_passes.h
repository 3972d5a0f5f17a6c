#pragma once

#include "shared/base/arena.h"
#include "shared/plan/plan.h"

/* Refuses more steps than can be simulated or run in sensible time: of all ops of all ranks, or
 * those of the rank that has most. LW_EINVAL: more than `most` ops; the message tells about how
 * many they are, what they would take (`each` of one, and `bytes` where a row of it is kept), and
 * how many steps or passes are the most. Eight passes are never too many. LW_EPLAN: no pass ends a
 * step. n_passes becomes the passes of n_steps. */
struct lw_many_passes {
    bool of_a_rank;
    int64_t n_steps, n_warmup; /* n_steps has n_warmup that --steps does not count */
    int64_t most;
    lw_ps each;
    int64_t bytes;
    const char *what; /* "simulated", "run by a rank" */
};

enum lw_status lw_plan_check_passes(const struct lw_plan *p, const struct lw_many_passes *m,
                                    struct lw_arena *arena, int32_t *n_passes,
                                    struct lw_err *err);
/* Steps before the one that repeats, and the first of that kind. */
int32_t lw_plan_warmup_steps(const struct lw_plan *plan);
