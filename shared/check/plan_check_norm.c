/* Clipping of a plan: gradients are scaled by a norm in which every element that any rank updates
 * counts exactly once (docs/design/grad_norm.md).
 *
 * Proven for every variant that ends a step: the list of a program with an optimizer has one
 * chain of ops about its stage's bucket of LW_BUCKET_NORM: a copy_in after everything that works
 * on gradients, all-reduces, a copy_out and the optimizer, in this order (that it holds in time
 * is hazards.c's). Then the chains of all ranks are followed backwards: what reaches a rank is
 * the sum of what its last group's members had before, and so on down to single ranks. Every
 * class of ranks that count the same (plan_check_classes.c) must be met once. All members of a
 * rank's last group end with the same sum, so one of them speaks for all. O(ops + shards + ranks
 * * ranks that one of the last groups sums over). */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"

enum { MAX_SUMS = 8 };

struct sum {
    int32_t op, comm, turn; /* turn: which of its program's collectives over comm it is */
};

struct chain { /* of one role; ops, -1 = none */
    int32_t squares, scale, n_sums;
    struct sum sums[MAX_SUMS];
};

struct norm {
    const struct lw_plan *p;
    int32_t variant;
    struct lw_program program;
    struct chain *chains; /* [n_roles] of the variant */
    int32_t *depth;       /* [n_comms] how many sums may lie below one over this class */
    struct lw_norm_classes classes;
    int32_t *met, *owner_met, *common_met; /* [n_ranks] last sum in which the rank, or a rank of the
                                            * class, was met: 1 + the rank that ends with it */
    int32_t *owner_by, *common_by;         /* [n_ranks] that rank */
    int32_t n_met;
};

/* --- one chain -------------------------------------------------------------------------------- */

static bool names_norm(const struct lw_plan *p, const struct lw_op *o)
{
    return o->bucket >= 0 && lw_plan_is_norm(p, o->bucket);
}

/* It makes, copies, reduces or sums gradients. */
static bool works_on_gradients(const struct lw_plan *p, const struct lw_op *o)
{
    bool moves = o->comm >= 0 || lw_op_class(o->kind) == LW_CLASS_COPY;

    return o->n_ready > 0 || (o->bucket >= 0 && moves && !lw_plan_is_weights(p, o->bucket) &&
                              !lw_plan_is_norm(p, o->bucket));
}

static enum lw_status again(const struct norm *k, int32_t op, int32_t before, const char *what,
                            struct lw_err *err)
{
    return lw_plan_op_fail(k->p, op, err, ": op %d has already %s", before, what);
}

static enum lw_status check_squares(const struct norm *k, struct chain *c, int32_t op,
                                    struct lw_err *err)
{
    if (c->squares >= 0)
        return again(k, op, c->squares, "taken the squares", err);
    c->squares = op;
    return LW_OK;
}

/* The chain goes on with this op. */
static enum lw_status check_link(const struct norm *k, const struct chain *c, int32_t op,
                                 struct lw_err *err)
{
    if (c->squares < 0)
        return lw_plan_op_fail(k->p, op, err, ": no copy_in of its bucket comes before it");
    if (c->scale >= 0)
        return again(k, op, c->scale, "scaled the gradients", err);
    return LW_OK;
}

static int32_t turn_of(const struct norm *k, int32_t op)
{
    int32_t turn = 0;

    for (int32_t i = k->program.first_op; i < op; i++)
        turn += lw_op_at(k->p, i).comm == lw_op_at(k->p, op).comm &&
                lw_op_class(lw_op_at(k->p, i).kind) == LW_CLASS_COLLECTIVE;
    return turn;
}

static enum lw_status check_sum(const struct norm *k, struct chain *c, int32_t op,
                                struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, op);
    const struct lw_bucket *b = &p->buckets[o->bucket];

    LW_TRY(check_link(k, c, op, err));
    if (o->bytes != b->bytes || o->dtype != b->dtype || o->operand >= 0)
        return lw_plan_op_fail(p, op, err, ": %lld bytes of %s, but the number has %lld of %s",
                               (long long)o->bytes, lw_dtype_name(o->dtype), (long long)b->bytes,
                               lw_dtype_name(b->dtype));
    for (int32_t s = 0; s < c->n_sums; s++)
        if (c->sums[s].comm == o->comm)
            return lw_plan_op_fail(p, op, err, " is the second sum over '%.40s', after op %d",
                                   p->comms[o->comm].name, c->sums[s].op);
    if (c->n_sums == MAX_SUMS)
        return lw_plan_op_fail(p, op, err, ": a norm is summed over %d communicators at most",
                               MAX_SUMS);
    c->sums[c->n_sums++] = (struct sum){op, o->comm, turn_of(k, op)};
    return LW_OK;
}

