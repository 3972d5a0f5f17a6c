/* ShardedDataParallel's gradient buckets.
 *
 * Invariants: gradients are visited by size (stable in the optimizer's device, owner, size order);
 * a bucket has one device, one owner and one dtype; in compat there is one bucket per (device,
 * owner) and it holds a prefix of that owner's gradients. Buckets are by device in order of
 * appearance, and within one in order of creation.
 *
 * Unit: elements, whatever the dtype. Each bucket is divided by the group's size and reduced to its
 * owner when its last gradient is in (completion order); buckets not complete at the end of the
 * backward are reduced then. */
#include "shared/bucket/bucket_sharded.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/base/sort.h"
#include "shared/bucket/policy.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"

LW_FREE_BY_ARENA(lw_sharded_buckets_free, struct lw_sharded_buckets)

struct visit {
    int64_t numel;
    int32_t place, param;
};

LW_COMPARATOR(by_size, struct visit, a->numel, b->numel, a->place, b->place)

struct fill {
    const struct lw_oss *oss;
    const struct lw_shard_param *params;
    int32_t n, world;
    bool compat;
    struct visit *visits; /* [n] */
    int32_t *list;        /* [n] scratch */
    int32_t *open;        /* [n_devices * world]: bucket being filled; -1 = none yet */
    int32_t *slot;        /* [n]: next free place in items by bucket */
    struct lw_sharded_buckets *out;
};

static void order_gradients(struct fill *f)
{
    int32_t n = 0;

    lw_oss_in_buffer_order(f->oss, f->list);
    for (int32_t k = 0; k < f->n; k++) {
        int32_t p = f->list[k];
        if (f->params[p].trainable) {
            f->visits[n] = (struct visit){f->params[p].numel, n, p};
            n++;
        }
    }
    lw_sort(f->visits, n, by_size);
    f->out->n_trainable = n;
    for (int32_t k = 0; k < n; k++)
        f->out->order[k] = f->visits[k].param;
}

/* Buckets follow from the answers, and these from the limit: what is refused says which larger one
 * changes them. */
static bool fits(struct fill *f, int64_t filled, int64_t numel)
{
    int64_t least = filled + numel + (f->compat ? 1 : 0);
    struct lw_sharded_buckets *out = f->out;

    if (out->limit < least && least < out->next_elements)
        out->next_elements = least;
    return out->limit >= least;
}

/* The bucket that takes parameter p, or -1: reduced alone. */
static int32_t bucket_for(struct fill *f, int32_t p)
{
    struct lw_sharded_buckets *out = f->out;
    int32_t owner = lw_oss_owner(f->oss, p);
    int32_t *open = &f->open[(int64_t)lw_oss_device_index(f->oss, p) * f->world + owner];
    int64_t numel = f->params[p].numel;
    bool taken = *open >= 0 && fits(f, out->buckets[*open].numel, numel);

    if (!taken && (*open < 0 || !f->compat) && (f->compat || fits(f, 0, numel))) {
        *open = out->n_buckets++;
        out->buckets[*open] =
            (struct lw_sharded_bucket){.device = f->params[p].device, .owner = owner};
        taken = fits(f, 0, numel);
    }
    return taken ? *open : -1;
}

static enum lw_status fill_buckets(struct fill *f, struct lw_err *err)
{
    struct lw_sharded_buckets *out = f->out;

    for (int32_t k = 0; k < out->n_trainable; k++) {
        int32_t p = out->order[k], b = bucket_for(f, p);
        out->bucket_of[k] = b;
        if (b < 0)
            continue;
        struct lw_sharded_bucket *bucket = &out->buckets[b];
        if (bucket->n_items > 0 && f->params[p].dtype != f->params[f->slot[b]].dtype)
            return lw_fail(err, LW_EINVAL,
                           "parameter %d is %s, the bucket of device %d and rank %d holds %s", p,
                           lw_dtype_name(f->params[p].dtype), bucket->device, bucket->owner,
                           lw_dtype_name(f->params[f->slot[b]].dtype));
        if (bucket->n_items == 0)
            f->slot[b] = p;
        bucket->numel += f->params[p].numel;
        bucket->n_items++;
    }
    for (int32_t b = 0; b < out->n_buckets && f->compat; b++)
        if (out->buckets[b].n_items > 0 && out->buckets[b].numel == 0)
            return lw_fail(err, LW_EINVAL,
                           "the bucket of device %d and rank %d holds %d gradients without an "
                           "element: FairScale stops with an assertion",
                           out->buckets[b].device, out->buckets[b].owner, out->buckets[b].n_items);
    return LW_OK;
}

