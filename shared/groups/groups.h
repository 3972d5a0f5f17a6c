#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Ranks <-> coordinates, and the process groups of a run in creation order (every rank has to
 * create all of them in the same order). See docs/design/groups.md. */
struct lw_groups {
    struct lw_arena arena; /* owns everything below */
    int32_t n_ranks, n_groups;
    int32_t *first;      /* [n_groups + 1]: group g is members[first[g]] .. members[first[g+1]-1] */
    int32_t *members;    /* global ranks in group order */
    int32_t *group_of;   /* [n_ranks]: group of a rank; -1 = in none */
    int32_t *local_rank; /* [n_ranks]: its index there; -1 = in none */
};

void lw_groups_free(struct lw_groups *g);
int32_t lw_groups_size(const struct lw_groups *g, int32_t group);

/* Ranks on a grid: axis 0 varies fastest, rank = sum of coord[a] * (size[0] * ... * size[a-1]). */
enum { LW_RANK_AXES = 8 };
struct lw_rank_grid {
    int32_t n_axes;
    int32_t size[LW_RANK_AXES]; /* each >= 1 */
};
enum lw_status lw_rank_grid_size(const struct lw_rank_grid *grid, int32_t *n_ranks,
                                 struct lw_err *err);
/* How far apart the ranks are that differ by one on this axis. */
int32_t lw_rank_grid_stride(const struct lw_rank_grid *grid, int32_t axis);

/* Every rank in one group: those that differ only along the axes whose bit is set in `axes`. Groups
 * and their members count the lowest axis fastest (Megatron-LM megatron/core/parallel_state.py
 * RankGenerator@d98e8a64; ColossalAI's groups are those of its order). */
enum lw_status lw_groups_along(const struct lw_rank_grid *grid, uint32_t axes,
                               struct lw_groups *out, struct lw_err *err);

/* Axis numbers of the two rank orders. */
enum { LW_COLOSSAL_TENSOR, LW_COLOSSAL_PIPELINE, LW_COLOSSAL_DATA };
enum { LW_MEGATRON_TENSOR, LW_MEGATRON_DATA, LW_MEGATRON_PIPELINE };

/* tensor, data, pipeline from fast to slow: Megatron's default "tp-cp-ep-dp-pp" without the two
 * axes in between. */
enum lw_status lw_rank_grid_megatron(int32_t world, int32_t pipeline, int32_t tensor,
                                     struct lw_rank_grid *out, struct lw_err *err);

/* ColossalAI 96780e6: tensor, pipeline, data from fast to slow; the data size is derived, never
 * configured. LW_EINVAL when pipeline * tensor does not divide world. */
enum lw_status lw_rank_grid_colossal(int32_t world, int32_t pipeline, int32_t tensor,
                                     struct lw_rank_grid *out, struct lw_err *err);

/* The groups of ColossalAI. */
enum lw_colossal_groups {
    LW_COLOSSAL_GROUPS_DATA,
    LW_COLOSSAL_GROUPS_MODEL,
    LW_COLOSSAL_GROUPS_PIPELINE,
    LW_COLOSSAL_GROUPS_TENSOR,
};
enum lw_status lw_groups_colossal(const struct lw_rank_grid *grid, enum lw_colossal_groups kind,
                                  struct lw_groups *out, struct lw_err *err);

/* A module that lives on several stages of a pipeline (a tied embedding): for each pipeline group,
 * in creation order, its members at these stages, in the order given. LW_EINVAL: fewer than two
 * stages, a stage out of range or named twice. */
enum lw_status lw_groups_shared_module(const struct lw_rank_grid *grid, const int32_t *stages,
                                       int32_t n_stages, struct lw_groups *out, struct lw_err *err);

/* The rank that broadcasts the shared parameters to `rank` at start: the subgroup's first member.
 * In compat the reference system's subgroup[stages[0]]
 * (colossalai/nn/layer/wrapper/pipeline_wrapper.py): right only when that stage is 0; LW_EINVAL
 * where the index is beyond the subgroup, or the rank is not a member. */
enum lw_status lw_shared_module_source(const struct lw_groups *g, const int32_t *stages,
                                       int32_t rank, bool compat, int32_t *source,
                                       struct lw_err *err);
