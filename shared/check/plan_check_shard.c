/* Sharded optimizers of a plan: what a member updates reaches all of them, once, by the flat
 * buffers of the kind LW_BUCKET_WEIGHTS, and gradients that are reduced to one member go to the
 * owner.
 *
 * Proven for every variant: a broadcast comes from the owner of all shards of its flat buffer, an
 * all-gather has each shard inside its owner's share; no parameter is sent twice (but for those
 * that terms.c follows); a reduce-scatter leaves each shard with its owner; a reduce has the
 * owner of all of its bucket as root; in variants that end a step each shard with an owner is
 * sent. Over replicas each member sums its own share; replicas and data groups together are all
 * that hold a copy, each once. That weights are sent after the optimizer, or before the next use,
 * is shown by terms.c. O(ops + runs of shards + flat buffers * members). */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/plan/op.h"
#include "shared/plan/role_line.h"
#include "shared/plan/shard_runs.h"
#include "shared/plan/uses.h"

struct shard_check {
    const struct lw_plan *p;
    int32_t *first, *next; /* chains of runs of shards by parameter; -1 = end */
    int32_t *owned, n_owned; /* of each parameter the first run that has an owner; ascending */
    int32_t *sent_by;      /* [n_params] op of the program that sends it; -1 = none yet */
    enum lw_op_kind *reduced_as; /* [n_buckets] in the program, over a data group */
    bool *temporary;       /* [n_buckets] weights that a program frees or gathers ahead */
    struct lw_role_ranks ranks;
};

static enum lw_status wrong_owner(const struct lw_plan *p, int32_t op, const struct lw_shard *h,
                                  const char *what, int32_t found, struct lw_err *err)
{
    return lw_plan_op_fail(p, op, err, ": elements %lld and %lld more of parameter %d '%s' belong "
                           "to member %d, but %s member %d", (long long)h->first,
                           (long long)h->numel, h->param, p->params[h->param].name, h->owner, what,
                           found);
}

/* Every shard of the bucket's parameters belongs to the root. */
static enum lw_status check_root_owns(const struct shard_check *k, int32_t op, int32_t root,
                                      const char *what, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_bucket *b = &p->buckets[lw_op_at(p, op).bucket];

    for (int32_t i = 0; i < b->n_slots; i++)
        for (int32_t s = k->first[p->slots[b->first_slot + i]]; s >= 0; s = k->next[s]) {
            const struct lw_shard_run x = lw_shard_run_at(p, s);
            struct lw_shard other = lw_shard_of_run(&x, x.first.owner == root ? x.n - 1 : 0);
            if (other.owner != root)
                return wrong_owner(p, op, &other, what, root, err);
        }
    return LW_OK;
}

/* [from, to) lies in the owner's share. */
static bool is_in_share(int64_t from, int64_t to, int32_t owner, int32_t n_members, int64_t share)
{
    return owner >= 0 && owner < n_members && from >= owner * share && to <= (owner + 1) * share;
}

/* Of a run of shards that are not empty, of which the first begins at `from` of the buffer: if the
 * first and the last lie in their shares, those between them do. */
static bool run_is_in_shares(const struct lw_shard_run *x, int64_t from, int32_t n_members,
                             int64_t share)
{
    int64_t numel = x->first.numel, last = from + (x->n - 1) * numel;

    return is_in_share(from, from + numel, x->first.owner, n_members, share) &&
           is_in_share(last, last + numel, x->first.owner + x->n - 1, n_members, share);
}

/* Which shard of a run lies in no share of its owner. */
static enum lw_status name_shard(const struct lw_plan *p, int32_t op, const struct lw_shard_run *x,
                                 int64_t from, int64_t share, struct lw_err *err)
{
    for (int32_t i = 0; i < x->n; i++, from += x->first.numel) {
        const struct lw_shard h = lw_shard_of_run(x, i);
        int32_t owner = share > 0 ? (int32_t)(from / share) : 0;
        if (h.owner != owner || from + h.numel > (owner + 1) * share)
            return wrong_owner(p, op, &h, "lie in the share of", owner, err);
    }
    return LW_OK;
}

