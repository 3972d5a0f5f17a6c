#pragma once

#include "traces/trace/trace.h"

/* The rows of `from` after those of `to`, as if one reader had read both: texts get the numbers
 * that they would have had. `from` is empty then. Neither has been sorted, nor has edges, steps or
 * counts. What `from` says of the run replaces what `to` says. LW_ENOMEM: both can only be freed.
 */
enum lw_status lw_trace_append(struct lw_trace *to, struct lw_trace *from, struct lw_err *err);
/* False: their devices appear in different orders. */
bool lw_trace_can_append(const struct lw_trace *to, const struct lw_trace *from);
