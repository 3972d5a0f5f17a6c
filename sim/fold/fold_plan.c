/* The quotient of a plan by its classes: a plan whose ranks are classes. Programs, operands and
 * works are the plan's own, for a class stands in the role of its lowest rank, with its index
 * there. Of the groups of a communicator that hold the same classes one is kept, and in it the
 * first member of each class, in group order. */
#include <string.h>

#include "sim/fold/fold.h"
#include "sim/fold/trie.h"

struct columns {
    int32_t *kept;      /* [n_groups]: the quotient's group; -1 = none yet */
    int32_t *seen_in;   /* [n_classes]: group in which it was met last, + 1 */
    struct sim_trie of; /* signature -> 1 + quotient's group, as the order of its nodes */
};

enum lw_status sim_fold_begin_plan(const struct lw_plan *plan, int64_t n_groups, int64_t n_members,
                                   struct lw_arena *arena, struct sim_fold *f, struct lw_err *err)
{
    struct lw_plan *q = &f->plan;

    f->plan = *plan;
    q->arena = (struct lw_arena){0};
    q->grid = NULL;
    q->n_ranks = f->n_classes;
    q->n_groups = q->n_members = 0;
    LW_TAKE(arena, q->role_of, f->n_classes, err);
    LW_TAKE(arena, q->index_in_role, f->n_classes, err);
    LW_TAKE(arena, q->coord, LW_N_AXES * (int64_t)f->n_classes, err);
    LW_TAKE(arena, q->groups, n_groups, err);
    LW_TAKE(arena, q->members, n_members, err);
    LW_TAKE(arena, q->comm_group, (int64_t)plan->n_comms * f->n_classes + 1, err);
    LW_TAKE(arena, f->group_of, n_groups, err);
    for (int32_t k = 0; k < f->n_classes; k++) {
        int32_t r = f->rank_of[k];
        q->role_of[k] = lw_plan_role_of(plan, r);
        q->index_in_role[k] = lw_plan_index_of(plan, r);
        lw_plan_place(plan, r, q->coord + LW_N_AXES * (int64_t)k);
    }
    return LW_OK;
}

/* Members of group g of the plan become the next group of the quotient. */
static void keep_group(const struct lw_plan *p, struct sim_fold *f, int32_t g, int32_t *seen_in)
{
    struct lw_plan *q = &f->plan;
    struct lw_group *x = &q->groups[q->n_groups];

    *x = (struct lw_group){q->n_members, 0};
    for (int32_t i = 0; i < p->groups[g].n_members; i++) {
        int32_t k = lw_alike_class(&f->ranks, lw_plan_member_at(p, p->groups[g].first_member + i));
        if (seen_in[k] == g + 1)
            continue;
        seen_in[k] = g + 1;
        q->members[q->n_members++] = k;
        x->n_members++;
    }
    f->group_of[q->n_groups++] = g;
}

static enum lw_status keep_groups(const struct lw_plan *p, const int64_t *signature,
                                  struct sim_fold *f, struct columns *c, struct lw_err *err)
{
    for (int32_t g = 0; g < p->n_groups; g++) {
        int64_t before = c->of.n;
        if (signature[g] < 0)
            continue;
        c->kept[g] = (int32_t)sim_trie_next(&c->of, 0, signature[g]) - 1;
        if (c->of.failed)
            return lw_fail_nomem(err);
        if (c->of.n > before)
            keep_group(p, f, g, c->seen_in);
    }
    return LW_OK;
}

static void place_classes(const struct lw_plan *p, struct sim_fold *f, const int32_t *kept)
{
    struct lw_plan *q = &f->plan;

    for (int32_t k = 0; k < f->n_classes; k++) {
        for (int32_t c = 0; c < p->n_comms; c++) {
            int32_t g = lw_plan_group_of(p, c, f->rank_of[k]);
            q->comm_group[(int64_t)c * f->n_classes + k] = g >= 0 ? kept[g] : -1;
        }
    }
}

enum lw_status sim_fold_plan(const struct lw_plan *plan, const int64_t *signature,
                             struct lw_arena *arena, struct sim_fold *f, struct lw_err *err)
{
    struct columns c = {0};

    LW_TAKE(arena, c.kept, plan->n_groups + 1, err);
    LW_TAKE(arena, c.seen_in, f->n_classes, err);
    LW_TRY(sim_fold_begin_plan(plan, plan->n_groups + INT64_C(1), plan->n_members + INT64_C(1),
                               arena, f, err));
    enum lw_status status = keep_groups(plan, signature, f, &c, err);
    sim_trie_free(&c.of);
    LW_TRY(status);
    place_classes(plan, f, c.kept);
    return LW_OK;
}
