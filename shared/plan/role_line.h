#pragma once

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
