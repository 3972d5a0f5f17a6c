/* Creates the communicators of a plan and connects them before the first step.
 *
 * Creation and connection block until the other members take part. Every process therefore goes
 * through classes, groups and members in the order of the plan, before anything is submitted. A
 * library that connects a pair of ranks at its first message would otherwise block the thread that
 * submits work while the other rank is blocked by another pair: with pipelines in two directions
 * each of them waits for the other. */
#include <stdlib.h>
#include <string.h>

#include "exec/run/run_state.h"
#include "shared/plan/op.h"
#include "shared/strategy/reducer_kind.h"

/* LW_ENOTSUP where the plan names an algorithm that the backend does not let the caller choose. */
static enum lw_status choose_reducer(struct exec_run *r, struct exec_comm *comm,
                                     enum lw_reducer_kind reducer, struct lw_err *err)
{
    const char *name = lw_reducer_name(reducer);

    if (reducer == LW_REDUCER_AUTO || strcmp(name, r->backend->name) == 0)
        return LW_OK;
    if (r->backend->comm_reducer)
        return r->backend->comm_reducer(r->world, comm, reducer, err);
    return lw_fail(err, LW_ENOTSUP, "the plan asks for the reducer '%s', but backend '%s' chooses "
                                    "its algorithms itself (--collective-algorithm auto)", name,
                   r->backend->name);
}

/* The groups of class c in the order of their lowest ranks: group[i], and its members. */
static int32_t groups_of(const struct lw_plan *p, int32_t c, int32_t *group,
                         struct exec_members *members, bool *seen)
{
    int32_t n = 0;

    for (int32_t g = 0; g < p->n_groups; g++)
        seen[g] = false;
    for (int32_t rank = 0; rank < p->n_ranks; rank++) {
        int32_t g = lw_plan_group_of(p, c, rank);
        if (g < 0 || seen[g])
            continue;
        seen[g] = true;
        members[n] = (struct exec_members){p->members + p->groups[g].first_member,
                                           p->groups[g].n_members};
        group[n++] = g;
    }
    return n;
}

static bool disjoint(const struct exec_members *groups, int32_t n, bool *taken, int32_t n_ranks)
{
    for (int32_t r = 0; r < n_ranks; r++)
        taken[r] = false;
    for (int32_t g = 0; g < n; g++)
        for (int32_t i = 0; i < groups[g].n; i++) {
            if (taken[groups[g].ranks[i]])
                return false;
            taken[groups[g].ranks[i]] = true;
        }
    return true;
}

static enum lw_status create_class(struct exec_run *r, const struct exec_members *groups, int32_t n,
                                   bool at_once, struct exec_comm **comms, struct lw_err *err)
{
    if (at_once && r->backend->comm_create_class)
        return r->backend->comm_create_class(r->world, groups, n, comms, err);
    for (int32_t i = 0; i < n; i++)
        LW_TRY(r->backend->comm_create(r->world, groups[i].ranks, groups[i].n, &comms[i], err));
    return LW_OK;
}

struct scratch {
    int32_t *group;               /* [n_groups] */
    struct exec_members *members; /* [n_groups] */
    struct exec_comm **comms;     /* [n_groups] */
    bool *seen;                   /* [n_groups] */
    bool *taken;                  /* [n_ranks] */
    bool *meets;                  /* [n_ranks] */
    int32_t *peers;               /* [n_ranks] */
};

static enum lw_status create(struct exec_run *r, struct scratch *k, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;

    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t n = groups_of(p, c, k->group, k->members, k->seen);
        LW_TRY(create_class(r, k->members, n, disjoint(k->members, n, k->taken, p->n_ranks),
                            k->comms, err));
        for (int32_t i = 0; i < n; i++) {
            r->comms[(int64_t)c * p->n_groups + k->group[i]] = k->comms[i];
            LW_TRY(choose_reducer(r, k->comms[i], p->comms[c].reducer, err));
        }
    }
    return LW_OK;
}

/* Marks the ranks that `rank` sends to or receives from on class c, in any variant of its
 * programs. An all-to-all may be made of messages: then all members meet. */
static void mark_members(const struct lw_plan *p, const struct lw_group *g, int32_t rank,
                         bool *meets)
{
    for (int32_t i = 0; i < g->n_members; i++)
        if (lw_plan_member_at(p, g->first_member + i) != rank)
            meets[lw_plan_member_at(p, g->first_member + i)] = true;
}

static void mark_peers(const struct lw_plan *p, int32_t c, int32_t rank, bool *meets)
{
    for (int32_t v = 0; v < p->n_variants; v++) {
        const struct lw_program *g =
            &p->programs[(int64_t)v * p->n_roles + lw_plan_role_of(p, rank)];
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++) {
            const struct lw_op *op = &p->ops[i];
            if (op->comm != c)
                continue;
            if (op->kind == LW_OP_ALL_TO_ALL)
                mark_members(p, &p->groups[lw_plan_group_of(p, c, rank)], rank,
                             meets);
            if (op->kind != LW_OP_SEND && op->kind != LW_OP_RECV)
                continue;
            int32_t peer = lw_plan_operand(p, op, rank).peer;
            if (peer >= 0 && peer < p->n_ranks)
                meets[peer] = true;
        }
    }
}

static enum lw_status connect_rank(struct exec_run *r, struct scratch *k, int32_t c, int32_t rank,
                                   struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    int32_t g = lw_plan_group_of(p, c, rank), n = 0;

    if (g < 0)
        return LW_OK;
    memset(k->meets, 0, (size_t)p->n_ranks * sizeof *k->meets);
    mark_peers(p, c, rank, k->meets);
    for (int32_t peer = 0; peer < p->n_ranks; peer++)
        if (k->meets[peer])
            k->peers[n++] = peer;
    if (n == 0)
        return LW_OK;
    return r->backend->comm_connect(r->world, r->comms[(int64_t)c * p->n_groups + g], rank,
                                    k->peers, n, err);
}

static enum lw_status connect(struct exec_run *r, struct scratch *k, struct lw_err *err)
{
    const struct exec_facts *f = &r->memory.facts;

    if (!r->backend->comm_connect)
        return LW_OK;
    for (int32_t c = 0; c < r->plan->n_comms; c++)
        for (int32_t rank = f->first_local; rank < f->first_local + f->n_local; rank++)
            LW_TRY(connect_rank(r, k, c, rank, err));
    return LW_OK;
}

enum lw_status exec_create_comms(struct exec_run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    struct scratch k;

    LW_TAKE(&r->arena, k.group, p->n_groups, err);
    LW_TAKE(&r->arena, k.members, p->n_groups, err);
    LW_TAKE(&r->arena, k.comms, p->n_groups, err);
    LW_TAKE(&r->arena, k.seen, p->n_groups, err);
    LW_TAKE(&r->arena, k.taken, p->n_ranks, err);
    LW_TAKE(&r->arena, k.meets, p->n_ranks, err);
    LW_TAKE(&r->arena, k.peers, p->n_ranks, err);
    LW_TRY(create(r, &k, err));
    return connect(r, &k, err);
}
