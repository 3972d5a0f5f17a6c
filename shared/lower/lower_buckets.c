/* Which buckets data parallelism reduces: the policy's function is asked, its answer is indexed.
 *
 * Invariants: items are numbers into lw_part.grads until their set is made, then parameters; a bucket
 * has one dtype and device; launch index order is the order of the list. Policies that choose by time
 * see the times of the plan: a gradient is ready when its stretch of the backward ends, or all of them at the end where
 * nothing overlaps. Not modelled for them: the copies into buckets and what they delay. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/bucket/bucket_colossal.h"
#include "shared/bucket/bucket_merge.h"
#include "shared/bucket/bucket_picotron.h"
#include "shared/bucket/bucket_sharded.h"
#include "shared/lower/lower_chunk.h"

#define DEEPSPEED_ELEMENTS INT64_C(500000000) /* reduce_bucket_size */
#define PICOTRON_CAP_BYTES (INT64_C(25) << 20)

/* From here on the items are parameters. */
static enum lw_status index_set(struct lw_part *d, struct lw_part_set *set, struct lw_err *err)
{
    const struct lw_bucketing *k = &set->buckets;

    set->elements = lw_arena_alloc(&d->arena, k->n_buckets, sizeof *set->elements);
    set->dtype = lw_arena_alloc(&d->arena, k->n_buckets, sizeof *set->dtype);
    if (!set->elements || !set->dtype)
        return lw_fail_nomem(err);
    for (int32_t b = 0; b < k->n_buckets; b++) {
        for (int32_t i = k->first[b]; i < k->first[b + 1]; i++) {
            set->elements[b] += d->grads[k->items[i]].numel;
            set->dtype[b] = d->grads[k->items[i]].dtype;
            k->items[i] = d->param_of[k->items[i]];
        }
    }
    return LW_OK;
}

/* For policies whose buckets are one flat buffer for whatever gradients come next. */
static enum lw_status need_one_kind(const struct lw_part *d, struct lw_err *err)
{
    const struct lw_grad *first = &d->grads[0];

    for (int32_t g = 1; g < d->n_grads; g++) {
        const struct lw_grad *x = &d->grads[g];
        if (x->dtype == first->dtype && x->device == first->device)
            continue;
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s keeps all gradients in one dtype on one "
                                       "device: '%s' is %s on %d, '%s' is %s on %d (--grad-dtype "
                                       "makes dtypes one)",
                       lw_bucket_policy_name(d->s->bucket_policy),
                       d->w->params[d->param_of[0]].name, lw_dtype_name(first->dtype),
                       first->device, d->w->params[d->param_of[g]].name, lw_dtype_name(x->dtype),
                       x->device);
    }
    return LW_OK;
}

/* --- picotron ----------------------------------------------------------------------------------- */

/* Gradients are views of the buckets, and parameters take them as they are where dtypes agree. */
static bool keeps_dtype(const struct lw_part *d)
{
    for (int32_t g = 0; g < d->n_grads; g++)
        if (d->grads[g].dtype != d->w->params[d->param_of[g]].dtype)
            return false;
    return d->s->comm_hook == LW_HOOK_NONE;
}

/* Compat keeps the numbers as registered; else the list is reversed, so that in index order the
 * bucket that completes first goes first. */
static enum lw_status picotron(struct lw_part *d, struct lw_bucketing *out, struct lw_err *err)
{
    bool compat = d->s->compat == LW_COMPAT_PICOTRON;
    int64_t cap = d->s->bucket_cap_bytes >= 0 ? d->s->bucket_cap_bytes : PICOTRON_CAP_BYTES, limit;
    int64_t *numel = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *numel);
    struct lw_picotron_place *places = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *places);
    struct lw_bucketing b;

    if (!numel || !places)
        return lw_fail_nomem(err);
    LW_TRY(need_one_kind(d, err));
    enum lw_dtype dtype = d->grads[0].dtype;
    int64_t capacity = lw_picotron_elements(cap, dtype, compat);
    for (int32_t g = 0; g < d->n_grads; g++)
        numel[g] = d->grads[g].numel;
    LW_TRY(lw_bucket_picotron(numel, NULL, d->n_grads, capacity, compat, &b, places, err));
    if (__builtin_mul_overflow(capacity, lw_dtype_size(dtype), &limit))
        limit = LW_BUCKET_NO_LIMIT;
    for (int32_t i = 0; i < b.n_buckets; i++)
        b.limit_bytes[i] = limit;
    if (!compat && lw_bucketing_reverse(&b, err) != LW_OK) {
        lw_bucketing_free(&b);
        return LW_ENOMEM;
    }
    *out = b;
    d->in_place = keeps_dtype(d);
    snprintf(d->rules.why, sizeof d->rules.why,
             "registration order, a bucket holds at most %" PRId64 " elements%s", capacity,
             compat ? "" : ", the list reversed: the one that completes first goes first");
    return LW_OK;
}

