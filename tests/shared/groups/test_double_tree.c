/* The double binary tree: shared/groups/double_tree.h. */
#include "tests/lib/unit.h"

#include "shared/groups/double_tree.h"

enum { LARGEST = 300 };

static int is_inside(int32_t n, int32_t tree, int32_t i)
{
    return lw_tree_place(n, tree, i).child[0] >= 0;
}

TEST(parents_and_children_agree_and_one_root_reaches_all)
{
    for (int32_t n = 1; n <= LARGEST; n++)
        for (int32_t t = 0; t < LW_TREES; t++) {
            int32_t n_roots = 0, n_children = 0;
            for (int32_t i = 0; i < n; i++) {
                struct lw_tree_place p = lw_tree_place(n, t, i);
                int32_t steps = 0;
                n_roots += p.parent < 0;
                for (int c = 0; c < 2; c++) {
                    if (p.child[c] < 0)
                        continue;
                    n_children++;
                    assert_in_range(p.child[c], 0, n - 1);
                    assert_int_equal(lw_tree_place(n, t, p.child[c]).parent, i);
                }
                for (int32_t up = p.parent; up >= 0; up = lw_tree_place(n, t, up).parent)
                    assert_true(++steps <= 10); /* log2(300) + 1: no rings, no long chains */
            }
            assert_int_equal(n_roots, 1);
            assert_int_equal(n_children, n - 1);
        }
}

/* Both trees together load no position twice: the ground of the full bandwidth. */
TEST(at_most_one_position_is_inside_both_trees)
{
    for (int32_t n = 2; n <= LARGEST; n++) {
        int32_t twice = 0;
        for (int32_t i = 0; i < n; i++)
            twice += is_inside(n, 0, i) && is_inside(n, 1, i);
        assert_in_range(twice, 0, 1);
    }
}

/* n = 6 by hand. Tree 0: 0 -> 4 -> {2, 5}, 2 -> {1, 3}. Tree 1 is i -> 5 - i of it:
 * 5 -> 1 -> {3, 0}, 3 -> {4, 2}. */
TEST(six_positions_are_placed_as_drawn)
{
    static const int32_t parent[2][6] = {{-1, 2, 4, 2, 0, 4}, {1, 5, 3, 1, 3, -1}};

    for (int32_t t = 0; t < 2; t++)
        for (int32_t i = 0; i < 6; i++)
            assert_int_equal(lw_tree_place(6, t, i).parent, parent[t][i]);
    assert_int_equal(lw_tree_place(6, 0, 4).child[0], 2);
    assert_int_equal(lw_tree_place(6, 0, 4).child[1], 5);
}
