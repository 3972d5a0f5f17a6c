/* Which buckets data parallelism reduces: the policy of the strategy is asked, its answer indexed.
 *
 * Invariants: items are numbers into lw_part.grads until their set is made, then parameters; a
 * bucket has one dtype and device; launch index order is the order of the list. */
#include <stdio.h>

#include "shared/lower_part/lower_part.h"

/* From here on the items are parameters. */
static enum lw_status index_set(struct lw_part *d, struct lw_part_set *set, struct lw_err *err)
{
    const struct lw_bucketing *k = &set->buckets;

    LW_TAKE(&d->arena, set->elements, k->n_buckets, err);
    LW_TAKE(&d->arena, set->dtype, k->n_buckets, err);
    for (int32_t b = 0; b < k->n_buckets; b++) {
        for (int32_t i = k->first[b]; i < k->first[b + 1]; i++) {
            set->elements[b] += d->grads[k->items[i]].numel;
            set->dtype[b] = d->grads[k->items[i]].dtype;
            k->items[i] = d->param_of[k->items[i]];
        }
    }
    return LW_OK;
}

static enum lw_status ask_policy(struct lw_part *d, const struct lw_bucket_policy *policy,
                                 struct lw_err *err)
{
    const struct lw_bucket_task task = {
        .s = d->s, .w = d->w, .grads = d->grads, .n_grads = d->n_grads, .param_of = d->param_of,
        .grad_of = d->grad_of, .order = d->order, .back = &d->back, .n_members = d->n_members,
        .n_nodes = d->n_nodes, .fewest = d->fewest,
        .first_part = d->first_module == 0, .cost = d->cost, .oss = d->shards.oss,
        .as_given = d->shards.as_given, .given_param = d->shards.param_of, .room = &d->scratch};
    struct lw_bucket_answer answer = {.arena = &d->arena};

    LW_TRY(policy->assign(&task, &answer, err));
    d->initial.buckets = answer.buckets;
    d->storage = answer.in_place ? LW_STORED_VIEWS : LW_STORED_COPIED;
    d->one_by_one = answer.one_by_one;
    d->root_of = answer.root_of;
    d->n_empty = answer.n_empty;
    d->empty = answer.empty;
    snprintf(d->rules.why, sizeof d->rules.why, "%s", answer.why);
    return LW_OK;
}

static enum lw_status make_initial(struct lw_part *d, struct lw_err *err)
{
    const struct lw_bucket_policy *policy = lw_bucket_policy(d->s->bucket_policy);

    if (d->s->zero == 3)
        return lw_part_bucket_modules(d, &d->initial.buckets, err);
    if (policy->assign)
        return ask_policy(d, policy, err);
    return lw_bucket_initial(&d->rules, d->grads, d->n_grads, d->order, &d->initial.buckets, err);
}

/* --- averaging ------------------------------------------------------------------------------- */

/* The policy says where, but a comm hook: of c10d it divides what it compressed, else gradients
 * are scaled while they are copied. picotron and ColossalAI's handler divide the bucket, as c10d
 * of 2020 does. */
static enum lw_scaling scaling_of(const struct lw_strategy *s)
{
    enum lw_scaling own = lw_bucket_policy(s->bucket_policy)->scales;

    if (own == LW_SCALE_AT_LAUNCH)
        return own;
    if (s->comm_hook != LW_HOOK_NONE)
        return own == LW_SCALE_IN_BUCKET || s->compat == LW_COMPAT_C10D ? LW_SCALE_ON_WIRE
                                                                        : LW_SCALE_IN_COPY;
    return s->compat == LW_COMPAT_PICOTRON || s->compat == LW_COMPAT_COLOSSALAI ? LW_SCALE_IN_BUCKET
                                                                                : own;
}

const char *lw_part_averaging(const struct lw_part *d)
{
    static const char *const words[] = {
        [LW_SCALE_IN_COPY] = "while copied into their bucket",
        [LW_SCALE_IN_BUCKET] = "in their bucket, a pass of its own before its all-reduce",
        [LW_SCALE_AT_LAUNCH] = "in their bucket, before its reduce",
        [LW_SCALE_ON_WIRE] = "by the comm hook, a pass over what it compressed",
    };

    return words[d->scaling];
}

/* ZeRO-3 reduces the units of its modules, made once; a policy has no say. */
static enum lw_status unit_rules(struct lw_part *d, struct lw_err *err)
{
    if (d->s->static_graph)
        return lw_fail(err, LW_EINVAL, "--zero 3 reduces the gradients of each module in one "
                                       "bucket: leave out --static-graph");
    d->rules = (struct lw_bucket_rules){
        .used_map = d->s->find_unused ? LW_MAP_EACH : LW_MAP_NEVER};
    return LW_OK;
}

enum lw_status lw_part_assign_buckets(struct lw_part *d, struct lw_err *err)
{
    const struct lw_bucket_request r = {d->s->bucket_policy, d->s->bucket_cap_bytes,
                                        d->s->first_bucket_bytes, d->s->find_unused,
                                        d->s->static_graph, d->s->last_bucket_cap};

    LW_TRY(d->s->zero == 3 ? unit_rules(d, err) : lw_bucket_rules(&r, &d->rules, err));
    d->scaling = scaling_of(d->s);
    if (d->s->bucket_view)
        d->storage = LW_STORED_VIEWS;
    if (d->n_grads == 0)
        return LW_OK;
    d->initial.name = "initial";
    LW_TRY(make_initial(d, err));
    LW_TRY(index_set(d, &d->initial, err));
    if (d->rules.n_rebuilt == 0)
        return LW_OK;
    d->rebuilt.name = "rebuilt";
    LW_TRY(lw_bucket_rebuilt(&d->rules, d->grads, d->n_grads, d->order, &d->rebuilt.buckets, err));
    return index_set(d, &d->rebuilt, err);
}
