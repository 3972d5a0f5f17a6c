/* Communication of a plan: the members of a group issue the same collectives in the same order with
 * the same kind, bytes, dtype and root; every send has its receive with equal bytes; and nobody waits
 * for ever (plan_check_progress.c).
 *
 * Collectives are compared role by role, since ranks of a role run one list; each pair of roles once
 * per communicator class. Only what differs between the ranks of a role (operands) is compared rank
 * by rank. Messages are matched rank by rank: the i-th send from a to b in a class with the i-th
 * receive of b from a. */
#include <stdlib.h>
#include <string.h>

#include "shared/arena.h"
#include "shared/plan_check.h"

struct comm_check {
    const struct lw_plan *p;
    int32_t variant;
    int32_t *first;      /* [n_roles * n_comms + 1]: where a role's collectives of a class begin */
    int32_t *list;       /* ops */
    int32_t *compared;   /* [n_roles]: 1 + the role it was last found equal to */
};

static bool is_collective(const struct lw_op *o)
{
    return lw_op_class(o->kind) == LW_CLASS_COLLECTIVE;
}

static struct lw_program program_of(const struct lw_plan *p, int32_t variant, int32_t role)
{
    return p->programs[(int64_t)variant * p->n_roles + role];
}

/* --- collectives -------------------------------------------------------------------------------- */

static void list_collectives(struct comm_check *k)
{
    const struct lw_plan *p = k->p;
    int64_t cells = (int64_t)p->n_roles * p->n_comms;

    memset(k->first, 0, (size_t)(cells + 1) * sizeof *k->first);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t r = 0; r < p->n_roles; r++) {
            struct lw_program g = program_of(p, k->variant, r);
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
                if (!is_collective(&p->ops[i]))
                    continue;
                int64_t cell = (int64_t)r * p->n_comms + p->ops[i].comm;
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

    return lw_fail(err, LW_EPLAN, "communicator '%.40s': %s and %s meet, but their %s differ: %lld and "
                                  "%lld", k->p->comms[comm].name, lw_check_op_text(k->p, a, text),
                   lw_check_op_text(k->p, b, other), what, (long long)x, (long long)y);
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
        const struct lw_op *x = &p->ops[ia], *y = &p->ops[ib];
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
    const int32_t *members = p->members + g->first_member;
    struct lw_operand first = {0};
    int32_t first_op = -1;

    for (int32_t m = 0; m < g->n_members; m++) {
        int32_t role = p->role_of[members[m]];
        int32_t op = k->list[k->first[(int64_t)role * p->n_comms + comm] + i];
        struct lw_operand d = lw_plan_operand(p, &p->ops[op], members[m]);
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

static enum lw_status check_root(const struct comm_check *k, int32_t comm, int32_t group, int32_t op,
                                 struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t member = p->members[p->groups[group].first_member];
    int32_t root = lw_plan_operand(p, &p->ops[op], member).peer;
    bool rooted = p->ops[op].kind == LW_OP_BROADCAST || p->ops[op].kind == LW_OP_REDUCE;
    char text[LW_OP_TEXT];

    if (!rooted)
        return LW_OK;
    if (root < 0 || p->comm_group[(int64_t)comm * p->n_ranks + root] != group)
        return lw_fail(err, LW_EPLAN, "%s: its root, rank %d, is no member of group %d",
                       lw_check_op_text(p, op, text), root, group);
    return LW_OK;
}

static enum lw_status check_group(struct comm_check *k, int32_t comm, int32_t group,
                                  struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_group *g = &p->groups[group];
    const int32_t *members = p->members + g->first_member;
    int32_t lead = p->role_of[members[0]];
    const int32_t *cell = k->first + (int64_t)lead * p->n_comms + comm;
    bool operands = false;

    for (int32_t m = 1; m < g->n_members; m++) {
        int32_t role = p->role_of[members[m]];
        if (role == lead || k->compared[role] == lead + 1)
            continue;
        LW_TRY(compare_roles(k, comm, lead, role, err));
        k->compared[role] = lead + 1;
        for (int32_t i = k->first[(int64_t)role * p->n_comms + comm];
             i < k->first[(int64_t)role * p->n_comms + comm + 1]; i++)
            operands = operands || p->ops[k->list[i]].operand >= 0;
    }
    for (int32_t i = cell[0]; i < cell[1]; i++) {
        if (operands || p->ops[k->list[i]].operand >= 0)
            LW_TRY(compare_members(k, comm, g, i - cell[0], err));
        LW_TRY(check_root(k, comm, group, k->list[i], err));
    }
    return LW_OK;
}

static enum lw_status check_class(struct comm_check *k, int32_t comm, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const int32_t *of = p->comm_group + (int64_t)comm * p->n_ranks;

    memset(k->compared, 0, (size_t)p->n_roles * sizeof *k->compared);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const int32_t *cell = k->first + (int64_t)p->role_of[r] * p->n_comms + comm;
        char text[LW_OP_TEXT];
        if (of[r] < 0 && cell[1] > cell[0])
            return lw_fail(err, LW_EPLAN, "%s: rank %d is in no group of communicator '%.40s'",
                           lw_check_op_text(p, k->list[cell[0]], text), r, p->comms[comm].name);
        if (of[r] >= 0 && p->members[p->groups[of[r]].first_member] == r)
            LW_TRY(check_group(k, comm, of[r], err));
    }
    return LW_OK;
}

static enum lw_status check_collectives(struct comm_check *k, struct lw_err *err)
{
    list_collectives(k);
    for (int32_t c = 0; c < k->p->n_comms; c++)
        LW_TRY(check_class(k, c, err));
    return LW_OK;
}

/* --- sends and receives ------------------------------------------------------------------------- */

struct message {
    int32_t comm, from, to, op; /* op: on the rank that sends or receives it */
    bool received;
    int64_t bytes;
};

static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a, *y = b;

    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->received != y->received)
        return x->received - y->received;
    return (x->op > y->op) - (x->op < y->op);
}

