#ifndef LW_EXEC_CALIBRATE_PLAN_H
#define LW_EXEC_CALIBRATE_PLAN_H

#include <stdint.h>

#include "shared/err.h"
#include "shared/op.h"
#include "shared/plan.h"

/* The small plans that calibrate runs. Ops carry in `module` the number of the size they belong to. */

/* For each size, one after the other with nothing beside it: a backward of work_ps that fills a
 * gradient of that size, the copy into its bucket, the all-reduce, the copy out. */
enum lw_status exec_plan_alone(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps work_ps,
                               struct lw_plan *plan, struct lw_err *err);

/* The same, but beside each all-reduce a kernel of work_ps[i], and behind both the same kernel again,
 * alone. */
enum lw_status exec_plan_beside(int32_t n_ranks, const int64_t *bytes, int32_t n,
                                const lw_ps *work_ps, struct lw_plan *plan, struct lw_err *err);

/* A step's copies: all gradients filled and copied in, with a millisecond of compute before each and
 * their all-reduces beside; then all copied out. */
enum lw_status exec_plan_copies(int32_t n_ranks, const int64_t *bytes, int32_t n,
                                struct lw_plan *plan, struct lw_err *err);

/* Collectives without buckets, each alone behind a kernel of work_ps. */
enum lw_status exec_plan_collectives(int32_t n_ranks, enum lw_op_kind kind, const int64_t *bytes,
                                     int32_t n, lw_ps work_ps, struct lw_plan *plan,
                                     struct lw_err *err);

/* Pairs of all-reduces that run at once, on communicators and streams of their own, behind a kernel of
 * work_ps that waits for the pair before. */
enum lw_status exec_plan_pairs(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps work_ps,
                               struct lw_plan *plan, struct lw_err *err);

/* n kernels of work_ps each, and behind each an all-reduce without a bucket, beside the next kernel; an
 * empty kernel waits for the last. */
enum lw_status exec_plan_overlap(int32_t n_ranks, int64_t bytes, int32_t n, lw_ps work_ps,
                                 struct lw_plan *plan, struct lw_err *err);

/* n kernels of work_ps each on one stream. */
enum lw_status exec_plan_kernels(int32_t n_ranks, int32_t n, lw_ps work_ps, struct lw_plan *plan,
                                 struct lw_err *err);

#endif
