#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/trace.h"

/* When a host thread ran ops: of a recording without device ops, that is where it computed. Ranges
 * that a person or a library put around work do not count (lw_row_is_range). */
struct traces_host_busy {
    int64_t n;
    int64_t *start, *end; /* [n] in order, apart from each other */
    int64_t *before;      /* [n] busy in the intervals before */
};

/* Memory is the arena's. */
enum lw_status traces_host_busy_build(const struct lw_trace *t, int32_t thread,
                                      struct lw_arena *arena, struct traces_host_busy *out,
                                      struct lw_err *err);
/* Of [from, to). */
int64_t traces_host_busy_ns(const struct traces_host_busy *b, int64_t from, int64_t to);

/* Whether it ran an op at ns, and when that changes next; INT64_MAX = never. */
bool traces_host_busy_at(const struct traces_host_busy *b, int64_t ns, int64_t *until);
