/* Gradients to buckets by size, as c10d does it (pytorch torch/csrc/distributed/c10d/reducer.cpp,
 * compute_bucket_assignment_by_size, 1.13.1).
 *
 * Invariants: one open bucket per key (dtype, device) at a time; a gradient is appended first and
 * the limit tested after, so a limit is a closing threshold and never a capacity; each key has its
 * own place in the limit list and stays on the last entry; a sparse gradient is a bucket alone and
 * does not touch the open one.
 *
 * Two things differ from c10d, both where it leaves the answer open: buckets that stay open under
 * an order are emitted by their first-ready gradient (c10d: hash order), and sizes beyond int64 are
 * refused. Gradients of one bucket are chained by index while it grows, so growing allocates
 * nothing. Where all gradients have one key and none is sparse, a bucket is a run of the order, and
 * nothing is chained. */
#include "shared/bucket/bucket.h"
#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"

#include <stdlib.h>
#include <string.h>

struct key {
    int32_t dtype, device;
};

struct chain { /* a bucket while it grows and after it closed */
    int32_t head, tail, n, first_visit;
    int64_t bytes, limit;
};

struct assign {
    const struct lw_grad *grads;
    const int32_t *order; /* NULL: by index */
    const int64_t *limits;
    int32_t n, n_limits;
    bool alike;           /* one key, none sparse: nothing is chained */
    struct key *keys;     /* sorted, unique */
    int32_t n_keys, last_key; /* of the gradient visited last: mostly that of the next */
    struct chain *open;   /* [n_keys] */
    int32_t *at_limit;    /* [n_keys] */
    struct chain *closed; /* [n_closed], of the heap: mostly few */
    int32_t n_closed;
    int64_t closed_room;
    int32_t *next;        /* [n], not of alike ones: the gradient after this one in its bucket */
    int64_t next_cap;     /* the least last limit that leaves a bucket open which was closed */
    int64_t least_cap;    /* the least that closes no bucket before it was */
    struct lw_arena room; /* of these lists */
};

LW_FREE_BY_ARENA(lw_bucketing_free, struct lw_bucketing)

enum lw_status lw_bucketing_room(struct lw_bucketing *b, int32_t n_buckets, int32_t n_items,
                                 struct lw_err *err)
{
    b->first = lw_arena_alloc(&b->arena, n_buckets + 1L, sizeof *b->first);
    b->items = lw_arena_room(&b->arena, n_items, sizeof *b->items);
    b->limit_bytes = lw_arena_alloc(&b->arena, n_buckets, sizeof *b->limit_bytes);
    if (b->first && b->items && b->limit_bytes)
        return LW_OK;
    lw_bucketing_free(b);
    return lw_fail_nomem(err);
}

