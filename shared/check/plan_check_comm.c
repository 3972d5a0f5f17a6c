/* Communication of a plan: the members of a group issue the same collectives in the same order with
 * the same kind, bytes, dtype and root; every send has its receive (plan_check_message.c); and
 * no rank waits for ever (plan_check_progress.c).
 *
 * Collectives are compared role by role, since ranks of a role run one list; each pair of roles
 * once per communicator class, in one group of each kind (group_kinds.h). Only what differs between
 * the ranks of a role (operands) is compared rank by rank. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/group_kinds.h"
#include "shared/check/plan_check.h"
#include "shared/plan/op.h"

struct comm_check {
    const struct lw_plan *p;
    int32_t variant;
    int32_t *first;      /* [n_roles * n_comms + 1]: where a role's collectives of a class begin */
    int32_t *list;       /* ops; none where the plan has no collectives */
    bool any;            /* the plan has some */
    int32_t *compared;   /* [n_roles]: 1 + the role it was last found equal to */
    bool *by_member;     /* [n_roles * n_comms]: of its collectives there, some have operands */
    bool *by_group;      /* [n_roles * n_comms]: some have operands or a root */
    struct lw_group_kinds kinds;
};

static bool is_collective(const struct lw_op *o)
{
    return lw_op_class(o->kind) == LW_CLASS_COLLECTIVE;
}

bool lw_check_has_collectives(const struct lw_plan *p)
{
    int32_t n;
    const struct lw_op *ops = lw_plan_held_ops(p, &n);

    for (int32_t i = 0; i < n; i++)
        if (is_collective(&ops[i]))
            return true;
    return false;
}

static struct lw_program program_of(const struct lw_plan *p, int32_t variant, int32_t role)
{
    return p->programs[(int64_t)variant * p->n_roles + role];
}

/* --- collectives ------------------------------------------------------------------------------ */

static bool is_rooted(const struct lw_op *o)
{
    return o->kind == LW_OP_BROADCAST || o->kind == LW_OP_REDUCE;
}

static void list_collectives(struct comm_check *k)
{
    const struct lw_plan *p = k->p;
    int64_t cells = (int64_t)p->n_roles * p->n_comms;

    memset(k->first, 0, (size_t)(cells + 1) * sizeof *k->first);
    memset(k->by_member, 0, (size_t)cells * sizeof *k->by_member);
    memset(k->by_group, 0, (size_t)cells * sizeof *k->by_group);
    for (int pass = 0; k->any && pass < 2; pass++) {
        for (int32_t r = 0; r < p->n_roles; r++) {
            struct lw_program g = program_of(p, k->variant, r);
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
                const struct lw_op *o = lw_op_shared(p, i);
                if (!is_collective(o))
                    continue;
                int64_t cell = (int64_t)r * p->n_comms + o->comm;
                k->by_member[cell] |= o->operand >= 0;
                k->by_group[cell] |= o->operand >= 0 || is_rooted(o);
                if (pass == 0)
                    k->first[cell + 1]++;
                else
                    k->list[k->first[cell]++] = i;
            }
        }
        if (pass == 0)
            for (int64_t c = 0; c < cells; c++)
                k->first[c + 1] += k->first[c];
    }
    for (int64_t c = cells; c > 0; c--) /* filling moved each start to the next one's */
        k->first[c] = k->first[c - 1];
    k->first[0] = 0;
}

static enum lw_status differ(const struct comm_check *k, int32_t comm, int32_t a, int32_t b,
                             const char *what, int64_t x, int64_t y, struct lw_err *err)
{
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    return lw_fail(err, LW_EPLAN,
                   "communicator '%.40s': %s and %s meet, but their %s differ: %lld and "
                   "%lld",
                   k->p->comms[comm].name, lw_plan_op_text(k->p, a, text),
                   lw_plan_op_text(k->p, b, other), what, (long long)x, (long long)y);
}

