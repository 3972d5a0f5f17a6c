/* Each gradient reaches each update once: of every backward, of every member. Weights that a
 * program does not keep are there when they are used.
 *
 * A program is followed in the order of its list, which is the order in which conflicting uses
 * happen (hazards.c). A gradient is made by backwards, copied into its bucket where the program
 * copies, reduced once, copied out where the program does, summed over its copies at other stages,
 * and then read by the optimizer; whatever makes, copies or reduces it after a later part of this
 * is a fault. The clipping of gradients is plan_check_norm.c's, who owns which elements
 * plan_check_shard.c's.
 *
 * A flat buffer of weights is temporary where a program frees it: gathered, used and freed, in
 * turn, over all passes of a step. One that is gathered ahead is gathered once a step, before the
 * first op that uses it. Others are sent after the optimizer. A bucket of gradients has
 * room from an alloc to a free where the plan has such ops, and backwards write into it between
 * them. O(ops + gradients + slots + uses). */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/group_kinds.h"
#include "shared/check/plan_check.h"
#include "shared/plan/op.h"
#include "shared/plan/uses.h"
#include "shared/strategy/strategy.h"

struct lw_terms {
    const struct lw_plan *p;
    const struct lw_uses *uses;
    struct lw_arena room;
    int32_t variant, role, op;       /* at hand */
    int32_t *tied_of;                /* [n_params] bucket that sums its copies; -1 = none */
    bool *has_copy;                  /* [n_params] at another stage; both NULL: no copies */
    bool *made, *copied;             /* [n_params] so far */
    int32_t *copied_of;              /* [n_params] the micro-batch that was copied last */
    int32_t *reduced_by, *summed_by; /* [n_buckets] summed: a sparse gradient's, or copies' */
    int32_t *spread_by;              /* [n_buckets] summed over the data groups with replicas */
    int32_t *gathered_by, *freed_by; /* [n_buckets] of weights, temporary or gathered ahead; of
                                      * gradients, room */
    bool *roomed, has_rooms;         /* [n_buckets] of gradients whose room comes and goes */
    int32_t optimizer;
    bool has_replicas; /* of the role's stage: a class of LW_COMM_REPLICAS has groups there */
    int32_t placed; /* variant whose gradients were found in buckets */
};

/* The op at hand, what is wrong with it, and the other op that it is about, if any. */
static enum lw_status wrong(const struct lw_terms *k, const char *what, int32_t other,
                            struct lw_err *err)
{
    char more[LW_OP_TEXT];

    return lw_plan_op_fail(k->p, k->op, err, " %s%s", what,
                           other >= 0 ? lw_plan_op_text(k->p, other, more) : "");
}

/* The same about the gradient of a parameter. */
static enum lw_status wrong_gradient(const struct lw_terms *k, const char *what, int32_t param,
                                     const char *rest, int32_t other, struct lw_err *err)
{
    char more[LW_OP_TEXT];

    return lw_plan_op_fail(k->p, k->op, err, " %s the gradient of parameter %d '%.60s'%s%s", what,
                           param, k->p->params[param].name, rest,
                           other >= 0 ? lw_plan_op_text(k->p, other, more) : "");
}

/* --- in which bucket -------------------------------------------------------------------------- */

static bool has_gradient(const struct lw_plan_param *a)
{
    return a->trainable && a->used && !a->ignored;
}

/* A bucket of the variant for every gradient that needs one. */
static enum lw_status check_places(const struct lw_terms *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    for (int32_t i = 0; *p->variants[k->variant].set_name && i < p->n_params; i++)
        if (k->uses->bucket_of[i] < 0 && has_gradient(&p->params[i]) && lw_plan_holds(p, i))
            return lw_fail(err, LW_EPLAN,
                           "variant '%s': the gradient of parameter %d '%s' is in no bucket",
                           p->variants[k->variant].name, i, p->params[i].name);
    return LW_OK;
}

/* A parameter and the first of its set at another stage are copies of each other: each lies in one
 * bucket of its stage's tied gradients. */
