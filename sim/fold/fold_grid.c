/* Folding by the rules of a grid (docs/design/grid_rule.md): what fold_roles.c asks of groups, and
 * the quotient, from the digits of each communicator, at a cost of roles and digits. A class is a
 * role then: pipeline coordinates ascend with the lowest ranks of their roles. */
#include "shared/plan/grid_rule.h"
#include "sim/fold/fold.h"
#include "sim/fold/fold_state.h"

/* Members of one group. Of digits that are multiples of a node apart each value is a node of its
 * own, if the other digits stay within one. */
static struct lw_spread spread_of(const struct sim_folding *m, const struct lw_comm_rule *x,
                                  int32_t number)
{
    int32_t per_node = m->cluster->devices_per_node, first = lw_grid_member(x, number, 0);
    int64_t last = first % per_node;
    struct lw_spread s = {1, 1};

    for (int32_t i = x->n_group_digits; i < x->ranks.n; i++) {
        const struct lw_digit *d = &x->ranks.at[i];
        bool far = d->stride % per_node == 0;
        *(far ? &s.n_nodes : &s.fewest) *= d->count;
        last += far ? 0 : (d->count - INT64_C(1)) * d->stride;
    }
    if (last < per_node)
        return s;
    for (int32_t i = 0; i < x->n_members; i++)
        m->set[i] = lw_grid_member(x, number, i);
    return lw_spread_over(per_node, m->set, x->n_members);
}

/* All ranks of a pipeline coordinate are in groups, or none. */
static bool are_inside_together(const struct lw_grid_rule *grid, const struct lw_group_parts *parts)
{
    for (int a = 0; a < LW_N_AXES; a++)
        for (int32_t i = 0; a != LW_AXIS_PP && i < grid->axis[a].count; i++)
            if (parts->of[a][i] < 0)
                return false;
    return true;
}

/* Groups whose first members are of one role hold the same roles, on nodes in the same way. seen:
 * [n_roles] room. */
static bool are_spread_alike(const struct sim_folding *m, const struct lw_comm_rule *x,
                             struct lw_spread *seen)
{
    const struct lw_plan *p = m->plan;
    struct lw_digits kinds;
    int32_t n = lw_grid_group_kinds(p->grid, x, m->cluster->devices_per_node, &kinds);

    for (int32_t r = 0; r < p->n_roles; r++)
        seen[r] = (struct lw_spread){0, 0};
    for (int32_t k = 0; k < n; k++) {
        int32_t number = lw_digits_value(&kinds, k);
        struct lw_spread *of = &seen[lw_plan_role_of(p, lw_grid_member(x, number, 0))];
        struct lw_spread s = spread_of(m, x, number);
        if (of->n_nodes > 0 && (of->n_nodes != s.n_nodes || of->fewest != s.fewest))
            return false;
        *of = s;
    }
    return true;
}

enum lw_status sim_fold_grid_groups(struct sim_folding *m, bool *alike, struct lw_err *err)
{
    const struct lw_grid_rule *grid = m->plan->grid;
    struct lw_spread *seen;

    *alike = !m->chunk && m->cluster->n_exceptions == 0;
    LW_TAKE(&m->arena, seen, m->plan->n_roles, err);
    for (int32_t c = 0; *alike && c < m->plan->n_comms; c++) {
        const struct lw_comm_rule *x = &grid->comms[c];
        *alike = are_inside_together(grid, &x->parts) && are_spread_alike(m, x, seen);
    }
    return LW_OK;
}

/* --- the quotient ----------------------------------------------------------------------------- */

/* The group of the plan becomes the next one of the quotient: of the first members of its roles. */
static void keep_group(struct sim_fold *f, const struct lw_grid_rule *grid, int32_t comm,
                       int32_t number)
{
    const struct lw_comm_rule *x = &grid->comms[comm];
    struct lw_plan *q = &f->plan;
    struct lw_digits kinds;
    int32_t n = lw_grid_member_kinds(grid, x, &kinds);

    q->groups[q->n_groups] = (struct lw_group){q->n_members, n};
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = lw_grid_member(x, number, lw_digits_value(&kinds, i));
        int32_t k = lw_alike_class(&f->ranks, rank);
        q->members[q->n_members++] = k;
        q->comm_group[(int64_t)comm * f->n_classes + k] = q->n_groups;
    }
    f->group_of[q->n_groups++] = x->first_group + number;
}

enum lw_status sim_fold_grid_plan(const struct lw_plan *p, struct lw_arena *arena,
                                  struct sim_fold *f, struct lw_err *err)
{
    int64_t cells = (int64_t)p->n_comms * f->n_classes + 1; /* a class is in a group of each */
    struct lw_plan *q = &f->plan;

    LW_TRY(sim_fold_begin_plan(p, cells, cells, arena, f, err));
    for (int64_t i = 0; i < cells; i++)
        q->comm_group[i] = -1;
    for (int32_t c = 0; c < p->n_comms; c++) {
        struct lw_digits kinds;
        int32_t n = lw_grid_group_kinds(p->grid, &p->grid->comms[c], 1, &kinds);
        for (int32_t k = 0; k < n; k++)
            keep_group(f, p->grid, c, lw_digits_value(&kinds, k));
    }
    return LW_OK;
}