/* Roles a and b meet in this class: one list. */
static enum lw_status compare_roles(const struct comm_check *k, int32_t comm, int32_t a, int32_t b,
                                    struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const int32_t *fa = k->first + (int64_t)a * p->n_comms + comm;
    const int32_t *fb = k->first + (int64_t)b * p->n_comms + comm;
    int32_t na = fa[1] - fa[0], nb = fb[1] - fb[0];

    for (int32_t i = 0; i < na && i < nb; i++) {
        int32_t ia = k->list[fa[0] + i], ib = k->list[fb[0] + i];
        const struct lw_op *x = LW_OP(p, ia), *y = LW_OP(p, ib);
        if (x->kind != y->kind)
            return differ(k, comm, ia, ib, "kinds", x->kind, y->kind, err);
        if (x->dtype != y->dtype)
            return differ(k, comm, ia, ib, "dtypes", x->dtype, y->dtype, err);
        if (x->operand >= 0 || y->operand >= 0)
            continue; /* compared by rank */
        if (x->bytes != y->bytes)
            return differ(k, comm, ia, ib, "bytes", x->bytes, y->bytes, err);
        if (x->peer != y->peer)
            return differ(k, comm, ia, ib, "roots", x->peer, y->peer, err);
    }
    if (na != nb)
        return lw_fail(err, LW_EPLAN, "communicator '%s', variant '%s': role '%s' issues %d "
                                      "collectives, role '%s' issues %d", p->comms[comm].name,
                       p->variants[k->variant].name, p->roles[a].name, na, p->roles[b].name, nb);
    return LW_OK;
}

/* The i-th collective as each member sees it, where operands are in play; the root is a member. */
static enum lw_status compare_members(const struct comm_check *k, int32_t comm,
                                      const struct lw_group *g, int32_t i, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    struct lw_operand first = {0};
    int32_t first_op = -1;

    for (int32_t m = 0; m < g->n_members; m++) {
        int32_t rank = lw_plan_member_of(p, g, m), role = lw_plan_role_of(p, rank);
        int32_t op = k->list[k->first[(int64_t)role * p->n_comms + comm] + i];
        struct lw_operand d = lw_plan_operand(p, LW_OP(p, op), rank);
        if (m == 0) {
            first = d;
            first_op = op;
        }
        if (d.bytes != first.bytes)
            return differ(k, comm, first_op, op, "bytes", first.bytes, d.bytes, err);
        if (d.peer != first.peer)
            return differ(k, comm, first_op, op, "roots", first.peer, d.peer, err);
    }
    return LW_OK;
}

static enum lw_status check_root(const struct comm_check *k, int32_t comm, int32_t group,
                                 int32_t op, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t member = lw_plan_member_at(p, p->groups[group].first_member);
    int32_t root = lw_plan_operand(p, LW_OP(p, op), member).peer;

    if (!is_rooted(LW_OP(p, op)))
        return LW_OK;
    if (root < 0 || lw_plan_group_of(p, comm, root) != group)
        return lw_plan_op_fail(p, op, err, ": its root, rank %d, is not a member of group %d",
                               root, group);
    return LW_OK;
}

/* The lists of the group's roles are equal. *operands: some of these ops have one. */
static enum lw_status compare_lists(struct comm_check *k, int32_t comm, const struct lw_group *g,
                                    bool *operands, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_group_roles in = lw_group_roles_of(p, comm, g);
    int32_t lead = lw_group_role(&in, 0);

    *operands = k->by_member[(int64_t)lead * p->n_comms + comm];
    for (int32_t m = 1; m < in.n; m++) {
        int32_t role = lw_group_role(&in, m);
        if (role == lead)
            continue;
        *operands |= k->by_member[(int64_t)role * p->n_comms + comm];
        if (k->compared[role] == lead + 1)
            continue;
        LW_TRY(compare_roles(k, comm, lead, role, err));
        k->compared[role] = lead + 1;
    }
    return LW_OK;
}

static enum lw_status check_group(struct comm_check *k, int32_t comm, int32_t group,
                                  struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_group *g = &p->groups[group];
    int64_t lead =
        (int64_t)lw_plan_role_of(p, lw_plan_member_at(p, g->first_member)) * p->n_comms + comm;
    const int32_t *cell = k->first + lead;
    bool operands;

    LW_TRY(compare_lists(k, comm, g, &operands, err));
    for (int32_t i = cell[0]; (operands || k->by_group[lead]) && i < cell[1]; i++) {
        if (operands || lw_op_at(p, k->list[i]).operand >= 0)
            LW_TRY(compare_members(k, comm, g, i - cell[0], err));
        LW_TRY(check_root(k, comm, group, k->list[i], err));
    }
    return LW_OK;
}

