#pragma once

#include "shared/plan/grid_rule.h"
#include "shared/plan/plan.h"

/* Ranks of a role by their index, where they are equally far apart, as those of a grid whose
 * pipeline axis is the slowest: index i is rank first + i * step. */
struct lw_role_line {
    int32_t first, step; /* step 0: they are not, or the role has one rank */
};

/* lines[n_roles]; of a plan whose tables are checked. */
void lw_role_lines(const struct lw_plan *p, struct lw_role_line *lines);
/* The row is a rule whose peers are the ranks of that line, index by index. */
bool lw_rule_names_line(const struct lw_plan *p, int32_t row, const struct lw_role_line *line);
/* first[n_roles]: the lowest rank of each; -1 = it has none. */
void lw_first_ranks(const struct lw_plan *p, int32_t *first);

/* Ranks by role and index in it: of a grid by its rule, of others from a table in `room`. */
struct lw_role_ranks {
    const struct lw_plan *p;
    int32_t *ranks, *first; /* lw_plan_ranks_by_role; NULL of a grid */
};
enum lw_status lw_role_ranks_find(const struct lw_plan *p, struct lw_arena *room,
                                  struct lw_role_ranks *out, struct lw_err *err);
static inline int32_t lw_role_rank(const struct lw_role_ranks *x, int32_t role, int32_t index)
{
    if (x->ranks)
        return x->ranks[x->first[role] + index];
    int32_t n_tensor = x->p->grid->axis[LW_AXIS_TP].count;
    return lw_grid_rank(x->p->grid->axis, index / n_tensor, role, index % n_tensor);
}
