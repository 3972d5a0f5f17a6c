/* Whole shards of a plan that holds runs: for who changes them, or finds one by its number. */
#include "shared/plan/shard_runs.h"

enum lw_status lw_plan_write_shards(const struct lw_plan *p, struct lw_arena *room,
                                    struct lw_shard **shards, struct lw_err *err)
{
    int64_t at = 0;

    *shards = p->shards;
    if (p->shards || p->n_shard_runs == 0)
        return LW_OK;
    LW_TAKE(room, *shards, p->n_shards, err);
    for (int32_t r = 0; r < p->n_shard_runs; r++)
        for (int32_t i = 0; i < p->shard_runs[r].n; i++)
            (*shards)[at++] = lw_shard_of_run(&p->shard_runs[r], i);
    return LW_OK;
}