static enum lw_status check_ranks(struct comm_check *k, int32_t comm, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    memset(k->compared, 0, (size_t)p->n_roles * sizeof *k->compared);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const int32_t *cell = k->first + (int64_t)lw_plan_role_of(p, r) * p->n_comms + comm;
        int32_t group = lw_plan_group_of(p, comm, r);
        if (group < 0 && cell[1] > cell[0])
            return lw_plan_op_fail(p, k->list[cell[0]], err, ": rank %d is in no group of "
                                   "communicator '%.40s'", r, p->comms[comm].name);
        if (group >= 0 && lw_plan_member_at(p, p->groups[group].first_member) == r)
            LW_TRY(check_group(k, comm, group, err));
    }
    return LW_OK;
}

/* A group of each kind is right, all ranks with collectives are in groups, and none of them differs
 * between ranks or has a root. */
static bool kinds_are_right(struct comm_check *k, int32_t comm)
{
    const struct lw_plan *p = k->p;
    bool right = true, operands;

    memset(k->compared, 0, (size_t)p->n_roles * sizeof *k->compared);
    for (int32_t r = 0; right && r < p->n_roles; r++) {
        int64_t cell = (int64_t)r * p->n_comms + comm;
        bool all = k->kinds.inside[(int64_t)comm * p->n_roles + r] == p->roles[r].n_ranks;
        right = !k->by_group[cell] && (all || k->first[cell + 1] == k->first[cell]);
    }
    for (int32_t i = k->kinds.first[comm]; right && i < k->kinds.first[comm + 1]; i++)
        right = compare_lists(k, comm, &p->groups[k->kinds.group[i]], &operands, NULL) == LW_OK;
    return right;
}

/* By kind of group; what is not right so is looked at rank by rank, which names it. */
static enum lw_status check_class(struct comm_check *k, int32_t comm, struct lw_err *err)
{
    return kinds_are_right(k, comm) ? LW_OK : check_ranks(k, comm, err);
}

static enum lw_status check_collectives(struct comm_check *k, struct lw_err *err)
{
    list_collectives(k);
    for (int32_t c = 0; c < k->p->n_comms; c++)
        LW_TRY(check_class(k, c, err));
    return LW_OK;
}

static enum lw_status check_variant(struct comm_check *k, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_matches matches = {0};

    LW_TRY(check_collectives(k, err));
    enum lw_status s = lw_match_messages(k->p, k->variant, &matches, &room, err);
    if (s == LW_OK)
        s = lw_check_progress(k->p, k->variant, &matches, &k->kinds, err);
    lw_arena_free(&room);
    return s;
}

enum lw_status lw_check_comm(const struct lw_plan *p, struct lw_err *err)
{
    struct comm_check k = {.p = p, .any = lw_check_has_collectives(p)};
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;

    k.first = lw_arena_alloc(&room, (int64_t)p->n_roles * p->n_comms + 1, sizeof *k.first);
    k.list = lw_arena_alloc(&room, k.any ? p->n_ops : 0, sizeof *k.list);
    k.compared = lw_arena_alloc(&room, p->n_roles, sizeof *k.compared);
    k.by_member = lw_arena_alloc(&room, (int64_t)p->n_roles * p->n_comms, sizeof *k.by_member);
    k.by_group = lw_arena_alloc(&room, (int64_t)p->n_roles * p->n_comms, sizeof *k.by_group);
    if (!k.first || !k.list || !k.compared || !k.by_member || !k.by_group)
        s = lw_fail_nomem(err);
    if (s == LW_OK)
        s = lw_group_kinds_find(p, &k.kinds, err);
    for (k.variant = 0; s == LW_OK && k.variant < p->n_variants; k.variant++)
        s = check_variant(&k, err);
    lw_group_kinds_free(&k.kinds);
    lw_arena_free(&room);
    return s;
}
