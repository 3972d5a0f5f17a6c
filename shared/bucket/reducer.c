/* The reducer of one rank: a counter per bucket. Behaviour of c10d's Reducer (pytorch
 * torch/csrc/distributed/c10d/reducer.cpp, 1.13.1): prepare_for_backward, autograd_hook,
 * mark_variable_ready, mark_bucket_ready.
 *
 * Invariants: pending[b] = gradients of bucket b not marked in this backward; in order, buckets
 * 0 .. next-1 are launched and no other; as they complete, a bucket is launched exactly when its
 * pending count is 0. Unused gradients are marked just before the first real mark, as the first
 * hook of a backward does. A double mark is an error at once; under the rules of 2020 it is found
 * late or never. Not here: copies, scaling, waiting - they are ops of the plan. */
#include "shared/bucket/reducer.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"

struct lw_reducer {
    struct lw_arena arena;
    int32_t n_params, n_buckets;
    enum lw_launch_order order;
    int32_t *bucket_of; /* [n_params] */
    int32_t *size;      /* [n_buckets] gradients */
    int32_t *pending;   /* [n_buckets] */
    int32_t *unused;    /* [n_unused], of the heap */
    int64_t unused_room;
    bool *marked;       /* [n_params] in this backward */
    enum lw_reducer_rules rules;
    int32_t n_unused, n_marked, n_launched, next;
    bool synchronised;
};

enum lw_status lw_reducer_new(int32_t n_params, const int32_t *bucket_of, int32_t n_buckets,
                              enum lw_launch_order order, struct lw_reducer **out,
                              struct lw_err *err)
{
    for (int32_t p = 0; p < n_params; p++)
        if (bucket_of[p] < -1 || bucket_of[p] >= n_buckets)
            return lw_fail(err, LW_EINVAL, "gradient %d is in bucket %d of %d", p, bucket_of[p],
                           n_buckets);
    struct lw_reducer *r;

    LW_NEW(r, 1, err);
    r->n_params = n_params;
    r->n_buckets = n_buckets;
    r->order = order;
    r->bucket_of = lw_arena_room(&r->arena, n_params, sizeof *r->bucket_of);
    r->marked = lw_arena_alloc(&r->arena, n_params, sizeof *r->marked);
    r->size = lw_arena_alloc(&r->arena, n_buckets, sizeof *r->size);
    r->pending = lw_arena_alloc(&r->arena, n_buckets, sizeof *r->pending);
    if (!r->bucket_of || !r->marked || !r->size || !r->pending) {
        lw_reducer_free(r);
        return lw_fail_nomem(err);
    }
    for (int32_t p = 0; p < n_params; p++) {
        r->bucket_of[p] = bucket_of[p];
        if (bucket_of[p] >= 0)
            r->size[bucket_of[p]]++;
    }
    for (int32_t b = 0; b < n_buckets; b++) {
        if (r->size[b] == 0) {
            lw_reducer_free(r);
            return lw_fail(err, LW_EINVAL, "bucket %d holds no gradient", b);
        }
    }
    *out = r;
    return LW_OK;
}

void lw_reducer_set_rules(struct lw_reducer *r, enum lw_reducer_rules rules)
{
    r->rules = rules;
}

enum lw_reducer_rules lw_reducer_rules_of(const struct lw_strategy *s)
{
    return s->compat == LW_COMPAT_C10D && s->bucket_policy == LW_BUCKET_C10D_2020
               ? LW_REDUCER_C10D_2020
               : LW_REDUCER_REPAIRED;
}

void lw_reducer_free(struct lw_reducer *r)
{
    if (!r)
        return;
    lw_arena_free(&r->arena);
    lw_free(r->unused);
    lw_free(r);
}

static enum lw_status fail_unfinished(const struct lw_reducer *r, struct lw_err *err)
{
    enum { SHOWN = 16 };
    int32_t missing[SHOWN], n = lw_reducer_unmarked(r, missing, SHOWN);
    char list[160] = "";
    size_t at = 0;

