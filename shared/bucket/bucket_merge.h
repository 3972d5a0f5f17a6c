#pragma once

#include <stdint.h>

#include "shared/bucket/bucket.h"
#include "shared/plan/cost.h"

/* Buckets chosen by the time they take: runs of gradients in ready order, one channel, a bucket
 * starts when the one before it ended and its last gradient is ready. Times are whole numbers in
 * the unit of the cost (picoseconds in plans). See docs/design/bucket_merge.md. */
struct lw_merge {
    int32_t n;
    const int64_t *bytes;       /* [n] in ready order, >= 0; borrowed */
    const lw_ps *ready;         /* [n] ascending, >= 0 */
    const struct lw_cost *cost; /* asked with `query` and the bytes of a bucket */
    struct lw_cost_query query;
    /* To count the next step's forward too (DeAR): forward[i] >= 0 is the forward time of the
     * modules whose gradients item i represents. NULL = only the backward. The buckets are then
     * reduce-scattered in ready order and, `between` after the last one ended, all-gathered in the
     * opposite order; a bucket's modules run once it is gathered and the modules before them ran.
     */
    const lw_ps *forward;
    lw_ps between; /* optimizer step */
};

/* End time of buckets that are runs of the items: bucket b holds items first[b] .. first[b+1]-1 of
 * ready order. With forward: the end of the next forward. LW_EINVAL: bad sizes, times not
 * ascending, runs that do not tile the items, a negative cost. */
enum lw_status lw_merge_end(const struct lw_merge *m, const int32_t *first, int32_t n_buckets,
                            lw_ps *end, struct lw_err *err);

/* MG-WFBP's rule (MG-WFBP distributed_optimizer.py@507f409d; Shi et al., INFOCOM 2019): from the
 * first ready gradient on, merge a bucket into the next one if its transfer could not start before
 * that one is ready, or if waiting for it costs less than what merging saves,
 * cost(a) + cost(b) - cost(a + b), the start-up time of an alpha-beta cost. Looks at the backward
 * alone; *end (may be NULL) is lw_merge_end. Items of `out` are places in ready order. O(n). */
enum lw_status lw_bucket_mg_wfbp(const struct lw_merge *m, struct lw_bucketing *out, lw_ps *end,
                                 struct lw_err *err);

/* The exact minimum of lw_merge_end over all runs; of equally good ways to end a prefix the one
 * whose last bucket begins latest. All n^2 / 2 runs are looked at; above LW_MERGE_EVERY gradients,
 * without forward, those that a bound leaves (bucket_search.h). LW_ENOTSUP: n above LW_MERGE_MAX;
 * with forward, more than LW_MERGE_LABELS partial answers none of which is worse in every respect
 * than another. */
enum { LW_MERGE_EVERY = 2048, LW_MERGE_MAX = 32768, LW_MERGE_LABELS = 1 << 20 };
enum lw_status lw_bucket_optimal(const struct lw_merge *m, struct lw_bucketing *out, lw_ps *end,
                                 struct lw_err *err);
