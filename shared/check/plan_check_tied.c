/* Parameters with copies on several stages: before each update their gradients are summed over all
 * copies, once.
 *
 * Proven: every such parameter that gets a gradient lies in exactly one bucket of its stage's
 * LW_BUCKET_TIED; in every variant that ends a step each bucket of a role's stage is all-reduced once,
 * whole, over a group that has every stage with a copy, after whatever completes, copies or reduces
 * the gradient (to all members: not to a share or an owner), and before the optimizer begins. Plans
 * without copies cost a look at the parameters. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/check/vector_clock.h"

struct tied {
    const struct lw_plan *p;
    struct lw_op_clock clock;
    int32_t *bucket_of;  /* [n_params] in LW_BUCKET_TIED; -1 = none */
    int32_t *data_of;    /* [n_params] bucket that the variant reduces it in; -1 = none */
    int32_t *summed_by;  /* [n_buckets] op of the program; -1 = none yet */
    bool *has_copy;      /* [n_params] */
};

/* A parameter and the first of its set at another stage are copies of each other. */
static bool find_copies(struct tied *k)
{
    const struct lw_plan *p = k->p;
    bool any = false;

    for (int32_t i = 0; i < p->n_params; i++) {
        int32_t first = p->params[i].tied;
        if (first < 0 || !lw_plan_holds(p, i) || first == i)
            continue;
        any = k->has_copy[i] = k->has_copy[first] = true;
    }
    return any;
}

static bool has_gradient(const struct lw_plan_param *a)
{
    return a->trainable && a->used && !a->ignored;
}

static enum lw_status place(struct tied *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    memset(k->bucket_of, -1, (size_t)p->n_params * sizeof *k->bucket_of);
    for (int32_t b = 0; b < p->n_buckets; b++) {
        for (int32_t i = 0; lw_plan_is_tied(p, b) && i < p->buckets[b].n_slots; i++) {
            int32_t a = p->slots[p->buckets[b].first_slot + i];
            if (k->bucket_of[a] >= 0)
                return lw_fail(err, LW_EPLAN, "parameter %d '%s' is in two buckets of set '%s', %d "
                                              "and %d", a, p->params[a].name, lw_bucket_kind_name(LW_BUCKET_TIED),
                               k->bucket_of[a], b);
            if (!k->has_copy[a] || p->params[a].stage != p->sets[p->buckets[b].set].stage)
                return lw_fail(err, LW_EPLAN, "bucket %d of set '%s': parameter %d '%s' has no copy "
                                              "at another stage, or lives at another", b,
                               lw_bucket_kind_name(LW_BUCKET_TIED), a, p->params[a].name);
            k->bucket_of[a] = b;
        }
    }
    for (int32_t i = 0; i < p->n_params; i++)
        if (k->has_copy[i] && has_gradient(&p->params[i]) && k->bucket_of[i] < 0)
            return lw_fail(err, LW_EPLAN, "parameter %d '%s' has a copy at another stage, but is in "
                                          "no bucket of set '%s'", i, p->params[i].name,
                           lw_bucket_kind_name(LW_BUCKET_TIED));
    return LW_OK;
}

static int32_t first_of(const struct lw_plan *p, int32_t param)
{
    return p->params[param].tied >= 0 ? p->params[param].tied : param;
}

/* The group of a rank of this role has a member at every stage with a copy. */
static enum lw_status check_members(const struct tied *k, int32_t op, int32_t role, int32_t param,
                                    struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_group *g = NULL;
    char text[LW_OP_TEXT];

    for (int32_t r = 0; r < p->n_ranks && !g; r++)
        if (p->role_of[r] == role)
            g = lw_plan_group(p, p->ops[op].comm, r);
    for (int32_t i = 0; i < p->n_params; i++) {
        bool there = false;
        if (!k->has_copy[i] || first_of(p, i) != first_of(p, param))
            continue;
        for (int32_t m = 0; g && m < g->n_members; m++)
            there = there || p->roles[p->role_of[p->members[g->first_member + m]]].stage ==
                                 p->params[i].stage;
        if (!there)
            return lw_fail(err, LW_EPLAN, "%s: its group has no member at stage %d, where parameter "
                                          "%d '%s' is a copy of '%s'", lw_check_op_text(p, op, text),
                           p->params[i].stage, i, p->params[i].name, p->params[param].name);
    }
    return LW_OK;
}

static bool is_about(const struct tied *k, const struct lw_op *o, int32_t param)
{
    if (o->bucket >= 0 && o->bucket == k->data_of[param])
        return true;
    for (int32_t r = o->first_ready; r < o->first_ready + o->n_ready; r++)
        if (k->p->ready[r] == param)
            return true;
    return false;
}

/* Shares and owners may differ from stage to stage, so every member has the whole gradient. */
static enum lw_status check_whole(const struct tied *k, int32_t op, int32_t reduced_by, int32_t param,
                                  struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = &p->ops[reduced_by];
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    if (o->bucket < 0 || o->bucket != k->data_of[param] ||
        (o->kind != LW_OP_REDUCE && o->kind != LW_OP_REDUCE_SCATTER))
        return LW_OK;
    return lw_fail(err, LW_EPLAN, "%s sums copies of parameter %d '%s', of which %s leaves a member "
                                  "with a part", lw_check_op_text(p, op, text), param,
                   p->params[param].name, lw_check_op_text(p, reduced_by, other));
}

