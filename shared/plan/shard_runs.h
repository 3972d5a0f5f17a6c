#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Shards of a plan, run by run. Plans of LW_GRID_LARGE ranks hold runs: an even split over a data
 * group of 16,384 is one of them. Whole shards are runs of one each. */

static inline int32_t lw_n_shard_runs(const struct lw_plan *p)
{
    return p->shards ? p->n_shards : p->n_shard_runs;
}

static inline struct lw_shard_run lw_shard_run_at(const struct lw_plan *p, int32_t run)
{
    return p->shards ? (struct lw_shard_run){p->shards[run], 1} : p->shard_runs[run];
}

/* Shard i of a run. */
static inline struct lw_shard lw_shard_of_run(const struct lw_shard_run *x, int32_t i)
{
    struct lw_shard h = x->first;

    h.owner += i;
    h.first += i * h.numel;
    return h;
}

/* The end of the last shard. */
static inline int64_t lw_shard_run_end(const struct lw_shard_run *x)
{
    return x->first.first + x->n * x->first.numel;
}

/* *shards: whole ones, in `room` where the plan has runs. */
enum lw_status lw_plan_write_shards(const struct lw_plan *p, struct lw_arena *room,
                                    struct lw_shard **shards, struct lw_err *err);