    for (int32_t i = 0; i < n && i < SHOWN; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", i ? ", " : "", missing[i]);
    return lw_fail(err, LW_EFAILED,
                   "the previous backward is unfinished: %d of %d buckets were launched, because "
                   "gradients %s%s never became ready", r->n_launched, r->n_buckets, list,
                   n > SHOWN ? ", ..." : "");
}

enum lw_status lw_reducer_begin(struct lw_reducer *r, bool synchronised, struct lw_err *err)
{
    if (r->synchronised && r->n_marked > 0 && !lw_reducer_finished(r))
        return fail_unfinished(r, err);
    memset(r->marked, 0, (size_t)r->n_params * sizeof *r->marked);
    r->synchronised = synchronised;
    r->n_unused = r->n_marked = r->n_launched = r->next = 0;
    if (synchronised)
        memcpy(r->pending, r->size, (size_t)r->n_buckets * sizeof *r->pending);
    return LW_OK;
}

enum lw_status lw_reducer_unused(struct lw_reducer *r, const int32_t *params, int32_t n,
                                 struct lw_err *err)
{
    if (r->n_marked > 0)
        return lw_fail(err, LW_EINVAL, "unused gradients must be declared before the first is "
                                       "ready");
    if (n > r->n_params)
        return lw_fail(err, LW_EINVAL, "%d unused gradients of %d", n, r->n_params);
    for (int32_t i = 0; i < n; i++)
        if (params[i] < 0 || params[i] >= r->n_params || r->bucket_of[params[i]] < 0)
            return lw_fail(err, LW_EINVAL, "unused gradient %d is in no bucket", params[i]);
    LW_ROOM(r->unused, r->unused_room, n, err);
    if (n > 0)
        memcpy(r->unused, params, (size_t)n * sizeof *params);
    r->n_unused = n;
    return LW_OK;
}

static void launch(struct lw_reducer *r, int32_t b, int32_t *launches, int32_t *n)
{
    if (r->order == LW_LAUNCH_COMPLETION) {
        launches[(*n)++] = b;
        r->n_launched++;
        return;
    }
    while (r->next < r->n_buckets && r->pending[r->next] == 0) {
        launches[(*n)++] = r->next++;
        r->n_launched++;
    }
}

static inline enum lw_status mark(struct lw_reducer *r, int32_t p, int32_t *launches, int32_t *n,
                                  struct lw_err *err)
{
    if (p < 0 || p >= r->n_params || r->bucket_of[p] < 0)
        return lw_fail(err, LW_EFAILED, "gradient %d became ready, but is in no bucket", p);
    int32_t b = r->bucket_of[p];
    if (r->rules == LW_REDUCER_C10D_2020 && r->pending[b] == 0)
        return lw_fail(err, LW_EFAILED, "gradient %d became ready, but bucket %d has left with as "
                                        "many marks as it has gradients: one of them was marked "
                                        "twice in this backward", p, b);
    if (r->rules != LW_REDUCER_C10D_2020 && r->marked[p])
        return lw_fail(err, LW_EFAILED, "gradient %d became ready twice in one backward", p);
    r->marked[p] = true;
    r->n_marked++;
    if (--r->pending[b] == 0)
        launch(r, b, launches, n);
    return LW_OK;
}

enum lw_status lw_reducer_mark_list(struct lw_reducer *r, const int32_t *params, int32_t n,
                                    int32_t *launches, int32_t *n_launches, struct lw_err *err)
{
    int32_t found = 0, n_unused = r->n_unused;

    *n_launches = 0;
    if (!r->synchronised || n == 0)
        return LW_OK;
    r->n_unused = 0;
    for (int32_t i = 0; i < n_unused; i++)
        LW_TRY(mark(r, r->unused[i], launches, &found, err));
    for (int32_t i = 0; i < n; i++)
        LW_TRY(mark(r, params[i], launches, &found, err));
    *n_launches = found;
    return LW_OK;
}

enum lw_status lw_reducer_mark(struct lw_reducer *r, int32_t p, int32_t *launches,
                               int32_t *n_launches, struct lw_err *err)
{
    return lw_reducer_mark_list(r, &p, 1, launches, n_launches, err);
}

bool lw_reducer_finished(const struct lw_reducer *r)
{
    return r->n_launched == r->n_buckets;
}

int32_t lw_reducer_unmarked(const struct lw_reducer *r, int32_t *params, int32_t room)
{
    int32_t n = 0;

    for (int32_t p = 0; p < r->n_params; p++) {
        if (r->bucket_of[p] < 0 || r->marked[p])
            continue;
        if (n < room)
            params[n] = p;
        n++;
    }
    return n;
}