/* --- deepspeed ---------------------------------------------------------------------------------- */

/* In ready order up to a number of elements; a bucket goes before the gradient that would overflow
 * it, a larger one goes alone (deepspeed runtime/zero/stage_1_and_2.py@edaa7221). */
static enum lw_status deepspeed(struct lw_part *d, struct lw_bucketing *out, struct lw_err *err)
{
    int64_t limit = DEEPSPEED_ELEMENTS, held = 0;
    struct lw_bucketing b = {0};

    LW_TRY(need_one_kind(d, err));
    int64_t size = lw_dtype_size(d->grads[0].dtype);
    if (d->s->bucket_cap_bytes >= 0)
        limit = d->s->bucket_cap_bytes / size;
    b.first = lw_arena_alloc(&b.arena, d->n_grads + 1L, sizeof *b.first);
    b.items = lw_arena_alloc(&b.arena, d->n_grads, sizeof *b.items);
    b.limit_bytes = lw_arena_alloc(&b.arena, d->n_grads, sizeof *b.limit_bytes);
    if (!b.first || !b.items || !b.limit_bytes) {
        lw_bucketing_free(&b);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < d->n_grads; i++) {
        int64_t numel = d->grads[d->order[i]].numel;
        if (i == 0 || (held > 0 && numel > limit - held)) {
            b.limit_bytes[b.n_buckets] = limit * size;
            b.first[b.n_buckets++] = i;
            held = 0;
        }
        b.items[b.n_items++] = d->order[i];
        held += numel;
    }
    b.first[b.n_buckets] = b.n_items;
    *out = b;
    snprintf(d->rules.why, sizeof d->rules.why,
             "ready order, a bucket goes before the gradient that would take it beyond %" PRId64
             " elements", limit);
    return LW_OK;
}

/* --- colossal ----------------------------------------------------------------------------------- */

static enum lw_status as_bucketing(const struct lw_colossal_buckets *from, int32_t n_items,
                                   struct lw_bucketing *out, struct lw_err *err)
{
    struct lw_bucketing b = {.n_buckets = from->n_buckets};

    b.first = lw_arena_alloc(&b.arena, (int64_t)b.n_buckets + 1, sizeof *b.first);
    b.items = lw_arena_alloc(&b.arena, n_items, sizeof *b.items);
    b.limit_bytes = lw_arena_alloc(&b.arena, b.n_buckets, sizeof *b.limit_bytes);
    if (!b.first || !b.items || !b.limit_bytes) {
        lw_bucketing_free(&b);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < b.n_buckets; i++) {
        const struct lw_colossal_bucket *k = &from->buckets[i];
        memcpy(b.items + b.n_items, k->items, (size_t)k->n_items * sizeof *k->items);
        b.n_items += k->n_items;
        b.first[i + 1] = b.n_items;
        b.limit_bytes[i] = LW_BUCKET_NO_LIMIT;
    }
    *out = b;
    return LW_OK;
}

static enum lw_status colossal(struct lw_part *d, struct lw_bucketing *out, struct lw_err *err)
{
    struct lw_colossal_grad *grads = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *grads);
    struct lw_colossal_buckets made;

    if (!grads)
        return lw_fail_nomem(err);
    for (int32_t g = 0; g < d->n_grads; g++)
        grads[g] = (struct lw_colossal_grad){d->grads[g].numel, d->grads[g].dtype, true, true, -1};
    LW_TRY(lw_bucket_colossal_data(grads, d->n_grads, d->n_members, &made, err));
    enum lw_status s = as_bucketing(&made, d->n_grads, out, err);
    lw_colossal_buckets_free(&made);
    d->one_by_one = d->s->compat == LW_COMPAT_COLOSSALAI;
    snprintf(d->rules.why, sizeof d->rules.why,
             "one flat buffer per dtype in model order, reduced after the backward: no overlap");
    return s;
}

/* --- sharded-ddp -------------------------------------------------------------------------------- */

