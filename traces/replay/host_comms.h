#pragma once

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/replay/replay_points.h"
#include "traces/trace/comm_facts.h"
#include "traces/workload/to_workload.h"

/* Finds the collectives that the host runs itself (gloo), and when their threads waited for them:
 * fills p->comms, p->n_comms and p->n_workers. Memory is the arena's. */
enum lw_status traces_host_comms_find(const struct traces_source *s, struct lw_arena *arena,
                                      struct traces_points *p, struct lw_err *err);

/* What such a collective's run says of it. Without an element type (torch 1.13) it is f32. */
struct traces_comm_fact traces_host_comm_fact(const struct lw_trace *t, int64_t row);

/* The rows in which DistributedDataParallel copies the reduced gradients of a step out of their
 * buckets, in time order: it waits for each bucket before the first copy of it. n = 0 where
 * gradients are views of their buckets, or the trace is of something else. */
enum lw_status traces_copies_out(const struct lw_trace *t, const struct lw_step *step,
                                 struct lw_arena *arena, int64_t **rows, int64_t *n,
                                 struct lw_err *err);
