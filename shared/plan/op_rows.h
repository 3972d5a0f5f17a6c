#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Ops of a plan as rows that alike ops share (struct lw_op_place), made while ops are added: the
 * table of whole ops never exists. */
enum {
    LW_SHARE_OPS_FROM = 1 << 20,  /* expected ops from which the lowering shares rows, */
    LW_SHARED_OPS_LEAST = 1 << 16 /* and ops that a plan then has: fewer are a table of whole ops */
};

/* What finds the row of an op, and the room of the plan's lists, which are of the heap. */
struct lw_op_sharing {
    int64_t places_capacity, rows_capacity, calls_capacity;
    uint64_t *found; /* [n_found] rows by their hash, by open addressing; 0 = free */
    int64_t n_found;
    int32_t *next; /* [n_op_rows]: the row of the op after the last one of a row */
    int64_t next_capacity;
    bool own; /* ops have struct lw_op_own: modules repeat, not micro-batches */
    int64_t own_capacity;
};

/* About so many ops follow: room for them, up to a limit, from which growing moves pages. */
enum lw_status lw_op_rows_expect(struct lw_plan *p, struct lw_op_sharing *s, int64_t n,
                                 struct lw_err *err);
/* Op i of the plan is this one; those before it have been set. LW_ENOMEM leaves the lists valid. */
enum lw_status lw_op_rows_set(struct lw_plan *p, struct lw_op_sharing *s, int32_t i,
                              const struct lw_op *op, struct lw_err *err);
/* The same with the row of an earlier op, from which it differs in micro-batch and first_dep. */
enum lw_status lw_op_rows_repeat(struct lw_plan *p, struct lw_op_sharing *s, int32_t i,
                                 int32_t from, int32_t micro_batch, int32_t first_dep,
                                 struct lw_err *err);
/* All n_ops are set: the lists go to the plan's arena, cut to their length. On failure those that
 * did not are freed. */
enum lw_status lw_op_rows_settle(struct lw_plan *p, struct lw_op_sharing *s, struct lw_err *err);
/* Of a plan that is not settled. */
void lw_op_rows_free(struct lw_plan *p, struct lw_op_sharing *s);

/* A plan with a table of whole ops gets rows in place of it, with or without struct lw_op_own, and
 * the other way. Neither changes an op. The plan's arena keeps the table of before. */
enum lw_status lw_plan_share_ops(struct lw_plan *p, bool own, struct lw_err *err);
enum lw_status lw_plan_write_ops(struct lw_plan *p, struct lw_err *err);