/* The messages of every rank; list NULL: checked and counted only. */
static enum lw_status list_messages(const struct lw_plan *p, const struct lw_matches *m,
                                    struct message *list, int64_t *n, struct lw_err *err)
{
    *n = 0;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        for (int32_t k = m->first[p->role_of[r]]; k < m->first[p->role_of[r] + 1]; k++) {
            const struct lw_op *o = &p->ops[m->list[k]];
            struct lw_operand d = lw_plan_operand(p, o, r);
            const int32_t *of = p->comm_group + (int64_t)o->comm * p->n_ranks;
            char text[LW_OP_TEXT];
            if (d.peer < 0 || of[r] < 0 || of[d.peer] != of[r])
                return lw_fail(err, LW_EPLAN, "%s on rank %d: peer %d is not in its group of "
                                              "communicator '%.40s'",
                               lw_check_op_text(p, m->list[k], text), r, d.peer,
                               p->comms[o->comm].name);
            bool received = o->kind == LW_OP_RECV;
            if (list)
                list[*n] = (struct message){o->comm, received ? d.peer : r,
                                            received ? r : d.peer, m->list[k], received, d.bytes};
            (*n)++;
        }
    }
    return LW_OK;
}

static enum lw_status unmatched(const struct lw_plan *p, const struct message *m,
                                struct lw_err *err)
{
    char text[LW_OP_TEXT];

    return lw_fail(err, LW_EPLAN, "%s on rank %d: rank %d never %s it",
                   lw_check_op_text(p, m->op, text), m->received ? m->to : m->from,
                   m->received ? m->from : m->to, m->received ? "sends" : "receives");
}

/* list is sorted: for each (class, from, to) the sends, then the receives, both in program order. */
static enum lw_status match(const struct lw_plan *p, const struct message *list, int64_t n,
                            struct lw_matches *out, struct lw_err *err)
{
    for (int64_t i = 0; i < n;) {
        int64_t end = i, receives;
        while (end < n && list[end].comm == list[i].comm && list[end].from == list[i].from &&
               list[end].to == list[i].to)
            end++;
        for (receives = i; receives < end && !list[receives].received; receives++)
            ;
        int64_t n_sent = receives - i, n_received = end - receives;
        for (int64_t k = 0; k < n_sent && k < n_received; k++) {
            const struct message *s = &list[i + k], *r = &list[receives + k];
            char text[LW_OP_TEXT], other[LW_OP_TEXT];
            if (s->bytes != r->bytes)
                return lw_fail(err, LW_EPLAN, "%s sends %lld bytes from rank %d, but %s takes %lld "
                                              "on rank %d", lw_check_op_text(p, s->op, text),
                               (long long)s->bytes, s->from, lw_check_op_text(p, r->op, other),
                               (long long)r->bytes, r->to);
            int32_t at = out->base[s->from] + out->ordinal[s->op];
            out->rank[at] = s->to;
            out->op[at] = r->op;
            at = out->base[r->to] + out->ordinal[r->op];
            out->rank[at] = r->from;
            out->op[at] = s->op;
        }
        if (n_sent != n_received)
            return unmatched(p, n_sent > n_received ? &list[i + n_received] : &list[receives + n_sent],
                             err);
        i = end;
    }
    return LW_OK;
}

