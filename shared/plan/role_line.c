/* Roles whose ranks are equally far apart, and rows of operands that name them one by one. */
#include "shared/plan/role_line.h"

void lw_role_lines(const struct lw_plan *p, struct lw_role_line *lines)
{
    for (int32_t role = 0; role < p->n_roles; role++)
        lines[role] = (struct lw_role_line){-1, 0};
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (p->index_in_role[r] == 0)
            lines[p->role_of[r]].first = r;
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (p->index_in_role[r] == 1)
            lines[p->role_of[r]].step = r - lines[p->role_of[r]].first;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        struct lw_role_line *x = &lines[p->role_of[r]];
        if (r != x->first + p->index_in_role[r] * (int64_t)x->step)
            x->step = 0;
    }
}

bool lw_rule_names_line(const struct lw_plan *p, int32_t row, const struct lw_role_line *line)
{
    const struct lw_operand_rule *x = row >= 0 && p->operand_rules ? &p->operand_rules[row] : NULL;

    return x && line->step != 0 && x->n > 0 && x->width == x->n && x->first.peer == line->first &&
           x->across == line->step;
}
