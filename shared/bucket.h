#ifndef LW_SHARED_BUCKET_H
#define LW_SHARED_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/arena.h"
#include "shared/dtype.h"
#include "shared/err.h"

/* One gradient as a bucket policy sees it. */
struct lw_grad {
    int64_t numel;
    enum lw_dtype dtype;
    int32_t device;
    bool sparse;
};

/* Buckets as lists of gradient indices: bucket b holds items[first[b]] .. items[first[b+1]-1], in
 * buffer order; limit_bytes[b] is the limit that closed it (0 for a sparse one). */
struct lw_bucketing {
    struct lw_arena arena;
    int32_t n_buckets, n_items;
    int32_t *first, *items;
    int64_t *limit_bytes;
};

void lw_bucketing_free(struct lw_bucketing *b);

/* c10d's assignment by size (rules 1-9 of the c10d semantics; pytorch torch/csrc/distributed/c10d/
 * reducer.cpp, compute_bucket_assignment_by_size, 1.13): one open bucket per (dtype, device), closed
 * once its size has reached the limit; each key walks the limit list on its own.
 *   order[n]  the order in which gradients are visited, NULL = by index; with an order the buckets
 *             stay in closing order, the ones left open by their first-ready gradient
 * LW_EINVAL: no gradients, no limit, a negative limit. */
enum lw_status lw_bucket_assign_c10d(const struct lw_grad *grads, int32_t n, const int32_t *order,
                                     const int64_t *limits, int32_t n_limits,
                                     struct lw_bucketing *out, struct lw_err *err);

#endif
