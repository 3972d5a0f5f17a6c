#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/bucket/bucket.h"

/* ColossalAI's gradient handlers (colossalai/engine/gradient_handler/@96780e6): they run after the
 * backward, flatten gradients by dtype and all-reduce each flat buffer. No size limit, no overlap.
 * See docs/design/bucket_colossal.md. */
struct lw_colossal_grad {
    int64_t numel;
    enum lw_dtype dtype;
    bool trainable, has_grad;
    int32_t shared_group; /* of a module on several stages; -1 = not shared */
};

/* One flat buffer: its gradients in model order. */
struct lw_colossal_bucket {
    int32_t group; /* shared group; -1 = the data-parallel group */
    enum lw_dtype dtype;
    int64_t numel;
    int32_t n_items;
    const int32_t *items;
};

struct lw_colossal_buckets {
    struct lw_arena arena;
    int32_t n_buckets;
    struct lw_colossal_bucket *buckets; /* in the order of their all-reduces */
};
void lw_colossal_buckets_free(struct lw_colossal_buckets *b);

/* The data-parallel handler: trainable gradients that exist, one bucket per dtype in the order in
 * which dtypes appear, divided by the group's size before the all-reduce (SUM). No bucket for a
 * data size of 1. LW_EINVAL: sizes below 0 or beyond 2^63 together, a data size below 1. */
enum lw_status lw_bucket_colossal_data(const struct lw_colossal_grad *grads, int32_t n,
                                       int32_t data_size, struct lw_colossal_buckets *out,
                                       struct lw_err *err);

/* The shared-module handler: gradients of shared parameters by group and dtype, both in the order
 * of their appearance, summed and not divided. No bucket for a single stage. */
enum lw_status lw_bucket_colossal_shared(const struct lw_colossal_grad *grads, int32_t n,
                                         int32_t pipeline_size, struct lw_colossal_buckets *out,
                                         struct lw_err *err);
