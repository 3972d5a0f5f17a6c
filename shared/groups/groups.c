/* Process groups and ranks.
 *
 * Invariants: ranks lie on a grid whose first axis varies fastest; the groups along a set of axes
 * partition the ranks; groups and members are numbered with the lowest axis fastest, which is the
 * creation order of both reference systems (checked for ColossalAI by its own answers).
 *
 * Sources: Megatron-LM megatron/core/parallel_state.py@d98e8a64, ColossalAI
 * colossalai/context/process_group_initializer/ and nn/layer/wrapper/pipeline_wrapper.py@96780e6.
 */
#include "shared/groups/groups.h"

#include <string.h>

LW_FREE_BY_ARENA(lw_groups_free, struct lw_groups)

int32_t lw_groups_size(const struct lw_groups *g, int32_t group)
{
    return g->first[group + 1] - g->first[group];
}

enum lw_status lw_rank_grid_size(const struct lw_rank_grid *grid, int32_t *n_ranks,
                                 struct lw_err *err)
{
    int32_t n = 1;

    if (grid->n_axes < 1 || grid->n_axes > LW_RANK_AXES)
        return lw_fail(err, LW_EINVAL, "a grid of %d axes, allowed: 1 to %d", grid->n_axes,
                       LW_RANK_AXES);
    for (int32_t a = 0; a < grid->n_axes; a++)
        if (grid->size[a] < 1 || __builtin_mul_overflow(n, grid->size[a], &n))
            return lw_fail(
                err, LW_EINVAL,
                "axis %d of the grid has %d ranks, allowed: 1 or more, the product below "
                "2^31",
                a, grid->size[a]);
    *n_ranks = n;
    return LW_OK;
}

int32_t lw_rank_grid_stride(const struct lw_rank_grid *grid, int32_t axis)
{
    int32_t stride = 1;

    for (int32_t a = 0; a < axis; a++)
        stride *= grid->size[a];
    return stride;
}

static enum lw_status alloc_groups(struct lw_groups *g, int32_t n_ranks, int32_t n_groups,
                                   int32_t n_members, struct lw_err *err)
{
    *g = (struct lw_groups){.n_ranks = n_ranks, .n_groups = n_groups};
    g->first = lw_arena_alloc(&g->arena, (int64_t)n_groups + 1, sizeof *g->first);
    g->members = lw_arena_alloc(&g->arena, n_members, sizeof *g->members);
    g->group_of = lw_arena_alloc(&g->arena, n_ranks, sizeof *g->group_of);
    g->local_rank = lw_arena_alloc(&g->arena, n_ranks, sizeof *g->local_rank);
    if (!g->first || !g->members || !g->group_of || !g->local_rank) {
        lw_groups_free(g);
        return lw_fail_nomem(err);
    }
    for (int32_t r = 0; r < n_ranks; r++)
        g->group_of[r] = g->local_rank[r] = -1;
    return LW_OK;
}

static void put(struct lw_groups *g, int32_t group, int32_t local, int32_t rank)
{
    g->members[g->first[group] + local] = rank;
    g->group_of[rank] = group;
    g->local_rank[rank] = local;
}

enum lw_status lw_groups_along(const struct lw_rank_grid *grid, uint32_t axes,
                               struct lw_groups *out, struct lw_err *err)
{
    struct lw_groups g;
    int32_t n_ranks, size = 1;

    LW_TRY(lw_rank_grid_size(grid, &n_ranks, err));
    for (int32_t a = 0; a < grid->n_axes; a++)
        size *= axes >> a & 1 ? grid->size[a] : 1;
    LW_TRY(alloc_groups(&g, n_ranks, n_ranks / size, n_ranks, err));
    for (int32_t k = 0; k <= g.n_groups; k++)
        g.first[k] = k * size;
    for (int32_t rank = 0; rank < n_ranks; rank++) {
        int32_t group = 0, local = 0, group_step = 1, local_step = 1, rest = rank;
        for (int32_t a = 0; a < grid->n_axes; a++) {
            bool inside = axes >> a & 1;
            int32_t *number = inside ? &local : &group, *step = inside ? &local_step : &group_step;
            *number += rest % grid->size[a] * *step;
            *step *= grid->size[a];
            rest /= grid->size[a];
        }
        put(&g, group, local, rank);
    }
    *out = g;
    return LW_OK;
}

