/* ColossalAI's flat gradient buffers: by dtype, and for shared modules by group and dtype.
 *
 * Invariants: buckets are numbered by first appearance - of a group, then of a dtype within the
 * group; a bucket's gradients keep model order; frozen parameters and those without a gradient are
 * in none. The two handlers differ in their key, in the size that switches them off, and in the
 * division (the shared one does not divide). */
#include "shared/bucket/bucket_colossal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/bucket/policy.h"

LW_FREE_BY_ARENA(lw_colossal_buckets_free, struct lw_colossal_buckets)

static bool taken(const struct lw_colossal_grad *g, bool shared)
{
    return g->trainable && g->has_grad && (!shared || g->shared_group >= 0);
}

/* The bucket of a key, made after the other dtypes of its group when it is new. */
static struct lw_colossal_bucket *find_or_add(struct lw_colossal_buckets *b, int32_t group,
                                              enum lw_dtype dtype)
{
    int32_t at = b->n_buckets;

    for (int32_t k = 0; k < b->n_buckets; k++) {
        if (b->buckets[k].group != group)
            continue;
        if (b->buckets[k].dtype == dtype)
            return &b->buckets[k];
        at = k + 1;
    }
    for (int32_t k = b->n_buckets; k > at; k--)
        b->buckets[k] = b->buckets[k - 1];
    b->n_buckets++;
    b->buckets[at] = (struct lw_colossal_bucket){.group = group, .dtype = dtype};
    return &b->buckets[at];
}

static enum lw_status count(const struct lw_colossal_grad *grads, int32_t n, bool shared,
                            struct lw_colossal_buckets *b, struct lw_err *err)
{
    int64_t total = 0;

    for (int32_t i = 0; i < n; i++) {
        if (grads[i].numel < 0 || __builtin_add_overflow(total, grads[i].numel, &total))
            return lw_fail(err, LW_EINVAL,
                           "gradient %d has %" PRId64
                           " elements, allowed: 0 or more, together below 2^63",
                           i, grads[i].numel);
        if (!taken(&grads[i], shared))
            continue;
        struct lw_colossal_bucket *k =
            find_or_add(b, shared ? grads[i].shared_group : -1, grads[i].dtype);
        k->numel += grads[i].numel;
        k->n_items++;
    }
    return LW_OK;
}

static void list(const struct lw_colossal_grad *grads, int32_t n, bool shared,
                 struct lw_colossal_buckets *b, int32_t *items)
{
    for (int32_t k = 0; k < b->n_buckets; k++) {
        struct lw_colossal_bucket *bucket = &b->buckets[k];
        bucket->items = items;
        for (int32_t i = 0; i < n; i++)
            if (taken(&grads[i], shared) && grads[i].dtype == bucket->dtype &&
                (!shared || grads[i].shared_group == bucket->group))
                *items++ = i;
    }
}

static enum lw_status make(const struct lw_colossal_grad *grads, int32_t n, int32_t size,
                           bool shared, struct lw_colossal_buckets *out, struct lw_err *err)
{
    struct lw_colossal_buckets b = {0};

    if (size < 1)
        return lw_fail(err, LW_EINVAL, "%s size %d, allowed: 1 or more",
                       shared ? "pipeline" : "data", size);
    b.buckets = lw_arena_alloc(&b.arena, n, sizeof *b.buckets);
    int32_t *items = lw_arena_alloc(&b.arena, n, sizeof *items);
    enum lw_status status = b.buckets && items ? LW_OK : lw_fail_nomem(err);

    if (status == LW_OK)
        status = count(grads, n, shared, &b, err);
    if (status != LW_OK) {
        lw_colossal_buckets_free(&b);
        return status;
    }
    if (size == 1)
        b.n_buckets = 0;
    list(grads, n, shared, &b, items);
    *out = b;
    return LW_OK;
}

enum lw_status lw_bucket_colossal_data(const struct lw_colossal_grad *grads, int32_t n,
                                       int32_t data_size, struct lw_colossal_buckets *out,
                                       struct lw_err *err)
{
    return make(grads, n, data_size, false, out, err);
}

enum lw_status lw_bucket_colossal_shared(const struct lw_colossal_grad *grads, int32_t n,
                                         int32_t pipeline_size, struct lw_colossal_buckets *out,
                                         struct lw_err *err)
{
    return make(grads, n, pipeline_size, true, out, err);
}

/* --- the policy ------------------------------------------------------------------------------- */

static enum lw_status as_bucketing(const struct lw_colossal_buckets *from, int32_t n_items,
                                   struct lw_bucketing *out, struct lw_err *err)
{
    struct lw_bucketing b = {.n_buckets = from->n_buckets};

    LW_TRY(lw_bucketing_room(&b, b.n_buckets, n_items, err));
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

static enum lw_status colossal(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                               struct lw_err *err)
{
    struct lw_colossal_grad *grads = lw_arena_alloc(t->room, t->n_grads, sizeof *grads);
    struct lw_colossal_buckets made;

    if (!grads)
        return lw_fail_nomem(err);
    for (int32_t g = 0; g < t->n_grads; g++)
        grads[g] = (struct lw_colossal_grad){t->grads[g].numel, t->grads[g].dtype, true, true, -1};
    LW_TRY(lw_bucket_colossal_data(grads, t->n_grads, t->n_members, &made, err));
    enum lw_status s = as_bucketing(&made, t->n_grads, &out->buckets, err);
    lw_colossal_buckets_free(&made);
    out->one_by_one = t->s->compat == LW_COMPAT_COLOSSALAI;
    snprintf(out->why, sizeof out->why,
             "one flat buffer per dtype in model order, reduced after the backward: no overlap");
    return s;
}

const struct lw_bucket_policy lw_bucket_policy_colossal = {
    .takes = LW_TAKES_MIXED, .after_backward = true, .skips_unused = true, .assign = colossal,
};
