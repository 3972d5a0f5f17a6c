/* Ranks and process groups: shared/groups/groups.h, with the examples of docs/design/groups.md. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/groups/groups.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 512 };

/* "0,2|1,3" */
static const char *shown(const struct lw_groups *g)
{
    static char text[1024];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < g->n_groups; i++)
        for (int32_t k = g->first[i]; k < g->first[i + 1]; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d",
                                   k > g->first[i] ? "," : i ? "|" : "", g->members[k]);
    return text;
}

TEST(colossal_orders_tensor_pipeline_data)
{
    static const char *const expected[] = {
        [LW_COLOSSAL_GROUPS_DATA] = "0,4|1,5|2,6|3,7",
        [LW_COLOSSAL_GROUPS_MODEL] = "0,1,2,3|4,5,6,7",
        [LW_COLOSSAL_GROUPS_PIPELINE] = "0,2|1,3|4,6|5,7",
        [LW_COLOSSAL_GROUPS_TENSOR] = "0,1|2,3|4,5|6,7",
    };
    struct lw_rank_grid grid;
    struct lw_groups g;
    struct lw_err err;

    assert_int_equal(lw_rank_grid_colossal(8, 2, 2, &grid, &err), LW_OK);
    assert_int_equal(grid.size[LW_COLOSSAL_DATA], 2);
    for (int k = LW_COLOSSAL_GROUPS_DATA; k <= LW_COLOSSAL_GROUPS_TENSOR; k++) {
        assert_int_equal(lw_groups_colossal(&grid, (enum lw_colossal_groups)k, &g, &err), LW_OK);
        assert_string_equal(shown(&g), expected[k]);
        lw_groups_free(&g);
    }
}

TEST(megatron_orders_tensor_data_pipeline)
{
    /* the example of Megatron's initialize_model_parallel: 16 GPUs, tensor 2, pipeline 4, data 2 */
    struct lw_rank_grid grid;
    struct lw_groups g;
    struct lw_err err;

    assert_int_equal(lw_rank_grid_megatron(16, 4, 2, &grid, &err), LW_OK);
    assert_int_equal(lw_groups_along(&grid, 1u << LW_MEGATRON_DATA, &g, &err), LW_OK);
    assert_string_equal(shown(&g), "0,2|1,3|4,6|5,7|8,10|9,11|12,14|13,15");
    lw_groups_free(&g);
    assert_int_equal(lw_groups_along(&grid, 1u << LW_MEGATRON_PIPELINE, &g, &err), LW_OK);
    assert_string_equal(shown(&g), "0,4,8,12|1,5,9,13|2,6,10,14|3,7,11,15");
    assert_int_equal(g.group_of[9], 1);
    assert_int_equal(g.local_rank[9], 2);
    lw_groups_free(&g);
}

TEST(sizes_that_do_not_divide_are_refused)
{
    struct lw_rank_grid grid;
    struct lw_err err;
    int32_t n;

    assert_int_equal(lw_rank_grid_colossal(12, 5, 2, &grid, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "12 ranks are not a multiple of 5 pipeline stages times 2 tensor ranks");
    assert_int_equal(lw_rank_grid_megatron(0, 1, 1, &grid, &err), LW_EINVAL);
    grid = (struct lw_rank_grid){2, {1 << 16, 1 << 16}};
    assert_int_equal(lw_rank_grid_size(&grid, &n, &err), LW_EINVAL);
    assert_string_equal(err.msg, "axis 1 of the grid has 65536 ranks, allowed: 1 or more, the "
                                 "product below 2^31");
}

static int32_t coord_of(const struct lw_rank_grid *grid, int32_t rank, int32_t axis)
{
    return rank / lw_rank_grid_stride(grid, axis) % grid->size[axis];
}

TEST(groups_partition_the_ranks_and_agree_with_coordinates)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 500; i++) {
        struct lw_rank_grid grid = {.n_axes = (int32_t)prng_in(&r, 1, 4)};
        uint32_t axes = (uint32_t)prng_in(&r, 0, 15);
        struct lw_groups g;
        struct lw_err err;
        int32_t n, seen[N_MAX] = {0};
        for (int32_t k = 0; k < grid.n_axes; k++)
            grid.size[k] = (int32_t)prng_in(&r, 1, 4);
        assert_int_equal(lw_rank_grid_size(&grid, &n, &err), LW_OK);
        assert_int_equal(lw_groups_along(&grid, axes, &g, &err), LW_OK);
        for (int32_t k = 0; k < g.n_groups; k++) {
            if (k > 0) /* creation order: ascending first members */
                assert_true(g.members[g.first[k]] > g.members[g.first[k - 1]]);
            for (int32_t m = g.first[k]; m < g.first[k + 1]; m++) {
                int32_t rank = g.members[m];
                seen[rank]++;
                assert_int_equal(g.group_of[rank], k);
                assert_int_equal(g.local_rank[rank], m - g.first[k]);
                for (int32_t x = 0; x < grid.n_axes; x++)
                    if (!(axes >> x & 1))
                        assert_int_equal(coord_of(&grid, rank, x),
                                         coord_of(&grid, g.members[g.first[k]], x));
            }
        }
        for (int32_t k = 0; k < n; k++)
            assert_int_equal(seen[k], 1);
        lw_groups_free(&g);
    }
}

