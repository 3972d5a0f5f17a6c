#pragma once

#include <stdint.h>

#include "exec/backend/scalar.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"

/* Optimizers in f32, element by element with fixed operations, so that the same inputs give the
 * same bits on every rank, on a GPU, and however the parameters are cut. g is the gradient over
 * divisor.
 *   sgd       w -= rate * g
 *   momentum  m = momentum * m + g; w -= rate * m              (torch.optim.SGD, no dampening)
 *   adam      m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g;
 *             w -= rate_t * m / (sqrt(v) / root_t + epsilon)
 *             (Kingma and Ba, ICLR 2015, section 2, in torch.optim.Adam's order:
 *             rate_t = rate / (1 - beta1^t), root_t = sqrt(1 - beta2^t)) */
enum exec_optimizer_kind { EXEC_SGD, EXEC_MOMENTUM, EXEC_ADAM, EXEC_N_OPTIMIZERS };

struct exec_optimizer {
    enum exec_optimizer_kind kind;
    float rate, momentum;        /* momentum: beta1 of adam */
    float beta2, epsilon;        /* of adam */
};

struct exec_optimizer exec_optimizer_of(enum exec_optimizer_kind kind); /* usual values */
const char *exec_optimizer_name(enum exec_optimizer_kind kind);
/* By its name (NULL: momentum where one is given, else sgd), with its own momentum where that is
 * negative. LW_EUSAGE: one that the optimizer does not take. */
enum lw_status exec_optimizer_choose(const char *name, double momentum, struct exec_optimizer *out,
                                     struct lw_err *err);
/* f32 arrays of the parameter's size that it keeps: 0, 1 or 2. */
int32_t exec_optimizer_states(enum exec_optimizer_kind kind);

/* The figures of one step. */
struct exec_update {
    int32_t kind;
    float rate, momentum, rest1, beta2, rest2, epsilon, root; /* rest = 1 - beta */
};
/* step 0, 1, ... */
struct exec_update exec_update_of(const struct exec_optimizer *o, int64_t step);

/* One element: the arithmetic that host and GPU share. */
EXEC_BOTH void exec_update_one(const struct exec_update *u, float *w, float *m, float *v, float g)
{
    if (u->kind == EXEC_ADAM) {
        *m = u->momentum * *m + u->rest1 * g;
        *v = u->beta2 * *v + u->rest2 * (g * g);
        *w -= u->rate * *m / (sqrtf(*v) / u->root + u->epsilon);
    } else if (u->kind == EXEC_MOMENTUM) {
        *m = u->momentum * *m + g;
        *w -= u->rate * *m;
    } else {
        *w -= u->rate * g;
    }
}

/* w[n], m[n], v[n]; m and v as the kind keeps them, else unused. */
void exec_update_run(const struct exec_update *u, float *w, float *m, float *v, enum lw_dtype t,
                     const void *g, int64_t n, int32_t divisor);

/* The weights a run starts from: the same on every rank, a function of (parameter, element), where
 * element i + EXEC_WEIGHTS_REPEAT has the value of element i. */
enum { EXEC_WEIGHTS_REPEAT = 2048 };
void exec_initial_weights(float *w, int32_t param, int64_t n);
