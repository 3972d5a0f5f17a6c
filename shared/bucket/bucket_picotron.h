#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/bucket/bucket.h"

/* picotron's BucketManager (picotron/data_parallel/bucket.py@59714b1): gradients in registration
 * order, a bucket is a capacity in elements. See docs/design/bucket_picotron.md. */

/* Capacity in elements for a cap in MiB: cap * 2^20 divided by 2 for bf16 gradients and by 4 for
 * all others in compat, by the true element size else. LW_EINVAL: negative, or beyond int64. */
enum lw_status lw_picotron_capacity(int64_t cap_mib, enum lw_dtype grad_dtype, bool compat,
                                    int64_t *elements, struct lw_err *err);

/* Where a parameter's gradient lies: elements [start, end) of a bucket; bucket -1 = frozen. */
struct lw_picotron_place {
    int64_t start, end;
    int32_t bucket;
};

/* buckets: the parameters of each in order (limit_bytes and next_cap are in ELEMENTS); places[n] is
 * filled. There is always a bucket, an empty one when nothing is trainable.
 *   n_numel[n], trainable[n] (NULL = all)
 * LW_EINVAL: negative sizes or capacity; compat: no parameters at all (the reference system stops
 * with an index error there). O(n). */
enum lw_status lw_bucket_picotron(const int64_t *numel, const bool *trainable, int32_t n,
                                  int64_t capacity, bool compat, struct lw_bucketing *buckets,
                                  struct lw_picotron_place *places, struct lw_err *err);

/* The manager at run time: a bucket is reduced the moment its last gradient is ready (completion
 * order); waiting goes by index. Errors as there: LW_EFAILED with the reason. */
struct lw_picotron;

enum lw_picotron_fault {
    LW_PICOTRON_OK,
    LW_PICOTRON_ASSERTION, /* marked twice, launched twice, or waited for before its launch */
    LW_PICOTRON_KEY,       /* marked: frozen or unknown */
};

enum lw_status lw_picotron_new(const struct lw_bucketing *buckets, int32_t n_params,
                               struct lw_picotron **out, struct lw_err *err);
void lw_picotron_free(struct lw_picotron *m);
/* *launched = the bucket that is reduced now, or -1. */
enum lw_status lw_picotron_mark(struct lw_picotron *m, int32_t param, int32_t *launched,
                                enum lw_picotron_fault *fault, struct lw_err *err);
/* Waits for buckets 0 .. *n_waited - 1 in order; fewer than all only with an error. */
enum lw_status lw_picotron_wait(struct lw_picotron *m, int32_t *n_waited,
                                enum lw_picotron_fault *fault, struct lw_err *err);
void lw_picotron_reset(struct lw_picotron *m);