/* The sends and receives of each role, found once: ranks are many. */
static enum lw_status find_messages(const struct lw_plan *p, int32_t variant,
                                    struct lw_matches *out, struct lw_arena *room,
                                    struct lw_err *err)
{
    int32_t *first = lw_arena_alloc(room, (int64_t)p->n_roles + 1, sizeof *first), n = 0;

    if (!first)
        return lw_fail_nomem(err);
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = program_of(p, variant, r);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            n += lw_op_class(p->ops[i].kind) == LW_CLASS_P2P;
        first[r + 1] = n;
    }
    out->first = first;
    out->any = n > 0;
    if (n == 0)
        return LW_OK;
    int32_t *list = lw_arena_alloc(room, n, sizeof *list);
    int32_t *ordinal = lw_arena_alloc(room, p->n_ops, sizeof *ordinal);
    if (!list || !ordinal)
        return lw_fail_nomem(err);
    for (int32_t r = 0, at = 0; r < p->n_roles; r++) {
        struct lw_program g = program_of(p, variant, r);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            if (lw_op_class(p->ops[i].kind) != LW_CLASS_P2P)
                continue;
            ordinal[i] = at - first[r];
            list[at++] = i;
        }
    }
    out->list = list;
    out->ordinal = ordinal;
    return LW_OK;
}

static enum lw_status check_messages(const struct lw_plan *p, int32_t variant,
                                     struct lw_matches *out, struct lw_arena *room,
                                     struct lw_err *err)
{
    int64_t n;

    LW_TRY(find_messages(p, variant, out, room, err));
    if (!out->any)
        return LW_OK;
    LW_TRY(list_messages(p, out, NULL, &n, err));
    if (n > INT32_MAX)
        return lw_fail(err, LW_EPLAN, "variant '%s' has %lld messages, more than 2^31",
                       p->variants[variant].name, (long long)n);
    int32_t *base = lw_arena_alloc(room, p->n_ranks, sizeof *base);
    struct message *list = lw_arena_alloc(room, n, sizeof *list);
    out->rank = lw_arena_alloc(room, n, sizeof *out->rank);
    out->op = lw_arena_alloc(room, n, sizeof *out->op);
    if (!base || !list || !out->rank || !out->op)
        return lw_fail_nomem(err);
    for (int32_t r = 1; r < p->n_ranks; r++)
        base[r] = base[r - 1] + out->first[p->role_of[r - 1] + 1] - out->first[p->role_of[r - 1]];
    out->base = base;
    LW_TRY(list_messages(p, out, list, &n, err));
    qsort(list, (size_t)n, sizeof *list, compare_messages);
    return match(p, list, n, out, err);
}

static enum lw_status check_variant(struct comm_check *k, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_matches matches = {0};

    LW_TRY(check_collectives(k, err));
    enum lw_status s = check_messages(k->p, k->variant, &matches, &room, err);
    if (s == LW_OK)
        s = lw_check_progress(k->p, k->variant, &matches, err);
    lw_arena_free(&room);
    return s;
}

enum lw_status lw_check_comm(const struct lw_plan *p, struct lw_err *err)
{
    struct comm_check k = {.p = p};
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;

    k.first = lw_arena_alloc(&room, (int64_t)p->n_roles * p->n_comms + 1, sizeof *k.first);
    k.list = lw_arena_alloc(&room, p->n_ops, sizeof *k.list);
    k.compared = lw_arena_alloc(&room, p->n_roles, sizeof *k.compared);
    if (!k.first || !k.list || !k.compared)
        s = lw_fail_nomem(err);
    for (k.variant = 0; s == LW_OK && k.variant < p->n_variants; k.variant++)
        s = check_variant(&k, err);
    lw_arena_free(&room);
    return s;
}