/* Buckets by device in the order in which their first bucket was made, and the lists of items. */
static enum lw_status arrange(struct fill *f, struct lw_err *err)
{
    struct lw_sharded_buckets *out = f->out;
    struct lw_sharded_bucket *sorted = lw_arena_alloc(&out->arena, out->n_buckets, sizeof *sorted);
    int32_t *items = lw_arena_alloc(&out->arena, out->n_trainable, sizeof *items);
    int32_t n = 0, at = 0;

    if (!sorted || !items)
        return lw_fail_nomem(err);
    for (int32_t b = 0; b < out->n_buckets; b++) {
        int32_t first = 0;
        while (out->buckets[first].device != out->buckets[b].device)
            first++;
        if (first < b)
            continue;
        for (int32_t k = b; k < out->n_buckets; k++)
            if (out->buckets[k].device == out->buckets[b].device) {
                f->list[k] = n;
                sorted[n] = out->buckets[k];
                f->slot[n] = at;
                sorted[n].items = items + at;
                at += sorted[n++].n_items;
            }
    }
    for (int32_t k = 0; k < out->n_trainable; k++)
        if (out->bucket_of[k] >= 0) {
            int32_t b = out->bucket_of[k] = f->list[out->bucket_of[k]];
            items[f->slot[b]++] = out->order[k];
        }
    out->buckets = sorted;
    return LW_OK;
}

static enum lw_status prepare(struct fill *f, struct lw_arena *work, struct lw_err *err)
{
    int64_t n = f->n, n_open = (int64_t)lw_oss_n_devices(f->oss) * f->world;
    struct lw_sharded_buckets *out = f->out;

    LW_TAKE(work, f->visits, n, err);
    LW_TAKE(work, f->list, n, err);
    LW_TAKE(work, f->slot, n, err);
    LW_TAKE(work, f->open, n_open, err);
    LW_TAKE(&out->arena, out->order, n, err);
    LW_TAKE(&out->arena, out->bucket_of, n, err);
    LW_TAKE(&out->arena, out->buckets, n, err);
    for (int64_t i = 0; i < n_open; i++)
        f->open[i] = -1;
    return LW_OK;
}

static enum lw_status assign(struct fill *f, int64_t buffer_elements, struct lw_err *err)
{
    int64_t total = 0;

    for (int32_t p = 0; p < f->n; p++)
        total += f->params[p].numel;
    f->out->limit = f->world == 1 ? 0 : buffer_elements < total ? buffer_elements : total;
    order_gradients(f);
    f->out->next_elements = LW_BUCKET_NO_LIMIT;
    if (f->out->limit == 0) {
        f->out->next_elements = f->world > 1 && total > 0 ? 1 : LW_BUCKET_NO_LIMIT;
        for (int32_t k = 0; k < f->out->n_trainable; k++)
            f->out->bucket_of[k] = -1;
        return LW_OK;
    }
    LW_TRY(fill_buckets(f, err));
    if (f->out->next_elements > total)
        f->out->next_elements = LW_BUCKET_NO_LIMIT;
    return arrange(f, err);
}

enum lw_status lw_bucket_sharded(const struct lw_oss *oss, const struct lw_shard_param *params,
                                 int32_t world, int64_t buffer_elements, bool compat,
                                 struct lw_sharded_buckets *out, struct lw_err *err)
{
    struct lw_sharded_buckets result = {0};
    struct lw_arena work = {0};
    struct fill f = {.oss = oss,
                     .params = params,
                     .n = lw_oss_n_params(oss),
                     .world = world,
                     .compat = compat,
                     .out = &result};

    LW_TRY(lw_shard_check_params(params, f.n, world, err));
    if (buffer_elements < 0)
        return lw_fail(err, LW_EINVAL, "reduce buffer of %" PRId64 " elements, allowed: 0 or more",
                       buffer_elements);
    enum lw_status status = prepare(&f, &work, err);
    if (status == LW_OK)
        status = assign(&f, buffer_elements, err);
    lw_arena_free(&work);
    LW_GIVE(status, out, result, lw_sharded_buckets_free(&result));
}

/* --- the policy ------------------------------------------------------------------------------- */

/* One reduce: a bucket of several gradients or a gradient alone, and when it is complete. */
struct reduce {
    int32_t at, made, owner, n_items;
    const int32_t *items; /* as given to the sharded optimizer */
    int64_t limit_bytes;
};

LW_COMPARATOR(by_completion, struct reduce, a->at, b->at, a->made, b->made)

static int32_t grad_of_given(const struct lw_bucket_task *t, int32_t given)
{
    return t->grad_of[t->given_param[given]];
}

