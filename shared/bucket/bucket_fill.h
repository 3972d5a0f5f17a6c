#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/bucket/bucket.h"

/* Buckets that are filled in an order of gradients, several open at a time, and listed in the order
 * in which they are complete. */
struct lw_bucket_fill {
    const int32_t *order;  /* [n] gradients, borrowed */
    int32_t n, n_buckets;
    int32_t *bucket_of;    /* [n] by place in the order */
    int32_t *last, *size;  /* [buckets] place of its last gradient; how many it has */
    int64_t *limit_bytes;  /* [buckets] */
};

enum lw_status lw_bucket_fill_begin(struct lw_bucket_fill *f, const int32_t *order, int32_t n,
                                    struct lw_arena *room, struct lw_err *err);
int32_t lw_bucket_fill_open(struct lw_bucket_fill *f, int64_t limit_bytes); /* its number */
void lw_bucket_fill_put(struct lw_bucket_fill *f, int32_t place, int32_t bucket);
/* Every place is in a bucket. Inside a bucket the order stays; next_cap is the caller's. */
enum lw_status lw_bucket_fill_list(struct lw_bucket_fill *f, struct lw_bucketing *out,
                                   struct lw_err *err);