TEST(a_shared_module_takes_the_stages_in_the_given_order)
{
    static const int32_t stages[] = {3, 0};
    struct lw_rank_grid grid;
    struct lw_groups g;
    struct lw_err err;
    int32_t source;

    /* 8 ranks, 4 stages of 2 tensor ranks: pipelines 0 2 4 6 and 1 3 5 7 */
    lw_rank_grid_colossal(8, 4, 2, &grid, &err);
    assert_int_equal(lw_groups_shared_module(&grid, stages, 2, &g, &err), LW_OK);
    assert_string_equal(shown(&g), "6,0|7,1");
    assert_int_equal(lw_shared_module_source(&g, stages, 0, false, &source, &err), LW_OK);
    assert_int_equal(source, 6);
    assert_int_equal(lw_shared_module_source(&g, stages, 2, false, &source, &err), LW_EINVAL);
    assert_string_equal(err.msg, "rank 2 does not hold the shared module");
    lw_groups_free(&g);
}

TEST(compat_indexes_the_subgroup_by_stage_number)
{
    static const int32_t middle[] = {1, 2}, last[] = {2, 3};
    struct lw_rank_grid grid;
    struct lw_groups g;
    struct lw_err err;
    int32_t source;

    lw_rank_grid_colossal(4, 4, 1, &grid, &err);
    assert_int_equal(lw_groups_shared_module(&grid, middle, 2, &g, &err), LW_OK);
    assert_int_equal(lw_shared_module_source(&g, middle, 1, true, &source, &err), LW_OK);
    assert_int_equal(source, 2); /* subgroup[1] of (1, 2) */
    assert_int_equal(lw_shared_module_source(&g, middle, 1, false, &source, &err), LW_OK);
    assert_int_equal(source, 1);
    lw_groups_free(&g);
    assert_int_equal(lw_groups_shared_module(&grid, last, 2, &g, &err), LW_OK);
    assert_int_equal(lw_shared_module_source(&g, last, 3, true, &source, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "ColossalAI takes member 2 (its stage number) of a subgroup of 2 as "
                        "source of the shared module: it stops with an index error");
    lw_groups_free(&g);
}

TEST(shared_modules_need_two_different_stages)
{
    static const int32_t one[] = {0}, twice[] = {1, 1}, far[] = {0, 4};
    struct lw_rank_grid grid;
    struct lw_groups g;
    struct lw_err err;

    lw_rank_grid_colossal(4, 4, 1, &grid, &err);
    assert_int_equal(lw_groups_shared_module(&grid, one, 1, &g, &err), LW_EINVAL);
    assert_string_equal(err.msg, "a shared module on 1 stage(s), allowed: 2 or more");
    assert_int_equal(lw_groups_shared_module(&grid, twice, 2, &g, &err), LW_EINVAL);
    assert_string_equal(err.msg, "a shared module on stage 1 twice");
    assert_int_equal(lw_groups_shared_module(&grid, far, 2, &g, &err), LW_EINVAL);
    assert_string_equal(err.msg, "a shared module on stage 4, allowed: 0 to 3");
}

TEST(failing_allocations_leak_nothing)
{
    static const int32_t stages[] = {0, 1};
    struct lw_rank_grid grid = {3, {1, 2, 2}};
    struct lw_groups g = {.n_ranks = -7};
    struct lw_err err;

    EACH_ALLOCATION_FAILS(1, lw_groups_along(&grid, 2, &g, &err), g, lw_groups_free(&g));
    g = (struct lw_groups){.n_ranks = -7};
    EACH_ALLOCATION_FAILS(1, lw_groups_shared_module(&grid, stages, 2, &g, &err), g,
                          lw_groups_free(&g));
}