/* One reduce: a bucket of several gradients or a gradient alone, and when it is complete. */
struct reduce {
    int32_t at, made, owner, n_items;
    const int32_t *items; /* as given to the sharded optimizer */
    int64_t limit_bytes;
};

static int by_completion(const void *a, const void *b)
{
    const struct reduce *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->made > y->made) - (x->made < y->made);
}

static int32_t grad_of_given(const struct lw_part *d, int32_t given)
{
    return d->grad_of[d->shards.param_of[given]];
}

static struct reduce reduce_of(const struct lw_part *d, const int32_t *ready_at, int32_t made,
                               int32_t owner, const int32_t *items, int32_t n, int64_t limit)
{
    struct reduce r = {-1, made, owner, n, items, limit};

    for (int32_t i = 0; i < n; i++) {
        int32_t at = ready_at[grad_of_given(d, items[i])];
        r.at = at > r.at ? at : r.at;
    }
    return r;
}

/* The reduces in the order in which they complete; empty buckets go to d->empty. */
static int32_t list_reduces(struct lw_part *d, const struct lw_sharded_buckets *from,
                            const int32_t *ready_at, struct reduce *list)
{
    const struct lw_oss *oss = d->shards.oss;
    int32_t n = 0;

    for (int32_t b = 0; b < from->n_buckets; b++) {
        const struct lw_sharded_bucket *k = &from->buckets[b];
        if (k->n_items == 0) {
            d->empty[d->n_empty++] = k->owner;
            continue;
        }
        int64_t size = lw_dtype_size(d->shards.as_given[k->items[0]].dtype);
        list[n] = reduce_of(d, ready_at, n, k->owner, k->items, k->n_items,
                            from->limit <= INT64_MAX / size ? from->limit * size
                                                            : LW_BUCKET_NO_LIMIT);
        n++;
    }
    for (int32_t i = 0; i < from->n_trainable; i++) {
        if (from->bucket_of[i] >= 0)
            continue;
        list[n] = reduce_of(d, ready_at, n, lw_oss_owner(oss, from->order[i]), &from->order[i], 1,
                            LW_BUCKET_NO_LIMIT);
        n++;
    }
    qsort(list, (size_t)n, sizeof *list, by_completion);
    return n;
}

static enum lw_status sharded_list(struct lw_part *d, const struct lw_sharded_buckets *from,
                                   struct lw_bucketing *out, struct lw_err *err)
{
    int32_t *ready_at = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *ready_at);
    struct reduce *list = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *list);
    struct lw_bucketing b = {0};

    d->empty = lw_arena_alloc(&d->arena, from->n_buckets, sizeof *d->empty);
    d->root_of = lw_arena_alloc(&d->arena, d->n_grads, sizeof *d->root_of);
    b.first = lw_arena_alloc(&b.arena, d->n_grads + 1L, sizeof *b.first);
    b.items = lw_arena_alloc(&b.arena, d->n_grads, sizeof *b.items);
    b.limit_bytes = lw_arena_alloc(&b.arena, d->n_grads, sizeof *b.limit_bytes);
    if (!ready_at || !list || !d->empty || !d->root_of || !b.first || !b.items || !b.limit_bytes) {
        lw_bucketing_free(&b);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < d->n_grads; i++)
        ready_at[d->order[i]] = i;
    b.n_buckets = list_reduces(d, from, ready_at, list);
    for (int32_t i = 0; i < b.n_buckets; i++) {
        for (int32_t k = 0; k < list[i].n_items; k++)
            b.items[b.n_items++] = grad_of_given(d, list[i].items[k]);
        b.first[i + 1] = b.n_items;
        b.limit_bytes[i] = list[i].limit_bytes;
        d->root_of[i] = list[i].owner;
    }
    *out = b;
    return LW_OK;
}

static enum lw_status sharded(struct lw_part *d, struct lw_bucketing *out, struct lw_err *err)
{
    bool compat = d->s->compat == LW_COMPAT_FAIRSCALE;
    int64_t elements = LW_SHARDED_BUFFER_DEFAULT;
    struct lw_sharded_buckets made;