static enum lw_status place_tied(struct lw_terms *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const char *set = lw_bucket_kind_name(LW_BUCKET_TIED);

    memset(k->tied_of, -1, (size_t)p->n_params * sizeof *k->tied_of);
    for (int32_t i = 0; i < p->n_params; i++)
        if (p->params[i].tied >= 0 && p->params[i].tied != i && lw_plan_holds(p, i))
            k->has_copy[i] = k->has_copy[p->params[i].tied] = true;
    for (int32_t b = 0; b < p->n_buckets; b++)
        for (int32_t i = 0; lw_plan_is_tied(p, b) && i < p->buckets[b].n_slots; i++) {
            int32_t a = p->slots[p->buckets[b].first_slot + i];
            if (k->tied_of[a] >= 0)
                return lw_fail(err, LW_EPLAN,
                               "parameter %d '%s' is in two buckets of set '%s', %d "
                               "and %d",
                               a, p->params[a].name, set, k->tied_of[a], b);
            if (!k->has_copy[a] || p->params[a].stage != p->sets[p->buckets[b].set].stage)
                return lw_fail(err, LW_EPLAN,
                               "bucket %d of set '%s': parameter %d '%s' has no copy "
                               "at another stage, or lives at another",
                               b, set, a, p->params[a].name);
            k->tied_of[a] = b;
        }
    for (int32_t i = 0; i < p->n_params; i++)
        if (k->has_copy[i] && has_gradient(&p->params[i]) && k->tied_of[i] < 0)
            return lw_fail(err, LW_EPLAN,
                           "parameter %d '%s' has a copy at another stage, but is in "
                           "no bucket of set '%s'",
                           i, p->params[i].name, set);
    return LW_OK;
}

/* --- gradients -------------------------------------------------------------------------------- */

static int32_t tied_of(const struct lw_terms *k, int32_t param)
{
    return k->tied_of ? k->tied_of[param] : -1;
}

/* What came before must not have been the end of the gradient. */
static enum lw_status check_open(const struct lw_terms *k, int32_t param, bool reduces,
                                 struct lw_err *err)
{
    int32_t b = k->uses->bucket_of[param], tied = tied_of(k, param);

    if (!reduces && b >= 0 && k->reduced_by[b] >= 0)
        return wrong_gradient(k, "works on", param, " after ", k->reduced_by[b], err);
    if (tied >= 0 && k->summed_by[tied] >= 0)
        return wrong_gradient(k, "works on", param, " after ", k->summed_by[tied], err);
    if (k->optimizer >= 0)
        return wrong_gradient(k, "works on", param, " after ", k->optimizer, err);
    return LW_OK;
}

/* A bucket that was reduced to owners takes the gradients of a later micro-batch: all of them
 * come again and are reduced again, and owners add the sums up. With --sync-each-micro-batch also
 * one that was all-reduced: each member adds its next gradient to the average that all of them
 * have, and the average of these sums is what is wanted; and one that was summed over replicas, of
 * whose owners one adds to what all of them have. */
static void reopen(struct lw_terms *k, int32_t param)
{
    const struct lw_plan *p = k->p;
    int32_t b = k->uses->bucket_of[param], by = b >= 0 ? k->reduced_by[b] : -1;

    if (by < 0 || lw_op_at(p, by).micro_batch >= lw_op_at(p, k->op).micro_batch ||
        (!p->strategy->sync_each &&
         (k->spread_by[b] >= 0 ||
          (lw_op_at(p, by).kind != LW_OP_REDUCE_SCATTER && lw_op_at(p, by).kind != LW_OP_REDUCE))))
        return;
    k->reduced_by[b] = k->spread_by[b] = -1;
    for (int32_t i = 0; i < p->buckets[b].n_slots; i++) {
        int32_t a = p->slots[p->buckets[b].first_slot + i];
        k->made[a] = k->copied[a] = false;
    }
}

