#pragma once

#include <stdint.h>

#include "shared/device/kernel_share.h"
#include "shared/workload/workload.h"

/* What Muon's orthogonalization of a matrix X computes, by Newton and Schulz's iteration: 5 times
 * A = X X^T, B = b A + c A A, X = a X + B X in 16 bits, X with no more rows than columns
 * (NVIDIA-NeMo/Emerging-Optimizers@fd772926, orthogonalized_optimizers/muon_utils.py,
 * newton_schulz and newton_schulz_step). */
enum { LW_NEWTON_SCHULZ_STEPS = 5, LW_NEWTON_SCHULZ_WORKS = 3 };
/* Of an element, once: the norm and the quotient of f32, casts to 16 bits and back, two factors. */
enum { LW_NEWTON_SCHULZ_BYTES = 40 };
/* Of an element of a matrix that a tensor group gathers: torch copies what NCCL gathered into the
 * list that it was given, and the list is joined (pytorch/pytorch, torch/csrc/distributed/c10d/
 * ProcessGroupNCCL.cpp, allgather; muon_utils.py, newton_schulz_tp: torch.cat). */
enum { LW_NEWTON_SCHULZ_GATHERED_BYTES = 16 };

/* The products of one step. rows, columns: at least 1. */
void lw_newton_schulz_step(int64_t rows, int64_t columns,
                           struct lw_kernel_work out[LW_NEWTON_SCHULZ_WORKS]);

/* The matrices of parameter i of a model, all of one shape: their number, 0 = it has none. Those of
 * experts are as their product has them. */
int64_t lw_newton_schulz_shape(const struct lw_workload *w, int32_t i, int64_t *rows,
                               int64_t *columns);