/* Whatever makes, copies or reduces the gradient has ended when the sum begins. */
static enum lw_status check_sum(const struct tied *k, int32_t op, int32_t role, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = &p->ops[op];
    const struct lw_bucket *b = &p->buckets[o->bucket];
    struct lw_program g = k->clock.program;
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    if (o->kind != LW_OP_ALL_REDUCE || p->comms[o->comm].purpose != LW_COMM_EMBEDDING ||
        o->bytes != b->bytes || o->dtype != b->dtype || o->operand >= 0)
        return lw_fail(err, LW_EPLAN, "%s: copies of parameters are summed by an all-reduce of their "
                                      "%lld bytes over an embedding communicator",
                       lw_check_op_text(p, op, text), (long long)b->bytes);
    if (p->sets[b->set].stage != p->roles[role].stage)
        return lw_fail(err, LW_EPLAN, "%s: the bucket is of stage %d",
                       lw_check_op_text(p, op, text), p->sets[b->set].stage);
    if (k->summed_by[o->bucket] >= 0)
        return lw_fail(err, LW_EPLAN, "%s: op %d has already summed this bucket",
                       lw_check_op_text(p, op, text), k->summed_by[o->bucket]);
    for (int32_t s = 0; s < b->n_slots; s++) {
        int32_t param = p->slots[b->first_slot + s];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            if (is_about(k, &p->ops[i], param) && (i >= op || !lw_op_after(&k->clock, op, i)))
                return lw_fail(err, LW_EPLAN, "%s does not wait for %s, which works on the gradient "
                                              "of parameter %d '%s'",
                               lw_check_op_text(p, op, text), lw_check_op_text(p, i, other), param,
                               p->params[param].name);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            LW_TRY(check_whole(k, op, i, param, err));
        LW_TRY(check_members(k, op, role, param, err));
    }
    return LW_OK;
}

static enum lw_status check_program(struct tied *k, int32_t variant, int32_t role,
                                    struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    struct lw_program g = p->programs[(int64_t)variant * p->n_roles + role];
    char text[LW_OP_TEXT], other[LW_OP_TEXT];

    lw_op_clock_set(&k->clock, g);
    memset(k->summed_by, -1, (size_t)p->n_buckets * sizeof *k->summed_by);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        int32_t b = p->ops[i].bucket;
        if (b >= 0 && lw_plan_is_tied(p, b)) {
            LW_TRY(check_sum(k, i, role, err));
            k->summed_by[b] = i;
        }
        for (int32_t s = 0; p->ops[i].kind == LW_OP_OPTIMIZER && s < p->n_buckets; s++)
            if (k->summed_by[s] >= 0 && !lw_op_after(&k->clock, i, k->summed_by[s]))
                return lw_fail(err, LW_EPLAN, "%s does not wait for %s",
                               lw_check_op_text(p, i, text),
                               lw_check_op_text(p, k->summed_by[s], other));
    }
    for (int32_t b = 0; b < p->n_buckets; b++)
        if (lw_plan_is_tied(p, b) && p->sets[p->buckets[b].set].stage == p->roles[role].stage &&
            p->variants[variant].ends_step && k->summed_by[b] < 0)
            return lw_fail(err, LW_EPLAN, "variant '%s', role '%s': bucket %d of set '%s' is never "
                                          "summed", p->variants[variant].name, p->roles[role].name,
                           b, lw_bucket_kind_name(LW_BUCKET_TIED));
    return LW_OK;
}

/* The buckets in which a variant reduces the gradients. */
static void find_data(struct tied *k, int32_t variant)
{
    const struct lw_plan *p = k->p;

    memset(k->data_of, -1, (size_t)p->n_params * sizeof *k->data_of);
    for (int32_t b = 0; b < p->n_buckets; b++)
        for (int32_t i = 0; i < p->buckets[b].n_slots; i++)
            if (lw_plan_uses_set(p, variant, p->buckets[b].set))
                k->data_of[p->slots[p->buckets[b].first_slot + i]] = b;
}

static enum lw_status run(struct tied *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    k->has_copy = lw_arena_alloc(room, p->n_params, sizeof *k->has_copy);
    if (!k->has_copy)
        return lw_fail_nomem(err);
    bool any = find_copies(k);
    for (int32_t s = 0; s < p->n_sets; s++)
        any = any || p->sets[s].kind == LW_BUCKET_TIED;
    if (!any)
        return LW_OK;
    k->bucket_of = lw_arena_alloc(room, p->n_params, sizeof *k->bucket_of);
    k->data_of = lw_arena_alloc(room, p->n_params, sizeof *k->data_of);
    k->summed_by = lw_arena_alloc(room, p->n_buckets, sizeof *k->summed_by);
    if (!k->bucket_of || !k->data_of || !k->summed_by)
        return lw_fail_nomem(err);
    LW_TRY(place(k, err));
    LW_TRY(lw_op_clock_init(&k->clock, p, room, err));
    for (int32_t v = 0; v < p->n_variants; v++) {
        find_data(k, v);
        for (int32_t r = 0; r < p->n_roles; r++)
            LW_TRY(check_program(k, v, r, err));
    }
    return LW_OK;
}

enum lw_status lw_check_tied(const struct lw_plan *p, struct lw_err *err)
{
    struct tied k = {.p = p};
    struct lw_arena room = {0};
    enum lw_status s = run(&k, &room, err);

    lw_arena_free(&room);
    return s;
}