/* A gradient that a backward adds to has room: visits the uses of the op at hand. */
static enum lw_status check_room(void *ctx, const struct lw_use *x, struct lw_err *err)
{
    const struct lw_terms *k = ctx;
    int32_t b = x->access != LW_ADD                 ? -1
                : x->buffer == LW_USE_BUCKET        ? x->index
                : x->buffer == LW_USE_GRADIENT      ? k->uses->bucket_of[x->index]
                                                    : -1;

    if (b < 0 || !k->roomed[b] || k->gathered_by[b] >= 0)
        return LW_OK;
    return wrong(k, k->freed_by[b] < 0 ? "writes gradients before they have room"
                                       : "writes gradients whose room is freed by ",
                 k->freed_by[b], err);
}

static enum lw_status follow_ready(struct lw_terms *k, struct lw_err *err)
{
    const struct lw_op *o = LW_OP_HELD(k->p, k->op);
    int32_t micro = lw_op_micro_batch(k->p, k->op);
    bool *there = o->kind == LW_OP_COPY_IN ? k->copied : k->made;

    for (int32_t r = o->first_ready; r < o->first_ready + o->n_ready; r++) {
        int32_t param = k->p->ready[r];
        if (lw_uses_skips(k->uses, param))
            continue;
        if (o->kind != LW_OP_COPY_IN)
            reopen(k, param);
        if (o->kind == LW_OP_COPY_IN)
            k->copied_of[param] = micro;
        else if (k->copied[param] && k->copied_of[param] < micro)
            return wrong_gradient(k, "makes", param, " before its copy is reduced", -1, err);
        LW_TRY(check_open(k, param, false, err));
        there[param] = true;
    }
    return LW_OK;
}

/* Nothing came before that was the end of a gradient of the bucket. */
static enum lw_status check_all_open(const struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_bucket *bucket = &k->p->buckets[b];

    for (int32_t i = 0; i < bucket->n_slots; i++) {
        int32_t param = k->p->slots[bucket->first_slot + i];
        if (!lw_uses_skips(k->uses, param))
            LW_TRY(check_open(k, param, true, err));
    }
    return LW_OK;
}

/* All gradients of the bucket are there; copies at other stages need the whole of theirs. */
static enum lw_status follow_reduction(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, k->op);

    for (int32_t i = 0; i < p->buckets[b].n_slots; i++) {
        int32_t a = p->slots[p->buckets[b].first_slot + i];
        if (lw_uses_skips(k->uses, a))
            continue;
        bool made = k->made[a] || !p->params[a].used;
        if (!made || (k->uses->copies && !k->copied[a]))
            return lw_plan_op_fail(p, k->op, err, ": the gradient of parameter %d '%s' is never %s",
                                   a, p->params[a].name,
                                   made ? "copied into its bucket" : "complete");
        LW_TRY(check_open(k, a, true, err));
        if (tied_of(k, a) >= 0 && (o->kind == LW_OP_REDUCE || o->kind == LW_OP_REDUCE_SCATTER))
            return wrong_gradient(k, "leaves a member with a part of", a,
                                  ", which is summed with its copies at other stages", -1, err);
    }
    k->reduced_by[b] = k->op;
    return LW_OK;
}

static enum lw_status follow_all_reduce(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_op *o = LW_OP(k->p, k->op);
    const struct lw_bucket *bucket = &k->p->buckets[b];

    if (k->reduced_by[b] >= 0)
        return lw_plan_op_fail(k->p, k->op, err, ": op %d has already reduced this bucket",
                               k->reduced_by[b]);
    if (o->operand < 0 && (o->bytes != bucket->bytes || o->dtype != bucket->dtype))
        return lw_plan_op_fail(k->p, k->op, err, ": %lld bytes of %s, but the bucket has %lld of "
                               "%s", (long long)o->bytes, lw_dtype_name(o->dtype),
                               (long long)bucket->bytes, lw_dtype_name(bucket->dtype));
    return follow_reduction(k, b, err);
}