/* Every shard lies in its owner's share of the buffer. */
static enum lw_status check_shares(const struct shard_check *k, int32_t op, int32_t n_members,
                                   struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_bucket *b = &p->buckets[lw_op_at(p, op).bucket];
    int64_t elements = b->bytes / lw_dtype_size(b->dtype), share = elements / n_members;

    if (elements % n_members != 0)
        return lw_plan_op_fail(p, op, err, ": %lld elements make no equal shares for %d members",
                               (long long)elements, n_members);
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, b, &w);) {
        for (int32_t s = k->first[w.slot.param]; s >= 0; s = k->next[s]) {
            const struct lw_shard_run x = lw_shard_run_at(p, s);
            int64_t from = w.slot.offset + x.first.first;
            if (x.first.numel != 0 && !run_is_in_shares(&x, from, n_members, share))
                LW_TRY(name_shard(p, op, &x, from, share, err));
        }
    }
    return LW_OK;
}

static enum lw_status check_weights(struct shard_check *k, int32_t op, int32_t rank,
                                    struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, op);
    const struct lw_group *g = o->comm >= 0 ? lw_plan_group(p, o->comm, rank) : NULL;
    const struct lw_bucket *b = &p->buckets[o->bucket];
    struct lw_operand d = lw_plan_operand(p, o, rank);

    if (!g || (o->kind != LW_OP_BROADCAST && o->kind != LW_OP_ALL_GATHER))
        return lw_plan_op_fail(p, op, err, ": weights are sent by broadcast or all-gather");
    if (d.bytes != b->bytes || o->dtype != b->dtype)
        return lw_plan_op_fail(p, op, err, ": %lld bytes of %s, but the flat buffer has %lld of %s",
                               (long long)d.bytes, lw_dtype_name(o->dtype), (long long)b->bytes,
                               lw_dtype_name(b->dtype));
    if (o->kind == LW_OP_BROADCAST)
        return check_root_owns(k, op, lw_plan_member(p, g, d.peer), "are broadcast from", err);
    return check_shares(k, op, g->n_members, err);
}

static const struct lw_group *group_for(const struct lw_plan *p, enum lw_comm_purpose purpose,
                                        int32_t rank)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        if (p->comms[c].purpose == purpose && lw_plan_group(p, c, rank))
            return lw_plan_group(p, c, rank);
    return NULL;
}

/* Over replicas: what the rank's data group left with it. */
static enum lw_status check_spread(const struct shard_check *k, int32_t op, int32_t rank,
                                   struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_bucket *b = &p->buckets[lw_op_at(p, op).bucket];
    bool expert = b->n_slots > 0 && p->params[p->slots[b->first_slot]].expert;
    const struct lw_group *data =
        group_for(p, expert ? LW_COMM_EXPERT_DATA : LW_COMM_DATA, rank);
    bool share = k->reduced_as[lw_op_at(p, op).bucket] == LW_OP_REDUCE_SCATTER && data;
    int64_t bytes = share ? b->bytes / data->n_members : b->bytes;
    int64_t offset = share ? bytes * lw_plan_member(p, data, rank) : 0;
    struct lw_operand d = lw_plan_operand(p, LW_OP(p, op), rank);

    if (d.bytes == bytes && d.offset == offset && lw_op_at(p, op).dtype == b->dtype)
        return LW_OK;
    return lw_plan_op_fail(p, op, err,
                           ": rank %d sums %lld bytes of %s from byte %lld of the "
                           "bucket; it holds the %lld bytes of %s from byte %lld",
                           rank, (long long)d.bytes, lw_dtype_name(lw_op_at(p, op).dtype),
                           (long long)d.offset, (long long)bytes, lw_dtype_name(b->dtype),
                           (long long)offset);
}

static bool hold_the_same(const struct lw_plan *p, int32_t a, int32_t b)
{
    return p->roles[lw_plan_role_of(p, a)].stage == p->roles[lw_plan_role_of(p, b)].stage &&
           lw_plan_coord(p, a, LW_AXIS_TP) == lw_plan_coord(p, b, LW_AXIS_TP);
}

/* The members are one rank's replicas, each in a data group of its own; with their data groups they
 * are all n_copies ranks that hold a copy. */
