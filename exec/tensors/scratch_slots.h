#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"
#include "shared/check/message_order.h"

/* Where the messages of one program lie: communication without a bucket. Op numbers count within
 * the program.
 *
 * In a run that is not verified all messages of a stream share one slot. In a verified run a
 * message that ops of its rank make and take has its slot from the op that makes it, or from its
 * receive, until the last op that reads it; then another message may reuse the slot. Other messages
 * are set before the step and compared after it: each has a slot of its own in every variant. */

/* Fills scratch_at (of slots that are reused: from 0), apart, before_of, apart_bytes, shared_bytes;
 * the layout's flow and payloads are filled before. order: of the variant; NULL where nothing is
 * verified. first_apart: after the variants before. LW_ENOMEM. */
enum lw_status exec_slots_find(const struct exec_tensors *m, int32_t variant, int32_t role,
                               struct lw_message_order *order, int64_t first_apart,
                               struct exec_layout *l, struct lw_err *err);

/* The largest payload that any rank of the role has in this op. */
int64_t exec_most_bytes(const struct lw_plan *p, const struct lw_op *op, int32_t role);