static void reverse(int32_t *v, int32_t n)
{
    for (int32_t i = 0, j = n - 1; i < j; i++, j--) {
        int32_t t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}

enum lw_status lw_bucketing_reverse(struct lw_bucketing *b, struct lw_err *err)
{
    int32_t *first;

    LW_TAKE(&b->arena, first, (int64_t)b->n_buckets + 1, err);
    reverse(b->items, b->n_items);
    for (int32_t i = 0; i < b->n_buckets; i++) {
        int32_t from = b->n_buckets - 1 - i, n = b->first[from + 1] - b->first[from];
        reverse(b->items + first[i], n); /* as they were */
        first[i + 1] = first[i] + n;
    }
    for (int32_t i = 0, j = b->n_buckets - 1; i < j; i++, j--) {
        int64_t t = b->limit_bytes[i];
        b->limit_bytes[i] = b->limit_bytes[j];
        b->limit_bytes[j] = t;
    }
    b->first = first;
    b->n_open = 0;
    return LW_OK;
}

LW_COMPARATOR(compare_keys, struct key, a->dtype, b->dtype, a->device, b->device)

LW_COMPARATOR(compare_first_visit, struct chain, a->first_visit, b->first_visit)

static struct key key_of(const struct lw_grad *g)
{
    return (struct key){(int32_t)g->dtype, g->device};
}

static bool is_key(struct key a, struct key b)
{
    return a.dtype == b.dtype && a.device == b.device;
}

/* Sorted, each once. Gradients of one key come in runs: each run is noted once. */
static enum lw_status collect_keys(struct assign *a, struct lw_err *err)
{
    int32_t n = 0;
    bool sparse = false;

    for (int32_t i = 0; i < a->n; i++) {
        struct key key = key_of(&a->grads[i]);
        sparse |= a->grads[i].sparse;
        if (n > 0 && is_key(a->keys[n - 1], key))
            continue;
        a->keys = lw_arena_more(&a->room, a->keys, n, sizeof *a->keys);
        if (!a->keys)
            return lw_fail_nomem(err);
        a->keys[n++] = key;
    }
    lw_sort(a->keys, n, compare_keys);
    for (int32_t i = 0; i < n; i++)
        if (a->n_keys == 0 || !is_key(a->keys[a->n_keys - 1], a->keys[i]))
            a->keys[a->n_keys++] = a->keys[i];
    a->alike = a->n_keys == 1 && !sparse;
    LW_TAKE(&a->room, a->open, a->n_keys, err);
    LW_TAKE(&a->room, a->at_limit, a->n_keys, err);
    return LW_OK;
}

static enum lw_status listed_twice(int32_t grad, struct lw_err *err)
{
    return lw_fail(err, LW_EINVAL, "ready order: gradient %d is listed twice", grad);
}

static void append(struct assign *a, struct chain *c, int32_t grad, int32_t visit)
{
    a->next[grad] = -1;
    if (c->n == 0) {
        c->head = grad;
        c->first_visit = visit;
    } else {
        a->next[c->tail] = grad;
    }
    c->tail = grad;
    c->n++;
}

/* Other caps that make the same buckets: one of key k that takes no more was open with all but
 * `last` bytes, those of the gradient that closed it, and with fewer before. */
static void note_caps(struct assign *a, int32_t k, bool closes, int64_t last)
{
    const struct chain *open = &a->open[k];
    int64_t held = lw_add_sat(open->bytes - last, 1), next = lw_add_sat(open->bytes, 1);

    if (a->at_limit[k] < a->n_limits - 1)
        return;
    a->least_cap = held > a->least_cap ? held : a->least_cap;
    if (closes && next < a->next_cap)
        a->next_cap = next;
}

static enum lw_status close_chain(struct assign *a, const struct chain *c, struct lw_err *err)
{
    LW_ROOM(a->closed, a->closed_room, a->n_closed + 1L, err);
    a->closed[a->n_closed++] = *c;
    return LW_OK;
}

/* Which key it is. */
static int32_t find_key(struct assign *a, struct key key)
{
    if (!is_key(a->keys[a->last_key], key)) {
        const struct key *found =
            bsearch(&key, a->keys, (size_t)a->n_keys, sizeof *a->keys, compare_keys);
        a->last_key = (int32_t)(found - a->keys);
    }
    return a->last_key;
}

/* The open bucket of key k takes one more gradient, and is closed where it is full. */
static inline enum lw_status add_to_open(struct assign *a, int32_t k, int32_t grad, int64_t size,
                                         struct lw_err *err)
{
    struct chain *open = &a->open[k];
    int64_t bytes;

    if (__builtin_mul_overflow(a->grads[grad].numel, size, &bytes) ||
        __builtin_add_overflow(open->bytes, bytes, &open->bytes))
        return lw_fail(err, LW_EINVAL, "gradient %d: the bucket grows beyond 2^63 bytes", grad);
    open->limit = a->limits[a->at_limit[k]];
    if (open->bytes < open->limit)
        return LW_OK;
    note_caps(a, k, true, bytes);
    LW_TRY(close_chain(a, open, err));
    *open = (struct chain){0};
    if (a->at_limit[k] + 1 < a->n_limits)
        a->at_limit[k]++;
    return LW_OK;
}

static enum lw_status visit(struct assign *a, int32_t grad, int32_t when, struct lw_err *err)
{
    const struct lw_grad *g = &a->grads[grad];

    if (g->sparse) {
        struct chain alone = {.limit = 0};
        append(a, &alone, grad, when);
        return close_chain(a, &alone, err);
    }
    int32_t k = find_key(a, key_of(g));
    append(a, &a->open[k], grad, when);
    return add_to_open(a, k, grad, lw_dtype_size(g->dtype), err);
}

static enum lw_status visit_all(struct assign *a, struct lw_err *err)
{
    enum { UNSEEN = -2 };

    LW_TAKE_ROOM(&a->room, a->next, a->n, err);
    for (int32_t i = 0; i < a->n; i++)
        a->next[i] = UNSEEN;
    for (int32_t i = 0; i < a->n; i++) {
        int32_t grad = a->order ? a->order[i] : i;
        if (a->next[grad] != UNSEEN)
            return listed_twice(grad, err);
        LW_TRY(visit(a, grad, i, err));
    }
    return LW_OK;
}

/* Of alike gradients buckets are runs of the order: first_visit and n say which. */
static enum lw_status visit_alike(struct assign *a, struct lw_err *err)
{
    int64_t size = lw_dtype_size(a->grads[0].dtype);
    struct chain *open = a->open;
    bool *seen;

    LW_TAKE(&a->room, seen, a->order ? a->n : 0, err);
    for (int32_t i = 0; i < a->n; i++) {
        int32_t grad = a->order ? a->order[i] : i;
        if (a->order && seen[grad])
            return listed_twice(grad, err);
        if (a->order)
            seen[grad] = true;
        if (open->n++ == 0)
            open->first_visit = i;
        LW_TRY(add_to_open(a, 0, grad, size, err));
    }
    return LW_OK;
}

/* The non-empty open buckets, *n of them, go after the closed ones. */
static enum lw_status close_rest(struct assign *a, int32_t *n, struct lw_err *err)
{
    int32_t before = a->n_closed;

    for (int32_t k = 0; k < a->n_keys; k++) {
        if (a->open[k].n == 0)
            continue;
        note_caps(a, k, false, 0);
        LW_TRY(close_chain(a, &a->open[k], err));
    }
    *n = a->n_closed - before;
    if (*n > 0)
        lw_sort(a->closed + before, *n, compare_first_visit);
    return LW_OK;
}

/* The gradients of a closed bucket, in visiting order. */
static void emit_chain(const struct assign *a, const struct chain *c, int32_t *items)
{
    if (a->alike && a->order) {
        memcpy(items, a->order + c->first_visit, (size_t)c->n * sizeof *items);
        return;
    }
    for (int32_t i = 0; a->alike && i < c->n; i++)
        items[i] = c->first_visit + i;
    for (int32_t g = c->head, i = 0; !a->alike && g >= 0; g = a->next[g])
        items[i++] = g;
}

static enum lw_status emit(const struct assign *a, struct lw_bucketing *b, struct lw_err *err)
{
    LW_TRY(lw_bucketing_room(b, a->n_closed, a->n, err));
    for (int32_t i = 0; i < a->n_closed; i++) {
        emit_chain(a, &a->closed[i], b->items + b->n_items);
        b->n_items += a->closed[i].n;
        b->limit_bytes[i] = a->closed[i].limit;
        b->first[i + 1] = b->n_items;
    }
    b->n_buckets = a->n_closed;
    b->next_cap = a->next_cap;
    b->least_cap = a->least_cap;
    return LW_OK;
}

static enum lw_status check_input(const struct lw_grad *grads, int32_t n, const int32_t *order,
                                  const int64_t *limits, int32_t n_limits, struct lw_err *err)
{
    if (n < 1)
        return lw_fail(err, LW_EINVAL, "found no gradients, expected at least one");
    if (n_limits < 1)
        return lw_fail(err, LW_EINVAL, "a bucket needs at least one size limit");
    for (int32_t i = 0; i < n_limits; i++)
        if (limits[i] < 0)
            return lw_fail(err, LW_EINVAL, "bucket limit %d is negative: %lld bytes", i,
                           (long long)limits[i]);
    for (int32_t i = 0; i < n; i++) {
        if (grads[i].numel < 0)
            return lw_fail(err, LW_EINVAL, "gradient %d has %lld elements", i,
                           (long long)grads[i].numel);
        if (order && (order[i] < 0 || order[i] >= n))
            return lw_fail(err, LW_EINVAL, "ready order: entry %d names gradient %d of %d", i,
                           order[i], n);
    }
    return LW_OK;
}

static enum lw_status run(struct assign *a, struct lw_bucketing *b, struct lw_err *err)
{
    LW_TRY(collect_keys(a, err));
    LW_TRY(a->alike ? visit_alike(a, err) : visit_all(a, err));
    LW_TRY(close_rest(a, &b->n_open, err));
    if (!a->order) /* every bucket's head is its smallest index, and the visit it began with */
        lw_sort(a->closed, a->n_closed, compare_first_visit);
    return emit(a, b, err);
}

enum lw_status lw_bucket_assign_c10d(const struct lw_grad *grads, int32_t n, const int32_t *order,
                                     const int64_t *limits, int32_t n_limits,
                                     struct lw_bucketing *out, struct lw_err *err)
{
    LW_TRY(check_input(grads, n, order, limits, n_limits, err));
    struct lw_bucketing b = {0};
    struct assign a = {.grads = grads, .order = order, .limits = limits,
                       .n = n, .n_limits = n_limits, .next_cap = LW_BUCKET_NO_LIMIT};
    enum lw_status s = run(&a, &b, err);

    lw_arena_free(&a.room);
    lw_free(a.closed);
    LW_GIVE(s, out, b, lw_bucketing_free(&b));
}