/* What a data group has summed is added to the sums of the groups with replicas, once. */
static enum lw_status follow_replicas(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    if (lw_op_at(p, k->op).kind != LW_OP_ALL_REDUCE || k->reduced_by[b] < 0)
        return wrong(k, k->reduced_by[b] < 0 ? "comes before the reduction of its bucket"
                                             : "is over replicas, whose sums are all-reduced",
                     -1, err);
    if (k->spread_by[b] >= 0)
        return wrong(k, "sums over replicas again after ", k->spread_by[b], err);
    LW_TRY(check_all_open(k, b, err));
    k->spread_by[b] = k->op;
    return LW_OK;
}

/* The first all-gather reduces; the copy after the last one adds up, once. */
static enum lw_status follow_sparse(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_op *o = LW_OP(k->p, k->op);
    int32_t by = k->reduced_by[b];

    LW_TRY(lw_check_sparse(k->p, k->variant, k->role, k->op, by >= 0, err));
    if (by < 0)
        return follow_reduction(k, b, err);
    if (o->kind != LW_OP_COPY)
        return LW_OK;
    if (k->summed_by[b] >= 0)
        return lw_plan_op_fail(k->p, k->op, err, ": op %d has already added up", k->summed_by[b]);
    k->summed_by[b] = k->op;
    return LW_OK;
}

static enum lw_status follow_room(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    bool takes = lw_op_at(k->p, k->op).kind == LW_OP_ALLOC;

    if (takes == (k->gathered_by[b] >= 0))
        return wrong(k, takes ? "takes room that the bucket has since "
                              : "frees room that was not taken", k->gathered_by[b], err);
    k->gathered_by[b] = takes ? k->op : -1;
    k->freed_by[b] = takes ? -1 : k->op;
    return LW_OK;
}

static enum lw_status follow_gradients(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, k->op);
    const struct lw_bucket_set *set = &p->sets[p->buckets[b].set];

    if (!k->uses->reduces[p->buckets[b].set] || set->stage != p->roles[k->role].stage)
        return lw_plan_op_fail(p, k->op, err, ": the bucket is of set '%s', stage %d", set->name,
                               set->stage);
    if (o->comm >= 0 && p->comms[o->comm].purpose == LW_COMM_REPLICAS)
        return follow_replicas(k, b, err);
    if (lw_plan_sparse(p, b))
        return follow_sparse(k, b, err);
    if (o->kind == LW_OP_ALLOC || o->kind == LW_OP_FREE)
        return follow_room(k, b, err);
    if (o->kind == LW_OP_ALL_REDUCE)
        return follow_all_reduce(k, b, err);
    if (o->kind == LW_OP_REDUCE || o->kind == LW_OP_REDUCE_SCATTER)
        return follow_reduction(k, b, err);
    if (o->kind != LW_OP_COPY_OUT)
        return LW_OK;
    if (k->reduced_by[b] < 0)
        return wrong(k, "comes before the reduction of its bucket", -1, err);
    return check_all_open(k, b, err);
}

/* --- copies at other stages ------------------------------------------------------------------- */

static int32_t first_of(const struct lw_plan *p, int32_t param)
{
    return p->params[param].tied >= 0 ? p->params[param].tied : param;
}

static const struct lw_group *group_of_role(const struct lw_plan *p, int32_t comm, int32_t role)
{
    int32_t first = p->grid ? lw_grid_rank(p->grid->axis, 0, role, 0) : 0;

    for (int32_t r = first; r < p->n_ranks; r++)
        if (lw_plan_role_of(p, r) == role && lw_plan_group(p, comm, r))
            return lw_plan_group(p, comm, r);
    return NULL;
}

/* The group has a member at every stage with a copy. */
static enum lw_status check_members(const struct lw_terms *k, int32_t param, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t comm = lw_op_at(p, k->op).comm;
    const struct lw_group *g = group_of_role(p, comm, k->role);
    struct lw_group_roles in = {.n = 0};

    if (g)
        in = lw_group_roles_of(p, comm, g);
    for (int32_t i = 0; i < p->n_params; i++) {
        bool there = false;
        if (!k->has_copy[i] || first_of(p, i) != first_of(p, param))
            continue;
        for (int32_t m = 0; !there && m < in.n; m++)
            there = p->roles[lw_group_role(&in, m)].stage == p->params[i].stage;
        if (!there)
            return lw_plan_op_fail(p, k->op, err, ": its group has no member at stage %d, where "
                                   "parameter %d '%s' is a copy of '%s'", p->params[i].stage, i,
                                   p->params[i].name, p->params[param].name);
    }
    return LW_OK;
}

