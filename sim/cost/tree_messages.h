#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Two binary trees over the same members, so that a member with two children in one has at most as
 * many as are left of two in the other: each carries half of a buffer, and no member sends or
 * receives more than twice per pair of pieces. Edges carry one of two colours; those of one colour
 * make each member send at most once and receive at most once, so they can move in one step.
 *   rooted     member 0 stands above both trees (broadcast, reduce); else each tree has its own
 *              root
 *   parent     [2][n]; -1 = none
 *   first      [2][n]: step, from 1, in which the first piece of a broadcast in that tree reaches
 *              the member; 0 at the root. Piece i comes 2 i steps later.
 *   depth      [2][n]: edges above the member
 * The columns are one allocation, given back by sim_trees_free. */
struct sim_trees {
    int32_t n;
    bool rooted;
    int32_t *parent[2], *first[2], *depth[2];
    int32_t most_first, most_depth;
};

enum lw_status sim_trees_make(int32_t n, bool rooted, struct sim_trees *t, struct lw_err *err);
void sim_trees_free(struct sim_trees *t);

/* Rounds in which 2^i pieces for each tree go down the trees, or back = up and then down, when
 * every message takes one round and both its ends have ended the steps before: rounds[n],
 * i = 0 .. n - 1. */
enum lw_status sim_trees_rounds(const struct sim_trees *t, bool back, int32_t n, int64_t *rounds,
                                struct lw_err *err);
