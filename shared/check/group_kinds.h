#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/plan.h"

/* Groups of a communicator class by the roles of their members, in group order. On a grid all
 * groups of a class are of a few kinds, so what concerns roles alone is proven for a kind. */
struct lw_group_kinds {
    int32_t *group;  /* one of each kind, by class; a kind may be listed more than once */
    int64_t capacity;
    int32_t *first;  /* [n_comms + 1]: those of class c are group[first[c]] .. */
    int32_t *inside; /* [n_comms * n_roles]: ranks of the role that are in a group of the class */
};

/* Of a plan whose ranks and groups refer to each other. *out is zeroed before; what it has is freed
 * by lw_group_kinds_free, also after a failure. */
enum lw_status lw_group_kinds_find(const struct lw_plan *p, struct lw_group_kinds *out,
                                   struct lw_err *err);
void lw_group_kinds_free(struct lw_group_kinds *k);

/* The roles in a group of a class, each at least once: n of them. The rule of a grid says them of
 * one member for each pipeline coordinate; else they are those of all members. */
struct lw_group_roles {
    const struct lw_plan *p;
    const struct lw_group *g;
    bool ruled;
    struct lw_digits members;
    int32_t n;
};

struct lw_group_roles lw_group_roles_of(const struct lw_plan *p, int32_t comm,
                                        const struct lw_group *g);

static inline int32_t lw_group_role(const struct lw_group_roles *x, int32_t i)
{
    int32_t member = x->ruled ? lw_digits_value(&x->members, i) : i;

    return lw_plan_role_of(x->p, lw_plan_member_of(x->p, x->g, member));
}
