#pragma once

#include <stdint.h>

#include "exec/tensors/grad_sums.h"
#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* Compare every rank's weights and optimizer state, bit by bit, with a run of the same n_steps
 * on one rank that sees every gradient itself, and the sums of what its optimizer read in each
 * step. *n_bytes: how much of weights and state was compared. LW_ENO names parameter, element,
 * rank, both values, and what the last step's gradient suggests (one rank's lost, or counted
 * twice); of a sum step, parameter and rank. Nothing may be in flight. Sorts the sums. */
enum lw_status exec_verify(const struct exec_tensors *m, int32_t n_steps, struct exec_sums *sums,
                           int64_t *n_bytes, struct lw_err *err);

/* The optimizer state that exec_consolidate gathered for a rank: as one rank alone would hold
 * it. */
enum lw_status exec_verify_consolidated(const struct exec_tensors *m, int32_t n_steps, int32_t rank,
                                        const float *whole, struct lw_err *err);
