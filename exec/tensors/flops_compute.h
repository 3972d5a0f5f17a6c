#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Compute ops that say how many FLOPs they do and not how long they take: each is one product of
 * square f32 matrices, as near to that as their rows allow, at the device's own speed. */
enum { EXEC_MAX_SIDE = 16384 }; /* 3 GiB a rank */

/* Rows of the product; 0: the op has a time, or no FLOPs. More than EXEC_MAX_SIDE: EXEC_MAX_SIDE
 * + 1. */
int32_t exec_product_side(const struct lw_plan *p, const struct lw_op *op);

/* Room for the largest product of the plan: two factors of small numbers, which a rank's streams
 * share, and a result for each of them. LW_ENOMEM. */
enum lw_status exec_products_alloc(struct exec_tensors *m, int32_t rank, struct lw_err *err);
enum lw_status exec_product_parts(const struct exec_tensors *m, const struct lw_op *op,
                                  int32_t rank, struct exec_parts *parts, struct lw_err *err);