    if (!keeps_dtype(d))
        return lw_fail(err, LW_EINVAL, "--bucket-policy sharded-ddp reduces gradients as they are: "
                                       "no --grad-dtype, no --comm-hook");
    if (d->s->bucket_cap_bytes >= 0) {
        LW_TRY(need_one_kind(d, err));
        elements = d->s->bucket_cap_bytes / lw_dtype_size(d->grads[0].dtype);
    }
    LW_TRY(lw_bucket_sharded(d->shards.oss, d->shards.as_given, d->n_members, elements, compat,
                             &made, err));
    enum lw_status s = sharded_list(d, &made, out, err);
    d->in_place = d->at_launch = true;
    snprintf(d->rules.why, sizeof d->rules.why,
             "by size and owner, %s %" PRId64 " elements, the rest alone, each reduced to its "
             "owner",
             compat ? "one bucket per owner below" : "buckets of at most", made.limit);
    lw_sharded_buckets_free(&made);
    return s;
}

/* --- by time ------------------------------------------------------------------------------------ */

/* Bytes on the wire and ready times of d->order. */
static void list_by_time(const struct lw_part *d, int64_t *bytes, lw_ps *ready)
{
    const struct lw_backward *back = &d->back;
    lw_ps end = back->n_stretches > 0 ? back->stretches[back->n_stretches - 1].end : 0;
    int32_t n = 0;

    for (int32_t i = 0; i < d->n_grads; i++) {
        const struct lw_grad *g = &d->grads[d->order[i]];
        bytes[i] = g->numel * lw_dtype_size(lw_part_wire_dtype(d->s, g->dtype));
    }
    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        for (int32_t r = s->first_ready; r < s->first_ready + s->n_ready; r++)
            if (d->grad_of[back->ready[r]] >= 0)
                ready[n++] = d->s->overlap ? s->end : end;
    }
    while (n < d->n_grads) /* unused ones stand last in the order */
        ready[n++] = end;
}

static enum lw_status check_cost(const struct lw_part *d, const struct lw_merge *m,
                                 struct lw_err *err)
{
    static const struct {
        enum lw_op_kind op;
        const char *words;
    } ops[] = {{LW_OP_ALL_REDUCE, "an all-reduce"}, {LW_OP_REDUCE_SCATTER, "a reduce-scatter"},
               {LW_OP_ALL_GATHER, "an all-gather"}};
    struct lw_cost_query q = m->query;
    const char *policy = lw_bucket_policy_name(d->s->bucket_policy);

    if (!m->cost || !m->cost->time)
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s weighs buckets by the time they take: "
                                       "name a cluster (-c)", policy);
    q.bytes = m->bytes[0];
    for (int i = m->forward ? 1 : 0; i < (m->forward ? 3 : 1); i++) {
        q.op = ops[i].op;
        if (m->cost->time(m->cost->ctx, &q) < 0)
            return lw_fail(err, LW_ENOTSUP, "--bucket-policy %s: the cluster cannot tell what "
                                            "%s of %" PRId64 " bytes over %d ranks on %d nodes "
                                            "costs (see 'lapwing cost'); calibrate it or name "
                                            "another (-c)", policy, ops[i].words, q.bytes,
                           q.n_ranks, q.n_nodes);
    }
    return LW_OK;
}

/* The next forward gathers against the ready order, so a module runs once the bucket of its gradient
 * that is ready first is there; a module without gradients runs behind the one before it. */
static enum lw_status list_forward(struct lw_part *d, struct lw_merge *m, struct lw_err *err)
{
    if (d->s->pp > 1)
        return lw_fail(err, LW_ENOTSUP, "--count-forward on: the next forward of a pipeline's stage "
                                        "is not weighed (--pp 1)");
    const struct lw_workload *w = d->w;
    lw_ps *forward = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *forward);
    int32_t *first = lw_arena_alloc(&d->scratch, w->n_modules, sizeof *first), at = d->n_grads - 1;

    if (!forward || !first)
        return lw_fail_nomem(err);
    for (int32_t k = 0; k < w->n_modules; k++)
        first[k] = -1;
    for (int32_t i = d->n_grads - 1; i >= 0; i--)
        first[w->params[d->param_of[d->order[i]]].module] = i;
    for (int32_t k = 0; k < w->n_modules; k++) {
        at = first[k] >= 0 ? first[k] : at;
        forward[at] += w->modules[k].forward_ps;
    }
    m->forward = forward;
    m->between = w->optimizer_ps;
    return LW_OK;
}

static const char *rule_by_time(const struct lw_part *d)
{
    if (d->s->bucket_policy == LW_BUCKET_MG_WFBP)
        return "merged where waiting costs less than a start-up";
    return d->s->count_forward ? "the exact minimum over all runs of the next forward's end, were "
                                 "sums halved around the optimizer (this plan all-reduces)"
                               : "the exact minimum of that end over all runs";
}

