#ifndef LW_EXEC_OPTIMIZER_H
#define LW_EXEC_OPTIMIZER_H

#include <stdint.h>

#include "shared/dtype.h"

/* Stochastic gradient descent in f32, as torch.optim.SGD computes it without weight decay and
 * dampening: state = momentum * state + g; w -= rate * state (w -= rate * g when state is NULL),
 * where g is the gradient over divisor.
 * Element by element with fixed operations, so the same inputs give the same bits on every rank and
 * however the parameters are cut. */
void exec_sgd(float *w, float *state, enum lw_dtype t, const void *g, int64_t n, int32_t divisor,
              float rate, float momentum);

/* The weights a run starts from: the same on every rank, a function of (parameter, element). */
void exec_initial_weights(float *w, int32_t param, int64_t n);

#endif