static enum lw_status check_replica(const struct lw_plan *p, const struct lw_group *g,
                                    int64_t n_copies, struct lw_err *err)
{
    int32_t lead = lw_plan_member_of(p, g, 0);
    const struct lw_group *first = group_for(p, LW_COMM_DATA, lead);

    for (int32_t i = 0; i < g->n_members; i++) {
        int32_t rank = lw_plan_member_of(p, g, i);
        const struct lw_group *data = group_for(p, LW_COMM_DATA, rank);
        if (!first || !data || (i > 0 && data == first) || data->n_members != first->n_members ||
            lw_plan_member(p, data, rank) != lw_plan_member(p, first, lead) ||
            !hold_the_same(p, rank, lead))
            return lw_fail(err, LW_EPLAN,
                           "ranks %d and %d sum over replicas, but are not the same "
                           "member of two data groups of one stage",
                           lead, rank);
    }
    if ((int64_t)g->n_members * first->n_members == n_copies)
        return LW_OK;
    return lw_fail(err, LW_EPLAN,
                   "rank %d: %d replicas of data groups of %d are not all of the "
                   "%lld ranks that hold a copy",
                   lead, g->n_members, first->n_members, (long long)n_copies);
}

static int64_t copy_key(const struct lw_plan *p, int32_t n_tensor, int32_t rank)
{
    return (int64_t)p->roles[lw_plan_role_of(p, rank)].stage * n_tensor +
           lw_plan_coord(p, rank, LW_AXIS_TP);
}

/* copies: of the ranks by stage and tensor coordinate. */
static enum lw_status check_class(const struct lw_plan *p, int32_t comm, int32_t n_tensor,
                                  const int32_t *copies, struct lw_err *err)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct lw_group *g = lw_plan_group(p, comm, r);
        if (g && lw_plan_member_at(p, g->first_member) == r)
            LW_TRY(check_replica(p, g, copies[copy_key(p, n_tensor, r)], err));
    }
    return LW_OK;
}

static enum lw_status check_replicas(const struct lw_plan *p, struct lw_arena *room,
                                     struct lw_err *err)
{
    int32_t n_tensor = 1, comm = 0, *copies;

    while (comm < p->n_comms && p->comms[comm].purpose != LW_COMM_REPLICAS)
        comm++;
    if (comm == p->n_comms)
        return LW_OK;
    for (int32_t r = 0; r < p->n_ranks; r++)
        n_tensor = lw_plan_coord(p, r, LW_AXIS_TP) >= n_tensor ? lw_plan_coord(p, r, LW_AXIS_TP) + 1
                                                               : n_tensor;
    LW_TAKE(room, copies, (int64_t)n_tensor * (p->n_stages > 0 ? p->n_stages : 1), err);
    for (int32_t r = 0; r < p->n_ranks; r++)
        copies[copy_key(p, n_tensor, r)]++;
    return check_class(p, comm, n_tensor, copies, err);
}

static enum lw_status check_op(struct shard_check *k, int32_t op, int32_t rank, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *o = LW_OP(p, op);
    const struct lw_group *g = o->comm >= 0 ? lw_plan_group(p, o->comm, rank) : NULL;

    if (lw_plan_is_weights(p, o->bucket))
        return check_weights(k, op, rank, err);
    if (g && p->comms[o->comm].purpose == LW_COMM_REPLICAS)
        return check_spread(k, op, rank, err);
    k->reduced_as[o->bucket] = (enum lw_op_kind)o->kind;
    if (o->kind == LW_OP_REDUCE_SCATTER && g)
        return check_shares(k, op, g->n_members, err);
    if (o->kind == LW_OP_REDUCE && g)
        return check_root_owns(k, op, lw_plan_member(p, g, lw_plan_operand(p, o, rank).peer),
                               "are reduced to", err);
    return LW_OK;
}

/* Weights that a program frees are sent again and again, before each use, and those that are
 * gathered ahead once before all uses of a step (terms.c): they count as sent. */
static void begin_sent(struct shard_check *k, struct lw_program g)
{
    const struct lw_plan *p = k->p;

    memset(k->sent_by, -1, (size_t)p->n_params * sizeof *k->sent_by);
    for (int32_t b = 0; b < p->n_buckets; b++)
        for (int32_t i = 0; k->temporary[b] && i < p->buckets[b].n_slots; i++)
            k->sent_by[p->slots[p->buckets[b].first_slot + i]] = g.first_op;
}

/* The op sends these parameters, as the only one of the program. */
static enum lw_status note_sent(struct shard_check *k, int32_t op, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    const struct lw_bucket *b = &p->buckets[lw_op_at(p, op).bucket];

    for (int32_t i = 0; i < b->n_slots; i++) {
        int32_t a = p->slots[b->first_slot + i];
        if (k->sent_by[a] >= 0 && !k->temporary[lw_op_at(p, op).bucket])
            return lw_plan_op_fail(p, op, err, ": op %d has already sent the weights of parameter "
                                   "%d '%s'", k->sent_by[a], a, p->params[a].name);
        k->sent_by[a] = op;
    }
    return LW_OK;
}

