/* Nodes of a group of ranks, eight ranks to a node. */
#include "shared/plan/spread.h"

#include "tests/lib/unit.h"

#include "shared/base/arena.h"

static void expect_spread(const int32_t *ranks, int32_t n, int32_t n_nodes, int32_t fewest)
{
    struct lw_spread x = lw_spread_over(8, ranks, n);

    assert_int_equal(x.n_nodes, n_nodes);
    assert_int_equal(x.fewest, fewest);
}

TEST(nodes_are_counted_once)
{
    const int32_t ranks[] = {0, 7, 8, 23, 1, 16}, ninth[] = {0, 2, 4, 6, 8};
    expect_spread(ranks, 2, 1, 2); /* 0, 7 */
    expect_spread(ranks, 6, 3, 1); /* nodes 0 0 1 2 0 2 */
    expect_spread(ninth, 5, 2, 1);
    expect_spread(ninth, 4, 1, 4);
    expect_spread(ranks, 0, 0, 0);
    lw_alloc_fail_at(1); /* the same without memory */
    expect_spread(ranks, 6, 3, 1);
    lw_alloc_fail_at(0);
}

TEST_GROUP(NULL, NULL)
