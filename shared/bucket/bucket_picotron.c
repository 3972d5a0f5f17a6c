/* picotron's gradient buckets (picotron/data_parallel/bucket.py and data_parallel.py@59714b1).
 *
 * Invariants: gradients in registration order, frozen ones have no place; a gradient that would
 * exceed the capacity opens the next bucket unless the current one holds no element (strictly: an
 * exact fit stays, an oversize one goes into an empty bucket and nothing is split); a bucket's
 * buffer ends with its last gradient; there is always at least one bucket. So gradients without
 * elements stay in whatever bucket is open, except after an oversize one.
 *
 * All gradients share one dtype, the gradient dtype; the division by the group's size happens in
 * the buffer before the all-reduce. Compat differs in the capacity (4 bytes for every type but
 * bf16) and in the empty parameter list, which stops the reference system with an index error. */
#include "shared/bucket/bucket_picotron.h"

#include <inttypes.h>
#include <stdio.h>

#include "shared/bucket/policy.h"
#include "shared/numbers/checked.h"

#define DEFAULT_CAP_BYTES (INT64_C(25) << 20)

/* What a cap in bytes is divided by. */
static int64_t element_bytes(enum lw_dtype grad_dtype, bool compat)
{
    if (compat)
        return grad_dtype == LW_BF16 ? 2 : 4;
    return lw_dtype_size(grad_dtype);
}

enum lw_status lw_picotron_capacity(int64_t cap_mib, enum lw_dtype grad_dtype, bool compat,
                                    int64_t *elements, struct lw_err *err)
{
    int64_t bytes;

    if (cap_mib < 0 || __builtin_mul_overflow(cap_mib, INT64_C(1048576), &bytes))
        return lw_fail(err, LW_EINVAL, "bucket cap %" PRId64 " MiB, allowed: 0 to 2^43 - 1",
                       cap_mib);
    *elements = bytes / element_bytes(grad_dtype, compat);
    return LW_OK;
}

static enum lw_status check_input(const int64_t *numel, int32_t n, int64_t capacity, bool compat,
                                  struct lw_err *err)
{
    int64_t sum = 0;

    if (compat && n == 0)
        return lw_fail(err, LW_EINVAL, "no parameters: picotron stops with an index error");
    if (capacity < 0)
        return lw_fail(err, LW_EINVAL, "bucket capacity %" PRId64 " elements, allowed: 0 or more",
                       capacity);
    for (int32_t i = 0; i < n; i++)
        if (numel[i] < 0 || __builtin_add_overflow(sum, numel[i], &sum))
            return lw_fail(err, LW_EINVAL,
                           "parameter %d has %" PRId64
                           " elements, allowed: 0 or more, together below 2^63",
                           i, numel[i]);
    return LW_OK;
}

enum lw_status lw_bucket_picotron(const int64_t *numel, const bool *trainable, int32_t n,
                                  int64_t capacity, bool compat, struct lw_bucketing *buckets,
                                  struct lw_picotron_place *places, struct lw_err *err)
{
    struct lw_bucketing b = {.n_buckets = 1, .next_cap = LW_BUCKET_NO_LIMIT};
    int64_t fill = 0;

    LW_TRY(check_input(numel, n, capacity, compat, err));
    LW_TRY(lw_bucketing_room(&b, n + 1, n, err));
    for (int32_t i = 0; i < n; i++) {
        places[i] = (struct lw_picotron_place){.bucket = -1};
        if (trainable && !trainable[i])
            continue;
        if (fill != 0 && numel[i] > capacity - fill) {
            b.next_cap = fill + numel[i] < b.next_cap ? fill + numel[i] : b.next_cap;
            b.first[b.n_buckets++] = b.n_items;
            fill = 0;
        }
        places[i] = (struct lw_picotron_place){fill, fill + numel[i], b.n_buckets - 1};
        fill += numel[i];
        b.items[b.n_items++] = i;
    }
    b.first[b.n_buckets] = b.n_items;
    for (int32_t k = 0; k < b.n_buckets; k++)
        b.limit_bytes[k] = capacity;
    *buckets = b;
    return LW_OK;
}

struct lw_picotron {
    struct lw_arena arena;
    int32_t n_params, n_buckets;
    int32_t *bucket_of; /* [n_params]; -1 = frozen */
    bool *ready;        /* [n_params] */
    int32_t *pending;   /* [n_buckets] gradients not ready */
    int32_t *size;      /* [n_buckets] */
    bool *launched;     /* [n_buckets]: holds a handle */
};

enum lw_status lw_picotron_new(const struct lw_bucketing *buckets, int32_t n_params,
                               struct lw_picotron **out, struct lw_err *err)
{
    struct lw_picotron *m;

