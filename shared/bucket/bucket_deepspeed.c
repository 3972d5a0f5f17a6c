/* DeepSpeed's buckets of ZeRO-1 and ZeRO-2 (deepspeed/runtime/zero/stage_1_and_2.py@edaa7221,
 * reduce_independent_p_g_buckets_and_remove_grads).
 *
 * Invariants: ready order; a bucket holds at most `limit` elements, unless it is one gradient of
 * more; it goes before the gradient that would overflow it. Each dtype and device has an open
 * bucket of its own; buckets are listed as they are complete. The limit counts elements: a
 * --bucket-cap in bytes is divided by the size of the dtype. */
#include "shared/bucket/bucket_deepspeed.h"

#include <inttypes.h>
#include <stdio.h>

#include "shared/bucket/bucket_fill.h"
#include "shared/bucket/policy.h"
#include "shared/numbers/checked.h"

#define DEFAULT_ELEMENTS INT64_C(500000000) /* reduce_bucket_size */

struct kind { /* of gradients that may share a bucket, and the bucket that takes the next */
    enum lw_dtype dtype;
    int32_t device, bucket;
    int64_t limit, held; /* elements */
};

struct filling {
    const struct lw_bucket_task *t;
    struct kind *kinds;   /* [n_kinds] */
    int32_t n_kinds;
    struct lw_bucket_fill f;
    int64_t next_cap;     /* bytes that would take a gradient into the bucket it went after */
};

int64_t lw_deepspeed_limit(const struct lw_strategy *s, enum lw_dtype grad)
{
    if (s->bucket_cap_bytes >= 0)
        return s->bucket_cap_bytes / lw_dtype_size(grad);
    return s->reduce_elements > 0 ? s->reduce_elements : DEFAULT_ELEMENTS;
}

static struct kind *kind_of(struct filling *f, const struct lw_grad *g)
{
    for (int32_t i = 0; i < f->n_kinds; i++)
        if (f->kinds[i].dtype == g->dtype && f->kinds[i].device == g->device)
            return &f->kinds[i];
    f->kinds[f->n_kinds] = (struct kind){
        .dtype = g->dtype, .device = g->device, .bucket = -1,
        .limit = lw_deepspeed_limit(f->t->s, g->dtype)};
    return &f->kinds[f->n_kinds++];
}

static void fill(struct filling *f)
{
    for (int32_t i = 0; i < f->t->n_grads; i++) {
        const struct lw_grad *g = &f->t->grads[f->t->order[i]];
        struct kind *k = kind_of(f, g);
        bool overflows = k->held > 0 && g->numel > k->limit - k->held;
        if (overflows) {
            int64_t takes = lw_mul_sat(lw_add_sat(k->held, g->numel), lw_dtype_size(g->dtype));
            f->next_cap = takes < f->next_cap ? takes : f->next_cap;
        }
        if (k->bucket < 0 || overflows) {
            k->bucket = lw_bucket_fill_open(&f->f, k->limit * lw_dtype_size(k->dtype));
            k->held = 0;
        }
        lw_bucket_fill_put(&f->f, i, k->bucket);
        k->held += g->numel;
    }
}

static enum lw_status deepspeed(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                                struct lw_err *err)
{
    struct filling f = {.t = t, .next_cap = LW_BUCKET_NO_LIMIT};

    LW_TAKE(t->room, f.kinds, t->n_grads, err);
    LW_TRY(lw_bucket_fill_begin(&f.f, t->order, t->n_grads, t->room, err));
    fill(&f);
    LW_TRY(lw_bucket_fill_list(&f.f, &out->buckets, err));
    out->buckets.next_cap = f.next_cap;
    snprintf(out->why, sizeof out->why,
             "ready order, a bucket goes before the gradient that would take it beyond %" PRId64
             " elements%s", f.kinds[0].limit, f.n_kinds > 1 ? ", one open bucket per kind" : "");
    return LW_OK;
}

const struct lw_bucket_policy lw_bucket_policy_deepspeed = {
    .takes = LW_TAKES_CAP | LW_TAKES_FIND_UNUSED | LW_TAKES_SHARES | LW_TAKES_MIXED,
    .assign = deepspeed,
};