static enum lw_status check_program(struct shard_check *k, int32_t variant, int32_t role,
                                    struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    struct lw_program g = p->programs[(int64_t)variant * p->n_roles + role];

    begin_sent(k, g);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = LW_OP(p, i);
        if (o->bucket < 0 || lw_op_class(o->kind) != LW_CLASS_COLLECTIVE)
            continue;
        /* one rank speaks for all, unless operands make them differ */
        int32_t n = o->operand < 0 ? 1 : p->roles[role].n_ranks;
        for (int32_t r = 0; r < n; r++)
            LW_TRY(check_op(k, i, lw_role_rank(&k->ranks, role, r), err));
        if (lw_plan_is_weights(p, o->bucket))
            LW_TRY(note_sent(k, i, err));
    }
    for (int32_t i = 0; p->variants[variant].ends_step && i < k->n_owned; i++) {
        const struct lw_shard h = lw_shard_run_at(p, k->owned[i]).first;
        if (k->sent_by[h.param] < 0 && p->params[h.param].stage == p->roles[role].stage &&
            p->roles[role].n_ranks > 1)
            return lw_fail(err, LW_EPLAN, "variant '%s': the weights of parameter %d '%s', which "
                                          "member %d updates, never reach role '%s'",
                           p->variants[variant].name, h.param, p->params[h.param].name, h.owner,
                           p->roles[role].name);
    }
    return LW_OK;
}

static bool is_sharded(const struct lw_plan *p)
{
    for (int32_t i = 0; i < lw_n_shard_runs(p); i++)
        if (lw_shard_run_at(p, i).first.owner >= 0)
            return true;
    for (int32_t i = 0; i < p->n_sets; i++)
        if (p->sets[i].kind == LW_BUCKET_WEIGHTS)
            return true;
    for (int32_t i = 0; i < p->n_ops; i++)
        if (lw_op_at(p, i).kind == LW_OP_REDUCE && lw_op_at(p, i).bucket >= 0)
            return true;
    return false;
}

/* seen: [n_params] */
static void list_owned(struct shard_check *k, bool *seen)
{
    const struct lw_plan *p = k->p;

    for (int32_t i = 0; i < lw_n_shard_runs(p); i++) {
        const struct lw_shard h = lw_shard_run_at(p, i).first;
        if (h.owner >= 0 && !seen[h.param]) {
            seen[h.param] = true;
            k->owned[k->n_owned++] = i;
        }
    }
}

static enum lw_status check_all(struct shard_check *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *p = k->p;
    bool *seen;

    LW_TAKE(room, seen, p->n_params, err);
    LW_TAKE(room, k->owned, p->n_params, err);
    LW_TAKE(room, k->first, p->n_params, err);
    LW_TAKE(room, k->next, lw_n_shard_runs(p), err);
    LW_TAKE(room, k->sent_by, p->n_params, err);
    LW_TAKE(room, k->temporary, p->n_buckets, err);
    LW_TAKE(room, k->reduced_as, p->n_buckets, err);
    LW_TRY(lw_role_ranks_find(p, room, &k->ranks, err));
    memset(k->first, -1, (size_t)p->n_params * sizeof *k->first);
    for (int32_t i = lw_n_shard_runs(p) - 1; i >= 0; i--) {
        int32_t param = lw_shard_run_at(p, i).first.param;
        k->next[i] = k->first[param];
        k->first[param] = i;
    }
    list_owned(k, seen);
    lw_plan_weights_ahead(p, k->temporary);
    lw_plan_temporary_weights(p, k->temporary);
    LW_TRY(check_replicas(p, room, err));
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t r = 0; r < p->n_roles; r++)
            LW_TRY(check_program(k, v, r, err));
    return LW_OK;
}

enum lw_status lw_check_shards(const struct lw_plan *p, struct lw_err *err)
{
    struct shard_check k = {.p = p};
    struct lw_arena room = {0};
    enum lw_status s = is_sharded(p) ? check_all(&k, &room, err) : LW_OK;

    lw_arena_free(&room);
    return s;
}
