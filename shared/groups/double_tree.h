#pragma once

#include <stdint.h>

/* The double binary tree: two binary trees over positions 0..n-1 in which every position but one is
 * a leaf of at least one, so that each half of a buffer can go up and down its own tree while
 * no position carries more than the whole. (Sanders, Speck, Traeff, "Two-tree algorithms for full
 * bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009.) */
enum { LW_TREES = 2 };

struct lw_tree_place {
    int32_t parent;   /* -1: the root */
    int32_t child[2]; /* -1 = none; a single child is the first */
};

/* Where position i of n stands in tree 0 or 1. n >= 1. */
struct lw_tree_place lw_tree_place(int32_t n, int32_t tree, int32_t i);
