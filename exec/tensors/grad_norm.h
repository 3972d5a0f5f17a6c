#pragma once

#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* The gradient norm of a plan that clips: docs/design/grad_norm.md. */

/* How large gradients may be for their squares to add up exactly: *limit, of n_terms gradients
 * that are multiples of the odd part of `divisor`, becomes less where it must. Other plans:
 * nothing. LW_EINVAL: not even +-1 would do. */
enum lw_status exec_norm_limit(const struct lw_plan *p, int64_t n_terms, int32_t divisor,
                               int64_t *limit, struct lw_err *err);

/* A rank's number, and room for it; the number is 0 until something is added. */
enum lw_status exec_norm_alloc(struct exec_tensors *m, int32_t rank, struct lw_err *err);

/* Parts of the copy about the norm's bucket that takes squares (COPY_IN), or that scales
 * (COPY_OUT); others have none. */
enum lw_status exec_norm_parts(const struct exec_tensors *m, const struct lw_op *op,
                               const struct exec_place *at, struct exec_parts *parts,
                               struct lw_err *err);

/* Stores the norms of the local ranks in a step whose batch has ended (slot: its place there);
 * then, by rank and step. */
enum lw_status exec_norm_keep(struct exec_tensors *m, int32_t step, int32_t slot,
                              struct lw_err *err);
double exec_norm_kept(const struct exec_tensors *m, int32_t rank, int32_t step);
