#pragma once

#include "shared/base/err.h"
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