static enum lw_status follow_tied(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, k->op);
    const struct lw_bucket *bucket = &p->buckets[b];

    if (o->kind != LW_OP_ALL_REDUCE || p->comms[o->comm].purpose != LW_COMM_EMBEDDING ||
        o->bytes != bucket->bytes || o->dtype != bucket->dtype || o->operand >= 0)
        return lw_plan_op_fail(p, k->op, err, ": copies of parameters are summed by an all-reduce "
                               "of their %lld bytes over an embedding communicator",
                               (long long)bucket->bytes);
    if (p->sets[bucket->set].stage != p->roles[k->role].stage)
        return lw_plan_op_fail(p, k->op, err, ": the bucket is of stage %d",
                               p->sets[bucket->set].stage);
    if (k->summed_by[b] >= 0)
        return lw_plan_op_fail(p, k->op, err, ": op %d has already summed this bucket",
                               k->summed_by[b]);
    for (int32_t i = 0; i < bucket->n_slots; i++) {
        int32_t a = p->slots[bucket->first_slot + i], data = k->uses->bucket_of[a];
        LW_TRY(check_members(k, a, err));
        LW_TRY(check_open(k, a, true, err));
        if (data >= 0 && k->reduced_by[data] < 0)
            return wrong_gradient(k, "sums", a, " before its data group does", -1, err);
    }
    k->summed_by[b] = k->op;
    return LW_OK;
}

/* --- the update, and weights ------------------------------------------------------------------ */

/* All buckets of the stage have been reduced, and summed over copies, when the program updates or
 * ends. */
static enum lw_status check_reduced(const struct lw_terms *k, bool ends, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_variant *v = &p->variants[k->variant];

    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_bucket_set *set = &p->sets[p->buckets[b].set];
        bool tied = set->kind == LW_BUCKET_TIED && v->ends_step;
        const char *lacks = NULL;
        if (set->stage != p->roles[k->role].stage)
            continue;
        if (k->uses->reduces[p->buckets[b].set])
            lacks = k->reduced_by[b] < 0                          ? "reduced"
                    : lw_plan_sparse(p, b) && k->summed_by[b] < 0 ? "added up"
                    : k->has_replicas && k->spread_by[b] < 0      ? "summed over the replicas"
                                                                  : NULL;
        else if (tied && k->summed_by[b] < 0)
            lacks = "summed";
        if (lacks && !ends)
            return lw_plan_op_fail(p, k->op, err, " updates before bucket %d is %s", b, lacks);
        if (lacks && tied)
            return lw_fail(err, LW_EPLAN,
                           "variant '%s', role '%s': bucket %d of set '%s' is never "
                           "summed",
                           v->name, p->roles[k->role].name, b, set->name);
        if (lacks)
            return lw_fail(err, LW_EPLAN, "variant '%s': bucket %d is %snever %s", v->name, b,
                           k->reduced_by[b] < 0         ? ""
                           : lw_plan_sparse(p, b)       ? "gathered and "
                                                        : "reduced and ", lacks);
    }
    return LW_OK;
}

/* Weights that are gathered ahead: what the optimizer before left has reached all members. */
static enum lw_status make_stale(struct lw_terms *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    for (int32_t b = 0; b < p->n_buckets; b++) {
        if (!k->uses->ahead[b] || p->sets[p->buckets[b].set].stage != p->roles[k->role].stage)
            continue;
        if (k->gathered_by[b] < 0)
            return lw_plan_op_fail(p, k->op, err, " updates the weights of bucket %d, which were "
                                   "not gathered in the step", b);
        k->gathered_by[b] = -1;
    }
    return LW_OK;
}