    LW_NEW(m, 1, err);
    m->n_params = n_params;
    m->n_buckets = buckets->n_buckets;
    m->bucket_of = lw_arena_alloc(&m->arena, n_params, sizeof *m->bucket_of);
    m->ready = lw_arena_alloc(&m->arena, n_params, sizeof *m->ready);
    m->pending = lw_arena_alloc(&m->arena, m->n_buckets, sizeof *m->pending);
    m->size = lw_arena_alloc(&m->arena, m->n_buckets, sizeof *m->size);
    m->launched = lw_arena_alloc(&m->arena, m->n_buckets, sizeof *m->launched);
    if (!m->bucket_of || !m->ready || !m->pending || !m->size || !m->launched) {
        lw_picotron_free(m);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < n_params; i++)
        m->bucket_of[i] = -1;
    for (int32_t b = 0; b < m->n_buckets; b++) {
        m->size[b] = buckets->first[b + 1] - buckets->first[b];
        for (int32_t k = buckets->first[b]; k < buckets->first[b + 1]; k++)
            m->bucket_of[buckets->items[k]] = b;
    }
    lw_picotron_reset(m);
    *out = m;
    return LW_OK;
}

void lw_picotron_free(struct lw_picotron *m)
{
    if (!m)
        return;
    lw_arena_free(&m->arena);
    lw_free(m);
}

enum lw_status lw_picotron_mark(struct lw_picotron *m, int32_t param, int32_t *launched,
                                enum lw_picotron_fault *fault, struct lw_err *err)
{
    int32_t b = param >= 0 && param < m->n_params ? m->bucket_of[param] : -1;

    *launched = -1;
    *fault = LW_PICOTRON_KEY;
    if (b < 0)
        return lw_fail(err, LW_EFAILED, "parameter %d is in no bucket: it is frozen or unknown",
                       param);
    *fault = LW_PICOTRON_ASSERTION;
    if (m->ready[param])
        return lw_fail(err, LW_EFAILED, "parameter %d was marked ready twice without a reset",
                       param);
    *fault = LW_PICOTRON_OK;
    m->ready[param] = true;
    if (--m->pending[b] == 0) {
        m->launched[b] = true;
        *launched = b;
    }
    return LW_OK;
}

enum lw_status lw_picotron_wait(struct lw_picotron *m, int32_t *n_waited,
                                enum lw_picotron_fault *fault, struct lw_err *err)
{
    for (*n_waited = 0; *n_waited < m->n_buckets; ++*n_waited)
        if (!m->launched[*n_waited]) {
            *fault = LW_PICOTRON_ASSERTION;
            return lw_fail(err, LW_EFAILED,
                           "bucket %d was never launched: %d of its %d gradients are "
                           "not ready",
                           *n_waited, m->pending[*n_waited], m->size[*n_waited]);
        }
    *fault = LW_PICOTRON_OK;
    return LW_OK;
}

void lw_picotron_reset(struct lw_picotron *m)
{
    for (int32_t i = 0; i < m->n_params; i++)
        m->ready[i] = false;
    for (int32_t b = 0; b < m->n_buckets; b++) {
        m->launched[b] = false;
        m->pending[b] = m->size[b];
    }
}

/* --- the policy ------------------------------------------------------------------------------- */

/* Compat keeps the numbers as registered; else the list is reversed, so that in index order the
 * bucket that completes first goes first. */
static enum lw_status picotron(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                               struct lw_err *err)
{
    bool compat = t->s->compat == LW_COMPAT_PICOTRON;
    int64_t cap = t->s->bucket_cap_bytes >= 0 ? t->s->bucket_cap_bytes : DEFAULT_CAP_BYTES, limit;
    int64_t *numel = lw_arena_alloc(t->room, t->n_grads, sizeof *numel);
    struct lw_picotron_place *places = lw_arena_alloc(t->room, t->n_grads, sizeof *places);
    struct lw_bucketing b;

    if (!numel || !places)
        return lw_fail_nomem(err);
    LW_TRY(lw_bucket_need_one_kind(t, err));
    enum lw_dtype dtype = t->grads[0].dtype;
    int64_t size = element_bytes(dtype, compat), capacity = cap / size;
    for (int32_t g = 0; g < t->n_grads; g++)
        numel[g] = t->grads[g].numel;
    LW_TRY(lw_bucket_picotron(numel, NULL, t->n_grads, capacity, compat, &b, places, err));
    if (__builtin_mul_overflow(capacity, lw_dtype_size(dtype), &limit))
        limit = LW_BUCKET_NO_LIMIT;
    for (int32_t i = 0; i < b.n_buckets; i++)
        b.limit_bytes[i] = limit;
    b.next_cap = lw_mul_sat(b.next_cap, size);
    if (!compat && lw_bucketing_reverse(&b, err) != LW_OK) {
        lw_bucketing_free(&b);
        return LW_ENOMEM;
    }
    out->buckets = b;
    out->in_place = lw_bucket_keeps_dtype(t);
    snprintf(out->why, sizeof out->why,
             "registration order, a bucket holds at most %" PRId64 " elements%s", capacity,
             compat ? "" : ", the list reversed: the one that completes first goes first");
    return LW_OK;
}

const struct lw_bucket_policy lw_bucket_policy_picotron = {
    .takes = LW_TAKES_CAP | LW_TAKES_FIND_UNUSED, .assign = picotron,
};
