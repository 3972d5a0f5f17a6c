/* Megatron-LM's gradient buckets (NVIDIA/Megatron-LM@00119989
 * megatron/core/distributed/param_and_grad_buffer.py, _ParamAndGradBuffer, and
 * distributed_data_parallel.py, DistributedDataParallel).
 *
 * Invariants: gradients in the reverse order of registration, each dtype and kind (experts or not)
 * in a buffer of its own; a bucket closes once it has `limit` elements: max(40,000,000, 1,000,000
 * times the data-parallel ranks), or --bucket-cap divided by the size of a gradient. With the
 * distributed optimizer (--zero with --shard-policy flat-contiguous) parameters begin at multiples
 * of 64 elements, and a bucket ends at a multiple of lcm(ranks, 128), so that it is cut into equal
 * shares. There is one bucket on later model chunks, on stages after the first, and without
 * --overlap. Gradients are views of the buffer; the bucket is scaled before its reduction
 * (gradient_scaling_factor).
 *
 * Not modelled: the bucket of its own that the copy of an embedding has at the last stage
 * (shared_embedding), and --ddp-num-buckets. */
#include "shared/bucket/bucket_megatron.h"

#include <inttypes.h>
#include <stdio.h>

#include "shared/bucket/bucket_fill.h"
#include "shared/bucket/policy.h"
#include "shared/numbers/checked.h"

enum { START_ELEMENTS = 64, END_ELEMENTS = 128 };

#define LEAST_ELEMENTS INT64_C(40000000)
#define ELEMENTS_PER_RANK INT64_C(1000000)

static bool aligns(const struct lw_strategy *s)
{
    return s->bucket_policy == LW_BUCKET_MEGATRON && s->zero >= 1 &&
           s->shard_policy == LW_SHARD_FLAT;
}

static int64_t up_to_multiple(int64_t x, int64_t of)
{
    return (x + of - 1) / of * of;
}

int64_t lw_megatron_start(const struct lw_strategy *s, int64_t at)
{
    return aligns(s) ? up_to_multiple(at, START_ELEMENTS) : at;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

int64_t lw_megatron_end(const struct lw_strategy *s, int64_t at, int32_t n_members)
{
    return aligns(s) ? up_to_multiple(at, (int64_t)n_members / common_divisor(n_members,
                                                                              END_ELEMENTS) *
                                              END_ELEMENTS)
                     : at;
}

struct kind { /* of gradients that share a buffer, and its open bucket */
    enum lw_dtype dtype;
    int32_t device, bucket;
    int64_t limit, held;
};

static int64_t limit_of(const struct lw_bucket_task *t, enum lw_dtype dtype)
{
    int64_t least = lw_mul_sat(ELEMENTS_PER_RANK, t->n_members);

    if (!t->first_part || !t->s->overlap)
        return INT64_MAX;
    if (t->s->bucket_cap_bytes >= 0)
        return t->s->bucket_cap_bytes / lw_dtype_size(dtype);
    return least > LEAST_ELEMENTS ? least : LEAST_ELEMENTS;
}

static struct kind *kind_of(const struct lw_bucket_task *t, struct kind *kinds, int32_t *n,
                            const struct lw_grad *g)
{
    for (int32_t i = 0; i < *n; i++)
        if (kinds[i].dtype == g->dtype && kinds[i].device == g->device)
            return &kinds[i];
    kinds[*n] = (struct kind){.dtype = g->dtype, .device = g->device, .bucket = -1,
                              .limit = limit_of(t, g->dtype)};
    return &kinds[(*n)++];
}

/* The caps in bytes from which on a closed bucket would take one more gradient, and below which one
 * would close earlier. */
struct caps {
    int64_t next, least;
};

static void note_caps(const struct kind *k, int64_t size, struct caps *c)
{
    int64_t after = lw_mul_sat(lw_add_sat(k->held, 1), size);

    if (k->bucket < 0 || k->limit == INT64_MAX)
        return;
    if (k->held >= k->limit)
        c->next = after < c->next ? after : c->next;
    else
        c->least = after > c->least ? after : c->least;
}

static struct caps fill(const struct lw_bucket_task *t, struct kind *kinds, int32_t *n_kinds,
                        struct lw_bucket_fill *f)
{
    struct caps caps = {LW_BUCKET_NO_LIMIT, 1};

    for (int32_t i = 0; i < f->n; i++) {
        const struct lw_grad *g = &t->grads[f->order[i]];
        struct kind *k = kind_of(t, kinds, n_kinds, g);
        int64_t size = lw_dtype_size(g->dtype);
        note_caps(k, size, &caps);
        if (k->bucket < 0 || k->held >= k->limit) {
            k->bucket = lw_bucket_fill_open(f, k->limit == INT64_MAX ? LW_BUCKET_NO_LIMIT
                                                                     : k->limit * size);
            k->held = 0;
        }
        lw_bucket_fill_put(f, i, k->bucket);
        k->held = lw_add_sat(lw_megatron_start(t->s, k->held), g->numel);
    }
    return caps;
}

static enum lw_status megatron(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                               struct lw_err *err)
{
    struct lw_bucket_fill f;
    struct kind *kinds;
    int32_t *order, n_kinds = 0;

    LW_TAKE(t->room, kinds, t->n_grads, err);
    LW_TAKE(t->room, order, t->n_grads, err);
    for (int32_t i = 0; i < t->n_grads; i++)
        order[i] = t->n_grads - 1 - i;
    LW_TRY(lw_bucket_fill_begin(&f, order, t->n_grads, t->room, err));
    const struct caps caps = fill(t, kinds, &n_kinds, &f);
    LW_TRY(lw_bucket_fill_list(&f, &out->buckets, err));
    out->buckets.next_cap = caps.next;
    out->buckets.least_cap = caps.least;
    out->in_place = true;
    if (kinds[0].limit == INT64_MAX)
        snprintf(out->why, sizeof out->why, "one bucket per kind: %s",
                 t->s->overlap ? "the part is not the first of the model"
                               : "nothing overlaps the backward");
    else
        snprintf(out->why, sizeof out->why,
                 "reverse registration, a bucket closes once it has %" PRId64 " elements%s",
                 kinds[0].limit, n_kinds > 1 ? ", one open bucket per kind" : "");
    return LW_OK;
}

const struct lw_bucket_policy lw_bucket_policy_megatron = {
    .takes = LW_TAKES_CAP | LW_TAKES_SHARES | LW_TAKES_MIXED,
    .scales = LW_SCALE_AT_LAUNCH,
    .assign = megatron,
};