static enum lw_status follow_update(struct lw_terms *k, struct lw_err *err)
{
    for (int32_t b = 0; b < k->p->n_buckets; b++)
        if (k->uses->temporary[b] && k->gathered_by[b] >= 0)
            return wrong(k, "makes weights stale that are not freed: ", k->gathered_by[b], err);
    LW_TRY(make_stale(k, err));
    k->optimizer = k->op;
    return LW_OK;
}

static enum lw_status follow_weights(struct lw_terms *k, int32_t b, struct lw_err *err)
{
    const struct lw_op *o = LW_OP(k->p, k->op);

    if (!k->uses->temporary[b] && !k->uses->ahead[b])
        return k->optimizer >= 0 || o->comm < 0
                   ? LW_OK
                   : wrong(k, "sends weights: no optimizer comes before it", -1, err);
    if (o->kind == LW_OP_ALL_GATHER && k->gathered_by[b] >= 0)
        return wrong(k, "gathers weights that are there since ", k->gathered_by[b], err);
    if (o->kind == LW_OP_FREE && k->gathered_by[b] < 0)
        return wrong(k, "frees weights that were not gathered", -1, err);
    if (o->kind == LW_OP_ALL_GATHER)
        k->gathered_by[b] = k->op;
    if (o->kind == LW_OP_FREE) {
        k->gathered_by[b] = -1;
        k->freed_by[b] = k->op;
    }
    return LW_OK;
}

/* Of weights that are temporary or gathered ahead: ops that compute with them find them
 * gathered. */
static enum lw_status check_there(const struct lw_terms *k, int32_t module, struct lw_err *err)
{
    const struct lw_uses *u = k->uses;

    for (int32_t i = u->module_first[module]; i < u->module_first[module + 1]; i++) {
        int32_t b = u->module_weights[i];
        if ((k->uses->temporary[b] || k->uses->ahead[b]) && k->gathered_by[b] < 0 &&
            lw_plan_op_reads(k->p, k->op, b))
            return wrong(k,
                         k->freed_by[b] < 0 ? "uses weights that were never gathered"
                                            : "uses weights that are freed by ",
                         k->freed_by[b], err);
    }
    return LW_OK;
}

/* A forward in pieces (lw_plan_op_reads): each but the last names weights that are there, and the
 * last reads all. */
static enum lw_status check_piece(const struct lw_terms *k, struct lw_err *err)
{
    const struct lw_op *o = LW_OP(k->p, k->op);
    struct lw_program g = k->uses->program;
    int32_t next = k->op + 1;

    if (!k->uses->ahead[o->bucket] || k->gathered_by[o->bucket] < 0)
        return wrong(k, "names a bucket that is not of weights gathered ahead before it", -1, err);
    while (next < g.first_op + g.n_ops && lw_op_at(k->p, next).kind != LW_OP_FORWARD)
        next++;
    if (next == g.first_op + g.n_ops || lw_op_at(k->p, next).module != o->module ||
        lw_op_at(k->p, next).micro_batch != o->micro_batch)
        return wrong(k, "is the last piece of its module's forward, and names a bucket: it reads "
                        "all weights", -1, err);
    return LW_OK;
}

static enum lw_status follow_op(struct lw_terms *k, struct lw_err *err)
{
    const struct lw_op *o = LW_OP_HELD(k->p, k->op);

    LW_TRY(follow_ready(k, err));
    if (k->has_rooms && o->kind != LW_OP_COPY_IN)
        LW_TRY(lw_op_uses(k->uses, k->op, -1, check_room, k, err));
    if (lw_op_uses_weights(o))
        LW_TRY(check_there(k, o->module, err));
    if (o->kind == LW_OP_OPTIMIZER) {
        LW_TRY(check_reduced(k, false, err));
        return follow_update(k, err);
    }
    if (o->kind == LW_OP_FORWARD && o->bucket >= 0)
        return check_piece(k, err);
    if (o->bucket < 0)
        return LW_OK;
    switch (k->p->sets[k->p->buckets[o->bucket].set].kind) {
    case LW_BUCKET_WEIGHTS:
        return follow_weights(k, o->bucket, err);
    case LW_BUCKET_TIED:
        return follow_tied(k, o->bucket, err);
    case LW_BUCKET_GRADIENTS:
        return follow_gradients(k, o->bucket, err);
    default:
        return LW_OK;
    }
}