static enum lw_status check_about_norm(const struct norm *k, int32_t role, int32_t op,
                                       struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, op);
    struct chain *c = &k->chains[role];
    int32_t stage = p->sets[p->buckets[o->bucket].set].stage;

    if (stage != p->roles[role].stage)
        return lw_plan_op_fail(p, op, err, ": the bucket is of stage %d", stage);
    switch (o->kind) {
    case LW_OP_COPY_IN:
        return check_squares(k, c, op, err);
    case LW_OP_ALL_REDUCE:
        return check_sum(k, c, op, err);
    case LW_OP_COPY_OUT:
        LW_TRY(check_link(k, c, op, err));
        c->scale = op;
        return LW_OK;
    default:
        return lw_plan_op_fail(p, op, err, ": a norm is taken by copy_in, summed by all_reduce, "
                               "used by copy_out");
    }
}

static enum lw_status check_optimizer(const struct norm *k, const struct chain *c, int32_t op,
                                      struct lw_err *err)
{
    if (c->scale < 0)
        return lw_plan_op_fail(k->p, op, err, ": the plan clips at norm %g, but no copy_out of "
                               "set '%s' comes before it", k->p->strategy->clip,
                               lw_bucket_kind_name(LW_BUCKET_NORM));
    return LW_OK;
}

static enum lw_status check_program(struct norm *k, int32_t role, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    struct lw_program g = p->programs[(int64_t)k->variant * p->n_roles + role];
    struct chain *c = &k->chains[role];

    *c = (struct chain){.squares = -1, .scale = -1};
    k->program = g;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = LW_OP(p, i);
        if (names_norm(p, o))
            LW_TRY(check_about_norm(k, role, i, err));
        else if (c->squares >= 0 && works_on_gradients(p, o))
            return again(k, i, c->squares, "taken the squares of the gradients that it works on",
                         err);
        if (o->kind == LW_OP_OPTIMIZER)
            LW_TRY(check_optimizer(k, c, i, err));
    }
    if (c->squares >= 0 && c->scale < 0)
        return lw_plan_op_fail(p, c->squares, err, ": no copy_out of its bucket uses the norm");
    return LW_OK;
}

/* --- what reaches a rank ---------------------------------------------------------------------- */

static const struct chain *chain_of(const struct norm *k, int32_t rank)
{
    return &k->chains[lw_plan_role_of(k->p, rank)];
}

/* A sum over a class lies above all sums that come before it in any chain. */
static enum lw_status find_depths(struct norm *k, struct lw_err *err)
{
    bool moved = true;

    memset(k->depth, 0, (size_t)k->p->n_comms * sizeof *k->depth);
    for (int32_t round = 0; moved; round++) {
        moved = false;
        for (int32_t r = 0; r < k->p->n_roles; r++)
            for (int32_t s = 1; s < k->chains[r].n_sums; s++) {
                const struct sum *x = &k->chains[r].sums[s];
                if (k->depth[x->comm] > k->depth[x[-1].comm])
                    continue;
                if (round > MAX_SUMS)
                    return lw_fail(err, LW_EPLAN,
                                   "variant '%s': roles sum the norm over '%.40s' and "
                                   "'%.40s' in different orders",
                                   k->p->variants[k->variant].name, k->p->comms[x[-1].comm].name,
                                   k->p->comms[x->comm].name);
                k->depth[x->comm] = k->depth[x[-1].comm] + 1;
                moved = true;
            }
    }
    return LW_OK;
}

/* The rank's last sum that lies below this depth; NULL = its own squares. */
static const struct sum *sum_below(const struct norm *k, int32_t rank, int32_t depth)
{
    const struct chain *c = chain_of(k, rank);

    for (int32_t s = c->n_sums - 1; s >= 0; s--)
        if (k->depth[c->sums[s].comm] < depth)
            return &c->sums[s];
    return NULL;
}

static const char *scale_text(const struct norm *k, int32_t rank, char *text)
{
    return lw_plan_op_text(k->p, chain_of(k, rank)->scale, text);
}

static enum lw_status counted_twice(const struct norm *k, int32_t end, int32_t a, int32_t b,
                                    struct lw_err *err)
{
    char text[LW_OP_TEXT];

    if (a == b)
        return lw_fail(err, LW_EPLAN, "%s: the norm of rank %d counts rank %d twice",
                       scale_text(k, end, text), end, a);
    return lw_fail(err, LW_EPLAN, "%s: the norm of rank %d counts what ranks %d and %d both update "
                                  "from each of them", scale_text(k, end, text), end, a, b);
}

static enum lw_status meet_class(struct norm *k, int32_t end, int32_t class_, int32_t rank,
                                 int32_t *met, int32_t *by, struct lw_err *err)
{
    if (class_ < 0)
        return LW_OK;
    if (met[class_] == end + 1)
        return counted_twice(k, end, by[class_], rank, err);
    met[class_] = end + 1;
    by[class_] = rank;
    k->n_met++;
    return LW_OK;
}

/* The rank's own squares are part of the sum that ends at `end`. */
static enum lw_status meet(struct norm *k, int32_t end, int32_t rank, struct lw_err *err)
{
    if (k->met[rank] == end + 1)
        return counted_twice(k, end, rank, rank, err);
    k->met[rank] = end + 1;
    LW_TRY(meet_class(k, end, k->classes.owner[rank], rank, k->owner_met, k->owner_by, err));
    return meet_class(k, end, k->classes.common[rank], rank, k->common_met, k->common_by, err);
}