static enum lw_status by_time(struct lw_part *d, struct lw_bucketing *out, struct lw_err *err)
{
    bool best = d->s->bucket_policy == LW_BUCKET_OPTIMAL;
    int64_t *bytes = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *bytes);
    lw_ps *ready = lw_arena_alloc(&d->scratch, d->n_grads, sizeof *ready), end;
    struct lw_bucketing b;

    if (!bytes || !ready)
        return lw_fail_nomem(err);
    LW_TRY(need_one_kind(d, err));
    list_by_time(d, bytes, ready);
    struct lw_merge m = {.n = d->n_grads, .bytes = bytes, .ready = ready, .cost = d->cost,
                         .query = {.op = LW_OP_ALL_REDUCE, .algorithm = d->s->reducer,
                                   .n_ranks = d->n_members,
                                   .dtype = lw_part_wire_dtype(d->s, d->grads[0].dtype),
                                   .n_nodes = d->n_nodes}};
    if (d->s->count_forward)
        LW_TRY(list_forward(d, &m, err));
    LW_TRY(check_cost(d, &m, err));
    LW_TRY(best ? lw_bucket_optimal(&m, &b, &end, err) : lw_bucket_mg_wfbp(&m, &b, &end, err));
    for (int32_t i = 0; i < b.n_items; i++)
        b.items[i] = d->order[b.items[i]];
    for (int32_t i = 0; i < b.n_buckets; i++)
        b.limit_bytes[i] = LW_BUCKET_NO_LIMIT;
    *out = b;
    char text[32];
    snprintf(d->rules.why, sizeof d->rules.why,
             "ready order, %s; by the cluster's cost %s ends %s after the backward began",
             rule_by_time(d), d->s->count_forward ? "it" : "the last all-reduce",
             lw_format_ps(text, end));
    return LW_OK;
}

/* --- all ---------------------------------------------------------------------------------------- */

static enum lw_status make_initial(struct lw_part *d, struct lw_err *err)
{
    struct lw_bucketing *out = &d->initial.buckets;

    if (d->s->zero == 3)
        return lw_part_bucket_modules(d, out, err);
    switch (d->s->bucket_policy) {
    case LW_BUCKET_DEEPSPEED:
        return deepspeed(d, out, err);
    case LW_BUCKET_PICOTRON:
        return picotron(d, out, err);
    case LW_BUCKET_COLOSSAL:
        return colossal(d, out, err);
    case LW_BUCKET_SHARDED_DDP:
        return sharded(d, out, err);
    case LW_BUCKET_MG_WFBP:
    case LW_BUCKET_OPTIMAL:
        return by_time(d, out, err);
    default:
        return lw_bucket_initial(&d->rules, d->grads, d->n_grads, d->order, out, err);
    }
}

/* --- averaging ---------------------------------------------------------------------------------- */

/* c10d with a comm hook scales nothing: the hook divides what it compressed. Without one c10d of
 * 2020 divides the bucket when it is launched, as picotron and ColossalAI's handler do. Else
 * gradients are multiplied while they are copied, which costs no pass of its own. */
static void choose_scaling(struct lw_part *d)
{
    bool is_2020 = d->s->bucket_policy == LW_BUCKET_C10D_2020;
    bool hook = d->s->comm_hook != LW_HOOK_NONE;

    d->divides_wire = hook && (is_2020 || d->s->compat == LW_COMPAT_C10D);
    d->divides_bucket = !hook && (is_2020 || d->s->compat == LW_COMPAT_PICOTRON ||
                                  d->s->compat == LW_COMPAT_COLOSSALAI);
}

const char *lw_part_averaging(const struct lw_part *d)
{
    if (d->at_launch)
        return "in their bucket, before its reduce";
    if (d->divides_wire)
        return "by the comm hook, a pass over what it compressed";
    return d->divides_bucket ? "in their bucket, a pass of its own before its all-reduce"
                             : "while copied into their bucket";
}

enum lw_status lw_part_assign_buckets(struct lw_part *d, struct lw_err *err)
{
    struct lw_bucket_request r = {d->s->bucket_policy, d->s->bucket_cap_bytes,
                                  d->s->first_bucket_bytes, d->s->find_unused,
                                  d->s->static_graph, d->s->last_bucket_cap};

    if (d->s->zero == 3)
        r.policy = LW_BUCKET_DEEPSPEED; /* made once, like these */
    LW_TRY(lw_bucket_rules(&r, &d->rules, err));
    choose_scaling(d);
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
