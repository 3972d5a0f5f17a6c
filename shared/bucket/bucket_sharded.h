#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/shard/shard_oss.h"

/* FairScale's ShardedDataParallel (fairscale/nn/data_parallel/sharded_ddp.py@146f1602): gradients
 * are reduced to the owner that a sharded optimizer names. See docs/design/bucket_sharded.md. */
enum { LW_SHARDED_BUFFER_DEFAULT = 1 << 23 }; /* elements */

struct lw_sharded_bucket {
    int32_t device, owner; /* destination of its reduce */
    int64_t numel;         /* elements after shrinking to fit */
    int32_t n_items;
    const int32_t *items; /* parameters in buffer order; none: an empty bucket is reduced too */
};

struct lw_sharded_buckets {
    struct lw_arena arena; /* owns everything below */
    int64_t limit;         /* effective, in elements; 0 = no buckets */
    int64_t next_elements; /* the least buffer that may make other buckets; LW_BUCKET_NO_LIMIT */
    int32_t n_trainable, n_buckets;
    int32_t *order;                    /* [n_trainable]: parameters by size, the hooks' order */
    int32_t *bucket_of;                /* [n_trainable]: of order[i]; -1 = reduced alone */
    struct lw_sharded_bucket *buckets; /* in order of creation, devices apart */
};
void lw_sharded_buckets_free(struct lw_sharded_buckets *b);

/* Compat: limit = min(buffer_elements, elements of the whole model), 0 for one member; one bucket
 * per (device, owner), filled while fill + n < limit (an exact fit is refused), so it is a prefix
 * by size; every other gradient is reduced alone; a bucket that only holds gradients without
 * elements is refused (the reference system asserts). By default an exact fit is taken, a full
 * bucket is followed by another, and no bucket is empty. params[n]: as given to the optimizer, with
 * today's trainability. LW_EINVAL: buffer_elements below 0, dtypes mixed in a bucket, the refusal
 * above. */
enum lw_status lw_bucket_sharded(const struct lw_oss *oss, const struct lw_shard_param *params,
                                 int32_t world, int64_t buffer_elements, bool compat,
                                 struct lw_sharded_buckets *out, struct lw_err *err);
