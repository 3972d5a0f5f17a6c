#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* The run of the same steps on one rank that a run is compared with, parameter by parameter. It
 * knows of ranks, stages and tensor coordinates, and of no bucket, shard or communicator. */
struct exec_reference {
    const struct exec_tensors *m;
    /* Called in every step of exec_reference_run before its update: sum / divisor is what the
     * optimizer reads; NULL = no call. */
    void (*each_step)(struct exec_reference *f, int32_t param, int32_t rank, int32_t step,
                      int32_t divisor);
    void *context;
    int32_t n_steps, micro_batches;
    float *weights, *state[EXEC_MAX_STATES], *sum; /* [largest parameter] of the one run last */
    /* [the same, of any type]: own its weights in their type, got: room for what it is compared
       with */
    void *own, *got;
    void *before;                /* own, but for the last step's update; NULL: the plan gathers no
                                  * weights ahead */
    bool *copied;                /* [n_params] at several stages */
    double *squares;             /* [n_steps] of all gradients but those of ignored parameters */
    /* [n_local * n_steps] of these, in the rank's replica of the model; NULL = there are none */
    double *own_squares;
};

/* Norms are taken here, where the plan clips. Frees what it made when it fails. */
enum lw_status exec_reference_init(struct exec_reference *f, const struct exec_tensors *m,
                                   int32_t n_steps, struct lw_err *err);
void exec_reference_free(struct exec_reference *f);

/* weights, state, own and before of a parameter after all steps, as a local rank should hold
 * them. */
void exec_reference_run(struct exec_reference *f, int32_t param, int32_t rank);
/* Local ranks that should hold the same of it. */
bool exec_reference_alike(const struct exec_reference *f, int32_t param, int32_t rank,
                          int32_t other);

/* The squares of all gradients that a local rank clips by in a step, added up. */
double exec_reference_squares(const struct exec_reference *f, int32_t rank, int32_t step);

/* Of the last step: the average of a parameter's gradient as the optimizer reads it, clipped by
 * these squares where the plan clips, in f->sum. */
void exec_reference_last(struct exec_reference *f, int32_t param, int32_t rank, double squares);
/* One element's average, clipped and rounded in the same way. */
double exec_reference_clipped(const struct exec_reference *f, int32_t param, double average,
                              double squares);
/* What `other` adds in the last step to an element of the rank's gradient. */
double exec_reference_term(const struct exec_reference *f, int32_t param, int32_t rank,
                           int32_t other, int64_t element);
/* What the sum of these is divided by. */
int32_t exec_reference_divisor(const struct exec_reference *f, int32_t param, int32_t rank);
/* The variant that ends the last step. */
int32_t exec_reference_last_variant(const struct exec_reference *f);
