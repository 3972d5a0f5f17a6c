/* Groups of a grid rule are of as many kinds as its digits along the pipeline have values. Without
 * a rule each group is compared with the one listed before it, which most are like. */
#include "shared/check/group_kinds.h"

#include "shared/base/arena.h"
#include "shared/plan/grid_rule.h"

struct listing {
    const struct lw_plan *p;
    struct lw_group_kinds *out;
    int32_t *roles, n_roles; /* of the members of the group listed last */
};

static bool is_as_listed(const struct listing *l, const struct lw_group *g)
{
    bool same = g->n_members == l->n_roles;

    for (int32_t m = 0; same && m < g->n_members; m++)
        same = lw_plan_role_of(l->p, lw_plan_member_of(l->p, g, m)) == l->roles[m];
    return same;
}

static int32_t count_inside(const int32_t *adds, int32_t n)
{
    int32_t inside = 0;

    for (int32_t i = 0; i < n; i++)
        inside += adds[i] >= 0;
    return inside;
}

/* Of a rule that holds. */
static enum lw_status list_by_rule(struct listing *l, int32_t comm, struct lw_err *err)
{
    const struct lw_grid_rule *grid = l->p->grid;
    const struct lw_comm_rule *x = &grid->comms[comm];
    int32_t *inside = l->out->inside + (int64_t)comm * l->p->n_roles, n = l->out->first[comm];
    const struct lw_group_parts *parts = &x->parts;
    struct lw_digits kinds;
    int32_t each = count_inside(parts->of[LW_AXIS_DP], grid->axis[LW_AXIS_DP].count) *
                   count_inside(parts->of[LW_AXIS_TP], grid->axis[LW_AXIS_TP].count);
    for (int32_t r = 0; r < l->p->n_roles; r++)
        inside[r] = parts->of[LW_AXIS_PP][r] >= 0 ? each : 0;
    int32_t n_kinds = lw_grid_group_kinds(grid, x, 1, &kinds);
    LW_ROOM(l->out->group, l->out->capacity, n + (int64_t)n_kinds, err);
    for (int32_t k = 0; k < n_kinds; k++)
        l->out->group[n++] = x->first_group + lw_digits_value(&kinds, k);
    l->out->first[comm + 1] = n;
    return LW_OK;
}

static enum lw_status list_class(struct listing *l, int32_t comm, struct lw_err *err)
{
    const struct lw_plan *p = l->p;
    int32_t *inside = l->out->inside + (int64_t)comm * p->n_roles, n = l->out->first[comm];

    l->n_roles = -1;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct lw_group *g = lw_plan_group(p, comm, r);
        inside[lw_plan_role_of(p, r)] += g != NULL;
        if (!g || lw_plan_member_at(p, g->first_member) != r || is_as_listed(l, g))
            continue;
        l->n_roles = g->n_members;
        for (int32_t m = 0; m < g->n_members; m++)
            l->roles[m] = lw_plan_role_of(p, lw_plan_member_at(p, g->first_member + m));
        LW_ROOM(l->out->group, l->out->capacity, n + 1, err);
        l->out->group[n++] = lw_plan_group_of(p, comm, r);
    }
    l->out->first[comm + 1] = n;
    return LW_OK;
}

enum lw_status lw_group_kinds_find(const struct lw_plan *p, struct lw_group_kinds *out,
                                   struct lw_err *err)
{
    struct listing l = {.p = p, .out = out};
    enum lw_status status = LW_OK;

    LW_NEW(out->first, (int64_t)p->n_comms + 1, err);
    LW_NEW(out->inside, (int64_t)p->n_comms * p->n_roles + 1, err);
    LW_NEW(l.roles, lw_largest_group(p) + INT64_C(1), err);
    for (int32_t c = 0; status == LW_OK && c < p->n_comms; c++)
        status = p->grid && p->grid->comms[c].n_groups > 0 ? list_by_rule(&l, c, err)
                                                           : list_class(&l, c, err);
    lw_free(l.roles);
    return status;
}

void lw_group_kinds_free(struct lw_group_kinds *k)
{
    lw_free(k->group);
    lw_free(k->first);
    lw_free(k->inside);
    *k = (struct lw_group_kinds){0};
}

struct lw_group_roles lw_group_roles_of(const struct lw_plan *p, int32_t comm,
                                        const struct lw_group *g)
{
    struct lw_group_roles x = {.p = p, .g = g, .n = g->n_members};

    x.ruled = p->grid && p->grid->comms[comm].n_groups > 0;
    if (x.ruled)
        x.n = lw_grid_member_kinds(p->grid, &p->grid->comms[comm], &x.members);
    return x;
}
