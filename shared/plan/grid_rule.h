#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/plan/plan.h"

/* Ranks on a grid by arithmetic: coordinates, roles and the groups of communicators say in a few
 * numbers what the tables of a plan say rank by rank, so that what is shown for the rule is shown
 * for every rank (docs/design/grid_rule.md). A small plan with rules has the tables as well, and
 * lw_plan_check compares them; who changes a table sets plan->grid to NULL. */

struct lw_digit {
    int32_t count, stride; /* count values, stride apart */
};

/* Number i in mixed radix, the last digit fastest, stands for base + the sum of its digits times
 * their strides. */
enum { LW_N_DIGITS = 6 };
struct lw_digits {
    int32_t base, n;
    struct lw_digit at[LW_N_DIGITS];
};

/* What a coordinate adds to the number of a rank's group: of[axis][coordinate]; -1 = ranks there
 * are in no group. Memory is the arena's. */
struct lw_group_parts {
    int32_t *of[LW_N_AXES];
};

/* The groups of a communicator: of number g * n_members + i, `ranks` gives member i of group
 * first_group + g. The first n_group_digits of the digits are those of g. */
struct lw_comm_rule {
    int32_t first_group, n_groups, n_members; /* n_groups 0: no rule, the tables hold alone */
    int32_t n_group_digits;
    struct lw_digits ranks;
    struct lw_group_parts parts; /* of lw_group_parts_find */
};

/* The role of a rank is its pipeline coordinate, and its index there dp * (size of tp) + tp. */
struct lw_grid_rule {
    struct lw_digit axis[LW_N_AXES]; /* count ranks along it, stride apart */
    int32_t n_comms;
    struct lw_comm_rule *comms;      /* [n_comms] */
};

/* The axes are all ranks, each once, and data ranks lie further apart than tensor ranks. */
bool lw_grid_is_whole(const struct lw_digit axis[LW_N_AXES], int32_t n_ranks);
/* Axes from the one with the largest stride to that with the least; those of one rank first. */
void lw_grid_axes_order(const struct lw_digit axis[LW_N_AXES], int order[LW_N_AXES]);
/* Rank at the coordinates. */
static inline int32_t lw_grid_rank(const struct lw_digit axis[LW_N_AXES], int32_t dp, int32_t pp,
                                   int32_t tp)
{
    return dp * axis[LW_AXIS_DP].stride + pp * axis[LW_AXIS_PP].stride +
           tp * axis[LW_AXIS_TP].stride;
}

/* Numbers from `first` on, one after the other, into out[n]. */
void lw_digits_write(const struct lw_digits *d, int64_t first, int32_t *out, int64_t n);
int32_t lw_digits_value(const struct lw_digits *d, int32_t number);

/* *fits: each digit lies within one axis, and no rank is in two groups or twice in one: then the
 * group of a rank is the sum of what its coordinates add. */
bool lw_group_parts_find(const struct lw_digit axis[LW_N_AXES], const struct lw_comm_rule *x,
                         struct lw_arena *arena, struct lw_group_parts *out, bool *fits);
/* Group of ranks from `first` on, into out[n]; -1 = outside. */
void lw_group_parts_write(const struct lw_digit axis[LW_N_AXES], const struct lw_comm_rule *x,
                          int32_t first, int32_t *out, int32_t n);
/* Coordinates of all ranks and their roles. */
void lw_grid_write(const struct lw_digit axis[LW_N_AXES], int32_t *coord, int32_t *role_of);
/* A number for each rank: the sum of its coordinates times these weights. */
struct lw_digits lw_grid_column(const struct lw_digit axis[LW_N_AXES],
                                const int32_t weight[LW_N_AXES]);
/* Role and index in it. */
struct lw_digits lw_grid_roles(const struct lw_digit axis[LW_N_AXES]);
struct lw_digits lw_grid_indexes(const struct lw_digit axis[LW_N_AXES]);

/* The members of a group that no table holds, into members[n_members]. */
void lw_grid_members_write(const struct lw_plan *p, const struct lw_group *g, int32_t *members);

/* From this many ranks on a plan has rules and no tables of ranks and members, if all communicators
 * have rules. */
#ifndef LW_GRID_LARGE
#define LW_GRID_LARGE 4096
#endif
/* *out: the plan, and in `room` the tables that it lacks. It borrows the rest. For who reads lists
 * of members, or each rank several times. */
enum lw_status lw_plan_with_tables(const struct lw_plan *p, struct lw_arena *room,
                                   struct lw_plan *out, struct lw_err *err);
/* Into the plan, and whole ops too (shared/plan/op_rows.h). */
enum lw_status lw_plan_write_tables(struct lw_plan *p, struct lw_err *err);

/* Groups that stand for all of a communicator: those whose digits are 0 but along the pipeline and
 * where groups lie no multiple of `apart` ranks apart (1: nowhere), so that the others hold the
 * same roles at places that differ by such a multiple. Number k of *kinds is such a group, counted
 * from first_group; they ascend. Returns how many there are. */
int32_t lw_grid_group_kinds(const struct lw_grid_rule *grid, const struct lw_comm_rule *x,
                            int32_t apart, struct lw_digits *kinds);
/* The members of a group that differ in their pipeline coordinate, each the first of its role: in
 * order, by number in the group. Returns how many there are. */
int32_t lw_grid_member_kinds(const struct lw_grid_rule *grid, const struct lw_comm_rule *x,
                             struct lw_digits *kinds);
/* Member i of group first_group + number. */
static inline int32_t lw_grid_member(const struct lw_comm_rule *x, int32_t number, int32_t i)
{
    return lw_digits_value(&x->ranks, number * x->n_members + i);
}

/* Whether the tables of the plan, of which nothing need be verified, say what its rules say.
 * LW_ENOMEM. */
enum lw_status lw_grid_rule_holds(const struct lw_plan *p, bool *holds, struct lw_err *err);
/* Every communicator has a rule, and every group is of one. */
bool lw_grid_rules_all(const struct lw_plan *p);
/* Members of the largest group; 0: there is none. */
int32_t lw_largest_group(const struct lw_plan *p);
