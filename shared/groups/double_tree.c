/* The double binary tree.
 *
 * Tree 0, by the binary digits of i > 0 with lowest set bit b: the children are i - b/2 and i +
 * b/2, the parent is the neighbour with the next bit, so numbers grow from left to right and every
 * odd number is a leaf. Position 0 is the root and has one child, the largest power of two below n.
 * Where i + b/2 lies beyond the end, smaller steps to the right are tried; where a parent does, it
 * is the one on the left. Tree 1 is tree 0 seen from the other end for even n, and shifted by one
 * for odd n: odd positions are then inside, even ones (but for 0, when n is odd) leaves. */
#include "shared/groups/double_tree.h"

static int32_t lowest_bit(int32_t i)
{
    return i & -i;
}

static int32_t parent_of(int32_t n, int32_t i)
{
    int32_t bit = lowest_bit(i), up = (i ^ bit) | (bit << 1);

    return up < n ? up : i ^ bit;
}

static struct lw_tree_place first_tree(int32_t n, int32_t i)
{
    struct lw_tree_place p = {-1, {-1, -1}};
    int32_t n_children = 0, step = i == 0 ? 1 : lowest_bit(i) >> 1;

    if (i > 0)
        p.parent = parent_of(n, i);
    else
        while (step <= (n - 1) / 2)
            step <<= 1;
    if (i > 0 && step > 0)
        p.child[n_children++] = i - step;
    while (step > 0 && i + step >= n)
        step >>= 1;
    if (step > 0 && parent_of(n, i + step) == i)
        p.child[n_children] = i + step;
    return p;
}

/* Position i as tree 0 numbers it, and back. */
static int32_t turned(int32_t n, int32_t i)
{
    return n % 2 == 0 ? n - 1 - i : (i + n - 1) % n;
}

static int32_t turned_back(int32_t n, int32_t i)
{
    return i < 0 ? -1 : n % 2 == 0 ? n - 1 - i : (i + 1) % n;
}

struct lw_tree_place lw_tree_place(int32_t n, int32_t tree, int32_t i)
{
    if (tree == 0)
        return first_tree(n, i);
    struct lw_tree_place p = first_tree(n, turned(n, i));
    p.parent = turned_back(n, p.parent);
    p.child[0] = turned_back(n, p.child[0]);
    p.child[1] = turned_back(n, p.child[1]);
    return p;
}
