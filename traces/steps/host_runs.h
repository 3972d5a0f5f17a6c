#pragma once

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/trace.h"

/* Collectives that the host runs: gloo's own ranges. */
bool traces_is_host_run(const struct lw_trace *t, int64_t row);
/* launch[row] of each run: the call (c10d::...) that handed it over, the k-th of the k-th run to
 * start; -1: none, and of rows that are no runs. No id joins the two. */
enum lw_status traces_host_launches(const struct lw_trace *t, struct lw_arena *arena,
                                    int64_t **launch, struct lw_err *err);
/* fully_shard's own ranges: gathers and sums of gradients, which block on a host, with what copies
 * in and out of them. */
bool traces_is_fsdp(const struct lw_trace *t, int64_t row);
/* holds[row]: an op of the host that encloses one of these ranges, as a node of the backward does:
 * it ran no longer than what is in it. */
enum lw_status traces_holds_fsdp(const struct lw_trace *t, struct lw_arena *arena, bool **holds,
                                 struct lw_err *err);
