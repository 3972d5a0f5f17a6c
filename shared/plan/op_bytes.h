#pragma once

#include "shared/base/arena.h"
#include "shared/base/hash.h"
#include "shared/plan/plan.h"
#include "shared/plan/plan_work.h"

/* The canonical bytes of ops that share rows (shared/plan/op_rows.h), made from those of the first
 * op of the row: an op differs from it in a few numbers, whose places are known. */

/* Feeds op i field by field. */
typedef void lw_feed_op_fn(void *ctx, struct lw_hash *h, int64_t i);

/* Feed all ops to h, as `feed` does one after the other. p->ops is NULL, and no number of an op is
 * verified. */
enum lw_status lw_hash_shared_ops(struct lw_hash *h, const struct lw_plan *p,
                                  const struct lw_whole_works *works, lw_feed_op_fn *feed,
                                  void *ctx, struct lw_err *err);