/* All that is in the rank's number before sums of this depth and above. */
static enum lw_status collect(struct norm *k, int32_t end, int32_t rank, int32_t depth,
                              struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct sum *s = sum_below(k, rank, depth);
    char text[LW_OP_TEXT];

    if (!s)
        return meet(k, end, rank, err);
    const struct lw_group *g = lw_plan_group(p, s->comm, rank);
    for (int32_t i = 0; g && i < g->n_members; i++) {
        int32_t member = lw_plan_member_at(p, g->first_member + i);
        const struct sum *theirs = sum_below(k, member, k->depth[s->comm] + 1);
        if (!theirs || theirs->comm != s->comm || theirs->turn != s->turn)
            return lw_plan_op_fail(p, s->op, err, ": rank %d does not add its squares", member);
        LW_TRY(collect(k, end, member, k->depth[s->comm], err));
    }
    return g ? LW_OK
             : lw_fail(err, LW_EPLAN, "%s: rank %d is in no group of communicator '%.40s'",
                       lw_plan_op_text(p, s->op, text), rank, p->comms[s->comm].name);
}

static enum lw_status lacks(const struct norm *k, int32_t end, struct lw_err *err)
{
    char text[LW_OP_TEXT];
    int32_t rank = 0;

    while ((k->classes.owner[rank] != rank || k->owner_met[rank] == end + 1) &&
           (k->classes.common[rank] != rank || k->common_met[rank] == end + 1))
        rank++;
    return lw_fail(err, LW_EPLAN, "%s: the norm of rank %d lacks what rank %d updates",
                   scale_text(k, end, text), end, rank);
}

/* Somebody else of the rank's last group speaks for it. */
static bool is_spoken_for(const struct norm *k, int32_t rank)
{
    const struct chain *c = chain_of(k, rank);
    const struct lw_group *g =
        c->n_sums > 0 ? lw_plan_group(k->p, c->sums[c->n_sums - 1].comm, rank) : NULL;

    return c->scale < 0 || (g && lw_plan_member_at(k->p, g->first_member) != rank);
}

static enum lw_status check_ranks(struct norm *k, struct lw_err *err)
{
    int32_t n = k->p->n_ranks;

    LW_TRY(find_depths(k, err));
    memset(k->met, 0, (size_t)n * sizeof *k->met);
    memset(k->owner_met, 0, (size_t)n * sizeof *k->owner_met);
    memset(k->common_met, 0, (size_t)n * sizeof *k->common_met);
    for (int32_t r = 0; r < n; r++) {
        if (is_spoken_for(k, r))
            continue;
        k->n_met = 0;
        LW_TRY(collect(k, r, r, INT32_MAX, err));
        if (k->n_met < k->classes.n)
            return lacks(k, r, err);
    }
    return LW_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum lw_status check_variant(struct norm *k, struct lw_err *err)
{
    for (int32_t r = 0; r < k->p->n_roles; r++)
        LW_TRY(check_program(k, r, err));
    return check_ranks(k, err);
}

/* A pass that does not end the step has no norm to take. */
static enum lw_status check_absent(const struct lw_plan *p, int32_t variant, struct lw_err *err)
{
    char text[LW_OP_TEXT];

    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)variant * p->n_roles + r];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            if (names_norm(p, LW_OP(p, i)))
                return lw_fail(err, LW_EPLAN, "%s: %s", lw_plan_op_text(p, i, text),
                               p->strategy->clip > 0 ? "the variant does not end a step"
                                                    : "the plan clips nothing");
    }
    return LW_OK;
}

static enum lw_status run(struct norm *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t **lists[] = {&k->met, &k->owner_met, &k->common_met, &k->owner_by, &k->common_by};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!(*lists[i] = lw_arena_alloc(room, p->n_ranks, sizeof **lists[i])))
            return lw_fail_nomem(err);
    LW_TAKE(room, k->chains, p->n_roles, err);
    LW_TAKE(room, k->depth, p->n_comms, err);
    LW_TRY(lw_norm_classes_find(p, &k->classes, room, err));
    for (k->variant = 0; k->variant < p->n_variants; k->variant++)
        LW_TRY(p->variants[k->variant].ends_step ? check_variant(k, err)
                                                 : check_absent(p, k->variant, err));
    return LW_OK;
}

enum lw_status lw_check_norm(const struct lw_plan *p, struct lw_err *err)
{
    struct norm k = {.p = p};
    struct lw_arena room = {0};
    enum lw_status s = LW_OK;

    bool any = false;

    for (int32_t i = 0; i < p->n_sets; i++)
        any = any || p->sets[i].kind == LW_BUCKET_NORM;
    for (int32_t v = 0; any && p->strategy->clip <= 0 && v < p->n_variants; v++)
        LW_TRY(check_absent(p, v, err));
    if (p->strategy->clip > 0)
        s = run(&k, &room, err);
    lw_arena_free(&room);
    return s;
}
