/* Nodes of a group of ranks, eight ranks to a node. */
#include "shared/plan/spread.h"

#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "tests/lib/prng.h"

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

/* Members that ascend evenly or with random gaps, less than a node and more, and mixed ones: what
 * counting each node's members says. */
TEST(random_groups_are_counted_as_node_by_node)
{
    enum { MOST = 40, NODES = 200 };
    struct prng x = prng_start("groups of ranks");

    for (int round = 0; round < 3000; round++) {
        int32_t ranks[MOST], n = prng_below(&x, MOST + 1), each = prng_below(&x, 24) + 1, at = 0;
        int32_t here[NODES] = {0}, n_nodes = 0, fewest = n;
        for (int32_t i = 0; i < n; i++) {
            ranks[i] = at + (int32_t)prng_in(&x, 0, 7);
            at = ranks[i] + (round % 2 ? each : prng_below(&x, 24) + 1);
        }
        for (int32_t i = n - 1; round % 3 == 0 && i > 0; i--) {
            int32_t j = prng_below(&x, i + 1), t = ranks[i];
            ranks[i] = ranks[j];
            ranks[j] = t;
        }
        for (int32_t i = 0; i < n; i++)
            here[ranks[i] / 8]++;
        for (int32_t k = 0; k < NODES; k++) {
            n_nodes += here[k] > 0;
            fewest = here[k] > 0 && here[k] < fewest ? here[k] : fewest;
        }
        expect_spread(ranks, n, n_nodes, fewest);
    }
}

TEST_GROUP(NULL, NULL)
