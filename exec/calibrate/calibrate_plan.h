#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "shared/numbers/units.h"

struct lw_plan;

/* The small plans that calibrate runs. Ops carry in `module` the number of the size they belong
 * to. */

/* For each size, one after the other: a backward of gap_ps that fills a gradient of that size, the
 * copy into its bucket, the all-reduce, the copy out. beside_ps, unless NULL: beside each
 * all-reduce a kernel of beside_ps[i], and after both the same kernel again, alone. */
enum lw_status exec_plan_reduce(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps gap_ps,
                                const lw_ps *beside_ps, struct lw_plan *plan, struct lw_err *err);

/* A step's passes over memory, for each size: a backward of no time that fills a gradient of
 * type `grad`, a millisecond of compute, the copy into its bucket, its cast to `wire` where that
 * is another type. Then the buckets are reduced and cast back on the copy stream; then all are
 * copied out. */
enum lw_status exec_plan_passes(int32_t n_ranks, enum lw_dtype grad, enum lw_dtype wire,
                                const int64_t *bytes, int32_t n, struct lw_plan *plan,
                                struct lw_err *err);

/* Copies without a bucket; before each, a gradient four times as large as the largest is filled,
 * so that no cache holds what is copied. */
enum lw_status exec_plan_copies(int32_t n_ranks, const int64_t *bytes, int32_t n,
                                struct lw_plan *plan, struct lw_err *err);

/* A step for each size, one after the other: a gradient of that size is filled, a kernel of
 * work_ps, the optimizer updates its parameter. */
enum lw_status exec_plan_updates(int32_t n_ranks, const int64_t *bytes, int32_t n, lw_ps work_ps,
                                 struct lw_plan *plan, struct lw_err *err);

/* A product of each number of FLOPs. */
enum lw_status exec_plan_products(int32_t n_ranks, const int64_t *flops, int32_t n,
                                  struct lw_plan *plan, struct lw_err *err);

/* Communication without buckets. The first step is another one, an all-reduce of the largest
 * size alone, so that the memory they move is there: zeros that were never written all lie in
 * one page. */

/* Collectives, each after a kernel of work_ps; of all groups of `group` ranks that are `stride`
 * apart at once; group * stride divides n_ranks. A group's root is its first member. n_at_once is
 * 1, or 2: kinds[2] at once, on communicators and streams of their own, and the next kernel waits
 * for both. */
enum lw_status exec_plan_collectives(int32_t n_ranks, int32_t group, int32_t stride,
                                     const enum lw_op_kind *kinds, int32_t n_at_once,
                                     const int64_t *bytes, int32_t n, lw_ps work_ps,
                                     struct lw_plan *plan, struct lw_err *err);

/* For each size: a kernel of gap_ps, then at once a collective of all ranks and a kernel of
 * work_ps[i]; after both the same kernel again, alone. */
enum lw_status exec_plan_with_compute(int32_t n_ranks, enum lw_op_kind kind, const int64_t *bytes,
                                      int32_t n, lw_ps gap_ps, const lw_ps *work_ps,
                                      struct lw_plan *plan, struct lw_err *err);

/* Messages between ranks 0 and `stride`, 1 and stride + 1, and so on of each 2 * stride ranks,
 * after a kernel of work_ps each: one there, then one back. both: beside each another one the
 * other way, on a communicator and a stream of its own. Ranks left over have no messages. At
 * least 2 * stride ranks. */
enum lw_status exec_plan_messages(int32_t n_ranks, int32_t stride, const int64_t *bytes, int32_t n,
                                  bool both, lw_ps work_ps, struct lw_plan *plan,
                                  struct lw_err *err);

/* n kernels of work_ps each, and after each an all-reduce without a bucket, beside the next
 * kernel; an empty kernel waits for the last. */
enum lw_status exec_plan_overlap(int32_t n_ranks, int64_t bytes, int32_t n, lw_ps work_ps,
                                 struct lw_plan *plan, struct lw_err *err);

/* n kernels of work_ps each on one stream. */
enum lw_status exec_plan_kernels(int32_t n_ranks, int32_t n, lw_ps work_ps, struct lw_plan *plan,
                                 struct lw_err *err);