static enum lw_status derive_data(int32_t world, int32_t pipeline, int32_t tensor, int32_t *data,
                                  struct lw_err *err)
{
    if (world < 1 || pipeline < 1 || tensor < 1)
        return lw_fail(err, LW_EINVAL,
                       "%d ranks, %d pipeline stages, %d tensor ranks, allowed: 1 or more of each",
                       world, pipeline, tensor);
    if (world % ((int64_t)pipeline * tensor) != 0)
        return lw_fail(err, LW_EINVAL,
                       "%d ranks are not a multiple of %d pipeline stages times %d tensor ranks",
                       world, pipeline, tensor);
    *data = world / pipeline / tensor;
    return LW_OK;
}

enum lw_status lw_rank_grid_megatron(int32_t world, int32_t pipeline, int32_t tensor,
                                     struct lw_rank_grid *out, struct lw_err *err)
{
    int32_t data;

    LW_TRY(derive_data(world, pipeline, tensor, &data, err));
    *out = (struct lw_rank_grid){3, {tensor, data, pipeline}};
    return LW_OK;
}

enum lw_status lw_rank_grid_colossal(int32_t world, int32_t pipeline, int32_t tensor,
                                     struct lw_rank_grid *out, struct lw_err *err)
{
    int32_t data;

    LW_TRY(derive_data(world, pipeline, tensor, &data, err));
    *out = (struct lw_rank_grid){3, {tensor, pipeline, data}};
    return LW_OK;
}

enum lw_status lw_groups_colossal(const struct lw_rank_grid *grid, enum lw_colossal_groups kind,
                                  struct lw_groups *out, struct lw_err *err)
{
    static const uint32_t axes[] = {
        [LW_COLOSSAL_GROUPS_DATA] = 1u << LW_COLOSSAL_DATA,
        [LW_COLOSSAL_GROUPS_MODEL] = 1u << LW_COLOSSAL_TENSOR | 1u << LW_COLOSSAL_PIPELINE,
        [LW_COLOSSAL_GROUPS_PIPELINE] = 1u << LW_COLOSSAL_PIPELINE,
        [LW_COLOSSAL_GROUPS_TENSOR] = 1u << LW_COLOSSAL_TENSOR,
    };

    return lw_groups_along(grid, axes[kind], out, err);
}

static enum lw_status check_stages(const struct lw_rank_grid *grid, const int32_t *stages,
                                   int32_t n, struct lw_err *err)
{
    int32_t most = grid->size[LW_COLOSSAL_PIPELINE];

    if (n < 2)
        return lw_fail(err, LW_EINVAL, "a shared module on %d stage(s), allowed: 2 or more", n);
    for (int32_t i = 0; i < n; i++) {
        if (stages[i] < 0 || stages[i] >= most)
            return lw_fail(err, LW_EINVAL, "a shared module on stage %d, allowed: 0 to %d",
                           stages[i], most - 1);
        for (int32_t j = 0; j < i; j++)
            if (stages[j] == stages[i])
                return lw_fail(err, LW_EINVAL, "a shared module on stage %d twice", stages[i]);
    }
    return LW_OK;
}

enum lw_status lw_groups_shared_module(const struct lw_rank_grid *grid, const int32_t *stages,
                                       int32_t n_stages, struct lw_groups *out, struct lw_err *err)
{
    struct lw_groups pipeline, g;

    LW_TRY(check_stages(grid, stages, n_stages, err));
    LW_TRY(lw_groups_colossal(grid, LW_COLOSSAL_GROUPS_PIPELINE, &pipeline, err));
    enum lw_status status =
        alloc_groups(&g, pipeline.n_ranks, pipeline.n_groups, pipeline.n_groups * n_stages, err);
    if (status == LW_OK) {
        for (int32_t k = 0; k < g.n_groups; k++) {
            g.first[k + 1] = g.first[k] + n_stages;
            for (int32_t i = 0; i < n_stages; i++)
                put(&g, k, i, pipeline.members[pipeline.first[k] + stages[i]]);
        }
        *out = g;
    }
    lw_groups_free(&pipeline);
    return status;
}

enum lw_status lw_shared_module_source(const struct lw_groups *g, const int32_t *stages,
                                       int32_t rank, bool compat, int32_t *source,
                                       struct lw_err *err)
{
    int32_t group = rank >= 0 && rank < g->n_ranks ? g->group_of[rank] : -1;
    int32_t index = compat ? stages[0] : 0;

    if (group < 0)
        return lw_fail(err, LW_EINVAL, "rank %d does not hold the shared module", rank);
    if (index >= lw_groups_size(g, group))
        return lw_fail(err, LW_EINVAL,
                       "ColossalAI takes member %d (its stage number) of a subgroup of %d as "
                       "source of the shared module: it stops with an index error",
                       index, lw_groups_size(g, group));
    *source = g->members[g->first[group] + index];
    return LW_OK;
}
