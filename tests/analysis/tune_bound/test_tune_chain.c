/* The longest chain of two stages, computed by hand. */
#include "tests/lib/unit.h"

#include "analysis/tune_bound/tune_chain.h"

/* docs/design/tune.md: 1F1B of two micro-batches, F = 1, B = 2, messages of 1. From rank 1: F0 0-1,
 * B0 1-3, F1 3-4, B1 4-6; rank 0 has the second gradient at 7, and ends at 9. From rank 0: F1 ends
 * at 2, rank 1 begins at 2 and ends at 8, rank 0 at 11. Without messages: 8 from rank 1. */
TEST(messages_of_two_stages)
{
    const struct lw_schedule_shape shape = {.schedule = LW_SCHEDULE_1F1B, .n_ranks = 2,
                                            .n_micro_batches = 2, .n_chunks = 1};
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 2},
                                          {.forward = 1, .backward = 2}};
    const int32_t first[] = {0, 1, 2}, held[] = {0, 1}, before[] = {2, 1}, first_back[] = {0, 1},
                  halves[] = {0, 0};
    const lw_ps none[] = {0, 0}, reduce[] = {0, 7}, after[] = {2, 2}, message[] = {1, 0};
    struct lw_tune_parts p = {.n_parts = 2, .n_ranks = 2, .part = part, .first = first,
                              .held = held, .optimizer = none, .reduce = none, .after = after,
                              .data = none, .ahead = none, .gather = none, .before = before,
                              .first_back = first_back, .halves = halves, .n_micro_batches = 2};
    struct lw_tune_chain chain;
    struct lw_arena arena = {0};
    struct lw_grid grid;
    struct lw_err err = {0};
    lw_ps bound = 0;

    assert_int_equal(lw_schedule_grid(&shape, &grid, &err), LW_OK);
    assert_int_equal(lw_tune_chain_make(&grid, &arena, &chain, &err), LW_OK);
    assert_int_equal(chain.n, 8);
    assert_int_equal(lw_tune_chain_bound(&chain, &p, message, &bound, &err), LW_OK);
    assert_int_equal(bound, 9);
    assert_int_equal(lw_tune_chain_bound(&chain, &p, none, &bound, &err), LW_OK);
    assert_int_equal(bound, 8);
    p.reduce = reduce; /* from the last backward of rank 1 on, at 4 */
    assert_int_equal(lw_tune_chain_bound(&chain, &p, message, &bound, &err), LW_OK);
    assert_int_equal(bound, 11);
    lw_grid_free(&grid);
    lw_arena_free(&arena);
}

/* DualPipe on two ranks, F = 1, B = 2, four micro-batches, two each way. From either rank both work
 * without a gap: 4 (1 + 2). */
TEST(units_of_two_directions)
{
    const struct lw_schedule_shape shape = {.schedule = LW_SCHEDULE_DUALPIPE, .n_ranks = 2,
                                            .n_micro_batches = 4, .n_chunks = 2};
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 2, .input = 1, .weight = 1},
                                          {.forward = 1, .backward = 2, .input = 1, .weight = 1}};
    const int32_t first[] = {0, 2, 4}, held[] = {0, 1, 0, 1}, halves[] = {0, 0, 0, 0};
    const lw_ps none[] = {0, 0, 0, 0}, slow[] = {10, 0};
    const struct lw_tune_parts p = {.n_parts = 2, .n_ranks = 2, .part = part, .first = first,
                                    .held = held, .optimizer = none, .reduce = none,
                                    .ahead = none, .gather = none, .halves = halves,
                                    .mirrored = true, .n_micro_batches = 4};
    struct lw_tune_chain chain;
    struct lw_arena arena = {0};
    struct lw_grid grid;
    struct lw_err err = {0};
    lw_ps bound = 0;

    assert_int_equal(lw_schedule_grid(&shape, &grid, &err), LW_OK);
    assert_int_equal(lw_tune_chain_make(&grid, &arena, &chain, &err), LW_OK);
    assert_int_equal(chain.n, grid.first[2]);
    assert_int_equal(lw_tune_chain_bound(&chain, &p, none, &bound, &err), LW_OK);
    assert_int_equal(bound, 4 * (1 + 2));
    assert_int_equal(lw_tune_chain_bound(&chain, &p, slow, &bound, &err), LW_OK);
    assert_true(bound >= 4 * (1 + 2) + 2 * 10); /* there and back */
    lw_grid_free(&grid);
    lw_arena_free(&arena);
}
