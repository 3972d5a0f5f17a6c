#pragma once

#include "shared/base/arena.h"
#include "shared/bucket/bucket_merge.h"

/* The recurrence of lw_bucket_optimal without a forward, of many gradients (n >= 1):
 *   best[i] = min over j < i of max(best[j], ready[i-1]) + cost(sums[i] - sums[j]), best[0] = 0,
 * and of equally good j the largest in from[i], both [n + 1]. sums[n + 1]: of the bytes before.
 * m has passed its checks. LW_EINVAL: a cost that is not allowed, or an end after
 * LW_MERGE_TIME_MAX. */
#define LW_MERGE_TIME_MAX (INT64_MAX / 8)
enum lw_status lw_bucket_search(const struct lw_merge *m, const int64_t *sums, lw_ps *best,
                                int32_t *from, struct lw_err *err);
/* The cost of a bucket of so many bytes by an op of m. */
enum lw_status lw_bucket_ask(const struct lw_merge *m, enum lw_op_kind op, int64_t bytes,
                             lw_ps *time, struct lw_err *err);
