#pragma once

#include "shared/base/arena.h"
#include "shared/bucket/bucket.h"
#include "shared/base/err.h"
#include "traces/replay/replay_points.h"
#include "traces/workload/to_workload.h"

/* Other buckets for the gradients of a recorded data-parallel run: which recorded all-reduces they
 * replace, where each new one is launched, and which new ones a recorded wait is for. Fills
 * p->buckets, p->new_of_call and p->replaced_comm; replaced calls launch nothing any more. See
 * docs/design/replay.md.
 * LW_EFORMAT: gradients without shapes, or buckets that do not hold them. */
enum lw_status traces_rebucket(const struct traces_source *s, const struct lw_bucket_request *want,
                               struct lw_arena *arena, struct traces_points *p, struct lw_err *err);