static struct reduce reduce_of(const struct lw_bucket_task *t, const int32_t *ready_at,
                               int32_t made, int32_t owner, const int32_t *items, int32_t n,
                               int64_t limit)
{
    struct reduce r = {-1, made, owner, n, items, limit};

    for (int32_t i = 0; i < n; i++) {
        int32_t at = ready_at[grad_of_given(t, items[i])];
        r.at = at > r.at ? at : r.at;
    }
    return r;
}

/* The reduces in the order in which they complete; empty buckets go to out->empty. */
static int32_t list_reduces(const struct lw_bucket_task *t, const struct lw_sharded_buckets *from,
                            const int32_t *ready_at, struct reduce *list,
                            struct lw_bucket_answer *out)
{
    const struct lw_oss *oss = t->oss;
    int32_t n = 0;

    for (int32_t b = 0; b < from->n_buckets; b++) {
        const struct lw_sharded_bucket *k = &from->buckets[b];
        if (k->n_items == 0) {
            out->empty[out->n_empty++] = k->owner;
            continue;
        }
        int64_t size = lw_dtype_size(t->as_given[k->items[0]].dtype);
        list[n] = reduce_of(t, ready_at, n, k->owner, k->items, k->n_items,
                            from->limit <= INT64_MAX / size ? from->limit * size
                                                            : LW_BUCKET_NO_LIMIT);
        n++;
    }
    for (int32_t i = 0; i < from->n_trainable; i++) {
        if (from->bucket_of[i] >= 0)
            continue;
        list[n] = reduce_of(t, ready_at, n, lw_oss_owner(oss, from->order[i]), &from->order[i], 1,
                            LW_BUCKET_NO_LIMIT);
        n++;
    }
    lw_sort(list, n, by_completion);
    return n;
}

static enum lw_status sharded_list(const struct lw_bucket_task *t,
                                   const struct lw_sharded_buckets *from,
                                   struct lw_bucket_answer *out, struct lw_err *err)
{
    int32_t *ready_at = lw_arena_alloc(t->room, t->n_grads, sizeof *ready_at);
    struct reduce *list = lw_arena_alloc(t->room, t->n_grads, sizeof *list);
    struct lw_bucketing b = {0};

    out->empty = lw_arena_alloc(out->arena, from->n_buckets, sizeof *out->empty);
    out->root_of = lw_arena_alloc(out->arena, t->n_grads, sizeof *out->root_of);
    if (!ready_at || !list || !out->empty || !out->root_of)
        return lw_fail_nomem(err);
    LW_TRY(lw_bucketing_room(&b, t->n_grads, t->n_grads, err));
    for (int32_t i = 0; i < t->n_grads; i++)
        ready_at[t->order[i]] = i;
    b.n_buckets = list_reduces(t, from, ready_at, list, out);
    for (int32_t i = 0; i < b.n_buckets; i++) {
        for (int32_t k = 0; k < list[i].n_items; k++)
            b.items[b.n_items++] = grad_of_given(t, list[i].items[k]);
        b.first[i + 1] = b.n_items;
        b.limit_bytes[i] = list[i].limit_bytes;
        out->root_of[i] = list[i].owner;
    }
    out->buckets = b;
    return LW_OK;
}

static enum lw_status sharded(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                              struct lw_err *err)
{
    bool compat = t->s->compat == LW_COMPAT_FAIRSCALE;
    int64_t elements = LW_SHARDED_BUFFER_DEFAULT;
    struct lw_sharded_buckets made;

    if (!lw_bucket_keeps_dtype(t))
        return lw_fail(err, LW_EINVAL, "--bucket-policy sharded-ddp reduces gradients in their own "
                                       "type: leave out --grad-dtype and --comm-hook");
    if (t->s->bucket_cap_bytes >= 0) {
        LW_TRY(lw_bucket_need_one_kind(t, err));
        elements = t->s->bucket_cap_bytes / lw_dtype_size(t->grads[0].dtype);
    }
    LW_TRY(lw_bucket_sharded(t->oss, t->as_given, t->n_members, elements, compat, &made, err));
    enum lw_status s = sharded_list(t, &made, out, err);
    if (s == LW_OK)
        out->buckets.next_cap =
            lw_mul_sat(made.next_elements, lw_dtype_size(t->grads[0].dtype));
    out->in_place = true;
    snprintf(out->why, sizeof out->why,
             "by size and owner, %s %" PRId64 " elements, the rest alone, each reduced to its "
             "owner",
             compat ? "one bucket per owner below" : "buckets of at most", made.limit);
    lw_sharded_buckets_free(&made);
    return s;
}

const struct lw_bucket_policy lw_bucket_policy_sharded_ddp = {
    .takes = LW_TAKES_CAP | LW_TAKES_FIND_UNUSED | LW_TAKES_MIXED,
    .scales = LW_SCALE_AT_LAUNCH, .to_owners = true, .assign = sharded,
};
