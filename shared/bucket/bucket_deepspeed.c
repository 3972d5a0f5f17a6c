/* DeepSpeed's buckets of ZeRO-1 and ZeRO-2 (deepspeed/runtime/zero/stage_1_and_2.py@edaa7221,
 * reduce_independent_p_g_buckets_and_remove_grads).
 *
 * Invariants: ready order; a bucket holds at most `limit` elements, unless it is one gradient of
 * more; it goes before the gradient that would overflow it. All gradients have one dtype, and the
 * limit counts elements: a --bucket-cap in bytes is divided by the size of the dtype. */
#include <inttypes.h>
#include <stdio.h>

#include "shared/bucket/policy.h"

#define DEFAULT_ELEMENTS INT64_C(500000000) /* reduce_bucket_size */

static enum lw_status deepspeed(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                                struct lw_err *err)
{
    int64_t limit = DEFAULT_ELEMENTS, held = 0;
    struct lw_bucketing b = {0};

    LW_TRY(lw_bucket_need_one_kind(t, err));
    int64_t size = lw_dtype_size(t->grads[0].dtype);
    if (t->s->bucket_cap_bytes >= 0)
        limit = t->s->bucket_cap_bytes / size;
    LW_TRY(lw_bucketing_room(&b, t->n_grads, t->n_grads, err));
    for (int32_t i = 0; i < t->n_grads; i++) {
        int64_t numel = t->grads[t->order[i]].numel;
        if (i == 0 || (held > 0 && numel > limit - held)) {
            b.limit_bytes[b.n_buckets] = limit * size;
            b.first[b.n_buckets++] = i;
            held = 0;
        }
        b.items[b.n_items++] = t->order[i];
        held += numel;
    }
    b.first[b.n_buckets] = b.n_items;
    out->buckets = b;
    snprintf(out->why, sizeof out->why,
             "ready order, a bucket goes before the gradient that would take it beyond %" PRId64
             " elements", limit);
    return LW_OK;
}

const struct lw_bucket_policy lw_bucket_policy_deepspeed = {
    .takes = LW_TAKES_CAP | LW_TAKES_FIND_UNUSED | LW_TAKES_SHARES, .assign = deepspeed,
};
