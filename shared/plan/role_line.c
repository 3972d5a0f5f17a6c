/* Roles whose ranks are equally far apart, and rows of operands that name them one by one. */
#include "shared/plan/role_line.h"

static struct lw_role_line line_of(const struct lw_grid_rule *grid, int32_t role)
{
    const struct lw_digit *dp = &grid->axis[LW_AXIS_DP], *tp = &grid->axis[LW_AXIS_TP];
    struct lw_role_line x = {lw_grid_rank(grid->axis, 0, role, 0), 0};

    if (dp->count > 1 && (tp->count == 1 || dp->stride == tp->count * tp->stride))
        x.step = tp->count == 1 ? dp->stride : tp->stride;
    else if (dp->count == 1 && tp->count > 1)
        x.step = tp->stride;
    return x;
}

void lw_role_lines(const struct lw_plan *p, struct lw_role_line *lines)
{
    for (int32_t role = 0; p->grid && role < p->n_roles; role++)
        lines[role] = line_of(p->grid, role);
    if (p->grid)
        return;
    for (int32_t role = 0; role < p->n_roles; role++)
        lines[role] = (struct lw_role_line){-1, 0};
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (lw_plan_index_of(p, r) == 0)
            lines[lw_plan_role_of(p, r)].first = r;
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (lw_plan_index_of(p, r) == 1)
            lines[lw_plan_role_of(p, r)].step = r - lines[lw_plan_role_of(p, r)].first;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        struct lw_role_line *x = &lines[lw_plan_role_of(p, r)];
        if (r != x->first + lw_plan_index_of(p, r) * (int64_t)x->step)
            x->step = 0;
    }
}

bool lw_rule_names_line(const struct lw_plan *p, int32_t row, const struct lw_role_line *line)
{
    const struct lw_operand_rule *x = row >= 0 && p->operand_rules ? &p->operand_rules[row] : NULL;

    return x && line->step != 0 && x->n > 0 && x->width == x->n && x->first.peer == line->first &&
           x->across == line->step;
}

void lw_first_ranks(const struct lw_plan *p, int32_t *first)
{
    for (int32_t role = 0; role < p->n_roles; role++)
        first[role] = p->grid ? lw_grid_rank(p->grid->axis, 0, role, 0) : -1;
    for (int32_t r = p->grid ? 0 : p->n_ranks; r-- > 0;)
        first[lw_plan_role_of(p, r)] = r;
}

enum lw_status lw_role_ranks_find(const struct lw_plan *p, struct lw_arena *room,
                                  struct lw_role_ranks *out, struct lw_err *err)
{
    *out = (struct lw_role_ranks){.p = p};
    return p->grid ? LW_OK : lw_plan_ranks_by_role(p, room, &out->ranks, &out->first, err);
}