static bool has_tied_set(const struct lw_plan *p)
{
    bool any = false;

    for (int32_t s = 0; s < p->n_sets; s++)
        any = any || p->sets[s].kind == LW_BUCKET_TIED;
    return any;
}

static enum lw_status make_room(struct lw_terms *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t **by_bucket[] = {&k->reduced_by, &k->summed_by, &k->spread_by, &k->gathered_by,
                             &k->freed_by};

    for (size_t i = 0; i < sizeof by_bucket / sizeof *by_bucket; i++)
        if (!(*by_bucket[i] = lw_arena_alloc(room, p->n_buckets, sizeof **by_bucket[i])))
            return lw_fail_nomem(err);
    LW_TAKE(room, k->roomed, p->n_buckets, err);
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *o = LW_OP(p, i);
        if (lw_op_class((enum lw_op_kind)o->kind) == LW_CLASS_MEMORY && o->bucket >= 0 &&
            lw_plan_bucket_kind(p, o->bucket) == LW_BUCKET_GRADIENTS)
            k->has_rooms = k->roomed[o->bucket] = true;
    }
    LW_TAKE_ROOM(room, k->made, p->n_params, err);
    LW_TAKE_ROOM(room, k->copied, p->n_params, err);
    LW_TAKE(room, k->copied_of, p->n_params, err);
    if (!k->uses->has_copies && !has_tied_set(p))
        return LW_OK;
    k->has_copy = lw_arena_alloc(room, p->n_params, sizeof *k->has_copy);
    k->tied_of = lw_arena_alloc(room, p->n_params, sizeof *k->tied_of);
    return k->has_copy && k->tied_of ? LW_OK : lw_fail_nomem(err);
}

enum lw_status lw_check_terms_init(struct lw_terms **out, const struct lw_uses *uses,
                                   struct lw_err *err)
{
    struct lw_terms *k;

    LW_NEW(k, 1, err);
    k->p = uses->p;
    k->uses = uses;
    k->placed = -1;
    enum lw_status s = make_room(k, &k->room, err);
    if (s == LW_OK && k->has_copy)
        s = place_tied(k, err);
    if (s == LW_OK)
        *out = k;
    else
        lw_check_terms_free(k);
    return s;
}

void lw_check_terms_free(struct lw_terms *k)
{
    if (!k)
        return;
    lw_arena_free(&k->room);
    lw_free(k);
}

enum lw_status lw_check_terms(struct lw_terms *k, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    int32_t *by_bucket[] = {k->reduced_by, k->summed_by, k->spread_by, k->gathered_by,
                            k->freed_by};

    k->variant = k->uses->variant;
    k->role = k->uses->role;
    struct lw_program g = k->uses->program;
    memset(k->made, 0, (size_t)p->n_params * sizeof *k->made);
    memset(k->copied, 0, (size_t)p->n_params * sizeof *k->copied);
    for (size_t i = 0; i < sizeof by_bucket / sizeof *by_bucket; i++)
        memset(by_bucket[i], -1, (size_t)p->n_buckets * sizeof **by_bucket);
    memcpy(k->gathered_by, k->uses->held, (size_t)p->n_buckets * sizeof *k->gathered_by);
    k->optimizer = -1;
    k->has_replicas = false;
    for (int32_t c = 0; c < p->n_comms; c++)
        k->has_replicas = k->has_replicas || (p->comms[c].purpose == LW_COMM_REPLICAS &&
                                              group_of_role(p, c, k->role));
    if (k->placed != k->variant)
        LW_TRY(check_places(k, err));
    k->placed = k->variant;
    for (k->op = g.first_op; k->op < g.first_op + g.n_ops; k->op++)
        LW_TRY(follow_op(k, err));
    return check_reduced(k, true, err);
}
