#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Repeats of a long pipeline: a run of ops that comes again with later micro-batches. A plan that
 * has very many is proven as one that has fewer (docs/design/plan.md, Repeats). */

enum { LW_REPEAT_MOST = 1 << 12 }; /* ops of a repeat */

/* A program's ops: `before` of them, n_times repeats of `length`, and what is left. length 0: it
 * has no repeats. */
struct lw_repeat {
    int32_t before, length, n_times;
};

/* The repeats of a program of a plan that shares ops: the longest run around its middle in which
 * each op is the one `length` before it but for `stride` micro-batches more, and waits for ops as
 * far before it. Ops of a run are forwards, backwards, sends, receives and host ops of a
 * micro-batch, about no bucket. O(ops + dependencies). */
struct lw_repeat lw_repeat_find(const struct lw_plan *p, struct lw_program g, int32_t stride);

/* *shorter: `out` is the plan with fewer repeats; its tables of ops are of its arena, which the
 * caller frees, and all others are those of p. Then p passes lw_check_programs and lw_check_comm if
 * `out` does. Else the plan has too few repeats, or is none that this holds for, and out's arena is
 * empty. */
enum lw_status lw_plan_shorten(const struct lw_plan *p, struct lw_plan *out, bool *shorter,
                               struct lw_err *err);
